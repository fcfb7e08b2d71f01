"""The session: a thread (or a process) that obeys, tells and publishes, and outlives trouble."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from dgn_engine.config import DataConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.model.nets import all_nets
from dgn_engine.protocol.files import TakeGates
from dgn_engine.protocol.messages import EngineReady, Failed, Refused, Shutdown, Stopped
from dgn_engine.protocol.training import (
    Advance,
    Pause,
    Paused,
    RegimeSwapped,
    Reset,
    Rewire,
    RunStarted,
    SetBeta,
    SetLearningRate,
    SettingsIgnored,
    StartRun,
    SwapRegime,
)
from dgn_engine.protocol.watching import ProbeRequest, Watch
from dgn_engine.session.process_session import ProcessSession
from dgn_engine.session.thread_session import ThreadSession

CONFIG = RunConfig(
    net=NetConfig(options=(("width", 16), ("depth", 4))),
    training=TrainingConfig(epochs=0, pace=200.0),
    probe_examples=20,
)
ALL = tuple(ProbeRequest(name) for name in ("gates", "overlap", "npk", "ntk"))


class Talk:
    """A session and everything it has said."""

    def __init__(self, session):
        self.session = session
        self.events = []
        self.frame = None

    def listen(self):
        self.events += self.session.drain()
        self.frame = self.session.latest() or self.frame

    def wait_for(self, kind, count=1, seconds=150.0):
        """The count-th event of a kind; fails the test if it does not come."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.listen()
            found = [event for event in self.events if isinstance(event, kind)]
            if len(found) >= count:
                return found[count - 1]
            time.sleep(0.01)
        raise AssertionError(f"no {kind.__name__} came; heard {self.events}")

    def wait_until(self, condition, seconds=150.0):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.listen()
            if condition():
                return
            time.sleep(0.01)
        raise AssertionError(f"never happened; heard {self.events[-5:]}")


@pytest.fixture(params=[ThreadSession, ProcessSession], ids=["thread", "process"])
def talk(request):
    session = request.param()
    session.start()
    yield Talk(session)
    assert session.close(60.0)
    assert not [t for t in threading.enumerate() if t.name.startswith("dgn-")]


@pytest.fixture
def thread_talk():
    session = ThreadSession()
    session.start()
    yield Talk(session)
    assert session.close(60.0)
    assert not [t for t in threading.enumerate() if t.name.startswith("dgn-")]


@pytest.mark.discovery
def test_a_session_trains_probes_swaps_and_stops(talk):
    ready = talk.wait_for(EngineReady)
    assert [entry.id for entry in ready.catalogue.nets] == list(all_nets())
    talk.session.send(Watch(ALL))
    talk.session.send(StartRun(CONFIG))
    started = talk.wait_for(RunStarted)
    assert [layer.shape for layer in started.layers] == [(16,)] * 3
    talk.wait_until(lambda: talk.frame is not None and len(talk.frame.readings) == 4)
    for reading in talk.frame.readings.values():
        for array in reading.arrays.values():
            assert not array.flags.writeable
    talk.session.send(SwapRegime("FR-II"))
    assert talk.wait_for(RegimeSwapped).after == "FR-II"
    talk.session.send(Pause())
    step = talk.wait_for(Paused).step
    talk.session.send(Advance(7))
    assert talk.wait_for(Paused, count=2).step == step + 7
    talk.session.send(Shutdown())
    talk.wait_for(Stopped)


def test_a_run_of_the_window_says_which_settings_it_ignores(thread_talk):
    talk = thread_talk
    config = replace(
        CONFIG,
        data=DataConfig(train_limit=50),
        training=TrainingConfig(epochs=0, batch=60, momentum=0.5),
    )
    talk.session.send(StartRun(config, paused=True))
    assert talk.wait_for(SettingsIgnored).sentences == (
        "training.momentum has no effect: it counts only with training.optimiser sgd.",
        "training.batch 60 is more than the data: there are 50 training examples, and each step "
        "takes all of them.",
    )


def test_a_paused_run_shows_the_step_it_stands_at(thread_talk):
    talk = thread_talk
    talk.session.send(Watch(ALL))
    talk.session.send(StartRun(replace(CONFIG, training=TrainingConfig(epochs=0)), paused=True))
    talk.session.send(Advance(25))
    talk.wait_for(Paused)
    talk.wait_until(
        lambda: (
            talk.frame is not None
            and {reading.step for reading in talk.frame.readings.values()} == {25}
        )
    )


def test_nothing_is_read_that_nobody_watches(thread_talk):
    talk = thread_talk
    talk.session.send(Watch((ProbeRequest("gates"),)))
    talk.session.send(StartRun(CONFIG))
    talk.wait_until(lambda: talk.frame is not None and talk.frame.step > 20)
    assert set(talk.frame.readings) == {"gates"}
    talk.session.send(Watch(()))
    talk.wait_until(lambda: talk.frame.step > 60)
    last = talk.frame.readings["gates"].step
    talk.wait_until(lambda: talk.frame.step > 120)
    assert talk.frame.readings["gates"].step == last


def test_a_refused_command_changes_nothing_and_says_why(thread_talk):
    talk = thread_talk
    talk.session.send(Pause())
    assert "start one" in talk.wait_for(Refused).reason
    talk.session.send(StartRun(CONFIG))
    talk.wait_for(RunStarted)
    for place, command in enumerate(
        (
            SwapRegime("FR-III"),
            Rewire((0, 0, 1)),
            SetLearningRate(-1.0),
            SetBeta(0.0),
            StartRun(replace(CONFIG, data=DataConfig(name="nothing"))),
            StartRun(replace(CONFIG, net=NetConfig(options=(("width", -3),)))),
            TakeGates(77),
        )
    ):
        talk.session.send(command)
        talk.wait_for(Refused, count=place + 2)
    step = talk.frame.step if talk.frame else 0
    talk.wait_until(lambda: talk.frame is not None and talk.frame.step > step)
    assert len([e for e in talk.events if isinstance(e, RunStarted)]) == 1
    assert not [e for e in talk.events if isinstance(e, Failed)]


def test_an_exception_becomes_an_event_and_a_new_run_can_start(thread_talk, monkeypatch):
    from dgn_engine.training.trainer import Trainer

    talk = thread_talk
    step = Trainer.step

    def faulty(self):
        if self.step_count == 5:
            raise RuntimeError("a fault made for the test")
        step(self)

    monkeypatch.setattr(Trainer, "step", faulty)
    talk.session.send(StartRun(CONFIG))
    failed = talk.wait_for(Failed)
    assert "a fault made for the test" in failed.what
    assert "Traceback" in failed.traceback
    monkeypatch.setattr(Trainer, "step", step)
    talk.session.send(StartRun(CONFIG))
    talk.wait_for(RunStarted, count=2)
    talk.wait_until(lambda: talk.frame is not None and talk.frame.run == 2 and talk.frame.step > 10)


def test_a_faulty_probe_is_told_once_and_training_goes_on(thread_talk, monkeypatch):
    from dgn_engine import kernels

    def broken(*_args, **_kwargs):
        raise RuntimeError("kernel fault")

    talk = thread_talk
    monkeypatch.setattr(kernels, "spectrum", broken)
    talk.session.send(Watch(ALL))
    talk.session.send(StartRun(CONFIG))
    talk.wait_for(Failed)
    talk.wait_until(lambda: talk.frame is not None and talk.frame.step > 150)
    assert "kernel fault" in talk.frame.readings["npk"].absent
    assert talk.frame.readings["ntk"].absent == ""
    assert len([e for e in talk.events if isinstance(e, Failed)]) == 1


def test_a_run_is_begun_again_from_the_same_weights(thread_talk):
    talk = thread_talk
    talk.session.send(Watch((ProbeRequest("gates"),)))
    talk.session.send(StartRun(replace(CONFIG, training=TrainingConfig(epochs=0)), paused=True))
    talk.session.send(Advance(10))
    talk.wait_for(Paused)
    talk.wait_until(lambda: talk.frame is not None and talk.frame.step == 10)
    talk.wait_until(lambda: talk.frame.readings["gates"].step == 10)
    first = talk.frame.readings["gates"].arrays["layer_2"]
    talk.session.send(Reset())
    talk.session.send(Advance(10))
    talk.wait_for(Paused, count=2)
    talk.wait_until(lambda: talk.frame.run == 2 and talk.frame.readings["gates"].step == 10)
    assert np.array_equal(first, talk.frame.readings["gates"].arrays["layer_2"])


def test_a_dead_engine_process_is_told_and_closing_returns():
    session = ProcessSession()
    session.start()
    talk = Talk(session)
    talk.wait_for(EngineReady)
    session._process.kill()
    assert "died" in talk.wait_for(Failed).what
    talk.wait_for(Stopped)
    assert session.close(60.0)


def test_a_process_that_is_closed_while_torch_is_loaded_does_not_wait_for_it():
    session = ProcessSession()
    session.start()
    assert session.close(60.0)
    assert [type(event) for event in session.drain()] == [Stopped]
