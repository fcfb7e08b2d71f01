"""What each command does to a run and what is said of it, in an engine without its thread."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from dgn_engine.config import NetConfig
from dgn_engine.protocol.branches import (
    CloseComparison,
    ComparedFrames,
    CompareFile,
    CompareHeld,
    CompareRun,
    ComparisonClosed,
    ComparisonOpened,
)
from dgn_engine.protocol.files import (
    InspectFile,
    OpenFile,
    PickTensors,
    SaveWeights,
    TakeGates,
    TakeWeights,
)
from dgn_engine.protocol.frames import Frame, Reading
from dgn_engine.protocol.messages import Command, EngineReady, Event, Failed, Refused
from dgn_engine.protocol.runs import (
    ContinueRun,
    DiscardConfirmation,
    FramesRecorded,
    HistoryReplayed,
    OpenSession,
    RecordingPaused,
    RunContinued,
    RunShown,
    SaveSession,
    ShowRun,
)
from dgn_engine.protocol.training import (
    Advance,
    Diverged,
    Finished,
    Measured,
    Pause,
    Paused,
    RegimeSwapped,
    Reset,
    Resume,
    Rewire,
    Rewired,
    Running,
    RunStarted,
    SetBeta,
    SetPace,
    SettingChanged,
    StartRun,
    SwapRegime,
)
from dgn_engine.protocol.watching import ProbeRequest, ProbeScalars, ProbesLeft, Watch
from dgn_engine.session.run_library import is_session_file
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.storage.session_file.loaded_run import LoadedRun, drawn_history
from tests.engine.session.conftest import PROBES, STARTED, Desk, small


def shown(desk: Desk, folder: Path) -> None:
    """Show a recorded run, once it is read."""
    desk.do(ShowRun(str(folder)))
    for thread in desk.engine.state.library._threads.threads:
        thread.join(60)
    desk.turn(1)


# before there is a run


@pytest.mark.parametrize(
    "command",
    [
        Pause(),
        Resume(),
        Advance(3),
        Reset(),
        SwapRegime("DL"),
        SetBeta(2.0),
        Rewire((0,)),
        SaveWeights("x.safetensors"),
        OpenFile("x.pt"),
        TakeGates(1),
        TakeWeights(1),
        CompareFile(1),
        PickTensors(1, ()),
        CompareHeld(3),
        CompareRun("x"),
        InspectFile(1),
    ],
)
def test_without_a_run_every_change_and_every_file_asks_for_one(
    desk: Desk, command: Command
) -> None:
    desk.do(command)
    kind, value = desk.refusal
    assert (kind, value) == ("no-run", command.in_words() if value else "")


def test_the_engine_has_a_handler_for_every_command_and_no_other(desk: Desk) -> None:
    assert set(desk.engine.handlers) == set(Command.__subclasses__())


def test_without_a_run_nothing_advances(desk: Desk) -> None:
    desk.do(Watch(PROBES), CloseComparison())
    desk.turn(2)
    assert desk.frames == []
    assert desk.engine.next_step_in() is None


def test_the_engine_tells_what_it_knows_and_which_torch_it_has(desk: Desk) -> None:
    desk.engine.emit_ready()
    (ready,) = desk.events
    assert isinstance(ready, EngineReady)
    known = ready.catalogue
    assert ready == EngineReady(known, torch.__version__)
    assert {"DL", "FR-II"} <= {entry.id for entry in known.regimes}
    assert "digits" in {entry.id for entry in known.data}
    assert "npk" in known.probes
    assert "cpu" in known.devices
    assert known.experiments
    assert known.nets


# steps


def test_advancing_takes_so_many_steps_and_at_least_one_then_stands(paused: Desk) -> None:
    for steps, step in ((3, 3), (0, 4), (-2, 5)):
        paused.do(Advance(steps))
        assert paused.events[-1] == Running(step - max(1, steps))
        assert paused.engine.next_step_in() is not None
        while paused.engine.running:
            paused.turn(1)
        assert paused.last(Paused) == Paused(step)
        assert paused.engine.next_step_in() is None
    paused.turn(5)
    assert paused.run.step_count == 5


def test_a_pause_takes_back_how_far_it_was_to_go(paused: Desk) -> None:
    paused.do(Advance(3))
    paused.turn(1)
    paused.do(Pause(), Resume())
    paused.turn(20)
    assert paused.run.step_count > 3
    assert paused.engine.running


def test_the_rate_counts_steps_that_were_taken(paused: Desk) -> None:
    paused.do(Resume())
    paused.turn(4)
    run = paused.run
    assert len(paused.engine._loop._publisher.rate._times) == run.step_count > 0
    paused.do(Pause(), Resume())
    assert len(paused.engine._loop._publisher.rate._times) == 0  # counted anew


def test_a_pace_makes_steps_wait(paused: Desk) -> None:
    paused.do(SetPace(0.01), Resume())
    assert paused.engine.next_step_in() == 0.0
    paused.turn(1)
    wait = paused.engine.next_step_in()
    assert wait is not None
    assert 60 < wait <= 100
    paused.do(StartRun(small()))
    assert paused.engine.next_step_in() == 0.0  # another run waits for no step of this one


def test_a_finished_run_goes_on_until_it_is_stopped(desk: Desk) -> None:
    desk.do(StartRun(small(epochs=1)))
    while desk.engine.running:
        desk.turn(1)
    end = desk.last(Finished)
    desk.do(Advance(3))
    while desk.engine.running:
        desk.turn(1)
    assert desk.last(Paused) == Paused(end.step + 3)
    assert desk.events.count(end) == 1


def test_a_diverged_run_does_not_go_on(paused: Desk) -> None:
    run = paused.run
    with torch.no_grad():
        run.trainer.network.value.weights[0].fill_(float("nan"))
    paused.do(Resume())
    for _ in range(200):
        paused.turn(1)
        if not paused.engine.running:
            break
    paused.last(Diverged)
    paused.do(Resume())
    assert paused.refusal == ("diverged", str(run.step_count))
    assert not paused.engine.running


def test_a_reset_begins_the_run_anew_as_it_stood(paused: Desk) -> None:
    first = paused.value()
    paused.train(3)
    paused.do(Reset())
    again = paused.last(RunStarted)
    assert (again.run, again.paused, again.config) == (2, True, small())
    assert all(map(torch.equal, paused.value(), first))
    paused.do(Resume(), Reset())
    again = paused.last(RunStarted)
    assert (again.run, again.paused) == (3, False)
    assert paused.engine.running


def test_a_run_that_cannot_begin_leaves_the_one_before(paused: Desk) -> None:
    run = paused.engine.run
    paused.do(StartRun(replace(small(), net=NetConfig("nonsense"))))
    assert isinstance(paused.events[-1], Refused)
    assert paused.engine.run is run
    paused.do(StartRun(small(seed=1), paused=True))
    started = paused.last(RunStarted)
    assert started.run == 2
    assert isinstance(paused.events[-1], SettingChanged)  # the dials show it


def test_what_is_watched_is_watched_of_the_next_run_as_well(paused: Desk) -> None:
    paused.do(Watch(PROBES[:1]))
    paused.turn(1)
    assert set(paused.frames[-1].readings) == {"gates"}
    paused.do(StartRun(small(seed=1), paused=True))
    paused.turn(1)
    frame = paused.frames[-1]
    assert (frame.run, set(frame.readings)) == (2, {"gates"})
    paused.do(Watch((ProbeRequest("nothing"),)))
    assert "'nothing'" in paused.events[-1].reason  # type: ignore[attr-defined]


def test_probes_that_nobody_watches_any_more_are_told(paused: Desk) -> None:
    paused.do(Watch(PROBES[:2]))
    paused.do(Watch(PROBES[1:2]))
    left = paused.all_of(ProbesLeft)
    assert left == [ProbesLeft(0, (PROBES[0].probe,))]
    paused.do(Watch(PROBES[:2]))  # to watch one again says nothing
    assert paused.all_of(ProbesLeft) == left


# what is recorded, shown and lost


def test_a_fault_of_ours_stops_the_run_and_its_record(
    kept: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.do(StartRun(small()))
    kept.turn(3)
    recording, run = kept.recording, kept.run

    def fault() -> bool:
        raise RuntimeError("a fault made for the test")

    monkeypatch.setattr(run, "advance", fault)
    kept.turn(1)
    failed, paused = kept.events[-2:]
    assert isinstance(failed, Failed)
    assert "a fault made for the test" in failed.what
    assert paused == Paused(run.step_count)
    assert not kept.engine.running
    assert kept.engine.state.recording is None
    reader = RunReader(recording.path)
    assert reader.status == "failed"
    kept.do(StartRun(small(), paused=True), ContinueRun(str(recording.path), paused=True))
    kept.train(2)  # what it recorded is sound


def test_a_fault_in_a_command_is_told_by_its_words_and_the_session_lives(
    paused: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(_: float) -> None:
        raise RuntimeError("a fault made for the test")

    monkeypatch.setattr(paused.run.control, "set_beta", fault)
    paused.do(SetBeta(2.0))
    failed, said = paused.events[-2:]
    assert isinstance(failed, Failed)
    assert SetBeta(2.0).in_words() in failed.what
    assert said == Paused(0)
    paused.train(1)


def test_frames_with_new_readings_are_recorded(kept: Desk) -> None:
    kept.do(Watch(PROBES[:1]), StartRun(small(), paused=True))
    kept.train(3)
    kept.turn(2)
    recording = kept.recording
    folder = recording.path
    kept.engine.close()
    assert kept.engine.run is None
    frames = RunReader(folder).frames
    assert frames
    assert frames[-1].step == 3


def test_a_recorded_run_is_shown_reset_and_gone_on_with(kept: Desk) -> None:
    kept.do(Watch(PROBES[:1]), StartRun(small("FR-II"), paused=True))
    kept.train(4)
    recording = kept.recording
    folder = recording.path
    kept.do(StartRun(small(), paused=True))
    second = kept.recording
    shown(kept, folder)
    event = kept.last(RunShown)
    assert event == RunShown(folder.name, "stopped", 4, "", "", "null", str(second.path))
    assert kept.engine.state.recording is None
    assert kept.engine.run is None
    frame = kept.frames[-1]
    assert (frame.run, frame.step) == (3, 4)
    kept.do(SwapRegime("DL"))
    assert kept.refusal == ("only-shown", folder.name)
    kept.do(Watch(PROBES[:2]))
    assert kept.frames[-1].readings["npk"].facts["fault"] == "not recorded"
    assert kept.frames[-1].run == 3
    kept.do(Reset())
    again = kept.last(RunStarted)
    assert (again.run, again.regime, again.config) == (4, "FR-II", small("FR-II"))
    shown(kept, folder)
    assert kept.last(RunShown) != event  # another run was replaced
    kept.do(Advance(2))
    continued = kept.last(RunContinued)
    assert continued.step == 4
    while kept.engine.running:
        kept.turn(1)
    assert kept.last(Paused) == Paused(6)
    kept.last(HistoryReplayed)
    assert kept.engine.state.library.shown is None


def test_a_run_that_nobody_records_is_asked_about_before_it_is_given_up(
    desk: Desk, kept: Desk, tmp_path: Path
) -> None:
    kept.do(StartRun(small(), paused=True))
    kept.train(2)
    recording = kept.recording
    folder = recording.path
    kept.engine.close()
    desk.do(StartRun(small(), paused=True))
    ending: list[Command] = [
        ShowRun(str(folder)),
        ContinueRun(str(folder)),
        OpenSession("/x/a.dgn"),
    ]
    desk.do(ContinueRun(str(tmp_path)))  # nothing is lost at step 0: it is tried
    assert isinstance(desk.events[-1], Refused)
    desk.train(3)
    names = []
    for command in ending:
        desk.do(command)
        asked = desk.events[-1]
        assert isinstance(asked, DiscardConfirmation)
        assert (asked.step, asked.anyway) == (3, replace(command, discard=True))
        names.append((asked.name, asked.shown))
    assert names == [(folder.name, True), (folder.name, False), ("a.dgn", True)]
    desk.do(ContinueRun(str(folder), discard=True, paused=True))
    continued = desk.last(RunContinued)
    assert (continued.step, desk.engine.running) == (2, False)


def test_a_place_that_cannot_be_written_leaves_the_run_unrecorded(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    desk = Desk(str(tmp_path / "file"))
    desk.do(StartRun(small(), paused=True))
    paused = desk.last(RecordingPaused)
    assert str(tmp_path / "file") in paused.reason
    desk.train(1)
    desk.engine.close()


def test_a_session_is_saved_of_a_recorded_run_only(paused: Desk) -> None:
    paused.do(SaveSession("/x/a.dgn"))
    assert paused.refusal[0] == "not-recorded"


# recorded runs


FRAME = Frame(1, 40, 2.5, 9.0, None, {"gates": Reading("gates", 40)})


def test_a_recorded_run_is_shown_as_another_run_with_its_history() -> None:
    history = HistoryReplayed((Measured(1, 0.1, 0.5, 0.5),))
    started = replace(STARTED, steps_per_epoch=16)
    loaded = LoadedRun(Path("/r/a"), "a", started, history, FRAME, "finished", 40)
    first, second, third, last = loaded.events_as(7, "/r/before")
    assert first == replace(started, run=7)
    assert second is history
    assert third == RunShown("a", "finished", 40, "", "", "null", "/r/before")
    assert last == FramesRecorded("/r/a")
    frame = loaded.frame_for(7, PROBES[:2])
    assert (frame.run, frame.step, frame.epoch) == (7, 40, 2.5)
    assert (frame.steps_per_second, frame.eta_seconds) == (0.0, None)
    assert frame.readings["gates"] == replace(FRAME.readings["gates"], interval=0.0)
    absent = frame.readings["npk"]
    assert (absent.step, absent.facts, bool(absent.absent)) == (40, {"fault": "not recorded"}, True)
    bare = replace(loaded, frame=None).frame_for(7, ())
    assert bare == Frame(7, 40, 2.5, 0.0, None, {})
    session: Any = type(
        "Session", (), {"file_name": "a.dgn", "saved": "2026-01-01", "window": {"theme": "dark"}}
    )
    shown_event = replace(loaded, session=session).events_as(7, "")[2]
    assert shown_event == RunShown(
        "a", "finished", 40, "a.dgn", "2026-01-01", json.dumps({"theme": "dark"}), ""
    )


def test_panels_draw_scores_traces_swaps_and_settings_of_a_recorded_run() -> None:
    drawn: list[Event] = [
        Measured(1, 0.1, 0.5, 0.5),
        ProbeScalars(1, "npk", {"nu": 1.0}),
        RegimeSwapped(6, "DL", "FL", (), (), (), ()),
        Rewired(6, (1, 0)),
        SettingChanged(6, 0.1, 1.0, "image", 0.0),
    ]
    others: list[Event] = [Paused(3), Finished(3), RunContinued(3, "")]
    assert drawn_history([*drawn, *others]).events == tuple(drawn)


def test_a_session_is_known_by_its_name_or_its_content(tmp_path: Path) -> None:
    (tmp_path / "x.pt").write_bytes(b"PK\x03\x04" + bytes(26) + b"session.json")
    (tmp_path / "y.pt").write_bytes(b"PK\x03\x04" + bytes(26) + b"x/data.pkl")
    assert is_session_file(tmp_path / "nowhere.dgn")
    assert is_session_file(tmp_path / "x.pt")
    assert not is_session_file(tmp_path / "y.pt")
    assert not is_session_file(tmp_path / "nowhere.pt")


# a step of a run that is not recorded


def test_an_earlier_step_of_an_unrecorded_run_is_compared_until_another_run_begins(
    paused: Desk,
) -> None:
    paused.train(3)
    paused.do(CompareHeld(2))
    opened, frames = paused.last(ComparisonOpened), paused.last(ComparedFrames)
    assert (opened.name, opened.step, opened.about) == ("this run", 2, "in memory")
    assert (frames.folder, frames.step) == ("", 2)
    assert frames.started.run == 1
    paused.do(StartRun(small(), paused=True))
    closed = paused.last(ComparisonClosed)
    assert closed.reason
