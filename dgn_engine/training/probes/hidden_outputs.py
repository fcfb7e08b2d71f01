"""Hidden outputs of the value network for one probe example, under other gates and inputs.

z_l = q_l ⊙ G_l of every gate layer, from three passes with the same weights: `as_is`; `reversed`,
with the gate layers in reverse order among those of equal shape; `ones`, with a value input of ones
under the example's gates. If the network makes its own gates (ReLU), the other two passes get those
it made for the example. Pooling selects the same positions in all three. `reversed` is omitted if
no two gate layers share a shape.

Arrays, `{pass}_{l}` of gate layer l: (w,) of a dense layer; (1 + k, H, W) of a convolution, its
mean over all channels and then k ≤ `FILTERS` channels starting at `channel`, averaged down to sides
of at most `SIDE`. `input_{pass}` (H, W), channel mean of the value input, if that is a map.
`labels` (m,) and `answers_{pass}` (m,) of as many evenly spaced probe examples as `BUDGET` allows;
`says` (p,), the answers for the example itself, by pass. Scalars: `right_{pass}`, accuracy among
examples with a class. Facts: `example`, `channel`; `order`, the gate layers that value layers use
in `reversed`, 1-based; `fed`, the kind of value input.
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
from dgn_engine.training.probes._probe import Probe, ProbeContext, ProbeResult, to_numpy
from dgn_engine.training.probes._trained_layers import pass_cost

FILTERS = 7
SIDE = 48  # pixels of a displayed map, at most
BUDGET = 1e9  # FLOP of the passes with other gates and inputs
PASSES = ("as_is", "reversed", "ones")


@torch.no_grad()
def read(context: ProbeContext, options: Mapping[str, OptionValue], memory: object) -> ProbeResult:
    """Measure the probe; see the module docstring.

    Args:
        context: The step.
        options: 'example', index in the probe set, and 'channel', first channel shown.
        memory: Unused.

    Returns:
        Arrays, scalars and facts as above.
    """
    if not context.gates:
        return ProbeResult(absent="This network has no gate layer.")
    example = context.row_for_example(int(options.get("example", 0)))
    others = _compared_rows(context)
    rows = torch.cat([others.new_tensor([example]), others])
    order = reversed_order(context.architecture.gated_shapes)
    passes = _run_passes(context, rows, order)
    channels = [q.shape[1] for q in passes["as_is"].hidden if q.dim() == 4]
    channel = max(0, min(int(options.get("channel", 0)), max(channels, default=1) - 1))
    labels = context.labels[others]
    arrays: dict[str, Array] = {"labels": to_numpy(labels)}
    scalars: dict[str, float] = {}
    for name, outcome in passes.items():
        for layer, outputs in enumerate(outcome.hidden):
            arrays[f"{name}_{layer}"] = _layer_image(outputs[0], channel)
        if outcome.fed.dim() == 4:
            arrays[f"input_{name}"] = to_numpy(_average_down(outcome.fed[0].mean(0)).float())
        arrays[f"answers_{name}"] = to_numpy(outcome.answers[1:])
        known = labels < context.classes
        if bool(known.any()):
            right = (outcome.answers[1:] == labels)[known]
            scalars[f"right_{name}"] = float(right.double().mean())
    arrays["says"] = np.array([int(outcome.answers[0]) for outcome in passes.values()])
    index = str(context.example_of_row(example))
    facts = {"example": index, "channel": str(channel), "fed": _value_input_name(context)}
    if order is not None:
        sources = _source_layers(context, order)
        facts["order"] = " ".join(str(source + 1) for source in sources)
    return ProbeResult(arrays, scalars, facts)


@dataclass(frozen=True)
class _Pass:
    """Hidden outputs of each gate layer, value input and predicted classes of some examples."""

    hidden: tuple[Tensor, ...]
    fed: Tensor
    answers: Tensor


def reversed_order(shapes: tuple[tuple[int, ...], ...]) -> tuple[int, ...] | None:
    """Return the gate layer of each value layer when layers of equal shape swap first with last.

    Args:
        shapes: Shapes of the gate layers.

    Returns:
        Source layer per value layer, 0-based; None if every layer would keep its own.
    """
    by_shape: dict[tuple[int, ...], list[int]] = {}
    for layer, shape in enumerate(shapes):
        by_shape.setdefault(shape, []).append(layer)
    order = list(range(len(shapes)))
    for layers in by_shape.values():
        for layer, partner in zip(layers, reversed(layers), strict=True):
            order[layer] = partner
    return None if order == list(range(len(shapes))) else tuple(order)


def _compared_rows(context: ProbeContext) -> Tensor:
    """Return the rows whose answers are compared: as many as the budget allows, at least one."""
    n = len(context.x)
    affordable = int(BUDGET / max(2.0 * pass_cost(context.architecture, 1), 1.0))
    count = max(1, min(n, affordable))
    spaced = torch.linspace(0, n - 1, count, dtype=torch.float64, device=context.x.device)
    return spaced.round().long()


def _run_passes(
    context: ProbeContext, rows: Tensor, order: tuple[int, ...] | None
) -> dict[str, _Pass]:
    shared, value = context.kernels, context.network.value
    trace = shared.trace.value
    gates, masks = [g[rows] for g in trace.gates], [mask[rows] for mask in trace.masks]
    fed = shared.x_value[rows]
    # z_l = q_l ⊙ G_l from the pass that the kernels share
    as_is = tuple(q[rows] * gate for q, gate in zip(trace.pre, gates, strict=True))
    passes = {"as_is": _Pass(as_is, fed, _predicted_classes(trace.output[rows]))}
    if order is not None:
        given = [gates[source] for source in order]
        passes["reversed"] = _pass_from_trace(
            value.run(fed, lambda layer, _: given[layer], masks), fed
        )
    ones = torch.ones_like(fed)
    passes["ones"] = _pass_from_trace(value.run(ones, lambda layer, _: gates[layer], masks), ones)
    return passes


def _pass_from_trace(trace: Trace, fed: Tensor) -> _Pass:
    hidden = tuple(q * gate for q, gate in zip(trace.pre, trace.gates, strict=True))
    return _Pass(hidden, fed, _predicted_classes(trace.output))


def _predicted_classes(logits: Tensor) -> Tensor:
    """Return the predicted class of each example; a single logit stands for the second of two."""
    if logits.shape[1] == 1:
        return (logits[:, 0] > 0).long()
    return logits.argmax(1)


def _layer_image(outputs: Tensor, channel: int) -> Array:
    """Return what is shown of one example in one layer, from (w,) or (C, H, W)."""
    if outputs.dim() == 1:
        return to_numpy(outputs.float())
    maps = torch.cat([outputs.mean(0, keepdim=True), outputs[channel : channel + FILTERS]])
    return to_numpy(_average_down(maps).float())


def _average_down(maps: Tensor) -> Tensor:
    """Average maps (..., H, W) down to sides of at most `SIDE`."""
    high, wide = min(maps.shape[-2], SIDE), min(maps.shape[-1], SIDE)
    if (high, wide) == tuple(maps.shape[-2:]):
        return maps
    averaged = F.adaptive_avg_pool2d(maps.reshape(1, -1, *maps.shape[-2:]), (high, wide))
    return averaged.reshape(*maps.shape[:-2], high, wide)


def _source_layers(context: ProbeContext, order: tuple[int, ...]) -> tuple[int, ...]:
    """Return gate layers of the feature network, undoing the wiring."""
    network = context.network
    return order if network.own_gates else tuple(network.wiring[source] for source in order)


def _value_input_name(context: ProbeContext) -> str:
    network = context.network
    return "image" if network.own_gates else network.value_input


PROBE = Probe("Hidden outputs", read)
