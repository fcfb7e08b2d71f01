"""B dense chains of one shape: forward and backward by hand, activations as (B, units, m).

That layout makes the first layer one product where all networks see the same input, and leaves
every gradient where the optimiser reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class DenseChain:
    """Weights (B, out, in) and biases (B, out) of each layer; no biases: an empty list."""

    weights: Sequence[Tensor]
    biases: Sequence[Tensor]

    def layer(self, place: int, z: Tensor) -> Tensor:
        if len(self.biases):
            return torch.baddbmm(self.biases[place][:, :, None], self.weights[place], z)
        return torch.bmm(self.weights[place], z)

    def first(self, x: Tensor) -> Tensor:
        """The first layer for x (m, in), the same for all networks, or (B, m, in)."""
        weight = self.weights[0]
        if x.dim() == 3:
            return self.layer(0, x.transpose(1, 2))
        q = torch.mm(weight.flatten(0, 1), x.t()).view(*weight.shape[:2], len(x))
        return q.add_(self.biases[0][:, :, None]) if len(self.biases) else q


@dataclass
class ChainPass:
    """Of one pass: what the chain was fed, pre-activations and gates and outputs of its gated
    layers, and the logits, if they were computed."""

    x: Tensor
    pre: list[Tensor]
    gates: list[Tensor]
    z: list[Tensor]
    logits: Tensor | None


def forward(
    chain: DenseChain, x: Tensor, gate: Callable[[int, Tensor], Tensor], logits: bool = True
) -> ChainPass:
    """`gate(l, q)` gives G_l; with one row of x the first layer is the same for all examples."""
    passed = ChainPass(x, [], [], [], None)
    for place in range(len(chain.weights) - 1):
        q = chain.layer(place, passed.z[-1]) if place else chain.first(x)
        passed.pre.append(q)
        passed.gates.append(gate(place, q))
        passed.z.append(q * passed.gates[-1])
    if logits:
        passed.logits = chain.layer(len(chain.weights) - 1, passed.z[-1])
    return passed


def backward(
    chain: DenseChain,
    gradients: DenseChain | None,
    passed: ChainPass,
    delta: Tensor | None,
    into_pre: Callable[[int, Tensor | None], Tensor],
) -> None:
    """Fill `gradients` (None: nothing is trained here), from the delta of the logits.

    `into_pre(l, dz)` makes dq_l of dz_l; dz is None in the last gated layer where the logits
    count for nothing (`delta` None).
    """
    last = len(chain.weights) - 1
    for place in range(last, -1, -1):
        if place < last:
            delta = into_pre(place, delta)
        if delta is None:
            continue
        if gradients is not None:
            _collect(gradients, place, passed, delta)
        if place:
            delta = torch.bmm(chain.weights[place].transpose(1, 2), delta)


def _collect(gradients: DenseChain, place: int, passed: ChainPass, delta: Tensor) -> None:
    if len(gradients.biases):
        torch.sum(delta, dim=2, out=gradients.biases[place])
    target = gradients.weights[place]
    if place:
        torch.bmm(delta, passed.z[place - 1].transpose(1, 2), out=target)
        return
    x = passed.x
    if x.shape[-2] == 1:  # one row for all examples
        delta = delta.sum(dim=2, keepdim=True)
    if x.dim() == 3:
        torch.bmm(delta, x, out=target)
    else:
        torch.mm(delta.flatten(0, 1), x, out=target.flatten(0, 1))
