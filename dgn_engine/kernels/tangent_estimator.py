"""Estimates of K^V, K^F and K^X from some of the logits, exact after all of them (theory §4).

K = Σ_k J_kJ_kᵀ/C over the C logits is a mean of C kernels, each of one backward sweep. For every
orthonormal basis u_1 … u_C of the logits, Σ_j (JᵀU)_j(JᵀU)_jᵀ is the same sum, so m of C sketched
logits J_u, in random order, give an unbiased estimate; since they are sampled without replacement,
its standard error has the factor √(1 − m/C) and is 0 once all have been used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor

from dgn_engine.kernels.arguments import (
    check_choice,
    check_flag,
    check_generator,
    check_network_inputs,
    check_trace,
    check_trains,
)
from dgn_engine.kernels.gram import accumulator_dtype
from dgn_engine.kernels.kernel_average import KernelAverage, KernelEstimate
from dgn_engine.kernels.precision import full_precision
from dgn_engine.kernels.tangent_sweep import prepare_examples, sweep_layers
from dgn_engine.model.network import GatedNetwork, NetworkTrace
from dgn_engine.regimes import Trained

TangentScale = Literal["none", "cosine"]
PARTS = ("value", "feature", "cross")


class TangentEstimator:
    """Estimator of the tangent kernels (mean over logits), one sketched logit at a time.

    The directions are a random rotation of the logits, which is all that is drawn from `generator`.
    See `tangent_kernels` for which of K^V, K^F and K^X exist.

    Args:
        network: The network.
        x: Inputs, `(n, *input_shape)`.
        generator: Source of randomness, on the CPU.
        trains: As for `tangent_kernels`.
        trace: Forward pass of `x`, if available.
        folded: As for `tangent_kernels`.

    Raises:
        ArgumentError: As for `tangent_kernels`.
    """

    @torch.no_grad()
    @full_precision
    def __init__(
        self,
        network: GatedNetwork,
        x: Tensor,
        generator: torch.Generator,
        trains: Trained | None = None,
        trace: NetworkTrace | None = None,
        folded: bool = False,
    ) -> None:
        check_network_inputs(network, x)
        check_generator(generator)
        check_trains(trains)
        check_flag("folded", folded)
        if trace is not None:
            check_trace("trace", trace, len(x))
        trace = network.trace(x) if trace is None else trace
        self._passed = prepare_examples(network, trace, trains, folded)
        self.logits = network.architecture.classes
        self._tops = _random_rotation(self.logits, generator).to(x)
        self._averages = {part: KernelAverage(population=self.logits) for part in PARTS}
        self.draws = 0

    @property
    def is_exact(self) -> bool:
        """Return whether all directions have been used.

        Returns:
            `True` once the estimates equal the exact kernels.
        """
        return self.draws == self.logits

    def add_draws(self, count: int = 1) -> None:
        """Add directions.

        Args:
            count: Number of directions; at most those that remain are added.
        """
        for _ in range(min(count, self.logits - self.draws)):
            for _ in self.slices():
                pass

    @torch.no_grad()
    def slices(self) -> Iterator[float]:
        """Add one direction, layer by layer; it counts once the last layer is done.

        Yields:
            The fraction of the direction that is done.
        """
        layers = max(len(self._passed.value.parameters), 1)
        layers += 0 if self._passed.feature is None else len(self._passed.feature.parameters)
        top = self._tops[None, self.draws, None]
        steps = sweep_layers(self._passed, self._passed, top, "total")
        for count, kernels in enumerate(steps, 1):
            if kernels is None:
                yield min(count / (layers + 1), 1.0)
                continue
            for part, average in self._averages.items():
                kernel: Tensor | None = getattr(kernels, part)
                if kernel is not None:
                    average.add_sample(kernel.to(accumulator_dtype(kernel)))
            self.draws += 1
            yield 1.0

    def kernels(self, normalise: TangentScale = "none") -> dict[str, KernelEstimate]:
        """Return the estimates; at least two directions are needed, unless all have been used.

        Args:
            normalise: 'none', or 'cosine' to scale each to unit diagonal.

        Returns:
            Estimates by name, 'value', 'feature' and 'cross', as far as they exist; none before the
            first direction.

        Raises:
            ArgumentError: Only one of several directions was used.
        """
        check_choice("normalise", normalise, TangentScale)
        return {
            part: average.mean_estimate() if normalise == "none" else average.cosine_estimate()
            for part, average in self._averages.items()
            if average.count
        }


def _random_rotation(size: int, generator: torch.Generator) -> Tensor:
    """Draw an orthogonal matrix `(size, size)` from the Haar distribution, float64."""
    normal = torch.randn(
        (size, size), generator=generator, dtype=torch.float64, device=generator.device
    )
    rotation, triangle = torch.linalg.qr(normal)
    uniform: Tensor = rotation * triangle.diagonal().sign()
    return uniform.T
