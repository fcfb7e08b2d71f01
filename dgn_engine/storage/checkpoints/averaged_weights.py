"""Recognise averaged weights, which training loops store beside the raw ones, by name."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dgn_engine.storage.checkpoints import limits
from dgn_engine.storage.checkpoints.contents import Array

_AVERAGED = re.compile(r"(^|_)(ema|swa|polyak|shadow|avg|average|averaged)(_|$|\d)", re.IGNORECASE)


def is_averaged(key: str) -> bool:
    """Return whether a key names averaged weights: 'ema', 'state_dict_ema', 'swa_model'."""
    return _AVERAGED.search(key[: limits.NAME]) is not None


def averaged_beside(arrays: Mapping[str, Array]) -> tuple[str, str] | None:
    """Return the prefixes of a network stored twice, raw and averaged; or None.

    For 'model.0.weight' and 'ema.0.weight' they are ('model', 'ema').
    """
    groups: dict[str, dict[str, tuple[int, ...]]] = {}
    for name, array in arrays.items():
        head, _, rest = name.partition(".")
        groups.setdefault(head, {})[rest] = array.shape
    for averaged in filter(is_averaged, groups):
        for raw, shapes in groups.items():
            matrices = {rest: shape for rest, shape in shapes.items() if len(shape) > 1}
            if raw != averaged and matrices and matrices.items() <= groups[averaged].items():
                return raw, averaged
    return None
