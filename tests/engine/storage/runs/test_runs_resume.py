"""A run that goes on from its folder is bit for bit the run that was never interrupted."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from dgn_engine.config import GatingConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.errors import UserError
from dgn_engine.protocol.runs import RunContinued
from dgn_engine.protocol.training import Measured, RegimeSwapped
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.training.headless_run import HeadlessRun
from dgn_engine.training.run import Run
from dgn_engine.training.run_snapshot import capture, restore
from tests.daily import nightly

SMALL = RunConfig(
    net=NetConfig(options=(("width", 16), ("depth", 4))),
    training=TrainingConfig(epochs=1, learning_rate=1e-3),
    probe_examples=20,
)


class Listener:
    """Stops the run after some steps, as Ctrl-C does, and remembers what it heard."""

    def __init__(self, stop_after=10**9):
        self.step = 0
        self.stop_after = stop_after
        self.events = []

    def stepped(self, step):
        self.step = step

    def on_event(self, event):
        self.events.append(event)

    def asked(self):
        return self.step >= self.stop_after


def config_of(regime="DL", **training):
    gating = GatingConfig(regime=regime, pretrain_epochs=1 if regime == "FL" else 0)
    return replace(SMALL, gating=gating, training=replace(SMALL.training, **training))


def fresh(config, recorded=False):
    return Run(1, config, lambda _: None, lambda *_: None, live=False, recorded=recorded)


def everything(run):
    tensors = {name: tensor.clone() for name, tensor in run.trainer.tensors().items()}
    return tensors, run.trainer.counters()


def assert_same(one, other):
    (tensors, counters), (theirs, their_counters) = everything(one), everything(other)
    assert tensors.keys() == theirs.keys()
    for name, tensor in tensors.items():
        assert torch.equal(tensor, theirs[name]), name
    assert counters == their_counters


@pytest.mark.wide
@pytest.mark.parametrize("optimiser", ["adam", "sgd", "rmsprop"])
@pytest.mark.parametrize("regime", ["ReLU", "soft-ReLU", "FR-II", "FR-DI", "FL", "DL"])
def test_a_restored_run_takes_the_same_steps(regime, optimiser):
    config = config_of(regime, optimiser=optimiser, momentum=0.9, batch=64)
    whole = fresh(config)
    for _ in range(15):
        whole.step()
    snapshot = capture(whole)
    for _ in range(20):  # into the second epoch, and for FL over the end of its pre-training
        whole.step()
    other = fresh(config, recorded=True)
    restore(other, snapshot)
    for _ in range(20):
        other.step()
    assert_same(whole, other)


def test_dials_wiring_and_draws_come_back(make_run):
    run = make_run("DL")
    for _ in range(3):
        run.step()
    run.control.set_beta(4.0)
    run.control.set_learning_rate(0.01)
    run.control.set_value_input("random")
    run.control.rewire((2, 0, 1))
    run.control.swap("FR-II", restart_value=False)
    run.step()
    other = fresh(run.config, recorded=True)
    restore(other, capture(run))
    assert other.trainer.network.gate == run.trainer.network.gate
    assert other.trainer.network.wiring == (2, 0, 1)
    for one in (run, other):
        for _ in range(4):
            one.step()
        one.control.swap("FR-DI", restart_value=False)
        one.step()
    assert_same(run, other)


def test_a_pending_test_pass_is_taken_again(make_run, events):
    run = make_run("DL")
    while not run.evaluation.pending:
        run.advance()
    snapshot = capture(run)
    other_events = []
    other = Run(1, run.config, other_events.append, lambda *_: None, live=False, recorded=True)
    restore(other, snapshot)
    assert other.evaluation.pending
    for one in (run, other):
        while one.evaluation.pending:
            one.advance()
    assert events[-1] == other_events[-1]
    assert isinstance(events[-1], Measured)


@pytest.mark.parametrize("regime", [*nightly("DL"), "FL"])
def test_a_run_that_was_interrupted_ends_like_one_that_was_not(tmp_path, regime):
    config = config_of(regime)
    whole = RunFolder.create(tmp_path / "whole", config)
    reference = HeadlessRun(Listener(), lambda: False).train(config, whole)
    parts = RunFolder.create(tmp_path / "parts", config)
    first = Listener(stop_after=30)
    HeadlessRun(first, first.asked).train(config, parts)
    second = Listener(stop_after=60)
    HeadlessRun(second, second.asked).go_on(RunFolder(tmp_path / "parts"))
    last = Listener()
    outcome = HeadlessRun(last, last.asked).go_on(RunFolder(tmp_path / "parts"))
    assert outcome == reference
    continued = [event for event in last.events if isinstance(event, RunContinued)]
    assert [event.remark for event in continued] == [""]
    one, other = (RunReader(tmp_path / name) for name in ("whole", "parts"))
    assert one.measured == other.measured
    assert [e for e in one.events if isinstance(e, RegimeSwapped)] == [
        e for e in other.events if isinstance(e, RegimeSwapped)
    ]
    assert one.checkpoints[-1].finished
    assert other.checkpoints[-1].finished
    assert_same_weights(one, other)


def assert_same_weights(one, other):
    from safetensors.numpy import load

    found = [load((r.path / "weights.safetensors").read_bytes()) for r in (one, other)]
    assert found[0].keys() == found[1].keys()
    assert all(np.array_equal(found[0][name], found[1][name]) for name in found[0])


def test_a_run_without_a_checkpoint_begins_again_from_its_seed(tmp_path):
    config = config_of()
    folder = RunFolder.create(tmp_path / "run", config)
    listener = Listener(stop_after=20)
    HeadlessRun(listener, listener.asked).train(config, folder)
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    outcome = HeadlessRun(Listener(), lambda: False).go_on(RunFolder(tmp_path / "run"))
    assert outcome.step == 45
    reader = RunReader(tmp_path / "run")
    assert [event.step for event in reader.measured] == sorted(
        {event.step for event in reader.measured}
    )
    assert reader.status == "finished"


def test_other_data_are_refused(tmp_path):
    config = config_of()
    folder = RunFolder.create(tmp_path / "run", config)
    listener = Listener(stop_after=5)
    HeadlessRun(listener, listener.asked).train(config, folder)
    folder = RunFolder(tmp_path / "run")
    folder.info.tree = {**folder.info.tree, "data_fingerprint": "other"}
    again = Listener(stop_after=10)
    with pytest.raises(UserError, match="fingerprint"):
        HeadlessRun(again, again.asked).go_on(folder)
    folder.close()


def test_why_a_continued_run_may_differ_is_said(tmp_path):
    config = config_of()
    folder = RunFolder.create(tmp_path / "run", config)
    listener = Listener(stop_after=5)
    HeadlessRun(listener, listener.asked).train(config, folder)
    folder = RunFolder(tmp_path / "run")
    folder.info.tree = {
        **folder.info.tree,
        "versions": {**folder.info.tree["versions"], "torch": "1.0"},
    }
    again = Listener(stop_after=10)
    HeadlessRun(again, again.asked).go_on(folder)
    told = next(event for event in again.events if isinstance(event, RunContinued))
    assert "torch was 1.0" in told.remark
