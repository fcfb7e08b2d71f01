"""Settings of steps, changes in mid-run and stacks on a card: the numbers of the CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from dgn_engine.protocol.branches import BranchChanges
from dgn_engine.regimes import all_regimes
from dgn_engine.training import devices
from dgn_engine.training.batched.stacked_network import TrainerStack
from dgn_engine.training.branch import apply_changes
from dgn_engine.training.run import Run
from tests.engine.card.card_runs import (
    UNTIL_CAPTURED,
    assert_captured,
    assert_same_on_card,
    small_config,
)
from tests.engine.kernels.tiny import every_architecture
from tests.engine.training.cuda.tiny_trainers import of_architecture
from tests.gpu.trainers import trainer_on
from tests.plugins import each
from tests.simulated_card import SimulatedCard, simulated_card

REGIMES = [regime.name for regime in all_regimes()]
STACKED = [regime.name for regime in all_regimes() if not regime.drawn_gates]


def take_steps(run: Run, steps: int = UNTIL_CAPTURED) -> None:
    for _ in range(steps):
        run.step()


def new_weights(run: Run, part: str, biased: bool) -> tuple[list[Tensor], list[Tensor | None]]:
    """Other weights of the value or the feature network, as a file gives them: on the CPU."""
    stack = getattr(run.trainer.network, part)
    generator = torch.Generator().manual_seed(8)
    weights = [torch.randn(w.shape, generator=generator) * 0.3 for w in stack.weights]
    return weights, [torch.full((len(w),), 0.1) if biased else None for w in weights]


CHANGES: dict[str, Callable[[Run], object]] = {
    "swap": lambda run: apply_changes(BranchChanges(regime="FR-II"), run),
    "swap and draw anew": lambda run: apply_changes(BranchChanges(regime="FR-DI", seed=5), run),
    "swap to coins": lambda run: apply_changes(BranchChanges(regime="FRG"), run),
    "wiring": lambda run: run.control.rewire_gates((1, 0)),
    "rotation": lambda run: run.control.rotate_gates((0, 2)),
    "value input": lambda run: run.control.set_value_input("random"),
    "ones": lambda run: run.control.set_value_input("ones"),
    "beta": lambda run: run.control.set_beta(3.0),
    "learning rate": lambda run: run.control.set_learning_rate(2.0**-5),
    "seed": lambda run: run.trainer.set_seed(9),
    "gates": lambda run: run.trainer.control.take_gates(*new_weights(run, "feature", True)),
    "weights": lambda run: run.trainer.control.take_weights(*new_weights(run, "value", False)),
    "probe examples": lambda run: run.choose_probe_examples(4, "classes 3,8"),
    "branch": lambda run: apply_changes(
        BranchChanges("FL", True, (1, 0), (1, 0), (), "image", 2.0**-6, 2.0, 3), run
    ),
}


def dense_config(regime: str = "DL", **training: Any) -> Any:
    config = small_config(regime, "fc", **training)
    options = (("depth", 3), ("width", 6))
    straight = {"wiring": (), "rotation": (), "tiling": (), "shift": ()}
    gating = replace(config.gating, feature_layers="chain", **straight)
    return replace(config, net=replace(config.net, options=options), gating=gating)


@pytest.mark.wide
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("at", [1, UNTIL_CAPTURED])
def test_a_change_on_a_card_is_the_change_on_the_cpu(change: str, at: int) -> None:
    def script(run: Run) -> None:
        take_steps(run, at)
        CHANGES[change](run)
        take_steps(run)

    assert_same_on_card(dense_config(), script)


@pytest.mark.wide
@every_architecture
@pytest.mark.parametrize("regime", ["ReLU", "FR-DI", "DL", "FRG"])
def test_steps_of_every_architecture_are_captured_on_a_card(
    name: str, regime: str, card: SimulatedCard
) -> None:
    made = of_architecture(name, regime, device="cuda")
    for _ in range(UNTIL_CAPTURED + 1):
        made.step()
    assert_captured(made)


@pytest.mark.wide
@pytest.mark.parametrize("optimiser", ["sgd", "rmsprop"])
@pytest.mark.parametrize("net", ["fc", "resnet_fc"])
@pytest.mark.parametrize("regime", each(REGIMES))
def test_every_optimiser_steps_on_a_card_as_on_the_cpu(
    regime: str, net: str, optimiser: str
) -> None:
    config = small_config(regime, net, optimiser=optimiser, momentum=0.5)
    most = 1e-5 if optimiser == "rmsprop" else 0.0  # in one call for all weights on a card
    assert_same_on_card(config, lambda run: take_steps(run, 3 + UNTIL_CAPTURED), most)


@pytest.mark.wide
@pytest.mark.parametrize("precision", ["tf32", "bf16"])
@pytest.mark.parametrize("net", ["fc", "cnn4"])
def test_every_precision_steps_on_a_card(
    net: str, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "multiplies_bf16", lambda: True)
    config = small_config("DL", net, optimiser="sgd", precision=precision)
    assert_same_on_card(config, take_steps)


@pytest.mark.parametrize("regime", ["ReLU", "DL", "FRG"])
def test_augmented_images_are_shown_without_a_wait(regime: str) -> None:
    config = small_config(regime, "resnet18", optimiser="sgd", augmentation="davidnet")
    assert_same_on_card(config, lambda run: take_steps(run, 2 * 3 + 1))  # into the third epoch


@pytest.mark.wide
@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
@pytest.mark.parametrize("regime", each(STACKED))
def test_a_stack_on_a_card_is_the_stack_on_the_cpu(regime: str, optimiser: str) -> None:
    def numbers(device: torch.device) -> list[Tensor]:
        trainers = [trainer_on(device, regime, optimiser=optimiser, seed=seed) for seed in range(3)]
        stack = TrainerStack(trainers)
        for _ in range(2 * UNTIL_CAPTURED):
            stack.step()
            assert stack.find_diverged(wait=False) == []
        if device.type == "cuda":
            assert_captured(stack)
        losses = [[score.loss for score in stack.train_scores()]]
        losses.append([score.loss for score in stack.test_scores()[0]])
        stack.release()
        states = [tensor for trainer in trainers for tensor in trainer.tensors().values()]
        return [torch.tensor(losses), *(tensor.detach().to("cpu", copy=True) for tensor in states)]

    expected = numbers(torch.device("cpu"))
    with simulated_card() as card:
        result = numbers(torch.device("cuda"))
    assert card.faults == []
    for ours, theirs in zip(result, expected, strict=True):
        assert torch.equal(ours, theirs)
