"""Tangent kernels of infinitely wide dense networks (THEORY §6)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from dgn_engine.errors import ArgumentError
from dgn_engine.kernels.arguments import (
    check_count,
    check_flag,
    check_inputs,
    check_number,
    check_tensor,
    check_word,
)
from dgn_engine.kernels.gram import flat_gram
from dgn_engine.kernels.html_fields import HtmlFields
from dgn_engine.model.gates import Gate

Function = Callable[[Tensor], Tensor]

REACH = 13.0  # exp(-x²/4) is below the rounding of float64 beyond it
POINTS = 8001
BLOCK = 64  # terms computed at once
MOST_TERMS = 3072
TOLERANCE = 1e-10
SAME = 1e-12  # correlations this close to one count as one
SAME_AT_ONCE = 1024  # pairs of those, integrated at once
Moments = tuple[Tensor, Tensor, Tensor]
"""A covariance (n, m) and the variances of rows (n,) and columns (m,)."""
Sigmas = float | Sequence[float]
DEEPEST = 10_000  # weight layers: as many as the deepest network ever trained (Xiao et al. 2018)


def diagonal(one: Function, two: Function, std: Tensor) -> Tensor:
    """E[f(s·x)g(s·x)] (n,) for standard deviations (n,), by the one-dimensional integral."""
    return (_on_grid(one, std) * _on_grid(two, std)) @ _root_weight().square()


# Gaussian expectations E[f(q)g(q')] by the Mehler series, with a bound on what was cut off.
#
# For (q, q') ~ N(0, [[a, ρ√ab], [ρ√ab, b]]) the expectation is Σ_m f_m(√a) g_m(√b) ρᵐ, where
# f_m(s) = E[f(s·x) h_m(x)] with the normalised Hermite polynomials h_m. Two-dimensional
# Gauss–Hermite quadrature is poor at the kink of a soft gate.
def expectations(
    pairs: Sequence[tuple[Function, Function]], std: Tensor, other_std: Tensor, rho: Tensor
) -> tuple[list[Tensor], float]:
    """E[f(q)g(q')] (n, m) of each pair of functions, for standard deviations (n,), (m,) and
    correlations (n, m), float64; and a bound on the error, relative to √(E[f²]E[g²]).

    Terms are added until the bound is below 10⁻¹⁰ or 3,072 are used. Pairs whose correlation is
    one to rounding are integrated in one dimension.
    """
    functions = list(dict.fromkeys(f for pair in pairs for f in pair))
    same = rho > 1 - SAME
    apart = rho.masked_fill(same, 0.0)
    steepest = float(apart.abs().max()) if apart.numel() else 0.0
    both = torch.cat([std, other_std])
    root = _root_weight()
    weighted = {f: _on_grid(f, both) * root for f in functions}
    terms, bound = _coefficients(weighted, steepest)
    n, results = len(std), []
    close = same.nonzero()
    for f, g in pairs:
        one, two = terms[f][:, :n], terms[g][:, n:]
        total = torch.outer(one[-1], two[-1])
        for m in range(len(one) - 2, -1, -1):
            total.mul_(apart).addr_(one[m], two[m])
        for left in range(0, len(close), SAME_AT_ONCE):
            i, j = close[left : left + SAME_AT_ONCE].unbind(1)
            total[i, j] = (weighted[f][i] * weighted[g][n + j]).sum(1)
        results.append(total)
    return results, bound


def _coefficients(
    weighted: dict[Function, Tensor], steepest: float
) -> tuple[dict[Function, Tensor], float]:
    """f_m(s) (terms, n) of each function given as f·√weight (n, points); and the error bound.

    By Parseval Σ f_m² = E[f²], so what is left after M terms is known, and with |ρ| ≤ `steepest`
    the rest of the series is at most ρᴹ·√(left of f · left of g).
    """
    power = {f: values.square().sum(1) for f, values in weighted.items()}
    found: dict[Function, list[Tensor]] = {f: [] for f in weighted}
    left = dict(power)
    bound, terms = 1.0, 0
    for block in _hermite_blocks():
        terms += len(block)
        for f, values in weighted.items():
            found[f].append(block @ values.T)
            left[f] = left[f] - found[f][-1].square().sum(0)
        rest = max(
            float((left[f].clamp(min=0) / power[f].clamp(min=1e-300)).max()) for f in weighted
        )
        bound = rest * steepest**terms
        if bound < TOLERANCE or terms >= MOST_TERMS:
            break
    return {f: torch.cat(parts) for f, parts in found.items()}, bound


def _hermite_blocks() -> Iterator[Tensor]:
    """h_m(x)·√weight on the grid, (64, points) at a time, without end."""
    x, root = _grid(), _root_weight()
    before, last, m = torch.zeros_like(root), root, 0
    while True:
        rows = []
        for _ in range(BLOCK):
            rows.append(last)
            following = (x * last - math.sqrt(m) * before) / math.sqrt(m + 1)
            before, last, m = last, following, m + 1
        yield torch.stack(rows)


def _grid() -> Tensor:
    return torch.linspace(-REACH, REACH, POINTS, dtype=torch.float64)


def _root_weight() -> Tensor:
    """√(normal density · step) (points,)."""
    step = 2 * REACH / (POINTS - 1)
    return torch.exp(-_grid().square() / 4) * math.sqrt(step / math.sqrt(2 * math.pi))


def _on_grid(function: Function, std: Tensor) -> Tensor:
    """f(s·x) (n, points) for standard deviations (n,)."""
    return function(std[:, None] * _grid())


@dataclass(frozen=True)
class LimitKernels(HtmlFields):
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
        """(K̃^(d) + Σ^(d))/2: of `relu_limit` and `linear_limit` with their own weights, the limit
        for hidden weights N(0, 2/w) and output weights N(0, 1/w)."""
        return (self.tangent + self.covariance) / 2


def relu_limit(
    x: Tensor,
    depth: int,
    other: Tensor | None = None,
    sigma_w: Sigmas | None = None,
    sigma_b: Sigmas = 0.0,
) -> LimitKernels:
    """ReLU, `depth` weight layers, all weights N(0, 2/w) (first layer too): arc-cosine closed form.

    x (n, ...) against itself or `other` (m, ...). `tangent` is the limit for an output layer
    N(0, 2/w), `averaged` for N(0, 1/w). With `sigma_w`, of all layers or of each of them, the
    parameters are those of the NTK parametrisation, q = (σ_w/√fan-in)Wz + σ_b·b, W and b ~ N(0, 1):
    `tangent` counts biases, `covariance` is that of the outputs (NNGP).
    Sources: Jacot et al. 2018; Cho & Saul 2009; [NPF].
    """
    return _homogeneous_limit(x, depth, other, sigma_w, sigma_b, linear=False)


def linear_limit(
    x: Tensor,
    depth: int,
    other: Tensor | None = None,
    sigma_w: Sigmas | None = None,
    sigma_b: Sigmas = 0.0,
) -> LimitKernels:
    """The deep linear network (all gates one) in the same weights: K̃^(d) = d·2^{d-1}Σ; with
    `sigma_w` and `sigma_b` as `relu_limit` takes them."""
    return _homogeneous_limit(x, depth, other, sigma_w, sigma_b, linear=True)


def _homogeneous_limit(
    x: Tensor,
    depth: int,
    other: Tensor | None,
    sigma_w: Sigmas | None,
    sigma_b: Sigmas,
    linear: bool,
) -> LimitKernels:
    first, *rest = _layers(x, depth, sigma_w, sigma_b)
    moments, alike = first.after(_start(x, other)), _alike(x, other)
    tangent = moments[0]
    for layer in rest:
        passed, slope = _passed_on(moments, alike, linear)
        moments = layer.after(passed)
        tangent = tangent * slope * layer.weight + moments[0]
    return _finite(LimitKernels(tangent, moments[0]), depth)


def _passed_on(moments: Moments, same: Tensor, linear: bool) -> tuple[Moments, Tensor]:
    """2E[χχ'] with 2E[χ²] on both sides, and 2E[χ'χ'], of the ReLU or the identity χ."""
    covariance, squares, other_squares = moments
    if linear:
        passed = (2 * covariance, 2 * squares, 2 * other_squares)
        return passed, torch.full_like(covariance, 2.0)
    moment, slope = relu_moments(covariance, squares, other_squares, same)
    return (moment, squares, other_squares), slope  # 2E[χ(q)²] is the variance of q


def soft_relu_limit(
    x: Tensor,
    depth: int,
    beta: float,
    epsilon: float = 0.0,
    other: Tensor | None = None,
    as_printed: bool = False,
    sigma_w: Sigmas | None = None,
    sigma_b: Sigmas = 0.0,
) -> LimitKernels:
    """One soft-ReLU network z = qγ(q), NTK parametrisation: W ~ N(0, 1), q_1 = √(2/d_in)Wx,
    q_{l+1} = √(2/w)Wz, ŷ = √(2/w)a·z; the limit is `tangent`. With `sigma_w` and `sigma_b` as
    `relu_limit` takes them.

    Soft gates are not homogeneous, so the scale of the start matters: (2/d_in)XXᵀ here;
    `as_printed` starts at XXᵀ as the papers write it, which no finite network has as its limit.
    The parts follow from χ' = γ + q∂γ: K^V keeps γ on the way back, K^F what is left.
    """
    gate = _soft_gate(x, beta, epsilon)
    check_flag("as_printed", as_printed)
    if as_printed and sigma_w is not None:
        raise ArgumentError(
            "as_printed is the papers' recursion, which has no sigma_w.", kind="contradiction"
        )
    given = sigma_w is not None or as_printed
    first, *rest = _layers(x, depth, sigma_w if given else math.sqrt(2), sigma_b)
    moments, alike = first.after(_start(x, other)), _alike(x, other)
    parts, error = [moments[0]] * 4, 0.0

    def chi(q: Tensor) -> Tensor:
        return q * gate(q)

    def slope(q: Tensor) -> Tensor:
        return gate(q) + q * gate.derivative(q)

    pairs = ((chi, chi), (slope, slope), (gate, gate), (slope, gate), (gate, slope))
    for layer in rest:
        std, other_std = moments[1].sqrt(), moments[2].sqrt()
        found, bound = expectations(pairs, std, other_std, _correlation(*moments, alike))
        error = max(error, bound)
        after, *changes = (2.0 * moment for moment in found)
        squares, other_squares = (2 * diagonal(chi, chi, s) for s in (std, other_std))
        moments = layer.after((after, squares, other_squares))
        parts = [
            part * change * layer.weight + moments[0]
            for part, change in zip(parts, changes, strict=True)
        ]
    whole, value, mixed, mixed_back = parts
    cross = mixed + mixed_back - 2 * value
    result = LimitKernels(whole, moments[0], value, whole - value - cross, cross, error)
    return _finite(result, depth)


def gated_limit(
    x: Tensor,
    depth: int,
    beta: float | None = None,
    epsilon: float = 0.0,
    other: Tensor | None = None,
    value_input: Literal["image", "ones"] = "image",
    linear_features: bool = False,
) -> LimitKernels:
    """A deep gated network at initialisation, feature and value network independent and both wide:
    gates of x (n, ...), hard, or soft with `beta` and `epsilon`.

    NTK parametrisation as in `soft_relu_limit`, σ_w = √2 in both networks. With Σ̂_l = 2E[G_lG_l']
    over the Gaussian pre-activations of the feature network, whose tangent kernel at layer l is
    Θ_l, and Σ the Gram matrix of x^v times 2/d_in: `covariance` Σ ⊙ Π_l Σ̂_l; `value`, K^V, d times
    that (βH of a network that is wide); `feature`, K^F over Θ^f through soft gates,
    Σ_l Θ_l ⊙ 2E[∂γ∂γ'] ⊙ Σ ⊙ Π_{l'≠l} Σ̂_l' (None where gates are hard); `tangent` their sum: K is
    `value` where the gates are fixed. Divide by 2/d_in for weights N(0, 2/w).
    `value_input`: x^v is x or all ones. `linear_features`: the feature network has no ReLU.
    Sources: [NPF], [DUAL] Theorem 3.1 (K^V); K^F is [DGN] Lemma 3.1 as w → ∞.
    """
    check_word("value_input", value_input, Literal["image", "ones"])
    check_flag("linear_features", linear_features)
    gate = Gate() if beta is None else _soft_gate(x, beta, epsilon)
    first, *rest = _layers(x, depth, math.sqrt(2), 0.0)
    moments, alike = first.after(_start(x, other)), _alike(x, other)
    covariance = moments[0]
    if value_input == "ones":
        covariance = torch.full_like(covariance, 2.0)  # (2/d_in)·d_in
    tangent, feature = moments[0], torch.zeros_like(covariance)
    error = 0.0
    for layer in rest:
        gates, changes, bound = _gate_moments(gate, moments, alike)
        error = max(error, bound)
        feature = feature * gates
        if changes is not None:
            feature = feature + tangent * changes * covariance
        covariance = covariance * gates
        passed, slope = _passed_on(moments, alike, linear_features)
        moments = layer.after(passed)
        tangent = tangent * slope + moments[0]
    value = depth * covariance
    if beta is None:
        return LimitKernels(value, covariance, value)
    return LimitKernels(value + feature, covariance, value, feature, None, error)


def _gate_moments(
    gate: Gate, moments: Moments, same: Tensor
) -> tuple[Tensor, Tensor | None, float]:
    """2E[γγ'], for soft gates 2E[∂γ∂γ'], and the bound on their error."""
    if not gate.soft:
        return relu_moments(*moments, same)[1], None, 0.0

    pairs = ((gate, gate), (gate.derivative, gate.derivative))
    std, other_std = moments[1].sqrt(), moments[2].sqrt()
    (gates, changes), bound = expectations(pairs, std, other_std, _correlation(*moments, same))
    return 2 * gates, 2 * changes, bound


def relu_moments(
    covariance: Tensor, squares: Tensor, other_squares: Tensor, same: Tensor | bool
) -> tuple[Tensor, Tensor]:
    """2E[χ(q)χ(q')] and 2E[χ'(q)χ'(q')] of the ReLU: the arc-cosine closed form.

    `covariance` (n, m) with variances (n,), (m,); `same` (n, m): the pairs of equal inputs, or True
    where they are those of the diagonal; set exactly, because arccos loses digits near one.
    """
    rho = _correlation(covariance, squares, other_squares, same)
    angle = torch.acos(rho)
    scale = torch.outer(squares.sqrt(), other_squares.sqrt())
    # Behind a unit that is always zero the gate is closed.
    slope = torch.where(scale > 0, (math.pi - angle) / math.pi, 0.0)
    return scale * ((1 - rho.square()).sqrt() / math.pi + slope * rho), slope


def _correlation(
    covariance: Tensor, squares: Tensor, other_squares: Tensor, same: Tensor | bool
) -> Tensor:
    """ρ (n, m) in [-1, 1]; one for pairs that are the `same`, zero where an input is zero."""
    scale = torch.outer(squares.sqrt(), other_squares.sqrt())
    rho = torch.where(scale > 0, covariance / scale, 0.0).clamp(-1.0, 1.0)
    if isinstance(same, Tensor):
        rho[same] = 1.0
    elif same:
        rho.fill_diagonal_(1.0)
    return rho


def _alike(x: Tensor, other: Tensor | None) -> Tensor:
    """Which pairs are of equal inputs (n, m): without, repeated examples are told apart by what
    arccos loses, and the kernel is not singular."""
    sets = [one.detach().to("cpu", torch.float64) for one in (x, other) if one is not None]
    rows = torch.cat(sets).flatten(1)
    kinds: Tensor = rows.unique(dim=0, return_inverse=True)[1]  # type: ignore[no-untyped-call]
    columns = kinds if other is None else kinds[len(x) :]
    alike: Tensor = kinds[: len(x), None] == columns
    return alike


@dataclass(frozen=True)
class _LimitLayer:
    """A weight layer: `weight` times a moment 2E[χχ'], plus `bias`, is the next covariance."""

    weight: float
    bias: float

    def after(self, moments: Moments) -> Moments:
        one, two, three = (self.weight * moment + self.bias for moment in moments)
        return one, two, three


def _finite(found: LimitKernels, depth: int) -> LimitKernels:
    """Refuse what float64 does not hold: with weights larger than those that keep the variance, a
    kernel grows by a factor with every layer."""
    if not bool(torch.isfinite(found.tangent).all()):
        raise ArgumentError(
            f"depth is {depth:,}: with these weights the kernel grows with every layer, beyond "
            "what float64 holds; take fewer layers or smaller sigma_w.",
            kind="overflow",
        )
    return found


def _layers(x: Tensor, depth: int, sigma_w: Sigmas | None, sigma_b: Sigmas) -> list[_LimitLayer]:
    """One for each weight layer; without `sigma_w` Σ starts the recursion and 2E[χχ'] is all."""
    check_tensor("x", x)
    check_count("depth", depth, 0, DEEPEST)
    if not depth:
        raise ArgumentError(
            "depth is 0; a network has at least one weight layer.", kind="out-of-bounds"
        )
    biases = each_sigma("sigma_b", sigma_b, depth)
    if sigma_w is None:
        if any(biases):
            raise ArgumentError(
                "sigma_b was given without sigma_w; biases belong to the NTK parametrisation, "
                "which needs both.",
                kind="contradiction",
            )
        return [_LimitLayer(1.0, 0.0)] * depth
    weights = each_sigma("sigma_w", sigma_w, depth)
    found = [_LimitLayer(w**2 / 2, b**2) for w, b in zip(weights, biases, strict=True)]
    found[0] = _LimitLayer(weights[0] ** 2 / x[0].numel(), biases[0] ** 2)
    return found


def each_sigma(name: str, sigmas: object, depth: int) -> list[float]:
    """Standard deviations, one for each of so many layers."""
    if isinstance(sigmas, Sequence) and not isinstance(sigmas, str):
        if len(sigmas) != depth:
            raise ArgumentError(
                f"{name} has {len(sigmas)} numbers; one is needed for each of the {depth} weight "
                "layers, or a single one for all.",
                kind="wrong-length",
            )
        for place, sigma in enumerate(sigmas):
            check_number(f"Number {place} of {name}", sigma)
        return [float(sigma) for sigma in sigmas]
    check_number(name, sigmas)
    return [float(sigmas)] * depth  # type: ignore[arg-type]  # checked to be a number


def _soft_gate(x: Tensor, beta: float, epsilon: float) -> Gate:
    check_tensor("x", x)
    check_number("beta", beta, above=0.0)
    check_number("epsilon", epsilon)
    return Gate(soft=True, beta=beta, epsilon=epsilon)


def _start(x: Tensor, other: Tensor | None) -> Moments:
    """Σ and the squared norms on both sides, in float64 on the CPU."""
    check_tensor("x", x)
    if other is not None:
        check_inputs("other", other, tuple(x.shape[1:]), like=x)
    rows = x.detach().to("cpu", torch.float64).flatten(1)
    columns = rows if other is None else other.detach().to("cpu", torch.float64).flatten(1)
    return flat_gram(rows, columns), rows.square().sum(1), columns.square().sum(1)
