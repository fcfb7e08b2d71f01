"""Openness of the gates of each layer, by class and over units, and how many of them switched.

A gate counts as open from ½ on; a unit is a column of a dense layer or a channel of a convolution.

Arrays, for L layers and C classes among the probe examples: `classes` (C,); `by_class` (L, C) and
`density` (L,), mean gate over units and positions; `dead` and `always` (L,), share of units open
nowhere for any probe example, and everywhere for every one. Scalars: `density_{l}`, `dead_{l}`,
`always_{l}`; `churn` and `churn_{l}`, share of gates that crossed ½ since the previous reading
(theory §5), missing at the first.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from dgn_engine.plugins import OptionValue
from dgn_engine.protocol.frames import Array
from dgn_engine.training.probes._probe import Probe, ProbeContext, ProbeResult, to_numpy


def read(context: ProbeContext, options: Mapping[str, OptionValue], memory: object) -> ProbeResult:
    """Measure the probe; see the module docstring.

    Args:
        context: The step.
        options: Unused.
        memory: Which gates were open at the previous reading, or None.

    Returns:
        Arrays and scalars as above.
    """
    gates, labels = context.gates, context.labels
    if not gates:
        return ProbeResult(absent="This network has no gate layer.")
    present = torch.unique(labels)
    by_class = torch.stack([_by_class(layer, labels, present) for layer in gates])
    sides = tuple(layer >= 0.5 for layer in gates)  # open from ½ on
    shares = [_never_and_always(layer) for layer in sides]
    density = torch.stack([layer.double().mean() for layer in gates])
    arrays: dict[str, Array] = {
        "classes": to_numpy(present),
        "by_class": to_numpy(by_class),
        "density": to_numpy(density),
        "dead": np.array([never for never, _ in shares]),
        "always": np.array([always for _, always in shares]),
    }
    scalars = {
        f"{name}_{layer}": float(share)
        for name in ("density", "dead", "always")
        for layer, share in enumerate(arrays[name])
    }
    return ProbeResult(arrays, scalars | _churn_scalars(memory, sides), memory=sides)


def _by_class(layer: Tensor, labels: Tensor, present: Tensor) -> Tensor:
    """Return the mean gate of a layer (n, ...) over the examples of each class, (C,)."""
    means = layer.double().flatten(1).mean(1)
    return torch.stack([means[labels == label].mean() for label in present])


def _never_and_always(side: Tensor) -> tuple[float, float]:
    """Return the shares of units of (n, w) or (n, C, H, W) that are never, and always, open."""
    units = side.transpose(0, 1).flatten(1)
    never, always = ~units.any(1), units.all(1)
    return float(never.double().mean()), float(always.double().mean())


def _churn_scalars(memory: object, sides: tuple[Tensor, ...]) -> dict[str, float]:
    """Return the shares of switched gates; nothing at the first reading or for other examples."""
    if not isinstance(memory, tuple) or [m.shape for m in memory] != [s.shape for s in sides]:
        return {}
    switched = [int((now != then).sum()) for now, then in zip(sides, memory, strict=True)]
    sizes = [side.numel() for side in sides]
    shares = zip(switched, sizes, strict=True)
    by_layer = {f"churn_{layer}": count / size for layer, (count, size) in enumerate(shares)}
    return {"churn": sum(switched) / sum(sizes), **by_layer}


PROBE = Probe("Gate statistics", read)
