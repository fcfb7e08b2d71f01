"""One step of a chain of dense layers by hand: its losses and gradients without an autograd graph.

The backward pass of such a chain is known (THEORY §1): z_l = q_l ⊙ G_l. What is written where is
decided once for each size of a batch (`DensePass`), so that a step allocates next to nothing and
waits for nothing; `make bench` has the figures, and the tests hold every regime against autograd
in float64.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dgn_engine.config import Loss
from dgn_engine.model import architecture as arch
from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.stack import Stack
from dgn_engine.training.dense_buffers import DenseWeights
from dgn_engine.training.dense_pass import DensePass
from dgn_engine.training.flat_weights import FlatWeights


def is_dense_chain(network: GatedNetwork) -> bool:
    """Whether both networks are chains of gated dense layers; gates that are drawn for single
    examples (FRG) are another matter."""
    stacks = (network.value, network.feature)
    return all(type(s) is Stack and is_dense_architecture(s.architecture) for s in stacks)


def is_dense_architecture(architecture: arch.Architecture) -> bool:
    """Return whether it is a chain of gated dense layers and an output layer."""
    *hidden, last = architecture.nodes
    return (
        len(architecture.input_shape) == 1
        and bool(hidden)
        and all(isinstance(node, arch.Dense) and node.factor == 1.0 for node in architecture.nodes)
        and all(arch.is_gated(node) for node in hidden)
        and not arch.is_gated(last)
    )


class DenseStep:
    """Losses and gradients of one network that `is_dense_chain`, in its regime of the moment.

    `trained`: of the last call, what trains and by what it moves.
    """

    def __init__(self, network: GatedNetwork, kind: Loss) -> None:
        self._network = network
        self._kind: Loss = kind
        self._weights: DenseWeights | None = None
        self._settings: tuple[object, ...] = ()
        self._passes: dict[int, DensePass] = {}  # by the size of the batch
        self.trained: list[FlatWeights] = []

    @torch.no_grad()
    def __call__(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Mean loss () and logits (m, C) for x (m, inputs), y (m,); fills the gradients.

        The next call writes over them.
        """
        chosen = self._pass(len(x))
        self.trained = chosen.trained
        return chosen(x, y)

    def settle(self) -> DenseWeights:
        """Lay the weights side by side, unless that is where they are; no step moves them away."""
        if self._weights is None or not self._weights.intact:
            self._weights = DenseWeights(self._network)
            self._passes.clear()
        return self._weights

    def _pass(self, examples: int) -> DensePass:
        """The one for batches of this size; all are made anew once anything was set or moved."""
        settings = self._network.settings
        weights = self.settle()
        if settings != self._settings:
            self._settings = settings
            self._passes.clear()
        if examples not in self._passes:
            self._passes[examples] = DensePass(self._network, weights, self._kind, examples)
        return self._passes[examples]
