"""The gates of A against those of B, from what two readings of the gates hold.

The engine compares networks, gate by gate; where one of the two is a recorded step there is no
network, and the recorded gates are compared. `docs/kernels.md` has the definitions.
"""

from __future__ import annotations

import numpy as np

from dgn_engine.protocol.frames import Array, Reading
from dgn_engine.protocol.training import LayerInfo

AGREEMENT = "agreement"
MEANS = "means over positions"  # the fact 'differences' where no layer has single gates
_NO_LAYER = "No gate layer of A and B has the same shape."
_OTHER_EXAMPLES = "The gates of A and of B were read on different probe examples."


def gate_agreement(
    ours: Reading | None,
    theirs: Reading | None,
    layers: tuple[tuple[LayerInfo, ...], tuple[LayerInfo, ...]],
) -> Reading:
    """The reading that the probe 'agreement' would make, as far as recorded gates say it.

    `ours`, `theirs`: readings of 'gates' of A and B; `layers`: of their networks. Arrays: `equal`
    and `chance` (L,), NaN where a layer cannot be compared or is a convolution, of which a reading
    holds the mean over positions; `difference_{l}` (n, w), A - B, of those means for a
    convolution. Scalars: `equal` over all gates that are compared, `equal_{l}`. Its step is that of
    A, as in every panel: the name of B says the other.
    """
    for reading, name in ((ours, "A"), (theirs, "B")):
        if reading is None or reading.absent:
            why = "not read yet." if reading is None else reading.absent
            return _absent(f"The gates of {name}: {why}")
    assert ours is not None
    assert theirs is not None
    if not np.array_equal(ours.arrays["labels"], theirs.arrays["labels"]):
        return _absent(_OTHER_EXAMPLES)
    count = len(layers[0])
    equal, chance = np.full(count, np.nan), np.full(count, np.nan)
    arrays: dict[str, Array] = {"labels": ours.arrays["labels"], "equal": equal, "chance": chance}
    scalars: dict[str, float] = {}
    agreeing = gates = 0
    means = False
    for layer, (mine, other) in enumerate(zip(*layers, strict=False)):
        name = f"layer_{layer}"
        if (mine.kind, mine.shape) != (other.kind, other.shape):
            continue
        if name not in ours.arrays or name not in theirs.arrays:
            continue
        a, b = ours.arrays[name], theirs.arrays[name]
        if mine.kind == "conv":
            means = True
            arrays[f"difference_{layer}"] = a.astype(np.float32) - b
            continue
        a_open, b_open = a >= 0.5, b >= 0.5
        same = a_open == b_open
        agreeing, gates = agreeing + int(same.sum()), gates + same.size
        equal[layer] = scalars[f"equal_{layer}"] = float(same.mean())
        p, q = a_open.mean(axis=0), b_open.mean(axis=0)
        chance[layer] = float((p * q + (1 - p) * (1 - q)).mean())
        arrays[f"difference_{layer}"] = a_open.astype(np.float32) - b_open
    if not any(name.startswith("difference_") for name in arrays):
        return _absent(_NO_LAYER)
    if gates:
        scalars["equal"] = agreeing / gates
    facts = {"differences": MEANS} if means else {}
    return Reading(AGREEMENT, ours.step, arrays=arrays, scalars=scalars, facts=facts)


def _absent(why: str) -> Reading:
    return Reading(AGREEMENT, 0, absent=why)
