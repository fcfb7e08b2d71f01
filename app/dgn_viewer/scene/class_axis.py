"""An axis of examples sorted by class: boundaries between classes, names at their middles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dgn_viewer.scene.elements import Array, Axis
from dgn_viewer.scene.panel_spec import View


def class_names(view: View, labels: Array) -> tuple[str, ...]:
    """The name of each class that may occur in `labels`; its number where no name is known."""
    known = view.run.probe_set.class_names if view.run is not None else ()
    count = int(labels.max()) + 1 if labels.size else 0
    return tuple(known[c] if c < len(known) else str(c) for c in range(count))


def example_axis(labels: Array, names: Sequence[str], label: str = "example, by class") -> Axis:
    """An axis over the examples: a thin line between classes, each class named at its middle."""
    n = int(labels.size)
    changes = np.flatnonzero(np.diff(labels)) + 1
    starts = np.concatenate([[0], changes]).astype(int) if n else np.zeros(0, dtype=int)
    ends = np.concatenate([changes, [n]]).astype(int) if n else np.zeros(0, dtype=int)
    ticks = tuple(
        ((start + end - 1) / 2, _short(names[int(labels[start])]))
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    )
    lines = tuple(float(change) - 0.5 for change in changes.tolist())
    return Axis(label=label, limits=(-0.5, max(n, 1) - 0.5), ticks=ticks, lines=lines)


def example_labels(labels: Array, names: Sequence[str]) -> tuple[str, ...]:
    """'example 12, class 3', one per example, for the cursor."""
    return tuple(f"example {i}, class {names[int(c)]}" for i, c in enumerate(labels.tolist()))


def _short(name: str) -> str:
    return name if len(name) <= 10 else f"{name[:9]}…"
