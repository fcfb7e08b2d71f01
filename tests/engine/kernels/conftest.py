"""`take(road)`: thresholds as they are where a kernel is too large for memory, or worth compiling.

Every road to a kernel gives the same numbers; which is taken depends on sizes that no test has.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache
from types import ModuleType

import pytest

from dgn_engine.model.architecture import Conv

Take = Callable[[str], None]


def _always(answer: object) -> Callable[..., object]:
    return lambda *_: answer


def _pairwise(layer: object, how: str, *_: object) -> bool:
    return isinstance(layer, Conv) and how != "full"


@cache
def uncompiled_loops() -> ModuleType:
    """`slab_loops` as plain Python."""
    spec = importlib.util.find_spec("dgn_engine.kernels.slab_loops")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("numba.njit", lambda **_: lambda function: function)
        spec.loader.exec_module(module)
    return module


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
    "compiled": {"compiled_maps.WORTH_COMPILING": 0.0, "cntk.WORTH_COMPILING": 0.0},
    "compiled, in floats": {
        "compiled_maps.WORTH_COMPILING": 0.0,
        "compiled_maps.MOST_COUNTED": 0.0,
    },
    "uncompiled": {
        "compiled_maps.WORTH_COMPILING": 0.0,
        "cntk.WORTH_COMPILING": 0.0,
        "slabs.compiled_loops": lambda: uncompiled_loops(),
    },
    "plain": {"recursion.compiled_maps": _always(None), "cntk.map_limits": _always(None)},
    "without numba": {
        "compiled_maps.WORTH_COMPILING": 0.0,
        "cntk.WORTH_COMPILING": 0.0,
        "slabs.compiled_loops": _always(None),
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
            monkeypatch.setattr(f"dgn_engine.kernels.{place}", value)

    return taken
