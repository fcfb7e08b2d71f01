"""A live session records its runs, and takes them up again."""

from __future__ import annotations

import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dgn_engine.config import NetConfig, RunConfig, TrainingConfig
from dgn_engine.protocol.files import OpenFile
from dgn_engine.protocol.messages import Failed, Refused
from dgn_engine.protocol.runs import (
    ContinueRun,
    DiscardConfirmation,
    HistoryReplayed,
    ListRuns,
    OpenSession,
    RecordingPaused,
    RunContinued,
    RunShown,
    RunsListed,
    SaveSession,
    SessionSaved,
    ShowRun,
)
from dgn_engine.protocol.training import (
    Advance,
    Measured,
    Pause,
    Paused,
    RegimeSwapped,
    Reset,
    Resume,
    Rewire,
    Rewired,
    RunStarted,
    StartRun,
    SwapRegime,
)
from dgn_engine.protocol.watching import ProbeRequest, Watch
from dgn_engine.session import run_library, training_loop
from dgn_engine.session.process_session import ProcessSession
from dgn_engine.session.thread_session import ThreadSession
from dgn_engine.storage.runs.manifest import verify
from dgn_engine.storage.runs.run_reader import RunReader
from tests.engine.session.conftest import Desk, small

CONFIG = RunConfig(
    net=NetConfig(options=(("width", 16), ("depth", 4))),
    training=TrainingConfig(epochs=0, pace=400.0),
    probe_examples=20,
)


class Talk:
    """A session and everything it has said."""

    def __init__(self, session):
        self.session = session
        self.events = []
        self.frame = None
        session.start()

    def wait_until(self, condition, seconds=150.0):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.events += self.session.drain()
            self.frame = self.session.latest() or self.frame
            if condition():
                return
            time.sleep(0.01)
        raise AssertionError(f"never happened; heard {self.events[-5:]}")

    def wait_for(self, kind, count=1):
        def found():
            return [event for event in self.events if isinstance(event, kind)]

        self.wait_until(lambda: len(found()) >= count)
        return found()[count - 1]

    def step(self):
        return self.frame.step if self.frame else 0


@pytest.fixture
def start(request, tmp_path):
    kind = getattr(request, "param", ThreadSession)
    sessions = []

    def begin():
        sessions.append(kind(runs_root=str(tmp_path / "runs")))
        return Talk(sessions[-1])

    yield begin
    for session in sessions:
        assert session.close(60.0)
    assert not [t for t in threading.enumerate() if t.name.startswith("dgn-")]


@pytest.mark.parametrize("start", [ThreadSession, ProcessSession], indirect=True)
def test_a_run_is_recorded_and_goes_on_in_another_session(start, tmp_path):
    talk = start()
    talk.session.send(Watch((ProbeRequest("gates"),)))
    talk.session.send(StartRun(CONFIG))
    talk.wait_until(lambda: talk.step() > 40)
    talk.session.send(SwapRegime("FR-II"))
    talk.session.send(Rewire((2, 0, 1)))
    talk.wait_for(Rewired)
    there = talk.step()
    talk.wait_until(lambda: talk.step() > there + 20)
    talk.session.send(Pause())
    last = talk.wait_for(Paused).step
    assert talk.session.close(60.0)

    (folder,) = (tmp_path / "runs").iterdir()
    assert verify(folder) == []
    reader = RunReader(folder)
    assert reader.status == "stopped"
    assert reader.checkpoints[-1].step == last
    assert [one.kept for one in reader.checkpoints if one.kept] == ["before FR-II"]
    swaps = [event for event in reader.events if isinstance(event, RegimeSwapped)]
    assert [event.after for event in swaps] == ["FR-II"]
    assert reader.frames
    assert reader.latest_frame(10**9).readings["gates"].arrays["layer_0"].dtype == np.uint8

    again = start()
    again.session.send(ContinueRun(str(folder)))
    started = again.wait_for(RunStarted)
    assert (started.regime, started.wiring) == ("FR-II", (2, 0, 1))
    assert again.wait_for(RunContinued).step == last
    before = again.wait_for(HistoryReplayed).events
    assert [event for event in before if isinstance(event, RegimeSwapped)] == swaps
    assert not [event for event in again.events if isinstance(event, RegimeSwapped)]
    again.wait_until(lambda: again.step() > last + 20)


def test_every_run_of_a_session_has_its_folder(start, tmp_path):
    talk = start()
    for seed in (0, 1):
        talk.session.send(StartRun(replace(CONFIG, seed=seed)))
        talk.wait_for(RunStarted, count=seed + 1)
    talk.session.send(Reset())
    talk.wait_for(RunStarted, count=3)
    talk.wait_until(lambda: talk.step() > 5)
    assert talk.session.close(60.0)
    folders = sorted((tmp_path / "runs").iterdir())
    assert sorted(RunReader(path).config.seed for path in folders) == [0, 1, 1]
    assert all(verify(path) == [] for path in folders)


def test_a_run_is_not_continued_while_it_is_written(start, tmp_path):
    talk = start()
    talk.session.send(StartRun(CONFIG))
    talk.wait_until(lambda: talk.step() > 5)
    (folder,) = (tmp_path / "runs").iterdir()
    talk.session.send(ContinueRun(str(folder)))
    assert "being written" in talk.wait_for(Refused).reason
    talk.session.send(ContinueRun(str(tmp_path)))
    assert "holds no run" in talk.wait_for(Refused, count=2).reason
    there = talk.step()
    talk.wait_until(lambda: talk.step() > there)


def test_a_place_that_cannot_be_written_does_not_stop_a_run(tmp_path):
    (tmp_path / "file").touch()
    session = ThreadSession(runs_root=str(tmp_path / "file"))
    talk = Talk(session)
    talk.session.send(StartRun(CONFIG))
    assert "not recorded" in talk.wait_for(RecordingPaused).reason
    talk.wait_until(lambda: talk.step() > 5)
    assert session.close(60.0)


def test_a_fault_of_the_engine_marks_the_run_and_keeps_its_data(tmp_path, monkeypatch):
    from dgn_engine.training.trainer import Trainer

    step = Trainer.step

    def faulty(self):
        if self.step_count == 30:
            raise RuntimeError("a fault made for the test")
        step(self)

    monkeypatch.setattr(Trainer, "step", faulty)
    session = ThreadSession(runs_root=str(tmp_path))
    talk = Talk(session)
    talk.session.send(StartRun(CONFIG))
    talk.wait_for(Failed)
    monkeypatch.setattr(Trainer, "step", step)
    (folder,) = tmp_path.iterdir()
    talk.wait_until(lambda: RunReader(folder).status == "failed")
    assert verify(folder) == []
    talk.session.send(ContinueRun(str(folder)))
    talk.wait_for(RunContinued)
    talk.wait_until(lambda: talk.step() > 35)
    assert session.close(60.0)


@pytest.fixture
def stopped(tmp_path):
    """The folder of a run that was watched and stopped after its first steps."""
    session = ThreadSession(runs_root=str(tmp_path / "runs"))
    talk = Talk(session)
    talk.session.send(Watch((ProbeRequest("gates"),)))
    talk.session.send(StartRun(CONFIG))
    talk.wait_until(lambda: talk.step() > 40)
    talk.session.send(Pause())
    talk.wait_for(Paused)
    assert session.close(60.0)
    (folder,) = (tmp_path / "runs").iterdir()
    return folder


def test_a_recorded_run_is_shown_and_goes_on_when_it_is_asked_to(start, stopped):
    talk = start()
    talk.session.send(Watch((ProbeRequest("gates"), ProbeRequest("npk"))))
    talk.session.send(StartRun(CONFIG))
    talk.wait_until(lambda: talk.step() > 5)
    talk.session.send(ListRuns())
    listed = {run.name: run for run in talk.wait_for(RunsListed).runs}
    assert listed[stopped.name].status == "stopped"
    assert listed[stopped.name].resumable
    assert sorted(run.status for run in listed.values()) == ["running", "stopped"]

    talk.session.send(ShowRun(str(stopped)))
    shown = talk.wait_for(RunShown)
    before = RunReader(stopped)
    assert (shown.name, shown.status, shown.step) == (stopped.name, "stopped", before.step)
    assert RunReader(Path(shown.replaced)).status == "stopped"  # the run before it is not lost
    talk.wait_until(lambda: talk.frame.run == 2 and "npk" in talk.frame.readings)
    assert "not recorded" in talk.frame.readings["npk"].absent
    there = before.latest_frame(shown.step).readings["gates"]
    for name, array in there.arrays.items():
        np.testing.assert_array_equal(talk.frame.readings["gates"].arrays[name], array)

    talk.session.send(SwapRegime("FR-II"))
    assert "only shown" in talk.wait_for(Refused).reason
    talk.session.send(Resume())
    assert talk.wait_for(RunContinued).step == before.checkpoints[-1].step
    talk.wait_until(lambda: talk.frame.run == 3 and talk.step() > shown.step + 20)
    assert RunReader(stopped).status == "running"


def test_a_session_is_saved_while_training_goes_on_and_opened_elsewhere(start, tmp_path):
    talk = start()
    talk.session.send(Watch((ProbeRequest("gates"),)))
    talk.session.send(StartRun(CONFIG))
    talk.wait_until(lambda: talk.step() > 40)
    file = tmp_path / "there" / "a.dgn"
    file.parent.mkdir()
    talk.session.send(SaveSession(str(file), '{"theme": "dark"}'))
    saved = talk.wait_for(SessionSaved)
    talk.wait_until(lambda: talk.step() > saved.step + 20)
    talk.session.send(SaveSession(str(tmp_path / "no" / "a.dgn")))
    assert "Cannot write" in talk.wait_for(Refused).reason

    elsewhere = ThreadSession(runs_root=str(tmp_path / "there"))
    other = Talk(elsewhere)
    other.session.send(OpenFile(str(file)))  # whatever it was dropped as
    shown = other.wait_for(RunShown)
    assert (shown.file_name, shown.step, shown.window) == ("a.dgn", saved.step, '{"theme": "dark"}')
    recalled = other.wait_for(HistoryReplayed).events
    scores = [event for event in talk.events if isinstance(event, Measured)]
    scores = [event for event in scores if event.step <= saved.step]
    again = [event for event in recalled if isinstance(event, Measured)]
    assert again == scores[: len(again)]
    assert len(again) >= len(scores) - 1
    other.session.send(Advance(3))
    assert other.wait_for(RunContinued).step == saved.step
    assert other.wait_for(Paused).step == saved.step + 3
    assert elsewhere.close(60.0)
    (adopted,) = [path for path in (tmp_path / "there").iterdir() if path.is_dir()]
    assert verify(adopted) == []
    assert not list(Path(tempfile.gettempdir()).glob("dgn-session-*"))


def test_a_session_that_is_refused_leaves_the_run_alone(start, tmp_path):
    talk = start()
    talk.session.send(StartRun(CONFIG))
    talk.wait_until(lambda: talk.step() > 5)
    (tmp_path / "a.dgn").write_bytes(b"PK")
    talk.session.send(OpenSession(str(tmp_path / "a.dgn")))
    assert talk.wait_for(Refused).reason == "a.dgn is no session file."
    there = talk.step()
    talk.wait_until(lambda: talk.step() > there)
    assert talk.frame.run == 1


def test_a_run_that_is_not_recorded_is_given_up_for_another_only_when_that_was_said(
    tmp_path, stopped
):
    (tmp_path / "file").touch()
    session = ThreadSession(runs_root=str(tmp_path / "file"))
    talk = Talk(session)
    talk.session.send(StartRun(CONFIG))
    talk.wait_until(lambda: talk.step() > 5)
    talk.session.send(ShowRun(str(stopped)))
    asked = talk.wait_for(DiscardConfirmation)
    assert (asked.name, asked.shown) == (stopped.name, True)
    there = talk.step()
    talk.wait_until(lambda: talk.step() > there)
    session.send(asked.anyway)
    talk.wait_for(RunShown)
    assert session.close(60.0)


def test_a_run_of_the_window_has_frames_of_its_first_and_last_step_and_of_pauses(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(training_loop, "MOMENT", 1e9)
    desk = Desk(str(tmp_path))
    desk.do(Watch((ProbeRequest("npk"), ProbeRequest("gates"))))
    desk.do(StartRun(small()))
    desk.turn(3)
    desk.do(Pause())
    desk.turn(1)
    paused = desk.engine.run.step_count
    desk.do(Resume())
    desk.turn(2)
    left = desk.engine.run.step_count
    assert 0 < paused < left
    desk.engine.close()
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    reader = RunReader(folder)
    steps = [frame.step for frame in reader.frames]
    assert (steps[0], steps[-1]) == (0, left)
    for step in (0, paused, left):
        assert set(reader.frame(step).readings) == {"npk", "gates"}


def test_readings_of_an_earlier_step_than_the_recorded_runs_last_say_so(tmp_path):
    desk = Desk(str(tmp_path))
    desk.do(Watch((ProbeRequest("npk"),)), StartRun(small(), paused=True))
    desk.train(8)
    desk.turn(1)
    desk.engine.close()
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    made = "20 probe examples, exact"
    for frame, remark in ((8, made), (0, f"{made} · the last that was recorded of 8 steps")):
        loaded = run_library._read(folder)
        shown = loaded.frame_for(3, ())
        reading = shown.readings["npk"]
        assert (shown.step, shown.epoch) == (8, 8 / 7)
        assert (reading.step, reading.remark, reading.interval) == (frame, remark, 0.0)
        for stored in RunReader(folder).frames[1:]:
            stored.path.whole.unlink()
