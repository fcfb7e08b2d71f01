"""What `adapt` makes of a softmax at the end, of objects with logits and of complex weights."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import dgn_engine.kernels as k
from dgn_engine.errors import UserError
from dgn_engine.model.adapt.from_module import copy_stack
from tests.engine.kernels.jacobians import contract_jacobians
from tests.engine.kernels.unusual_modules import (
    ENDS,
    OBJECTS,
    ComplexSpectrum,
    Ended,
    dense,
    pruned,
    real_jacobian,
    unusual_examples,
)
from tests.refusals import refused


def close(one: Tensor, two: Tensor) -> None:
    torch.testing.assert_close(one, two, rtol=1e-12, atol=1e-12 * float(two.abs().max()))


def ended(end: Callable[[Tensor], object]) -> Ended:
    torch.manual_seed(0)
    return Ended(dense(nn.ReLU), end).double().eval()


@pytest.mark.wide
@pytest.mark.parametrize("name", list(ENDS))
@pytest.mark.parametrize("hold", ["", *OBJECTS])
def test_adapt_leaves_out_a_softmax_at_the_end_and_says_so(name: str, hold: str) -> None:
    end = ENDS[name]
    holding = OBJECTS[hold] if hold else (lambda y: y)
    module, x = ended(lambda z: holding(end(z))), unusual_examples("", 5)
    with pytest.warns(RuntimeWarning, match="oftmax"):
        network = k.adapt(module, (6,))
    close(network(x).detach(), module.body(x).detach())
    J = real_jacobian(module, x, module.body)
    close(k.tangent_kernels(network, x).total_kernel, contract_jacobians(J, J, "mean"))
    close(
        k.tangent_kernels(network, x, logits="full").total_kernel, contract_jacobians(J, J, "full")
    )
    assert "oftmax" in copy_stack(module, (6,)).remark


@pytest.mark.parametrize(
    "end",
    [
        lambda z: torch.softmax(torch.softmax(z, 1), 1),
        lambda z: torch.softmax(z, 1) * 2,
        lambda z: torch.softmax(z, 0),
    ],
)
def test_a_softmax_that_does_not_come_last_is_no_end(end: Callable[[Tensor], Tensor]) -> None:
    with refused("not-supported"):
        k.adapt(ended(end), (6,))


def test_a_gradient_that_changes_behind_the_softmax_is_noticed() -> None:
    def end(z: Tensor) -> Tensor:
        out = torch.log_softmax(z, 1)
        if out.requires_grad:
            out.register_hook(lambda gradient: 2 * gradient)
        return out

    with pytest.raises(UserError):
        k.adapt(ended(end), (6,))


def test_what_adapt_cannot_read_of_them_is_refused() -> None:
    """Cast to real numbers a complex layer would be another one, whose modulus has gates."""

    class Modulus(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(6, 4, dtype=torch.complex64)
            self.head = nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            logits: Tensor = self.head(self.inner(x.to(self.inner.weight.dtype)).abs())
            return logits

    for module in (Modulus(), ComplexSpectrum()):
        with refused("wrong-type"):
            k.adapt(module, (6,))
    with refused("not-supported"):
        k.adapt(pruned(nn.ReLU), (6,))
