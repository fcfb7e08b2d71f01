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
from tests.engine.session.conftest import PROBES, STARTED, Desk, small_config


def shown(desk: Desk, folder: Path) -> None:
    """Show a recorded run, once it is read."""
    desk.handle(ShowRun(str(folder)))
    for thread in desk.engine.state.library._threads.threads:
        thread.join(60)
    desk.advance(1)


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
        TakeGates(1),
        TakeWeights(1),
        CompareFile(1),
        CompareHeld(3),
        CompareRun("x"),
    ],
)
def test_without_a_run_every_change_asks_for_one(desk: Desk, command: Command) -> None:
    desk.handle(command)
    kind, value = desk.refusal
    assert (kind, value) == ("no-run", command.in_words() if value else "")


def test_the_engine_has_a_handler_for_every_command_and_no_other(desk: Desk) -> None:
    assert set(desk.engine.handlers) == set(Command.__subclasses__())


def test_without_a_run_nothing_advances(desk: Desk) -> None:
    desk.handle(Watch(PROBES), CloseComparison())
    desk.advance(2)
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


def test_advancing_takes_so_many_steps_and_at_least_one_then_stands(paused_desk: Desk) -> None:
    for steps, step in ((3, 3), (0, 4), (-2, 5)):
        paused_desk.handle(Advance(steps))
        assert paused_desk.events[-1] == Running(step - max(1, steps))
        assert paused_desk.engine.next_step_in() is not None
        while paused_desk.engine.running:
            paused_desk.advance(1)
        assert paused_desk.last_event(Paused) == Paused(step)
        assert paused_desk.engine.next_step_in() is None
    paused_desk.advance(5)
    assert paused_desk.run.step_count == 5


def test_a_pause_takes_back_how_far_it_was_to_go(paused_desk: Desk) -> None:
    paused_desk.handle(Advance(3))
    paused_desk.advance(1)
    paused_desk.handle(Pause(), Resume())
    paused_desk.advance(20)
    assert paused_desk.run.step_count > 3
    assert paused_desk.engine.running


def test_the_rate_counts_steps_that_were_taken(paused_desk: Desk) -> None:
    paused_desk.handle(Resume())
    paused_desk.advance(4)
    run = paused_desk.run
    taken = paused_desk.engine._loop._publisher.rate._taken
    assert sum(count for _, count, _ in taken) == run.step_count > 0
    paused_desk.handle(Pause(), Resume())
    assert len(paused_desk.engine._loop._publisher.rate._taken) == 0  # counted anew


def test_a_pace_makes_steps_wait(paused_desk: Desk) -> None:
    paused_desk.handle(SetPace(0.01), Resume())
    assert paused_desk.engine.next_step_in() == 0.0
    paused_desk.advance(1)
    wait = paused_desk.engine.next_step_in()
    assert wait is not None
    assert 60 < wait <= 100
    paused_desk.handle(StartRun(small_config()))
    assert paused_desk.engine.next_step_in() == 0.0  # another run waits for no step of this one


def test_a_finished_run_goes_on_until_it_is_stopped(desk: Desk) -> None:
    desk.handle(StartRun(small_config(epochs=1)))
    while desk.engine.running:
        desk.advance(1)
    end = desk.last_event(Finished)
    desk.handle(Advance(3))
    while desk.engine.running:
        desk.advance(1)
    assert desk.last_event(Paused) == Paused(end.step + 3)
    assert desk.events.count(end) == 1


def test_a_diverged_run_does_not_go_on(paused_desk: Desk) -> None:
    run = paused_desk.run
    with torch.no_grad():
        run.trainer.network.value.weights[0].fill_(float("nan"))
    paused_desk.handle(Resume())
    for _ in range(200):
        paused_desk.advance(1)
        if not paused_desk.engine.running:
            break
    paused_desk.last_event(Diverged)
    paused_desk.handle(Resume())
    assert paused_desk.refusal == ("diverged", str(run.step_count))
    assert not paused_desk.engine.running


def test_a_reset_begins_the_run_anew_as_it_stood(paused_desk: Desk) -> None:
    first = paused_desk.copy_value_weights()
    paused_desk.train(3)
    paused_desk.handle(Reset())
    again = paused_desk.last_event(RunStarted)
    assert (again.run, again.paused, again.config) == (2, True, small_config())
    assert all(map(torch.equal, paused_desk.copy_value_weights(), first))
    paused_desk.handle(Resume(), Reset())
    again = paused_desk.last_event(RunStarted)
    assert (again.run, again.paused) == (3, False)
    assert paused_desk.engine.running


def test_a_run_that_cannot_begin_leaves_the_one_before(paused_desk: Desk) -> None:
    run = paused_desk.engine.run
    paused_desk.handle(StartRun(replace(small_config(), net=NetConfig("nonsense"))))
    assert isinstance(paused_desk.events[-1], Refused)
    assert paused_desk.engine.run is run
    paused_desk.handle(StartRun(small_config(seed=1), paused=True))
    started = paused_desk.last_event(RunStarted)
    assert started.run == 2
    assert isinstance(paused_desk.events[-1], SettingChanged)  # the dials show it


def test_what_is_watched_is_watched_of_the_next_run_as_well(paused_desk: Desk) -> None:
    paused_desk.handle(Watch(PROBES[:1]))
    paused_desk.advance(1)
    assert set(paused_desk.frames[-1].readings) == {"gates"}
    paused_desk.handle(StartRun(small_config(seed=1), paused=True))
    paused_desk.advance(1)
    frame = paused_desk.frames[-1]
    assert (frame.run, set(frame.readings)) == (2, {"gates"})
    paused_desk.handle(Watch((ProbeRequest("nothing"),)))
    assert "'nothing'" in paused_desk.events[-1].reason  # type: ignore[attr-defined]


def test_probes_that_nobody_watches_any_more_are_told(paused_desk: Desk) -> None:
    paused_desk.handle(Watch(PROBES[:2]))
    paused_desk.handle(Watch(PROBES[1:2]))
    left = paused_desk.events_of(ProbesLeft)
    assert left == [ProbesLeft(0, (PROBES[0].probe,))]
    paused_desk.handle(Watch(PROBES[:2]))  # to watch one again says nothing
    assert paused_desk.events_of(ProbesLeft) == left


# what is recorded, shown and lost


def test_a_fault_of_ours_stops_the_run_and_its_record(
    recording_desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording_desk.handle(StartRun(small_config()))
    recording_desk.advance(3)
    recording, run = recording_desk.recording, recording_desk.run

    def fault() -> bool:
        raise RuntimeError("a fault made for the test")

    monkeypatch.setattr(run, "advance", fault)
    recording_desk.advance(1)
    failed, paused = recording_desk.events[-2:]
    assert isinstance(failed, Failed)
    assert "a fault made for the test" in failed.what
    assert paused == Paused(run.step_count)
    assert not recording_desk.engine.running
    assert recording_desk.engine.state.recording is None
    reader = RunReader(recording.path)
    assert reader.status == "failed"
    recording_desk.handle(
        StartRun(small_config(), paused=True), ContinueRun(str(recording.path), paused=True)
    )
    recording_desk.train(2)  # what it recorded is sound


def test_a_fault_in_a_command_is_told_by_its_words_and_the_session_lives(
    paused_desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(_: float) -> None:
        raise RuntimeError("a fault made for the test")

    monkeypatch.setattr(paused_desk.run.control, "set_beta", fault)
    paused_desk.handle(SetBeta(2.0))
    failed, said = paused_desk.events[-2:]
    assert isinstance(failed, Failed)
    assert SetBeta(2.0).in_words() in failed.what
    assert said == Paused(0)
    paused_desk.train(1)


def test_frames_with_new_readings_are_recorded(recording_desk: Desk) -> None:
    recording_desk.handle(Watch(PROBES[:1]), StartRun(small_config(), paused=True))
    recording_desk.train(3)
    recording_desk.advance(2)
    recording = recording_desk.recording
    folder = recording.path
    recording_desk.engine.close()
    assert recording_desk.engine.run is None
    frames = RunReader(folder).frames
    assert frames
    assert frames[-1].step == 3


def test_a_recorded_run_is_shown_reset_and_gone_on_with(recording_desk: Desk) -> None:
    recording_desk.handle(Watch(PROBES[:1]), StartRun(small_config("FR-II"), paused=True))
    recording_desk.train(4)
    recording = recording_desk.recording
    folder = recording.path
    recording_desk.handle(StartRun(small_config(), paused=True))
    second = recording_desk.recording
    shown(recording_desk, folder)
    event = recording_desk.last_event(RunShown)
    assert event == RunShown(folder.name, "stopped", 4, "", "", "null", str(second.path))
    assert recording_desk.engine.state.recording is None
    assert recording_desk.engine.run is None
    frame = recording_desk.frames[-1]
    assert (frame.run, frame.step) == (3, 4)
    recording_desk.handle(SwapRegime("DL"))
    assert recording_desk.refusal == ("only-shown", folder.name)
    recording_desk.handle(Watch(PROBES[:2]))
    assert recording_desk.frames[-1].readings["npk"].facts["fault"] == "not recorded"
    assert recording_desk.frames[-1].run == 3
    recording_desk.handle(Reset())
    again = recording_desk.last_event(RunStarted)
    assert (again.run, again.regime, again.config) == (4, "FR-II", small_config("FR-II"))
    shown(recording_desk, folder)
    assert recording_desk.last_event(RunShown) != event  # another run was replaced
    recording_desk.handle(Advance(2))
    continued = recording_desk.last_event(RunContinued)
    assert continued.step == 4
    while recording_desk.engine.running:
        recording_desk.advance(1)
    assert recording_desk.last_event(Paused) == Paused(6)
    recording_desk.last_event(HistoryReplayed)
    assert recording_desk.engine.state.library.shown is None


def test_a_run_that_nobody_records_is_asked_about_before_it_is_given_up(
    desk: Desk, recording_desk: Desk, tmp_path: Path
) -> None:
    recording_desk.handle(StartRun(small_config(), paused=True))
    recording_desk.train(2)
    recording = recording_desk.recording
    folder = recording.path
    recording_desk.engine.close()
    desk.handle(StartRun(small_config(), paused=True))
    ending: list[Command] = [
        ShowRun(str(folder)),
        ContinueRun(str(folder)),
        OpenSession("/x/a.dgn"),
    ]
    desk.handle(ContinueRun(str(tmp_path)))  # nothing is lost at step 0: it is tried
    assert isinstance(desk.events[-1], Refused)
    desk.train(3)
    names = []
    for command in ending:
        desk.handle(command)
        asked = desk.events[-1]
        assert isinstance(asked, DiscardConfirmation)
        assert (asked.step, asked.anyway) == (3, replace(command, discard=True))
        names.append((asked.name, asked.shown))
    assert names == [(folder.name, True), (folder.name, False), ("a.dgn", True)]
    desk.handle(ContinueRun(str(folder), discard=True, paused=True))
    continued = desk.last_event(RunContinued)
    assert (continued.step, desk.engine.running) == (2, False)


def test_a_place_that_cannot_be_written_leaves_the_run_unrecorded(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    desk = Desk(str(tmp_path / "file"))
    desk.handle(StartRun(small_config(), paused=True))
    paused = desk.last_event(RecordingPaused)
    assert str(tmp_path / "file") in paused.reason
    desk.train(1)
    desk.engine.close()


def test_a_session_is_saved_of_a_recorded_run_only(paused_desk: Desk) -> None:
    paused_desk.handle(SaveSession("/x/a.dgn"))
    assert paused_desk.refusal[0] == "not-recorded"


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
    paused_desk: Desk,
) -> None:
    paused_desk.train(3)
    paused_desk.handle(CompareHeld(2))
    opened, frames = (
        paused_desk.last_event(ComparisonOpened),
        paused_desk.last_event(ComparedFrames),
    )
    assert (opened.name, opened.step, opened.about) == ("this run", 2, "in memory")
    assert (frames.folder, frames.step) == ("", 2)
    assert frames.started.run == 1
    paused_desk.handle(StartRun(small_config(), paused=True))
    closed = paused_desk.last_event(ComparisonClosed)
    assert closed.reason
