"""The step by hand is that of autograd, in every regime and for whatever can be set."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from dgn_engine.config import TrainingConfig
from dgn_engine.model.architecture import Architecture, Conv, Dense, GlobalAveragePool
from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.stack import Stack
from dgn_engine.regimes import find_regime
from dgn_engine.training.steps.dense_buffers import flatten_weights
from dgn_engine.training.steps.dense_step import is_dense_chain
from dgn_engine.training.steps.optimizer import NetworkOptimizer
from dgn_engine.training.trainer import Trainer
from tests.engine.training.chains import CHAIN, CHAIN_WEIGHTS, HIDDEN, SETTINGS, trainer
from tests.engine.training.step_cases import BY_HAND, assert_equal_steps
from tests.plugins import each


def chosen() -> list[tuple[str, str]]:
    """Every regime with every setting; where one network takes the weights of the other, both must
    have the same layers."""
    tied = [name for name in BY_HAND if find_regime(name).on_entry == "share-redrawn"]
    unlike = ("tiled", "parallel")
    return [(r, s) for r in BY_HAND for s in SETTINGS if s not in unlike or r not in tied]


@pytest.mark.check
@pytest.mark.wide
@pytest.mark.parametrize(("regime", "setting"), each(chosen()))
def test_eight_steps_by_hand_are_those_of_autograd_to_1e_11(regime: str, setting: str) -> None:
    parts = SETTINGS[setting]
    ours = trainer(regime, **parts)
    before = {name: tensor.clone() for name, tensor in ours.tensors().items()}
    assert_equal_steps(ours, trainer(regime, **parts))
    moved = [
        name for name, tensor in before.items() if not torch.equal(tensor, ours.tensors()[name])
    ]
    trains = {name.split(".")[0] for name in moved}
    assert trains == set(find_regime(regime).trains)


@pytest.mark.parametrize("loss", ["squared", "cross-entropy"])
@pytest.mark.parametrize("regime", ["ReLU", "FR-II", "DL"])
def test_a_network_with_one_logit_is_stepped_alike(regime: str, loss: str) -> None:
    parts = {"training": {"loss": loss}}
    assert_equal_steps(trainer(regime, 1, **parts), trainer(regime, 1, **parts))


@pytest.mark.wide
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("hidden", [HIDDEN[:1], (Dense(5, 7), Dense(7, 4), Dense(4, 6))])
@pytest.mark.parametrize("regime", ["ReLU", "FR-II", "DL", "soft-ReLU"])
def test_one_hidden_layer_and_layers_of_other_widths_are_stepped_alike(
    regime: str, hidden: tuple[Dense, ...], bias: bool
) -> None:
    parts = {"net": {"bias": bias}}
    assert_equal_steps(trainer(regime, 3, hidden, **parts), trainer(regime, 3, hidden, **parts))


def test_weights_that_are_moved_in_mid_run_are_followed() -> None:
    """Who packs networks lays their weights elsewhere, and gives them back as copies."""
    pair = [trainer("DL"), trainer("DL")]
    assert_equal_steps(*pair, steps=3)
    for made in pair:
        for parameter in made.network.parameters():
            parameter.data = parameter.data.clone()
            made.optimizer.torch.state[parameter] = {
                key: value.clone() for key, value in made.optimizer.torch.state[parameter].items()
            }
    assert_equal_steps(*pair, steps=3)


def test_it_follows_swaps_orders_dials_and_imported_biases() -> None:
    """One run by hand and one by autograd through everything that a user may change."""
    pair = [trainer("DL"), trainer("DL")]

    def both(change: Any) -> None:
        for made in pair:
            change(made)
        assert_equal_steps(*pair, steps=3)

    def gates(made: Trainer) -> None:
        generator = torch.Generator().manual_seed(8)
        weights = [torch.randn(w.shape, generator=generator).double() for w in CHAIN_WEIGHTS[:3]]
        biases: list[Tensor | None] = [torch.full((6,), 0.1, dtype=torch.float64)] * 3
        made.control.take_gates(weights, biases)
        made.network.double()

    assert_equal_steps(*pair, steps=3)
    both(lambda made: made.control.set_wiring((1, 2, 0)))
    both(lambda made: made.control.set_routes((0, 2, 1), ()))
    both(lambda made: made.network.set_gate(beta=2.0, epsilon=0.3))
    both(lambda made: made.optimizer.set_learning_rate(0.001))
    both(lambda made: setattr(made.network, "value_input", "ones"))
    both(lambda made: made.control.enter_regime(find_regime("FL"), restart_value=False))
    both(gates)
    both(lambda made: made.control.enter_regime(find_regime("DL"), restart_value=False))
    both(lambda made: made.control.enter_regime(find_regime("ReLU"), restart_value=False))
    both(lambda made: made.control.enter_regime(find_regime("FRG"), restart_value=False))
    both(lambda made: made.control.enter_regime(find_regime("FR-II"), restart_value=True))


def test_a_network_whose_steps_are_not_numbers_is_seen_as_such() -> None:
    made = trainer("DL")
    with torch.no_grad():
        made.network.value.weights[-1].fill_(math.inf)
    made.step()
    assert not made.train_sums.is_finite


class Leaky(Stack):
    """A stack of another kind, as a module of one's own has."""


def test_only_chains_of_gated_dense_layers_are_stepped_by_hand() -> None:
    maps = (Conv(1, 2), GlobalAveragePool(), Dense(2, 2, gated=False))
    factor = (Dense(5, 4, factor=0.5), Dense(4, 2, gated=False))
    linear = (Dense(5, 4), Dense(4, 4, gated=False), Dense(4, 2, gated=False))
    assert is_dense_chain(GatedNetwork(CHAIN))
    assert not is_dense_chain(GatedNetwork(Architecture((1, 4, 4), maps)))
    assert not is_dense_chain(GatedNetwork(Architecture((5,), factor)))
    assert not is_dense_chain(GatedNetwork(Architecture((5,), linear)))
    assert not is_dense_chain(GatedNetwork(Architecture((5,), (Dense(5, 2, gated=False),))))
    other = GatedNetwork(CHAIN)
    other.feature = Leaky(CHAIN)
    assert not is_dense_chain(other)


@pytest.mark.parametrize("optimiser", ["adam", "sgd", "rmsprop"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_update_by_given_gradients_is_torchs_step(optimiser: str, dtype: torch.dtype) -> None:
    """Also where some weights begin anew, and where torch's own step comes in between."""
    config = TrainingConfig(optimiser=optimiser, momentum=0.5)
    network = GatedNetwork(CHAIN, True).to(dtype)
    twin = copy.deepcopy(network)
    flat = flatten_weights([list(network.value.parameters()), list(network.feature.parameters())])
    ours, theirs = NetworkOptimizer(config, network), NetworkOptimizer(config, twin)
    generator = torch.Generator().manual_seed(1)
    for step in range(9):
        if step in (2, 7):
            ours.forget_state(network.value)
            theirs.forget_state(twin.value)
        for group in flat:
            group.slopes.copy_(torch.randn(group.slopes.shape, generator=generator).to(dtype))
        pairs = zip(network.parameters(), twin.parameters(), strict=True)
        gradients = [gradient for group in reversed(flat) for gradient in group.gradients]
        for (parameter, other), gradient in zip(pairs, gradients, strict=True):
            other.grad = gradient.clone()
            parameter.grad = gradient if step == 5 else None
        theirs.step()
        ours.step() if step == 5 else ours.update_flat(flat)
        for parameter, other in zip(network.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(parameter, other, **TOLERANCE[dtype])
        assert all(parameter.grad is None for parameter in network.parameters())
    ours_state, theirs_state = ours.state_tensors(network), theirs.state_tensors(twin)
    assert ours_state.keys() == theirs_state.keys()
    for name, tensor in theirs_state.items():
        torch.testing.assert_close(ours_state[name], tensor, **TOLERANCE[dtype], msg=name)


TOLERANCE = {
    torch.float32: {"rtol": 1e-6, "atol": 1e-7},
    torch.float64: {"rtol": 1e-14, "atol": 1e-15},
}
