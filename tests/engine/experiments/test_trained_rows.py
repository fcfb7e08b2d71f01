"""What experiments read out of trained runs: made-up accuracies in, rows, claims, figures out."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest

from dgn_engine.experiments import Request
from dgn_engine.protocol.results import Printed
from tests.engine.experiments.made_up import (
    FULL,
    QUICK,
    accuracy_curve,
    across,
    cell_row,
    claim,
    claims,
    curve,
    exact_claim,
    figures,
    loss_curve,
    made_runs,
    percents,
    read,
    row,
    rows,
    spearman,
    unmeasured,
    welch,
)


def test_npf_table2_at_quick_has_its_cells_and_the_printed_numbers_as_remarks() -> None:
    regimes = ("FR-II", "FR-DI", "DL", "FL", "ReLU")
    runs = made_runs(f"fc-{step}-{name}" for step in ("sgd-0.1", "adam-0.0003") for name in regimes)
    found = read("npf-table2", QUICK, runs)
    columns = ("FRNPF(II)", "FRNPF(DI)", "DNPFL", "FLNPF", "ReLU")
    printed = {
        "SGD": ("95.85 ± 0.1", "95.85 ± 0.17", "97.86 ± 0.11", "97.1 ± 0.09", "97.85 ± 0.09"),
        "Adam": ("96.02 ± 0.13", "96.09 ± 0.12", "98.22 ± 0.05", "97.82 ± 0.02", "98.14 ± 0.07"),
    }
    assert rows(found) == [
        cell_row(
            runs, f"fc-{step}-{regime}", f"FC(w=64,d=6)/{name}/digits {column}",
            remark=f"printed of FC(w=128,d=6)/{name}/MNIST: {number}",
        )
        for name, step in (("SGD", "sgd-0.1"), ("Adam", "adam-0.0003"))
        for regime, column, number in zip(regimes, columns, printed[name], strict=True)
    ]  # fmt: skip
    expected = []
    for name, step in (("SGD", "sgd-0.1"), ("Adam", "adam-0.0003")):
        best = {regime: percents(runs, f"fc-{step}-{regime}") for regime in regimes}
        label = f"FC(w=64,d=6)/{name}/digits"
        expected += [
            claim("npf-1", f"{label}: DL − FR-II; above 0", best["DL"] - best["FR-II"]),
            claim("npf-1", f"{label}: DL − FR-DI; above 0", best["DL"] - best["FR-DI"]),
            claim("npf-1", f"{label}: ReLU − FR-II; above 0", best["ReLU"] - best["FR-II"]),
            claim("npf-1", f"{label}: ReLU − FR-DI; above 0", best["ReLU"] - best["FR-DI"]),
            claim("npf-2", f"{label}: ReLU − FL; within ±1", best["ReLU"] - best["FL"]),
        ]
    assert claims(found) == expected


def test_npf_table2_at_full_compares_the_best_step_with_the_printed_numbers() -> None:
    request = Request(scale="full", only="GCONV/SGD")
    regimes = ("FR-II", "FR-DI", "DL", "FL", "ReLU")
    steps = ("0.1", "0.01", "0.001")
    runs = made_runs((f"gconv-sgd-{step}-{name}" for step in steps for name in regimes), 5)
    best = {
        name: max(
            (f"gconv-sgd-{step}-{name}" for step in steps),
            key=lambda cell: percents(runs, cell, 5).mean(),
        )
        for name in regimes
    }
    assert len({cell.split("-")[2] for cell in best.values()}) > 1, "not all of one step"
    printed = ((67.36, 0.56), (66.86, 0.44), (74.57, 0.43), (78.52, 0.39), (78.9, 0.37))
    columns = ("FRNPF(II)", "FRNPF(DI)", "DNPFL", "FLNPF", "ReLU")
    found = read("npf-table2", request, runs)
    assert rows(found) == [
        cell_row(runs, best[name], f"GCONV/SGD/CIFAR-10 {column}", 5, Printed(*numbers))
        for name, column, numbers in zip(regimes, columns, printed, strict=True)
    ]
    nearest = percents(runs, best["ReLU"], 5) - percents(runs, best["FL"], 5)
    assert claims(found)[4] == claim("npf-2", "GCONV/SGD/CIFAR-10: ReLU − FL; within ±1", nearest)
    other_data = read("npf-table2", replace(request, data="folder:cats"), runs)
    assert {r.remark for r in other_data.rows} == {"trained on folder:cats"}
    assert other_data.rows[0].printed == Printed(67.36, 0.56)


def test_npf_table2_in_the_authors_code_reads_the_notebooks_step() -> None:
    request = Request(scale="full", protocol="as-in-code", only="FC")
    regimes = ("FR-II", "FR-DI", "DL", "FL", "ReLU")
    runs = made_runs((f"fc-{o}-{n}" for o in ("sgd-0.01", "adam-0.0001") for n in regimes), 5)
    found = read("npf-table2", request, runs)
    assert [r.label for r in found.rows[::5]] == [
        "FC(w=128,d=6)/SGD/MNIST FRNPF(II)",
        "FC(w=128,d=6)/Adam/MNIST FRNPF(II)",
    ]


def test_workshop_table4_at_quick() -> None:
    names = ("ReLU", "DL", "FR-II", "FR-DI", "FL", "labels", "pixels")
    gates = ("labels-gates", "pixels-gates")
    runs = made_runs(f"Arch-1-adam-0.0003-{name}" for name in names + gates)
    found = read("workshop-table4", QUICK, runs)
    printed = {
        "ReLU": ("ReLU", "98.14 ± 0.07"),
        "DL": ("Twin (decoupled)", "98.22 ± 0.05"),
        "FR-II": ("NPF(II)", "96.02 ± 0.13"),
        "FR-DI": ("NPF(DI)", "96.09 ± 0.12"),
        "FL": ("NPF trained, true labels", "97.82 ± 0.02"),
        "labels": ("NPF trained, random labels", "95.21 ± 0.1"),
        "pixels": ("NPF trained, random pixels", ""),
    }
    label = "Arch-1 w=64 d=6 Adam digits"
    of = "printed of Arch-1 w=128 d=6 Adam MNIST: "
    assert rows(found) == [
        cell_row(
            runs, f"Arch-1-adam-0.0003-{name}", f"{label} {column}",
            remark=of + number if number else "",
        )
        for name, (column, number) in printed.items()
    ]  # fmt: skip
    best = {name: percents(runs, f"Arch-1-adam-0.0003-{name}") for name in names}
    word = {
        "labels": "random-label gates", "pixels": "random-pixel gates", "FL": "true gates",
        "FR-II": "random gates (FR-II)", "FR-DI": "random gates (FR-DI)",
    }  # fmt: skip
    order = (
        ("FR-II", "labels"), ("FR-II", "pixels"), ("FL", "FR-II"),
        ("FR-DI", "labels"), ("FR-DI", "pixels"), ("FL", "FR-DI"),
    )  # fmt: skip
    assert claims(found) == [
        claim("ws-1", f"{label}: {word[a]} − {word[b]}; above 0", best[a] - best[b])
        for a, b in order
    ]
    train = {
        name: [runs[f"Arch-1-adam-0.0003-{name}-gates-s{seed}"].train[-1] for seed in range(3)]
        for name in ("labels", "pixels")
    }
    assert found.remarks == tuple(
        f"{label}: the network on random {name} reached "
        f"{', '.join(f'{100 * share:.1f} %' for share in shares)} train accuracy."
        for name, shares in train.items()
    )


def test_workshop_table4_at_full_names_the_papers_rows() -> None:
    names = ("ReLU", "DL", "FR-II", "FR-DI", "FL", "labels", "pixels")
    gates = ("labels-gates", "pixels-gates")
    request = Request(scale="full", only="Arch-5", steps=(0.5,))
    runs = made_runs((f"Arch-5-sgd-0.5-{name}" for name in names + gates), 5)
    found = read("workshop-table4", request, runs)
    assert rows(found)[:3] == [
        cell_row(
            runs, "Arch-5-sgd-0.5-ReLU", "Arch-5 VCONV SGD CIFAR-10 ReLU", 5, Printed(67.02, 0.43)
        ),
        cell_row(runs, "Arch-5-sgd-0.5-DL", "Arch-5 VCONV SGD CIFAR-10 Twin (decoupled)", 5),
        cell_row(
            runs, "Arch-5-sgd-0.5-FR-II", "Arch-5 VCONV SGD CIFAR-10 NPF(II)", 5,
            Printed(58.92, 0.62),
        ),
    ]  # fmt: skip


def stages(seeds: int) -> tuple[dict, np.ndarray, np.ndarray]:
    runs = made_runs(["fr", *(f"fl{stage}" for stage in range(1, 7)), "relu"], seeds)
    by_seed = np.array([percents(runs, f"fl{stage}", seeds) for stage in range(1, 7)]).T
    return runs, by_seed, percents(runs, "fr", seeds)


def test_npf_stages_at_quick() -> None:
    runs, by_seed, frozen = stages(3)
    found = read("npf-stages", QUICK, runs)
    assert rows(found) == [
        cell_row(
            runs, "fr", "FRNPF (frozen random gates)", remark="printed of GCONV on CIFAR-10: 67.08"
        ),
        cell_row(runs, "fl1", "FLNPF-1", remark="printed of GCONV on CIFAR-10: 72"),
        *(cell_row(runs, f"fl{stage}", f"FLNPF-{stage}") for stage in range(2, 6)),
        cell_row(runs, "fl6", "FLNPF-6", remark="printed of GCONV on CIFAR-10: 79.68"),
        cell_row(runs, "relu", "ReLU"),
    ]
    grain = 12 / (6 * 35)
    assert claims(found) == [
        claim(
            "npf-3", "Spearman of accuracy with the stage; above 0",
            [spearman(list(curve)) for curve in by_seed], inside=(-1, 1, grain),
        ),
        claim("npf-3", "FLNPF-1 − FRNPF; above 0", by_seed[:, 0] - frozen),
        unmeasured(
            "npf-3", "FLNPF-6; above 77.43",
            "a number of networks on CIFAR-10, which --full trains",
        ),
    ]  # fmt: skip
    assert figures(found) == [
        (
            "stages", "Gates of later stages carry more", "epoch of the copied gates",
            "test accuracy (%)", False, False,
            [curve("FLNPF", (2, 4, 6, 8, 10, 12), by_seed), across("FRNPF", frozen.mean())],
        )
    ]  # fmt: skip


def test_npf_stages_at_full() -> None:
    runs, by_seed, frozen = stages(5)
    found = read("npf-stages", FULL, runs)
    assert [r.printed for r in found.rows] == [
        Printed(67.08), Printed(72.0), None, None, None, None, Printed(79.68), None,
    ]  # fmt: skip
    assert claims(found)[2] == claim(
        "npf-3", "FLNPF-6; above 77.43", by_seed[:, 5], inside=(0, 100, 0)
    )
    assert figures(found)[0][-1] == [
        curve("FLNPF", (10, 20, 30, 40, 50, 60), by_seed),
        across("FRNPF", frozen.mean()),
        across("CNTK (Arora et al. 2019)", 77.43, "printed"),
    ]


def test_composite_davidnet() -> None:
    cells = {
        "ReLU": "ReLU (published network)", "FR-II-image": "FR-II, x^v = x",
        "FL-image": "FL, x^v = x",
    }  # fmt: skip
    runs = made_runs(cells)
    found = read("composite-davidnet", QUICK, runs)
    assert rows(found) == [cell_row(runs, cell, label) for cell, label in cells.items()]
    chance = percents(runs, "FR-II-image") - 10
    assert claims(found) == [claim("comp-1", "DavidNet: FR − chance; above 0", chance)]
    assert figures(found) == [
        (
            "learning", "DavidNet under the gating regimes", "epoch", "test accuracy (%)",
            False, False, [accuracy_curve(label, runs, cell) for cell, label in cells.items()],
        )
    ]  # fmt: skip
    assert found.remarks == (
        "No number of the paper's DavidNet runs survives in the text at hand.",
    )


def test_composite_davidnet_at_full_counts_all_frozen_gates_that_scored() -> None:
    cells = {"ReLU": "ReLU (published network)"}
    for regime in ("FR-II", "FR-DI", "FL", "DL"):
        cells[f"{regime}-image"] = f"{regime}, x^v = x"
        cells[f"{regime}-ones"] = f"{regime}, x^v = 1"
    runs = made_runs(cells, 5)
    nothing: tuple[float, ...] = ()
    runs["FR-DI-ones-s3"] = replace(
        runs["FR-DI-ones-s3"], best=math.nan, epochs=nothing, test=nothing
    )
    found = read("composite-davidnet", FULL, runs)
    assert [r.label for r in found.rows] == list(cells.values())
    frozen = [
        100 * runs[f"{regime}-{seen}-s{seed}"].best - 10
        for regime, seen in product(("FR-II", "FR-DI"), ("image", "ones"))
        for seed in range(5)
        if (regime, seen, seed) != ("FR-DI", "ones", 3)
    ]
    assert claims(found) == [claim("comp-1", "DavidNet: FR − chance; above 0", frozen)]


def test_composite_hidden_outputs() -> None:
    runs = made_runs(("ReLU", "reversed"))
    found = read(
        "composite-hidden-outputs", QUICK, runs, {"outputs": ([[0.25, None], [None, 1.0]], 7.0)}
    )
    labels = {"ReLU": "ReLU", "reversed": "gates reversed, random input"}
    assert rows(found) == [cell_row(runs, cell, label) for cell, label in labels.items()]
    gap = percents(runs, "ReLU") - percents(runs, "reversed")
    assert claims(found) == [
        claim("comp-2", "ReLU − reversed gates on a random input; within ±3", gap)
    ]
    assert figures(found)[0] == (
        "learning", "Reversed gates on a random input", "epoch", "test accuracy (%)",
        False, False, [accuracy_curve(label, runs, cell) for cell, label in labels.items()],
    )  # fmt: skip
    picture = found.figures[1]
    assert (picture.name, picture.lines) == ("outputs", ())
    assert (picture.image[0][0], picture.image[1][1]) == (0.25, 1.0)
    assert math.isnan(picture.image[0][1])
    assert math.isnan(picture.image[1][0])


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
        claim("dgn-7", "gates alone − chance; above 0", percents(runs, "gates-only") - 10)
    ]
    assert figures(found) == [
        (
            "learning", "What learns", "epoch", "test accuracy (%)", False, False,
            [accuracy_curve(label, runs, cell) for cell, label in cells.items()],
        )
    ]  # fmt: skip


def test_dgn_hard_data() -> None:
    runs = made_runs(("ReLU", "FRG"))
    for seed, end in enumerate((0.46, 0.47, 0.4501)):
        runs[f"ReLU-s{seed}"] = replace(runs[f"ReLU-s{seed}"], train_loss=(0.6 + seed / 100, end))
    runs["FRG-s2"] = replace(runs["FRG-s2"], train_loss=(0.3, 0.0))
    found = read("dgn-hard-data", QUICK, runs)
    ends = {
        name: [runs[f"{name}-s{seed}"].train_loss[-1] for seed in range(3)]
        for name in ("ReLU", "FRG")
    }
    assert rows(found) == [
        cell_row(runs, name, f"{name}: training loss at the end", values=ends[name], unit="")
        for name in ("ReLU", "FRG")
    ]
    floored = (*ends["FRG"][:2], 1e-12)
    ratios = [math.log10(a / b) for a, b in zip(ends["ReLU"], floored, strict=True)]
    assert claims(found) == [
        exact_claim(
            "ws-3", "0.45 − least training loss of ReLU; at most 1e-05 (exact)", 0, 3, "held"
        ),
        claim("ws-3", "log10 loss, ReLU − FRG; above 0", ratios),
    ]  # fmt: skip
    assert figures(found) == [
        (
            "loss", "Two points on one ray", "step", "½e²", False, True,
            [loss_curve(name, runs, name) for name in ("ReLU", "FRG")],
        )
    ]  # fmt: skip


def test_dgn_hard_data_is_not_held_where_the_loss_was_ever_below_its_floor() -> None:
    runs = made_runs(("ReLU", "FRG"))
    for seed in range(3):
        runs[f"ReLU-s{seed}"] = replace(
            runs[f"ReLU-s{seed}"], train_loss=(0.6, 0.4 if seed == 1 else 0.5, 0.46)
        )
    first, _ = read("dgn-hard-data", QUICK, runs).claims
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
                f"{variant}, {name}: mean log10 of the training loss", speeds(cell),
                epochs=last(cell),
            ),
        ]  # fmt: skip
    assert rows(found) == expected
    statistics = [
        claim(
            "dgn-4", f"{variant}: mean log10 loss over the epochs, ReLU − GaLU; above 0",
            speeds(f"{variant.replace(' ', '-')}-ReLU")
            - speeds(f"{variant.replace(' ', '-')}-GaLU"),
        )
        for variant in variants
    ]  # fmt: skip
    better = percents(runs, "true-labels-ReLU") - percents(runs, "true-labels-GaLU")
    assert claims(found) == [
        *statistics,
        claim("dgn-4", "test accuracy, ReLU − GaLU; above 0", better),
    ]
    assert figures(found) == [
        (
            variant.replace(" ", "-"), f"Training loss with {variant}", "epoch", "cross entropy",
            False, True,
            [
                loss_curve(name, runs, f"{variant.replace(' ', '-')}-{name}")
                for name in ("GaLU", "ReLU")
            ],
        )
        for variant in variants
    ]  # fmt: skip


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
