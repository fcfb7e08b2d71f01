"""Long logs are read line by line: what panels draw of them is bounded, and says what it lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from dgn_engine.config import RunConfig
from dgn_engine.protocol.training import Measured, RegimeSwapped, SettingChanged
from dgn_engine.protocol.watching import ProbeScalars
from dgn_engine.storage.runs import folder_layout
from dgn_engine.storage.runs.drawn_events import drawn_history
from dgn_engine.storage.runs.log import LogLine, encode_line, event_of
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader
from tests.engine.storage.runs.drawn_logs import counting, drawn

MOST = 32


def scored(step: int, tested: bool = False) -> Measured:
    accuracy = 0.5 + 0.4 * ((step * 7919) % 101) / 101
    test = (0.25, accuracy) if tested else (None, None)
    return Measured(step, step / 5, 1.0, 0.5, *test)


def a_run(path: Path, lines: list[LogLine]) -> Path:
    RunFolder.create(path, RunConfig()).close()
    (path / folder_layout.LOG).write_bytes(b"".join(map(encode_line, lines)))
    return path


def test_a_short_history_is_whole_and_lacks_nothing() -> None:
    happened = [scored(step, step % 3 == 0) for step in range(20)]
    history = drawn_history(happened, MOST)
    assert history.events == tuple(happened)
    assert history.left_out == {}


def test_a_long_history_is_bounded_in_order_and_says_how_much_there_was() -> None:
    happened = [
        event
        for step in range(5000)
        for event in (scored(step, step % 10 == 0), ProbeScalars(step, "npk", {"nu": step % 13}))
    ]
    history = drawn_history(happened, MOST)
    drawn_of = dict.fromkeys(("training", "npk"), 0)
    for event in history.events:
        drawn_of["training" if isinstance(event, Measured) else "npk"] += 1
    assert drawn_of["training"] <= 2 * (MOST + 12)
    assert history.left_out == {
        "training": (drawn_of["training"], 5000),
        "npk": (drawn_of["npk"], 5000),
    }
    places = [happened.index(event) for event in history.events]
    assert places == sorted(places)


def test_the_best_and_the_last_score_of_a_long_history_are_there() -> None:
    happened = [scored(step, step % 10 == 0) for step in range(5000)]
    tested = [event for event in happened if event.test_accuracy is not None]
    held = drawn_history(happened, MOST).events
    assert max(tested, key=lambda event: event.test_accuracy or 0.0) in held
    assert tested[-1] in held
    assert happened[-1] in held


def test_changes_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = [SettingChanged(step, 0.1, 1.0, "image", 0.0) for step in range(1000)]
    swap = RegimeSwapped(1000, "DL", "FL", (), (), (), ())
    history = drawn_history([*changes, swap], MOST)
    assert history.events[-1] == swap
    assert history.left_out == {"": (len(history.events), 1001)}


@pytest.mark.parametrize("seed", range(10))
def test_events_one_after_the_other_are_those_of_the_lines_that_count(
    seed: int, tmp_path: Path
) -> None:
    lines = drawn(seed)
    reader = RunReader(a_run(tmp_path / "run", lines))
    wanted = [event for line in counting(lines) if (event := event_of(line)) is not None]
    assert list(map(repr, reader.log.each_event())) == list(map(repr, wanted))
    assert repr(reader.log.summary) == repr(RunReader(tmp_path / "run").log.summary)
    kept = [line.seq for line in RunReader(tmp_path / "run").log.lines]
    assert kept == [line.seq for line in counting(lines)]
