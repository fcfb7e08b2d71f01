"""What is calculated for each experiment without a training: every unit and every argument."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from dgn_engine.experiments import Request
from dgn_engine.sweep.unit import Calculation
from tests.engine.experiments.made_up import FULL, QUICK
from tests.engine.experiments.planned import units

DEPTHS = (2, 4, 6, 8, 12, 16, 20)


def call(unit_id: str, function: str, **arguments: Any) -> Calculation:
    return Calculation(unit_id, f"dgn_engine.experiments.{function}", arguments)


@pytest.mark.parametrize(
    ("request_", "widths", "seeds"),
    [(QUICK, (32, 64, 128, 256), 5), (FULL, (32, 64, 128, 256, 512), 10)],
)
def test_composite_resnet_kernel(request_: Request, widths: tuple[int, ...], seeds: int) -> None:
    """The factors are 1, or drawn by the seed between ½ and 2, the same at all widths."""
    found = units("composite-resnet-kernel", request_)
    ones = [1.0] * 4
    plain, drawn = found[: len(found) // 2], found[len(found) // 2 :]
    assert plain == [
        call(f"w{w}-s{s}", "composite_resnet_kernel:shares", width=w, seed=s, pre=ones, post=ones)
        for w in widths
        for s in range(seeds)
    ]
    factors = {}
    for one in drawn:
        assert isinstance(one, Calculation)
        told = dict(one.arguments)
        factors.setdefault(told["seed"], (told["pre"], told["post"]))
        assert factors[told["seed"]] == (told.pop("pre"), told.pop("post"))
        assert one.id == f"gamma-w{told['width']}-s{told['seed']}"
    assert [(u.arguments["width"], u.arguments["seed"]) for u in drawn] == [
        (w, s) for w in widths for s in range(seeds)
    ]
    every = [factor for pair in factors.values() for part in pair for factor in part]
    assert len(every) == 8 * seeds
    assert len(set(every)) > 7 * seeds
    assert 0.5 <= min(every) < 0.7 < 1.4 < max(every) <= 2


@pytest.mark.parametrize(
    ("name", "function", "request_", "n", "widths", "seeds"),
    [
        ("dgn-frg-convergence", "convergence", QUICK, 100, (25, 200), 20),
        ("dgn-frg-convergence", "convergence", FULL, 200, (25, 500), 20),
        ("dgn-frg-spectrum", "spectrum_of", QUICK, 100, (25, 500), 10),
        ("dgn-frg-spectrum", "spectrum_of", FULL, 200, (25, 500), 10),
    ],
)
def test_kernels_under_fixed_random_gates(
    name: str, function: str, request_: Request, n: int, widths: tuple[int, ...], seeds: int
) -> None:
    module = name.replace("-", "_")
    assert units(name, request_) == [
        call(f"w{w}-d{d}-s{s}", f"{module}:{function}", n=n, width=w, depth=d, seed=s)
        for w, d, s in product(widths, DEPTHS, range(seeds))
    ]


@pytest.mark.parametrize(
    ("name", "function", "kinds", "depths", "request_", "seeds", "size"),
    [
        ("dgn-galu-relu", "trained", ("relu", "galu"), (2, 4, 6, 8), QUICK, 20, (50, 100, 200)),
        ("dgn-galu-relu", "trained", ("relu", "galu"), (2, 4, 6, 8), FULL, 20, (200, 500, 1000)),
        ("theory-depth", "speed", ("relu", "galu", "coins"), DEPTHS, QUICK, 10, (40, 64, 100)),
        ("theory-depth", "speed", ("relu", "galu", "coins"), DEPTHS, FULL, 10, (200, 256, 400)),
    ],
)
def test_descents_by_depth(
    name: str,
    function: str,
    kinds: tuple[str, ...],
    depths: tuple[int, ...],
    request_: Request,
    seeds: int,
    size: tuple[int, int, int],
) -> None:
    n, width, steps = size
    assert units(name, request_) == [
        call(
            f"{kind}-d{depth}-s{s}",
            f"{name.replace('-', '_')}:{function}",
            kind=kind,
            depth=depth,
            seed=s,
            n=n,
            width=width,
            steps=steps,
        )
        for kind, depth, s in product(kinds, depths, range(seeds))
    ]


@pytest.mark.parametrize(
    ("request_", "widths", "seeds", "steps"),
    [(QUICK, (16, 64, 256), 3, 150), (FULL, (16, 64, 256, 1024), 5, 1000)],
)
def test_theory_dynamics(
    request_: Request, widths: tuple[int, ...], seeds: int, steps: int
) -> None:
    assert units("theory-dynamics", request_) == [
        call(
            f"{gates}-w{w}-s{s}", "theory_dynamics:dynamics", own=own, width=w, seed=s, steps=steps
        )
        for gates, own in (("own", True), ("fixed", False))
        for w, s in product(widths, range(seeds))
    ]


@pytest.mark.parametrize(
    ("request_", "widths", "seeds"),
    [(QUICK, [32, 64, 128, 256, 512, 1024], 5), (FULL, [32, 64, 128, 256, 512, 1024, 2048], 10)],
)
def test_theory_infinite_width(request_: Request, widths: list[int], seeds: int) -> None:
    expected = []
    for s in range(seeds):
        expected += [
            call(f"limit-s{s}", "theory_infinite_width:distances", widths=widths, seed=s, draws=8),
            call(f"angles-s{s}", "theory_infinite_width:angles", width=widths[-1], seed=s),
        ]
    assert units("theory-infinite-width", request_) == expected


@pytest.mark.parametrize(
    ("request_", "fewer", "seeds", "draws"), [(QUICK, 1, 5, 60), (FULL, 0, 10, 400)]
)
def test_theory_ntk_npk(request_: Request, fewer: int, seeds: int, draws: int) -> None:
    widths = {
        "fc": [32, 64, 128, 256, 512],
        "cnn": [16, 32, 64, 128, 256],
        "resnet": [32, 64, 128, 256, 512],
    }
    place = "theory_ntk_npk"
    assert units("theory-ntk-npk", request_) == [
        *(
            call(
                f"{name}-s{s}",
                f"{place}:distances",
                name=name,
                seed=s,
                widths=widths[name][: len(widths[name]) - fewer],
            )
            for name in widths
            for s in range(seeds)
        ),
        *(call(f"variance-s{s}", f"{place}:variances", seed=s, draws=draws) for s in range(seeds)),
        call("exact", f"{place}:exact"),
    ]
