"""Compare the gates of the run with those of another network, example by example.

Arrays: `equal` (L,), share of (example, unit) gates of layer l on the same side of ½ in both
networks, NaN where the layers' shapes differ; `chance` (L,), the share expected if both opened each
unit as often as they do, but independently; `difference_{l}` (n, w), A - B of a dense layer, or (n,
C), share of differing positions of a convolution. Scalars: `equal`, over all comparable layers, and
`equal_{l}`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from dgn_engine.kernels import gate_churn
from dgn_engine.plugins import OptionValue
from dgn_engine.protocol.frames import Array
from dgn_engine.training.probes._probe import Probe, ProbeContext, ProbeResult, to_numpy


def read(context: ProbeContext, options: Mapping[str, OptionValue], memory: object) -> ProbeResult:
    """Measure the probe; see the module docstring.

    Args:
        context: The step.
        options: Unused.
        memory: Unused.

    Returns:
        Arrays and scalars as above.
    """
    ours, others = context.gates, context.compared_gates
    if others is None:
        return ProbeResult(absent="Nothing to compare with: drop a checkpoint on 'Compare'.")
    both = enumerate(zip(ours, others, strict=False))
    layers = [layer for layer, (own, other) in both if own.shape == other.shape]
    if not layers:
        return ProbeResult(absent="The two networks have no gate layer of the same shape.")
    equal, chance = np.full(len(ours), np.nan), np.full(len(ours), np.nan)
    arrays: dict[str, Array] = {
        "labels": to_numpy(context.labels),
        "equal": equal,
        "chance": chance,
    }
    pairs = {layer: (_open_gates(ours[layer]), _open_gates(others[layer])) for layer in layers}
    whole, by_layer = gate_churn(
        tuple(others for _, others in pairs.values()), tuple(ours for ours, _ in pairs.values())
    )
    scalars = {"equal": 1.0 - whole}
    for (layer, (a, b)), differing in zip(pairs.items(), by_layer, strict=True):
        equal[layer] = scalars[f"equal_{layer}"] = 1.0 - differing
        chance[layer] = _chance_agreement(a, b)
        arrays[f"difference_{layer}"] = to_numpy(_gate_difference(a, b))
    return ProbeResult(arrays, scalars)


def _open_gates(gates: Tensor) -> Tensor:
    """Return 1 where a gate is at least half open, else 0."""
    return (gates >= 0.5).float()


def _chance_agreement(a: Tensor, b: Tensor) -> float:
    """Return the mean over units of p q + (1 - p)(1 - q), p and q being their opening rates."""
    p, q = a.mean(dim=0), b.mean(dim=0)
    return float((p * q + (1 - p) * (1 - q)).mean())


def _gate_difference(a: Tensor, b: Tensor) -> Tensor:
    """Return A - B, or the share of differing positions of a convolution."""
    if a.dim() > 2:
        return torch.mean((a - b).abs(), dim=(2, 3))
    return a - b


PROBE = Probe("Gates of A and B", read, compares=True)
