"""The paths of one probe example to one logit: counts, sums, and how they spread over the units.

Dense chains: exact, by dynamic programming (`kernels.path_counts`), at any size; where there are at
most `LISTED` paths the largest contributions are listed, too. Residual networks have the
share of each sub-network in the path kernel, trace H^J/trace H over the probe examples, instead.
Other networks have neither: their paths share weights, and go through positions.

With the option `second` another example is lit beside the first: of the paths that are active for
both (their activity is the product of both), how many there are, and what part of the output of the
first runs along them.

Arrays of a chain with L gate layers, its widest of w units: `through`, `near` and `contributed`
(L, w), NaN beyond a layer's width: the share of the active paths through each unit, of the pairs
of a path and a sensitive gate, and the part of the output through it. `units` (k, L) and `parts`
(k,), the units and contributions of at most `TOP` paths, by size; with at most `ENUMERATED` paths
`feature` and `value` (P,), φ_x(p) and v(p) of every one, inputs first. `gates` and `slopes` (L, w),
G and D of the example, D by its largest; `inputs` (a,). With a second example `gates_second` and
`through_shared` (L, w). Of small networks the value weights `weights_{l}` (w_l, w_{l-1}), of the
first and the last layer only where the graph has room for inputs and logits. Of a residual network
`shares` (2^b,), of dense layers `paths` (2^b,), the share of all paths, and without biases
`outputs` (2^b,), what each sub-network adds to the logit of the example. Scalars: `total`,
`active`, `sensitive` (counts), `output`; with a second example `active_second`, `shared` and
`output_shared`. Facts: `example` and `second`, their places among all probe examples, of which a
thinned reading has the nearest before; `logit`; `blocks`, of each share the blocks that are kept,
1-based: '1 3'.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from dgn_engine import kernels as k
from dgn_engine.kernels.path_counts import PathSums, is_plain_chain, path_sums
from dgn_engine.model.architecture import Architecture, Dense
from dgn_engine.model.stack import run
from dgn_engine.plugins import OptionValue
from dgn_engine.protocol.frames import Array
from dgn_engine.training.probes._probe import Probe, ProbeContext, ProbeResult, numpy

LISTED = 200_000  # paths that are listed one by one
ENUMERATED = 4096  # paths, inputs told apart, whose features and values are given one by one
MOST_WEIGHTS = 20_000  # that a graph is given
MOST_ENDS = 12  # inputs, or logits, that a graph has room for
TOP = 12
MOST_SHARES = 6  # blocks, whose sub-networks are shown one by one
OTHER = (
    "Paths are counted in chains of dense layers, and sub-networks in residual ones; in a "
    "convolution paths share their weights. Choose the network fc or ResNet of dense blocks."
)
MANY = "2^{blocks} sub-networks are too many to show one by one; at most {most} blocks are shown."
BIASED = "With biases the output is no sum over paths from the input alone."


@torch.no_grad()
def read(context: ProbeContext, options: Mapping[str, OptionValue], memory: object) -> ProbeResult:
    architecture = context.architecture
    if architecture.residual:
        return _shares(context, int(options.get("example", 0)))
    if not is_plain_chain(architecture) or not context.gates:
        return ProbeResult(facts={"fault": "other paths"}, absent=OTHER)
    weights, biases = context.network.value.tensors()
    if any(bias is not None for bias in biases):
        return ProbeResult(facts={"fault": "biases"}, absent=BIASED)
    example = context.row_of(int(options.get("example", 0)))
    shared = context.kernels
    gates = [layer[example] for layer in context.gates]
    slopes = [layer[example] for layer in shared.sensitivities]
    logits = shared.trace.value.output[example]
    logit = int(logits.argmax())
    x = shared.x_value[example].flatten()
    found = path_sums(x, gates, slopes, weights, logit)
    scalars = {
        "total": found.total,
        "active": found.active,
        "sensitive": found.sensitive,
        "output": found.output,
    }
    facts = {"example": str(context.place_of(example)), "logit": str(logit)}
    arrays = _spread(found) | _graph(x, gates, slopes, weights)
    if found.total <= LISTED:
        arrays |= _largest(x, gates, weights, logit)
    if found.total <= ENUMERATED:
        arrays |= _one_by_one(x, gates, weights, logit)
    if (second := _second(context, options, example)) is not None:
        others = [layer[second] for layer in context.gates]
        pair = [a * b for a, b in zip(gates, others, strict=True)]
        both = path_sums(x, pair, slopes, weights, logit)
        arrays["gates_second"] = _padded(others)
        arrays["through_shared"] = _spread(both)["through"]
        scalars["shared"], scalars["output_shared"] = both.active, both.output
        scalars["active_second"] = path_sums(x, others, slopes, weights, logit).active
        facts["second"] = str(context.place_of(second))
    return ProbeResult(arrays, {n: v for n, v in scalars.items() if np.isfinite(v)}, facts)


def _second(context: ProbeContext, options: Mapping[str, OptionValue], example: int) -> int | None:
    """The example that is lit beside the first; None where there is none, or the same one."""
    chosen = str(options.get("second", ""))
    if not chosen.isdigit() or int(chosen) >= context.every * len(context.x):
        return None
    row = context.row_of(int(chosen))
    return None if row == example else row


def _graph(
    x: Tensor, gates: list[Tensor], slopes: list[Tensor], weights: Sequence[Tensor]
) -> dict[str, Array]:
    """What a graph of the network shows: gates, sensitivities, inputs and weights."""
    largest = max(float(layer.max()) for layer in slopes)
    arrays = {
        "gates": _padded(gates),
        "slopes": _padded([layer / largest if largest > 0 else layer for layer in slopes]),
        "inputs": numpy(x),
    }
    if sum(weight.numel() for weight in weights) <= MOST_WEIGHTS:
        for layer, weight in enumerate(weights):
            ends = {0: weight.shape[1], len(weights) - 1: weight.shape[0]}
            if ends.get(layer, 0) <= MOST_ENDS:
                arrays[f"weights_{layer}"] = numpy(weight.float())
    return arrays


def _padded(layers: Sequence[Tensor]) -> Array:
    """(L, w): a row a layer, NaN beyond its width."""
    widest = max(len(layer) for layer in layers)
    found = np.full((len(layers), widest), np.nan)
    for place, layer in enumerate(layers):
        found[place, : len(layer)] = numpy(layer)
    return found


def _spread(found: PathSums) -> dict[str, Array]:
    """By layer and unit; shares of nothing are 0."""
    return {
        name: _padded([layer / whole if whole else torch.zeros_like(layer) for layer in layers])
        for name, layers, whole in (
            ("through", found.through, found.active),
            ("near", found.near, found.sensitive),
            ("contributed", found.contributed, 1.0),
        )
    }


def _largest(
    x: Tensor, gates: list[Tensor], weights: Sequence[Tensor], logit: int
) -> dict[str, Array]:
    """Every path's contribution, inputs summed up: the largest of them, by size."""
    first = (gates[0] * (weights[0] @ x)).double()
    parts = first
    for gate, weight in zip(gates[1:], weights[1:-1], strict=True):
        step = (gate[:, None] * weight).double()
        parts = parts.unsqueeze(-1) * step.T  # one more axis, for the units of this layer
    parts = parts * weights[-1][logit].double()
    flat = parts.flatten()
    top = flat.abs().topk(min(TOP, len(flat))).indices
    units = np.stack(np.unravel_index(numpy(top), tuple(parts.shape)), axis=1)
    return {"units": units.astype(np.int64), "parts": numpy(flat[top])}


def _one_by_one(
    x: Tensor, gates: list[Tensor], weights: Sequence[Tensor], logit: int
) -> dict[str, Array]:
    """φ_x(p) = x(p_0)A(x, p) and v(p) of every path; axes: the input, then a unit of each layer."""
    features, values = x.double(), torch.ones_like(x, dtype=torch.float64)
    for gate, weight in zip(gates, weights[:-1], strict=True):
        features = features.unsqueeze(-1) * gate.double()
        values = values.unsqueeze(-1) * weight.double().T
    values = values * weights[-1][logit].double()
    return {"feature": numpy(features.flatten()), "value": numpy(values.flatten())}


def _shares(context: ProbeContext, chosen: int) -> ProbeResult:
    """Of each sub-network its share of the path kernel, and of the paths and the output of an
    example, where these are defined."""
    architecture = context.architecture
    blocks = k.residual_blocks(architecture)
    if blocks > MOST_SHARES:
        why = MANY.format(blocks=blocks, most=MOST_SHARES)
        return ProbeResult(facts={"fault": "many blocks"}, absent=why)
    shared = context.kernels
    found = k.sub_network_shares(
        architecture, context.gates, shared.x_value, shared.trace.value.masks
    )
    words = (" ".join(str(block + 1) for block in kept) for kept in found)
    arrays: dict[str, Array] = {"shares": np.array(list(found.values()))}
    facts = {"blocks": ",".join(words)}
    parts = [k.sub_network(architecture, kept) for kept in found]
    if all(isinstance(layer, Dense) for layer in architecture.weighted):
        counts = [_count(part.architecture) for part in parts]
        arrays["paths"] = np.array([count / sum(counts) for count in counts])
    weights, biases = context.network.value.tensors()
    scalars: dict[str, float] = {}
    if all(bias is None for bias in biases):
        example = context.row_of(chosen)
        logits = shared.trace.value.output[example]
        logit = int(logits.argmax())
        made = [_made(context, part, weights, example)[logit] for part in parts]
        arrays["outputs"] = np.array([float(one) for one in made])
        scalars["output"] = float(arrays["outputs"].sum())
        facts |= {"example": str(context.place_of(example)), "logit": str(logit)}
    return ProbeResult(arrays, scalars, facts)


def _count(chain: Architecture) -> float:
    """Paths of a chain of dense layers that end in one logit."""
    widths = [float(layer.outputs) for layer in chain.weighted[:-1]]
    return math.prod(chain.input_shape) * math.prod(widths)


def _made(
    context: ProbeContext, part: k.SubNetwork, weights: Sequence[Tensor], example: int
) -> Tensor:
    """The logits that one sub-network adds for an example, (C,), under the gates of the whole."""
    shared, row = context.kernels, slice(example, example + 1)
    gates = [context.gates[place][row].double() for place in part.gates]
    masks = [shared.trace.value.masks[place][row] for place in part.masks]
    own = [weights[place].double() for place in part.weights]
    x, none = shared.x_value[row].double(), [None] * len(own)
    made = run(part.architecture, own, none, x, lambda layer, _: gates[layer], masks)
    return math.sqrt(part.factor) * made.output[0]


def cost(architecture: Architecture, examples: int) -> float:
    """A path kernel for each sub-network of a residual network; little of a chain."""
    if not architecture.residual:
        return 0.0
    blocks = k.residual_blocks(architecture)
    if blocks > MOST_SHARES:
        return 0.0
    return 2.0**blocks * k.npk_cost(architecture, examples)


PROBE = Probe("Paths", read, cost)
