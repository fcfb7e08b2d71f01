"""Weights kept on the way, weights to begin with, and an end that the train accuracy decides."""

from __future__ import annotations

import math

import torch

from dgn_engine.config import NetConfig, RunConfig, TrainingConfig
from dgn_engine.errors import UserError
from dgn_engine.protocol.training import Measured
from dgn_engine.storage.runs.folder_layout import WEIGHTS
from dgn_engine.storage.runs.manifest import find_damage
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.training.headless_run import HeadlessRun
from dgn_engine.training.recording import Recording
from dgn_engine.training.run import Run
from dgn_engine.training.weight_keeper import (
    BEST,
    KEPT,
    WeightKeeper,
    best_until_file,
    epoch_file,
)
from tests.engine.training.changed_config import change_config
from tests.engine.training.run_watchers import NoWatcher
from tests.refusals import refused

CONFIG = RunConfig(
    net=NetConfig(options=(("width", 16), ("depth", 4))),
    training=TrainingConfig(epochs=3, learning_rate=3e-3, keep_epochs=(0, 1, 3), keep_best=True),
)


def trained(path, config):
    folder = RunFolder.create(path, config)
    return HeadlessRun(NoWatcher(), lambda: False).train(config, folder)


def relu(config, **training):
    return change_config(config, gating={"regime": "ReLU"}, training=training)


def accuracy_of(path, config):
    """Of a fresh ReLU network that begins with the weights in `path`."""
    begun = relu(config, weights_from=str(path), keep_epochs=(), keep_best=False)
    return Run(1, begun, lambda _: None, lambda *_: None, live=False).trainer.test_score().accuracy


def test_chosen_epochs_and_the_best_are_kept(tmp_path):
    config = relu(CONFIG)
    outcome = trained(tmp_path / "run", config)
    kept = tmp_path / "run" / KEPT
    names = {path.name for path in kept.iterdir()}
    until = {best_until_file(1), best_until_file(3)}
    assert names == {epoch_file(0), epoch_file(1), epoch_file(3), BEST, *until}
    scores = [e for e in RunReader(tmp_path / "run").events if isinstance(e, Measured)]
    tested = {round(e.epoch): e.test_accuracy for e in scores if e.test_accuracy is not None}
    assert accuracy_of(kept / epoch_file(1), config) == tested[1]
    assert accuracy_of(kept / epoch_file(3), config) == tested[3]
    assert accuracy_of(kept / BEST, config) == outcome.best_accuracy == max(tested.values())
    assert accuracy_of(kept / epoch_file(0), config) < 0.5
    assert (kept / best_until_file(3)).read_bytes() == (kept / BEST).read_bytes()


def test_last_weights_that_were_written_at_the_second_try_belong_to_the_run(tmp_path, monkeypatch):
    """The folder's manifest, which is written last, has them."""
    tries, save = [], Run.save_weights

    def fail_once(run, path):
        tries.append(path)
        if len(tries) == 1:
            raise UserError("The disk is full.")
        save(run, path)

    monkeypatch.setattr(Run, "save_weights", fail_once)
    outcome = trained(tmp_path / "run", relu(CONFIG, keep_best=False, keep_epochs=()))
    assert (len(tries), outcome.unsaved) == (2, "")
    assert (tmp_path / "run" / WEIGHTS).exists()
    assert find_damage(tmp_path / "run") == []


def test_a_folder_that_could_not_be_finished_is_said_where_its_weights_are_there(
    tmp_path, monkeypatch
):
    close = Recording.close

    def close_late(recording, **options):
        close(recording, **options)
        return False  # as where the disk takes longer than is waited for

    monkeypatch.setattr(Recording, "close", close_late)
    outcome = trained(tmp_path / "run", relu(CONFIG, keep_best=False, keep_epochs=()))
    assert (tmp_path / "run" / WEIGHTS).exists()
    assert str(tmp_path / "run") in outcome.unsaved


class Scored:
    """A trainer that says how far it is; its weights are never looked at."""

    steps_per_epoch = 10
    step_count = 0
    config = change_config(CONFIG, training={"keep_epochs": (2, 4), "epochs": 4})


def measured(keeper, epoch, accuracy, best):
    event = Measured(10 * epoch, float(epoch), 1.0, 0.5, 1.0, accuracy)
    keeper._trainer.step_count = 10 * epoch
    keeper.process_scores(event, best)


def test_the_best_until_an_epoch_is_of_no_later_epoch_also_after_a_kill(tmp_path, monkeypatch):
    def save(path, trainer):
        path.write_bytes(str(trainer.step_count // 10).encode())

    monkeypatch.setattr("dgn_engine.training.weight_keeper.save_trainer", save)
    keeper = WeightKeeper(tmp_path, Scored(), 0)
    for epoch, accuracy, best in ((1, 0.8, math.nan), (2, 0.7, 0.8), (3, 0.9, 0.8), (4, 0.6, 0.9)):
        measured(keeper, epoch, accuracy, best)
    assert (tmp_path / best_until_file(2)).read_text() == "1"
    assert (tmp_path / best_until_file(4)).read_text() == "3"
    later = WeightKeeper(tmp_path / "later", Scored(), 10)  # what is trained before counts not
    measured(later, 1, 0.99, math.nan)
    assert not (tmp_path / "later").exists()
    measured(WeightKeeper(tmp_path, Scored(), 0), 2, 0.7, 0.8)  # killed, from epoch 1 on again
    assert (tmp_path / BEST).read_text() == "3", "of a later epoch"
    assert (tmp_path / best_until_file(2)).read_text() == "1"


def test_weights_to_keep_need_a_folder():
    with refused("no-folder"):
        HeadlessRun(NoWatcher(), lambda: False).train(CONFIG, None)


def test_values_of_a_dl_run_and_its_gates_are_told_apart(tmp_path):
    config = change_config(CONFIG, training={"epochs": 1, "keep_epochs": (0, 1)})
    trained(tmp_path / "dl", config)
    file = str(tmp_path / "dl" / KEPT / BEST)
    gates = {"regime": "FL", "gates_from": file}
    begun = change_config(config, gating=gates, training={"weights_from": file})
    network = Run(1, begun, lambda _: None, lambda *_: None, live=False).trainer.network
    twin = Run(1, CONFIG, lambda _: None, lambda *_: None, live=False).trainer
    for _ in range(twin.steps_per_epoch):
        twin.step()
    for part in ("value", "feature"):
        ours, theirs = getattr(network, part).weights, getattr(twin.network, part).weights
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
