"""The step of convolutions by hand is that of autograd, in every regime and setting."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from dgn_engine.model.architecture import (
    Architecture,
    Conv,
    Dense,
    Flatten,
    GlobalAveragePool,
    MaxPool,
    Node,
)
from dgn_engine.model.network import GatedNetwork
from dgn_engine.regimes import find_regime
from dgn_engine.training.conv_step import is_chain_of_convolutions
from dgn_engine.training.trainer import Trainer
from tests.engine.training.step_cases import BY_HAND, assert_equal_steps, exact_trainer
from tests.plugins import each

CONVS = (Conv(2, 3), Conv(3, 3), Conv(3, 3))
POOLED = Architecture((2, 5, 4), (*CONVS, GlobalAveragePool(), Dense(3, 3, gated=False)))
STRIDED = (Conv(2, 3, kernel=2, stride=2, padding=0), Conv(3, 4, kernel=1, padding=0))
FLAT = Architecture((2, 5, 4), (*STRIDED, Flatten(), Dense(16, 3, gated=False)))
ONE_LOGIT = Architecture((2, 5, 4), (*CONVS, GlobalAveragePool(), Dense(3, 1, gated=False)))
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "biases": {"net": {"bias": True}},
    "turned": {"gating": {"wiring": (2, 0, 1), "rotation": (1, 0, 2), "shift": (0, 1, 2)}},
    "tiled": {"gating": {"tiling": (2, 1, 3), "rotation": (0, 2, 1)}},
    "ones": {"gating": {"value_input": "ones", "beta": 3.0}, "net": {"bias": True}},
    "random input": {"gating": {"value_input": "random", "epsilon": 0.2}},
    "squared": {"training": {"loss": "squared"}},
    "momentum": {"training": {"optimiser": "sgd", "momentum": 0.9}},
}


def chosen() -> list[tuple[str, str]]:
    """Where one network takes the weights of the other, nothing can be tiled."""
    tied = [name for name in BY_HAND if find_regime(name).on_entry == "share-redrawn"]
    return [(r, s) for r in BY_HAND for s in SETTINGS if s != "tiled" or r not in tied]


@pytest.mark.parametrize(("regime", "setting"), each(chosen()))
def test_convolutions_by_hand_are_those_of_autograd_to_1e_11(regime: str, setting: str) -> None:
    parts = SETTINGS[setting]
    ours = exact_trainer(POOLED, regime, **parts)
    before = {name: tensor.clone() for name, tensor in ours.tensors().items()}
    assert_equal_steps(ours, exact_trainer(POOLED, regime, **parts), steps=4)
    moved = [n for n, tensor in before.items() if not torch.equal(tensor, ours.tensors()[n])]
    assert {name.split(".")[0] for name in moved} == set(find_regime(regime).trains)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("architecture", [FLAT, ONE_LOGIT])
@pytest.mark.parametrize("regime", ["ReLU", "soft-ReLU", "DLN", "FR-II", "DL", "gates-only"])
def test_strides_other_kernels_one_logit_and_no_pooling_are_stepped_alike(
    regime: str, architecture: Architecture, bias: bool
) -> None:
    parts = {"net": {"bias": bias}}
    pair = [exact_trainer(architecture, regime, **parts) for _ in range(2)]
    assert_equal_steps(*pair, steps=4)


def test_convolutions_follow_swaps_orders_dials_and_imported_biases() -> None:
    pair = [exact_trainer(POOLED, "DL") for _ in range(2)]

    def both(change: Any) -> None:
        for made in pair:
            change(made)
        assert_equal_steps(*pair, steps=3)

    def gates(made: Trainer) -> None:
        generator = torch.Generator().manual_seed(8)
        shapes = [weight.shape for weight in made.network.feature.weights][:3]
        weights = [torch.randn(shape, generator=generator).double() for shape in shapes]
        biases: list[Tensor | None] = [torch.full((3,), 0.1, dtype=torch.float64)] * 3
        made.take_gates(weights, biases)
        made.network.double()

    assert_equal_steps(*pair, steps=3)
    both(lambda made: made.rewire((1, 2, 0)))
    both(lambda made: made.reroute((0, 2, 1), (1, 0, 0)))
    both(lambda made: made.network.set_gate(beta=2.0, epsilon=0.3))
    both(lambda made: setattr(made.network, "value_input", "ones"))
    both(lambda made: made.swap(find_regime("FL"), restart_value=False))
    both(gates)
    both(lambda made: made.swap(find_regime("DL"), restart_value=False))
    both(lambda made: made.swap(find_regime("ReLU"), restart_value=False))
    both(lambda made: made.swap(find_regime("FRG"), restart_value=False))
    both(lambda made: made.swap(find_regime("DL-linear"), restart_value=True))


def test_only_plain_chains_of_gated_convolutions_are_stepped_by_hand() -> None:
    head = (GlobalAveragePool(), Dense(3, 2, gated=False))

    def suits(*nodes: Node) -> bool:
        return is_chain_of_convolutions(GatedNetwork(Architecture((2, 5, 4), nodes)))

    assert suits(*CONVS, *head)
    assert not suits(Conv(2, 3, circular=True), *head)
    assert not suits(Conv(2, 3, normal=True), *head)
    assert not suits(Conv(2, 3), MaxPool(), *head)
    assert not suits(Conv(2, 3), GlobalAveragePool(), Dense(3, 2, gated=False, factor=0.5))
    assert not suits(Conv(2, 3), GlobalAveragePool(), Dense(3, 3), Dense(3, 2, gated=False))
    dense = Architecture((5,), (Dense(5, 3), Dense(3, 2, gated=False)))
    assert not is_chain_of_convolutions(GatedNetwork(dense))
