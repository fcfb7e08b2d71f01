"""A gate is a slope: leaky, parametric and absolute-value units in every kernel."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import dgn_engine.kernels as k
from dgn_engine.model.gates import Gate
from tests.engine.kernels.jacobians import MODES, contract_jacobians
from tests.engine.kernels.module_grammar import tangent_kernel
from tests.engine.kernels.unusual_modules import real_jacobian
from tests.refusals import refused

ACTS: dict[str, Callable[[], nn.Module]] = {
    "leaky": lambda: nn.LeakyReLU(0.3),
    "parametric": lambda: nn.PReLU(5, init=-0.4),
    "one parameter": lambda: nn.PReLU(init=0.2),
    "absolute": lambda: Absolute(),
}


class Absolute(nn.Module):
    def forward(self, z: Tensor) -> Tensor:
        return z.abs()


def network_of(act: nn.Module, seed: int = 0) -> tuple[nn.Sequential, Tensor]:
    torch.manual_seed(seed)
    layers = (nn.Linear(4, 5), act, nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 2))
    return nn.Sequential(*layers).double(), torch.randn(6, 4, dtype=torch.float64)


def slopes_by_hand(module: nn.Sequential, x: Tensor) -> list[Tensor]:
    """z/q of both activations: no q is zero here."""
    first = module[0](x)
    found = module[1](first)
    second = module[2](found)
    return [(found / first).detach(), (second > 0).double()]


@pytest.mark.parametrize("name", list(ACTS))
def test_overlap_and_path_kernel_are_products_of_slopes(name: str) -> None:
    module, x = network_of(ACTS[name]())
    one, two = slopes_by_hand(module, x)
    shared = k.SharedKernels(k.adapt(module, (4,)), x)
    torch.testing.assert_close(shared.gates[0], one)
    counted = (one @ one.T) * (two @ two.T)
    torch.testing.assert_close(shared.overlap(), counted)
    torch.testing.assert_close(shared.npk(), (x @ x.T) * counted)


@pytest.mark.parametrize("name", list(ACTS))
def test_the_tangent_kernel_counts_slopes_that_train_and_no_others(name: str) -> None:
    module, x = network_of(ACTS[name]())
    network = k.adapt(module, (4,))
    expected = tangent_kernel(module, x)
    torch.testing.assert_close(k.tangent_kernels(network, x).total_kernel, expected)
    block = k.tangent_kernels(network, x[:2], other=x[2:]).total_kernel
    torch.testing.assert_close(block, expected[:2, 2:])
    for parameter in module[1].parameters():
        parameter.requires_grad_(False)
    torch.testing.assert_close(
        k.tangent_kernels(network, x).total_kernel, tangent_kernel(module, x)
    )


def test_a_slope_is_as_sensitive_as_it_may_change() -> None:
    module, x = network_of(nn.LeakyReLU(0.3))
    leaky = k.SharedKernels(k.adapt(module, (4,)), x).sensitivities
    module[1] = nn.ReLU()
    hard = k.SharedKernels(k.adapt(module, (4,)), x).sensitivities
    torch.testing.assert_close(leaky[0], 0.7 * hard[0])


def test_slopes_reach_a_value_network_by_its_wiring() -> None:
    value, x = network_of(nn.ReLU(), seed=0)
    feature, _ = network_of(nn.LeakyReLU(0.3), seed=1)
    one, two = slopes_by_hand(feature, x)
    network = k.adapt(value, (4,), gates_from=feature)
    network.wiring = (1, 0)
    shared = k.SharedKernels(network, x)
    torch.testing.assert_close(shared.gates[0], two)
    torch.testing.assert_close(shared.gates[1], one)
    swapped = k.SharedKernels(k.adapt(value, (4,), gates_from=feature), x).sensitivities
    torch.testing.assert_close(shared.sensitivities[0], swapped[1])
    torch.testing.assert_close(shared.sensitivities[1], swapped[0])
    z = value[0](x) * two
    torch.testing.assert_close(network(x), value[4](value[2](z) * one))


def test_where_slopes_have_no_meaning_they_are_refused() -> None:
    module, _ = network_of(nn.LeakyReLU(0.3))
    with refused("contradiction"):
        k.adapt(module, (4,), gates_from=copy.deepcopy(module), gate=Gate(soft=True))
    trained, _ = network_of(nn.PReLU())
    with refused("frozen"):
        k.adapt(module, (4,), gates_from=trained)
    trained[1].requires_grad_(False)
    k.adapt(module, (4,), gates_from=trained)


def test_an_absolute_value_of_nothing_has_no_slope() -> None:
    module, _ = network_of(Absolute())
    x = torch.zeros(2, 4, dtype=torch.float64)
    with torch.no_grad():
        module[0].bias.zero_()  # type: ignore[union-attr]
    network = k.adapt(module, (4,))
    torch.testing.assert_close(
        k.tangent_kernels(network, x).total_kernel, tangent_kernel(module, x)
    )


@pytest.mark.parametrize("logits", MODES)
def test_every_slope_that_trains_counts(logits: k.Logits) -> None:
    """Of several activations with a parameter, by channel or one for all."""
    torch.manual_seed(0)
    acts = (nn.PReLU(5, init=-0.4), nn.PReLU(init=0.2), nn.PReLU(5, init=0.7))
    layers = [part for act in acts for part in (nn.Linear(5, 5), act)]
    module = nn.Sequential(*layers, nn.Linear(5, 2)).double()
    x = torch.randn(6, 5, dtype=torch.float64)
    network, J = k.adapt(module, (5,)), real_jacobian(module, x)
    found = k.tangent_kernels(network, x, logits).total_kernel
    torch.testing.assert_close(found, contract_jacobians(J, J, logits))
    expected = contract_jacobians(J, J, "mean")
    held = torch.from_numpy(k.tangent_operator(network, x) @ np.eye(len(x)))
    torch.testing.assert_close(held, expected)
    torch.testing.assert_close(k.tangent_diagonal(network, x), expected.diagonal())
