"""The session: a thread (or a process) that obeys, tells and publishes, and outlives trouble."""

from __future__ import annotations

import threading
from dataclasses import replace

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
from dgn_engine.storage.runs.manifest import find_damage
from dgn_engine.storage.runs.run_reader import RunReader
from tests.engine.session.conftest import SessionClient

CONFIG = RunConfig(
    net=NetConfig(options=(("width", 16), ("depth", 4))),
    training=TrainingConfig(epochs=0, pace=200.0),
    probe_examples=20,
)
ALL = tuple(ProbeRequest(name) for name in ("gates", "overlap", "npk", "ntk"))


@pytest.fixture(params=[ThreadSession])
def talk(request, tmp_path):
    session = request.param(runs_root=str(tmp_path))
    yield SessionClient(session)
    assert session.close(60.0)
    assert not [t for t in threading.enumerate() if t.name.startswith("dgn-")]


@pytest.mark.discovery
@pytest.mark.parametrize("talk", [ThreadSession, ProcessSession], indirect=True)
def test_a_session_trains_probes_swaps_and_stops_with_its_run_recorded(talk, tmp_path):
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
    (folder,) = tmp_path.iterdir()
    assert find_damage(folder) == []
    reader = RunReader(folder)
    assert (reader.status, reader.checkpoints[-1].step) == ("stopped", step + 7)


def test_a_run_of_the_window_says_which_settings_it_ignores(talk):
    config = replace(
        CONFIG,
        data=DataConfig(train_limit=50),
        training=TrainingConfig(epochs=0, batch=60, momentum=0.5),
    )
    talk.session.send(StartRun(config, paused=True))
    momentum, batch = talk.wait_for(SettingsIgnored).sentences
    assert momentum.startswith("training.momentum ")
    assert batch.startswith("training.batch 60 ")


def test_nothing_is_read_that_nobody_watches(talk):
    talk.session.send(Watch((ProbeRequest("gates"),)))
    talk.session.send(StartRun(CONFIG))
    talk.wait_until(lambda: talk.frame is not None and talk.frame.step > 10)
    assert set(talk.frame.readings) == {"gates"}
    talk.session.send(Watch(()))
    talk.wait_until(lambda: talk.frame.step > 20)
    last = talk.frame.readings["gates"].step
    talk.wait_until(lambda: talk.frame.step > 40)
    assert talk.frame.readings["gates"].step == last


def test_a_refused_command_changes_nothing_and_says_why(talk):
    talk.session.send(Pause())
    assert talk.wait_for(Refused).kind == "no-run"
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


def test_a_faulty_probe_is_told_once_and_training_goes_on(talk, monkeypatch):
    from dgn_engine import kernels

    def broken(*_args, **_kwargs):
        raise RuntimeError("kernel fault")

    monkeypatch.setattr(kernels, "spectrum", broken)
    talk.session.send(Watch(ALL))
    talk.session.send(StartRun(CONFIG))
    talk.wait_for(Failed)
    talk.wait_until(lambda: talk.frame is not None and talk.frame.step > 40)
    assert "kernel fault" in talk.frame.readings["npk"].absent
    assert talk.frame.readings["ntk"].absent == ""
    assert len([e for e in talk.events if isinstance(e, Failed)]) == 1


def test_a_process_that_is_closed_while_torch_is_loaded_does_not_wait_for_it():
    session = ProcessSession()
    session.start()
    assert session.close(60.0)
    assert [type(event) for event in session.drain_events()] == [Stopped]
