"""Which tests run which line: the whole suite once under coverage, a context for each test.

As a pytest plugin (`-p tests.mutants.which_tests`) it names the contexts and notes how long each
test takes; a `LineMap` holds what came of it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import coverage
import pytest

SECONDS = "DGN_MUTANTS_SECONDS"  # where the durations go, as JSON


class _Contexts:
    def __init__(self, place: Path) -> None:
        self._place = place
        self._seconds: dict[str, float] = {}

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        running = coverage.Coverage.current()
        if running is not None:
            running.switch_context(item.nodeid)
        yield
        if running is not None:
            running.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        spent = self._seconds.get(report.nodeid, 0.0)
        self._seconds[report.nodeid] = spent + report.duration

    def pytest_sessionfinish(self) -> None:
        self._place.write_text(json.dumps(self._seconds), encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    """Take part where a place for the durations is named."""
    if place := os.environ.get(SECONDS):
        config.pluginmanager.register(_Contexts(Path(place)), "which-tests")


@dataclass
class LineMap:
    """Which tests run which line of a commit, and how long each takes."""

    commit: str = ""
    lines: dict[str, dict[int, list[str]]] = field(default_factory=dict)  # by file
    seconds: dict[str, float] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> LineMap:
        """Return the map of a file."""
        told = json.loads(path.read_text("utf-8"))
        tests = list(told["seconds"])
        lines = {
            file: {int(line): [tests[n] for n in numbers] for line, numbers in of_file.items()}
            for file, of_file in told["lines"].items()
        }
        return cls(told["commit"], lines, told["seconds"])

    def write(self, path: Path) -> None:
        """Write it with numbers for the tests: their ids are long, and stand at every line."""
        number = {test: n for n, test in enumerate(self.seconds)}
        lines = {
            file: {line: [number[t] for t in tests if t in number] for line, tests in each.items()}
            for file, each in self.lines.items()
        }
        told = {"commit": self.commit, "seconds": self.seconds, "lines": lines}
        path.write_text(json.dumps(told), encoding="utf-8")

    def add(self, data: Path, root: Path) -> None:
        """Add what one run under coverage measured of the files below `root`."""
        measured = coverage.CoverageData(str(data))
        measured.read()
        for file in measured.measured_files():
            lines = self.lines.setdefault(Path(file).relative_to(root).as_posix(), {})
            for line, contexts in measured.contexts_by_lineno(file).items():
                lines[line] = sorted({*lines.get(line, ()), *filter(None, contexts)})
