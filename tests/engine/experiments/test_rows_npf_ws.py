"""What is read of the runs of [NPF] and [WS]: made-up accuracies in, rows and claims out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dgn_engine.experiments import Request
from dgn_engine.protocol.experiments import Printed
from tests.engine.experiments.made_up import (
    FULL,
    QUICK,
    across,
    cell_row,
    claim,
    claims,
    curve,
    figures,
    made_runs,
    percents,
    read,
    rows,
    unmeasured,
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
            runs,
            f"fc-{step}-{regime}",
            f"FC(w=64,d=6)/{name}/digits {column}",
            remark=f"printed of FC(w=128,d=6)/{name}/MNIST: {number}",
        )
        for name, step in (("SGD", "sgd-0.1"), ("Adam", "adam-0.0003"))
        for regime, column, number in zip(regimes, columns, printed[name], strict=True)
    ]
    expected = []
    for name, step in (("SGD", "sgd-0.1"), ("Adam", "adam-0.0003")):
        best = {regime: percents(runs, f"fc-{step}-{regime}") for regime in regimes}
        label = f"FC(w=64,d=6)/{name}/digits"
        expected += [
            claim("npf-1", f"{label}: DL − FR-II; above 0", best["DL"] - best["FR-II"]),
            claim("npf-1", f"{label}: DL − FR-DI; above 0", best["DL"] - best["FR-DI"]),
            claim("npf-1", f"{label}: ReLU − FR-II; above 0", best["ReLU"] - best["FR-II"]),
            claim("npf-1", f"{label}: ReLU − FR-DI; above 0", best["ReLU"] - best["FR-DI"]),
        ]
    expected.append(
        unmeasured(
            "npf-2",
            "GCONV/Adam/CIFAR-10: ReLU − FL; within ±1",
            "said of GCONV with Adam on CIFAR-10, which --full trains",
        )
    )
    expected.append(
        unmeasured(
            "npf-8",
            "ReLU − FL of the other rows",
            "printed of FC with 128 units and of networks on CIFAR-10: --full trains them",
        )
    )
    assert claims(found) == expected


def test_npf_table2_at_full_has_one_step_for_a_row_the_best_in_the_mean() -> None:
    request = Request(scale="full", only="GCONV/SGD")
    regimes = ("FR-II", "FR-DI", "DL", "FL", "ReLU")
    steps = ("0.1", "0.01", "0.001")
    runs = made_runs((f"gconv-sgd-{step}-{name}" for step in steps for name in regimes), 5)
    step = max(
        steps, key=lambda s: sum(percents(runs, f"gconv-sgd-{s}-{n}", 5).mean() for n in regimes)
    )
    best = {name: f"gconv-sgd-{step}-{name}" for name in regimes}
    printed = ((67.36, 0.56), (66.86, 0.44), (74.57, 0.43), (78.52, 0.39), (78.9, 0.37))
    columns = ("FRNPF(II)", "FRNPF(DI)", "DNPFL", "FLNPF", "ReLU")
    found = read("npf-table2", request, runs)
    assert rows(found) == [
        cell_row(runs, best[name], f"GCONV/SGD/CIFAR-10 {column}", 5, Printed(*numbers))
        for name, column, numbers in zip(regimes, columns, printed, strict=True)
    ]
    nearest = percents(runs, best["ReLU"], 5) - percents(runs, best["FL"], 5)
    assert claims(found)[4] == claim(
        "npf-8", "GCONV/SGD/CIFAR-10: ReLU − FL; within ±2 of 0.38", nearest
    )
    assert found.remarks == (f"GCONV/SGD/CIFAR-10: step {step}, the best of 0.1, 0.01, 0.001.",)
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


def test_only_of_gconv_with_adam_is_fl_said_to_be_within_a_point_of_relu() -> None:
    regimes = ("FR-II", "FR-DI", "DL", "FL", "ReLU")
    found = {}
    for row, prefix in (
        ("FC(w=128,d=6)/SGD", "fc-sgd-0.01"),
        ("FC(w=128,d=6)/Adam", "fc-adam-0.0001"),
        ("VCONV/SGD", "vconv-sgd-0.01"),
        ("VCONV/Adam", "vconv-adam-0.0003"),
        ("GCONV/Adam", "gconv-adam-0.0003"),
    ):
        request = Request(scale="full", protocol="as-in-code", only=row)
        runs = made_runs((f"{prefix}-{name}" for name in regimes), 5)
        (last,) = [c for c in read("npf-table2", request, runs).claims if "− FL" in c.statistic]
        found[row] = (last.id, last.statistic.rpartition("; ")[2])
    assert found == {
        "FC(w=128,d=6)/SGD": ("npf-8", "within ±0.5 of 0.75"),
        "FC(w=128,d=6)/Adam": ("npf-8", "within ±0.5 of 0.32"),
        "VCONV/SGD": ("npf-8", "within ±2 of 3.96"),
        "VCONV/Adam": ("npf-8", "within ±2 of 1.03"),
        "GCONV/Adam": ("npf-2", "within ±1"),
    }


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
            runs,
            f"Arch-1-adam-0.0003-{name}",
            f"{label} {column}",
            remark=of + number if number else "",
        )
        for name, (column, number) in printed.items()
    ]
    best = {name: percents(runs, f"Arch-1-adam-0.0003-{name}") for name in names}
    word = {
        "labels": "random-label gates",
        "pixels": "random-pixel gates",
        "FL": "true gates",
        "FR-II": "random gates (FR-II)",
        "FR-DI": "random gates (FR-DI)",
    }
    order = (
        ("FR-II", "labels"),
        ("FR-II", "pixels"),
        ("FL", "FR-II"),
        ("FR-DI", "labels"),
        ("FR-DI", "pixels"),
        ("FL", "FR-DI"),
    )
    assert claims(found) == [
        *(
            claim("ws-1", f"{label}: {word[a]} − {word[b]}; above 0", best[a] - best[b])
            for a, b in order
        ),
        claim("ws-5", f"{label}: ReLU − true gates; within ±1", best["ReLU"] - best["FL"]),
        unmeasured("ws-6", "Arch-5: ReLU − true gates", "a network on CIFAR-10: --full trains it"),
    ]
    noise = {
        name: [runs[f"Arch-1-adam-0.0003-{name}-gates-s{seed}"] for seed in range(3)]
        for name in ("labels", "pixels")
    }
    assert found.remarks == tuple(
        f"{label}: the network on random {name} reached "
        f"{', '.join(f'{100 * run.train[-1]:.1f} %' for run in of)} train accuracy in "
        f"{max(run.epochs[-1] for run in of):g} epochs at most."
        for name, of in noise.items()
    )


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
    names = ("ReLU", "DL", "FR-II", "FR-DI", "FL", "labels", "pixels")
    runs = made_runs(
        f"Arch-1-adam-0.0003-{name}" for name in (*names, "labels-gates", "pixels-gates")
    )
    one = "Arch-1-adam-0.0003-pixels-gates-s1"
    runs[one] = replace(runs[one], **trouble)
    found = read("workshop-table4", QUICK, runs)
    of = {
        gates: [claim for claim in found.claims if f"random-{gates} gates" in claim.statistic]
        for gates in ("label", "pixel")
    }
    assert [len(some) for some in of.values()] == [2, 2]
    assert all(claim.n == 3 for claim in of["label"])
    assert [claim.n == 3 for claim in of["pixel"]] == [judged] * 2
    for one_claim in [] if judged else of["pixel"]:
        assert one_claim.verdict == "not decided"
        assert one_claim.remark.endswith("it has not memorised them, so that this is not judged")


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
            runs,
            "Arch-5-sgd-0.5-FR-II",
            "Arch-5 VCONV SGD CIFAR-10 NPF(II)",
            5,
            Printed(58.92, 0.62),
        ),
    ]
    gap = percents(runs, "Arch-5-sgd-0.5-ReLU", 5) - percents(runs, "Arch-5-sgd-0.5-FL", 5)
    assert claims(found)[-1] == claim(
        "ws-6", "Arch-5 VCONV SGD CIFAR-10: ReLU − true gates; within ±2 of 3.96", gap
    )


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
    trend = np.polyfit(range(1, 7), by_seed.T, 1)[0]
    assert claims(found) == [
        claim(
            "npf-3",
            "FLNPF: points a stage, by least squares; above 0",
            trend,
        ),
        claim("npf-3", "FLNPF-1 − FRNPF; above 0", by_seed[:, 0] - frozen),
        unmeasured(
            "npf-3",
            "FLNPF-6; above 77.43",
            "a number of networks on CIFAR-10, which --full trains",
        ),
        unmeasured(
            "npf-7",
            "ReLU − FLNPF-1; above 4.2",
            "a number of networks on CIFAR-10, which --full trains",
        ),
    ]
    assert figures(found) == [
        (
            "stages",
            "Gates of later stages carry more",
            "epoch of the copied gates",
            "test accuracy (%)",
            False,
            False,
            [curve("FLNPF", (2, 4, 6, 8, 10, 12), by_seed), across("FRNPF", frozen.mean())],
        )
    ]


def test_npf_stages_at_full() -> None:
    runs, by_seed, frozen = stages(5)
    found = read("npf-stages", FULL, runs)
    assert [r.printed for r in found.rows] == [
        Printed(67.08),
        Printed(72.0),
        None,
        None,
        None,
        None,
        Printed(79.68),
        None,
    ]
    relu = percents(runs, "relu", 5)
    assert claims(found)[2:] == [
        claim("npf-3", "FLNPF-6; above 77.43", by_seed[:, 5]),
        claim("npf-7", "ReLU − FLNPF-1; above 4.2", relu - by_seed[:, 0]),
        claim("npf-7", "ReLU − FLNPF-6; within ±2.1", relu - by_seed[:, 5]),
    ]
    assert figures(found)[0][-1] == [
        curve("FLNPF", (10, 20, 30, 40, 50, 60), by_seed),
        across("FRNPF", frozen.mean()),
        across("CNTK (Arora et al. 2019)", 77.43, "printed"),
        across("ReLU (Table 2)", 80.43, "printed"),
    ]
