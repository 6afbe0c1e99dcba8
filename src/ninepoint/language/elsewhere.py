"""Options as other libraries call them: what to write here instead."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# What other libraries call an option, and what to write here.
_FOREIGN = {
    "mode": 'what lies beyond the border is boundary="reflect" and so on',
    "borderType": 'what lies beyond the border is boundary="reflect" and so on',
    "border": 'what lies beyond the border is boundary="reflect" and so on',
    "pad_mode": 'what lies beyond the border is boundary="reflect" and so on',
    "padding": 'what lies beyond the border is boundary="reflect" and so on',
    "constant_values": "the value beyond the border is cval=",
    "fill_value": "the value beyond the border is cval=",
    "axis": "the axes that the stencil works on are axes=(0, 1) and so on",
    "channel_axis": "the axes that the stencil works on are axes=(0, 1) and so on",
    "dim": 'the dimensions that the stencil works on are dims=("y", "x") and so on',
    "output": "the array for the result is out=, its dtype dtype=",
    "num_threads": "the number of threads is threads=",
    "workers": "the number of threads is threads=",
    "size": "a kernel says itself where it looks, as in x[-1:2, -1:2]",
    "footprint": "a kernel says itself where it looks, as in x[-1:2, -1:2]",
    "origin": "a kernel says itself where it looks; a window that begins later is x[0:3]",
    "depth": "how far a kernel looks is found by itself",
    "parallel": "calls use all cores by themselves; threads= limits them",
    "nopython": "everything is compiled",
    "nogil": "compiled code lets other threads run by itself",
    "where": "numpy.where(condition, result, other) chooses after the call",
    "casting": "the type of the result is dtype=, and overflow= says what happens beyond it",
    "subok": "results are arrays of the kind of the fields",
    "order": "results lie in memory as the fields do",
    "signature": "each combination of types is compiled when it first comes",
    "signatures": "each combination of types is compiled when it first comes",
    "target": 'calls use all cores by themselves; threads= limits them; a GPU is device="cuda"',
    "identity": "numpy.add.reduce and its like reduce what a call makes",
    "cache": "machine code is kept on disk by itself",
    "func_or_mode": 'what lies beyond the border is boundary="fill" and so on',
}


def hint(name: str, known: Iterable[str] = ()) -> str:
    """What to write for an option that has this name elsewhere, as the end of a message.

    Else which of the `known` names it may be, misspelt.
    """
    cure = _FOREIGN.get(name)
    if cure is None and (close := alike(name, known)):
        cure = f"perhaps you mean {close}"
    return "" if cure is None else f"; {cure}"


def alike(name: str, known: Iterable[str]) -> str:
    """The name that is spelt most like this one; empty where none is."""
    return next(iter(difflib.get_close_matches(name, known, 1)), "")
