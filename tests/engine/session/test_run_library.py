"""A live session records its runs, and takes them up again."""

from __future__ import annotations

import re
import tempfile
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dgn_engine.config import NetConfig, RunConfig, TrainingConfig
from dgn_engine.protocol.files import OpenFile
from dgn_engine.protocol.messages import Refused
from dgn_engine.protocol.runs import (
    ContinueRun,
    HistoryReplayed,
    RunContinued,
    RunShown,
    SaveSession,
    SessionSaved,
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
from dgn_engine.session import run_library
from dgn_engine.session.process_session import ProcessSession
from dgn_engine.session.thread_session import ThreadSession
from dgn_engine.storage.runs.manifest import find_damage
from dgn_engine.storage.runs.run_reader import RunReader
from tests.daily import nightly
from tests.engine.session.conftest import Desk, SessionClient, small_config

CONFIG = RunConfig(
    net=NetConfig(options=(("width", 16), ("depth", 4))),
    training=TrainingConfig(epochs=0, pace=400.0),
    probe_examples=20,
)


@pytest.fixture
def start(request, tmp_path):
    kind = getattr(request, "param", ThreadSession)
    sessions = []

    def begin():
        sessions.append(kind(runs_root=str(tmp_path / "runs")))
        return SessionClient(sessions[-1])

    yield begin
    for session in sessions:
        assert session.close(60.0)
    assert not [t for t in threading.enumerate() if t.name.startswith("dgn-")]


@pytest.mark.parametrize("start", [ThreadSession, *nightly(ProcessSession)], indirect=True)
def test_a_run_is_recorded_and_goes_on_in_another_session(start, tmp_path):
    talk = start()
    talk.session.send(Watch((ProbeRequest("gates"),)))
    talk.session.send(StartRun(CONFIG))
    talk.wait_until(lambda: talk.step() > 10)
    talk.session.send(SwapRegime("FR-II"))
    talk.session.send(Rewire((2, 0, 1)))
    talk.wait_for(Rewired)
    there = talk.step()
    talk.wait_until(lambda: talk.step() > there + 5)
    talk.session.send(Pause())
    last = talk.wait_for(Paused).step
    assert talk.session.close(60.0)

    (folder,) = (tmp_path / "runs").iterdir()
    assert find_damage(folder) == []
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
    again.wait_until(lambda: again.step() > last + 5)


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
    assert all(find_damage(path) == [] for path in folders)


def test_a_run_is_not_continued_while_it_is_written(start, tmp_path):
    talk = start()
    talk.session.send(StartRun(CONFIG))
    talk.wait_until(lambda: talk.step() > 5)
    (folder,) = (tmp_path / "runs").iterdir()
    talk.session.send(ContinueRun(str(folder)))
    talk.wait_for(Refused)
    talk.session.send(ContinueRun(str(tmp_path)))
    talk.wait_for(Refused, count=2)
    assert not talk.events_of(RunContinued)
    there = talk.step()
    talk.wait_until(lambda: talk.step() > there)


def test_a_run_whose_checkpoints_are_all_damaged_is_not_trained_again(tmp_path: Path) -> None:
    desk = Desk(str(tmp_path))
    desk.handle(StartRun(small_config(), paused=True))
    desk.train(3)
    folder = desk.recording.path
    desk.engine.close()
    for tensors in folder.glob("checkpoints/*/tensors.safetensors"):
        tensors.write_bytes(tensors.read_bytes()[:-1] + b"?")
    again = Desk(str(tmp_path))
    again.handle(ContinueRun(str(folder), paused=True))
    (refusal,) = again.events_of(Refused)
    assert f"dgn runs repair {folder}" in refusal.reason
    assert not again.events_of(RunContinued)
    again.engine.close()


def test_a_session_is_saved_while_training_goes_on_and_opened_elsewhere(start, tmp_path):
    talk = start()
    talk.session.send(Watch((ProbeRequest("gates"),)))
    talk.session.send(StartRun(CONFIG))
    talk.wait_until(lambda: talk.step() > 10)
    file = tmp_path / "there" / "a.dgn"
    file.parent.mkdir()
    talk.session.send(SaveSession(str(file), '{"theme": "dark"}'))
    saved = talk.wait_for(SessionSaved)
    talk.wait_until(lambda: talk.step() > saved.step + 5)
    talk.session.send(SaveSession(str(tmp_path / "no" / "a.dgn")))
    assert "a.dgn" in talk.wait_for(Refused).what

    elsewhere = ThreadSession(runs_root=str(tmp_path / "there"))
    other = SessionClient(elsewhere)
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
    assert find_damage(adopted) == []
    assert not list(Path(tempfile.gettempdir()).glob("dgn-session-*"))


def test_a_run_of_the_window_has_frames_of_its_first_and_last_step_and_of_pauses(tmp_path):
    desk = Desk(str(tmp_path), moment=1e9)
    desk.handle(Watch((ProbeRequest("npk"), ProbeRequest("gates"))))
    desk.handle(StartRun(small_config()))
    desk.advance(3)
    desk.handle(Pause())
    desk.advance(1)
    paused = desk.engine.run.step_count
    desk.handle(Resume())
    desk.advance(2)
    left = desk.engine.run.step_count
    assert 0 < paused < left
    desk.engine.close()
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    reader = RunReader(folder)
    steps = [frame.step for frame in reader.frames]
    assert (steps[0], steps[-1]) == (0, left)
    for step in (0, paused, left):
        assert set(reader.frame_of_step(step).readings) == {"npk", "gates"}


def test_readings_of_an_earlier_step_than_the_recorded_runs_last_say_so(tmp_path):
    desk = Desk(str(tmp_path))
    desk.handle(Watch((ProbeRequest("npk"),)), StartRun(small_config(), paused=True))
    desk.train(8)
    desk.advance(1)
    desk.engine.close()
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    for frame, others in ((8, []), (0, ["8"])):
        loaded = run_library._read(folder)
        shown = loaded.frame_for(3, ())
        reading = shown.readings["npk"]
        assert (shown.step, shown.epoch) == (8, 8 / 7)
        assert (reading.step, reading.interval) == (frame, 0.0)
        assert re.findall(r"\d+", reading.remark) == ["20", *others]
        for stored in RunReader(folder).frames[1:]:
            stored.path.full_path.unlink()
