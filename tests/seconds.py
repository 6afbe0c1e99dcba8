"""What a run shows beside pytest's own words: a test that fails, at once; the seconds by folder.

With pytest-xdist this is a plugin of the process that collects the reports, not of its workers.
"""

from collections import Counter
from pathlib import PurePath
from typing import Any

import pytest


class Seconds:
    """The seconds of all tests, those of their fixtures among them."""

    def __init__(self) -> None:
        self._by_folder: Counter[str] = Counter()
        self._terminal: Any = None

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self._terminal = session.config.pluginmanager.get_plugin("terminalreporter")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._by_folder[place(report.nodeid)] += report.duration
        # With -v pytest says so itself.
        if report.failed and self._terminal is not None and self._terminal.verbosity <= 0:
            self._terminal.ensure_newline()
            self._terminal.write_line(f"FAILED {report.nodeid} ({report.when})", red=True)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not self._by_folder:
            return
        terminalreporter.section("seconds by folder")
        for folder, seconds in self._by_folder.most_common():
            terminalreporter.write_line(f"{seconds:8.1f} {folder}")
        terminalreporter.write_line(f"{self._by_folder.total():8.1f} in all processes")


def place(nodeid: str) -> str:
    """The folder of a test within `tests`, or its file where that lies in no folder."""
    parts = PurePath(nodeid.partition("::")[0]).parts
    return "/".join(parts[:2])
