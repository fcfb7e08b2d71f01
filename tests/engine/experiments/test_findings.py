"""What each experiment reads out of results that nobody computed: a reviewed file says which cells
each row and claim is made of, and intervals are calculated a second time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any
from zlib import crc32

import numpy as np
import pytest

from dgn_engine.experiments import (
    Claim,
    Findings,
    PlottedLine,
    Request,
    Row,
    all_experiments,
    convex_gates,
    theory_dynamics,
)
from dgn_engine.experiments import find_experiment as find
from dgn_engine.experiments._grid import TrainedCell
from dgn_engine.experiments.duality_noise import peak_heights
from dgn_engine.protocol.experiments import Printed
from dgn_engine.sweep.unit import Training, Unit
from dgn_engine.sweep.unit_results import TrainedRun
from tests.daily import nightly
from tests.engine.experiments.forty_eight import ALL, CNN_PRINTED
from tests.engine.experiments.made_up import (
    FULL,
    QUICK,
    expected_claim,
    finding_claims,
    make_run_of,
    make_runs_of,
    percents,
    quantities,
    read_findings,
)
from tests.plugins import own
from tests.snapshots import Recorded

Runs = dict[str, TrainedRun]
Values = dict[str, tuple[Any, float]]
STEP = 1e-4  # of what is changed to see what depends on it
MANY = 5  # sources of a number from which on only the first and the last are listed
FULL_CODE = Request(scale="full", protocol="as-in-code")
SPECIAL: dict[str, dict[str, Request]] = {
    "dgn-cifar10": {"conv": Request(only="conv")},
    "duality-linear-features": {"full FC": Request("full", only="FC")},
    "duality-tiling": {"full CIFAR": Request("full", only="CIFAR")},
    "npf-table2": {"code": FULL_CODE},
    "workshop-table4": {"full Arch-5": Request("full", only="Arch-5", steps=(0.5,))},
}
TOO_LARGE = {
    ("dgn-frg-spectrum", "quick"),
    ("dgn-frg-spectrum", "full"),
    ("duality-48", "full"),
    ("npf-table2", "full"),
    ("workshop-table4", "full"),
}
PARTS = ("best", "last", "test", "train_loss")
REQUESTS = {
    f"{name} {words}": (name, request)
    for name in own(all_experiments())
    for words, request in ({"quick": QUICK, "full": FULL} | SPECIAL.get(name, {})).items()
    if (name, words) not in TOO_LARGE
}
READ = pytest.mark.parametrize(("name", "request_"), REQUESTS.values(), ids=REQUESTS)
# At full scale the same code reads more cells, and here there are many at quick: what those are
# made of is seen at night; which numbers they come to is recorded for all.
MANY_CELLS = {"duality-48 quick", "duality-noise quick", "npf-table2 code"}
TRACED = pytest.mark.parametrize(
    ("name", "request_"),
    [
        pytest.param(
            *each,
            id=words,
            marks=[pytest.mark.nightly] * (each[1].scale == "full" or words in MANY_CELLS),
        )
        for words, each in REQUESTS.items()
    ],
)


def some(random: np.random.Generator, count: int) -> list[float]:
    return [float(one) for one in random.uniform(0.1, 0.9, count)]


def table_of(random: np.random.Generator, *keys: str, count: int = 0) -> dict[str, Any]:
    return {key: some(random, count) if count else some(random, 1)[0] for key in keys}


def nu_of(random: np.random.Generator, count: int) -> dict[str, Any]:
    ranks = [int(100 * one) for one in some(random, count)]
    return table_of(random, "nu", "outside", count=count) | {"rank": ranks}


# What each calculation gives, by its function: the same keys, with numbers drawn.
GIVEN: dict[str, Callable[[np.random.Generator, Mapping[str, Any]], Any]] = {
    "composite_hidden_outputs:pictures": lambda random, _: {
        "filters": [[0.25, None], [None, 1.0]],
        "means": [[None, 0.5]],
    },
    "composite_resnet_kernel:shares": lambda random, _: (
        table_of(random, "paths", "weighted", count=5)
        | {key: some(random, 1)[0] * 1e-11 for key in ("sum", "weighted_sum", "product")}
        | table_of(random, "distance")
    ),
    "convex_gates:compare": lambda random, _: (
        {"passes": [1, 2, 3]}
        | {
            convex_gates.key_of(share): table_of(random, "units", "excess", "relu", "learnt")
            | {key: 100 * some(random, 1)[0] for key in ("proximal", "sgd", "adam")}
            | {key: some(random, 1)[0] * 1e-11 for key in ("gap", "factored", "below", "as_relu")}
            | {"curves": table_of(random, "proximal", "sgd", "adam", count=3), "late": ["sgd"]}
            for share in convex_gates.SHARES
        }
    ),
    "dgn_adaptable_gates:nus_of_stages": lambda random, _: (
        {"epochs": [0, 6, 12, 60]} | {gram: nu_of(random, 4) for gram in ("K^V", "K^F", "K", "H")}
    ),
    "dgn_frg_convergence:convergence": lambda random, _: {"errors": [1.0, *some(random, 2)]},
    "dgn_frg_spectrum:spectrum_of": lambda random, given: (
        {"distribution": sorted(some(random, given["n"]))} | table_of(random, "diagonal", "off")
    ),
    "dgn_galu_relu:trained": lambda random, _: {
        "distribution": some(random, 3),
        "steps": [0, 2, 4],
        "errors": [1.0, *some(random, 2)],
    },
    "half_spaces:measured": lambda random, _: (
        {"epochs": [0, 10, 100]}
        | table_of(random, "own", "unrelated", "inside", "across", count=3)
        | table_of(random, "network", "machine_start", "machine_end")
    ),
    "galu_memorisation:memorise": lambda random, given: (
        {"width": [1.0, 2.0, 3.0], "rank": given["n"] / 10}
        | {
            key: [0.5, 0.1 * some(random, 1)[0], 1e-4 * some(random, 1)[0]]
            for key in ("galu", "relu")
        }
        | table_of(random, "floor", count=3)
    ),
    "silent_alignment:alignment_in_training": lambda random, _: (
        {name: some(random, 3) for name in ("cosine", "cka", "norm", "loss", "plain")}
        | {"far": some(random, 2), "steps": [10, 4]}
        | table_of(random, "share", "scale", "turn", "rise", "last_cka", "learnt")
    ),
    "kernel_ridge:convolutional": lambda random, _: table_of(random, "cntk", "limit"),
    "kernel_ridge:regressions": lambda random, _: table_of(
        random,
        *("gram", "npk_start", "npk_end", "svm_start", "svm_end", "ntk_start", "ntk_end", "limit"),
    ),
    "npf_eigenvalue_bound:bound_while_training": lambda random, _: table_of(
        random, "factors", "paths", "excess", "ratio", "speed", count=4
    ),
    "npf_kernels:kernels_of_stages": lambda random, _: (
        {"epochs": [0, 5, 60]}
        | table_of(random, "trace_value", "trace_feature", "norm_value", "norm_feature", count=3)
    ),
    "npf_nu:nu_of_stages": lambda random, _: {"epochs": [0, 2, 4, 6, 60]} | nu_of(random, 5),
    "region_phases:complexity_of_stages": lambda random, _: {
        "epochs": [0, 20, 800, 2000, 20000],
        "complexity": some(random, 5),
        "layers": [some(random, 3) for _ in range(5)],
    },
    "path_pruning:prune": lambda random, _: {
        "examples": 8,
        "whole": [int(random.integers(8))],
        "wrong": {
            kind: [random.choice(8, 3, replace=False).tolist() for _ in range(3)]
            for kind in ("path", "magnitude", "rescaled")
        },
        "inputs": {kind: some(random, 3) for kind in ("path", "magnitude", "rescaled")},
        "differing": 0.0,
    },
    "theory_depth:speed": lambda random, _: table_of(random, "left", "condition"),
    "theory_dynamics:dynamics": lambda random, _: (
        table_of(random, "off", "worst", "parameters", "npf", "npv")
        | {"instants": [1] * int(100 * some(random, 1)[0]), "loss": some(random, 4)}
    ),
    "theory_dynamics:soft_dynamics": lambda random, given: (
        table_of(random, "off", "worst", "parameters", "npf", "npv")
        | {"loss": some(random, 4), "switched": [False, given["seed"] == 1]}
        | {
            "remainders": {
                part: [some(random, theory_dynamics.HALVINGS + 1) for _ in range(2)]
                for part in (
                    (theory_dynamics.WHOLE, theory_dynamics.NO_FEATURE, theory_dynamics.NO_CROSS)
                    if given["own"]
                    else (
                        theory_dynamics.WHOLE,
                        theory_dynamics.NO_FEATURE,
                        theory_dynamics.VALUES,
                        theory_dynamics.FEATURES,
                    )
                )
            }
        }
    ),
    "theory_infinite_width:angles": lambda random, _: table_of(
        random, "angle", "overlap", "predicted", count=11
    ),
    "theory_infinite_width:distances": lambda random, given: (
        table_of(random, "limit", "beta", count=len(given["widths"])) | table_of(random, "apart")
    ),
    "theory_ntk_npk:distances": lambda random, given: some(random, len(given["widths"])),
    "theory_ntk_npk:exact": lambda random, _: table_of(
        random, "fc", "cnn", "resnet", "feature", "rotation"
    ),
    "theory_ntk_npk:variances": lambda random, _: {
        "widths": some(random, 4),
        "depths": some(random, 5),
    },
}


def cell_of(unit: Unit) -> str:
    return unit.id.rpartition("-s")[0] or unit.id


def drawn(units: tuple[Unit, ...]) -> tuple[Runs, Values]:
    """Results of all units; the numbers of each are drawn by its name."""
    runs: Runs = {}
    values: Values = {}
    for unit in units:
        random = np.random.default_rng(crc32(unit.id.encode()))
        if isinstance(unit, Training):
            runs[unit.id] = make_run_of(int(random.integers(1009, 9973)))
        else:
            given = GIVEN[unit.function.rpartition(".")[2]]
            values[unit.id] = (given(random, unit.arguments), 100 * some(random, 1)[0])
    return runs, values


def changed(value: Any, key: str) -> Any:
    """A calculation's value with the numbers under a key larger by `STEP` of them."""
    if isinstance(value, Mapping):
        inner, _, rest = key.partition(".")
        return {k: changed(each, rest) if k == inner else each for k, each in value.items()}
    if isinstance(value, list):
        return [changed(each, key) for each in value]
    return value * (1 + STEP) if isinstance(value, float) else value


def keys_of(value: Any) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield ""
    else:
        for key, each in value.items():
            yield from (f"{key}.{inner}".rstrip(".") for inner in keys_of(each))


def numbers_of(found: Findings) -> np.ndarray:
    """The mean of every row, and the value of every claim."""
    means = [float(np.mean(row.values)) for row in found.rows]
    return np.array(means + [claim.value for claim in found.claims])


@cache
def dependences(name: str, request: Request) -> tuple[list[dict[str, float]], Findings]:
    """What each row and claim is made of: by how much it grows with each of its sources.

    Accuracies as points for a point, in other numbers for a hundredth of what is changed.
    """
    units = find(name).plan(request).units
    runs, values = drawn(units)
    found = read_findings(name, request, runs, values)
    at_rest = numbers_of(found)
    sources: list[dict[str, float]] = [{} for _ in at_rest]

    def every(part: str) -> Runs:
        return {unit_id: moved_run(run, part) for unit_id, run in runs.items()}

    parts = [
        part
        for part in PARTS
        if np.nan_to_num(
            numbers_of(read_findings(name, request, every(part), values)) - at_rest
        ).any()
    ]

    def see(source: str, other_runs: Runs, other_values: Values) -> None:
        moved = numbers_of(read_findings(name, request, other_runs, other_values)) - at_rest
        for place in np.flatnonzero(np.abs(np.nan_to_num(moved)) > 1e-9):
            sources[place][source] = float(moved[place]) / STEP / 100

    for cell in dict.fromkeys(map(cell_of, units)):
        here = [unit for unit in units if cell_of(unit) == cell]
        if isinstance(here[0], Training):
            for part in parts:
                other = {u.id: moved_run(runs[u.id], part) for u in here}
                see(f"{cell} {part}", {**runs, **other}, values)
        else:
            for key in keys_of(values[here[0].id][0]):
                calculated = {u.id: (changed(values[u.id][0], key), values[u.id][1]) for u in here}
                see(f"{cell}.{key}".rstrip("."), runs, {**values, **calculated})
    return sources, found


def moved_run(run: TrainedRun, part: str) -> TrainedRun:
    value = getattr(run, part)
    if part in ("best", "last"):
        return replace(run, **{part: value + STEP})
    if part == "test":
        return replace(run, test=tuple(one + STEP for one in value))
    return replace(run, train_loss=tuple(one * (1 + STEP) for one in value))


def made_of(sources: Mapping[str, float]) -> str:
    parts = [f"{coefficient:+.3g} {source}" for source, coefficient in sources.items()]
    if len(parts) > MANY:
        parts = [parts[0], f"… {len(parts)} …", parts[-1]]
    return " ".join(parts)


def drawn_line(line: PlottedLine) -> str:
    across = f"{len(line.x)} from {line.x[0]:g} to {line.x[-1]:g}" if line.x else "across"
    spread = f" ± {line.spread[-1]:.4g}{' of log10' * line.log}" if line.spread else ""
    return f"{across}: {line.y[0]:.5g} … {line.y[-1]:.5g}{spread} {line.style}"


@READ
def test_rows_claims_and_figures_are_what_is_recorded(
    name: str, request_: Request, recorded: Recorded
) -> None:
    found = read_findings(name, request_, *drawn(find(name).plan(request_).units))
    for figure in found.figures:
        assert figure.note or not any(line.spread for line in figure.lines), figure.name
    recorded(
        {
            "rows": {row.label: row_of(row) for row in found.rows},
            "claims": {f"{claim.id}: {claim.statistic}": claim_of(claim) for claim in found.claims},
            "figures": {
                f"{figure.name}{' log x' * figure.log_x}{' log y' * figure.log_y}": {
                    line.label: drawn_line(line) for line in figure.lines
                }
                for figure in found.figures
            },
            "numbers said": quantities(found.remarks),
        }
    )


@pytest.mark.parametrize(
    "words",
    [
        *(w for w in REQUESTS if not w.endswith(" full") and w not in MANY_CELLS),
        *nightly(*sorted(MANY_CELLS)),
    ],
)
def test_rows_and_claims_are_made_of_the_cells_that_are_recorded(
    words: str, recorded: Recorded
) -> None:
    sources, found = dependences(*REQUESTS[words])
    names = [row.label for row in found.rows]
    names += [f"{claim.id}: {claim.statistic}" for claim in found.claims]
    recorded(dict(zip(names, map(made_of, sources), strict=True)))


def row_of(row: Row) -> str:
    printed = row.printed and f"printed {row.printed.value} ± {row.printed.half_width}"
    (said,) = quantities([row.remark])
    return (
        f"{np.mean(row.values):.5g}{row.unit} of {len(row.values)} {row.of}, "
        f"{row.epochs:g} epochs, {row.seconds:.5g} s; {printed}; {said}"
    )


def claim_of(claim: Claim) -> str:
    (said,) = quantities([claim.remark])
    return (
        f"{claim.value:.5g} in {claim.low:.5g} … {claim.high:.5g} of {claim.n} {claim.of}: "
        f"{claim.verdict}; {said}"
    )


@TRACED
def test_a_claim_on_accuracies_is_decided_by_students_interval_over_the_seeds(
    name: str, request_: Request
) -> None:
    """Of the sums that its sources say, each taken within one seed."""
    sources, found = dependences(name, request_)
    runs, _ = drawn(find(name).plan(request_).units)
    seeds = len({unit_id.rpartition("-s")[2] for unit_id in runs})
    for made, judged in zip(sources[len(found.rows) :], found.claims, strict=True):
        terms = [(source.rpartition(" "), Fraction(c)) for source, c in made.items()]
        if judged.exact or not terms or any(part[2] not in ("best", "last") for part, _ in terms):
            continue
        if " in %; " in judged.statistic:  # a share: see test_share_claims
            continue
        values = np.zeros(seeds)
        for (cell, _, part), c in terms:
            scores = [100 * getattr(runs[f"{cell}-s{seed}"], part) for seed in range(seeds)]
            values += float(c.limit_denominator(1000)) * np.array(scores)
        told = replace(found, claims=(judged,))
        assert finding_claims(told) == [
            expected_claim(judged.id, judged.statistic, values, judged.remark)
        ]


def test_a_run_that_never_scored_leaves_the_claim_open() -> None:
    runs = make_runs_of(("ReLU", "FR-II-image", "FL-image"))
    lost = runs["FR-II-image-s1"]
    runs["FR-II-image-s1"] = replace(lost, best=math.nan, last=math.nan, epochs=(), test=())
    claims = read_findings("composite-davidnet", QUICK, runs).claims
    assert {judged.verdict for judged in claims} == {"not decided"}


def test_pictures_of_hidden_outputs_have_holes_where_nothing_was_computed() -> None:
    _, found = dependences("composite-hidden-outputs", QUICK)
    filters, means = found.figures[1:]
    assert [*np.ravel(filters.image), *np.ravel(means.image)] == pytest.approx(
        [0.25, math.nan, math.nan, 1.0, math.nan, 0.5], nan_ok=True
    )


@pytest.mark.parametrize(
    ("below", "ends", "frg", "verdicts"),
    [
        (0.5, (0.46, 0.47, 0.4501), 0.04, ("held", "not held", "held")),
        (0.5, (0.451, 0.452, 0.4501), 0.05, ("held", "held", "not held")),
        (0.4, (0.451, 0.452, 0.4501), 0.04, ("not held", "held", "held")),
    ],
)
def test_a_loss_that_was_ever_below_its_floor_and_one_that_ends_far_above_it_are_not_held(
    below: float, ends: tuple[float, ...], frg: float, verdicts: tuple[str, ...]
) -> None:
    runs = make_runs_of(("ReLU", "FRG"))
    for seed, end in enumerate(ends):
        once = below if seed == 1 else 0.5
        for cell, losses in (("ReLU", (0.6, once, end)), ("FRG", (0.3, frg if seed else 0.01))):
            runs[f"{cell}-s{seed}"] = replace(runs[f"{cell}-s{seed}"], train_loss=losses)
    found = read_findings("dgn-hard-data", QUICK, runs)
    assert tuple(claim.verdict for claim in found.claims) == verdicts
    assert [claim.value for claim in found.claims] == pytest.approx(
        [max(0.0, 0.45 - below), max(ends) - 0.45, frg], abs=1e-12
    )


def test_a_loss_of_nothing_counts_as_a_millionth_of_a_millionth() -> None:
    runs, _ = drawn(find("dgn-random-mnist").plan(QUICK).units)
    for seed, losses in ((1, (0.01, 0.0)), (2, ())):
        unit = f"true-labels-GaLU-s{seed}"
        runs[unit] = replace(runs[unit], train_loss=losses)
    _, second, *_ = read_findings("dgn-random-mnist", QUICK, runs).rows
    assert second.values[1:] == pytest.approx((-7, math.nan), nan_ok=True)


def test_of_several_steps_a_row_has_the_best_in_the_mean_over_its_cells() -> None:
    request = Request(scale="full", only="GCONV/SGD")
    runs, _ = drawn(find("npf-table2").plan(request).units)
    regimes, steps = ("FR-II", "FR-DI", "DL", "FL", "ReLU"), ("0.1", "0.01", "0.001")
    step = max(
        steps, key=lambda s: sum(percents(runs, f"gconv-sgd-{s}-{n}", 5).mean() for n in regimes)
    )
    found = read_findings("npf-table2", request, runs)
    assert [row.values for row in found.rows] == [
        pytest.approx(percents(runs, f"gconv-sgd-{step}-{name}", 5)) for name in regimes
    ]
    assert f"learning rate {step}," in found.remarks[0]
    other = read_findings("npf-table2", replace(request, data="folder:cats"), runs)
    assert all("folder:cats" in row.remark for row in other.rows)
    assert other.rows[0].printed == Printed(67.36, 0.56, 2.0)


@pytest.mark.parametrize(
    ("trouble", "judged"),
    [
        ({}, True),  # it ended before its last epoch: it has memorised
        ({"epochs": (1.0, 400.0), "train": (0.5, 0.9995)}, True),
        ({"epochs": (1.0, 400.0), "train": (0.5, 0.9985)}, False),
        ({"diverged_at": 7}, False),
        ({"epochs": (), "train": ()}, False),
    ],
)
def test_gates_of_a_network_that_has_not_memorised_noise_are_not_judged(
    trouble: dict[str, Any], judged: bool
) -> None:
    runs, _ = drawn(find("workshop-table4").plan(QUICK).units)
    one = "Arch-1-adam-0.0003-pixels-gates-s1"
    runs[one] = replace(runs[one], **trouble)
    found = read_findings("workshop-table4", QUICK, runs)
    for gates, counted in (("label", True), ("pixel", judged)):
        of_gates = [c for c in found.claims if f"random-{gates} gates" in c.statistic]
        assert [(c.n, c.verdict == "not decided") for c in of_gates if not counted] == (
            [] if counted else [(0, True)] * 2
        )
        assert all(c.n == 3 for c in of_gates if counted)
        assert len(of_gates) == 2


def test_where_a_curve_peaks_is_chosen_by_the_other_seeds() -> None:
    """The noise of a seed has no part in the choice of its own epoch."""
    tests = ((0.1, 0.9, 0.2, 0.3), (0.1, 0.2, 0.8, 0.3), (0.1, 0.2, 0.7, 0.3))
    runs = [make_run_of(1009 + seed, test=test) for seed, test in enumerate(tests)]
    rise, fall = peak_heights(TrainedCell(runs))
    assert rise.values == pytest.approx((10, 10, 10))  # epochs 2, 1 and 1, counted from 0
    assert fall.values == pytest.approx((-10, -10, -10))
    assert fall.test_variance == 0
    scored = [replace(run, test_examples=400) for run in runs]
    rise, fall = peak_heights(TrainedCell(scored))
    assert rise.test_variance == pytest.approx((20 * 80 + 10 * 90) / 400)
    assert fall.test_variance == pytest.approx((20 * 80 + 30 * 70) / 400)


def test_a_curve_that_ended_early_is_compared_as_far_as_all_go() -> None:
    runs = [make_run_of(1009, test=(0.1, 0.5, 0.4)), make_run_of(1013, test=(0.1, 0.6, 0.3, 0.9))]
    _, fall = peak_heights(TrainedCell(runs))
    assert fall.values == pytest.approx((10, 30))


def test_the_worst_order_of_a_seed_is_chosen_by_the_other_seeds() -> None:
    request = Request(scale="full", only="CNN")
    runs, _ = drawn(find("duality-48").plan(request).units)
    found = read_findings("duality-48", request, runs)
    printed = [row.printed for row in found.rows if row.printed is not None]
    assert printed == [Printed(value) for value in CNN_PRINTED.values()]
    for regime in ("FR-II", "FR-DI", "FL", "DL"):
        gaps = np.array(
            [
                percents(runs, f"cnn-{regime}-{seen}-{order}")
                - percents(runs, f"cnn-{regime}-{seen}-0123")
                for seen in ("image", "ones")
                for order in ALL[1:]
            ]
        )
        places = [np.delete(gaps, seed, 1).sum(axis=1).argmin() for seed in range(3)]
        worst = [gaps[place, seed] for seed, place in enumerate(places)]
        (judged,) = [c for c in found.claims if f"{regime}, worst order" in c.statistic]
        assert finding_claims(replace(found, claims=(judged,))) == [
            expected_claim("dual-5", judged.statistic, worst)
        ]


@pytest.mark.parametrize("name", ["dgn-frg-convergence", "theory-depth"])
def test_the_best_depth_is_chosen_by_other_draws_than_those_that_are_compared(name: str) -> None:
    _, values = drawn(find(name).plan(QUICK).units)
    cells, draws = ("w200-d", 20) if name == "dgn-frg-convergence" else ("coins-d", 10)
    key = "errors" if name == "dgn-frg-convergence" else "left"
    for draw in range(draws):  # the even draws are best at d = 12, the odd ones at d = 4
        least = 1e-9
        unit = f"{cells}{4 if draw % 2 else 12}-s{draw}"
        values[unit] = ({**values[unit][0], key: [1.0, least] if key == "errors" else least}, 1.0)
    found = read_findings(name, QUICK, None, values)

    def left(depth: int) -> np.ndarray:
        given = [values[f"{cells}{depth}-s{draw}"][0][key] for draw in range(draws)]
        return np.log10([one[-1] if isinstance(one, list) else one for one in given])

    assert [(c.n, c.of) for c in found.claims] == [(draws // 2, "draws")] * 2
    assert finding_claims(found) == [
        expected_claim("dgn-2", c.statistic, (left(depth) - left(12))[1::2], c.remark)
        for c, depth in zip(found.claims, (2, 20), strict=True)
    ]
    assert all("d = 12" in c.remark for c in found.claims)


def test_an_error_of_nothing_counts_as_a_millionth_to_the_fifth() -> None:
    _, values = drawn(find("theory-depth").plan(QUICK).units)
    values["coins-d2-s1"][0]["left"] = 0.0
    assert (
        min(min(row.values) for row in read_findings("theory-depth", QUICK, None, values).rows)
        == -30
    )


@pytest.mark.parametrize(("request_", "n"), [(QUICK, 100), (FULL, 200)])
def test_spectra_under_coins_are_compared_with_those_of_the_ideal(
    request_: Request, n: int
) -> None:
    """It has n − 1 eigenvalues 1 − p^(d−1), and one of 1 + (n − 1)p^(d−1) (theory §7)."""
    _, values = drawn(find("dgn-frg-spectrum").plan(request_).units)
    found = read_findings("dgn-frg-spectrum", request_, None, values)
    far: dict[int, list[tuple[float, ...]]] = {}
    for width, depth in product((25, 500), (2, 4, 6, 8, 12, 16, 20)):
        small, large = 1 - 0.5 ** (depth - 1), 1 + (n - 1) * 0.5 ** (depth - 1)
        ideal = np.cumsum([*[small] * (n - 1), large]) / n
        seen = np.array([values[f"w{width}-d{depth}-s{s}"][0]["distribution"] for s in range(10)])
        rows = [row for row in found.rows if row.label.startswith(f"w = {width}, d = {depth}:")]
        (nearest,) = [row for row in rows if row.printed is None]
        assert nearest.values == pytest.approx(abs(seen - ideal).max(axis=1), rel=1e-5)
        for row, key, printed in zip(
            rows[:2], ("diagonal", "off"), (1.0, 2.0 ** (1 - depth)), strict=True
        ):
            assert row.printed == Printed(printed)
            assert row.values == tuple(values[f"w{width}-d{depth}-s{s}"][0][key] for s in range(10))
        far.setdefault(width, []).append(nearest.values)
    narrow, wide = (np.mean(far[width], axis=0) for width in (25, 500))
    means = [row for row in found.rows if "mean over depths" in row.label]
    assert [row.values for row in means] == [
        pytest.approx(narrow, rel=1e-5),
        pytest.approx(wide, rel=1e-5),
    ]
    (gap,) = found.claims
    assert finding_claims(found) == [
        expected_claim("dgn-1", gap.statistic, wide - narrow, gap.remark)
    ]


def test_rounding_decides_what_is_exact() -> None:
    _, values = drawn(find("theory-ntk-npk").plan(QUICK).units)
    exact = {"fc": 1e-12, "cnn": 3e-10, "resnet": 2e-12, "feature": 4e-12, "rotation": 5e-9}
    values["exact"] = (exact, 1.0)
    found = read_findings("theory-ntk-npk", QUICK, None, values)
    assert [(c.value, c.verdict) for c in found.claims if c.exact] == [
        (error, "held" if error < 1e-10 else "not held") for error in exact.values()
    ]
    for name in ("fc", "cnn", "resnet"):  # distances that fall as the root of the width
        for seed in range(5):
            widths = range(len(values[f"{name}-s{seed}"][0]))
            values[f"{name}-s{seed}"] = ([(1 + seed) * 2 ** (-w / 2) for w in widths], 1.0)
    found = read_findings("theory-ntk-npk", QUICK, None, values)
    slopes = [c for c in found.claims if c.id == "comp-5" and not c.exact]
    assert [c.value for c in slopes] == pytest.approx([-0.5] * 3)


@pytest.mark.parametrize("kind", ["", "gamma-"])
def test_one_error_above_rounding_at_any_width_and_seed_decides(kind: str) -> None:
    _, values = drawn(find("composite-resnet-kernel").plan(QUICK).units)
    values[f"{kind}w256-s2"][0]["weighted_sum"] = 3e-10
    found = read_findings("composite-resnet-kernel", QUICK, None, values)
    (worst,) = [c for c in found.claims if c.exact and c.verdict != "held"]
    assert (worst.value, worst.n, worst.verdict) == (3e-10, 20, "not held")
    assert ("γ drawn" in worst.statistic) == bool(kind)


def test_of_a_bound_nan_counts_as_no_case() -> None:
    _, values = drawn(find("npf-eigenvalue-bound").plan(QUICK).units)
    for name in ("factors", "paths", "excess", "speed"):
        for seed in range(3):
            values[f"bound-s{seed}"][0][name] = [1e-15] * 4
    values["bound-s1"][0]["ratio"][2] = values["bound-s0"][0]["speed"][0] = math.nan
    found = read_findings("npf-eigenvalue-bound", QUICK, None, values)
    ratios = [np.array(values[f"bound-s{s}"][0]["ratio"]) for s in range(3)]
    assert [row.values for row in found.rows] == [
        pytest.approx([np.nanmedian(of_seed) for of_seed in ratios]),
        pytest.approx([np.nanmax(of_seed) for of_seed in ratios]),
        (4, 4, 4),
        (4, 3, 4),
        (3, 4, 4),
    ]
    assert [(c.n, c.verdict) for c in found.claims] == [(12, "held")] * 3 + [(11, "held")]
    values["bound-s2"][0]["excess"][1] = 1e-6
    assert (
        read_findings("npf-eigenvalue-bound", QUICK, None, values).claims[0].verdict == "not held"
    )


def test_seconds_that_nobody_measured_count_for_nothing() -> None:
    runs, values = drawn(find("npf-nu").plan(QUICK).units)
    unknown = {key: (value, math.nan) for key, (value, _) in values.items()}
    start, end = read_findings("npf-nu", QUICK, runs, unknown).rows
    trained = sum(run.seconds for run in runs.values())
    assert (start.seconds, end.seconds) == (0.0, pytest.approx(trained))
