"""Remembering what was made, by what it depends on, without growing for ever.

A token is the name of a meaning, equal in every process.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class cached_property(Generic[T]):
    """A value that is made when it is first asked for, and kept.

    Python's own holds a lock meanwhile up to 3.11; in the child of a fork nobody releases it.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __get__(self, owner: Any, kind: type) -> T:
        value = vars(owner)[self._make.__name__] = self._make(owner)
        return value


class Registry(Generic[T]):
    """Objects by their tokens, for as long as somebody holds them.

    The last ones that came in pickles are held here: a worker's tasks come and go, and nothing
    else holds what they compiled.
    """

    def __init__(self) -> None:
        self._known: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
        self._held: deque[T] = deque(maxlen=256)

    def add(self, token: str, one: T) -> None:
        """Remember an object, unless there is one with its token."""
        self._known.setdefault(token, one)

    def restored(self, token: str, make: Callable[[], T]) -> T:
        """Give the object of a pickle; the same one each time, so that it is compiled once."""
        found: T | None = self._known.get(token)
        if found is None:
            found = self._known.setdefault(token, make())
            self._held.append(found)
        return found


def digest(value: Any) -> str:
    """A name for a value: the same in every process, whichever of its parts are one object."""
    written = io.BytesIO()
    pickler = _Writer(written, protocol=5)
    # Without this a string that occurs twice is written as a reference or again, by identity.
    pickler.fast = True
    pickler.dump(value)
    return hashlib.sha256(written.getvalue()).hexdigest()


class _Writer(pickle.Pickler):
    """Writes a token in the place of what has one: it may hold functions that do not pickle."""

    def reducer_override(self, value: Any) -> Any:
        known = getattr(type(value), "known_by_token", False)
        return (str, (value.token,)) if known else NotImplemented


class Remembered(dict[Any, T]):
    """Holds at most `most` entries: before there are more, all are forgotten.

    What is still in use comes back at once, and nothing has to be noted when an entry is read.
    """

    __slots__ = ("_most",)

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: Any, value: T) -> None:
        if len(self) >= self._most:
            self.clear()
        super().__setitem__(key, value)

    def made(self, key: Any, make: Callable[[], T]) -> T:
        """What is there for a key, made if there is nothing."""
        found = self.get(key)
        if found is None:
            found = self[key] = make()
        return found
