"""No step reads a number back to the host, whatever was changed before it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from dgn_engine.regimes import find_regime
from dgn_engine.training.batched.stacked_network import TrainerStack
from dgn_engine.training.trainer import Trainer
from tests.gpu.trainers import trainer_on

CPU = torch.device("cpu")


def take_steps(made: Trainer, count: int = 3) -> None:
    for _ in range(count):
        made.step()


def swap(made: Trainer) -> None:
    made.control.enter_regime(find_regime("FR-II"), restart_value=True)


def restore(made: Trainer) -> None:
    tensors = {name: tensor.clone() for name, tensor in made.tensors().items()}
    made.restore_state(tensors, made.counters())


def import_weights(made: Trainer) -> None:
    weights = [weight.detach() * 0.5 for weight in made.network.value.weights]
    made.control.take_weights(weights, [None] * len(weights))


def leave_stack(made: Trainer) -> None:
    optimiser = made.config.training.optimiser
    other = trainer_on(CPU, made.regime.name, optimiser=optimiser, seed=1)
    for _ in range(made.step_count):
        other.step()
    stack = TrainerStack([made, other])
    stack.step()
    stack.release()


def reseed(made: Trainer) -> None:
    made.set_seed(made.seed + 1)


CHANGES: dict[str, Callable[[Trainer], None]] = {
    "swap": swap,
    "restore": restore,
    "import": import_weights,
    "stack": leave_stack,
    "reseed": reseed,
}


@pytest.mark.parametrize("change", CHANGES)
def test_moments_of_adam_lie_together_again_in_the_second_step(change: str) -> None:
    made = trainer_on(CPU, "DL")
    take_steps(made)
    CHANGES[change](made)
    take_steps(made, 2)
    trained = [weight for weight in made.network.value.parameters() if weight.requires_grad]
    counts = {id(made.optimizer.torch.state[weight]["step"]) for weight in trained}
    assert len(counts) == 1


def test_weights_that_took_other_steps_are_never_counted_together() -> None:
    """A count of one layer that was replaced behind the optimiser's back, too."""
    made = trainer_on(CPU, "DL")
    take_steps(made)
    state = made.optimizer.torch.state
    first, second, *_ = made.network.value.parameters()
    made.optimizer.forget_state(made.network.feature)
    state[first] = {key: value.clone() for key, value in state[first].items()}
    state[first]["step"] += 5
    take_steps(made, 4)
    assert float(state[first]["step"]) == float(state[second]["step"]) + 5
