"""Files that appear when they are complete: what is being written lies in a hidden folder.

.out.npy.ninepoint/data        the file, until its last unit is written; then it becomes out.npy
.out.npy.ninepoint/            the journal, of which the meaning stays: a later run that means the
                               same finds that it has nothing to do
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from .folders import removed, renamed, temporary
from .journal import Journal, Meaning
from .tasks import Target


@dataclass(frozen=True, slots=True)
class WholeFile:
    """A file at `path`; `lay_out` writes it without its values, and `targets` are its variables.

    If it `is_shared`, several processes may write it, and one may go on after another.
    """

    path: str
    lay_out: Callable[[str], None]
    targets: Mapping[str, Callable[[str], Target]]
    is_shared: bool
    folder: str = ""

    @property
    def journal(self) -> Journal:
        """The journal, beside the file."""
        return Journal(self._folder)

    def target(self, name: str) -> Target:
        """Where the units of a variable are written."""
        return self.targets[name](os.path.join(self._folder, "data"))

    def is_there(self) -> bool:
        """Whether the file is there, or is being written."""
        begun = os.path.lexists(os.path.join(self._folder, "data"))
        return begun or os.path.lexists(self.path)

    def is_unfinished(self) -> bool:
        """Whether the file is not there, or is another one than was written."""
        try:
            with open(os.path.join(self._folder, "finished.json"), encoding="utf-8") as file:
                return bool(json.load(file) != self._status())
        except (OSError, ValueError):
            return True

    def is_begun(self) -> bool:
        """Whether what save has written is there, complete or not."""
        return os.path.lexists(os.path.join(self._folder, "data")) or not self.is_unfinished()

    def create(self, meaning: Meaning) -> bool:
        """Lay the file out; false if another process was first."""
        if os.path.isdir(self._folder) and not os.path.lexists(os.path.join(self._folder, "data")):
            # Of a file that was written, and is gone or to be replaced.
            removed(self._folder)
        with temporary(self.path) as name:
            os.mkdir(name)
            self.lay_out(os.path.join(name, "data"))
            replace(self, folder=name).journal.begin(meaning)
            return renamed(name, self._folder)

    def finish(self) -> None:
        """Give the file its name."""
        data = os.path.join(self._folder, "data")
        # Another process may be here as well, and have been first.
        with suppress(FileNotFoundError):
            status = os.stat(data)
            told = json.dumps([status.st_size, status.st_mtime_ns])
            with open(os.path.join(self._folder, "finished.json"), "w", encoding="utf-8") as file:
                file.write(told)
            os.replace(data, self.path)
        self.journal.forget()

    def remove(self) -> None:
        """Forget what was begun; the file itself stays until another one takes its name."""
        if os.path.isdir(self.path) and not os.path.islink(self.path):
            raise FileExistsError(f"{self.path!r} is a folder, which save does not replace")
        if os.path.isdir(self._folder):
            removed(self._folder)

    @property
    def _folder(self) -> str:
        if self.folder:
            return self.folder
        head, name = os.path.split(self.path)
        return os.path.join(head, f".{name}.ninepoint")

    def _status(self) -> list[int] | None:
        try:
            status = os.stat(self.path)
        except OSError:
            return None
        return [status.st_size, status.st_mtime_ns]
