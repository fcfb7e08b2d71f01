"""Small random runs over every regime and network, and the kernels of one computed slowly.

The slow kernels know the tensors of the run and what was asked of it (`Arrangement`), nothing of
the engine's network: gates are made, turned and tiled here, and K is that of the Jacobian that
automatic differentiation gives, in float64.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import torch
from torch import Tensor
from torch.func import jacrev
from torch.nn import functional as F

from dgn_engine.config import DataConfig, GatingConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.errors import UserError
from dgn_engine.importing.from_config import build_architecture
from dgn_engine.model import architecture as arch
from dgn_engine.model.nets import all_nets
from dgn_engine.model.tiling import tile_architecture
from dgn_engine.random_streams import random_stream
from dgn_engine.regimes import Regime, all_regimes, find_regime
from dgn_engine.training.run import Run

Tensors = Mapping[str, Tensor]
SMALL_OPTIONS = {"depth": 3, "blocks": 2, "stages": 2, "stride": 2}
POOLS = (arch.MaxPool, arch.GlobalMaxPool)
PAIR_FROM = 20_000  # weights: as many logits as classes would take seconds


@dataclass(frozen=True)
class Arrangement:
    """What was asked of the network of a run, as it stands after every change."""

    regime: str
    permute: tuple[int, ...]
    rotation: tuple[int, ...]
    shift: tuple[int, ...]
    tiling: tuple[int, ...]
    beta: float
    epsilon: float
    value_input: str
    gate_probability: float


def small_net(name: str, random: Random) -> NetConfig:
    """With as few units and layers as its form allows, or a little more."""
    options = []
    for field in all_nets()[name].options:
        if isinstance(field.default, int) and field.least is not None:
            wanted = SMALL_OPTIONS.get(field.name, 2) + random.randrange(2)
            options.append((field.name, max(int(field.least), min(field.default, wanted))))
        elif isinstance(field.default, float):
            options.append((field.name, random.choice((0.5, field.default, 1.25))))
    init = random.choice(("kaiming", "bernoulli", "glorot"))
    bias = random.random() < 0.5
    alone = random.random() < 0.5  # in the feature network
    return NetConfig(name, tuple(options), bias=bias, feature_bias=alone, init=init)  # type: ignore[arg-type]


def any_config(regime: str, net: str, seed: int) -> RunConfig:
    """A run of few steps of this regime and network; all else is drawn, and can be carried out."""
    random = Random(f"{regime} {net} {seed}")
    network = small_net(net, random)
    shape = build_architecture(network, (1, 8, 8), 1)
    large = sum(math.prod(arch.weight_shape(one)) for one in shape.weight_layers) > PAIR_FROM
    if large and "stride" in dict(network.options):
        network = replace(network, options=tuple((dict(network.options) | {"stride": 4}).items()))
        shape = build_architecture(network, (1, 8, 8), 1)
    data = DataConfig(
        train_limit=random.choice((12, 15)),
        test_limit=4,
        binary=(3, 8) if large or random.random() < 0.3 else None,
        label_noise=random.choice((0.0, 0.5)),
        normalise=random.choice(("none", "0.3/0.4")),
        # Equal pixels make equal maxima, and rounding decides which of them is the largest.
        pixels="random" if any(isinstance(one, POOLS) for one in shape.nodes) else "true",
    )
    training = TrainingConfig(
        batch=random.choice((5, 15)),
        epochs=1,
        learning_rate=random.choice((1e-3, 1e-2)),
        loss=random.choice(("cross-entropy", "squared")),
    )
    gating = GatingConfig(
        regime=regime,
        beta=random.choice((2.0, 5.5, 8.0)),
        epsilon=random.choice((0.0, 0.1)),
        value_input=random.choice(("image", "ones", "random")),
        gate_probability=random.choice((0.3, 0.5, 0.8)),
        **_arrangement(shape, find_regime(regime), random),
    )
    config = RunConfig(data, network, gating, training, seed=random.randrange(100))
    return replace(config, probe_examples=4 if large else 6)


def _arrangement(shape: arch.Architecture, regime: Regime, random: Random) -> dict[str, Any]:
    """Order, rotation, shift and tiling that fit the layers, and the regime."""
    found: dict[str, Any] = {}
    copies = regime.takes_gates or regime.on_entry == "share-redrawn"  # between equal networks
    if not copies and random.random() < 0.4 and (tiles := _tiles(shape, random)):
        found["tiling"] = tiles
    if regime.own_gates:
        return found
    gated = shape.gated_shapes
    if random.random() < 0.7:
        found["wiring"] = _order(gated, random)
    if random.random() < 0.7:
        found["rotation"] = tuple(random.randrange(size[0] + 1) for size in gated)
    if random.random() < 0.7 and any(len(size) == 3 for size in gated):
        found["shift"] = tuple(random.randrange(3) if len(size) == 3 else 0 for size in gated)
    flat = all(isinstance(node, arch.Dense) for node in shape.nodes)
    if flat and not copies and sum(found.get("rotation", ())) % 2:
        found["feature_layers"] = "parallel"
    return found


def _order(shapes: tuple[tuple[int, ...], ...], random: Random) -> tuple[int, ...]:
    """A permutation of layers of one shape."""
    order = list(range(len(shapes)))
    for shape in set(shapes):
        places = [place for place, other in enumerate(shapes) if other == shape]
        for place, source in zip(places, random.sample(places, len(places)), strict=True):
            order[place] = source
    return tuple(order)


def _tiles(shape: arch.Architecture, random: Random) -> tuple[int, ...]:
    layers = len(shape.gated_shapes)
    for tiles in (tuple(random.choice((1, 2)) for _ in range(layers)), (2,) * layers):
        try:
            tile_architecture(shape, tiles)
        except (UserError, ValueError):
            continue
        return tiles
    return ()


def changed(run: Run, seed: int) -> Arrangement:
    """Change some of what can be changed while a run trains, at random; returns how it is then."""
    gating = run.config.gating
    random = Random(f"changes of {gating.regime} {run.config.net.name} {seed}")
    shapes = run.trainer.control.base.gated_shapes
    layers = len(shapes)
    now = Arrangement(
        run.trainer.regime.name,
        gating.wiring or tuple(range(layers)),
        *(gating.rotation or (0,) * layers, gating.shift or (0,) * layers),
        *(gating.tiling or (1,) * layers, gating.beta, gating.epsilon),
        *(gating.value_input, gating.gate_probability),
    )
    if random.random() < 0.3:
        other = random.choice([regime.name for regime in all_regimes()])
        try:
            run.control.swap_regime(other, random.random() < 0.5)
            now = replace(now, regime=other)
        except UserError:
            pass  # tiled or parallel: neither network takes the weights of the other
    if random.random() < 0.4:
        now = replace(now, beta=3.25)
        run.control.set_beta(3.25)
    if random.random() < 0.4:
        now = replace(now, value_input="ones")
        run.control.set_value_input("ones")
    if find_regime(now.regime).own_gates:
        return now
    if random.random() < 0.4:
        order = _order(shapes, random)
        turns = dict(zip(now.permute, zip(now.rotation, now.shift, strict=True), strict=True))
        now = replace(
            now,
            permute=order,
            rotation=tuple(turns[source][0] for source in order),
            shift=tuple(turns[source][1] for source in order),
        )
        run.control.rewire_gates(order)
    if random.random() < 0.4:
        turned = tuple(random.randrange(size[0]) for size in shapes)
        steps = tuple(random.randrange(3) if len(size) == 3 else 0 for size in shapes)
        now = replace(now, rotation=turned, shift=steps)
        run.control.rotate_gates(turned, steps)
    return now


class SlowKernels:
    """Logits and K of a run at its step, over the examples x (n, *input_shape) of these rows."""

    def __init__(
        self, config: RunConfig, arranged: Arrangement, tensors: Tensors, of: int, classes: int
    ) -> None:
        """`of`: training examples in all; `classes`: logits."""
        self.arranged, self.regime, self.of = arranged, find_regime(arranged.regime), of
        self.seed, self.parallel = config.seed, config.gating.feature_layers == "parallel"
        self.tensors = {name: tensor.detach().double() for name, tensor in tensors.items()}
        self.base = build_architecture(config.net, (1, 8, 8), classes)
        self.wide = tile_architecture(self.base, arranged.tiling)
        self._gaps: list[Tensor] | None = None  # collected by `tied`

    def tied(self, x: Tensor, rows: tuple[int, ...]) -> Tensor:
        """Return which examples have two largest values in a window of a max pooling, or a hard
        gate at 0 behind a BatchNorm, up to rounding: there the logits have no derivative, and a
        kernel depends on what is taken."""
        self._gaps = [torch.ones(len(x), dtype=torch.float64)]
        self.logits(self.tensors, x.double(), rows)
        gaps, self._gaps = torch.stack(self._gaps), None
        return gaps.min(0).values < 1e-12

    def folded(self) -> SlowKernels:
        """The same network of the weights that its layers work with in the end, all learnt."""
        same, tensors = copy.copy(self), {}
        for part, nodes in (
            ("value", self.wide.weight_layers),
            ("feature", self.base.weight_layers),
        ):
            normalises = part == "feature" or self.regime.own_gates
            numbers = itertools.count()
            for place, node in enumerate(nodes):
                weight = self.tensors[f"{part}.weights.{place}"]
                bias = self.tensors.get(f"{part}.biases.{place}")
                factor, moved = torch.tensor(getattr(node, "factor", 1.0)), torch.tensor(0.0)
                if isinstance(node, arch.Conv) and node.normal:
                    at, number = f"{part}.normalisation", next(numbers)
                    factor = self.tensors[f"{at}.scales.{number}"]
                    if normalises:
                        factor = factor / (self.tensors[f"{at}.variance_{place}"] + 1e-5).sqrt()
                        moved = self.tensors[f"{at}.shifts.{number}"]
                        moved = moved - factor * self.tensors[f"{at}.mean_{place}"]
                if bias is not None or moved.dim():
                    tensors[f"{part}.biases.{place}"] = (
                        factor * (0 if bias is None else bias) + moved
                    )
                tensors[f"{part}.weights.{place}"] = (weight.transpose(0, -1) * factor).transpose(
                    0, -1
                )
        same.tensors = tensors | {"random_input": self.tensors["random_input"]}
        same.base, same.wide = _plain(self.base), _plain(self.wide)
        return same

    def coins(self, rows: tuple[int, ...]) -> list[Tensor]:
        stream = random_stream("gates", self.seed)
        p = self.arranged.gate_probability
        drawn = [torch.rand((self.of, *s), generator=stream) < p for s in self.base.gated_shapes]
        return [layer[list(rows)].double() for layer in drawn]

    def _gate(self, q: Tensor) -> Tensor:
        if self.regime.open_gates:
            return torch.ones_like(q)
        if not self.regime.soft:
            if self._gaps is not None and self.base.has_batch_norm:
                self._gaps.append((q.abs() / q.abs().max()).detach().flatten(1).amin(1))
            return (q > 0).double()
        # The sigmoid by its other name: no side overflows, and its slope at 0 is β/4.
        return (1 + self.arranged.epsilon) * (1 + torch.tanh(self.arranged.beta * q / 2)) / 2

    def _turned(self, layer: int, gates: Tensor) -> Tensor:
        """The gates of a feature layer as value layer `layer` is given them."""
        channels, step = gates.shape[1], self.arranged.shift[layer]
        gates = gates[:, [(c - self.arranged.rotation[layer]) % channels for c in range(channels)]]
        if step:
            rows, columns = gates.shape[2:]
            gates = gates[:, :, [(y - step) % rows for y in range(rows)]]
            gates = gates[..., [(x - step) % columns for x in range(columns)]]
        return torch.cat([gates] * self.arranged.tiling[layer], 1)

    def _passed(
        self,
        part: str,
        p: Tensors,
        x: Tensor,
        gate: Callable[[int, Tensor], Tensor],
        kept: Callable[[int, Tensor], Tensor],
        masks: list[Tensor] | None,
        whole_norm: bool,
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Logits, gates before any turn, places of the largest; `kept(l, q)` is z of gate layer l,
        `whole_norm`: normalise, else multiply by γ."""
        nodes = (self.wide if part == "value" else self.base).nodes
        z, skips, gates, taken, place, norm = x, list[Tensor](), [], [], 0, 0
        for node in nodes:
            match node:
                case arch.GlobalAveragePool():
                    z = z.mean((2, 3))
                case arch.AveragePool():
                    z = F.avg_pool2d(z, node.kernel, node.stride)
                case arch.Flatten():
                    z = z.flatten(1)
                case arch.MaxPool() | arch.GlobalMaxPool():
                    if self._gaps is not None:
                        self._gaps.append(_smallest_gap(node, z.detach()))
                    taken.append(_largest(node, z) if masks is None else masks[len(taken)])
                    shape = taken[-1].shape
                    z = z.flatten(2).gather(2, taken[-1].flatten(2)).reshape(shape)
                    z = z.flatten(1) if isinstance(node, arch.GlobalMaxPool) else z
                case arch.Fork():
                    skips.append(z)
                case arch.Skip():
                    z, skips[-1] = skips[-1], z
                case arch.Merge():
                    z = node.post * (node.pre * skips.pop() + z)
                case arch.Dense() | arch.Conv() | arch.ChannelScale():
                    if part == "feature" and self.parallel and arch.is_gated(node):
                        z = x
                    z = self._layer(node, part, place, p, z)
                    if isinstance(node, arch.Conv) and node.normal:
                        z = _normalised(part, place, norm, p, z, whole_norm)
                        norm += 1
                    place += 1
                case arch.Gating():
                    pass
                case _:
                    raise AssertionError(f"{node} is not known here")
            if arch.is_gated(node):
                gates.append(gate(len(gates), z))
                z = kept(len(gates) - 1, z) if part == "feature" else z * gates[-1]
        return z, gates, taken

    def _layer(self, node: arch.Weighted, part: str, place: int, p: Tensors, z: Tensor) -> Tensor:
        weight, bias = p[f"{part}.weights.{place}"], p.get(f"{part}.biases.{place}")
        if isinstance(node, arch.ChannelScale):
            shift = torch.zeros(()) if bias is None else bias[:, None, None]
            return z * weight[:, None, None] + shift
        if isinstance(node, arch.Conv) and node.circular:
            z = F.pad(z, (node.padding,) * 4, mode="circular")
            return F.conv2d(z, weight, bias, node.stride)
        if isinstance(node, arch.Conv):
            return F.conv2d(z, weight, bias, node.stride, node.padding)
        q = z @ weight.T
        return node.factor * (q if bias is None else q + bias)

    def logits(self, p: Tensors, x: Tensor, rows: tuple[int, ...], still: bool = False) -> Tensor:
        """`still`: no gradient flows through the gates."""
        if self.regime.own_gates:

            def own(_: int, q: Tensor) -> Tensor:
                return self._gate(q.detach() if still else q)

            return self._passed("value", p, x, own, own, None, True)[0]
        fed = {"image": x, "ones": torch.ones_like(x)}.get(self.arranged.value_input)
        if fed is None:
            fed = p["random_input"].expand_as(x)
        masks: list[Tensor] | None = None
        if self.regime.drawn_gates:
            made = self.coins(rows)
        else:
            linear = self.regime.linear_features
            _, made, masks = self._passed(
                "feature",
                p,
                x,
                lambda _, q: self._gate(q),
                lambda _, q: q if linear else q * (q > 0),
                None,
                True,
            )
            masks = self._masks(masks)
        used = [self._turned(layer, made[source]) for layer, source in enumerate(self.order)]
        return self._passed(
            "value", p, fed, lambda layer, _: used[layer], lambda _, q: q, masks, False
        )[0]

    @property
    def order(self) -> tuple[int, ...]:
        return self.arranged.permute

    def _masks(self, masks: list[Tensor]) -> list[Tensor]:
        """Of each pooling, with the channels of the gate layer before it; its places stay."""
        found, layer = [], -1
        for node in self.base.nodes:
            if isinstance(node, POOLS):
                mask = masks[len(found)]
                turn, count = self.arranged.rotation[layer], mask.shape[1]
                mask = mask[:, [(c - turn) % count for c in range(count)]]
                found.append(torch.cat([mask] * self.arranged.tiling[layer], 1))
            layer += arch.is_gated(node)
        return found

    def jacobian(self, part: str, x: Tensor, rows: tuple[int, ...], still: bool = False) -> Tensor:
        """(n, C, parameters) over the learnt tensors of one network."""
        learnt = [n for n in self.tensors if n.startswith(f"{part}.") and not _is_statistic(n)]

        def of(p: Tensors) -> Tensor:
            return self.logits(self.tensors | dict(p), x, rows, still)

        tree = jacrev(of, chunk_size=16)({name: self.tensors[name] for name in learnt})
        return torch.cat([leaf.flatten(2) for leaf in tree.values()], 2)

    def tangent(self, x: Tensor, rows: tuple[int, ...]) -> dict[str, Tensor]:
        """K and its parts that are not zero, mean over the logits."""
        x = x.double()
        if self.regime.own_gates:
            J = self.jacobian("value", x, rows)
            V = self.jacobian("value", x, rows, still=True)
            parts = {"ntk_value": _gram(V, V)}
            if self.regime.soft:
                parts |= {"ntk_feature": _gram(J - V, J - V)}
                parts |= {"ntk_cross": _gram(V, J - V) + _gram(J - V, V)}
            return {"ntk": _gram(J, J)} | parts
        parts = {}
        for part in self.regime.trains:
            if part == "value" or (self.regime.soft and not self.regime.drawn_gates):
                J = self.jacobian(part, x, rows)
                parts[f"ntk_{part}"] = _gram(J, J)
        return {"ntk": torch.stack(list(parts.values())).sum(0)} | parts


def _plain(architecture: arch.Architecture) -> arch.Architecture:
    """Without what is folded into weights."""
    nodes = [
        replace(node, normal=False)
        if isinstance(node, arch.Conv)
        else replace(node, factor=1.0)
        if isinstance(node, arch.Dense)
        else node
        for node in architecture.nodes
    ]
    return replace(architecture, nodes=tuple(nodes))


def _gram(one: Tensor, two: Tensor) -> Tensor:
    return torch.einsum("ncp,mcp->nm", one, two) / one.shape[1]


def _is_statistic(name: str) -> bool:
    return ".mean_" in name or ".variance_" in name


def _normalised(part: str, place: int, number: int, p: Tensors, q: Tensor, whole: bool) -> Tensor:
    at = f"{part}.normalisation"
    gamma = p[f"{at}.scales.{number}"][:, None, None]
    if not whole:
        return q * gamma
    mean, variance = (p[f"{at}.{name}_{place}"][:, None, None] for name in ("mean", "variance"))
    return (q - mean) / torch.sqrt(variance + 1e-5) * gamma + p[f"{at}.shifts.{number}"][
        :, None, None
    ]


def _smallest_gap(node: arch.MaxPool | arch.GlobalMaxPool, z: Tensor) -> Tensor:
    """Return by example how close the two largest values of a window are, as a share of the larger;
    1 where the largest is zero, through which nothing flows."""
    if isinstance(node, arch.GlobalMaxPool):
        windows = z.flatten(2)[..., None]
    else:
        room = F.pad(z, [node.padding] * 4, value=-torch.inf)
        windows = room.unfold(2, node.kernel, node.stride).unfold(3, node.kernel, node.stride)
        windows = windows.flatten(4).flatten(2, 3).movedim(2, 3)
    if windows.shape[2] < 2:
        return torch.ones(len(z), dtype=z.dtype)
    first, second = windows.topk(2, 2).values.unbind(2)
    gaps = torch.where(first == 0, 1.0, (first - second) / first.abs())
    return gaps.flatten(1).min(1).values


def _largest(node: arch.MaxPool | arch.GlobalMaxPool, z: Tensor) -> Tensor:
    z = z.detach()
    if isinstance(node, arch.GlobalMaxPool):
        return z.flatten(2).argmax(2)[..., None, None]
    found = F.max_pool2d_with_indices(z, node.kernel, node.stride, node.padding)
    return found[1]
