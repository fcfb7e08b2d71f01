"""What training loops call the averaged weights that they keep beside the raw ones."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dgn_engine.storage.checkpoints import limits
from dgn_engine.storage.checkpoints.contents import Array

_AVERAGED = re.compile(r"(^|_)(ema|swa|polyak|shadow|avg|average|averaged)(_|$|\d)", re.IGNORECASE)


def is_averaged(key: str) -> bool:
    """Whether it is a name of averaged weights: 'ema', 'state_dict_ema', 'swa_model'."""
    return _AVERAGED.search(key[: limits.NAME]) is not None


def averaged_beside(arrays: Mapping[str, Array]) -> tuple[str, str] | None:
    """The first parts of names under which the same network stands twice, raw and averaged: of
    'model.0.weight' and 'ema.0.weight' ('model', 'ema'); or None."""
    groups: dict[str, dict[str, tuple[int, ...]]] = {}
    for name, array in arrays.items():
        head, _, rest = name.partition(".")
        groups.setdefault(head, {})[rest] = array.shape
    for averaged in filter(is_averaged, groups):
        for raw, found in groups.items():
            matrices = {rest: shape for rest, shape in found.items() if len(shape) > 1}
            if raw != averaged and matrices and matrices.items() <= groups[averaged].items():
                return raw, averaged
    return None
