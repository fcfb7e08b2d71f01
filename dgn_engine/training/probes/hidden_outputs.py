"""What the layers of the value network make of one probe example, under other gates and inputs.

z_l = q_l ⊙ G_l of every gate layer, in three passes through the same weights: `as_is`; `reversed`,
with the gate layers in reverse order, those of each shape among themselves; `ones`, with ones in
the place of the value input, under the gates of the example. Where the network makes its own gates
(ReLU), the two others are given the gates that it made of the example. Pooling takes the same
positions in all three. `reversed` is left out where no two gate layers have one shape.

Arrays, `{pass}_{l}` of gate layer l: (w,) of a dense one; (1 + k, H, W) of a convolution, its mean
over all channels and then k ≤ `FILTERS` channels from `channel` on, averaged down where a side is
longer than `SIDE`. `input_{pass}` (H, W): the mean over channels of what the value network is fed,
where that is a map. `labels` (m,) and `answers_{pass}` (m,) of as many probe examples, evenly among
them, as `BUDGET` allows; `says` (p,): the answers on the example itself, by pass. Scalars:
`right_{pass}`, the share of right answers among those with a class. Facts: `example`, `channel`;
`order`, the gate layers that the value layers use in `reversed`, 1-based; `fed`: the value input.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from dgn_engine.model.stack import Trace
from dgn_engine.plugins import OptionValue
from dgn_engine.protocol.frames import Array
from dgn_engine.training.probes._probe import Probe, ProbeContext, ProbeResult, numpy
from dgn_engine.training.probes._trained_layers import pass_cost

FILTERS = 7
SIDE = 48  # of a map that is shown
BUDGET = 1e9  # floating-point operations of the passes with other gates and inputs
PASSES = ("as_is", "reversed", "ones")


@torch.no_grad()
def read(context: ProbeContext, options: Mapping[str, OptionValue], memory: object) -> ProbeResult:
    if not context.gates:
        return ProbeResult(absent="This network has no gate layer.")
    example = context.row_of(int(options.get("example", 0)))
    others = _others(context)
    rows = torch.cat([others.new_tensor([example]), others])
    order = reversed_order(context.architecture.gated_shapes)
    passes = _passes(context, rows, order)
    channels = [q.shape[1] for q in passes["as_is"].hidden if q.dim() == 4]
    channel = max(0, min(int(options.get("channel", 0)), max(channels, default=1) - 1))
    labels = context.labels[others]
    arrays: dict[str, Array] = {"labels": numpy(labels)}
    scalars: dict[str, float] = {}
    for name, found in passes.items():
        for layer, outputs in enumerate(found.hidden):
            arrays[f"{name}_{layer}"] = _picture(outputs[0], channel)
        if found.fed.dim() == 4:
            arrays[f"input_{name}"] = numpy(_averaged(found.fed[0].mean(0)).float())
        arrays[f"answers_{name}"] = numpy(found.answers[1:])
        known = labels < context.classes
        if bool(known.any()):
            right = (found.answers[1:] == labels)[known]
            scalars[f"right_{name}"] = float(right.double().mean())
    arrays["says"] = np.array([int(found.answers[0]) for found in passes.values()])
    place = str(context.place_of(example))
    facts = {"example": place, "channel": str(channel), "fed": _fed(context)}
    if order is not None:
        sources = _sources(context, order)
        facts["order"] = " ".join(str(source + 1) for source in sources)
    return ProbeResult(arrays, scalars, facts)


@dataclass(frozen=True)
class _Pass:
    """Of some examples: the hidden outputs of each gate layer, what was fed, and the answers."""

    hidden: tuple[Tensor, ...]
    fed: Tensor
    answers: Tensor


def reversed_order(shapes: tuple[tuple[int, ...], ...]) -> tuple[int, ...] | None:
    """Which gate layer each value layer uses when those of one shape exchange theirs from the last
    to the first; None where none has a partner."""
    by_shape: dict[tuple[int, ...], list[int]] = {}
    for layer, shape in enumerate(shapes):
        by_shape.setdefault(shape, []).append(layer)
    order = list(range(len(shapes)))
    for layers in by_shape.values():
        for layer, partner in zip(layers, reversed(layers), strict=True):
            order[layer] = partner
    return None if order == list(range(len(shapes))) else tuple(order)


def _others(context: ProbeContext) -> Tensor:
    """The probe examples whose answers are compared: as many as the budget allows, at least one."""
    n = len(context.x)
    affordable = int(BUDGET / max(2.0 * pass_cost(context.architecture, 1), 1.0))
    count = max(1, min(n, affordable))
    spaced = torch.linspace(0, n - 1, count, dtype=torch.float64, device=context.x.device)
    return spaced.round().long()


def _passes(context: ProbeContext, rows: Tensor, order: tuple[int, ...] | None) -> dict[str, _Pass]:
    shared, value = context.kernels, context.network.value
    seen = shared.trace.value
    gates, masks = [g[rows] for g in seen.gates], [mask[rows] for mask in seen.masks]
    fed = shared.x_value[rows]
    as_is = tuple(q[rows] * gate for q, gate in zip(seen.pre, gates, strict=True))
    found = {"as_is": _Pass(as_is, fed, _answers(seen.output[rows]))}
    if order is not None:
        given = [gates[source] for source in order]
        found["reversed"] = _taken(value.run(fed, lambda layer, _: given[layer], masks), fed)
    ones = torch.ones_like(fed)
    found["ones"] = _taken(value.run(ones, lambda layer, _: gates[layer], masks), ones)
    return found


def _taken(trace: Trace, fed: Tensor) -> _Pass:
    hidden = tuple(q * gate for q, gate in zip(trace.pre, trace.gates, strict=True))
    return _Pass(hidden, fed, _answers(trace.output))


def _answers(logits: Tensor) -> Tensor:
    """The class that each example is given; a single logit is that of the second of two."""
    if logits.shape[1] == 1:
        return (logits[:, 0] > 0).long()
    return logits.argmax(1)


def _picture(outputs: Tensor, channel: int) -> Array:
    """Of one example in one layer, (w,) or (C, H, W)."""
    if outputs.dim() == 1:
        return numpy(outputs.float())
    maps = torch.cat([outputs.mean(0, keepdim=True), outputs[channel : channel + FILTERS]])
    return numpy(_averaged(maps).float())


def _averaged(maps: Tensor) -> Tensor:
    """Maps (..., H, W) with sides of at most `SIDE`."""
    high, wide = min(maps.shape[-2], SIDE), min(maps.shape[-1], SIDE)
    if (high, wide) == tuple(maps.shape[-2:]):
        return maps
    found = F.adaptive_avg_pool2d(maps.reshape(1, -1, *maps.shape[-2:]), (high, wide))
    return found.reshape(*maps.shape[:-2], high, wide)


def _sources(context: ProbeContext, order: tuple[int, ...]) -> tuple[int, ...]:
    """The gate layers themselves, behind a wiring that may have permuted them already."""
    network = context.network
    return order if network.own_gates else tuple(network.wiring[source] for source in order)


def _fed(context: ProbeContext) -> str:
    network = context.network
    return "image" if network.own_gates else network.value_input


PROBE = Probe("Hidden outputs", read)
