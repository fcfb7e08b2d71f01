"""Running means of random kernels with standard errors, also of normalised kernels.

Legend: A_r are R independent unbiased samples of a kernel, K̂ is their mean, d_r the diagonal and
t_r the trace of A_r. The error of a ratio is that of its linear part at K̂ (the delta method).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from dgn_engine.errors import ArgumentError
from dgn_engine.kernels.html_fields import HtmlFields


@dataclass(frozen=True)
class KernelEstimate(HtmlFields):
    """A kernel estimated from samples.

    It is unbiased unless it was normalised by more than constants; with 'cosine' and 'trace' it is
    a ratio of unbiased estimates, whose bias falls as 1/draws. With 'cosine', entries are NaN if a
    diagonal entry is zero, as in the exact kernel.

    Attributes:
        kernel: The estimate, `(n, n)` or `(n, m)`.
        error: One standard error of each entry, in the same shape.
        relative: Relative standard error of the whole kernel (Frobenius).
        draws: Number of samples.
    """

    kernel: Tensor
    error: Tensor
    relative: float
    draws: int = 0


class KernelAverage:
    """The running mean of samples, with the sums of products that its errors need.

    It keeps six matrices of the size of a sample, or three if the samples are not symmetric, and
    one for each group.

    Args:
        symmetric: Whether the samples are square and symmetric.
        population: If given, samples are drawn without replacement from this many, whose mean is
          estimated; errors then fall to 0 with the last of them.
        groups: Number of groups into which the samples are dealt for `means_without_group`.
    """

    def __init__(
        self, symmetric: bool = True, population: int | None = None, groups: int = 0
    ) -> None:
        self.count = 0
        self._symmetric, self._population = symmetric, population
        self._groups, self._group_sums = groups, list[Tensor]()

    def add_sample(self, sample: Tensor) -> None:
        """Add one sample.

        Args:
            sample: The sample, `(n, n)` or `(n, m)`; summed in its own dtype, which should be
              float64.
        """
        if not self.count:
            # Deviations from the first sample, so that samples that vary little do not cancel.
            self._origin = sample.clone()
            self._sum, self._squares = torch.zeros_like(sample), torch.zeros_like(sample)
            if self._symmetric:
                self._with_own, self._with_trace = self._sum.clone(), self._sum.clone()
                self._diagonals = self._sum.clone()
                self._trace_squares = 0.0
        self.count += 1
        deviation = sample - self._origin
        self._sum += deviation
        self._squares.addcmul_(deviation, deviation)
        if len(self._group_sums) < self._groups:
            self._group_sums.append(deviation)
        elif self._groups:
            self._group_sums[(self.count - 1) % self._groups] += deviation
        if self._symmetric:
            diagonal = deviation.diagonal()
            trace = float(diagonal.sum())
            self._with_own.addcmul_(deviation, diagonal[:, None])
            self._diagonals.addr_(diagonal, diagonal)
            self._with_trace.add_(deviation, alpha=trace)
            self._trace_squares += trace * trace

    @property
    def mean(self) -> Tensor:
        """Unbiased mean K̂ of the samples.

        Returns:
            The mean, in the shape of a sample.
        """
        return self._origin + self._sum / self.count

    def means_without_group(self) -> Iterator[Tensor]:
        """Compute the mean of the samples outside each group, for the jackknife.

        Yields:
            One mean per group that has samples, in the shape of a sample; none of a single group.
        """
        used = len(self._group_sums)
        for group, inside in enumerate(self._group_sums if used > 1 else ()):
            size = len(range(group, self.count, self._groups))
            yield self._origin + (self._sum - inside) / (self.count - size)

    def mean_estimate(self, scale: float = 1.0) -> KernelEstimate:
        """Return K̂ times a constant, with standard errors.

        Args:
            scale: The constant.

        Returns:
            The estimate.

        Raises:
            ArgumentError: Only one of several samples was added.
        """
        kernel = self.mean * scale
        error = self._variance().clamp(min=0).sqrt() * abs(scale)
        return self._make_estimate(kernel, error)

    def cosine_estimate(self) -> KernelEstimate:
        """Return K̂[s, s'] / √(K̂[s, s] K̂[s', s']), whose diagonal is one without error.

        Returns:
            The estimate.

        Raises:
            ArgumentError: The kernel is a block, or only one of several samples was added.
        """
        self._check_square("cosine")
        mean = self.mean
        diagonal = mean.diagonal()
        diagonal = torch.where(diagonal > 0, diagonal, torch.nan)
        root = diagonal.sqrt()
        kernel = mean / root[:, None] / root[None, :]
        # Variance of the linear part a_ij/√(d_i d_j) − ρ/2 (a_ii/d_i + a_jj/d_j)
        with_own = self._covariance(self._with_own, self._sum, self._sum.diagonal()[:, None])
        with_own = with_own / diagonal[:, None] / root[:, None] / root[None, :]
        diagonals = self._covariance(
            self._diagonals, self._sum.diagonal()[:, None], self._sum.diagonal()[None, :]
        )
        diagonals = diagonals / diagonal[:, None] / diagonal[None, :]
        relative_variance = diagonals.diagonal()
        variance = self._variance() / diagonal[:, None] / diagonal[None, :]
        variance += (
            0.25
            * kernel.square()
            * (relative_variance[:, None] + relative_variance[None, :] + 2.0 * diagonals)
        )
        variance -= kernel * (with_own + with_own.T)
        positive = diagonal > 0
        kernel.diagonal()[positive] = 1.0
        variance.diagonal()[positive] = 0.0
        return self._make_estimate(kernel, variance.clamp(min=0).sqrt())

    def trace_one_estimate(self) -> KernelEstimate:
        """Return K̂ / trace K̂; zero stays zero.

        Returns:
            The estimate.

        Raises:
            ArgumentError: The kernel is a block, or only one of several samples was added.
        """
        self._check_square("trace")
        mean = self.mean
        trace = float(mean.trace())
        if trace <= 0:
            return self._make_estimate(mean, torch.zeros_like(mean))
        kernel = mean / trace
        total = self._sum.trace()
        with_trace = self._covariance(self._with_trace, self._sum, total)
        of_trace = self._covariance(torch.full_like(total, self._trace_squares), total, total)
        # Var(a/t) ≈ (Var a + K² Var t − 2K Cov(a, t))/t²
        variance = self._variance() + kernel.square() * of_trace - 2.0 * kernel * with_trace
        return self._make_estimate(kernel, variance.clamp(min=0).sqrt() / trace)

    def _variance(self) -> Tensor:
        return self._covariance(self._squares, self._sum, self._sum)

    def _covariance(self, products: Tensor, one: Tensor, two: Tensor) -> Tensor:
        """Compute the covariance of two means from sums of products and of each."""
        if self.count == self._population:
            return torch.zeros_like(products)
        if self.count < 2:
            raise ArgumentError("A standard error needs at least two draws.", kind="not-supported")
        # Cov(a, b) = (Σ ab − Σa Σb/R)/(R − 1); that of the means is 1/R of it
        covariance = (products - one * two / self.count) / (self.count - 1)
        # Finite-population correction 1 − R/N
        correction = 1.0 if self._population is None else 1.0 - self.count / self._population
        return covariance * (correction / self.count)

    def _make_estimate(self, kernel: Tensor, error: Tensor) -> KernelEstimate:
        size = float(kernel.nan_to_num().norm())
        relative = float(error.nan_to_num().norm()) / size if size else 0.0
        return KernelEstimate(kernel, error, relative, self.count)

    def _check_square(self, how: str) -> None:
        if not self._symmetric:
            raise ArgumentError(
                f"'{how}' is not available for a block, whose diagonals are not estimated; use "
                "'none' or 'width'.",
                kind="not-supported",
            )
