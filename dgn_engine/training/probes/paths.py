"""The paths of one probe example to one logit: counts, sums, and how they spread over the units.

Dense chains: exact, by dynamic programming (`kernels.path_counts`), at any size; where there are at
most `LISTED` paths the largest contributions are listed, too. Residual networks have the
share of each sub-network in the path kernel, trace H^J/trace H over the probe examples, instead.
Other networks have neither: their paths share weights, and go through positions.

Arrays of a chain with L gate layers, its widest of w units: `through`, `near` and `contributed`
(L, w), NaN beyond a layer's width: the share of the active paths through each unit, of the pairs
of a path and a sensitive gate, and the part of the output through it. `units` (k, L) and `parts`
(k,), the units and contributions of at most `TOP` paths, by size. Of a residual network `shares`
(2^b,). Scalars: `total`, `active`, `sensitive` (counts), `output`. Facts: `example`, `logit`;
`blocks`, of each share the blocks that are kept, 1-based: '1 3'.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from dgn_engine import kernels as k
from dgn_engine.kernels.path_counts import PathSums, is_plain_chain, path_sums
from dgn_engine.model.architecture import Architecture
from dgn_engine.protocol.frames import Array
from dgn_engine.setting import OptionValue
from dgn_engine.training.probes._probe import Probe, ProbeContext, ProbeResult, numpy

LISTED = 200_000  # paths that are listed one by one
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
        return _shares(context)
    if not is_plain_chain(architecture) or not context.gates:
        return ProbeResult(facts={"fault": "other paths"}, absent=OTHER)
    weights, biases = context.network.value.tensors()
    if any(bias is not None for bias in biases):
        return ProbeResult(facts={"fault": "biases"}, absent=BIASED)
    example = min(int(options.get("example", 0)), len(context.x) - 1)
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
    facts = {"example": str(example), "logit": str(logit)}
    arrays = _spread(found)
    if found.total <= LISTED:
        arrays |= _largest(x, gates, weights, logit)
    return ProbeResult(arrays, {n: v for n, v in scalars.items() if np.isfinite(v)}, facts)


def _spread(found: PathSums) -> dict[str, Array]:
    """By layer and unit; shares of nothing are 0."""
    widest = max(len(layer) for layer in found.through)
    arrays: dict[str, Array] = {}
    for name, layers, whole in (
        ("through", found.through, found.active),
        ("near", found.near, found.sensitive),
        ("contributed", found.contributed, 1.0),
    ):
        arrays[name] = np.full((len(layers), widest), np.nan)
        for place, layer in enumerate(layers):
            arrays[name][place, : len(layer)] = numpy(layer) / whole if whole else 0.0
    return arrays


def _largest(x: Tensor, gates: list[Tensor], weights: list[Tensor], logit: int) -> dict[str, Array]:
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


def _shares(context: ProbeContext) -> ProbeResult:
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
    return ProbeResult(arrays, {}, {"blocks": ",".join(words)})


def cost(architecture: Architecture, examples: int) -> float:
    """A path kernel for each sub-network of a residual network; little of a chain."""
    if not architecture.residual:
        return 0.0
    blocks = k.residual_blocks(architecture)
    if blocks > MOST_SHARES:
        return 0.0
    return 2.0**blocks * k.npk_cost(architecture, examples)


PROBE = Probe("Paths", read, cost)
