"""What is read of calculations at the start of training: values in; rows, claims, figures out."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.engine.experiments.made_up import (
    FULL,
    QUICK,
    Numbers,
    across,
    claim,
    claims,
    curve,
    exact_claim,
    figures,
    made,
    near,
    of,
    read,
    row,
    rows,
    slope,
    spent,
)

DEPTHS = (2, 4, 6, 8, 12, 16, 20)


@pytest.mark.parametrize(
    ("request_", "seeds", "widths"),
    [(QUICK, 5, (32, 64, 128, 256)), (FULL, 10, (32, 64, 128, 256, 512))],
)
def test_composite_resnet_kernel(request_: Any, seeds: int, widths: tuple[int, ...]) -> None:
    kinds = {"": "γ = 1", "gamma-": "γ drawn"}
    values = made(
        [f"{kind}w{w}" for kind in kinds for w in widths],
        seeds,
        lambda n: {
            "paths": n.some(5),
            "weighted": n.some(5),
            "sum": n.one(1e16),
            "weighted_sum": n.one(1e16),
            "product": n.one(1e16),
            "distance": n.one(),
        },
    )
    values[f"w{widths[-1]}-s2"][0]["weighted_sum"] = 3e-10
    values[f"gamma-w{widths[-1]}-s4"][0]["product"] = 5e-10
    found = read("composite-resnet-kernel", request_, None, values)

    def shares(kind: str, w: int) -> np.ndarray:
        return 100 * np.array(of(values, f"{kind}w{w}", "weighted", seeds))

    def far(kind: str, w: int) -> list[float]:
        return of(values, f"{kind}w{w}", "distance", seeds)

    def seconds(kind: str, w: int) -> float:
        return spent(values, f"{kind}w{w}", seeds)

    assert rows(found) == [
        *(
            row(
                f"{words}, w = {w}: share of sub-networks with {kept} of 4 blocks",
                shares(kind, w)[:, kept],
                unit="%",
                seconds=seconds(kind, w),
            )
            for kind, words in kinds.items()
            for w in widths
            for kept in range(5)
        ),
        *(
            row(
                f"{words}, w = {w}: ‖K^V_0 − Σβ_J H^J‖/‖Σβ_J H^J‖",
                far(kind, w),
                seconds=seconds(kind, w),
            )
            for kind, words in kinds.items()
            for w in widths
        ),
    ]

    def exact(kind: str, key: str, what: str, verdict: str) -> Any:
        errors = [one for w in widths for one in of(values, f"{kind}w{w}", key, seeds)]
        words = f"resnet, {kinds[kind]}: {what}; at most 1e-10 (exact)"
        return exact_claim("comp-5", words, max(errors), seeds * len(widths), verdict)

    expected = []
    for kind, words in kinds.items():
        weighted, by_blocks = ("held", "not held") if kind else ("not held", "held")
        slopes = [slope(widths, [far(kind, w)[s] for w in widths]) for s in range(seeds)]
        named = f"resnet, {words}: log-log slope of the distance against width"
        named += "; within ±0.15 of -0.5"
        expected += [
            exact(kind, "sum", "H against the sum of 2^4 kernels", "held"),
            exact(kind, "weighted_sum", "βH against the weighted sum of 2^4", weighted),
            exact(kind, "product", "H against the product over the blocks", by_blocks),
            claim("comp-5", named, slopes),
        ]
    assert claims(found) == expected
    away = "‖K^V_0 − Σβ_J H^J‖/‖Σβ_J H^J‖"
    assert figures(found) == [
        (
            "shares",
            "What sub-networks make of K^V_0",
            "blocks kept",
            "share (%)",
            False,
            False,
            [
                curve(f"{words}, w = {w}", range(5), shares(kind, w))
                for kind, words in kinds.items()
                for w in (widths[0], widths[-1])
            ],
        ),
        (
            "distance",
            "K^V_0 nears its mean with width",
            "width",
            away,
            True,
            True,
            [
                curve(words, widths, np.transpose([far(kind, w) for w in widths]))
                for kind, words in kinds.items()
            ],
        ),
    ]


@pytest.mark.parametrize(("request_", "wide"), [(QUICK, 200), (FULL, 500)])
def test_dgn_frg_convergence(request_: Any, wide: int) -> None:
    values = made(
        [f"w{w}-d{d}" for w, d in product((25, wide), DEPTHS)],
        20,
        lambda n: {"errors": [1.0, *n.some(3)]},
    )
    for seed in range(20):  # the even draws are best at d = 12, the odd ones at d = 4
        depth = 4 if seed % 2 else 12
        values[f"w{wide}-d{depth}-s{seed}"][0]["errors"][-1] = 1e-9
    found = read("dgn-frg-convergence", request_, None, values)
    ends = {
        (w, d): np.log10([errors[-1] for errors in of(values, f"w{w}-d{d}", "errors", 20)])
        for w, d in product((25, wide), DEPTHS)
    }
    assert rows(found) == [
        row(
            f"w = {w}, d = {d}: log10 ‖e‖²/‖e_0‖² after 100 steps",
            ends[w, d],
            seconds=spent(values, f"w{w}-d{d}", 20),
        )
        for w, d in ends
    ]
    assert {one.of for one in found.rows} == {"draws"}
    assert claims(found) == [
        claim(
            "dgn-2",
            f"w = {wide}: log10 error left, d = {d} − best depth between; above 0",
            (ends[wide, d] - ends[wide, 12])[1::2],
            "the best depth of the other 10 draws: d = 12",
        )
        for d in (2, 20)
    ]
    assert [(one.n, one.of) for one in found.claims] == [(10, "draws")] * 2
    assert figures(found) == [
        (
            "convergence",
            "Convergence by depth under fixed random gates",
            "depth d",
            "log10 of the error's square",
            False,
            False,
            [
                curve(f"w = {w}", DEPTHS, np.array([ends[w, d] for d in DEPTHS]).T)
                for w in (25, wide)
            ],
        )
    ]


@pytest.mark.parametrize(("request_", "n"), [(QUICK, 100), (FULL, 200)])
def test_dgn_frg_spectrum(request_: Any, n: int) -> None:
    """The ideal has n − 1 eigenvalues 1 − p^(d−1), and one of 1 + (n − 1)p^(d−1) (THEORY §7)."""
    numbers = Numbers()
    ideal = {}
    for depth in DEPTHS:
        small, large = 1 - 0.5 ** (depth - 1), 1 + (n - 1) * 0.5 ** (depth - 1)
        ideal[depth] = np.cumsum([*[small] * (n - 1), large]) / n
    values: dict[str, tuple[Any, float]] = {}
    for w, d, s in product((25, 500), DEPTHS, range(10)):
        off = np.zeros(n)
        off[len(values) % n], off[(len(values) + 7) % n] = numbers.one(), -numbers.one(1e6)
        values[f"w{w}-d{d}-s{s}"] = (
            {
                "distribution": list(ideal[d] - off),
                "diagonal": numbers.one(),
                "off": numbers.one(),
            },
            numbers.one(),
        )
    found = read("dgn-frg-spectrum", request_, None, values)
    curves = {
        (w, d): np.array(of(values, f"w{w}-d{d}", "distribution", 10))
        for w, d in product((25, 500), DEPTHS)
    }
    distances = {key: abs(curves[key] - ideal[key[1]]).max(axis=1) for key in curves}
    expected = []
    for w, d in product((25, 500), DEPTHS):
        cell, seconds = f"w{w}-d{d}", spent(values, f"w{w}-d{d}", 10)
        for key, word, number in (
            ("diagonal", "diagonal", 1.0),
            ("off", "off-diagonal", 2.0 ** (1 - d)),
        ):
            made_row = row(
                f"w = {w}, d = {d}: {word} of K_0/d", of(values, cell, key, 10), seconds=seconds
            )
            expected.append((*made_row[:2], number, *made_row[3:]))
    found_rows = [
        (label, seen, None if printed is None else printed.value, *rest)
        for label, seen, printed, *rest in rows(found)
    ]
    assert [one for one in found_rows if one[2] is not None] == expected
    nearest = [one for one in found.rows if one.printed is None]
    assert [one.label for one in nearest] == [
        f"w = {w}, d = {d}: largest e.c.d.f. distance from the ideal"
        for w, d in product((25, 500), DEPTHS)
    ]
    for one, seen in zip(nearest, distances.values(), strict=True):
        assert one.values == pytest.approx(seen, rel=1e-5)
    far = {w: np.mean([distances[w, d] for d in DEPTHS], axis=0) for w in (25, 500)}
    words = "largest e.c.d.f. distance, mean over depths"
    assert claims(found) == [
        tuple(
            pytest.approx(one.expected, rel=1e-5) if hasattr(one, "expected") else one
            for one in wanted
        )
        for wanted in (
            claim("dgn-1", f"{words}: w = 500 − half of w = 25; below 0", far[500] - far[25] / 2),
            claim(
                "dgn-1",
                f"{words}: w = 500; below 0.1",
                far[500],
                "'near' is chosen here as 0.1",
                (0, 1),
            ),
        )
    ]
    numbered = tuple(range(1, n + 1))
    assert figures(found) == [
        (
            f"w{w}",
            f"e.c.d.f. of K_0 at width {w}",
            "eigenvalue number",
            "cumulative share",
            False,
            False,
            [
                line
                for d in DEPTHS
                for line in (
                    curve(f"d = {d}", numbered, curves[w, d]),
                    (f"ideal, d = {d}", numbered, near(tuple(ideal[d])), (), "printed"),
                )
            ],
        )
        for w in (25, 500)
    ]


def test_dgn_galu_relu() -> None:
    steps = [0, 2, 4]
    cells = [f"{kind}-d{d}" for kind in ("relu", "galu") for d in (2, 4, 6, 8)]
    values = made(
        cells,
        20,
        lambda n: {"distribution": n.some(3), "steps": steps, "errors": [1.0, *n.some(2)]},
    )
    values["relu-d4-s1"][0]["errors"][-1] = 0.0
    found = read("dgn-galu-relu", QUICK, None, values)
    words = {"relu": "ReLU", "galu": "GaLU"}

    def left(cell: str) -> np.ndarray:
        return np.log10([max(e[-1], 1e-30) for e in of(values, cell, "errors", 20)])

    named = [(cell, f"{words[cell[:4]]}, d = {cell[-1]}") for cell in cells]
    assert rows(found) == [
        row(f"{label}: log10 ‖e‖²/‖e_0‖² at the end", left(cell), seconds=spent(values, cell, 20))
        for cell, label in named
    ]
    assert claims(found) == [
        claim(
            "dgn-3",
            f"d = {d}: log10 error left, ReLU − GaLU; above 0",
            left(f"relu-d{d}") - left(f"galu-d{d}"),
        )
        for d in (2, 4, 6, 8)
    ]
    assert figures(found) == [
        (
            "convergence",
            "Highly correlated inputs",
            "step",
            "‖e‖²/‖e_0‖²",
            False,
            True,
            [curve(label, steps, of(values, cell, "errors", 20)) for cell, label in named],
        ),
        (
            "spectra",
            "e.c.d.f. of K_0",
            "eigenvalue number",
            "cumulative share",
            False,
            False,
            [curve(label, range(3), of(values, cell, "distribution", 20)) for cell, label in named],
        ),
    ]


def test_theory_depth() -> None:
    kinds = {"relu": "ReLU", "galu": "GaLU (FR-II)", "coins": "coins (FRG)"}
    values = made(
        [f"{kind}-d{d}" for kind in kinds for d in DEPTHS],
        10,
        lambda n: {"left": n.one(), "condition": n.one()},
    )
    for seed in range(10):  # the even draws are best at d = 16, the odd ones at d = 8
        values[f"coins-d{8 if seed % 2 else 16}-s{seed}"][0]["left"] = 1e-9
    values["coins-d2-s1"][0]["left"] = values["coins-d20-s0"][0]["left"] = 0.0
    found = read("theory-depth", QUICK, None, values)
    left = {
        (kind, d): np.log10([max(one, 1e-30) for one in of(values, f"{kind}-d{d}", "left", 10)])
        for kind in kinds
        for d in DEPTHS
    }
    expected = []
    for (kind, d), remaining in left.items():
        label, cell = f"{kinds[kind]}, d = {d}", f"{kind}-d{d}"
        seconds, conditions = spent(values, cell, 10), of(values, cell, "condition", 10)
        expected += [
            row(f"{label}: log10 of the error's square left", remaining, seconds=seconds),
            row(f"{label}: ρ_min/ρ_max of K_0", conditions, seconds=seconds),
        ]
    assert rows(found) == expected
    assert claims(found) == [
        claim(
            "dgn-2",
            f"coins: log10 error left, d = {d} − best depth between; above 0",
            (left["coins", d] - left["coins", 16])[1::2],
            "the best depth of the other 5 draws: d = 16",
        )
        for d in (2, 20)
    ]
    assert figures(found) == [
        (
            "speed",
            "Training speed by depth",
            "depth d",
            "log10 of the error's square left",
            False,
            False,
            [
                curve(label, DEPTHS, np.array([left[kind, d] for d in DEPTHS]).T)
                for kind, label in kinds.items()
            ],
        )
    ]


@pytest.mark.parametrize(
    ("request_", "seeds", "widths"), [(QUICK, 3, (16, 64, 256)), (FULL, 5, (16, 64, 256, 1024))]
)
def test_theory_dynamics(request_: Any, seeds: int, widths: tuple[int, ...]) -> None:
    gates = {"own": "standard (ReLU)", "fixed": "fixed gates (FR-II)"}
    drifts = {
        "parameters": "‖θ_t − θ_0‖/‖θ_0‖",
        "npf": "‖φ_t − φ_0‖/‖φ_0‖",
        "npv": "‖v_t − v_0‖/‖v_0‖",
    }
    values = made(
        [f"{kind}-w{w}" for kind in gates for w in widths],
        seeds,
        lambda n: {
            "off": n.one(),
            "worst": n.one(),
            "instants": [1] * int(n.one(100)),
            "loss": n.some(4),
            **{key: n.one() for key in drifts},
        },
    )
    found = read("theory-dynamics", request_, None, values)
    expected, losses = [], []
    for kind, w in product(gates, widths):
        cell, name = f"{kind}-w{w}", f"{gates[kind]}, w = {w}"
        seconds = spent(values, cell, seeds)
        switched = [len(instants) for instants in of(values, cell, "instants", seeds)]
        expected += [
            row(f"{name}: {words}", numbers, seconds=seconds)
            for words, numbers in (
                ("median ‖e − predicted‖/‖αKe‖", of(values, cell, "off", seeds)),
                ("largest ‖e − predicted‖/‖αKe‖", of(values, cell, "worst", seeds)),
                ("steps at which a gate switched", switched),
                *((words, of(values, cell, key, seeds)) for key, words in drifts.items()),
            )
        ]
        losses.append(curve(name, range(4), of(values, cell, "loss", seeds)))
    assert rows(found) == expected
    assert found.claims == ()
    by_width = {
        key: np.array([of(values, f"own-w{w}", key, seeds) for w in widths]).T for key in drifts
    }
    assert figures(found) == [
        (
            "drift",
            "Drift of a ReLU network by the end of training",
            "width",
            "relative drift",
            True,
            True,
            [curve(words, widths, by_width[key]) for key, words in drifts.items()],
        ),
        ("loss", "Loss", "step (hundredths of the run)", "½‖e‖²", False, True, losses),
    ]
    assert len(found.remarks) == 1


def test_theory_infinite_width() -> None:
    widths = (32, 64, 128, 256, 512, 1024)
    values = made(["limit"], 5, lambda n: {"limit": n.some(6), "beta": n.some(6), "apart": n.one()})
    angles = made(
        ["angles"], 5, lambda n: {key: n.some(11) for key in ("angle", "overlap", "predicted")}
    )
    found = read("theory-infinite-width", QUICK, None, {**values, **angles})
    far = {key: np.array(of(values, "limit", key, 5)) for key in ("limit", "beta")}
    seen = {
        key: np.array(of(angles, "angles", key, 5)) for key in ("angle", "overlap", "predicted")
    }
    seconds = spent(values, "limit", 5)
    assert rows(found) == [
        row(f"distance of K_0 from {word}, width {w}", far[key][:, i], seconds=seconds)
        for key, word in (("limit", "K^(d)"), ("beta", "βH"))
        for i, w in enumerate(widths)
    ]
    apart = np.array(of(values, "limit", "apart", 5))
    gaps = 0.5 - seen["overlap"]
    assert claims(found) == [
        claim(
            "ws-4",
            "K_0 and K^(d): log-log slope of the distance against width; within ±0.15 of -0.5",
            [slope(widths, one) for one in far["limit"]],
        ),
        claim(
            "ws-4",
            "distance of K_0 from βH at the largest width − half of the distance of their limits; "
            "above 0",
            far["beta"][:, -1] - apart / 2,
        ),
        claim(
            "comp-4",
            "angle: layer 11 − half of layer 1; below 0",
            seen["angle"][:, -1] - seen["angle"][:, 0] / 2,
        ),
        claim(
            "comp-4",
            "½ − τ/w: layer 11 − half of layer 1; below 0",
            gaps[:, -1] - gaps[:, 0] / 2,
        ),
    ]
    layers = range(1, 12)
    assert figures(found) == [
        (
            "distance", "K_0 with its own gates goes to K^(d), not to βH", "width",
            "relative distance", True, True,
            [curve("K^(d)", widths, far["limit"]), curve("βH", widths, far["beta"])],
        ),
        (
            "angles", "Angles close with depth", "layer", "angle (radians)", False, False,
            [curve("angle", layers, seen["angle"])],
        ),
        (
            "overlap", "τ/w goes to ½", "layer", "τ/w", False, False,
            [
                curve("measured", layers, seen["overlap"]),
                curve("(π − θ)/2π", layers, seen["predicted"]),
                across("½", 0.5, "printed"),
            ],
        ),
    ]  # fmt: skip


def test_theory_ntk_npk() -> None:
    widths = {
        "fc": (32, 64, 128, 256),
        "cnn": (16, 32, 64, 128),
        "resnet": (32, 64, 128, 256),
    }
    numbers = Numbers()
    values: dict[str, tuple[Any, float]] = {
        f"{name}-s{s}": (numbers.some(len(widths[name])), numbers.one())
        for name in widths
        for s in range(5)
    }
    values |= {
        f"variance-s{s}": ({"widths": numbers.some(4), "depths": numbers.some(5)}, 1.0)
        for s in range(5)
    }
    exact = {"fc": 1e-12, "cnn": 3e-10, "resnet": 2e-12, "feature": 4e-12, "rotation": 5e-9}
    found = read("theory-ntk-npk", QUICK, None, {**values, "exact": (exact, 1.0)})
    far = {name: np.array([values[f"{name}-s{s}"][0] for s in range(5)]) for name in widths}
    assert rows(found) == [
        row(
            f"‖K^V_0 − βH‖/‖βH‖, {name}, width {w}",
            far[name][:, i],
            seconds=spent(values, name, 5),
        )
        for name in widths
        for i, w in enumerate(widths[name])
    ]
    wide, deep = (32, 64, 128, 256), (3, 4, 6, 9, 13)
    rounding = "at most 1e-10 (exact)"
    remark = found.claims[-1].remark
    assert "d³/w" in remark
    assert claims(found) == [
        *(
            claim(
                "comp-5",
                f"{name}: log-log slope of the distance against width; within ±0.15 of -0.5",
                [slope(widths[name], one) for one in far[name]],
            )
            for name in widths
        ),
        *(
            exact_claim(
                "comp-5",
                f"{name}: mean over all signs against βH; {rounding}",
                exact[name],
                2,
                verdict,
            )
            for name, verdict in (("fc", "held"), ("cnn", "not held"), ("resnet", "held"))
        ),
        exact_claim(
            "dgn-8",
            f"mean of K^F over all signs against σ^{{2d}} Σ ⊙ δ; {rounding}",
            4e-12,
            2,
            "held",
        ),
        exact_claim(
            "comp-3",
            f"H(rot x, x') against H(x, x'), all shifts; {rounding}",
            5e-9,
            15,
            "not held",
        ),
        claim(
            "ws-2",
            "log-log slope of Var K_0/max(d²/w, d³/w²) against w at d = 3; below 0.25",
            [slope(wide, one) + 1 for one in of(values, "variance", "widths", 5)],
        ),
        claim(
            "ws-2",
            "log-log slope of Var K_0/max(d²/w, d³/w²) against d at w = 256; below 0.25",
            [slope(deep, one) - 2 for one in of(values, "variance", "depths", 5)],
            remark,
        ),
    ]
    assert figures(found) == [
        (
            "distance",
            "K^V_0 goes to βH",
            "width",
            "relative distance",
            True,
            True,
            [curve(name, widths[name], far[name]) for name in widths],
        )
    ]
