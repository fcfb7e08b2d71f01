"""`take(road)`: thresholds as they are where a kernel is too large for memory, or worth compiling.

Every road to a kernel gives the same numbers; which is taken depends on sizes that no test has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dgn_engine.kernels import cntk, popcount
from dgn_engine.model.architecture import Conv

Take = Callable[[str], None]


def _always(answer: object) -> Callable[..., object]:
    return lambda *_: answer


def _pairwise(layer: object, how: str, *_: object) -> bool:
    return isinstance(layer, Conv) and how != "full"


def _as_it_is(**_: object) -> Callable[[Any], Any]:
    return lambda function: function


ROADS: dict[str, dict[str, object]] = {
    # tangent kernels
    "grouped": {"contraction.prefers_grouped_conv": _always(True)},
    "windows": {"contraction.prefers_grouped_conv": _always(False)},
    "gradients": {"tangent_sweep.is_pairwise": _always(False)},
    "pairwise": {"tangent_sweep.is_pairwise": _pairwise},
    "pairwise, one-row tiles": {"tangent_sweep.is_pairwise": _pairwise, "gram.TILE_ITEMS": 1},
    "logit by logit": {"ntk.DENSE_BYTES": 1, "ntk.MAP_BYTES": 1, "contraction.CACHED": 1},
    "many tiles": {
        "gram.ROWS_AT_LEAST": 4,
        "gram.TILE_ITEMS": 70,
        "contraction.TILE_ITEMS": 70,
        "contraction.CACHED": 60,
        "ntk.DENSE_BYTES": 1,
        "ntk.MAP_BYTES": 1,
    },
    # every kernel
    "one-row tiles": {"gram.TILE_ITEMS": 1},
    "two-row tiles": {"gram.ROWS_AT_LEAST": 2},
    "tiles of three": {"gram.ROWS_AT_LEAST": 3, "gram.TILE_ITEMS": 40},
    "either library": {"gram.onednn_is_faster": _always(True)},
    "BLAS": {"gram.onednn_is_faster": _always(False)},
    # path kernels
    "pair by pair": {"recursion.TILE_BYTES": 1},
    "a few pairs": {"recursion.TILE_BYTES": 40_000},
    "by features": {
        "operators._explicit_factors": lambda _, given, __: [given.x_value, *given.gates]
    },
    "by tiles": {"operators._explicit_factors": _always(None)},
    "few blocks": {"residual.MOST_BLOCKS": 2},
    # limits
    "limits in tiles": {
        "architecture_limits.TILE_BYTES": 1,
        "expected_features.TILE_BYTES": 1,
        "cntk.TILE_BYTES": 3 * 8 * 256 + 5,
        "cntk.map_limits": _always(None),
        "infinite.SAME_AT_ONCE": 2,
        "infinite.BLOCK": 7,
    },
    # loops that numba compiles: always, never, as plain Python
    "compiled": {"popcount.WORTH_COMPILING": 0.0, "cntk.WORTH_COMPILING": 0.0},
    "uncompiled": {
        "popcount.WORTH_COMPILING": 0.0,
        "cntk.WORTH_COMPILING": 0.0,
        "popcount.compiled_pairs": popcount.compiled_pairs.__wrapped__,
        "cntk.compiled_pairs": cntk.compiled_pairs.__wrapped__,
        "numba.njit": _as_it_is,
    },
    "plain": {"popcount.packed_maps": _always(None), "cntk.map_limits": _always(None)},
    "without numba": {
        "popcount.WORTH_COMPILING": 0.0,
        "cntk.WORTH_COMPILING": 0.0,
        "slabs.is_numba_available": _always(False),
    },
    # reports
    "large": {"FULL_UP_TO": 10, "kernel_report.LEADING": 4},
    "nothing hidden": {  # by the bytes that libraries may take
        "peak_memory.WORKING": 1 << 20,
        "kernel_plan.WORKING": 1 << 20,
        "empirical.WORKING": 16 << 10,
    },
}


@pytest.fixture
def take(monkeypatch: pytest.MonkeyPatch) -> Take:
    def taken(road: str) -> None:
        if "compiled" in road:
            pytest.importorskip("numba")
        for place, value in ROADS[road].items():
            own = not place.startswith("numba")
            monkeypatch.setattr(f"dgn_engine.kernels.{place}" if own else place, value)

    return taken
