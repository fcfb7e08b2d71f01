"""Which tests run which line: the whole suite once under coverage, a context for each test.

As a pytest plugin (`-p tests.mutants.which_tests`) it names the contexts and notes how long each
test takes; `lines_of` reads what came of it.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator
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


def lines_of(data: Path, root: Path) -> dict[str, dict[int, list[str]]]:
    """File below `root` → line → ids of the tests that run it."""
    measured = coverage.CoverageData(str(data))
    measured.read()
    found: dict[str, dict[int, list[str]]] = {}
    for file in measured.measured_files():
        lines: dict[int, list[str]] = defaultdict(list)
        for line, contexts in measured.contexts_by_lineno(file).items():
            lines[line] = sorted(context for context in contexts if context)
        found[Path(file).relative_to(root).as_posix()] = dict(lines)
    return found
