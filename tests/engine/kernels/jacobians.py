"""Jacobians of logits by automatic differentiation: the other way to every tangent kernel."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.func import functional_call, jacrev

from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.stack import run


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
            weights, biases = self.inner.value.tensors()
            fed = self.inner.input_of_value(x)
            chain = network.architecture
            return run(chain, weights, biases, fed, lambda i, _: gates[i], masks).output

    wrapped = Fixed()
    parameters = {
        name: p.detach()
        for name, p in wrapped.named_parameters()
        if name.startswith(f"inner.{part}")
    }
    tree = jacrev(lambda p: functional_call(wrapped, p, (x,)))(parameters)
    return torch.cat([leaf.flatten(2) for leaf in tree.values()], dim=2).detach()


def contracted(one: Tensor, two: Tensor, mode: str) -> Tensor:
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
