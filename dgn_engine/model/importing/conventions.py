"""How convolutions are usually padded, strided and pooled, in the order in which that is tried.

The first dense layer says how many numbers arrive there. The first convention that fits at all
decides; where it fits in several ways, nothing is assumed:

1. one padding (half the kernel, or none) and one stride (1 or 2) for all convolutions, every
   skipped number beyond ReLU and Flatten a pooling;
2. paddings that differ from layer to layer, stride 1;
3. paddings and strides that differ, skipped numbers pooling or Dropout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from dgn_engine.model.importing.numbered_keys import LayerGap, NumberedLayer

POOL, GLOBAL = "pool", "global"
Between = tuple[str, ...]  # 'ReLU', 'pool', 'global', 'Flatten'; Dropout left out
_BETWEEN_MAPS: dict[int, tuple[Between, ...]] = {  # usual first
    0: ((),),
    1: (("ReLU",),),
    2: (("ReLU", POOL), ("ReLU",)),
    3: (("ReLU", POOL), ("ReLU",)),
}
_BEFORE_DENSE: dict[int, tuple[Between, ...]] = {
    1: (("Flatten",),),
    2: (("ReLU", "Flatten"),),
    3: (("ReLU", POOL, "Flatten"), ("ReLU", GLOBAL, "Flatten"), ("ReLU", "Flatten")),
    4: (
        ("ReLU", POOL, "Flatten"),
        ("ReLU", POOL, GLOBAL, "Flatten"),
        ("ReLU", GLOBAL, "Flatten"),
    ),
    5: (("ReLU", POOL, GLOBAL, "Flatten"), ("ReLU", POOL, "Flatten")),
}
_OPEN_BEFORE_DENSE: tuple[Between, ...] = (
    *_BEFORE_DENSE[2],
    *_BEFORE_DENSE[3][:2],
    _BEFORE_DENSE[5][0],
)
_BETWEEN_DENSE: dict[int, Between] = {0: (), 1: ("ReLU",), 2: ("ReLU",)}


@dataclass(frozen=True)
class LayerConvention:
    """Of one layer: padding and stride of a convolution, and what follows it."""

    padding: int
    stride: int
    between: Between


@dataclass(frozen=True)
class ConventionRules:
    """`padded`: half the kernel, or nothing; `pooled`: whether what an open gap hides is pooling
    (None: either); `rare`: skipped numbers may be Dropout alone."""

    padded: tuple[bool, ...]
    strides: tuple[int, ...]
    pooled: bool | None = None
    rare: bool = False

    def between(
        self, before: NumberedLayer, after: NumberedLayer, gap: LayerGap
    ) -> Sequence[Between]:
        if before.kind == "Linear":
            if gap.open:
                return (("ReLU",),)
            return (_BETWEEN_DENSE[gap.least],) if gap.least in _BETWEEN_DENSE else ()
        table = _BETWEEN_MAPS if after.kind == "Conv2d" else _BEFORE_DENSE
        if gap.open:
            known = table is _BETWEEN_MAPS
            every = (("ReLU", POOL), ("ReLU",)) if known else _OPEN_BEFORE_DENSE
            return [way for way in every if self.pooled in (None, POOL in way)]
        ways = table.get(gap.least, ())
        if self.rare:
            return ways
        most = max((len(way) for way in ways if GLOBAL not in way), default=0)
        return [way for way in ways if len(way) >= most]


def flat(shape: tuple[int, ...]) -> tuple[int, ...]:
    """All numbers of a map, or of a vector, one behind the other."""
    return (prod(shape),)


def after(way: Between, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape that leaves what stands between two layers; None where a map vanishes."""
    for each in way:
        if min(shape[1:], default=1) < 1:
            return None
        if each == POOL:
            shape = (shape[0], *(side // 2 for side in shape[1:]))
        elif each == GLOBAL:
            shape = (shape[0], 1, 1)
        elif each == "Flatten":
            shape = flat(shape)
    return shape if min(shape) > 0 else None


_UNIFORM = [
    ConventionRules((padded,), (stride,), pooled)
    for padded, stride, pooled in product((True, False), (1, 2), (True, False))
]
TIERS = (
    _UNIFORM,
    [ConventionRules((True, False), (1,))],
    [ConventionRules((True, False), (1, 2), rare=True)],
)
