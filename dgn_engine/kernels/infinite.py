"""Tangent kernels of infinitely wide dense networks (THEORY §6)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from dgn_engine.errors import ArgumentError
from dgn_engine.kernels.arguments import (
    check_count,
    check_flag,
    check_inputs,
    check_number,
    check_tensor,
)
from dgn_engine.kernels.gram import flat_gram
from dgn_engine.kernels.mehler import diagonal, expectations
from dgn_engine.model.gates import Gate


@dataclass(frozen=True)
class LimitKernels:
    """The limit of a tangent kernel as the width grows, (n, n) or (n, m), float64.

    `tangent` is K̃^(d), `covariance` Σ^(d). `value`, `feature`, `cross` are its parts for soft
    gates (None where gates are hard or absent: all of it is value). `error` bounds the relative
    error of one expectation of the recursion.
    """

    tangent: Tensor
    covariance: Tensor
    value: Tensor | None = None
    feature: Tensor | None = None
    cross: Tensor | None = None
    error: float = 0.0

    @property
    def averaged(self) -> Tensor:
        """(K̃^(d) + Σ^(d))/2, the limit for hidden weights N(0, 2/w) and output N(0, 1/w)."""
        return (self.tangent + self.covariance) / 2


def relu_limit(x: Tensor, depth: int, other: Tensor | None = None) -> LimitKernels:
    """ReLU, `depth` weight layers, all weights N(0, 2/w) (first layer too): arc-cosine closed form.

    x (n, ...) against itself or `other` (m, ...). `tangent` is the limit for an output layer
    N(0, 2/w), `averaged` for N(0, 1/w). Sources: Jacot et al. 2018; Cho & Saul 2009; [NPF] §2.
    """
    covariance, squares, other_squares = _start(x, other, depth)
    tangent = covariance
    for _ in range(depth - 1):
        covariance, slope = relu_moments(covariance, squares, other_squares, other is None)
        tangent = tangent * slope + covariance
    return LimitKernels(tangent, covariance)


def linear_limit(x: Tensor, depth: int, other: Tensor | None = None) -> LimitKernels:
    """The deep linear network (all gates one) in the same weights: K̃^(d) = d·2^{d-1}Σ."""
    gram = _start(x, other, depth)[0]
    covariance = 2.0 ** (depth - 1) * gram
    return LimitKernels(depth * covariance, covariance)


def soft_relu_limit(
    x: Tensor,
    depth: int,
    beta: float,
    epsilon: float = 0.0,
    other: Tensor | None = None,
    as_printed: bool = False,
) -> LimitKernels:
    """One soft-ReLU network z = qγ(q), NTK parametrisation: W ~ N(0, 1), q_1 = √(2/d_in)Wx,
    q_{l+1} = √(2/w)Wz, ŷ = √(2/w)a·z; the limit is `tangent`.

    Soft gates are not homogeneous, so the scale of the start matters: (2/d_in)XXᵀ here;
    `as_printed` starts at XXᵀ as the papers write it, which no finite network has as its limit.
    The parts follow from χ' = γ + q∂γ: K^V keeps γ on the way back, K^F what is left.
    """
    check_tensor("x", x)
    check_number("beta", beta, above=0.0)
    check_number("epsilon", epsilon)
    check_flag("as_printed", as_printed)
    gate = Gate(soft=True, beta=beta, epsilon=epsilon)
    start = 1.0 if as_printed else 2.0 / x[0].numel()
    covariance, squares, other_squares = (start * part for part in _start(x, other, depth))
    whole = value = mixed = mixed_back = covariance
    error = 0.0

    def gamma(q: Tensor) -> Tensor:
        return gate(q)

    def chi(q: Tensor) -> Tensor:
        return q * gate(q)

    def slope(q: Tensor) -> Tensor:
        return gate(q) + q * gate.derivative(q)

    for _ in range(depth - 1):
        std, other_std = squares.sqrt(), other_squares.sqrt()
        rho = _correlation(covariance, squares, other_squares, other is None)
        pairs = ((chi, chi), (slope, slope), (gamma, gamma), (slope, gamma), (gamma, slope))
        moments, bound = expectations(pairs, std, other_std, rho)
        error = max(error, bound)
        covariance, full, gates, forth, back = (2.0 * moment for moment in moments)
        whole = whole * full + covariance
        value = value * gates + covariance
        mixed = mixed * forth + covariance
        mixed_back = mixed_back * back + covariance
        squares, other_squares = (2 * diagonal(chi, chi, s) for s in (std, other_std))
    cross = mixed + mixed_back - 2 * value
    return LimitKernels(whole, covariance, value, whole - value - cross, cross, error)


def relu_moments(
    covariance: Tensor, squares: Tensor, other_squares: Tensor, same: bool
) -> tuple[Tensor, Tensor]:
    """2E[χ(q)χ(q')] and 2E[χ'(q)χ'(q')] of the ReLU: the arc-cosine closed form.

    `covariance` (n, m) with variances (n,), (m,); `same`: the diagonal pairs each example with
    itself and is set exactly, because arccos loses digits near one.
    """
    rho = _correlation(covariance, squares, other_squares, same)
    angle = torch.acos(rho)
    scale = torch.outer(squares.sqrt(), other_squares.sqrt())
    slope = (math.pi - angle) / math.pi
    return scale * ((1 - rho.square()).sqrt() / math.pi + slope * rho), slope


def _correlation(covariance: Tensor, squares: Tensor, other_squares: Tensor, same: bool) -> Tensor:
    """ρ (n, m) in [-1, 1]; one on the diagonal of a square kernel, zero where an input is zero."""
    scale = torch.outer(squares.sqrt(), other_squares.sqrt())
    rho = torch.where(scale > 0, covariance / scale, 0.0).clamp(-1.0, 1.0)
    if same:
        rho.fill_diagonal_(1.0)
    return rho


def _start(x: Tensor, other: Tensor | None, depth: int) -> tuple[Tensor, Tensor, Tensor]:
    """Σ and the squared norms on both sides, in float64 on the CPU."""
    check_count("depth", depth, 0)
    if not depth:
        raise ArgumentError("depth is 0; a network has at least one weight layer.")
    check_tensor("x", x)
    if other is not None:
        check_inputs("other", other, tuple(x.shape[1:]), like=x)
    rows = x.detach().to("cpu", torch.float64).flatten(1)
    columns = rows if other is None else other.detach().to("cpu", torch.float64).flatten(1)
    return flat_gram(rows, columns), rows.square().sum(1), columns.square().sum(1)
