"""A live session records its runs, and takes them up again."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from dgn_engine.config import NetConfig, RunConfig, TrainingConfig
from dgn_engine.process_session import ProcessSession
from dgn_engine.protocol import commands as do
from dgn_engine.protocol import events as told
from dgn_engine.runs.reader import RunReader
from dgn_engine.runs.verifying import verify
from dgn_engine.session import Session

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

    def wait_until(self, condition, seconds=60.0):
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
    kind = getattr(request, "param", Session)
    sessions = []

    def begin():
        sessions.append(kind(runs_root=str(tmp_path / "runs")))
        return Talk(sessions[-1])

    yield begin
    for session in sessions:
        assert session.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("dgn-")]


@pytest.mark.parametrize("start", [Session, ProcessSession], indirect=True)
def test_a_run_is_recorded_and_goes_on_in_another_session(start, tmp_path):
    talk = start()
    talk.session.send(do.Watch((do.ProbeRequest("gates"),)))
    talk.session.send(do.StartRun(CONFIG))
    talk.wait_until(lambda: talk.step() > 40)
    talk.session.send(do.SwapRegime("FR-II"))
    talk.session.send(do.Rewire((2, 0, 1)))
    talk.wait_for(told.Rewired)
    there = talk.step()
    talk.wait_until(lambda: talk.step() > there + 20)
    talk.session.send(do.Pause())
    last = talk.wait_for(told.Paused).step
    assert talk.session.close()

    (folder,) = (tmp_path / "runs").iterdir()
    assert verify(folder) == []
    reader = RunReader(folder)
    assert reader.status == "stopped"
    assert reader.checkpoints[-1].step == last
    assert [one.kept for one in reader.checkpoints if one.kept] == ["before FR-II"]
    swaps = [event for event in reader.events if isinstance(event, told.RegimeSwapped)]
    assert [event.after for event in swaps] == ["FR-II"]
    assert reader.frames
    assert reader.frame(10**9).readings["gates"].arrays["layer_0"].dtype == np.uint8

    again = start()
    again.session.send(do.ContinueRun(str(folder)))
    started = again.wait_for(told.RunStarted)
    assert (started.regime, started.wiring) == ("FR-II", (2, 0, 1))
    assert again.wait_for(told.RunContinued).step == last
    assert again.wait_for(told.RegimeSwapped).step == swaps[0].step
    again.wait_until(lambda: again.step() > last + 20)


def test_every_run_of_a_session_has_its_folder(start, tmp_path):
    talk = start()
    for seed in (0, 1):
        talk.session.send(do.StartRun(replace(CONFIG, seed=seed)))
        talk.wait_for(told.RunStarted, count=seed + 1)
    talk.session.send(do.Reset())
    talk.wait_for(told.RunStarted, count=3)
    talk.wait_until(lambda: talk.step() > 5)
    assert talk.session.close()
    folders = sorted((tmp_path / "runs").iterdir())
    assert sorted(RunReader(path).config.seed for path in folders) == [0, 1, 1]
    assert all(verify(path) == [] for path in folders)


def test_a_run_is_not_continued_while_it_is_written(start, tmp_path):
    talk = start()
    talk.session.send(do.StartRun(CONFIG))
    talk.wait_until(lambda: talk.step() > 5)
    (folder,) = (tmp_path / "runs").iterdir()
    talk.session.send(do.ContinueRun(str(folder)))
    assert "being written" in talk.wait_for(told.Refused).reason
    talk.session.send(do.ContinueRun(str(tmp_path)))
    assert "holds no run" in talk.wait_for(told.Refused, count=2).reason
    there = talk.step()
    talk.wait_until(lambda: talk.step() > there)


def test_a_place_that_cannot_be_written_does_not_stop_a_run(tmp_path):
    (tmp_path / "file").touch()
    session = Session(runs_root=str(tmp_path / "file"))
    talk = Talk(session)
    talk.session.send(do.StartRun(CONFIG))
    assert "not recorded" in talk.wait_for(told.RecordingPaused).reason
    talk.wait_until(lambda: talk.step() > 5)
    assert session.close()


def test_a_fault_of_the_engine_marks_the_run_and_keeps_its_data(tmp_path, monkeypatch):
    from dgn_engine.trainer import Trainer

    step = Trainer.step

    def faulty(self):
        if self.step_count == 30:
            raise RuntimeError("a fault made for the test")
        step(self)

    monkeypatch.setattr(Trainer, "step", faulty)
    session = Session(runs_root=str(tmp_path))
    talk = Talk(session)
    talk.session.send(do.StartRun(CONFIG))
    talk.wait_for(told.Failed)
    monkeypatch.setattr(Trainer, "step", step)
    (folder,) = tmp_path.iterdir()
    talk.wait_until(lambda: RunReader(folder).status == "failed")
    assert verify(folder) == []
    talk.session.send(do.ContinueRun(str(folder)))
    talk.wait_for(told.RunContinued)
    talk.wait_until(lambda: talk.step() > 35)
    assert session.close()
