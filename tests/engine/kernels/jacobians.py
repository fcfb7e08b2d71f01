"""Jacobians of logits by automatic differentiation: the other way to every tangent kernel."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.func import functional_call, jacrev

import dgn_engine.kernels as k
from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.stack import run_chain
from tests.engine.kernels.tiny import draw_images

MODES = ("mean", "full", "perclass", "sumlogit")


def jacobian(network: GatedNetwork, part: str, x: Tensor, frozen_gates: bool) -> Tensor:
    """(n, C, parameters) of the logits with respect to Θ^v or Θ^f, by automatic differentiation."""
    trace = network.trace(x).value
    gates, masks = trace.gates, trace.masks

    class Fixed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = network

        def forward(self, x: Tensor) -> Tensor:
            if not frozen_gates:
                output: Tensor = self.inner(x)
                return output
            weights, biases = self.inner.value.folded_tensors()
            fed = self.inner.input_of_value(x)
            chain = network.architecture
            return run_chain(chain, weights, biases, fed, lambda i, _: gates[i], masks).output

    wrapped = Fixed()
    parameters = {
        name: p.detach()
        for name, p in wrapped.named_parameters()
        if name.startswith(f"inner.{part}")
    }
    tree = jacrev(lambda p: functional_call(wrapped, p, (x,)))(parameters)
    return torch.cat([leaf.flatten(2) for leaf in tree.values()], dim=2).detach()


def contract_jacobians(one: Tensor, two: Tensor, mode: str) -> Tensor:
    """The tangent kernel in one of the modes of two Jacobians (n, C, P) and (m, C, P)."""
    full = torch.einsum("nkp,mlp->nkml", one, two)
    match mode:
        case "full":
            return full
        case "perclass":
            return torch.einsum("nkmk->knm", full)
        case "mean":
            return torch.einsum("nkmk->nm", full) / one.shape[1]
    return full.sum((1, 3))


def check_parts(network: GatedNetwork, mode: str, n: int = 3) -> None:
    """K^V, K^F, K^X and K of an n × n kernel and of a block are those of Jacobians, whatever of
    them there is; and so they are one logit at a time."""
    x = draw_images(network.architecture, n + 2)
    J = jacobian(network, "value", x, frozen_gates=False)
    V = F = None
    if network.own_gates:
        V = jacobian(network, "value", x, frozen_gates=True)
        parts = {"value": [(V, V)], "feature": [(J - V, J - V)], "cross": [(V, J - V), (J - V, V)]}
        if not network.gate.soft:
            parts = {"value": [(J, J)]}
    else:
        F = jacobian(network, "feature", x, frozen_gates=False)
        parts = {"value": [(J, J)]} | ({"feature": [(F, F)]} if network.gate.soft else {})
    both = J if network.own_gates or F is None else torch.cat([J, F], dim=2)
    parts["total_kernel"] = [(both, both)]
    rows = slice(None, n)
    for found, columns in (
        (k.tangent_kernels(network, x[rows], mode), rows),
        (k.tangent_kernels(network, x[rows], mode, budget_bytes=1), rows),
        (k.tangent_kernels(network, x[rows], mode, other=x[n:]), slice(n, None)),
    ):
        for part in ("value", "feature", "cross", "total_kernel"):
            kernel = getattr(found, part)
            assert (kernel is None) == (part not in parts)
            if kernel is not None:
                pairs = [contract_jacobians(a[rows], b[columns], mode) for a, b in parts[part]]
                torch.testing.assert_close(kernel, sum(pairs), rtol=1e-10, atol=1e-11)
