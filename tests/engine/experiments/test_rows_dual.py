"""What is read of the runs of [DUAL]: made-up accuracies in, rows and claims out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dgn_engine.experiments import Request, duality_48
from dgn_engine.experiments._grid import TrainedCell
from dgn_engine.experiments.duality_noise import turn
from dgn_engine.protocol.experiments import Printed
from dgn_engine.sweep.unit_results import TrainedRun
from tests.engine.experiments.forty_eight import (
    ALL,
    CNN_PRINTED,
    EIGHT,
    FC_PRINTED,
    INPUTS,
    REGIMES,
)
from tests.engine.experiments.made_up import (
    FULL,
    QUICK,
    accuracy_curve,
    across,
    cell_row,
    claim,
    claims,
    figures,
    made_run,
    made_runs,
    percents,
    read,
    row,
    rows,
    unmeasured,
)

CNN = "CNN (4 conv x128, 3x3, stride 1, GAP, dense)/CIFAR-10"
ADDED = "FC on MNIST is an addition: the paper prints no number for it to compare with"
# Prefixes of cells, of rows and of statistics; margin and remark of the claims; of each network.
BARE = ("", "", "", 2, "")
ON_MNIST = ("fc-", "FC/MNIST ", "FC/MNIST: ", 1, ADDED)
ON_CIFAR = ("", f"{CNN} ", f"{CNN}: ", 2, "")
NETWORKS = pytest.mark.parametrize(
    ("request_", "networks", "seeds"),
    [
        (QUICK, [BARE], 3),
        (Request(only="FC"), [BARE], 3),
        (FULL, [ON_MNIST, ON_CIFAR], 5),
        (Request(scale="full", only="FC"), [ON_MNIST], 5),
        (Request(scale="full", only="CIFAR"), [ON_CIFAR], 5),
    ],
)


@NETWORKS
def test_duality_linear_features(request_: Request, networks: list[tuple], seeds: int) -> None:
    names = ("ReLU", "FR-II", "FR-linear", "FL", "FL-linear", "DL", "DL-linear")
    runs = made_runs([network[0] + name for network in networks for name in names], seeds)
    found = read("duality-linear-features", request_, runs)
    assert rows(found) == [
        cell_row(runs, f"{cell}{name}", f"{label}{name}", seeds)
        for cell, label, *_ in networks
        for name in names
    ]
    assert claims(found) == [
        claim(
            "dual-8",
            f"{words}{a} − {b}; within ±{margin}",
            percents(runs, f"{cell}{a}", seeds) - percents(runs, f"{cell}{b}", seeds),
            remark,
        )
        for cell, _, words, margin, remark in networks
        for a, b in (("FR-II", "FR-linear"), ("FL", "FL-linear"), ("DL", "DL-linear"))
    ]


@NETWORKS
def test_duality_tiling_compares_each_wiring_with_identity(
    request_: Request, networks: list[tuple], seeds: int
) -> None:
    wirings = ("identity", "rotated", "tiled-2", "tiled-2-rotated", "tiled-1321-rotated")
    regimes = ("FR-II", "FL", "DL")
    names = ["ReLU", *(f"{r}-{w}" for r in regimes for w in wirings)]
    runs = made_runs([network[0] + name for network in networks for name in names], seeds)
    found = read("duality-tiling", request_, runs)
    assert rows(found) == [
        one
        for cell, label, *_ in networks
        for one in (
            cell_row(runs, f"{cell}ReLU", f"{label}ReLU", seeds),
            *(
                cell_row(runs, f"{cell}{r}-{w}", f"{label}{r} {w}", seeds)
                for r in regimes
                for w in wirings
            ),
        )
    ]
    assert claims(found) == [
        claim(
            "dual-7",
            f"{words}{r}: {w} − identity; within ±{margin}",
            percents(runs, f"{cell}{r}-{w}", seeds) - percents(runs, f"{cell}{r}-identity", seeds),
            remark,
        )
        for cell, _, words, margin, remark in networks
        for r in regimes
        for w in wirings[1:]
    ]


@pytest.mark.parametrize(
    ("request_", "prefix", "label", "printed", "orders"),
    [
        (QUICK, "fc", "FC(w=32,d=5)/digits", FC_PRINTED, EIGHT),
        (Request(scale="full", only="CNN"), "cnn", CNN, CNN_PRINTED, ALL),
    ],
)
def test_duality_48_has_a_value_for_each_seed(
    request_: Request, prefix: str, label: str, printed: dict[str, float], orders: tuple[str, ...]
) -> None:
    """The mean over the models of a seed is one value; the models' spread is only told."""
    quick = request_.quick
    models = [f"{prefix}-{r}-{i}-{o}" for r in REGIMES for i in INPUTS for o in orders]
    runs = made_runs([*models, f"{prefix}-ReLU"])

    def of(regime: str, seen: str, order: str) -> np.ndarray:
        return percents(runs, f"{prefix}-{regime}-{seen}-{order}")

    def mean(regime: str, *inputs: str) -> np.ndarray:
        return np.mean([of(regime, seen, o) for seen in inputs or INPUTS for o in orders], axis=0)

    def of_worst(regime: str) -> str:
        return f"{label}: {regime}, worst order as the other seeds have it − identity"

    def worst(regime: str) -> list[float]:
        gaps = np.array(
            [of(regime, i, o) - of(regime, i, "0123") for i in INPUTS for o in orders[1:]]
        )
        places = [np.delete(gaps, seed, 1).sum(axis=1).argmin() for seed in range(3)]
        return [gaps[place, seed] for seed, place in enumerate(places)]

    def number(regime: str) -> tuple[Printed | None, str]:
        value = printed[regime]
        return (None, f"printed of FC/MNIST: {value:g}; ") if quick else (Printed(value), "")

    def joined(words: str, cells: list[str], value: Printed | None, remark: str) -> tuple:
        ids = [f"{cell}-s{seed}" for cell in cells for seed in range(3)]
        means = np.array([percents(runs, cell) for cell in cells])
        if len(cells) > 1:
            spread = means.mean(axis=1).std(ddof=1)
            remark += f"means over {len(cells)} models, which spread by {spread:.2f} "
            remark += "(standard deviation); "
        least = 100 * min(runs[one].train[-1] for one in ids)
        return row(
            f"{label} {words}",
            means.mean(axis=0),
            unit="%",
            printed=value,
            epochs=max(runs[one].epochs[-1] for one in ids),
            seconds=sum(runs[one].seconds for one in ids),
            remark=f"{remark}train accuracy {least:.1f} % at least",
        )

    expected = []
    count = 2 * len(orders)
    for regime in REGIMES:
        cells = [f"{prefix}-{regime}-{i}-{o}" for i in INPUTS for o in orders]
        expected += [
            joined(f"{regime} ({count} models)", cells, *number(regime)),
            joined(f"{regime}, x^v = x", cells[: len(orders)], None, ""),
            joined(f"{regime}, x^v = 1", cells[len(orders) :], None, ""),
        ]
    expected.append(joined("ReLU", [f"{prefix}-ReLU"], *number("ReLU")))
    found = read("duality-48", request_, runs)
    assert rows(found) == expected
    assert {(one.n, one.of) for one in found.claims if one.n} == {(3, "seeds")}

    relu = percents(runs, f"{prefix}-ReLU")
    bar, robust = ("52.05", 1) if quick else ("38.75", 2)
    gap = ("", "") if quick else (" of 1", "printed is a difference of 1")
    frozen = (mean("FR-II") + mean("FR-DI")) / 2
    judged = [
        claim("dual-1", f"{label}: FR-II − FR-DI; within ±{robust}", mean("FR-II") - mean("FR-DI")),
        claim("dual-2", f"{label}: ReLU − DL; below 3", relu - mean("DL")),
        claim("dual-3", f"{label}: ReLU − FL; within ±1{gap[0]}", relu - mean("FL"), gap[1]),
        claim(
            "comp-1",
            f"{label}: FR; above {bar}",
            frozen,
            f"the bar is half way from chance to the printed {printed['FR-II']:g}",
        ),
        *(
            claim(
                "dual-5",
                f"{label}: {regime}, x^v = {word}: mean of {len(orders) - 1} orders − identity; "
                f"within ±{robust}",
                np.mean([of(regime, seen, o) for o in orders[1:]], axis=0)
                - of(regime, seen, "0123"),
            )
            for regime in REGIMES
            for seen, word in INPUTS.items()
        ),
        *(
            unmeasured("dual-5", of_worst(regime), duality_48.UNSEEN)
            if quick
            else claim("dual-5", f"{of_worst(regime)}; above -{robust}", worst(regime))
            for regime in REGIMES
        ),
        *(
            claim(
                "dual-6",
                f"{label}: {regime}, x − 1, mean over {len(orders)} orders; within ±{robust}",
                mean(regime, "image") - mean(regime, "ones"),
            )
            for regime in REGIMES
        ),
    ]
    if quick:
        judged.append(
            unmeasured(
                "dual-4",
                "FR below 77.43; ReLU, FL, DL above",
                "a number of networks on CIFAR-10: --full --only CNN trains them",
            )
        )
    else:
        judged += [
            claim("dual-4", f"{label}: FR-II and FR-DI; below 77.43", frozen),
            claim("dual-4", f"{label}: FL; above 77.43", mean("FL")),
            claim("dual-4", f"{label}: DL; above 77.43", mean("DL")),
            claim("dual-4", f"{label}: ReLU; above 77.43", relu),
        ]
    assert claims(found) == judged


NOISE = {
    "m1": "M1 ReLU best",
    "m1 end": "M1 ReLU end",
    "m2": "M2 fixed gates, true labels",
    "m3": "M3 fixed gates, random then true labels",
    "m4": "M4 ReLU downstream true",
    "m5": "M5 fixed gates of M4, true",
}
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
                    runs,
                    cell,
                    f"γ = {level} %: {column}",
                    seeds,
                    None if request_.quick else Printed(mean, half),
                    f"printed of the CNN on CIFAR-10: {mean:g} ± {half:g}"
                    if request_.quick
                    else "",
                    ends if key == "m1 end" else None,
                )
            )
    assert rows(found) == expected
    best = {cell: percents(runs, cell, seeds) for cell in {key[:-3] for key in runs}}
    assert claims(found) == [
        claim("dual-9", "M3(0) − M2(0); above -2", best["m3-0"] - best["m2-0"]),
        *(
            one
            for level, fall in ((25, 4.3), (50, 7.6), (75, 13.1))
            for one in _claims_under_noise(request_, runs, best, level, fall)
        ),
    ]
    assert figures(found) == [
        (
            "upstream",
            "Training on noisy labels: rise, peak, fall",
            "epoch",
            "test accuracy (%)",
            False,
            False,
            [accuracy_curve(f"γ = {g} %", runs, f"m1-{g}", seeds) for g in (0, 25, 50, 75)],
        ),
        *(
            (
                f"downstream-{g}",
                f"Downstream, with true labels: γ = {g} %",
                "epoch",
                "test accuracy (%)",
                False,
                False,
                [
                    *(
                        accuracy_curve(model.upper(), runs, f"{model}-{g}", seeds)
                        for model in ("m2", "m3", "m4", "m5")[: 4 if g else 2]
                    ),
                    across("M1's end", float(ends_of(runs, g, seeds).mean())),
                ],
            )
            for g in (0, 25, 50, 75)
        ),
    ]


def ends_of(runs: dict[str, TrainedRun], level: int, seeds: int) -> np.ndarray:
    return 100 * np.array([runs[f"m1-{level}-s{seed}"].last for seed in range(seeds)])


def _claims_under_noise(
    request_: Request,
    runs: dict[str, TrainedRun],
    best: dict[str, np.ndarray],
    level: int,
    fall: float,
) -> list[tuple]:
    m2, m4, m5 = (best[f"m{model}-{level}"] for model in (2, 4, 5))
    end = ends_of(runs, level, len(m2))
    words = f"M1(0) − M4({level})"
    if request_.quick:
        remark = f"printed is {fall:g} of the CNN on CIFAR-10: --full trains it"
        falls = unmeasured("dual-10", words, remark)
    else:
        falls = claim("dual-10", f"{words}; within ±2 of {fall:g}", best["m1-0"] - m4)
    sides = {
        f"M2({level}) − M1({level})'s end": m2 - end,
        f"2 M4({level}) − M2({level}) − M1({level})'s end": 2 * m4 - m2 - end,
    }
    judged = [
        claim("dual-12", f"{words}, the weaker of two sides; above 0", values)
        for words, values in sides.items()
    ]
    seeds = range(len(m2))
    curves = np.array([runs[f"m1-{level}-s{seed}"].test for seed in seeds]) * 100
    peaks = [int(np.delete(curves, seed, 0).sum(axis=0).argmax()) for seed in seeds]
    top = curves[list(seeds), peaks]
    return [
        falls,
        claim(
            "dual-11",
            f"M4({level}) − M5({level}); within ±2",
            m4 - m5,
            "0.5 points cannot be told from none with 10,000 test images",
        ),
        claim("dual-12", f"M1({level}): peak − first epoch; above 1", top - curves[:, 0]),
        claim("dual-12", f"M1({level}): peak − end; above 1", top - curves[:, -1]),
        min(judged, key=lambda one: one[3].expected),
    ]


def test_where_a_curve_peaks_is_chosen_by_the_other_seeds() -> None:
    """The noise of a seed has no part in the choice of its own epoch."""
    tests = ((0.1, 0.9, 0.2, 0.3), (0.1, 0.2, 0.8, 0.3), (0.1, 0.2, 0.7, 0.3))
    runs = [made_run(1009 + seed, test=test) for seed, test in enumerate(tests)]
    rise, fall = turn(TrainedCell(runs))
    assert rise.values == pytest.approx((10, 10, 10))  # epochs 2, 1 and 1, counted from 0
    assert fall.values == pytest.approx((-10, -10, -10))
    assert fall.test_variance == 0
    scored = [replace(run, test_examples=400) for run in runs]
    rise, fall = turn(TrainedCell(scored))
    assert rise.test_variance == pytest.approx((20 * 80 + 10 * 90) / 400)
    assert fall.test_variance == pytest.approx((20 * 80 + 30 * 70) / 400)


def test_a_curve_that_ended_early_is_compared_as_far_as_all_go() -> None:
    runs = [made_run(1009, test=(0.1, 0.5, 0.4)), made_run(1013, test=(0.1, 0.6, 0.3, 0.9))]
    _, fall = turn(TrainedCell(runs))
    assert fall.values == pytest.approx((10, 30))
