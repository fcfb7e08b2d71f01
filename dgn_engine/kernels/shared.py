"""Everything asked of one network on the same inputs, from one forward pass and one sweep each."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from dgn_engine.kernels.budget import check_budget
from dgn_engine.kernels.expectation import expected_value_kernel, weight_sigmas
from dgn_engine.kernels.gram import accumulator, input_gram
from dgn_engine.kernels.ntk import Logits, TangentKernels, tangent_kernels
from dgn_engine.kernels.path_kernels import Normalise, neural_path_kernel, normalised
from dgn_engine.kernels.recursion import PathKernels, path_recursion
from dgn_engine.model.architecture import Dense
from dgn_engine.model.network import GatedNetwork, NetworkTrace

KAPPA = 0.1  # of a hard gate's sensitivity, THEORY §5


class SharedKernels:
    """Kernels of `network` at x (n, *input_shape), each computed when first asked for.

    What several of them need is computed once: the forward pass by all, the recursion by Λ, S and
    (dense networks) H, the delta sweep by K^V, K^F and K^X. The network must not change meanwhile.
    Raises `UserError` where all of them for these inputs exceed `budget_bytes`.
    """

    def __init__(
        self,
        network: GatedNetwork,
        x: Tensor,
        *,
        logits: Logits = "mean",
        feature_trained: bool = True,
        budget_bytes: int | None = None,
    ) -> None:
        if budget_bytes is not None:
            check_budget(network, len(x), budget_bytes, logits)
        self.network = network
        self.x = x
        self._logits: Logits = logits
        self._feature_trained = feature_trained

    @cached_property
    def trace(self) -> NetworkTrace:
        with torch.no_grad():
            return self.network.trace(self.x)

    @property
    def gates(self) -> tuple[Tensor, ...]:
        return self.trace.value.gates

    @property
    def x_value(self) -> Tensor:
        """x^v: what the value network is fed."""
        return self.network.input_of_value(self.x)

    @cached_property
    def sensitivities(self) -> tuple[Tensor, ...]:
        """D_l of every gate (THEORY §5)."""
        gate = self.network.gate
        return tuple(gate.sensitivity(q, KAPPA) for q in self.trace.gate_pre)

    @cached_property
    def gram(self) -> Tensor:
        return input_gram(self.x_value)

    @cached_property
    def tangent(self) -> TangentKernels:
        """K^V, K^F and K^X where they exist."""
        return tangent_kernels(
            self.network,
            self.x,
            logits=self._logits,
            feature_trained=self._feature_trained,
            trace=self.trace,
        )

    def overlap(self, normalise: Normalise = "none") -> Tensor:
        """Λ, as `kernels.overlap`."""
        found = self._paths(normalise)
        return normalised(found.kernel.clone(), normalise, found.widths)

    def sensitive(self, normalise: Normalise = "none") -> Tensor:
        """S, as `kernels.sensitive_overlap`."""
        found = self._paths(normalise)
        assert found.derivative is not None
        return normalised(found.derivative.clone(), normalise, found.widths)

    def npk(self, normalise: Normalise = "none") -> Tensor:
        """H, as `kernels.neural_path_kernel`; Σ ⊙ Λ where every node is dense."""
        if all(isinstance(node, Dense) for node in self.network.architecture.nodes):
            found = self._paths(normalise)
            kernel = found.kernel * self.gram.to(accumulator(self.x))
            return normalised(kernel, normalise, found.widths)
        masks = self.trace.value.masks
        return neural_path_kernel(
            self.network.architecture, self.gates, self.x_value, normalise, masks
        )

    def expected_value(self) -> Tensor:
        """βH (n, n), float64: E[K^V_0] per logit, to be held beside `tangent.value` in mode 'mean'.

        σ of each layer is the root mean square of its weights, so that it is what they were drawn
        with at initialisation, exactly for ±σ (see `kernels.expected_value_kernel`).
        """
        sigmas = weight_sigmas(self.network.value.tensors()[0])
        masks = self.trace.value.masks
        return expected_value_kernel(
            self.network.architecture, self.gates, self.x_value, sigmas, masks
        )

    def _paths(self, normalise: Normalise) -> PathKernels:
        return self._paths_by_width if normalise == "width" else self._path_counts

    @cached_property
    def _path_counts(self) -> PathKernels:
        return self._recursion(by_width=False)

    @cached_property
    def _paths_by_width(self) -> PathKernels:
        return self._recursion(by_width=True)

    def _recursion(self, by_width: bool) -> PathKernels:
        return path_recursion(
            self.network.architecture,
            self.gates,
            sensitivities=self.sensitivities,
            masks=self.trace.value.masks,
            by_width=by_width,
        )
