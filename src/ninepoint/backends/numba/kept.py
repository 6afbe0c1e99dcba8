"""What Numba compiled, kept on disk beside its text, and loaded only if it is whole.

Numba's own cache unpickles whatever its files hold, and runs the machine code in them.  Here
each function and signature has a file of its own that begins with a hash of the rest: what was
damaged is compiled anew.
"""

from __future__ import annotations

import hashlib
import pickle
from typing import Any

from numba.core import compiler, serialize
from numba.core.caching import NullCache

from .. import cache


class Kept(NullCache):
    """The overloads of one function on disk, in place of Numba's cache of a dispatcher."""

    def __init__(self, name: str) -> None:
        self._name = name

    def _file(self, signature: Any, codegen: Any) -> str:
        # The name itself is made of the text, the versions and the machine.
        key = f"{signature}\n{codegen.magic_tuple()}"
        return f"{self._name}.{hashlib.sha256(key.encode()).hexdigest()[:16]}.nb"

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What was compiled for a signature, if it is there and whole."""
        target_context.refresh()
        rebuild: Any = compiler.CompileResult._rebuild
        return cache.recalled(
            self._file(sig, target_context.codegen()),
            lambda kept: rebuild(target_context, *pickle.loads(kept)),
        )

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled, unless it holds addresses of this process."""
        if data.library.has_dynamic_globals or any(not one.can_cache for one in data.lifted):
            return
        # Partly typed: Any, or mypy finds the gaps.
        numba: Any = serialize
        cache.keep(self._file(sig, data.codegen), numba.dumps(data._reduce()))
