"""Tangent kernels of infinitely wide dense networks (theory §6)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from dgn_engine.errors import ArgumentError
from dgn_engine.kernels.arguments import (
    check_choice,
    check_count,
    check_flag,
    check_inputs,
    check_number,
    check_tensor,
)
from dgn_engine.kernels.gram import flat_gram
from dgn_engine.kernels.html_fields import HtmlFields
from dgn_engine.model.gates import Gate

Function = Callable[[Tensor], Tensor]

REACH = 13.0  # beyond it exp(-x²/4) is below the rounding of float64
POINTS = 8001
BLOCK = 64  # terms computed at once
MOST_TERMS = 3072
TOLERANCE = 1e-10
SAME = 1e-12  # correlations this close to one count as one
SAME_AT_ONCE = 1024  # such pairs integrated at once
Moments = tuple[Tensor, Tensor, Tensor]
"""A covariance (n, m) and the variances of rows (n,) and columns (m,)."""
Sigmas = float | Sequence[float]
DEEPEST = 10_000  # weight layers; that of the deepest network trained so far (Xiao et al. 2018)


def diagonal_expectation(one: Function, two: Function, std: Tensor) -> Tensor:
    """Compute E[f(s·x)g(s·x)] for x ~ N(0, 1) by one-dimensional quadrature.

    Args:
        one: f.
        two: g.
        std: Standard deviations s, `(n,)`.

    Returns:
        The expectations, `(n,)`, float64.
    """
    return (_on_grid(one, std) * _on_grid(two, std)) @ _root_weight().square()


# Gaussian expectations E[f(q)g(q')] by the Mehler series, with a bound on the truncation error.
#
# For (q, q') ~ N(0, [[a, ρ√ab], [ρ√ab, b]]) the expectation is Σ_m f_m(√a) g_m(√b) ρᵐ, where
# f_m(s) = E[f(s·x) h_m(x)] with the normalised Hermite polynomials h_m. Two-dimensional
# Gauss–Hermite quadrature is poor at the kink of a soft gate.
def gaussian_expectations(
    pairs: Sequence[tuple[Function, Function]], std: Tensor, other_std: Tensor, rho: Tensor
) -> tuple[list[Tensor], float]:
    """Compute Gaussian expectations E[f(q)g(q')] by the Mehler series.

        E[f(q)g(q')] = Σ_m f_m(√a) g_m(√b) ρ^m,   f_m(s) = E[f(s·x) h_m(x)],

    for (q, q') ~ N(0, [[a, ρ√(ab)], [ρ√(ab), b]]) and normalised Hermite polynomials h_m. Terms are
    added until the error bound is below 10⁻¹⁰ or 3,072 of them are used. Pairs whose correlation is
    one up to rounding are integrated in one dimension instead.

    Args:
        pairs: Pairs of functions (f, g).
        std: Standard deviations √a, `(n,)`.
        other_std: Standard deviations √b, `(m,)`.
        rho: Correlations ρ, `(n, m)`, float64.

    Returns:
        The expectations of each pair, `(n, m)`, and a bound on their error relative to
        √(E[f²]E[g²]).
    """
    functions = list(dict.fromkeys(f for pair in pairs for f in pair))
    same = rho > 1 - SAME
    apart = rho.masked_fill(same, 0.0)
    steepest = float(apart.abs().max()) if apart.numel() else 0.0
    both = torch.cat([std, other_std])
    root = _root_weight()
    weighted = {f: _on_grid(f, both) * root for f in functions}
    terms, bound = _hermite_coefficients(weighted, steepest)
    n, results = len(std), []
    close = same.nonzero()
    for f, g in pairs:
        left_terms, right_terms = terms[f][:, :n], terms[g][:, n:]
        total = torch.outer(left_terms[-1], right_terms[-1])
        for m in range(len(left_terms) - 2, -1, -1):
            total.mul_(apart).addr_(left_terms[m], right_terms[m])
        for start in range(0, len(close), SAME_AT_ONCE):
            i, j = close[start : start + SAME_AT_ONCE].unbind(1)
            total[i, j] = (weighted[f][i] * weighted[g][n + j]).sum(1)
        results.append(total)
    return results, bound


def _hermite_coefficients(
    weighted: dict[Function, Tensor], steepest: float
) -> tuple[dict[Function, Tensor], float]:
    """Compute f_m(s) `(terms, n)` and the error bound, for functions given as f·√weight.

    By Parseval Σ_m f_m² = E[f²], so the remainder after M terms is known, and with |ρ| ≤ `steepest`
    the rest of the series is at most ρ^M √(remainder of f · remainder of g).
    """
    power = {f: values.square().sum(1) for f, values in weighted.items()}
    blocks: dict[Function, list[Tensor]] = {f: [] for f in weighted}
    remainder = dict(power)
    bound, terms = 1.0, 0
    for block in _hermite_blocks():
        terms += len(block)
        for f, values in weighted.items():
            blocks[f].append(block @ values.T)
            remainder[f] = remainder[f] - blocks[f][-1].square().sum(0)
        rest = max(
            float((remainder[f].clamp(min=0) / power[f].clamp(min=1e-300)).max()) for f in weighted
        )
        bound = rest * steepest**terms
        if bound < TOLERANCE or terms >= MOST_TERMS:
            break
    return {f: torch.cat(parts) for f, parts in blocks.items()}, bound


def _hermite_blocks() -> Iterator[Tensor]:
    """Yield h_m(x)·√weight on the grid, `(64, points)` at a time, without end."""
    x, root = _quadrature_grid(), _root_weight()
    before, last, m = torch.zeros_like(root), root, 0
    while True:
        rows = []
        for _ in range(BLOCK):
            rows.append(last)
            following = (x * last - math.sqrt(m) * before) / math.sqrt(m + 1)
            before, last, m = last, following, m + 1
        yield torch.stack(rows)


def _quadrature_grid() -> Tensor:
    """Return the quadrature points, `(points,)`."""
    return torch.linspace(-REACH, REACH, POINTS, dtype=torch.float64)


def _root_weight() -> Tensor:
    """Return √(normal density · step), `(points,)`."""
    step = 2 * REACH / (POINTS - 1)
    return torch.exp(-_quadrature_grid().square() / 4) * math.sqrt(step / math.sqrt(2 * math.pi))


def _on_grid(function: Function, std: Tensor) -> Tensor:
    """Evaluate f(s·x) on the grid, `(n, points)`, for standard deviations `(n,)`."""
    return function(std[:, None] * _quadrature_grid())


@dataclass(frozen=True)
class LimitKernels(HtmlFields):
    """Infinite-width limit of a tangent kernel, `(n, n)` or `(n, m)`, float64.

    Attributes:
        tangent: K̃^(d).
        covariance: Σ^(d), the covariance of the outputs (NNGP).
        value: K^V, for soft gates; `None` if gates are hard or absent (everything is value).
        feature: K^F, for soft gates.
        cross: K^X, for soft gates of a single network.
        error: Bound on the relative error of one expectation of the recursion.
    """

    tangent: Tensor
    covariance: Tensor
    value: Tensor | None = None
    feature: Tensor | None = None
    cross: Tensor | None = None
    error: float = 0.0

    @property
    def average_kernel(self) -> Tensor:
        """(K̃^(d) + Σ^(d))/2, for the default weights of `relu_limit` and `linear_limit`.

        It is the limit for hidden weights N(0, 2/w) and output weights N(0, 1/w).

        Returns:
            The mean of both kernels, in their shape.
        """
        return (self.tangent + self.covariance) / 2


def relu_limit(
    x: Tensor,
    depth: int,
    other: Tensor | None = None,
    sigma_w: Sigmas | None = None,
    sigma_b: Sigmas = 0.0,
) -> LimitKernels:
    """Compute the infinite-width limit of a dense ReLU network (arc-cosine kernels).

    With Σ^(1) = K̃^(1) = XXᵀ and (q, q') ~ N(0, Σ^(l)),

        Σ^(l+1) = 2E[χ(q)χ(q')],   K̃^(l+1) = K̃^(l) ⊙ 2E[χ'(q)χ'(q')] + Σ^(l+1).

    By default all weights, those of the first layer too, are N(0, 2/w): `tangent` = K̃^(d) is the
    limit for output weights N(0, 2/w), `average_kernel` for N(0, 1/w). With `sigma_w`, the NTK
    parametrisation q = (σ_w/√fan-in) W z + σ_b b, W, b ~ N(0, 1), is used; then `tangent` includes
    the biases and `covariance` is that of the outputs (NNGP).

    Args:
        x: Inputs, `(n, ...)`.
        depth: Number of weight layers d.
        other: Second set of inputs, `(m, ...)`. If `None`, `x` is compared with itself.
        sigma_w: σ_w for all layers, or one value per layer.
        sigma_b: σ_b likewise; needs `sigma_w`.

    Returns:
        The kernels, `(n, n)` or `(n, m)`, float64.

    Raises:
        ArgumentError: An argument is out of bounds, or the kernel overflows.

    References:
        Jacot et al. 2018; Cho & Saul 2009; [NPF].
    """
    return _homogeneous_limit(x, depth, other, sigma_w, sigma_b, linear=False)


def linear_limit(
    x: Tensor,
    depth: int,
    other: Tensor | None = None,
    sigma_w: Sigmas | None = None,
    sigma_b: Sigmas = 0.0,
) -> LimitKernels:
    """Compute the infinite-width limit of a deep linear network (all gates one).

    With the default weights of `relu_limit`, K̃^(d) = d·2^{d-1} XXᵀ.

    Args:
        x: Inputs, `(n, ...)`.
        depth: Number of weight layers d.
        other: Second set of inputs, `(m, ...)`.
        sigma_w: As for `relu_limit`.
        sigma_b: As for `relu_limit`.

    Returns:
        The kernels, `(n, n)` or `(n, m)`, float64.

    Raises:
        ArgumentError: As for `relu_limit`.
    """
    return _homogeneous_limit(x, depth, other, sigma_w, sigma_b, linear=True)


def _homogeneous_limit(
    x: Tensor,
    depth: int,
    other: Tensor | None,
    sigma_w: Sigmas | None,
    sigma_b: Sigmas,
    linear: bool,
) -> LimitKernels:
    """Run the recursion of `relu_limit`, or that of `linear_limit`."""
    first, *rest = _limit_layers(x, depth, sigma_w, sigma_b)
    moments, alike = first.next_moments(_input_moments(x, other)), _equal_input_pairs(x, other)
    tangent = moments[0]
    for layer in rest:
        # Σ ← (σ_w²/2)·2E[χχ'] + σ_b²;  K̃ ← (σ_w²/2)·K̃ ⊙ 2E[χ'χ'] + Σ
        passed, slope = _activation_moments(moments, alike, linear)
        moments = layer.next_moments(passed)
        tangent = tangent * slope * layer.weight + moments[0]
    return _check_finite_limit(LimitKernels(tangent, moments[0]), depth)


def _activation_moments(moments: Moments, same: Tensor, linear: bool) -> tuple[Moments, Tensor]:
    """Compute 2E[χχ'] with 2E[χ²] on both sides, and 2E[χ'χ'], for the ReLU or the identity χ."""
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
    """Compute the infinite-width limit of a network of soft ReLUs z = qγ(q).

    In the NTK parametrisation, W ~ N(0, 1), q_1 = √(2/d_in) W x, q_{l+1} = √(2/w) W z and
    ŷ = √(2/w) a·z, so Σ^(1) = K̃^(1) = (2/d_in) XXᵀ and

        Σ^(l+1) = 2E[χ(q)χ(q')],   K̃^(l+1) = K̃^(l) ⊙ 2E[χ'(q)χ'(q')] + Σ^(l+1).

    The parts follow from χ' = γ + q∂γ: K^V keeps only γ in the backward pass, K^F and K^X are the
    rest. Soft gates are not homogeneous, so the scale of the inputs matters.

    Args:
        x: Inputs, `(n, ...)`.
        depth: Number of weight layers d.
        beta: Steepness β of the gates.
        epsilon: ε of the gates.
        other: Second set of inputs, `(m, ...)`.
        as_printed: Whether to start at XXᵀ as the papers print it, which is the limit of no finite
          network.
        sigma_w: As for `relu_limit`.
        sigma_b: As for `relu_limit`.

    Returns:
        The kernels with their parts, `(n, n)` or `(n, m)`, float64.

    Raises:
        ArgumentError: An argument is out of bounds, `as_printed` and `sigma_w` are combined, or
          the kernel overflows.
    """
    gate = _soft_gate(x, beta, epsilon)
    check_flag("as_printed", as_printed)
    if as_printed and sigma_w is not None:
        raise ArgumentError(
            "as_printed selects the papers' recursion, which has no sigma_w; drop one of them.",
            kind="contradiction",
        )
    given = sigma_w is not None or as_printed
    first, *rest = _limit_layers(x, depth, sigma_w if given else math.sqrt(2), sigma_b)
    moments, alike = first.next_moments(_input_moments(x, other)), _equal_input_pairs(x, other)
    parts, error = [moments[0]] * 4, 0.0

    def chi(q: Tensor) -> Tensor:
        """Evaluate χ(q) = qγ(q)."""
        return q * gate(q)

    def slope(q: Tensor) -> Tensor:
        """Evaluate χ'(q) = γ(q) + q∂γ(q)."""
        return gate(q) + q * gate.derivative(q)

    pairs = ((chi, chi), (slope, slope), (gate, gate), (slope, gate), (gate, slope))
    for layer in rest:
        std, other_std = moments[1].sqrt(), moments[2].sqrt()
        expectations_found, bound = gaussian_expectations(
            pairs, std, other_std, _correlation_matrix(*moments, alike)
        )
        error = max(error, bound)
        after, *changes = (2.0 * moment for moment in expectations_found)
        squares, other_squares = (2 * diagonal_expectation(chi, chi, s) for s in (std, other_std))
        moments = layer.next_moments((after, squares, other_squares))
        parts = [
            part * change * layer.weight + moments[0]
            for part, change in zip(parts, changes, strict=True)
        ]
    # χ' = γ + q∂γ: `mixed` pairs the full gradient ψ with ψ^V and `mixed_back` ψ^V with ψ, so each
    # is K^V plus one term of K^X: K^X = mixed + mixed_back − 2K^V, K^F = K − K^V − K^X.
    whole, value, mixed, mixed_back = parts
    cross = mixed + mixed_back - 2 * value
    result = LimitKernels(whole, moments[0], value, whole - value - cross, cross, error)
    return _check_finite_limit(result, depth)


def gated_limit(
    x: Tensor,
    depth: int,
    beta: float | None = None,
    epsilon: float = 0.0,
    other: Tensor | None = None,
    value_input: Literal["image", "ones"] = "image",
    linear_features: bool = False,
    parallel_features: bool = False,
) -> LimitKernels:
    """Compute the infinite-width limit of a deep gated network at initialisation.

    Feature and value network are independent and both wide, in the NTK parametrisation with σ_w =
    √2. With Σ̂_l = 2E[G_l G_l'] over the Gaussian pre-activations of the feature network, Θ_l its
    tangent kernel at layer l, and Σ = (2/d_in) X^v X^vᵀ,

        covariance = Σ ⊙ Π_l Σ̂_l,
        K^V = d · covariance,
        K^F = Σ_l Θ_l ⊙ 2E[∂γ∂γ'] ⊙ Σ ⊙ Π_{l'≠l} Σ̂_l',
        tangent = K^V + K^F.

    K^V is βH of a wide network. If the gates are fixed, the tangent kernel is `value` alone. For
    value weights N(0, 2/w), divide `value` and `covariance` by 2/d_in. With parallel feature layers
    q_l = W_l x, the covariance of every q_l and every Θ_l are those of the first layer.

    Args:
        x: Inputs x^f, `(n, ...)`.
        depth: Number of weight layers d.
        beta: Steepness β of soft gates; hard gates if `None`.
        epsilon: ε of soft gates.
        other: Second set of inputs, `(m, ...)`.
        value_input: Whether x^v is the image or all ones.
        linear_features: Whether the feature network has no ReLU.
        parallel_features: Whether each feature layer reads the input.

    Returns:
        The kernels, `(n, n)` or `(n, m)`, float64; `feature` is `None` for hard gates.

    Raises:
        ArgumentError: An argument is out of bounds or does not fit.

    References:
        [NPF]; [DUAL] Theorem 3.1 (K^V); [DGN] Lemma 3.1 as w → ∞ (K^F).
    """
    check_choice("value_input", value_input, Literal["image", "ones"])
    check_flag("linear_features", linear_features)
    check_flag("parallel_features", parallel_features)
    gate = Gate() if beta is None else _soft_gate(x, beta, epsilon)
    first, *rest = _limit_layers(x, depth, math.sqrt(2), 0.0)
    moments, alike = first.next_moments(_input_moments(x, other)), _equal_input_pairs(x, other)
    covariance = moments[0]
    if value_input == "ones":
        covariance = torch.full_like(covariance, 2.0)  # (2/d_in)·d_in
    tangent, feature = moments[0], torch.zeros_like(covariance)
    error = 0.0
    for layer in rest:
        gates, changes, bound = _gate_moments(gate, moments, alike)
        error = max(error, bound)
        # K^F ← K^F ⊙ 2E[γγ'] + Θ_l ⊙ 2E[∂γ∂γ'] ⊙ Σ_value;  Σ_value ← Σ_value ⊙ 2E[γγ']
        feature = feature * gates
        if changes is not None:
            feature = feature + tangent * changes * covariance
        covariance = covariance * gates
        if parallel_features:
            continue
        passed, slope = _activation_moments(moments, alike, linear_features)
        moments = layer.next_moments(passed)
        tangent = tangent * slope + moments[0]
    value = depth * covariance
    if beta is None:
        return LimitKernels(value, covariance, value)
    return LimitKernels(value + feature, covariance, value, feature, None, error)


def _gate_moments(
    gate: Gate, moments: Moments, same: Tensor
) -> tuple[Tensor, Tensor | None, float]:
    """Compute 2E[γγ'], for soft gates also 2E[∂γ∂γ'], and the bound on their error."""
    if not gate.soft:
        return relu_moments(*moments, same)[1], None, 0.0

    pairs = ((gate, gate), (gate.derivative, gate.derivative))
    std, other_std = moments[1].sqrt(), moments[2].sqrt()
    (gates, changes), bound = gaussian_expectations(
        pairs, std, other_std, _correlation_matrix(*moments, same)
    )
    return 2 * gates, 2 * changes, bound


def relu_moments(
    covariance: Tensor, squares: Tensor, other_squares: Tensor, same: Tensor | bool
) -> tuple[Tensor, Tensor]:
    """Compute the moments of the ReLU for Gaussian pre-activations, in closed form.

        2E[χ(q)χ(q')]   = √(vv')(√(1−ρ²) + (π−θ)ρ)/π,   θ = arccos ρ,
        2E[χ'(q)χ'(q')] = (π−θ)/π.

    Args:
        covariance: Covariances, `(n, m)`.
        squares: Variances v of the rows, `(n,)`.
        other_squares: Variances v' of the columns, `(m,)`.
        same: Pairs of equal inputs, `(n, m)`, or `True` for those of the diagonal. Their
          correlation is set to exactly one, because arccos loses digits near one.

    Returns:
        Both moments, `(n, m)` each.
    """
    rho = _correlation_matrix(covariance, squares, other_squares, same)
    angle = torch.acos(rho)
    scale = torch.outer(squares.sqrt(), other_squares.sqrt())
    # The gate of a unit that is always zero is closed.
    slope = torch.where(scale > 0, (math.pi - angle) / math.pi, 0.0)
    return scale * ((1 - rho.square()).sqrt() / math.pi + slope * rho), slope


def _correlation_matrix(
    covariance: Tensor, squares: Tensor, other_squares: Tensor, same: Tensor | bool
) -> Tensor:
    """Compute ρ `(n, m)` in [−1, 1]: one for pairs that are the `same`, zero for a zero input."""
    scale = torch.outer(squares.sqrt(), other_squares.sqrt())
    rho = torch.where(scale > 0, covariance / scale, 0.0).clamp(-1.0, 1.0)
    if isinstance(same, Tensor):
        rho[same] = 1.0
    elif same:
        rho.fill_diagonal_(1.0)
    return rho


def _equal_input_pairs(x: Tensor, other: Tensor | None) -> Tensor:
    """Find the pairs of equal inputs `(n, m)`.

    Without it, duplicates would differ by the digits that arccos loses, and the kernel would not be
    singular.
    """
    sets = [
        examples.detach().to("cpu", torch.float64)
        for examples in (x, other)
        if examples is not None
    ]
    rows = torch.cat(sets).flatten(1)
    kinds: Tensor = rows.unique(dim=0, return_inverse=True)[1]  # type: ignore[no-untyped-call]
    columns = kinds if other is None else kinds[len(x) :]
    equal: Tensor = kinds[: len(x), None] == columns
    return equal


@dataclass(frozen=True)
class _LimitLayer:
    """A weight layer: the next covariance is `weight` · 2E[χχ'] + `bias`."""

    weight: float
    bias: float

    def next_moments(self, moments: Moments) -> Moments:
        """Compute the covariances after the layer."""
        first, second, third = (self.weight * moment + self.bias for moment in moments)
        return first, second, third


def _check_finite_limit(limit: LimitKernels, depth: int) -> LimitKernels:
    """Raise `ArgumentError` if a kernel overflowed float64; return it otherwise.

    With weights larger than those that preserve the variance, it grows by a factor per layer.
    """
    if not bool(torch.isfinite(limit.tangent).all()):
        raise ArgumentError(
            f"The kernel overflows float64: with these weights it grows with each of the "
            f"{depth:,} layers (depth); use fewer layers or a smaller sigma_w.",
            kind="overflow",
        )
    return limit


def _limit_layers(
    x: Tensor, depth: int, sigma_w: Sigmas | None, sigma_b: Sigmas
) -> list[_LimitLayer]:
    """Return one `_LimitLayer` per weight layer.

    Without `sigma_w`, the recursion starts at Σ and each layer is 2E[χχ'].
    """
    check_tensor("x", x)
    check_count("depth", depth, 0, DEEPEST)
    if not depth:
        raise ArgumentError(
            "depth is 0; a network needs at least one weight layer.", kind="out-of-bounds"
        )
    biases = sigma_per_layer("sigma_b", sigma_b, depth)
    if sigma_w is None:
        if any(biases):
            raise ArgumentError(
                "sigma_b was given without sigma_w; biases exist only in the NTK parametrisation, "
                "which needs both.",
                kind="contradiction",
            )
        return [_LimitLayer(1.0, 0.0)] * depth
    weights = sigma_per_layer("sigma_w", sigma_w, depth)
    layers = [_LimitLayer(w**2 / 2, b**2) for w, b in zip(weights, biases, strict=True)]
    layers[0] = _LimitLayer(weights[0] ** 2 / x[0].numel(), biases[0] ** 2)
    return layers


def sigma_per_layer(name: str, sigmas: object, depth: int) -> list[float]:
    """Return one standard deviation per layer.

    Args:
        name: Name of the argument in messages.
        sigmas: A number, or a sequence of one per layer.
        depth: Number of layers.

    Returns:
        `depth` numbers.

    Raises:
        ArgumentError: The sequence has another length, or a number is negative or not finite.
    """
    if isinstance(sigmas, Sequence) and not isinstance(sigmas, str):
        if len(sigmas) != depth:
            raise ArgumentError(
                f"{name} has {len(sigmas)} numbers; expected one for each of the {depth} weight "
                "layers, or a single one for all.",
                kind="wrong-length",
            )
        for index, sigma in enumerate(sigmas):
            check_number(f"Entry {index} of {name}", sigma)
        return [float(sigma) for sigma in sigmas]
    check_number(name, sigmas)
    return [float(sigmas)] * depth  # type: ignore[arg-type]  # checked: it is a number


def _soft_gate(x: Tensor, beta: float, epsilon: float) -> Gate:
    """Return a soft gate after checking its arguments."""
    check_tensor("x", x)
    check_number("beta", beta, above=0.0)
    check_number("epsilon", epsilon)
    return Gate(soft=True, beta=beta, epsilon=epsilon)


def _input_moments(x: Tensor, other: Tensor | None) -> Moments:
    """Compute Σ and the squared norms on both sides, in float64 on the CPU."""
    check_tensor("x", x)
    if other is not None:
        check_inputs("other", other, tuple(x.shape[1:]), like=x)
    rows = x.detach().to("cpu", torch.float64).flatten(1)
    columns = rows if other is None else other.detach().to("cpu", torch.float64).flatten(1)
    return flat_gram(rows, columns), rows.square().sum(1), columns.square().sum(1)
