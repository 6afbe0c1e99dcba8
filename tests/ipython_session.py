"""Cells that run one after the other in one session of IPython."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from own_process import printed

# A new process: the shell would take over the hooks of this one.
_SESSION = """
import contextlib, io, json, sys
from traitlets.config import Config
from IPython.core.interactiveshell import InteractiveShell

config = Config()
config.HistoryManager.enabled = False
shell = InteractiveShell.instance(config=config)
printed = []
for name, cell, fails in json.load(sys.stdin):
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        result = shell.run_cell(cell, store_history=True)
    assert result.success != fails, f"{name}\\n{shown.getvalue()}"
    printed.append(shown.getvalue())
json.dump(printed, sys.stdout)
"""


def ran(script: str, given: Any, folder: Path, **more: str) -> Any:
    """What a script, which is given something on its standard input, prints last."""
    folder.mkdir(exist_ok=True)
    more |= {"IPYTHONDIR": str(folder), "MPLBACKEND": "agg"}
    said = printed("-c", script, given=json.dumps(given), folder=folder, **more)
    return json.loads(said.splitlines()[-1])


def session(cells: Iterable[tuple[str, str, bool]], folder: Path) -> list[str]:
    """What each cell prints; a cell is its name, its text, and whether it fails."""
    found: list[str] = ran(_SESSION, list(cells), folder)
    return found
