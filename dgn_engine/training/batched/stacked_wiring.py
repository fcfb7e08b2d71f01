"""The wiring of every network of a stack at once: which gate layer and unit each value unit uses.

Gate layers lie as (sources, layers, units, examples). The arithmetic is that of `Route`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from dgn_engine.model.network import GatedNetwork


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
