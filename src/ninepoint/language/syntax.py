"""Syntax trees of texts: one thread makes them at a time.

Python up to 3.12 counts how deep a tree is in one place for all threads, and raises SystemError
where two of them parse at once (https://github.com/python/cpython/issues/106905).
"""

from __future__ import annotations

import ast
import os
import threading

_lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    # No child is born while a thread that it does not have holds the lock.
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
    )


def parsed(text: str) -> ast.Module:
    """The tree of the text of a module."""
    with _lock:
        return ast.parse(text)


def expression(text: str) -> ast.expr:
    """The tree of the text of an expression."""
    with _lock:
        return ast.parse(text, mode="eval").body
