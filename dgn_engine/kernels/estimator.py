"""Monte-Carlo estimates of H, Λ and S with their error bars, linear in the examples (THEORY §3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import torch
from torch import Tensor

from dgn_engine.kernels.arguments import (
    check_architecture,
    check_count,
    check_flag,
    check_generator,
    check_tensor,
    check_word,
)
from dgn_engine.kernels.gram import accumulator, flat_gram
from dgn_engine.kernels.kernel_average import KernelAverage, KernelEstimate
from dgn_engine.kernels.path_inputs import PathInputs, check_path_inputs
from dgn_engine.kernels.path_kernels import Normalise
from dgn_engine.kernels.precision import full_precision
from dgn_engine.kernels.random_paths import PathScales, PathSigns, random_pass
from dgn_engine.kernels.walk import widths_outside_blocks
from dgn_engine.model.architecture import Architecture

PASS_BYTES = 64 << 20  # of the largest layer of the examples that pass at once


class PathEstimator:
    """H of the examples, or Λ where the inputs have no x^v, and S where they have sensitivities:
    means over random value networks, which go on for as long as draws are added.

    Each draw is one network of ±σ signs under the given gates; with zz' summed over its last hidden
    layer, the output weights are integrated out. Unbiased as path counts and, where no block
    needs it otherwise, 'width' (`by_width`: within blocks, too); relative error O(1/√draws).
    Every number comes from `generator`; drawn on the CPU, a seed means the same on every device.
    """

    def __init__(
        self,
        architecture: Architecture,
        inputs: PathInputs,
        generator: torch.Generator,
        by_width: bool = False,
        other: PathInputs | None = None,
    ) -> None:
        check_architecture(architecture)
        check_flag("by_width", by_width)
        check_generator(generator)
        check_path_inputs(architecture, inputs, other)
        self._architecture, self._generator, self._by_width = architecture, generator, by_width
        self._inputs, self._block = inputs.joined(other)
        self._scales = PathScales.of(architecture, by_width)
        self._like = self._inputs.gates[0]
        sizes = [prod(shape) for _, shape in architecture.shapes()]
        item = self._like.element_size() * max(sizes)
        self.at_once = max(1, PASS_BYTES // item)  # examples; each slice of a draw is of so many
        self._kernels = KernelAverage(self._block.symmetric)
        self._sensitive = KernelAverage(self._block.symmetric)

    @property
    def draws(self) -> int:
        return self._kernels.count

    @torch.no_grad()
    @full_precision
    def draw(self, count: int = 1) -> None:
        """Add so many draws."""
        for _ in range(count):
            for _ in self.slices():
                pass

    @torch.no_grad()
    def slices(self) -> Iterator[float]:
        """Add one draw, `at_once` examples after the other; yields the share that is done. It
        counts when the last one is."""
        sensitive = self._inputs.sensitivities is not None
        signs = PathSigns.drawn(self._architecture, self._generator, sensitive, self._like)
        n, left = len(self._like), 0
        hidden: list[tuple[Tensor, Tensor | None]] = []
        while left < n:
            part = slice(left, min(n, left + self.at_once))
            hidden.append(random_pass(self._architecture, self._scales, signs, self._inputs, part))
            left = part.stop
            if left < n:
                yield left / n
        self._kernels.add(self._gram([h for h, _ in hidden]))
        if sensitive:
            changes = [change for _, change in hidden if change is not None]
            self._sensitive.add(self._gram(changes))
        yield 1.0

    def _gram(self, parts: Sequence[Tensor]) -> Tensor:
        h, block = torch.cat(list(parts)), self._block
        return flat_gram(h[block.rows], h[block.columns]).to(accumulator(h))

    def kernel(self, normalise: Normalise = "none") -> KernelEstimate:
        """The estimate of H, or of Λ; two draws are needed."""
        return self._normalised(self._kernels, normalise)

    def sensitive(self, normalise: Normalise = "none") -> KernelEstimate:
        """The estimate of S; the inputs had sensitivities."""
        return self._normalised(self._sensitive, normalise)

    def _normalised(self, average: KernelAverage, normalise: Normalise) -> KernelEstimate:
        check_word("normalise", normalise, Normalise)
        if normalise == "cosine":
            return average.cosine()
        if normalise == "trace":
            return average.trace_one()
        widths = widths_outside_blocks(self._architecture)
        counts = self._scales.constant * (widths if self._by_width else 1.0)
        return average.plain(counts / (widths if normalise == "width" else 1.0))


@torch.no_grad()
@full_precision
def estimate_path_kernel(
    architecture: Architecture,
    gates: Sequence[Tensor],
    x_value: Tensor,
    draws: int,
    generator: torch.Generator,
    normalise: Normalise = "none",
    masks: Sequence[Tensor] = (),
    other: PathInputs | None = None,
) -> KernelEstimate:
    """`neural_path_kernel` (n, n) from `draws` ≥ 2 random value networks with these gates; against
    `other` the block (n, m), which has no 'trace' and no 'cosine'. See `PathEstimator`."""
    check_tensor("x_value", x_value)  # None would be Λ
    return _estimated(
        architecture, PathInputs(gates, x_value, masks), draws, generator, normalise, other
    )[0]


@torch.no_grad()
@full_precision
def estimate_overlap(
    architecture: Architecture,
    inputs: PathInputs,
    draws: int,
    generator: torch.Generator,
    normalise: Normalise = "none",
    other: PathInputs | None = None,
) -> tuple[KernelEstimate, KernelEstimate | None]:
    """Λ and, where the inputs have sensitivities, S (n, n), from `draws` ≥ 2 random value networks;
    their x^v is not looked at. Otherwise as `estimate_path_kernel`."""
    check_path_inputs(architecture, inputs, other)
    plain = PathInputs(inputs.gates, None, inputs.masks, inputs.sensitivities)
    return _estimated(architecture, plain, draws, generator, normalise, other)


def _estimated(
    architecture: Architecture,
    inputs: PathInputs,
    draws: int,
    generator: torch.Generator,
    normalise: Normalise,
    other: PathInputs | None,
) -> tuple[KernelEstimate, KernelEstimate | None]:
    check_word("normalise", normalise, Normalise)
    check_count("draws", draws, 2)  # of fewer there is no error bar
    estimator = PathEstimator(architecture, inputs, generator, normalise == "width", other)
    estimator.draw(draws)
    found = estimator.kernel(normalise)
    return found, None if inputs.sensitivities is None else estimator.sensitive(normalise)
