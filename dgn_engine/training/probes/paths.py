"""The paths of one probe example to one logit: counts, sums, and how they spread over the units.

Dense chains are exact at any size, by dynamic programming (`kernels.path_counts`); up to `LISTED`
paths, the largest contributions are listed. Residual networks get the share of each sub-network in
the path kernel, trace H^J/trace H over the probe examples. Other networks have neither, since their
paths share weights and run through positions.

With the option `second`, another example is compared: the paths active for both (the product of
both activities), their number, and the part of the first example's output along them.

Arrays of a chain with L gate layers of up to w units: `through`, `near` and `contributed` (L, w),
NaN beyond a layer's width: share of the active paths through each unit, of the pairs of a path and
a sensitive gate, and part of the output through it. `units` (k, L) and `parts` (k,): units and
contributions of at most `TOP` paths, largest first; up to `ENUMERATED` paths also `feature` and
`value` (P,), φ_x(p) and v(p) of each, inputs first. `gates` and `slopes` (L, w): G and D of the
example, D relative to its maximum; `inputs` (a,). With a second example `gates_second` and
`through_shared` (L, w). For small networks the value weights `weights_{l}` (w_l, w_{l-1}), of the
first and last layer only if the graph has room for all inputs and logits. Of a residual network
`shares` (2^b,); for dense layers `paths` (2^b,), the share of all paths, and without biases
`outputs` (2^b,), what each sub-network adds to the logit. Scalars: `total`, `active`, `sensitive`
(counts), `output`; with a second example `active_second`, `shared` and `output_shared`. Facts:
`example` and `second`, their indices in the probe set (of a thinned reading, the nearest before);
`logit`; `blocks`, the blocks kept by each sub-network, 1-based: '1 3'.
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
from dgn_engine.model.stack import run_chain
from dgn_engine.plugins import OptionValue
from dgn_engine.protocol.frames import Array
from dgn_engine.training.probes._probe import Probe, ProbeContext, ProbeResult, to_numpy

LISTED = 200_000  # paths to search for the largest contributions, at most
ENUMERATED = 4096  # paths, counted per input, whose features and values are returned, at most
MOST_WEIGHTS = 20_000  # weights of a graph
MOST_ENDS = 12  # inputs or logits that fit into a graph
TOP = 12
MOST_SHARES = 6  # blocks whose 2^b sub-networks are shown
OTHER = (
    "Paths are only counted in dense chains, and sub-networks in residual networks, since "
    "paths through convolutions share weights. Choose fc, or a ResNet of dense blocks."
)
MANY = "2^{blocks} sub-networks are too many to show; choose at most {most} blocks."
BIASED = "With biases the output is not a sum over paths from the input."


@torch.no_grad()
def read(context: ProbeContext, options: Mapping[str, OptionValue], memory: object) -> ProbeResult:
    """Measure the probe; see the module docstring.

    Args:
        context: The step.
        options: 'example' and 'second', indices in the probe set.
        memory: Unused.

    Returns:
        Arrays, scalars and facts as above.
    """
    architecture = context.architecture
    if architecture.is_residual:
        return _read_residual(context, int(options.get("example", 0)))
    if not is_plain_chain(architecture) or not context.gates:
        return ProbeResult(facts={"fault": "other paths"}, absent=OTHER)
    weights, biases = context.network.value.folded_tensors()
    if any(bias is not None for bias in biases):
        return ProbeResult(facts={"fault": "biases"}, absent=BIASED)
    example = context.row_for_example(int(options.get("example", 0)))
    shared = context.kernels
    gates = [layer[example] for layer in context.gates]
    slopes = [layer[example] for layer in shared.sensitivities]
    logits = shared.trace.value.output[example]
    logit = int(logits.argmax())
    x = shared.x_value[example].flatten()
    sums = path_sums(x, gates, slopes, weights, logit)
    scalars = {
        "total": sums.total,
        "active": sums.active,
        "sensitive": sums.sensitive,
        "output": sums.output,
    }
    facts = {"example": str(context.example_of_row(example)), "logit": str(logit)}
    arrays = _unit_shares(sums) | _graph_arrays(x, gates, slopes, weights)
    if sums.total <= LISTED:
        arrays |= _largest_paths(x, gates, weights, logit)
    if sums.total <= ENUMERATED:
        arrays |= _enumerate_paths(x, gates, weights, logit)
    if (second := _second_example(context, options, example)) is not None:
        others = [layer[second] for layer in context.gates]
        pair = [a * b for a, b in zip(gates, others, strict=True)]
        both = path_sums(x, pair, slopes, weights, logit)
        arrays["gates_second"] = _pad_layers(others)
        arrays["through_shared"] = _unit_shares(both)["through"]
        scalars["shared"], scalars["output_shared"] = both.active, both.output
        scalars["active_second"] = path_sums(x, others, slopes, weights, logit).active
        facts["second"] = str(context.example_of_row(second))
    return ProbeResult(arrays, {n: v for n, v in scalars.items() if np.isfinite(v)}, facts)


def _second_example(
    context: ProbeContext, options: Mapping[str, OptionValue], example: int
) -> int | None:
    """Return the row of the second example; None if there is none or it is the same."""
    chosen = str(options.get("second", ""))
    if not chosen.isdigit() or int(chosen) >= context.every * len(context.x):
        return None
    row = context.row_for_example(int(chosen))
    return None if row == example else row


def _graph_arrays(
    x: Tensor, gates: list[Tensor], slopes: list[Tensor], weights: Sequence[Tensor]
) -> dict[str, Array]:
    """Return what a graph of the network shows: gates, sensitivities, inputs and weights."""
    largest = max(float(layer.max()) for layer in slopes)
    arrays = {
        "gates": _pad_layers(gates),
        "slopes": _pad_layers([layer / largest if largest > 0 else layer for layer in slopes]),
        "inputs": to_numpy(x),
    }
    if sum(weight.numel() for weight in weights) <= MOST_WEIGHTS:
        for layer, weight in enumerate(weights):
            ends = {0: weight.shape[1], len(weights) - 1: weight.shape[0]}
            if ends.get(layer, 0) <= MOST_ENDS:
                arrays[f"weights_{layer}"] = to_numpy(weight.float())
    return arrays


def _pad_layers(layers: Sequence[Tensor]) -> Array:
    """Return layers as rows of (L, w), NaN beyond each layer's width."""
    widest = max(len(layer) for layer in layers)
    rows = np.full((len(layers), widest), np.nan)
    for row, layer in enumerate(layers):
        rows[row, : len(layer)] = to_numpy(layer)
    return rows


def _unit_shares(sums: PathSums) -> dict[str, Array]:
    """Return shares by layer and unit; shares of nothing are 0."""
    return {
        name: _pad_layers([layer / whole if whole else torch.zeros_like(layer) for layer in layers])
        for name, layers, whole in (
            ("through", sums.through, sums.active),
            ("near", sums.near, sums.sensitive),
            ("contributed", sums.contributed, 1.0),
        )
    }


def _largest_paths(
    x: Tensor, gates: list[Tensor], weights: Sequence[Tensor], logit: int
) -> dict[str, Array]:
    """Return the largest contributions of single paths, summed over inputs."""
    # Axes of `parts`: a unit of each layer; an entry is x(p_0)A(x, p)v(p) up to that layer.
    first = (gates[0] * (weights[0] @ x)).double()
    parts = first
    for gate, weight in zip(gates[1:], weights[1:-1], strict=True):
        step = (gate[:, None] * weight).double()
        parts = parts.unsqueeze(-1) * step.T  # adds an axis for the units of this layer
    parts = parts * weights[-1][logit].double()
    flat = parts.flatten()
    top = flat.abs().topk(min(TOP, len(flat))).indices
    units = np.stack(np.unravel_index(to_numpy(top), tuple(parts.shape)), axis=1)
    return {"units": units.astype(np.int64), "parts": to_numpy(flat[top])}


def _enumerate_paths(
    x: Tensor, gates: list[Tensor], weights: Sequence[Tensor], logit: int
) -> dict[str, Array]:
    """Return φ_x(p) = x(p_0)A(x, p) and v(p) of every path; axes: input, then a unit per layer."""
    features, values = x.double(), torch.ones_like(x, dtype=torch.float64)
    for gate, weight in zip(gates, weights[:-1], strict=True):
        features = features.unsqueeze(-1) * gate.double()  # x(p_0) Π_l G_l(p_l)
        values = values.unsqueeze(-1) * weight.double().T  # Π_l W_l(p_l, p_{l-1})
    values = values * weights[-1][logit].double()
    return {"feature": to_numpy(features.flatten()), "value": to_numpy(values.flatten())}


def _read_residual(context: ProbeContext, chosen: int) -> ProbeResult:
    """Read a residual network: shares of each sub-network in kernel, paths and output."""
    architecture = context.architecture
    blocks = k.residual_blocks(architecture)
    if blocks > MOST_SHARES:
        why = MANY.format(blocks=blocks, most=MOST_SHARES)
        return ProbeResult(facts={"fault": "many blocks"}, absent=why)
    shared = context.kernels
    shares_by_kept = k.sub_network_shares(
        architecture, context.gates, shared.x_value, shared.trace.value.masks
    )
    names = (" ".join(str(block + 1) for block in kept) for kept in shares_by_kept)
    arrays: dict[str, Array] = {"shares": np.array(list(shares_by_kept.values()))}
    facts = {"blocks": ",".join(names)}
    parts = [k.sub_network(architecture, kept) for kept in shares_by_kept]
    if all(isinstance(layer, Dense) for layer in architecture.weight_layers):
        counts = [_count_paths(part.architecture) for part in parts]
        arrays["paths"] = np.array([count / sum(counts) for count in counts])
    weights, biases = context.network.value.folded_tensors()
    scalars: dict[str, float] = {}
    if all(bias is None for bias in biases):
        example = context.row_for_example(chosen)
        logits = shared.trace.value.output[example]
        logit = int(logits.argmax())
        logits_each = [
            _sub_network_logits(context, part, weights, example)[logit] for part in parts
        ]
        arrays["outputs"] = np.array([float(value) for value in logits_each])
        scalars["output"] = float(arrays["outputs"].sum())
        facts |= {"example": str(context.example_of_row(example)), "logit": str(logit)}
    return ProbeResult(arrays, scalars, facts)


def _count_paths(chain: Architecture) -> float:
    """Return the number of paths of a dense chain to one logit."""
    widths = [float(layer.outputs) for layer in chain.weight_layers[:-1]]
    return math.prod(chain.input_shape) * math.prod(widths)


def _sub_network_logits(
    context: ProbeContext, part: k.SubNetwork, weights: Sequence[Tensor], example: int
) -> Tensor:
    """Return the logits (C,) of one sub-network for an example, under the gates of the whole."""
    shared, row = context.kernels, slice(example, example + 1)
    gates = [context.gates[index][row].double() for index in part.gates]
    masks = [shared.trace.value.masks[index][row] for index in part.masks]
    own = [weights[index].double() for index in part.weights]
    x, none = shared.x_value[row].double(), [None] * len(own)
    trace = run_chain(part.architecture, own, none, x, lambda layer, _: gates[layer], masks)
    return math.sqrt(part.factor) * trace.output[0]


def cost(architecture: Architecture, examples: int) -> float:
    """Return the cost of one path kernel per sub-network of a residual network; 0 for a chain.

    Args:
        architecture: Architecture of the network.
        examples: Number of probe examples.

    Returns:
        FLOP.
    """
    if not architecture.is_residual:
        return 0.0
    blocks = k.residual_blocks(architecture)
    if blocks > MOST_SHARES:
        return 0.0
    return 2.0**blocks * k.npk_cost(architecture, examples)


PROBE = Probe("Paths", read, cost)
