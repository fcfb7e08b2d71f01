"""The shape checks cover every public function and bite."""

from __future__ import annotations

import inspect

import pytest
import torch

import dgn_engine.kernels as k
from tests.engine.kernels.contracts import CONTRACTS, LOGITS, TANGENTS, WITHOUT_SHAPES, check
from tests.engine.kernels.tiny import ARCHITECTURES, images, make_network


def test_every_public_function_has_a_contract() -> None:
    functions = {name for name in k.__all__ if inspect.isfunction(getattr(k, name))}
    assert functions == {*CONTRACTS, *TANGENTS, *WITHOUT_SHAPES}
    assert functions >= {name for name in CONTRACTS if hasattr(getattr(k, name), "__wrapped__")}
    assert all(hasattr(getattr(k, name), "__wrapped__") for name in CONTRACTS)


def test_contracts_name_arguments_that_exist() -> None:
    for name, (taken, _) in CONTRACTS.items():
        known = set(inspect.signature(getattr(k, name)).parameters)
        optional = {"gates", "sensitivities", "masks", "x_value"}  # shared by the path kernels
        assert set(taken) - known <= optional, name


@pytest.mark.parametrize("shape", [(3,), (3, 4), (4, 4), (3, 3, 1)])
def test_a_result_of_another_shape_breaks_the_contract(shape: tuple[int, ...]) -> None:
    with pytest.raises(AssertionError, match="promised"):
        check("layer_overlap", {"gates": torch.zeros(3, 5)}, torch.zeros(shape))


@pytest.mark.parametrize("mode", list(LOGITS))
def test_every_mode_of_the_tangent_kernel_keeps_its_contract(mode: k.Logits) -> None:
    network = make_network(ARCHITECTURES["conv-gap"], soft=True)
    x = images(network.architecture, 4)
    parts = k.tangent_kernels(network, x, mode, other=x[:3])
    with pytest.raises(AssertionError, match="promised"):
        check("tangent_kernels", {"x": x, "other": x, "logits": mode}, parts)
