"""The gate layers of a network, as they are told to the viewer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LayerInfo:
    """One gated layer: `kind` is 'dense' or 'conv'; `shape` (w,) or (channels, height, width)."""

    index: int  # 0-based
    name: str
    kind: str
    shape: tuple[int, ...]
