"""The gates of A against those of B, computed from two readings of gates.

The engine compares networks gate by gate; where one of the two is a recorded step there is no
network, and the recorded gates are compared (theory §5).
"""

from __future__ import annotations

import numpy as np

from dgn_engine.protocol.frames import Array, Reading
from dgn_engine.protocol.training import LayerInfo

AGREEMENT, PATH_DISTANCE = OF_BOTH = ("agreement", "path_distance")  # probes that compare A and B
MEANS = "means over positions"  # the fact 'differences' where no layer has single gates
_NO_LAYER = "A and B have no gate layers of the same shape."
_OTHER_EXAMPLES = "The gates of A and B were read on different probe examples."


def gate_agreement(
    ours: Reading | None,
    theirs: Reading | None,
    layers: tuple[tuple[LayerInfo, ...], tuple[LayerInfo, ...]],
) -> Reading:
    """Return the reading of the probe 'agreement', as far as recorded gates allow it.

    Args:
        ours: Reading of 'gates' of A.
        theirs: Reading of 'gates' of B.
        layers: Gate layers of A and of B.

    Returns:
        A reading at the step of A. Arrays: `equal` and `chance` (L,), NaN for a layer that cannot
        be compared and for a convolution, whose reading has means over positions;
        `difference_{l}` (n, w), A - B, of these means for a convolution. Scalars: `equal` over all
        gates compared, `equal_{l}`.
    """
    for reading, name in ((ours, "A"), (theirs, "B")):
        if reading is None or reading.absent:
            why = "not read yet." if reading is None else reading.absent
            return _absent_reading(f"Gates of {name}: {why}")
    assert ours is not None
    assert theirs is not None
    if not np.array_equal(ours.arrays["labels"], theirs.arrays["labels"]):
        return _absent_reading(_OTHER_EXAMPLES)
    count = len(layers[0])
    equal, chance = np.full(count, np.nan), np.full(count, np.nan)
    arrays: dict[str, Array] = {"labels": ours.arrays["labels"], "equal": equal, "chance": chance}
    scalars: dict[str, float] = {}
    equal_gates = gates = 0
    means = False
    for layer, (layer_a, layer_b) in enumerate(zip(*layers, strict=False)):
        name = f"layer_{layer}"
        if (layer_a.kind, layer_a.shape) != (layer_b.kind, layer_b.shape):
            continue
        if name not in ours.arrays or name not in theirs.arrays:
            continue
        a, b = ours.arrays[name], theirs.arrays[name]
        if layer_a.kind == "conv":
            means = True
            arrays[f"difference_{layer}"] = a.astype(np.float32) - b
            continue
        a_open, b_open = a >= 0.5, b >= 0.5
        same = a_open == b_open
        equal_gates, gates = equal_gates + int(same.sum()), gates + same.size
        equal[layer] = scalars[f"equal_{layer}"] = float(same.mean())
        p, q = a_open.mean(axis=0), b_open.mean(axis=0)
        # Independent units that open with shares p and q agree with p q + (1 - p)(1 - q).
        chance[layer] = float((p * q + (1 - p) * (1 - q)).mean())
        arrays[f"difference_{layer}"] = a_open.astype(np.float32) - b_open
    if not any(name.startswith("difference_") for name in arrays):
        return _absent_reading(_NO_LAYER)
    if gates:
        scalars["equal"] = equal_gates / gates
    facts = {"differences": MEANS} if means else {}
    return Reading(AGREEMENT, ours.step, arrays=arrays, scalars=scalars, facts=facts)


def _absent_reading(why: str) -> Reading:
    return Reading(AGREEMENT, 0, absent=why)
