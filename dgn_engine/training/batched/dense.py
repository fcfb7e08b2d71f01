"""Forward and backward pass of B dense networks of one shape, with activations (B, units, m).

In this layout the first layer is a single product if all networks see the same input, and every
gradient lands where the optimiser reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class DenseChain:
    """Weights (B, out, in) and biases (B, out) of each layer; `biases` is empty without biases.

    If it is `parallel`, every gated layer reads the input.
    """

    weights: Sequence[Tensor]
    biases: Sequence[Tensor]
    parallel: bool = False

    def apply_layer(self, index: int, z: Tensor) -> Tensor:
        """Compute the pre-activations of one layer, W z + b.

        Args:
            index: Layer, from 0.
            z: Input, (B, in, m).

        Returns:
            (B, out, m).
        """
        if len(self.biases):
            return torch.baddbmm(self.biases[index][:, :, None], self.weights[index], z)
        return torch.bmm(self.weights[index], z)

    def reads_input(self, index: int) -> bool:
        """Return whether a gated layer reads the input.

        Args:
            index: Layer, from 0.

        Returns:
            True for the first layer, and for all if they are parallel.
        """
        return self.parallel or not index

    def apply_to_input(self, index: int, x: Tensor) -> Tensor:
        """Compute the pre-activations of a layer that reads the input.

        Args:
            index: Layer, from 0.
            x: (m, in), shared by all networks, or (B, m, in).

        Returns:
            (B, out, m).
        """
        weight = self.weights[index]
        if x.dim() == 3:
            return self.apply_layer(index, x.transpose(1, 2))
        q = torch.mm(weight.flatten(0, 1), x.t()).view(*weight.shape[:2], len(x))
        return q.add_(self.biases[index][:, :, None]) if len(self.biases) else q


@dataclass
class ChainPass:
    """Intermediate results of a forward pass.

    Attributes:
        x: Input, as for `apply_to_input`.
        pre: Pre-activations q_l of the gated layers, (B, units, m).
        gates: Gates G_l, (B, units, m).
        z: Outputs q_l ⊙ G_l, (B, units, m).
        logits: (B, C, m), or None if not computed.
    """

    x: Tensor
    pre: list[Tensor]
    gates: list[Tensor]
    z: list[Tensor]
    logits: Tensor | None


def chain_forward(
    chain: DenseChain, x: Tensor, gate: Callable[[int, Tensor], Tensor], logits: bool = True
) -> ChainPass:
    """Run B chains.

    Args:
        chain: Weights.
        x: (m, in), or (B, m, in); with one row the first layer is shared by all examples.
        gate: `gate(l, q)` returns G_l for pre-activations q of layer l, (B, units, m).
        logits: Whether to compute the output layer.

    Returns:
        The results of every layer.
    """
    passed = ChainPass(x, [], [], [], None)
    for index in range(len(chain.weights) - 1):
        if chain.reads_input(index):
            q = chain.apply_to_input(index, x)
        else:
            q = chain.apply_layer(index, passed.z[-1])
        passed.pre.append(q)
        passed.gates.append(gate(index, q))
        passed.z.append(q * passed.gates[-1])  # z_l = q_l ⊙ G_l
    if logits:
        passed.logits = chain.apply_layer(len(chain.weights) - 1, passed.z[-1])
    return passed


def chain_backward(
    chain: DenseChain,
    gradients: DenseChain | None,
    passed: ChainPass,
    delta: Tensor | None,
    into_pre: Callable[[int, Tensor | None], Tensor],
) -> None:
    """Write the gradients of B chains.

    Args:
        chain: Weights.
        gradients: Receives the gradients; None if nothing is trained here.
        passed: Results of the forward pass.
        delta: Gradient of the logits, (B, C, m); None if the logits do not matter.
        into_pre: `into_pre(l, dz)` returns dL/dq_l for dL/dz_l; dz is None in the last gated layer
            if `delta` is.
    """
    last = len(chain.weights) - 1
    for index in range(last, -1, -1):
        if index < last:
            delta = into_pre(index, delta)
        if delta is None:
            continue
        from_input = index < last and chain.reads_input(index)
        if gradients is not None:
            _collect_gradients(gradients, index, passed, delta, from_input)
        # dL/dz_{l-1} = W_lᵀ Δ_l
        delta = None if from_input else torch.bmm(chain.weights[index].transpose(1, 2), delta)


def _collect_gradients(
    gradients: DenseChain, index: int, passed: ChainPass, delta: Tensor, from_input: bool
) -> None:
    if len(gradients.biases):
        torch.sum(delta, dim=2, out=gradients.biases[index])
    target = gradients.weights[index]
    if not from_input:
        torch.bmm(delta, passed.z[index - 1].transpose(1, 2), out=target)  # dL/dW_l = Δ_l z_{l-1}ᵀ
        return
    x = passed.x
    if x.shape[-2] == 1:  # all examples share one input
        delta = delta.sum(dim=2, keepdim=True)
    if x.dim() == 3:
        torch.bmm(delta, x, out=target)
    else:
        torch.mm(delta.flatten(0, 1), x, out=target.flatten(0, 1))
