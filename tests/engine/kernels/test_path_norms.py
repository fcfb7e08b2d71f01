"""Path norms and path distances against lists of all paths, position by position, in float64."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dgn_engine import kernels as k
from dgn_engine.errors import ArgumentError
from dgn_engine.kernels.path_norms import (
    PathWeights,
    path_value_distance,
    path_value_norms,
    rescale_like,
)
from dgn_engine.model import architecture as arch
from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.stack import apply_weight
from tests.engine.kernels.tiny import ARCHITECTURES, draw_images, every_architecture, make_network


@dataclass(frozen=True)
class Listed:
    """v of every path to every unit of a map or vector: `paths[u]`, of flat index u."""

    shape: tuple[int, ...]
    paths: list[Tensor]

    def scaled(self, factor: float) -> Listed:
        return replace(self, paths=[factor * paths for paths in self.paths])


def listed_paths(weights: PathWeights) -> list[Tensor]:
    """v of all paths to each logit, one by one: through every unit and window position."""
    count = prod(weights.architecture.input_shape)
    one = weights.weights[0].new_ones(1)
    state = Listed(weights.architecture.input_shape, [one] * count)
    pending: list[Listed] = []
    layer = 0
    for node, _, after in weights.architecture.shape_steps():
        match node:
            case arch.Fork():
                pending.append(state)
            case arch.Skip():
                state, pending[-1] = pending[-1], state
            case arch.Merge():
                block, skip = pending.pop().scaled(node.post * node.pre), state.scaled(node.post)
                both = zip(block.paths, skip.paths, strict=True)
                state = Listed(after, [torch.cat(pair) for pair in both])
            case arch.Dense() | arch.Conv() | arch.ChannelScale():
                edges = layer_edges(node, weights.weights[layer], state.shape)
                state = follow_edges(state, edges, after)
                starts = weights.biases[layer].repeat_interleave(prod(after[1:]))
                pairs = zip(state.paths, starts, strict=True)
                state = replace(state, paths=[torch.cat([p, b[None]]) for p, b in pairs])
                layer += 1
            case arch.Gating():
                pass
            case arch.Flatten():
                state = Listed(after, state.paths)
            case _:
                state = follow_edges(state, pooling_edges(node, state.shape), after)
    return state.paths


Edges = list[tuple[Tensor, Tensor]]  # for each tap: whether i leads to o, and its weight, (o, i)


def follow_edges(state: Listed, edges: Edges, after: tuple[int, ...]) -> Listed:
    paths: list[list[Tensor]] = [[] for _ in range(prod(after))]
    for present, values in edges:
        for unit, source in present.nonzero().tolist():
            paths[unit].append(values[unit, source] * state.paths[source])
    return Listed(after, [torch.cat(each) if each else torch.zeros(0).double() for each in paths])


def matrix_of(layer: object, shape: tuple[int, ...]) -> Tensor:
    """The matrix of a linear map, (outputs, inputs)."""
    identity = torch.eye(prod(shape), dtype=torch.float64).reshape(-1, *shape)
    return layer(identity).flatten(1).T  # type: ignore[operator]


def layer_edges(node: arch.Weighted, weight: Tensor, shape: tuple[int, ...]) -> Edges:
    """The taps of a window are apart: with circular padding two may meet in one place."""
    if not isinstance(node, arch.Conv):
        shown = torch.ones_like(weight)
        return [
            tuple(
                matrix_of(lambda z, w=w: apply_weight(node, w, None, z), shape)
                for w in (shown, weight)
            )
        ]
    taps = []
    for row in range(node.kernel):
        for column in range(node.kernel):
            tap = torch.zeros_like(weight)
            tap[:, :, row, column] = 1.0
            pair = (tap, tap * weight)
            taps.append(
                tuple(matrix_of(lambda z, w=w: apply_weight(node, w, None, z), shape) for w in pair)
            )
    return [(present > 0, values) for present, values in taps]


def pooling_edges(node: arch.Node, shape: tuple[int, ...]) -> Edges:
    if isinstance(node, arch.GlobalAveragePool | arch.GlobalMaxPool):
        mean = matrix_of(lambda z: z.mean((2, 3)), shape)
        return [(mean > 0, mean if isinstance(node, arch.GlobalAveragePool) else (mean > 0) * 1.0)]
    assert isinstance(node, arch.AveragePool | arch.MaxPool)
    padding = node.padding if isinstance(node, arch.MaxPool) else 0
    mean = matrix_of(lambda z: F.avg_pool2d(z, node.kernel, node.stride, padding), shape)
    return [(mean > 0, mean if isinstance(node, arch.AveragePool) else (mean > 0) * 1.0)]


def drawn_weights(name: str, seed: int = 0, bias: bool = True) -> PathWeights:
    """Weights of either sign, some of them zero."""
    generator = torch.Generator().manual_seed(seed)

    def draw(shape: tuple[int, ...]) -> Tensor:
        values = torch.randn(shape, generator=generator, dtype=torch.float64)
        return values * (torch.rand(shape, generator=generator) > 0.1)

    layers = ARCHITECTURES[name].weight_layers
    weights = tuple(draw(arch.weight_shape(layer)) for layer in layers)
    biases = tuple(draw((layer.outputs,)) * bias for layer in layers)
    return PathWeights(ARCHITECTURES[name], weights, biases)


def moved(weights: PathWeights, by: float, seed: int = 9) -> PathWeights:
    generator = torch.Generator().manual_seed(seed)

    def move(values: Tensor) -> Tensor:
        return values + by * torch.randn(values.shape, generator=generator, dtype=torch.float64)

    return replace(
        weights,
        weights=tuple(map(move, weights.weights)),
        biases=tuple(map(move, weights.biases)),
    )


def rescaled(weights: PathWeights, seed: int = 3) -> PathWeights:
    """The same function: each hidden channel times a factor, all along the chain.

    Channels that a block adds to its skip keep their scale, to be right without any grouping.
    """
    generator = torch.Generator().manual_seed(seed)
    architecture = weights.architecture
    new_weights, new_biases = list(weights.weights), list(weights.biases)
    layers = architecture.weight_layers
    after_fork = {  # layers whose output another branch meets
        number
        for number, following in enumerate(_next_nodes(architecture))
        if following is None or isinstance(following, arch.Fork | arch.Skip | arch.Merge)
    }
    for number in range(len(layers) - 1):
        if number in after_fork:
            continue
        factor = torch.rand(layers[number].outputs, generator=generator).double() * 3 + 0.2
        axes = (-1, *[1] * (new_weights[number].dim() - 1))
        new_weights[number] = new_weights[number] * factor.reshape(axes)
        new_biases[number] = new_biases[number] * factor
        later = new_weights[number + 1]
        if later.dim() == 1:
            new_weights[number + 1] = later / factor
        else:
            positions = later.shape[1] // len(factor)
            spread = factor.repeat_interleave(positions)
            new_weights[number + 1] = later / spread.reshape(1, -1, *[1] * (later.dim() - 2))
    return replace(weights, weights=tuple(new_weights), biases=tuple(new_biases))


def _next_nodes(architecture: arch.Architecture) -> list[arch.Node | None]:
    """The node after each weight layer, poolings and gates left out."""
    passed = (arch.Gating, arch.Flatten, arch.AveragePool, arch.MaxPool, arch.GlobalAveragePool,
              arch.GlobalMaxPool)  # fmt: skip
    nodes = [node for node in architecture.nodes if not isinstance(node, passed)]
    following: list[arch.Node | None] = [*nodes[1:], None]
    return [after for node, after in zip(nodes, following, strict=True) if arch.is_weighted(node)]


@every_architecture
def test_norms_are_sums_over_all_paths(name: str) -> None:
    weights = drawn_weights(name)
    listed = listed_paths(weights)
    norms = path_value_norms(weights)
    ones = torch.stack([paths.abs().sum() for paths in listed])
    squares = torch.stack([(paths**2).sum() for paths in listed])
    torch.testing.assert_close(norms.l1_by_logit, ones, rtol=1e-12, atol=0)
    torch.testing.assert_close(norms.squares_by_logit, squares, rtol=1e-12, atol=0)
    assert norms.l1 == pytest.approx(float(ones.sum()), rel=1e-12)
    assert norms.l2 == pytest.approx(float(squares.sum()) ** 0.5, rel=1e-12)


@every_architecture
def test_the_distance_is_that_of_all_paths(name: str) -> None:
    one = drawn_weights(name)
    two = moved(one, 0.2)
    v = torch.cat(listed_paths(one))
    w = torch.cat(listed_paths(two))
    distance = path_value_distance(one, two)
    assert distance.l2 == pytest.approx(float((v - w).norm()), rel=1e-7)
    assert distance.cosine == pytest.approx(float(v @ w / v.norm() / w.norm()), rel=1e-10)
    l1 = float((v - w).abs().sum())
    assert distance.l1_low <= l1 * (1 + 1e-12)
    assert l1 <= distance.l1_high * (1 + 1e-12)
    assert (
        distance.l1_high <= distance.l1_most == pytest.approx(float(v.abs().sum() + w.abs().sum()))
    )
    ours, theirs = ((*w.weights, *w.biases) for w in (one, two))
    entries = [(a * b >= 0).flatten() for a, b in zip(ours, theirs, strict=True)]
    assert distance.same_signs == pytest.approx(float(torch.cat(entries).double().mean()))


@every_architecture
def test_rescaled_units_change_nothing(name: str) -> None:
    one, two = drawn_weights(name), moved(drawn_weights(name), 0.3)
    again = rescaled(one)
    same = path_value_distance(one, again)
    norms = path_value_norms(one)
    assert same.l2 < 1e-6 * norms.l2
    assert same.l1_high < 1e-12 * norms.l1
    distance, other = (
        path_value_distance(one, two),
        path_value_distance(again, rescaled(two, seed=4)),
    )
    assert other.l2 == pytest.approx(distance.l2, rel=1e-6)
    assert other.l1_low == pytest.approx(distance.l1_low, rel=1e-6)
    back, forth = rescale_like(one, two), rescale_like(again, rescaled(two, seed=4))
    assert path_value_norms(back).l1 == pytest.approx(path_value_norms(two).l1, rel=1e-12)
    # relative to the first network, its representative no longer matters
    for weight, other_weight, factor in zip(
        path_ratio(one, back), path_ratio(again, forth), one.weights, strict=True
    ):
        used = factor != 0
        torch.testing.assert_close(weight[used], other_weight[used], rtol=1e-9, atol=1e-12)


def path_ratio(one: PathWeights, two: PathWeights) -> list[Tensor]:
    return [b / a for a, b in zip(one.weights, two.weights, strict=True)]


def test_units_of_a_residual_stream_are_rescaled_together() -> None:
    one = drawn_weights("residual-dense")  # layers 0, 2 and 3 write to the stream, 1, 3, 4 read it
    factor = torch.tensor([0.2, 3.0, 1.7]).double()
    weights, biases = list(one.weights), list(one.biases)
    for layer in (0, 2, 3):
        weights[layer] = weights[layer] * factor[:, None]
        biases[layer] = biases[layer] * factor
    for layer in (1, 3, 4):
        weights[layer] = weights[layer] / factor
    two = replace(one, weights=tuple(weights), biases=tuple(biases))
    torch.testing.assert_close(torch.cat(listed_paths(one)), torch.cat(listed_paths(two)))
    distance = path_value_distance(one, two)
    assert distance.l1_high < 1e-12 * distance.l1_most
    for ours, theirs in zip(one.weights, rescale_like(one, two).weights, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("name", ["fc-deep", "max-gap", "residual-dense", "basic-blocks"])
def test_smaller_weights_are_at_the_difference_of_the_norms(name: str) -> None:
    one = drawn_weights(name)
    kept = torch.Generator().manual_seed(2)

    def shrink(values: Tensor) -> Tensor:
        return values * torch.rand(values.shape, generator=kept).double().round(decimals=1)

    two = replace(
        one,
        weights=tuple(map(shrink, one.weights)),
        biases=tuple(map(shrink, one.biases)),
    )
    distance = path_value_distance(one, two)
    exact = float((torch.cat(listed_paths(one)) - torch.cat(listed_paths(two))).abs().sum())
    assert distance.same_signs == 1.0
    assert distance.l1_low == pytest.approx(exact, rel=1e-12)
    assert distance.l1_high == pytest.approx(exact, rel=1e-12)


def network_with(weights: PathWeights) -> GatedNetwork:
    network = make_network(weights.architecture, bias=True)
    with torch.no_grad():
        network.value.load_layers(weights.weights, weights.biases)
    return network


@every_architecture
def test_the_upper_bound_bounds_the_outputs_of_relu_networks(name: str) -> None:
    one = drawn_weights(name)
    x = 2.0 * draw_images(ARCHITECTURES[name], 20, seed=5)
    reach = x.flatten(1).abs().amax(1).clamp(min=1.0)
    for by in (0.01, 1.0):
        two = rescaled(moved(one, by))
        with torch.no_grad():
            apart = (network_with(one)(x) - network_with(two)(x)).abs().sum(1)
        assert bool((apart <= reach * path_value_distance(one, two).l1_high * (1 + 1e-9)).all())
    with torch.no_grad():
        outputs = network_with(one)(x).abs()
        change = (network_with(one)(x) - network_with(one)(x.flip(0))).abs()
    norms = path_value_norms(one).l1_by_logit
    assert bool((outputs <= reach[:, None] * norms).all())
    steps = (x - x.flip(0)).flatten(1).abs().amax(1)
    assert bool((change <= steps[:, None] * norms * (1 + 1e-9)).all())


def test_batch_norm_counts_with_its_running_statistics() -> None:
    chain = arch.Architecture(
        (1, 3, 3),
        (arch.Conv(1, 2, normal=True), arch.GlobalAveragePool(), arch.Dense(2, 2, gated=False)),
    )
    network = make_network(chain)
    normal = network.value.normalisation
    assert normal is not None
    with torch.no_grad():
        normal.get_buffer("mean_0").copy_(torch.tensor([0.3, -0.2]))
        normal.get_buffer("variance_0").copy_(torch.tensor([4.0, 0.25]))
    weights = PathWeights.from_stack(network.value)
    slope = normal.scales[0] / (torch.tensor([4.0, 0.25]).double() + 1e-5).sqrt()
    by_hand = network.value.weights[0] * slope[:, None, None, None]
    shift = normal.shifts[0] - torch.tensor([0.3, -0.2]).double() * slope
    plain = PathWeights(chain, (by_hand.detach(), weights.weights[1]),
                        (shift.detach(), torch.zeros(2).double()))  # fmt: skip
    assert path_value_norms(weights).l1 == pytest.approx(path_value_norms(plain).l1, rel=1e-7)
    bare = replace(chain, nodes=(arch.Conv(1, 2), *chain.nodes[1:]))
    assert path_value_distance(weights, replace(plain, architecture=bare)).l1_high < 1e-6


class Small(nn.Module):
    """A convolution with BatchNorm, a max pooling, and a block of dense layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.pool = nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.MaxPool2d(2)
        self.first = nn.Linear(8, 8)
        self.one, self.two, self.out = nn.Linear(8, 8), nn.Linear(8, 8, bias=False), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(self.pool(torch.relu(self.norm(self.conv(x)))).flatten(1)))
        x = self.two(torch.relu(self.one(x))) + x
        return self.out(torch.relu(x))


def test_a_module_of_ones_own_has_the_norms_of_its_absolute_weights() -> None:
    module = Small().double().eval()
    with torch.no_grad():
        for tensor in (*module.parameters(), module.norm.running_mean):
            tensor.normal_(generator=torch.Generator().manual_seed(6))
        assert module.norm.running_var is not None
        module.norm.running_var.fill_(3.0)
        norms = k.path_value_norms(k.PathWeights.from_stack(k.adapt(module, (1, 6, 6)).value))
        slope = module.norm.weight / (3.0 + module.norm.eps) ** 0.5
        shift = module.norm.bias + slope * (module.conv.bias - module.norm.running_mean)
        for q, found in ((1, norms.l1), (2, norms.l2)):
            conv = (slope[:, None, None, None] * module.conv.weight).abs() ** q
            z = F.conv2d(torch.ones(1, 1, 6, 6).double(), conv, shift.abs() ** q)
            z = 4.0 * F.avg_pool2d(z, 2).flatten(1)
            z = F.linear(z, module.first.weight.abs() ** q, module.first.bias.abs() ** q)
            block = F.linear(z, module.one.weight.abs() ** q, module.one.bias.abs() ** q)
            z = F.linear(block, module.two.weight.abs() ** q) + z
            out = F.linear(z, module.out.weight.abs() ** q, module.out.bias.abs() ** q)
            assert found == pytest.approx(float(out.sum()) ** (1 / q), rel=1e-12)


def test_what_cannot_be_compared_is_refused() -> None:
    one = drawn_weights("fc-deep")
    with pytest.raises(ArgumentError) as refused:
        path_value_distance(one, drawn_weights("residual-dense"))
    assert refused.value.kind == "other-network"
    spoilt = replace(one, biases=(one.biases[0] * float("nan"), *one.biases[1:]))
    for weights in (spoilt, replace(one, weights=tuple(w * 1e200 for w in one.weights))):
        with pytest.raises(ArgumentError) as refused:
            path_value_norms(weights)
        assert refused.value.kind == "not-finite"


def test_a_network_without_paths_has_no_angle() -> None:
    one = drawn_weights("fc-deep")
    none = replace(
        one,
        weights=tuple(torch.zeros_like(w) for w in one.weights),
        biases=tuple(torch.zeros_like(b) for b in one.biases),
    )
    distance = path_value_distance(one, none)
    assert distance.cosine != distance.cosine  # NaN
    assert distance.l1_low == distance.l1_high == pytest.approx(path_value_norms(one).l1)
