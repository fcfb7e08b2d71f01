"""What is read of the runs of [COMP] and [DGN]: made-up accuracies in, rows and claims out."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from dgn_engine.experiments import Request
from tests.engine.experiments.adaptation import COMPARED, KINDS, LEARNS
from tests.engine.experiments.made_up import (
    FULL,
    QUICK,
    accuracy_curve,
    cell_row,
    claim,
    claims,
    exact_claim,
    figures,
    loss_curve,
    made_runs,
    percents,
    read,
    row,
    rows,
)

DAVIDNET = (
    "the bar is half way from chance to 67.5, which [DUAL] prints of its CNN; a seed with a run "
    "that diverged before its first score has no value"
)


def test_composite_davidnet() -> None:
    cells = {
        "ReLU": "ReLU (published network)",
        "FR-II-image": "FR-II, x^v = x",
        "FL-image": "FL, x^v = x",
    }
    runs = made_runs(cells)
    found = read("composite-davidnet", QUICK, runs)
    assert rows(found) == [cell_row(runs, cell, label) for cell, label in cells.items()]
    assert claims(found) == [
        claim("comp-1", "DavidNet: FR; above 38.75", percents(runs, "FR-II-image"), DAVIDNET)
    ]
    assert figures(found) == [
        (
            "learning",
            "DavidNet under the gating regimes",
            "epoch",
            "test accuracy (%)",
            False,
            False,
            [accuracy_curve(label, runs, cell) for cell, label in cells.items()],
        )
    ]
    assert found.remarks == (
        "No number of the paper's DavidNet runs survives in the text at hand.",
    )


def test_composite_davidnet_at_full_judges_the_mean_over_all_frozen_gates() -> None:
    cells = {"ReLU": "ReLU (published network)"}
    for regime in ("FR-II", "FR-DI", "FL", "DL"):
        cells[f"{regime}-image"] = f"{regime}, x^v = x"
        cells[f"{regime}-ones"] = f"{regime}, x^v = 1"
    runs = made_runs(cells, 5)
    found = read("composite-davidnet", FULL, runs)
    assert [r.label for r in found.rows] == list(cells.values())
    frozen = [
        percents(runs, f"{regime}-{seen}", 5)
        for regime, seen in product(("FR-II", "FR-DI"), ("image", "ones"))
    ]
    assert claims(found) == [
        claim("comp-1", "DavidNet: FR; above 38.75", np.mean(frozen, axis=0), DAVIDNET)
    ]


def test_a_run_of_davidnet_that_never_scored_leaves_the_claim_open() -> None:
    runs = made_runs(("ReLU", "FR-II-image", "FL-image"))
    nothing: tuple[float, ...] = ()
    key = "FR-II-image-s1"
    runs[key] = replace(runs[key], best=math.nan, last=math.nan, epochs=nothing, test=nothing)
    (judged,) = read("composite-davidnet", QUICK, runs).claims
    assert judged.verdict == "not decided"


def test_composite_hidden_outputs() -> None:
    runs = made_runs(("ReLU", "reversed"))
    pictures = {"filters": [[0.25, None], [None, 1.0]], "means": [[None, 0.5]]}
    found = read("composite-hidden-outputs", QUICK, runs, {"pictures-s0": (pictures, 7.0)})
    labels = {"ReLU": "ReLU", "reversed": "gates reversed, random input"}
    assert rows(found) == [cell_row(runs, cell, label) for cell, label in labels.items()]
    gap = percents(runs, "ReLU") - percents(runs, "reversed")
    assert claims(found) == [
        claim("comp-2", "ReLU − reversed gates on a random input; within ±3", gap)
    ]
    assert figures(found)[0] == (
        "learning",
        "Reversed gates on a random input",
        "epoch",
        "test accuracy (%)",
        False,
        False,
        [accuracy_curve(label, runs, cell) for cell, label in labels.items()],
    )
    filters, means = found.figures[1:]
    assert (filters.name, filters.lines, means.name, means.lines) == (
        "outputs",
        (),
        "output-means",
        (),
    )
    assert (filters.image[0][0], filters.image[1][1], means.image[0][1]) == (0.25, 1.0, 0.5)
    assert all(map(math.isnan, (filters.image[0][1], filters.image[1][0], means.image[0][0])))


def test_dgn_gates_only() -> None:
    cells = {
        "gates-only": "gates alone (values frozen at random)",
        "FR-II": "values alone (gates frozen at random)",
        "DL": "both",
    }
    runs = made_runs(cells)
    found = read("dgn-gates-only", QUICK, runs)
    assert rows(found) == [cell_row(runs, cell, label) for cell, label in cells.items()]
    assert claims(found) == [
        claim(
            "dgn-7",
            "gates alone − half of soft-GaLU; above 5",
            percents(runs, "gates-only") - percents(runs, "DL") / 2,
            LEARNS,
        )
    ]
    assert figures(found) == [
        (
            "learning",
            "What learns",
            "epoch",
            "test accuracy (%)",
            False,
            False,
            [accuracy_curve(label, runs, cell) for cell, label in cells.items()],
        )
    ]


def test_dgn_cifar10_compares_gates_that_adapt_and_that_were_learnt_with_frozen_ones() -> None:
    runs = made_runs(f"{row}-{regime}" for regime in KINDS.values() for row in ("dense", "conv"))
    found = read("dgn-cifar10", QUICK, runs)
    named = {"dense": "dense", "conv": "convolutional"}
    assert rows(found) == [
        cell_row(runs, f"{row}-{regime}", f"{words}: {label}")
        for row, words in named.items()
        for label, regime in KINDS.items()
    ]
    assert claims(found) == [
        claim(
            "dgn-5",
            f"{words}: {one} − {other}; above 0",
            percents(runs, f"{row}-{KINDS[one]}") - percents(runs, f"{row}-{KINDS[other]}"),
        )
        for row, words in named.items()
        for one, other in COMPARED
    ]
    assert figures(found) == [
        (
            f"learning-{row}",
            f"{words} networks",
            "epoch",
            "test accuracy (%)",
            False,
            False,
            [accuracy_curve(label, runs, f"{row}-{regime}") for label, regime in KINDS.items()],
        )
        for row, words in named.items()
    ]


def test_dgn_cifar10_reads_the_row_that_was_asked_for() -> None:
    runs = made_runs(f"conv-{regime}" for regime in KINDS.values())
    found = read("dgn-cifar10", Request(only="conv"), runs)
    assert {one.label.split(": ")[0] for one in found.rows} == {"convolutional"}


def test_dgn_hard_data() -> None:
    runs = made_runs(("ReLU", "FRG"))
    for seed, end in enumerate((0.46, 0.47, 0.4501)):
        runs[f"ReLU-s{seed}"] = replace(
            runs[f"ReLU-s{seed}"], train_loss=(0.6 + seed / 100, 0.5, end)
        )
    runs["FRG-s2"] = replace(runs["FRG-s2"], train_loss=(0.3, 0.2, 0.0))
    found = read("dgn-hard-data", QUICK, runs)
    ends = {
        name: [runs[f"{name}-s{seed}"].train_loss[-1] for seed in range(3)]
        for name in ("ReLU", "FRG")
    }
    assert rows(found) == [
        cell_row(runs, name, f"{name}: training loss at the end", values=ends[name], unit="")
        for name in ("ReLU", "FRG")
    ]
    assert claims(found) == [
        exact_claim(
            "ws-3", "0.45 − least training loss of ReLU; at most 1e-05 (exact)", 0, 3, "held"
        ),
        exact_claim(
            "ws-3",
            "largest loss of ReLU at the end − 0.45; at most 0.005 (exact)",
            0.02,
            3,
            "not held",
        ),
        exact_claim(
            "ws-3",
            "largest loss of FRG at the end; at most 0.045 (exact)",
            max(ends["FRG"]),
            3,
            "held" if max(ends["FRG"]) <= 0.045 else "not held",
        ),
    ]
    assert figures(found) == [
        (
            "loss",
            "Two points on one ray",
            "step",
            "½e²",
            False,
            True,
            [loss_curve(name, runs, name) for name in ("ReLU", "FRG")],
        )
    ]


def test_dgn_hard_data_is_not_held_where_the_loss_was_ever_below_its_floor() -> None:
    runs = made_runs(("ReLU", "FRG"))
    for seed in range(3):
        runs[f"ReLU-s{seed}"] = replace(
            runs[f"ReLU-s{seed}"], train_loss=(0.6, 0.4 if seed == 1 else 0.5, 0.46)
        )
    first, *_ = read("dgn-hard-data", QUICK, runs).claims
    assert first.value == pytest.approx(0.05)
    assert (first.verdict, first.exact) == ("not held", True)


def test_dgn_random_mnist() -> None:
    variants = ("true labels", "random labels", "random pixels")
    cells = [f"{v.replace(' ', '-')}-{name}" for v in variants for name in ("GaLU", "ReLU")]
    runs = made_runs(cells)
    found = read("dgn-random-mnist", QUICK, runs)

    def speeds(cell: str) -> np.ndarray:
        losses = np.array([runs[f"{cell}-s{seed}"].train_loss for seed in range(3)])
        return np.log10(losses).mean(axis=1)

    def last(cell: str) -> float:
        return max(runs[f"{cell}-s{seed}"].epochs[-1] for seed in range(3))

    expected = []
    for variant, name in product(variants, ("GaLU", "ReLU")):
        cell = f"{variant.replace(' ', '-')}-{name}"
        expected += [
            cell_row(runs, cell, f"{variant}, {name}: test accuracy"),
            row(
                f"{variant}, {name}: mean log10 of the training loss",
                speeds(cell),
                epochs=last(cell),
            ),
        ]
    assert rows(found) == expected
    statistics = [
        claim(
            "dgn-4",
            f"{variant}: mean log10 loss over the epochs, ReLU − GaLU; above 0",
            speeds(f"{variant.replace(' ', '-')}-ReLU")
            - speeds(f"{variant.replace(' ', '-')}-GaLU"),
        )
        for variant in variants
    ]
    better = percents(runs, "true-labels-ReLU") - percents(runs, "true-labels-GaLU")
    assert claims(found) == [
        *statistics,
        claim("dgn-4", "test accuracy, ReLU − GaLU; above 0", better),
    ]
    assert figures(found) == [
        (
            variant.replace(" ", "-"),
            f"Training loss with {variant}",
            "epoch",
            "cross entropy",
            False,
            True,
            [
                loss_curve(name, runs, f"{variant.replace(' ', '-')}-{name}")
                for name in ("GaLU", "ReLU")
            ],
        )
        for variant in variants
    ]


def test_a_loss_of_nothing_counts_as_a_millionth_of_a_millionth() -> None:
    runs = made_runs(
        f"{v}-{name}"
        for v in ("true-labels", "random-labels", "random-pixels")
        for name in ("GaLU", "ReLU")
    )
    runs["true-labels-GaLU-s1"] = replace(runs["true-labels-GaLU-s1"], train_loss=(0.01, 0.0))
    runs["true-labels-GaLU-s2"] = replace(runs["true-labels-GaLU-s2"], train_loss=())
    _, second, *_ = read("dgn-random-mnist", QUICK, runs).rows
    assert second.values[1] == pytest.approx(-7)
    assert math.isnan(second.values[2])
