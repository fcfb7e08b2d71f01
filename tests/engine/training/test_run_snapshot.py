"""The state of a run between two steps: what does not belong to it is refused in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from dgn_engine.storage.runs import run_checkpoints
from dgn_engine.storage.runs.run_checkpoints import FORMAT, Snapshot
from dgn_engine.training.run import Run
from dgn_engine.training.run_snapshot import capture_run, load_earlier_state, restore_run
from tests.engine.card.card_runs import small_config
from tests.refusals import refused

Make = Callable[..., Run]


def taken(run: Run) -> Snapshot:
    snapshot = capture_run(run)
    assert snapshot is not None
    return snapshot


def test_a_state_of_another_format_is_refused_by_its_number(make_run: Make) -> None:
    run = make_run("DL")
    snapshot = taken(run)
    assert snapshot.state["format"] == FORMAT
    later = replace(snapshot, state={**snapshot.state, "format": FORMAT + 1})
    with refused("other-format", value=FORMAT + 1):
        restore_run(run, later)


@pytest.mark.parametrize("name", ["dials", "wiring", "pretrain_steps", "total_steps", "awaited"])
def test_a_state_without_a_part_is_refused(make_run: Make, name: str) -> None:
    run = make_run("DL")
    snapshot = taken(run)
    state = {key: value for key, value in snapshot.state.items() if key != name}
    with refused("other-run"):
        restore_run(run, replace(snapshot, state=state))


def test_all_that_can_be_changed_in_a_run_is_put_back(make_run: Make) -> None:
    first = make_run("DL", wiring=(2, 0, 1), rotation=(1, 0, 3))
    first.control.set_learning_rate(0.25)
    first.control.set_beta(3.5)
    first.control.set_value_input("ones")
    first.control.set_pace(7.0)
    for _ in range(6):
        first.step()
    first.evaluation.peaks = [0.25, 0.5]
    second = make_run("FR-II")
    restore_run(second, taken(first))
    one, two = first.trainer.network, second.trainer.network
    assert second.trainer.regime.name == "DL"
    assert (two.wiring, two.routes, two.gate) == (one.wiring, one.routes, one.gate)
    assert two.value_input == "ones"
    assert (second.trainer.optimizer.learning_rate, second.control.pace) == (0.25, 7.0)
    assert [group["lr"] for group in second.trainer.optimizer.torch.param_groups] == [0.25] * 2
    assert second.step_count == 6
    assert second.total_steps == first.total_steps
    assert second.evaluation.peaks == [0.25, 0.5]
    assert second.evaluation.epoch_so_far == first.evaluation.epoch_so_far
    assert first.evaluation.epoch_so_far[1] > 0
    for run in (first, second):
        run.step()
    pairs = zip(one.parameters(), two.parameters(), strict=True)
    assert all(torch.equal(ours, theirs) for ours, theirs in pairs)


def held_by(run: Run) -> list[Tensor]:
    """Copies of all that a step changes: weights, γ and β, running statistics, moments."""
    network, state = run.trainer.network, run.trainer.optimizer.torch.state
    moments = [
        state[p][key] for p in network.parameters() if p in state for key in sorted(state[p])
    ]
    found = [*network.parameters(), *network.buffers(), *filter(torch.is_tensor, moments)]
    return [tensor.detach().clone() for tensor in found]


def same(one: list[Tensor], other: list[Tensor]) -> bool:
    return len(one) == len(other) and all(map(torch.equal, one, other))


@pytest.mark.wide
@pytest.mark.parametrize("net", ["fc", "cnn4", "davidnet"])  # the last one with BatchNorms
@pytest.mark.parametrize(
    "training",
    [{"optimiser": "adam"}, {"optimiser": "sgd", "momentum": 0.9}, {"optimiser": "rmsprop"}],
)
def test_all_that_a_step_changes_is_in_copies_in_files_and_comes_back_twice(
    net: str, training: dict[str, Any], tmp_path: Path
) -> None:
    config = small_config("DL", net, **training)
    config = replace(config, net=replace(config.net, bias=net != "davidnet"))

    def begun() -> Run:
        return Run(1, config, lambda _: None, lambda *_: None, live=False)

    run = begun()
    states = []
    for turn in range(2):  # a second copy, of a run that was put back once
        for _ in range(3):
            run.step()
        then, copy = held_by(run), taken(run)
        states.append(then)
        marks = {"kept": "", "lines": 0, "frames": 0}
        stored = run_checkpoints.load_checkpoint(
            run_checkpoints.write_step_folder(tmp_path, copy, turn, marks)
        )
        for _ in range(2):
            run.step()
        later = held_by(run)
        assert not same(then, later)
        for snapshot in (copy, stored):
            other = begun()
            other.step()
            restore_run(other, snapshot)
            assert same(held_by(other), then)
            for _ in range(2):
                other.step()
            assert same(held_by(other), later)
        load_earlier_state(run, copy)
        assert same(held_by(run), then)
        for _ in range(2):
            run.step()
        assert same(held_by(run), later)
    assert not same(*states)


def test_scores_that_wait_for_a_test_are_told_after_it(make_run: Make) -> None:
    first = make_run("DL")
    while not first.evaluation.has_pending_test:
        first.advance()
    second = make_run("DL")
    restore_run(second, taken(first))
    assert second.evaluation.pending_scores == first.evaluation.pending_scores
    assert second.evaluation.has_pending_test


def test_what_is_no_longer_finite_is_not_kept(make_run: Make) -> None:
    run = make_run("DL")
    run.step()
    copies: Any = taken(run).tensors
    with torch.no_grad():
        run.trainer.network.value.weights[0].fill_(float("nan"))
    assert all(bool(torch.isfinite(tensor.float()).all()) for tensor in copies.values()), "copies"
    run.step()
    assert capture_run(run) is None
    run.diverged = True
    assert capture_run(run) is None


def test_a_state_is_copied_once_while_a_change_is_carried_out(make_run: Make) -> None:
    run = make_run("DL")
    run.control.snapshot = taken(run)
    assert capture_run(run) is run.control.snapshot


@pytest.mark.parametrize(("regime", "left"), [("FL", True), ("DL", False)])
def test_an_undo_leaves_as_much_of_the_pre_training_as_there_was(
    make_run: Make, regime: str, left: bool
) -> None:
    """The steps count on, so its end moves by those that were undone; without one there is none."""
    run = make_run(regime)
    for _ in range(2):
        run.step()
    run.evaluation.peaks = [0.25]
    before, ends = taken(run), run.control.pretrain_steps
    assert bool(ends) == left
    for _ in range(3):
        run.step()
    load_earlier_state(run, before)
    assert (run.step_count, run.control.pretrain_steps) == (5, ends + 3 if left else 0)
    assert run.evaluation.peaks == [], "of the steps that were undone, too"
