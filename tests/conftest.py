"""For every test: runs are recorded in a folder of the tests, never among the user's own, and a
run that trained in the thread of the tests leaves their arithmetic as it was."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from dgn_engine.storage.runs import index_database
from tests.daily import mark_the_rest_nightly
from tests.plugins import ELSEWHERE, is_about, is_selected, may_concern
from tests.snapshots import Recorded, Snapshot

# No test needs a display, whoever starts it.
os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

# Signals are tried on what is started here; a shell that starts the tests with & has Ctrl+C
# ignored, nohup the end of its terminal.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

QT_FIXTURES = {"qapp", "qtbot", "qtmodeltester"}

# A slow machine makes no statement false.
settings.register_profile("facts", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("facts")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--plug-in",
        action="append",
        default=[],
        metavar="NAME",
        help="run only what concerns the plug-in in the file NAME.py (see tests/plugins.py)",
    )
    parser.addoption(
        "--each",
        action="store_true",
        help="… and not what is said of all plug-ins together",
    )
    parser.addoption(
        "--write-snapshots",
        action="store_true",
        help="write what tests give into tests/recorded, instead of comparing",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """To import all tests takes longer than to run those of one plug-in."""
    if config.getoption("--plug-in") and collection_path.name.startswith("test_"):
        return True if collection_path.is_file() and not may_concern(collection_path) else None
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        # No Python code runs in Qt's loop, so no signal is served there: a thread ends the
        # worker, and pytest-xdist names the test and starts another.
        if not QT_FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
            limit = item.get_closest_marker("timeout")
            seconds = limit.args if limit is not None else ()
            item.add_marker(pytest.mark.timeout(*seconds, method="thread"), append=False)
    chosen = items
    if names := config.getoption("--plug-in"):
        if unknown := [name for name in names if not any(is_about(item, name) for item in items)]:
            raise pytest.UsageError(f"no test is about a plug-in {', '.join(unknown)}")
        together = not config.getoption("--each")
        chosen = [item for item in items if is_selected(item, names, together)]
    mark_the_rest_nightly(chosen, most=2 * len(names) if names else None)
    if names:
        chosen = [item for item in chosen if not any(map(item.get_closest_marker, ELSEWHERE))]
        kept = set(chosen)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = chosen


def pytest_configure() -> None:
    """Collecting tests frees next to nothing; looking for it takes a third of the time."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture
def recorded(request: pytest.FixtureRequest) -> Recorded:
    return Snapshot(request.node, request.config.getoption("--write-snapshots"))


@pytest.fixture(autouse=True)
def runs_of_tests(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `dgn train` writes where no folder is named."""
    place = tmp_path_factory.getbasetemp() / "runs"
    monkeypatch.setenv("DGN_RUNS_ROOT", str(place))


@pytest.fixture(autouse=True)
def log_of_tests(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What programs that are started here log is not among what the user's programs do."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / "state"))


@pytest.fixture(autouse=True)
def lists_of_tests(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read of listed folders is kept there, and not in the user's cache."""
    place = tmp_path_factory.getbasetemp() / "cache"
    monkeypatch.setattr(index_database, "user_cache", lambda: place)


@pytest.fixture(autouse=True)
def subnormal_numbers_of_tests() -> Iterator[None]:
    """Runs flush them to zero in the thread that trains (docs/decisions/0009)."""
    yield
    if "torch" in sys.modules:
        sys.modules["torch"].set_flush_denormal(False)
