"""A run that is started unrecorded leaves no folder until it is kept, and then all of its log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from dgn_engine.protocol.messages import Event, Refused
from dgn_engine.protocol.runs import ContinueRun, FramesRecorded, KeepRun, SaveSession, SessionSaved
from dgn_engine.protocol.training import (
    Measured,
    RegimeSwapped,
    Reset,
    RunStarted,
    StartRun,
    SwapRegime,
)
from dgn_engine.session.unwritten_log import UnwrittenLog
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.training.recording import Recording
from tests.engine.session.conftest import STARTED, Desk, small_config

UNRECORDED = StartRun(small_config("ReLU"), paused=True, recorded=False)


def folders(desk: Desk) -> list[Path]:
    root = Path(desk.engine.state.runs_root)
    return [path for path in root.iterdir() if path.is_dir()] if root.is_dir() else []


def events_in(folder: Path) -> Iterator[Event]:
    return RunReader(folder).log.each_event()


def test_nothing_is_written_of_an_unrecorded_run_nor_of_its_restarts(recording_desk: Desk) -> None:
    desk = recording_desk
    desk.handle(UNRECORDED)
    desk.train(3)
    desk.handle(Reset())
    desk.train(2)
    desk.handle(UNRECORDED)
    assert folders(desk) == []
    assert desk.engine.state.recording is None
    assert [event.unrecorded for event in desk.events_of(RunStarted)] == [True, True, True]


def test_a_kept_run_has_its_scores_and_changes_from_the_first_step_on(recording_desk: Desk) -> None:
    desk = recording_desk
    desk.handle(UNRECORDED)
    desk.train(4)
    desk.handle(SwapRegime("soft-ReLU"))
    desk.train(3)
    measured = desk.events_of(Measured)
    desk.handle(KeepRun())
    desk.train(2)
    folder = desk.recording.path
    assert [event.folder for event in desk.events_of(FramesRecorded)] == [str(folder)]
    assert desk.recording.mark_checkpoint().done.wait(60)
    logged = list(events_in(folder))
    assert [event for event in logged if isinstance(event, Measured)][: len(measured)] == measured
    (swap,) = (event for event in logged if isinstance(event, RegimeSwapped))
    assert (swap.step, swap.after) == (4, "soft-ReLU")
    started = RunReader(folder).start_event
    assert started is not None
    assert (started.regime, started.unrecorded) == ("ReLU", False)


def test_a_kept_run_is_continued_at_the_step_it_had_reached(recording_desk: Desk) -> None:
    desk = recording_desk
    desk.handle(UNRECORDED)
    desk.train(5)
    desk.handle(KeepRun())
    desk.train(2)
    folder = desk.recording.path
    desk.handle(StartRun(small_config("ReLU"), paused=True))  # ends the kept one
    desk.handle(ContinueRun(str(folder), paused=True))
    assert desk.run.step_count == 7
    assert desk.run.trainer.regime.name == "ReLU"


def test_only_a_run_that_was_started_unrecorded_is_kept(recording_desk: Desk) -> None:
    desk = recording_desk
    desk.handle(UNRECORDED, KeepRun(), KeepRun())
    assert [event.kind for event in desk.events_of(Refused)] == ["recorded"]
    assert len(folders(desk)) == 1


def test_a_session_of_an_unrecorded_run_records_it_first(
    recording_desk: Desk, tmp_path: Path
) -> None:
    desk, path = recording_desk, tmp_path / "playground.dgn"
    desk.handle(UNRECORDED)
    desk.train(3)
    desk.handle(SaveSession(str(path)))
    for thread in desk.engine.state.library._threads.threads:
        thread.join(60)
    assert len(folders(desk)) == 1
    assert path.is_file()
    assert len(desk.events_of(SessionSaved)) == 1


def test_a_long_unrecorded_run_keeps_its_newest_scores_and_all_changes() -> None:
    log = UnwrittenLog(STARTED, most=3)
    swap = RegimeSwapped(0, "ReLU", "DL", (), (), (), ())
    samples = [Measured(step, 0.0, 1.0, 0.5) for step in range(5)]
    for event in (swap, *samples):
        log.on_event(event)
    written: list[Event] = []
    log.write_to(cast(Recording, SimpleNamespace(on_event=written.append)))
    assert written == [swap, *samples[2:]]
