"""Make one notebook of scripts, and execute it.

    python examples/notebook.py OUTPUT SCRIPT...

Lines that begin with `# %%` part a script into cells, and those marked `[markdown]` are text.
The notebook is run where it will lie, so that it finds what the scripts import.
"""

from __future__ import annotations

import sys
from pathlib import Path

import jupytext
import nbclient
import nbformat


def main(output: Path, *scripts: Path) -> None:
    first, *others = [jupytext.read(script, fmt="py:percent") for script in scripts]
    for other in others:
        first.cells += other.cells
    first.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    place = {"metadata": {"path": str(output.parent)}}
    nbclient.NotebookClient(first, timeout=None, resources=place).execute()
    nbformat.write(first, output)
    print(output)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
