"""The gates of every layer on the probe set, dead units, and how many gates switched.

Arrays: `layer_{l}` (n, w), uint8 for hard and float32 for soft gates; for a convolution (n, C)
float32, the mean over positions; `dead_{l}`, units closed (below ½) for every example; `unit_map`
(n, H, W), the chosen unit of the chosen convolution. Scalars: `active_{l}`, the mean gate; `churn`
and `churn_{l}`, share of (example, unit) gates that crossed ½ since the previous reading (THEORY
§5).
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
        options: 'layer' and 'unit' of the unit map.
        memory: Gates at the previous reading, or None.

    Returns:
        Arrays and scalars as above.
    """
    arrays: dict[str, Array] = {"labels": to_numpy(context.labels)}
    scalars: dict[str, float] = {}
    for layer, gates in enumerate(context.gates):
        arrays[f"layer_{layer}"] = _layer_image(gates, context.network.gate.soft)
        open_anywhere = (gates.flatten(2) if gates.dim() > 2 else gates.unsqueeze(2)) >= 0.5
        dead = ~open_anywhere.any(dim=2).any(dim=0)
        arrays[f"dead_{layer}"] = np.flatnonzero(to_numpy(dead)).astype(np.int64)
        scalars[f"active_{layer}"] = float(gates.mean())
    scalars.update(_churn_scalars(memory, context.gates))
    facts = _unit_map(context.gates, options, arrays)
    return ProbeResult(arrays, scalars, facts, memory=context.gates)


def _layer_image(gates: Tensor, soft: bool) -> Array:
    if gates.dim() > 2:
        return to_numpy(gates.float().mean(dim=(2, 3)))
    return to_numpy(gates.float()) if soft else to_numpy(gates.to(torch.uint8))


def _churn_scalars(memory: object, gates: tuple[Tensor, ...]) -> dict[str, float]:
    """Return the shares of switched gates; nothing at the first reading."""
    if not isinstance(memory, tuple):
        return {}
    whole, by_layer = gate_churn(memory, gates)
    return {"churn": whole, **{f"churn_{layer}": share for layer, share in enumerate(by_layer)}}


def _unit_map(
    gates: tuple[Tensor, ...], options: Mapping[str, OptionValue], arrays: dict[str, Array]
) -> dict[str, str]:
    layer = min(int(options.get("layer", 0)), len(gates) - 1)
    if gates[layer].dim() < 4:
        return {}
    unit = min(int(options.get("unit", 0)), gates[layer].shape[1] - 1)
    arrays["unit_map"] = to_numpy(gates[layer][:, unit].float())
    return {"unit_map": f"layer {layer}, unit {unit}"}


PROBE = Probe("Gates", read)
