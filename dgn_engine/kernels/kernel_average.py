"""Running means of random kernels with their standard errors, also where they are normalised.

Legend: A_r, the R samples of a kernel, independent and unbiased; K̂ their mean; d_r the diagonal and
t_r the trace of A_r. A ratio's error is that of its linear part at K̂ (the delta method).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dgn_engine.errors import ArgumentError
from dgn_engine.kernels.html_fields import HtmlFields


@dataclass(frozen=True)
class KernelEstimate(HtmlFields):
    """`kernel` (n, n) or a block (n, m); `error`, one standard error of each entry; `relative`
    the same over the whole kernel (Frobenius); `draws`, of how many samples it is the mean.

    Unbiased where it is not normalised, or by constants alone; with 'cosine' and 'trace' a ratio of
    unbiased estimates, whose bias falls as 1/draws. NaN where a diagonal entry is zero, as in
    the exact kernel.
    """

    kernel: Tensor
    error: Tensor
    relative: float
    draws: int = 0


class KernelAverage:
    """The mean of samples that are added one by one, and what its errors need: sums of products.

    `population`: the samples are drawn without replacement from so many, whose mean is what is
    estimated: errors fall to 0 with the last of them. Memory: about five matrices of the shape.
    """

    def __init__(self, symmetric: bool = True, population: int | None = None) -> None:
        self.count = 0
        self._symmetric, self._population = symmetric, population

    def add(self, sample: Tensor) -> None:
        """One more sample (n, n), or (n, m); summed in its own dtype, which should be float64."""
        if not self.count:
            # Sums of deviations from the first sample: nothing cancels where they vary little.
            self._origin = sample.clone()
            self._sum, self._squares = torch.zeros_like(sample), torch.zeros_like(sample)
            if self._symmetric:
                self._with_own, self._with_trace = self._sum.clone(), self._sum.clone()
                self._diagonals = self._sum.clone()
                self._trace_squares = 0.0
        self.count += 1
        apart = sample - self._origin
        self._sum += apart
        self._squares.addcmul_(apart, apart)
        if self._symmetric:
            diagonal = apart.diagonal()
            trace = float(diagonal.sum())
            self._with_own.addcmul_(apart, diagonal[:, None])
            self._diagonals.addr_(diagonal, diagonal)
            self._with_trace.add_(apart, alpha=trace)
            self._trace_squares += trace * trace

    @property
    def mean(self) -> Tensor:
        """What the samples scatter around: unbiased."""
        return self._origin + self._sum / self.count

    def plain(self, scale: float = 1.0) -> KernelEstimate:
        """K̂ times a constant. Errors need two samples."""
        kernel = self.mean * scale
        error = self._variance().clamp(min=0).sqrt() * abs(scale)
        return self._estimate(kernel, error)

    def cosine(self) -> KernelEstimate:
        """K̂[s, s'] / √(K̂[s, s] K̂[s', s']): the diagonal is one, without error."""
        self._check_square("cosine")
        mean = self.mean
        own = mean.diagonal()
        own = torch.where(own > 0, own, torch.nan)
        root = own.sqrt()
        kernel = mean / root[:, None] / root[None, :]
        # Of the linear part a_ij/√(d_i d_j) - ρ/2 (a_ii/d_i + a_jj/d_j).
        with_own = self._covariance(self._with_own, self._sum, self._sum.diagonal()[:, None])
        with_own = with_own / own[:, None] / root[:, None] / root[None, :]
        diagonals = self._covariance(
            self._diagonals, self._sum.diagonal()[:, None], self._sum.diagonal()[None, :]
        )
        diagonals = diagonals / own[:, None] / own[None, :]
        each = diagonals.diagonal()
        variance = self._variance() / own[:, None] / own[None, :]
        variance += 0.25 * kernel.square() * (each[:, None] + each[None, :] + 2.0 * diagonals)
        variance -= kernel * (with_own + with_own.T)
        found = own > 0
        kernel.diagonal()[found] = 1.0
        variance.diagonal()[found] = 0.0
        return self._estimate(kernel, variance.clamp(min=0).sqrt())

    def trace_one(self) -> KernelEstimate:
        """K̂ / trace K̂; zero stays zero."""
        self._check_square("trace")
        mean = self.mean
        trace = float(mean.trace())
        if trace <= 0:
            return self._estimate(mean, torch.zeros_like(mean))
        kernel = mean / trace
        total = self._sum.trace()
        with_trace = self._covariance(self._with_trace, self._sum, total)
        of_trace = self._covariance(torch.full_like(total, self._trace_squares), total, total)
        variance = self._variance() + kernel.square() * of_trace - 2.0 * kernel * with_trace
        return self._estimate(kernel, variance.clamp(min=0).sqrt() / trace)

    def _variance(self) -> Tensor:
        return self._covariance(self._squares, self._sum, self._sum)

    def _covariance(self, products: Tensor, one: Tensor, two: Tensor) -> Tensor:
        """Of the means, from sums of products and of the two."""
        if self.count == self._population:
            return torch.zeros_like(products)
        if self.count < 2:
            raise ArgumentError("A standard error needs two draws at least.", kind="not-supported")
        covariance = (products - one * two / self.count) / (self.count - 1)
        left = 1.0 if self._population is None else 1.0 - self.count / self._population
        return covariance * (left / self.count)

    def _estimate(self, kernel: Tensor, error: Tensor) -> KernelEstimate:
        size = float(kernel.nan_to_num().norm())
        relative = float(error.nan_to_num().norm()) / size if size else 0.0
        return KernelEstimate(kernel, error, relative, self.count)

    def _check_square(self, how: str) -> None:
        if not self._symmetric:
            raise ArgumentError(
                f"The estimate of a block has no '{how}': its diagonals are not estimated; take "
                "'none' or 'width'.",
                kind="not-supported",
            )
