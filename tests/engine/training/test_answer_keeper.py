"""A run's folder holds which test examples it answered right, at its best score and at its last."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dgn_engine.config import DataConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.protocol.training import Measured
from dgn_engine.storage.runs import run_checkpoints
from dgn_engine.storage.runs.folder_layout import ANSWERS, CHECKPOINTS
from dgn_engine.storage.runs.run_answers import NONE, RunAnswers, read_answers, write_answers
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.sweep.unit import unit_folder
from dgn_engine.sweep.unit_results import Answers, TrainedRun, UnitResults
from dgn_engine.training.answer_keeper import AnswerKeeper
from dgn_engine.training.batched import Job, train_pack
from dgn_engine.training.headless_run import HeadlessRun
from dgn_engine.training.run import Run
from tests.engine.training.changed_config import change_config
from tests.engine.training.run_watchers import StopAt

BASE = RunConfig(
    data=DataConfig(train_limit=256),
    net=NetConfig(options=(("width", 8), ("depth", 3))),
    training=TrainingConfig(epochs=6, learning_rate=0.02, batch=64),
    probe_examples=20,
)
EPOCH = 4  # steps: 256 examples in batches of 64
TEST = 360  # examples


def config_of(regime: str = "ReLU", seed: int = 0, **training: Any) -> RunConfig:
    return change_config(BASE, seed=seed, gating={"regime": regime}, training=training)


def data_of(binary: tuple[int, int] | None) -> DataConfig:
    return replace(BASE.data, binary=binary)


def one(root: Path) -> Path:
    return unit_folder(root, "one")


def train(root: Path, config: RunConfig, until: float = math.inf) -> TrainedRun:
    """Alone, to this step; where there is such a run already, it goes on."""
    folder, stop = one(root), StopAt(until)
    headless = HeadlessRun(stop, stop)
    if folder.exists():
        headless.continue_folder(RunFolder(folder))
    else:
        headless.train(config, RunFolder.create(folder, config))
    return UnitResults(root).trained_run("one")


def answers_of(run: TrainedRun) -> Answers:
    assert run.answers is not None
    return run.answers


def jobs_in(root: Path, configs: Iterable[RunConfig]) -> list[Job]:
    return [Job(config, unit_folder(root, str(place))) for place, config in enumerate(configs)]


def packed(root: Path, configs: Iterable[RunConfig]) -> list[TrainedRun]:
    jobs = jobs_in(root, configs)
    train_pack(jobs)
    return [UnitResults(root).trained_run(job.folder.name) for job in jobs]


def by_hand(config: RunConfig) -> dict[int, np.ndarray]:
    """By step: which test examples a twin answers right at each epoch's end."""
    run = Run(1, config, lambda _: None, lambda *_: None, live=False)
    found = {}
    while not run.is_finished:
        run.step()
        if run.step_count % run.trainer.steps_per_epoch == 0:
            data = run.trainer.data
            logits = run.trainer.network(data.test_x)
            one = logits.shape[1] == 1
            answered = (logits[:, 0] > 0).long() if one else logits.argmax(dim=1)
            found[run.step_count] = (answered == data.test_y).numpy()
    return found


def first_best(found: dict[int, np.ndarray]) -> np.ndarray:
    return max(found.values(), key=lambda mask: mask.sum())


def assert_same(ours: Answers, theirs: Answers) -> None:
    assert np.array_equal(ours.best, theirs.best)
    assert np.array_equal(ours.last, theirs.last)


@pytest.mark.parametrize("binary", [None, (3, 8)], ids=["ten classes", "signed"])
def test_the_answers_are_those_of_the_first_best_and_of_the_last_score(
    tmp_path: Path, binary: tuple[int, int] | None
) -> None:
    config = replace(config_of("DL", learning_rate=3e-3), data=data_of(binary))
    found, expected = train(tmp_path, config), by_hand(config)
    assert len({int(mask.sum()) for mask in expected.values()}) > 1
    assert np.array_equal(answers_of(found).best, first_best(expected))
    assert np.array_equal(answers_of(found).last, expected[max(expected)])
    answers = answers_of(found)
    assert answers.best.mean() == pytest.approx(found.best, abs=1e-12)
    assert answers.last.mean() == pytest.approx(found.last, abs=1e-12)
    assert len(answers.best) == len(answers.last) == found.test_examples > 0


@pytest.mark.parametrize("binary", [None, (3, 8)])
def test_packed_networks_leave_the_answers_of_runs_of_their_own(
    tmp_path: Path, binary: tuple[int, int] | None
) -> None:
    pairs = itertools.product(("DL", "ReLU", "FR-II"), (0, 1))
    configs = [
        replace(config_of(regime, seed, learning_rate=3e-3), data=data_of(binary))
        for regime, seed in pairs
    ]
    for place, found in enumerate(packed(tmp_path / "packed", configs)):
        assert_same(
            answers_of(found), answers_of(train(tmp_path / f"alone{place}", configs[place]))
        )
        assert found.test_examples == len(answers_of(found).best)
        assert answers_of(found).best.mean() == pytest.approx(found.best, abs=1e-12)


BEST_FIRST = config_of(learning_rate=0.01)  # its best score comes before its last


@pytest.mark.parametrize("step", [EPOCH - 1, EPOCH, 2 * EPOCH + 3, 4 * EPOCH, 6 * EPOCH - 1])
def test_a_run_that_was_interrupted_ends_with_the_answers_of_one_that_was_not(
    tmp_path: Path, step: int
) -> None:
    """Also right after its best score."""
    whole = train(tmp_path / "whole", BEST_FIRST)
    train(tmp_path, BEST_FIRST, until=step)
    assert_same(answers_of(train(tmp_path, BEST_FIRST)), answers_of(whole))


def test_answers_are_those_of_their_score_whatever_is_tested_in_the_same_memory(
    tmp_path: Path,
) -> None:
    run = Run(1, config_of(), lambda _: None, lambda *_: None, live=False)
    while run.evaluation.right is None:
        run.step()
    keeper, right = AnswerKeeper(tmp_path, run), run.evaluation.right
    expected = right.tolist()
    keeper.process_scores(Measured(EPOCH, 1.0, 1.0, 0.5, 1.0, 0.5), math.nan)
    right.fill_(False)
    keeper.save_answers()
    assert read_answers(tmp_path).last[EPOCH].tolist() == expected
    assert True in expected
    # of a checkpoint right after its best score that score stays the best
    while run.step_count < EPOCH:
        run.step()
    again = AnswerKeeper(tmp_path, run)
    again.process_scores(Measured(2 * EPOCH, 2.0, 1.0, 0.5, 1.0, 0.25), 0.5)
    again.save_answers()
    assert list(read_answers(tmp_path).best) == [EPOCH]


def forget(folder: Path, after: int) -> None:
    """Leave the checkpoints to this step, as a kill does that comes before the next one."""
    for checkpoint in run_checkpoints.scan_checkpoints(folder / CHECKPOINTS):
        if checkpoint.step > after:
            run_checkpoints.remove_checkpoint(checkpoint)


def test_a_run_that_goes_back_to_an_earlier_checkpoint_has_the_best_answers_of_then(
    tmp_path: Path,
) -> None:
    """The file is newer than the checkpoint that is left: the best before it stays in it."""
    expected = by_hand(BEST_FIRST)
    right = [int(mask.sum()) for mask in expected.values()]
    assert right[3] > max(right[:3])  # so that the file holds a better one than that of then
    whole = train(tmp_path / "whole", BEST_FIRST)
    folder = one(tmp_path)
    for step in (2 * EPOCH + 1, 3 * EPOCH + 1, 4 * EPOCH + 1):
        train(tmp_path, BEST_FIRST, until=step)
    forget(folder, 3 * EPOCH + 1)
    found = train(tmp_path, BEST_FIRST, until=3 * EPOCH + 2)
    until = {step: mask for step, mask in expected.items() if step <= 3 * EPOCH}
    assert found.best == first_best(until).mean()
    left = read_answers(folder)
    assert any(np.array_equal(mask, first_best(until)) for mask in left.best.values())
    assert_same(answers_of(train(tmp_path, BEST_FIRST)), answers_of(whole))


def test_a_pack_whose_later_checkpoints_a_kill_took_ends_with_the_same_answers(
    tmp_path: Path,
) -> None:
    """What was scored after the earlier checkpoint does not count."""
    configs = [config_of(regime, seed) for regime in ("DL", "FR-II") for seed in (0, 1)]
    whole = packed(tmp_path / "whole", configs)
    count, jobs = itertools.count(), jobs_in(tmp_path / "broken", configs)
    train_pack(jobs, interrupted=lambda: next(count) >= 20, checkpoint_every=0.0)
    for job in jobs:
        if job.folder.exists():
            forget(job.folder, 0)
            (job.folder / ANSWERS).unlink()  # so that all has to be answered again
    for ours, theirs in zip(whole, packed(tmp_path / "broken", configs), strict=True):
        assert_same(answers_of(ours), answers_of(theirs))


def test_a_run_that_diverges_has_the_answers_of_the_scores_before(tmp_path: Path) -> None:
    """Its weights are spoilt after two epochs, in its checkpoint."""
    config = config_of()
    train(tmp_path, config, until=2 * EPOCH + 1)
    newest = run_checkpoints.scan_checkpoints(one(tmp_path) / CHECKPOINTS)[-1]
    snapshot = run_checkpoints.load_checkpoint(newest)
    snapshot.tensors["value.weights.0"].fill_(float("inf"))
    forget(one(tmp_path), newest.step - 1)
    run_checkpoints.write_step_folder(one(tmp_path) / CHECKPOINTS, snapshot, newest.order, {})
    found = train(tmp_path, config)
    assert found.diverged_at is not None
    expected = by_hand(config)
    until = {step: mask for step, mask in expected.items() if step <= 2 * EPOCH}
    assert np.array_equal(answers_of(found).best, first_best(until))
    assert np.array_equal(answers_of(found).last, expected[2 * EPOCH])


def test_a_packed_run_that_diverges_at_once_has_no_answers(tmp_path: Path) -> None:
    wild, calm = packed(tmp_path, [config_of(learning_rate=1e30), config_of()])
    assert wild.diverged_at is not None
    assert wild.answers is None
    assert calm.answers is not None


def test_the_answers_of_pretraining_do_not_count(tmp_path: Path) -> None:
    config = config_of("FL", epochs=2)
    config = replace(config, gating=replace(config.gating, pretrain_epochs=3))
    assert train(tmp_path, config, until=3 * EPOCH + 2).answers is None
    assert read_answers(one(tmp_path)) == NONE
    found = train(tmp_path, config)
    answers = answers_of(found)
    assert set(read_answers(one(tmp_path)).best) <= {4 * EPOCH, 5 * EPOCH}
    assert answers.best.mean() == pytest.approx(found.best, abs=1e-12)
    assert answers.last.mean() == pytest.approx(found.last, abs=1e-12)


def test_a_regime_without_gates_for_test_examples_leaves_no_answers(tmp_path: Path) -> None:
    found = train(tmp_path, config_of("FRG", epochs=1))
    assert found.answers is None
    assert not (one(tmp_path) / ANSWERS).exists()


@pytest.fixture
def done(tmp_path: Path) -> Path:
    train(tmp_path, BEST_FIRST)
    return one(tmp_path)


def spoilt(answers: RunAnswers, change: Callable[[np.ndarray], np.ndarray]) -> RunAnswers:
    best = {step: change(mask) for step, mask in answers.best.items()}
    return RunAnswers(best, {step: change(mask) for step, mask in answers.last.items()})


@pytest.mark.parametrize("trouble", ["a flipped answer", "another step", "too few", "no last"])
def test_answers_that_are_not_of_the_logged_scores_are_none(done: Path, trouble: str) -> None:
    found = read_answers(done)
    assert UnitResults(done.parent.parent).trained_run("one").answers is not None
    match trouble:
        case "a flipped answer":
            wrong = spoilt(found, lambda mask: np.concatenate([~mask[:1], mask[1:]]))
        case "another step":
            wrong = RunAnswers({step + 1: mask for step, mask in found.best.items()}, found.last)
        case "too few":
            wrong = spoilt(found, lambda mask: np.repeat(mask, 2))
        case _:
            wrong = RunAnswers(found.best, {})
    write_answers(done, wrong)
    result = UnitResults(done.parent.parent).trained_run("one")
    assert result.answers is None
    assert result.test_examples == TEST


def test_a_disk_that_takes_no_answers_does_not_end_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dgn_engine.training.answer_keeper.write_answers", full)
    found = train(tmp_path, config_of(epochs=2))
    assert RunReader(one(tmp_path)).status == "finished"
    assert found.answers is None
