"""Arguments that everything that measures takes: how often, how long, and where results are."""

from __future__ import annotations

import argparse
from pathlib import Path


def add(
    parser: argparse.ArgumentParser,
    unit: str,
    file: Path,
    *,
    limit: int,
    minutes: float | None,
    minutes_text: str,
) -> None:
    """Add them; a `unit` is what a process of its own measures."""
    parser.add_argument("--repeat", type=int, default=9, help="samples of each (default 9)")
    parser.add_argument(
        "--minutes",
        type=float,
        default=minutes,
        help=f"begin no {unit} after so long (default {minutes_text})",
    )
    parser.add_argument(
        "--limit",
        type=int,
        default=limit,
        help=f"seconds that a {unit} may take (default {limit})",
    )
    parser.add_argument(
        "--file", type=Path, default=file, help=f"where results are (default: {file.name})"
    )
