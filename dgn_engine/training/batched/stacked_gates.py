"""The gates of a stack: made by the networks themselves, by frozen or by trained features.

Gate layers lie as (sources, layers, units, examples); the wiring of each network says which of
them each value unit uses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from dgn_engine.errors import UserError
from dgn_engine.model.gates import HARD, Gate
from dgn_engine.model.network import GatedNetwork
from dgn_engine.text.byte_counts import binary_size_in_words
from dgn_engine.training.batched.dense import ChainPass, DenseChain, backward, forward
from dgn_engine.training.device_data import DeviceData

MOST_BYTES = 2 << 30  # of the gates of frozen features in one stack
_CHUNK = 1000  # examples whose gates are made at once


class StackedGates:
    """The gates of each value layer for one batch, and the gradients through them."""

    _gates: list[Tensor]

    def prepare(self, train: bool, rows: Tensor, x: Tensor) -> None:
        """Compute the gates for these rows of the training or the test examples, inputs x."""

    def gate(self, layer: int, q: Tensor) -> Tensor:
        """G_l, (B, units, m), for pre-activations q of the value network."""
        return self._gates[layer]

    def into_pre(self, passed: ChainPass, layer: int, dz: Tensor | None) -> Tensor:
        """dq_l of the value network for dz_l; may store the gates' pending gradients."""
        assert dz is not None
        return dz * passed.gates[layer]

    def backward(self) -> None:
        """Fill the gradients of the feature networks, if there are any."""


class OwnGates(StackedGates):
    """Each network gates itself, hard, soft or not at all."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def gate(self, layer: int, q: Tensor) -> Tensor:
        return self._gate(q)

    def into_pre(self, passed: ChainPass, layer: int, dz: Tensor | None) -> Tensor:
        if dz is not None and self._gate.soft and not self._gate.open:
            gates = passed.gates[layer]
            return dz * (gates + passed.pre[layer] * self._gate.slope(gates))
        return super().into_pre(passed, layer, dz)


class FrozenGates(StackedGates):
    """Gates of frozen feature networks: computed once for every example, then looked up.

    Networks with the same features share them, whatever their wiring. Raises `UserError` where they
    do not fit into 2 GiB.
    """

    def __init__(
        self, networks: Sequence[GatedNetwork], data: Sequence[DeviceData], one_order: bool
    ) -> None:
        first: list[int] = []  # of each different maker, a network that has it
        which: list[int] = []
        for place in range(len(networks)):
            makers = (k for k, f in enumerate(first) if _alike(networks, data, f, place))
            which.append(next(makers, len(first)))
            if which[-1] == len(first):
                first.append(place)
        needed = len(first) * table_bytes(networks[0], data[0])
        if needed > MOST_BYTES:
            raise UserError(
                f"The frozen gates of {len(first)} networks for every example need "
                f"{binary_size_in_words(needed)}, and 2 GiB are allowed; train without packing, or "
                "use fewer examples or a smaller network."
            )
        makers_of = [(networks[f], data[f]) for f in first]
        self._tables = {
            True: torch.stack([_table(n, d.train_x) for n, d in makers_of]),
            False: torch.stack([_table(n, d.test_x) for n, d in makers_of]),
        }
        self._dtype = next(networks[0].parameters()).dtype
        self._makers = torch.tensor(which, device=data[0].train_x.device)[:, None]
        own = list(range(len(networks)))
        # Each network's own rows are looked up in its maker's table, so that it has its own gates.
        self._wires = {
            True: StackedWiring(networks, which if one_order else own),
            False: StackedWiring(networks, which),
        }

    def prepare(self, train: bool, rows: Tensor, x: Tensor) -> None:
        table = self._tables[train]
        found = table[:, rows] if rows.dim() == 1 else table[self._makers, rows]
        # (sources, m, layers, units) → (sources, layers, units, m)
        made = found.permute(0, 2, 3, 1).to(self._dtype, memory_format=torch.contiguous_format)
        self._gates = self._wires[train].gates(made)


class TrainedGates(StackedGates):
    """Soft gates of feature networks that are trained with the value networks."""

    def __init__(
        self, networks: Sequence[GatedNetwork], features: DenseChain, gradients: DenseChain
    ) -> None:
        """`features`: their gated layers and, unused, their heads."""
        self._features, self._gradients = features, gradients
        self._gate = networks[0].gate
        self._activity = _activity_of(networks[0])
        self._wires = StackedWiring(networks, range(len(networks)))
        self._pending: dict[int, Tensor] = {}

    def prepare(self, train: bool, rows: Tensor, x: Tensor) -> None:
        self._passed = forward(self._features, x, self._activity, logits=False)
        # (B, layers, units, m)
        self._made = self._gate(torch.stack(self._passed.pre, dim=1))
        self._gates = self._wires.gates(self._made)

    def into_pre(self, passed: ChainPass, layer: int, dz: Tensor | None) -> Tensor:
        assert dz is not None
        self._pending[layer] = dz * passed.pre[layer]
        return super().into_pre(passed, layer, dz)

    def backward(self) -> None:
        pending = [self._pending[layer] for layer in range(len(self._gates))]
        deltas = self._wires.back(pending, self._made.shape).mul_(self._gate.slope(self._made))

        def into_pre(layer: int, dz: Tensor | None) -> Tensor:
            own = deltas[:, layer]
            return own if dz is None else own + (dz * self._passed.gates[layer])

        backward(self._features, self._gradients, self._passed, None, into_pre)


def _activity_of(network: GatedNetwork) -> Callable[[int, Tensor], Tensor]:
    linear = network.feature_activation == "linear"
    return lambda _, q: torch.ones_like(q) if linear else HARD(q)


def table_bytes(network: GatedNetwork, data: DeviceData) -> int:
    """Of the frozen gates of one feature network for every example: a byte each where hard."""
    units = sum(math.prod(shape) for shape in network.feature.architecture.gated_shapes)
    size = next(network.parameters()).itemsize if network.gate.soft else 1
    return units * size * (len(data.train_x) + len(data.test_x))


def _alike(
    networks: Sequence[GatedNetwork], data: Sequence[DeviceData], one: int, other: int
) -> bool:
    """Whether two feature networks make the same gates for the same examples."""
    ours, theirs = (networks[place].feature.state_dict() for place in (one, other))
    return (
        data[one].train_x is data[other].train_x
        and data[one].test_x is data[other].test_x
        and ours.keys() == theirs.keys()
        and all(torch.equal(ours[name], theirs[name]) for name in ours if "weights" in name)
        and all(torch.equal(ours[name], theirs[name]) for name in ours)
    )


@torch.no_grad()
def _table(network: GatedNetwork, x: Tensor) -> Tensor:
    """(n, layers, units), bool where hard: gates of the feature network before any wiring."""
    activity = _activity_of(network)
    gate = network.gate if network.gate.soft else (lambda q: q > 0)
    parts = [
        torch.stack([gate(q) for q in network.feature.run(part, activity).pre], dim=1)
        for part in (x[begin : begin + _CHUNK] for begin in range(0, len(x), _CHUNK))
    ]
    return torch.cat(parts)


class StackedWiring:
    """Of B networks; raises nothing: wiring and routes were checked when they were set."""

    def __init__(self, networks: Sequence[GatedNetwork], sources: Sequence[int]) -> None:
        """`sources[b]`: which of the gate makers serves network b."""
        layers = len(networks[0].wiring)
        device = next(networks[0].parameters()).device
        width = networks[0].feature.architecture.gated_shapes[0][0]
        table = torch.tensor([network.wiring for network in networks])  # (B, layers)
        code = torch.tensor(sources)[:, None] * layers + table
        own = list(sources) == list(range(len(networks)))
        self._straight = own and bool((table == torch.arange(layers)).all())
        self._codes = [code[:, layer].contiguous().to(device) for layer in range(layers)]
        self._units = [_units(networks, layer, width) for layer in range(layers)]
        self._units = [None if u is None else u.to(device) for u in self._units]

    def gates(self, made: Tensor) -> list[Tensor]:
        """From gates (sources, layers, units, m) to one (B, value units, m) for each layer."""
        if self._straight:
            found = list(made.unbind(1))
        else:
            flat = made.flatten(0, 1)
            found = [flat.index_select(0, code) for code in self._codes]
        return [
            gate if units is None else gate.gather(1, _wide(units, gate))
            for gate, units in zip(found, self._units, strict=True)
        ]

    def back(self, deltas: Sequence[Tensor], shape: torch.Size) -> Tensor:
        """The transpose of `gates` where every network makes its own: (B, layers, units, m)."""
        whole = deltas[0].new_empty(shape)
        flat = whole.flatten(0, 1)
        for delta, code, units in zip(deltas, self._codes, self._units, strict=True):
            if units is not None:
                narrow = delta.new_zeros(len(delta), shape[2], shape[3])
                delta = narrow.scatter_add_(1, _wide(units, delta), delta)
            flat.index_copy_(0, code, delta)
        return whole


def _units(networks: Sequence[GatedNetwork], layer: int, width: int) -> Tensor | None:
    """(B, value units): the unit of the gate layer that each value unit uses; None: its own."""
    rows = []
    for network in networks:
        route = network.routes[layer]
        turned = (torch.arange(width) - route.rotate) % width
        rows.append(turned.repeat(route.tile))
    table = torch.stack(rows)
    if table.shape[1] == width and bool((table == torch.arange(width)).all()):
        return None
    return table


def _wide(units: Tensor, like: Tensor) -> Tensor:
    return units[:, :, None].expand(-1, -1, like.shape[2])
