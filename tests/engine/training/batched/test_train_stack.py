"""Packed networks leave the folders that runs of their own would, whatever interrupts them."""

from __future__ import annotations

import itertools
import shutil
from contextlib import closing
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from dgn_engine.cli import main
from dgn_engine.config import DataConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.protocol.training import Measured
from dgn_engine.storage.runs import run_checkpoints
from dgn_engine.storage.runs.folder_layout import CHECKPOINTS, WEIGHTS
from dgn_engine.storage.runs.manifest import find_damage
from dgn_engine.storage.runs.run_answers import read_answers
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.training.batched import Job, train_pack
from dgn_engine.training.batched.train_stack import align_checkpoints
from dgn_engine.training.headless_run import HeadlessRun
from dgn_engine.training.weight_keeper import KEPT
from tests.engine.training.changed_config import change_config
from tests.engine.training.run_watchers import NoWatcher
from tests.refusals import refused

BASE = RunConfig(
    data=DataConfig(train_limit=320),
    net=NetConfig(options=(("width", 8), ("depth", 3))),
    training=TrainingConfig(epochs=3, learning_rate=3e-3, batch=64),
    probe_examples=20,
)


def config_of(regime, seed=0, **training):
    return change_config(BASE, seed=seed, gating={"regime": regime}, training=training)


def jobs_in(root, **training):
    """Two networks of two regimes each."""
    pairs = itertools.product(("DL", "FR-II"), (0, 1))
    return [Job(config_of(r, s, **training), root / f"{r}-{s}") for r, s in pairs]


def alone(path, config):
    return HeadlessRun(NoWatcher(), lambda: False).train(config, RunFolder.create(path, config))


def after_steps(asked):
    """Interrupts once it was asked so often: once a stack and a network, then once a step."""
    count = itertools.count()
    return lambda: next(count) >= asked


def weights(folder):
    return load_file(folder / WEIGHTS)


def assert_same_weights(one, other):
    ours, theirs = weights(one), weights(other)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def answers_in(folder):
    """Of the last score, and the most that were right: what came in between may be left too."""
    found = read_answers(folder)
    (last,) = found.last.values()
    return last.tolist(), max((mask.tolist() for mask in found.best.values()), key=sum)


def names_in(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def test_a_packed_network_leaves_the_folder_of_a_run_of_its_own(tmp_path):
    jobs = jobs_in(tmp_path / "packed", keep_epochs=(0, 2), keep_best=True)
    for job, packed in zip(jobs, train_pack(jobs), strict=True):
        path = tmp_path / "alone" / job.folder.name
        outcome = alone(path, job.config)
        assert packed.status == RunReader(job.folder).status == "finished"
        assert names_in(job.folder) == names_in(path)
        assert find_damage(job.folder) == []
        assert packed.outcome.step == outcome.step
        assert packed.outcome.best_accuracy == pytest.approx(outcome.best_accuracy, abs=3e-3)
        kept = [
            load_file(folder / KEPT / "epoch-0002.safetensors") for folder in (path, job.folder)
        ]
        for name, tensor in kept[0].items():
            torch.testing.assert_close(kept[1][name], tensor, atol=1e-4, rtol=1e-3)
        scores = [one for one in RunReader(job.folder).events if isinstance(one, Measured)]
        tested = [one for one in RunReader(path).measured_events if one.test_accuracy is not None]
        assert [one.step for one in scores] == [one.step for one in tested]
        for ours, theirs in zip(scores, tested, strict=True):
            assert ours.test_loss == pytest.approx(theirs.test_loss, rel=1e-3)


@pytest.mark.parametrize("asked", [1, 2, 8, 18])
def test_an_interrupted_pack_goes_on_bit_for_bit(tmp_path, asked):
    """Also where a checkpoint was written after each step: it holds the answers of then."""
    every = 0.0 if asked in (2, 18) else 1e9
    whole = train_pack(jobs_in(tmp_path / "whole"))
    jobs = jobs_in(tmp_path / "broken")
    stopped = train_pack(jobs, interrupted=after_steps(asked), checkpoint_every=every)
    assert "stopped" in {one.status for one in stopped}
    begun = [job for job in jobs if job.folder.exists()]
    assert {RunReader(job.folder).status for job in begun} <= {"stopped", "finished"}
    done = train_pack(jobs)
    for one, other in zip(whole, done, strict=True):
        assert other.status == "finished"
        assert one.outcome == other.outcome
        assert_same_weights(one.job.folder, other.job.folder)
        assert answers_in(one.job.folder) == answers_in(other.job.folder)


def test_a_kill_between_the_checkpoints_of_a_stack_is_mended(tmp_path):
    whole = train_pack(jobs_in(tmp_path / "whole"))
    jobs = jobs_in(tmp_path / "broken")
    train_pack(jobs, interrupted=after_steps(13), checkpoint_every=0.0)
    first, second = (job.folder for job in jobs[:2])
    newest = run_checkpoints.scan_checkpoints(second / CHECKPOINTS)[-1]
    run_checkpoints.remove_checkpoint(newest)  # as if its turn had not come
    assert run_checkpoints.scan_checkpoints(first / CHECKPOINTS)[-1].step == newest.step
    for one, other in zip(whole, train_pack(jobs), strict=True):
        assert_same_weights(one.job.folder, other.job.folder)


def test_folders_put_back_to_a_common_step_keep_what_they_have_until_there(tmp_path):
    jobs = jobs_in(tmp_path)
    train_pack(jobs, interrupted=after_steps(13), checkpoint_every=0.0)
    with closing(RunFolder(jobs[0].folder)) as first, closing(RunFolder(jobs[1].folder)) as second:
        steps = [one.step for one in first.checkpoints]
        assert len(steps) > 1
        second.drop_checkpoint(second.checkpoints[-1])
        align_checkpoints([first, second])
        assert [one.step for one in first.checkpoints] == steps[:-1]
        assert [one.step for one in second.checkpoints] == steps[:-1]


def test_a_network_of_a_pack_can_go_on_by_itself(tmp_path, capsys):
    jobs = jobs_in(tmp_path / "packed")
    train_pack(jobs, interrupted=after_steps(8))
    assert main(["train", "--resume", str(jobs[0].folder), "--quiet"]) == 0
    finished, *others = train_pack(jobs)
    assert {one.status for one in (finished, *others)} == {"finished"}
    whole = alone(tmp_path / "alone", jobs[0].config)
    assert finished.outcome.best_accuracy == pytest.approx(whole.best_accuracy, abs=3e-3)
    capsys.readouterr()


def test_networks_that_end_early_do_not_disturb_the_others(tmp_path):
    steady = [config_of("ReLU", seed) for seed in (0, 1)]
    wild = config_of("ReLU", learning_rate=1e30)
    early = config_of("ReLU", seed=2, until=0.2, learning_rate=0.02)
    configs = [wild, steady[0], early, steady[1]]
    jobs = [Job(config, tmp_path / str(place)) for place, config in enumerate(configs)]
    lost, first, soon, second = train_pack(jobs)
    assert (lost.status, lost.outcome.diverged) == ("diverged", True)
    assert RunReader(jobs[0].folder).diverged_at == lost.outcome.step
    by_itself = alone(tmp_path / "alone-lost", wild)
    assert (by_itself.step, by_itself.diverged) == (lost.outcome.step, True)
    assert soon.status == "finished"
    assert soon.outcome.step == alone(tmp_path / "alone-soon", early).step < first.outcome.step
    for packed, config in ((first, steady[0]), (second, steady[1])):
        path = tmp_path / f"alone-{config.seed}"
        alone(path, config)
        ours, theirs = weights(packed.job.folder), weights(path)
        for name, tensor in theirs.items():
            torch.testing.assert_close(ours[name], tensor, atol=1e-4, rtol=1e-3)


def test_networks_of_a_pack_stop_when_flat_as_by_themselves_also_after_a_stop(tmp_path):
    configs = [config_of(r, epochs=40, patience=2, learning_rate=0.02) for r in ("ReLU", "FR-II")]
    whole = [alone(tmp_path / f"alone-{c.gating.regime}", c).step for c in configs]
    assert all(step < 40 * whole_epoch(configs[0]) for step in whole)
    jobs = [Job(config, tmp_path / f"packed-{config.gating.regime}") for config in configs]
    train_pack(jobs, interrupted=after_steps(30))
    assert [result.outcome.step for result in train_pack(jobs)] == whole
    folder = RunFolder.create(tmp_path / "stopped", configs[0])
    HeadlessRun(NoWatcher(), after_steps(whole[0] - 3)).train(configs[0], folder)
    folder.close()
    again = HeadlessRun(NoWatcher(), lambda: False).continue_folder(RunFolder(tmp_path / "stopped"))
    assert again.step == whole[0]


def whole_epoch(config):
    return -(-config.data.train_limit // config.training.batch)


def test_what_is_done_is_skipped(tmp_path):
    jobs = jobs_in(tmp_path, epochs=1)
    once = train_pack(jobs)
    told = []
    assert train_pack(jobs, told.append) == once
    assert told == []


def test_a_job_that_cannot_begin_fails_alone(tmp_path):
    jobs = jobs_in(tmp_path, epochs=1)
    jobs[1].folder.mkdir()
    (jobs[1].folder / "notes.txt").write_text("mine")
    missing = replace(config_of("FL", epochs=1).gating, gates_from=str(tmp_path / "none.pt"))
    lost = Job(replace(jobs[0].config, gating=missing), tmp_path / "lost")
    good, blocked, *others, gone = train_pack([*jobs, lost])
    assert {one.status for one in (good, *others)} == {"finished"}
    assert (blocked.status, gone.status) == ("failed", "failed")
    assert blocked.refusal != ""
    assert "none.pt" in str(gone.refusal)
    assert not lost.folder.exists()


def test_jobs_that_are_no_pack_are_refused_in_a_sentence(tmp_path):
    one = Job(config_of("DL"), tmp_path / "a")
    wider = replace(one.config, net=NetConfig(options=(("width", 9), ("depth", 3))))
    with refused("wrong-shape"):
        train_pack([one, Job(wider, tmp_path / "b")])
    with refused("in-use"):
        train_pack([one, one])
    with refused("not-packable", value="FRG"):
        train_pack([Job(config_of("FRG"), tmp_path / "c")])


def test_a_folder_with_another_configuration_is_left_alone(tmp_path):
    jobs = jobs_in(tmp_path, epochs=1)
    train_pack(jobs)
    before = shutil.copytree(jobs[0].folder, tmp_path / "before")
    other = Job(config_of("DL", seed=5, epochs=1), jobs[0].folder)
    (found,) = train_pack([other])
    assert found.status == "failed"
    assert found.refusal.kind == "other-run"
    assert names_in(jobs[0].folder) == names_in(before)
