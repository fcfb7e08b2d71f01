"""Path norms of one network, and the distance of two networks in path space, in a few passes.

A path runs from an input, or from a bias, to a logit through one unit of each layer that it meets,
position by position; v(p) is the product of the weights, the bias and the constant factors on it.
Σ_p |v(p)|^q is one pass of |θ|^q on an input of ones, with max pooling replaced by a sum over its
window (every unit of the window is on a path) and the 1/P of average pooling raised to q. Rescaling
a hidden unit (incoming weights and bias times λ > 0, outgoing weights divided by λ) changes no
v(p).

References:
    Gonon, Brisebarre, Riccietti & Gribonval, A path-norm toolkit for modern networks, ICLR 2024,
    arXiv:2310.01225; A rescaling-invariant Lipschitz bound based on path-metrics for modern ReLU
    network parameterizations, ICML 2025, arXiv:2405.15006.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import sqrt

import torch
from torch import Tensor
from torch.nn import functional as F

from dgn_engine.errors import ArgumentError
from dgn_engine.kernels.arguments import check_architecture, check_sequence, check_tensor
from dgn_engine.model import architecture as arch
from dgn_engine.model.stack import Stack, apply_weight


@dataclass(frozen=True)
class PathWeights:
    """The weights that the paths of one network multiply, in float64.

    Attributes:
        architecture: The network.
        weights: One weight per weight layer, with BatchNorm (running statistics) and constant
            factors folded in.
        biases: One bias per weight layer, zero where there is none.
    """

    architecture: arch.Architecture
    weights: tuple[Tensor, ...]
    biases: tuple[Tensor, ...]

    @staticmethod
    @torch.no_grad()
    def from_stack(stack: Stack) -> PathWeights:
        """Copy the weights of a network.

        Args:
            stack: The network, `network.value` or `network.feature`.

        Returns:
            Its folded weights and biases.
        """
        weights, biases = stack.folded_tensors()
        return PathWeights(
            stack.architecture,
            tuple(weight.detach().double().clone() for weight in weights),
            tuple(
                weight.new_zeros(len(weight), dtype=torch.float64)
                if bias is None
                else bias.detach().double().clone()
                for weight, bias in zip(weights, biases, strict=True)
            ),
        )


@dataclass(frozen=True)
class PathNorms:
    """Norms of the path values of a network.

    Attributes:
        l1_by_logit: Σ_p |v(p)| over the paths that end in each logit, `(C,)`. No logit of a ReLU
            network changes by more than this times the largest change of an input.
        squares_by_logit: Σ_p v(p)², `(C,)`.
    """

    l1_by_logit: Tensor
    squares_by_logit: Tensor

    @property
    def l1(self) -> float:
        """Return ‖v‖₁ over all paths.

        Returns:
            The norm.
        """
        return float(self.l1_by_logit.sum())

    @property
    def l2(self) -> float:
        """Return ‖v‖₂ over all paths.

        Returns:
            The norm.
        """
        return sqrt(float(self.squares_by_logit.sum()))


@dataclass(frozen=True)
class PathDistance:
    """Distance of two networks of one architecture in path space.

    It is zero for networks that differ by a rescaling of hidden units. Units are matched by index.

    Attributes:
        l2: ‖v − v'‖₂, exact up to rounding: about 10⁻⁸ of the norms.
        cosine: Cosine of v and v'; NaN if one of them is zero.
        l1_low: Lower bound of ‖v − v'‖₁.
        l1_high: Upper bound of ‖v − v'‖₁. For two ReLU networks, Σ_c |ŷ_c(x) − ŷ'_c(x)| is at most
            this times max(‖x‖_∞, 1).
        l1_most: ‖v‖₁ + ‖v'‖₁, which the distance cannot exceed.
        l2_most: ‖v‖₂ + ‖v'‖₂, likewise.
        same_signs: Share of weights and biases whose signs do not contradict.
    """

    l2: float
    cosine: float
    l1_low: float
    l1_high: float
    l1_most: float
    l2_most: float
    same_signs: float

    @property
    def shares(self) -> dict[str, float]:
        """Return the distances as shares of the largest possible ones, 0…1.

        Returns:
            `l2`, and `low` and `high` for the bounds in L1; empty if no network has a path.
        """
        if not (self.l1_most > 0 and self.l2_most > 0):
            return {}
        low, high = self.l1_low / self.l1_most, self.l1_high / self.l1_most
        return {"l2": self.l2 / self.l2_most, "low": low, "high": high}


@torch.no_grad()
def path_value_norms(weights: PathWeights) -> PathNorms:
    """Compute the L1 and L2 norms of the path values in two passes.

        ‖v‖_q^q = 1ᵀ f_{|θ|^q}(1)

    Args:
        weights: The network.

    Returns:
        The norms.

    Raises:
        ArgumentError: The weights do not fit their architecture, or one of them, or a sum, is not a
            finite number.

    References:
        arXiv:2310.01225.
    """
    check_path_weights("weights", weights)
    return _measure_norms(weights)


def _measure_norms(weights: PathWeights) -> PathNorms:
    """Compute the norms of checked weights."""
    ones = _sum_paths(_map_weights(weights, torch.abs), 1)
    squares = _sum_paths(_map_weights(weights, torch.square), 2)
    for name, sums in (("|v|", ones), ("v²", squares)):
        if not bool(torch.isfinite(sums).all()):
            raise ArgumentError(
                f"weights: the sum of {name} over all paths is too large for float64.",
                kind="not-finite",
            )
    return PathNorms(ones, squares)


@torch.no_grad()
def path_value_distance(weights: PathWeights, other: PathWeights) -> PathDistance:
    """Compute the distance of two networks in path space.

    With θ∧θ' the smaller magnitude of each weight, or zero where signs differ, and N_i the sum of
    |v| over the paths through weight i,

        ‖v − v'‖₂² = ‖v‖₂² − 2⟨v, v'⟩ + ‖v'‖₂²
        max(max_l Σ_{i in layer l} |N_i − N'_i|, ‖v − v'‖₂)  ≤  ‖v − v'‖₁
        ‖v − v'‖₁  ≤  ‖v‖₁ + ‖v'‖₁ − 2‖v(θ∧θ')‖₁.

    The upper bound is the smaller one of the weights as they are, and after the hidden units of the
    second network are rescaled so that the paths to each have the same sum of magnitudes in both.
    It therefore never exceeds a bound that no rescaling of either network changes. It is exact if
    the second network is the first with some weights made smaller or zero.

    Args:
        weights: θ, the first network.
        other: θ', the second network.

    Returns:
        The distance.

    Raises:
        ArgumentError: The architectures differ, or one of the networks is refused as by
            `path_value_norms`.

    References:
        arXiv:2405.15006: ‖v(θ) − v(θ')‖₁ = ‖v(θ)‖₁ − ‖v(θ')‖₁ for θ' between 0 and θ, used here
        twice, by way of θ∧θ'.
    """
    _check_pair(weights, other)
    norms, others = _measure_norms(weights), _measure_norms(other)
    product = float(_sum_paths(_join_weights(weights, other, torch.mul), 2).sum())
    squares, other_squares = norms.l2**2, others.l2**2
    l2 = sqrt(max(squares - 2.0 * product + other_squares, 0.0))
    most = norms.l1 + others.l1
    shared = max(
        float(_sum_paths(_join_weights(weights, second, _smaller_magnitude), 1).sum())
        for second in (other, rescale_like(weights, other))
    )
    # Paths through different weights of one layer are different ones, and so are those to
    # different logits; |Σ|v| − Σ|v'|| over a group of paths is at most their part of ‖v − v'‖₁.
    groups = (
        (norms.l1_by_logit, others.l1_by_logit),
        *zip(sums_through_weights(weights), sums_through_weights(other), strict=True),
    )
    by_group = max(float((a - b).abs().sum()) for a, b in groups)
    lengths = norms.l2 * others.l2
    high = max(most - 2.0 * shared, 0.0)
    return PathDistance(
        l2=l2,
        cosine=product / lengths if lengths > 0 else float("nan"),
        l1_low=min(max(by_group, l2), high),  # rounding apart, never above the upper bound
        l1_high=high,
        l1_most=most,
        l2_most=norms.l2 + others.l2,
        same_signs=_share_of_same_signs(weights, other),
    )


@torch.enable_grad()
def sums_through_weights(weights: PathWeights) -> tuple[Tensor, ...]:
    """Sum |v| over the paths through each weight, N_i = |w_i| ∂‖v‖₁/∂|w_i|.

    This is also by how much ‖v‖₁ falls if the weight is pruned, its path magnitude. No rescaling of
    hidden units changes it.

    Args:
        weights: The network.

    Returns:
        One tensor per weight layer, shaped as its weight.

    References:
        arXiv:2405.15006, for pruning.
    """
    sizes = [weight.abs().requires_grad_() for weight in weights.weights]
    biases = tuple(bias.abs() for bias in weights.biases)
    total = _sum_paths(PathWeights(weights.architecture, tuple(sizes), biases), 1).sum()
    slopes = torch.autograd.grad(total, sizes)
    return tuple((size * slope).detach() for size, slope in zip(sizes, slopes, strict=True))


@torch.no_grad()
def rescale_like(weights: PathWeights, other: PathWeights) -> PathWeights:
    """Rescale the hidden units of the other network like those of the first.

    No path value changes. Afterwards the paths from inputs and biases to each unit have the same
    Σ|v| in both networks. Channels that residual blocks add share one factor.

    Args:
        weights: The first network.
        other: The network to rescale.

    Returns:
        The other network, rescaled.

    Raises:
        ArgumentError: The architectures differ.
    """
    _check_pair(weights, other)
    layers, groups = _group_units(weights.architecture)
    totals: list[dict[int, Tensor]] = []
    for network in (weights, other):
        by_group: dict[int, Tensor] = {}

        def collect(layer: int, z: Tensor, by_group: dict[int, Tensor] = by_group) -> None:
            group = groups[layers[layer].writes]
            if group == groups[_FIXED]:
                return
            total = z[0].flatten(1).sum(1) if z.dim() > 2 else z[0]
            by_group[group] = by_group[group] + total if group in by_group else total

        _sum_paths(_map_weights(network, torch.abs), 1, collect)
        totals.append(by_group)
    factors: dict[int, Tensor] = {}
    for group, wanted in totals[0].items():
        present = totals[1][group]
        usable = (wanted > 0) & (present > 0)
        factors[group] = torch.where(usable, wanted / present, torch.ones_like(wanted))
    return _rescale(other, layers, groups, factors)


def check_path_weights(name: str, weights: object) -> None:
    """Check the weights of a network.

    Args:
        name: Name of the argument in messages.
        weights: The argument.

    Raises:
        ArgumentError: It is something else, its tensors do not fit its architecture, or a weight is
            not a finite number.
    """
    if not isinstance(weights, PathWeights):
        raise ArgumentError(
            f"{name} is of type {type(weights).__name__}; expected PathWeights, for example "
            "PathWeights.from_stack(network.value).",
            kind="wrong-type",
        )
    check_architecture(weights.architecture)
    layers = weights.architecture.weight_layers
    shapes = [arch.weight_shape(layer) for layer in layers]
    for part, tensors, wanted in (
        ("weights", weights.weights, shapes),
        ("biases", weights.biases, [shape[:1] for shape in shapes]),
    ):
        check_sequence(f"{name}.{part}", tensors)
        for layer, tensor in enumerate(tensors):
            check_tensor(f"{name}.{part}[{layer}]", tensor, 1, weights.weights[0])
        if [tuple(tensor.shape) for tensor in tensors] != wanted:
            raise ArgumentError(
                f"{name}.{part} do not have the shapes of the layers of {name}.architecture.",
                kind="wrong-shape",
            )


def have_same_paths(one: arch.Architecture, two: arch.Architecture) -> bool:
    """Check whether the paths of two networks correspond.

    Gates, BatchNorm and constant factors may differ.

    Args:
        one: The first network.
        two: The second network.

    Returns:
        Whether inputs and nodes are the same.
    """
    return _path_structure(one) == _path_structure(two)


def _check_pair(weights: object, other: object) -> None:
    """Refuse weights that do not belong to two networks with the same paths."""
    check_path_weights("weights", weights)
    check_path_weights("other", other)
    assert isinstance(weights, PathWeights)
    assert isinstance(other, PathWeights)
    if not have_same_paths(weights.architecture, other.architecture):
        raise ArgumentError(
            "weights and other have different layers, so their paths do not correspond.",
            kind="other-network",
        )


def _path_structure(architecture: arch.Architecture) -> tuple[object, ...]:
    """Return what decides which paths there are."""
    nodes: list[arch.Node] = []
    for node in architecture.nodes:
        match node:
            case arch.Gating():
                continue
            case arch.Dense():
                nodes.append(replace(node, gated=False, factor=1.0))
            case arch.Conv():
                nodes.append(replace(node, gated=False, normal=False))
            case _:
                nodes.append(node)
    return (architecture.input_shape, *nodes)


def _sum_paths(
    weights: PathWeights, power: int, visit: Callable[[int, Tensor], None] = lambda *_: None
) -> Tensor:
    """Sum the products of weights over all paths to each logit, `(C,)`.

    `weights` are raised to `power` already; constant factors are raised here. `visit` gets the
    number and output of each weight layer.
    """
    architecture = weights.architecture
    z = weights.weights[0].new_ones((1, *architecture.input_shape))
    pending: list[Tensor] = []
    layer = 0
    for node in architecture.nodes:
        match node:
            case arch.GlobalAveragePool():
                z = z.sum((2, 3)) / float(z.shape[2] * z.shape[3]) ** power
            case arch.GlobalMaxPool():
                z = z.sum((2, 3))
            case arch.AveragePool():
                positions = float(node.kernel**2)
                z = F.avg_pool2d(z, node.kernel, node.stride) / positions ** (power - 1)
            case arch.MaxPool():  # the sum over the window; padding is on no path
                pooled = F.avg_pool2d(z, node.kernel, node.stride, node.padding)
                z = pooled * float(node.kernel**2)
            case arch.Flatten():
                z = z.flatten(1)
            case arch.Fork():
                pending.append(z)
            case arch.Skip():
                z, pending[-1] = pending[-1], z
            case arch.Merge():
                pre, post = abs(node.pre) ** power, abs(node.post) ** power
                z = post * (pre * pending.pop() + z)
            case arch.Dense() | arch.Conv() | arch.ChannelScale():
                z = apply_weight(node, weights.weights[layer], weights.biases[layer], z)
                visit(layer, z)
                layer += 1
    return z[0]


def _map_weights(weights: PathWeights, change: Callable[[Tensor], Tensor]) -> PathWeights:
    """Apply a function to all weights and biases."""
    return PathWeights(
        weights.architecture,
        tuple(change(weight) for weight in weights.weights),
        tuple(change(bias) for bias in weights.biases),
    )


def _join_weights(
    one: PathWeights, two: PathWeights, join: Callable[[Tensor, Tensor], Tensor]
) -> PathWeights:
    """Combine the weights and biases of two networks, entry by entry."""
    return PathWeights(
        one.architecture,
        tuple(join(a, b) for a, b in zip(one.weights, two.weights, strict=True)),
        tuple(join(a, b) for a, b in zip(one.biases, two.biases, strict=True)),
    )


def _smaller_magnitude(one: Tensor, two: Tensor) -> Tensor:
    """Return |θ∧θ'|: the smaller magnitude, or zero where signs differ."""
    return torch.where(one.sign() == two.sign(), torch.minimum(one.abs(), two.abs()), 0.0)


def _share_of_same_signs(one: PathWeights, two: PathWeights) -> float:
    """Return the share of weights and biases with θθ' ≥ 0."""
    same = _join_weights(one, two, lambda a, b: (a.sign() * b.sign() >= 0).double())
    entries = (*same.weights, *same.biases)
    return float(sum(entry.sum() for entry in entries)) / sum(entry.numel() for entry in entries)


_FIXED = 0  # the group of inputs and logits, which cannot be rescaled


@dataclass(frozen=True)
class _LayerUnits:
    """Which units a weight layer reads and writes, as places in the list of groups.

    `spread`: how many inputs in a row are positions of one unit, after a map was flattened.
    """

    reads: int
    writes: int
    spread: int


def _group_units(architecture: arch.Architecture) -> tuple[list[_LayerUnits], list[int]]:
    """Find which layers' units must be rescaled together, because blocks and skips add them.

    Returns the layers, and the group of each place.
    """
    groups = [_FIXED]
    layers: list[_LayerUnits] = []
    place, spread = _FIXED, 1
    pending: list[tuple[int, int]] = []

    def unite(one: int, two: int) -> None:
        kept, dropped = sorted((groups[one], groups[two]))
        groups[:] = [kept if group == dropped else group for group in groups]

    for node, before, _ in architecture.shape_steps():
        match node:
            case arch.Flatten():
                spread = spread * before[1] * before[2] if len(before) == 3 else spread
            case arch.Fork():
                pending.append((place, spread))
            case arch.Skip():
                (place, spread), pending[-1] = pending[-1], (place, spread)
            case arch.Merge():
                other, other_spread = pending.pop()
                unite(place, other)
                if spread != other_spread:  # units of one are positions in the other
                    unite(place, _FIXED)
            case arch.Dense() | arch.Conv() | arch.ChannelScale():
                groups.append(len(groups))
                layers.append(_LayerUnits(place, len(groups) - 1, spread))
                place, spread = len(groups) - 1, 1
    unite(place, _FIXED)  # the logits
    return layers, groups


def _rescale(
    weights: PathWeights,
    layers: Sequence[_LayerUnits],
    groups: Sequence[int],
    factors: dict[int, Tensor],
) -> PathWeights:
    """Multiply what each unit receives by its factor, and divide what it sends by it."""
    scaled_weights, scaled_biases = [], []
    for layer, weight, bias in zip(layers, weights.weights, weights.biases, strict=True):
        gain = _factor_of(factors, groups, layer.writes, len(weight))
        scaled_biases.append(bias if gain is None else bias * gain)
        if gain is not None:
            weight = weight * gain.reshape(-1, *[1] * (weight.dim() - 1))
        inputs = len(weight) if weight.dim() == 1 else weight.shape[1]
        loss = _factor_of(factors, groups, layer.reads, inputs // layer.spread)
        if loss is not None:
            loss = loss.repeat_interleave(layer.spread)
            axes = [-1] if weight.dim() == 1 else [1, -1, *[1] * (weight.dim() - 2)]
            weight = weight / loss.reshape(axes)
        scaled_weights.append(weight)
    return PathWeights(weights.architecture, tuple(scaled_weights), tuple(scaled_biases))


def _factor_of(
    factors: dict[int, Tensor], groups: Sequence[int], place: int, units: int
) -> Tensor | None:
    """Return the factors of the units of a place; None if they are fixed."""
    group = groups[place]
    if group == groups[_FIXED]:
        return None
    factor = factors[group]
    assert len(factor) == units
    return factor
