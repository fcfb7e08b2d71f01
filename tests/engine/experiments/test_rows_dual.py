"""What is read of the runs of [DUAL]: made-up accuracies in, rows and claims out."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from dgn_engine.experiments import Request
from dgn_engine.protocol.results import Printed
from tests.engine.experiments.made_up import (
    FULL,
    QUICK,
    accuracy_curve,
    cell_row,
    claim,
    claims,
    figures,
    made_runs,
    percents,
    read,
    row,
    rows,
    unmeasured,
    welch,
)


def test_duality_linear_features() -> None:
    names = ("ReLU", "FR-II", "FR-linear", "FL", "FL-linear", "DL", "DL-linear")
    runs = made_runs(names)
    found = read("duality-linear-features", QUICK, runs)
    assert rows(found) == [cell_row(runs, name, name) for name in names]
    assert claims(found) == [
        claim("dual-8", f"{a} − {b}; within ±2", percents(runs, a) - percents(runs, b))
        for a, b in (("FR-II", "FR-linear"), ("FL", "FL-linear"), ("DL", "DL-linear"))
    ]


def test_duality_tiling_compares_the_worst_of_four_wirings_with_identity() -> None:
    wirings = ("identity", "rotated", "tiled-2", "tiled-2-rotated", "tiled-1321-rotated")
    regimes = ("FR-II", "FL", "DL")
    runs = made_runs(["ReLU", *(f"{r}-{w}" for r in regimes for w in wirings)])
    found = read("duality-tiling", QUICK, runs)
    assert rows(found) == [
        cell_row(runs, "ReLU", "ReLU"),
        *(cell_row(runs, f"{r}-{w}", f"{r} {w}") for r in regimes for w in wirings),
    ]
    expected = []
    for regime in regimes:
        straight, *others = (percents(runs, f"{regime}-{wiring}") for wiring in wirings)
        falls = np.min(others, axis=0) - straight
        expected.append(claim("dual-7", f"{regime}: worst wiring − identity; above -2", falls))
    assert claims(found) == expected


ORDERS = ["".join(map(str, order)) for order in permutations(range(4))]


@pytest.mark.parametrize(
    ("request_", "prefix", "label", "printed"),
    [
        (QUICK, "fc", "FC(w=32,d=5)/digits", {}),
        (
            Request(scale="full", only="CNN"),
            "cnn",
            "CNN (4 conv x128, 3x3, stride 1, GAP, dense)/CIFAR-10",
            {"FR-II": 67.5, "FR-DI": 67.6, "FL": 79.4, "DL": 77.6, "ReLU": 80.4},
        ),
    ],
)
def test_duality_48(request_: Request, prefix: str, label: str, printed: dict) -> None:
    regimes, inputs = ("FR-II", "FR-DI", "FL", "DL"), ("image", "ones")
    models = [f"{prefix}-{r}-{i}-{o}" for r in regimes for i in inputs for o in ORDERS]
    runs = {**made_runs(models, 1), **made_runs([f"{prefix}-ReLU"])}
    of = {key: 100 * runs[f"{key}-s0"].best for key in models}

    def some(regime: str, *inputs: str) -> list[float]:
        return [of[f"{prefix}-{regime}-{seen}-{o}"] for seen in inputs for o in ORDERS]

    def joined(ids: list[str], words: str, number: float | None, remark: str) -> tuple:
        least = 100 * min(runs[one].train[-1] for one in ids)
        said = f"train accuracy {least:.1f} % at least"
        return row(
            f"{label} {words}", [100 * runs[one].best for one in ids], unit="%",
            printed=None if number is None else Printed(number),
            epochs=max(runs[one].epochs[-1] for one in ids),
            seconds=sum(runs[one].seconds for one in ids),
            remark=f"{remark}; {said}" if remark else said,
        )  # fmt: skip

    quick = {"FR-II": 94.1, "FR-DI": 94.1, "FL": 98.6, "DL": 98.1, "ReLU": 98.5}
    noted = {} if printed else {r: f"printed of FC/MNIST: {n:g}" for r, n in quick.items()}
    expected = []
    for regime in regimes:
        ids = [f"{prefix}-{regime}-{i}-{o}-s0" for i in inputs for o in ORDERS]
        expected += [
            joined(ids, f"{regime} (48 models)", printed.get(regime), noted.get(regime, "")),
            joined(ids[:24], f"{regime}, x^v = x", None, ""),
            joined(ids[24:], f"{regime}, x^v = 1", None, ""),
        ]
    relu_ids = [f"{prefix}-ReLU-s{seed}" for seed in range(3)]
    expected.append(joined(relu_ids, "ReLU", printed.get("ReLU"), noted.get("ReLU", "")))
    found = read("duality-48", request_, runs)
    assert rows(found) == expected

    relu = list(percents(runs, f"{prefix}-ReLU"))
    both = {regime: some(regime, *inputs) for regime in regimes}
    falls = [
        min(some(regime, seen)) - of[f"{prefix}-{regime}-{seen}-0123"]
        for regime in regimes
        for seen in inputs
    ]
    judged = [
        claim(
            "dual-1", f"{label}: FR-II − FR-DI over 48 models; within ±1",
            np.subtract(both["FR-II"], both["FR-DI"]),
        ),
        welch("dual-2", f"{label}: ReLU − DL, 3 networks and 48 models; below 3", relu, both["DL"]),
        welch(
            "dual-3", f"{label}: ReLU − FL, 3 networks and 48 models; within ±1", relu, both["FL"],
            "the 48 FL models of a seed share the gates of one ReLU network",
        ),
        claim(
            "comp-1", f"{label}: FR − chance; above 0",
            np.array(both["FR-II"] + both["FR-DI"]) - 10,
        ),
        claim("dual-5", f"{label}: worst order − identity, 8 regimes and inputs; above -2", falls),
        *(
            claim(
                "dual-6", f"{label}: {regime}, x − 1 over 24 orders; within ±2",
                np.subtract(some(regime, "image"), some(regime, "ones")),
            )
            for regime in regimes
        ),
    ]  # fmt: skip
    share = (0, 100, 0)
    if request_.quick:
        judged.append(
            unmeasured(
                "dual-4", "FR below 77.43; ReLU, FL, DL above",
                "a number of networks on CIFAR-10: --full --only CNN trains them",
            )
        )  # fmt: skip
    else:
        frozen = both["FR-II"] + both["FR-DI"]
        judged += [
            claim("dual-4", f"{label}: FR-II and FR-DI; below 77.43", frozen, inside=share),
            claim("dual-4", f"{label}: FL; above 77.43", both["FL"], inside=share),
            claim("dual-4", f"{label}: DL; above 77.43", both["DL"], inside=share),
            claim("dual-4", f"{label}: ReLU; above 77.43", relu, inside=share),
        ]
    assert claims(found) == judged


NOISE = {
    "m1": "M1 ReLU best", "m1 end": "M1 ReLU end", "m2": "M2 fixed gates, true labels",
    "m3": "M3 fixed gates, random then true labels", "m4": "M4 ReLU downstream true",
    "m5": "M5 fixed gates of M4, true",
}  # fmt: skip
PRINTED_UNDER_NOISE = {
    0: ((81.2, 0.3), (80.0, 0.4), (80.3, 0.2), (79.3, 0.4)),
    25: ((76.1, 0.6), (63.1, 0.7), (74.7, 0.5), (72.3, 0.2), (76.9, 0.1), (76.9, 0.4)),
    50: ((70.9, 0.8), (41.5, 1.1), (69.9, 0.3), (66.8, 0.1), (73.4, 0.3), (73.6, 0.4)),
    75: ((56.9, 0.4), (23.4, 0.4), (63.9, 0.4), (60.0, 0.3), (68.1, 0.4), (67.7, 0.6)),
}


@pytest.mark.parametrize(("request_", "seeds"), [(QUICK, 3), (FULL, 5)])
def test_duality_noise(request_: Request, seeds: int) -> None:
    runs = made_runs(
        (
            f"{model}-{level}"
            for level in PRINTED_UNDER_NOISE
            for model in ("m1", "m2", "m3", "m4", "m5")
            if level or model < "m4"
        ),
        seeds,
    )
    found = read("duality-noise", request_, runs)
    expected = []
    for level, numbers in PRINTED_UNDER_NOISE.items():
        for (key, column), (mean, half) in zip(NOISE.items(), numbers, strict=False):
            cell = f"{key.split()[0]}-{level}"
            ends = [100 * runs[f"{cell}-s{seed}"].last for seed in range(seeds)]
            expected.append(
                cell_row(
                    runs, cell, f"γ = {level} %: {column}", seeds,
                    None if request_.quick else Printed(mean, half),
                    f"printed of the CNN on CIFAR-10: {mean:g} ± {half:g}"
                    if request_.quick else "",
                    ends if key == "m1 end" else None,
                )
            )  # fmt: skip
    assert rows(found) == expected
    best = {cell: percents(runs, cell, seeds) for cell in {key[:-3] for key in runs}}
    judged = [claim("dual-9", "M3(0) − M2(0); above -2", best["m3-0"] - best["m2-0"])]
    for level, fall in ((25, 4.3), (50, 7.6), (75, 13.1)):
        m1, m2, m4, m5 = (best[f"m{model}-{level}"] for model in (1, 2, 4, 5))
        ends = np.array([100 * runs[f"m1-{level}-s{seed}"].last for seed in range(seeds)])
        judged += [
            claim(
                "dual-10", f"M1(0) − M4({level}) − {fall}; within ±2", best["m1-0"] - m4 - fall,
                "the printed falls are those of the CNN on CIFAR-10",
            ),
            claim("dual-11", f"M4({level}) − M5({level}); within ±0.5", m4 - m5),
            claim("dual-12", f"peak − end of M1({level}); above 0", m1 - ends),
            claim(
                "dual-12", f"|M4 − M1's end| − |M4 − M2| at {level} %; above 0",
                abs(m4 - ends) - abs(m4 - m2),
            ),
        ]  # fmt: skip
    assert claims(found) == judged
    assert figures(found) == [
        (
            "upstream", "Training on noisy labels: rise, peak, fall", "epoch",
            "test accuracy (%)", False, False,
            [accuracy_curve(f"γ = {g} %", runs, f"m1-{g}", seeds) for g in (0, 25, 50, 75)],
        )
    ]  # fmt: skip
