"""The gates of a stack: made by the networks themselves, by frozen or by trained feature networks.

Gates are laid out as (sources, layers, units, examples); the wiring of each network selects the
gates of each value unit.
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
from dgn_engine.training.batched.dense import ChainPass, DenseChain, chain_backward, chain_forward
from dgn_engine.training.device_data import DeviceData

MOST_BYTES = 2 << 30  # of the gate tables of one stack
_CHUNK = 1000  # examples per pass when tables are computed


class StackedGates:
    """The gates of each value layer for one batch, and the gradients through them."""

    _gates: list[Tensor]

    def prepare_batch(self, train: bool, rows: Tensor, x: Tensor) -> None:
        """Compute the gates of a batch.

        Args:
            train: Whether rows index the training set or the test set.
            rows: (m,), or (B, m) if networks see different examples.
            x: Inputs of the batch, (m, in) or (B, m, in).
        """

    def compute_gates(self, layer: int, q: Tensor) -> Tensor:
        """Return the gates G_l of a value layer.

        Args:
            layer: Layer l, from 0.
            q: Pre-activations of the value networks, (B, units, m).

        Returns:
            (B, units, m).
        """
        return self._gates[layer]

    def compute_delta(self, passed: ChainPass, layer: int, dz: Tensor | None) -> Tensor:
        """Return dL/dq_l of the value networks, storing the gates' gradients for `backward`.

        Args:
            passed: Results of the forward pass.
            layer: Layer l, from 0.
            dz: dL/dz_l, (B, units, m); None if the logits do not matter.

        Returns:
            dL/dq_l = dL/dz_l ⊙ G_l, (B, units, m).
        """
        assert dz is not None
        return dz * passed.gates[layer]

    def backward(self) -> None:
        """Write the gradients of the feature networks, if there are any."""


class OwnGates(StackedGates):
    """Gates that each network makes itself: hard, soft or always open."""

    def __init__(self, gate: Gate) -> None:
        """Use one gate function for all networks.

        Args:
            gate: Their gate function γ.
        """
        self._gate = gate

    def compute_gates(self, layer: int, q: Tensor) -> Tensor:
        """Return the gates G_l = γ(q_l).

        Args:
            layer: Ignored.
            q: Pre-activations of the value networks, (B, units, m).

        Returns:
            (B, units, m).
        """
        return self._gate(q)

    def compute_delta(self, passed: ChainPass, layer: int, dz: Tensor | None) -> Tensor:
        """Return dL/dq_l = dL/dz_l ⊙ (G_l + q_l ∂γ(q_l)); the second term only for soft gates.

        Args:
            passed: Results of the forward pass.
            layer: Layer l, from 0.
            dz: dL/dz_l, (B, units, m).

        Returns:
            (B, units, m).
        """
        if dz is not None and self._gate.soft and not self._gate.open:
            # dz_l/dq_l = G_l + q_l ∂γ(q_l)
            gates = passed.gates[layer]
            return dz * (gates + passed.pre[layer] * self._gate.slope_from_gate(gates))
        return super().compute_delta(passed, layer, dz)


class FrozenGates(StackedGates):
    """Gates of frozen feature networks, computed once for every example and then looked up.

    Networks with equal feature networks share a table, whatever their wiring.
    """

    def __init__(
        self, networks: Sequence[GatedNetwork], data: Sequence[DeviceData], one_order: bool
    ) -> None:
        """Compute the tables.

        Args:
            networks: The B networks.
            data: Device data of each network.
            one_order: Whether all networks see the same examples in every step.

        Raises:
            UserError: The tables need more than 2 GiB.
        """
        first: list[int] = []  # for each distinct maker, the first network that has it
        which: list[int] = []
        for index in range(len(networks)):
            makers = (
                maker for maker, f in enumerate(first) if _has_same_gates(networks, data, f, index)
            )
            which.append(next(makers, len(first)))
            if which[-1] == len(first):
                first.append(index)
        needed = len(first) * table_bytes(networks[0], data[0])
        if needed > MOST_BYTES:
            raise UserError(
                f"The frozen gates of {len(first)} networks for every example need "
                f"{binary_size_in_words(needed)}, but 2 GiB are allowed; train them one by one, or "
                "use fewer examples or a smaller network."
            )
        makers_of = [(networks[f], data[f]) for f in first]
        self._tables = {
            True: torch.stack([_compute_gate_table(n, d.train_x) for n, d in makers_of]),
            False: torch.stack([_compute_gate_table(n, d.test_x) for n, d in makers_of]),
        }
        self._dtype = next(networks[0].parameters()).dtype
        self._makers = torch.tensor(which, device=data[0].train_x.device)[:, None]
        own = list(range(len(networks)))
        # If rows differ by network, the lookup already yields one set of gates per network.
        self._wires = {
            True: StackedWiring(networks, which if one_order else own),
            False: StackedWiring(networks, which),
        }

    def prepare_batch(self, train: bool, rows: Tensor, x: Tensor) -> None:
        """Look up the gates of a batch.

        Args:
            train: Whether rows index the training set or the test set.
            rows: (m,), or (B, m) if networks see different examples.
            x: Ignored.
        """
        table = self._tables[train]
        gates_at_rows = table[:, rows] if rows.dim() == 1 else table[self._makers, rows]
        # (sources, m, layers, units) → (sources, layers, units, m)
        gates = gates_at_rows.permute(0, 2, 3, 1).to(
            self._dtype, memory_format=torch.contiguous_format
        )
        self._gates = self._wires[train].route_gates(gates)


class TrainedGates(StackedGates):
    """Soft gates of feature networks that are trained along with the value networks."""

    def __init__(
        self, networks: Sequence[GatedNetwork], features: DenseChain, gradients: DenseChain
    ) -> None:
        """Bind the feature networks.

        Args:
            networks: The B networks.
            features: Weights of the feature networks; their output layers are unused.
            gradients: Receives their gradients.
        """
        self._features, self._gradients = features, gradients
        self._gate = networks[0].gate
        self._activity = _feature_activity(networks[0])
        self._wires = StackedWiring(networks, range(len(networks)))
        self._pending: dict[int, Tensor] = {}

    def prepare_batch(self, train: bool, rows: Tensor, x: Tensor) -> None:
        """Run the feature networks on a batch.

        Args:
            train: Ignored.
            rows: Ignored.
            x: Inputs of the batch, (m, in) or (B, m, in).
        """
        self._passed = chain_forward(self._features, x, self._activity, logits=False)
        # (B, layers, units, m)
        self._made = self._gate(torch.stack(self._passed.pre, dim=1))
        self._gates = self._wires.route_gates(self._made)

    def compute_delta(self, passed: ChainPass, layer: int, dz: Tensor | None) -> Tensor:
        """Return dL/dq_l = dL/dz_l ⊙ G_l, and keep dL/dG_l = dL/dz_l ⊙ q_l for `backward`.

        Args:
            passed: Results of the forward pass.
            layer: Layer l, from 0.
            dz: dL/dz_l, (B, units, m).

        Returns:
            (B, units, m).
        """
        assert dz is not None
        self._pending[layer] = dz * passed.pre[layer]  # dL/dG_l = dL/dz_l ⊙ q_l
        return super().compute_delta(passed, layer, dz)

    def backward(self) -> None:
        """Write the gradients of the feature networks: route dL/dG back, then through γ and χ^f."""
        pending = [self._pending[layer] for layer in range(len(self._gates))]
        deltas = self._wires.route_gradients(pending, self._made.shape).mul_(
            self._gate.slope_from_gate(self._made)
        )

        def into_pre(layer: int, dz: Tensor | None) -> Tensor:
            own = deltas[:, layer]  # through the gate: ∂γ ⊙ routed dL/dG
            return own if dz is None else own + (dz * self._passed.gates[layer])

        chain_backward(self._features, self._gradients, self._passed, None, into_pre)


def _feature_activity(network: GatedNetwork) -> Callable[[int, Tensor], Tensor]:
    linear = network.feature_activation == "linear"
    return lambda _, q: torch.ones_like(q) if linear else HARD(q)


def table_bytes(network: GatedNetwork, data: DeviceData) -> int:
    """Return the size of the frozen gates of one feature network for all examples.

    Args:
        network: The network.
        data: Training and test examples.

    Returns:
        Bytes: one per hard gate, the dtype's size per soft gate.
    """
    units = sum(math.prod(shape) for shape in network.feature.architecture.gated_shapes)
    size = next(network.parameters()).itemsize if network.gate.soft else 1
    return units * size * (len(data.train_x) + len(data.test_x))


def _has_same_gates(
    networks: Sequence[GatedNetwork], data: Sequence[DeviceData], first: int, second: int
) -> bool:
    """Return whether two feature networks make the same gates for the same examples."""
    ours, others = (networks[index].feature.state_dict() for index in (first, second))
    return (
        data[first].train_x is data[second].train_x
        and data[first].test_x is data[second].test_x
        and ours.keys() == others.keys()
        and all(torch.equal(ours[name], others[name]) for name in ours if "weights" in name)
        and all(torch.equal(ours[name], others[name]) for name in ours)
    )


@torch.no_grad()
def _compute_gate_table(network: GatedNetwork, x: Tensor) -> Tensor:
    """Return gates before wiring, (n, layers, units); bool if hard."""
    activity = _feature_activity(network)
    gate = network.gate if network.gate.soft else (lambda q: q > 0)
    parts = [
        torch.stack([gate(q) for q in network.feature.run(part, activity).pre], dim=1)
        for part in (x[begin : begin + _CHUNK] for begin in range(0, len(x), _CHUNK))
    ]
    return torch.cat(parts)


class StackedWiring:
    """The wiring of B networks; it was validated when it was set."""

    def __init__(self, networks: Sequence[GatedNetwork], sources: Sequence[int]) -> None:
        """Precompute index tables.

        Args:
            networks: The B networks.
            sources: For each network b, the gate maker it uses.
        """
        layers = len(networks[0].wiring)
        device = next(networks[0].parameters()).device
        width = networks[0].feature.architecture.gated_shapes[0][0]
        table = torch.tensor([network.wiring for network in networks])  # (B, layers)
        code = torch.tensor(sources)[:, None] * layers + table
        own = list(sources) == list(range(len(networks)))
        self._straight = own and bool((table == torch.arange(layers)).all())
        self._codes = [code[:, layer].contiguous().to(device) for layer in range(layers)]
        self._units = [_unit_indices(networks, layer, width) for layer in range(layers)]
        self._units = [None if u is None else u.to(device) for u in self._units]

    def route_gates(self, made: Tensor) -> list[Tensor]:
        """Route gates to the value layers.

        Args:
            made: (sources, layers, units, m).

        Returns:
            One (B, value units, m) per layer.
        """
        if self._straight:
            routed = list(made.unbind(1))
        else:
            flat = made.flatten(0, 1)
            routed = [flat.index_select(0, code) for code in self._codes]
        return [
            gate if units is None else gate.gather(1, _expand_units(units, gate))
            for gate, units in zip(routed, self._units, strict=True)
        ]

    def route_gradients(self, deltas: Sequence[Tensor], shape: torch.Size) -> Tensor:
        """Apply the transpose of `route_gates`, if every network makes its own gates.

        Args:
            deltas: One (B, value units, m) per layer.
            shape: Shape of the gates, (B, layers, units, m).

        Returns:
            Gradients of the gates, of that shape.
        """
        whole = deltas[0].new_empty(shape)
        flat = whole.flatten(0, 1)
        for delta, code, units in zip(deltas, self._codes, self._units, strict=True):
            if units is not None:
                narrow = delta.new_zeros(len(delta), shape[2], shape[3])
                delta = narrow.scatter_add_(1, _expand_units(units, delta), delta)
            flat.index_copy_(0, code, delta)
        return whole


def _unit_indices(networks: Sequence[GatedNetwork], layer: int, width: int) -> Tensor | None:
    """Return the gate unit of each value unit, (B, value units); None for the identity."""
    rows = []
    for network in networks:
        route = network.routes[layer]
        turned = (torch.arange(width) - route.rotate) % width
        rows.append(turned.repeat(route.tile))
    table = torch.stack(rows)
    if table.shape[1] == width and bool((table == torch.arange(width)).all()):
        return None
    return table


def _expand_units(units: Tensor, like: Tensor) -> Tensor:
    return units[:, :, None].expand(-1, -1, like.shape[2])
