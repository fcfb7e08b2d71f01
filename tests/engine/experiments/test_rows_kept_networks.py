"""What is read of kernels of trained networks: made-up values in; rows, claims, figures out."""

from __future__ import annotations

import math

import numpy as np

from tests.engine.experiments.adaptation import COMPARED, KINDS, LEARNS
from tests.engine.experiments.made_up import (
    FULL,
    QUICK,
    Numbers,
    cell_row,
    claim,
    claims,
    curve,
    figures,
    made,
    made_runs,
    near,
    of,
    percents,
    read,
    row,
    rows,
    spent,
)

DEPTHS = (2, 4, 6, 8, 12, 16, 20)


def test_npf_nu() -> None:
    epochs = [0, 2, 4, 6, 60]
    values = made(
        ["nu"],
        3,
        lambda n: {
            "epochs": epochs,
            "nu": n.some(5, 1),
            "rank": n.some(5, 10),
            "outside": n.some(5),
        },
    )
    values["nu-s1"][0]["rank"][3] = 97.0
    runs = made_runs(["relu"])
    found = read("npf-nu", QUICK, runs, values)
    nu = np.array(of(values, "nu", "nu", 3))
    calculated = spent(values, "nu", 3)
    trained = sum(run.seconds for run in runs.values())
    assert rows(found) == [
        row("ν of H at the start", nu[:, 0], epochs=0, seconds=calculated),
        row("ν of H at the end", nu[:, -1], epochs=60, seconds=calculated + trained),
    ]
    assert claims(found) == [
        claim(
            "npf-4",
            "log10 ν: mean of the last fifth of the epochs less that of the first; below 0",
            np.log10(nu[:, -1] / nu[:, 0]),
        )
    ]
    assert figures(found) == [
        (
            "nu",
            "ν of the neural path kernel while training",
            "epoch",
            "ν",
            False,
            True,
            [curve("ν of the NPK", epochs, nu)],
        )
    ]
    outside = max(max(shares) for shares in of(values, "nu", "outside", 3))
    assert found.remarks == (
        "Smallest numerical rank of H: 97 of 200 (or of all examples); at most "
        f"{100 * outside:.2f} % of the targets' energy is left out of ν.",
    )
    nobody_knows = {key: (value, math.nan) for key, (value, _) in values.items()}
    start, end = read("npf-nu", QUICK, runs, nobody_knows).rows
    assert (start.seconds, end.seconds) == (0.0, near(trained))


def test_npf_kernels() -> None:
    epochs = [0, 5, 60]
    keys = ("trace_value", "trace_feature", "norm_value", "norm_feature")
    values = made(
        ["kernels"], 5, lambda n: {"epochs": epochs, **{key: n.some(3, 10) for key in keys}}
    )
    runs = made_runs(["dl"], 5)
    found = read("npf-kernels", FULL, runs, values)
    table = {key: np.array(of(values, "kernels", key, 5)) for key in keys}
    calculated = spent(values, "kernels", 5)
    trained = sum(run.seconds for run in runs.values())
    assert rows(found) == [
        row(f"{number} of {kernel} {when}", table[key][:, place], epochs=epoch, seconds=seconds)
        for number, kernel, key in (
            ("trace", "K^V", "trace_value"),
            ("trace", "K^F", "trace_feature"),
            ("norm", "K^V", "norm_value"),
            ("norm", "K^F", "norm_feature"),
        )
        for when, place, epoch, seconds in (
            ("at the start", 0, 0, calculated),
            ("at the end", -1, 60, calculated + trained),
        )
    ]
    far = {
        name: abs(np.log10(table[f"{name}_value"] / table[f"{name}_feature"])).max(axis=1)
        for name in ("trace", "norm")
    }
    assert claims(found) == [
        claim(
            "npf-5",
            f"largest |log10 K^V/K^F| of the {name} over the epochs; below 1",
            far[name],
            inside=(0, math.inf),
        )
        for name in ("trace", "norm")
    ]
    assert figures(found) == [
        (
            name,
            f"{title} of both kernels in decoupled learning",
            "epoch",
            title,
            False,
            True,
            [
                curve("K^V", epochs, table[f"{name}_value"]),
                curve("K^F", epochs, table[f"{name}_feature"]),
            ],
        )
        for name, title in (("trace", "trace"), ("norm", "Frobenius norm"))
    ]


def test_dgn_adaptable_gates() -> None:
    epochs, grams = [0, 6, 12, 60], ("K^V", "K^F", "K", "H")
    values = made(
        ["grams-FR-II-soft", "grams-DL"],
        5,
        lambda n: (
            {"epochs": epochs}
            | {g: {"nu": n.some(4, 1), "rank": n.some(4, 100), "outside": n.some(4)} for g in grams}
        ),
    )
    values["grams-DL-s1"][0]["K"]["rank"][2] = 3.0
    values["grams-FR-II-soft-s0"][0]["K"]["outside"][1] = 0.9
    values["grams-DL-s0"][0]["K"]["nu"][0] = 1e9  # at the start nothing is claimed
    runs = made_runs((*KINDS.values(), "gates-only"), 5)
    found = read("dgn-adaptable-gates", QUICK, runs, values)

    def nus(gram: str, regime: str) -> np.ndarray:
        return np.array([one["nu"] for one in of(values, f"grams-{regime}", gram, 5)])

    words = {"FR-II-soft": "frozen gates", "DL": "adaptive gates"}
    assert rows(found) == [
        *(cell_row(runs, cell, label, 5) for label, cell in KINDS.items()),
        cell_row(runs, "gates-only", "gates alone", 5),
        *(
            row(
                f"ν of {g} at the end, {words[r]}",
                nus(g, r)[:, -1],
                epochs=60,
                seconds=spent(values, f"grams-{r}", 5),
            )
            for g in grams
            for r in words
        ),
    ]
    assert claims(found) == [
        *(
            claim(
                "dgn-5",
                f"{one} − {other}; above 0",
                percents(runs, KINDS[one], 5) - percents(runs, KINDS[other], 5),
            )
            for one, other in COMPARED
        ),
        *(
            claim(
                "dgn-6",
                f"{g}: log10 ν adaptive/frozen, mean over the kept epochs after the start; below 0",
                np.log10(nus(g, "DL") / nus(g, "FR-II-soft"))[:, 1:].mean(axis=1),
            )
            for g in grams
        ),
        claim(
            "dgn-7",
            "gates alone − half of soft-GaLU; above 25",
            percents(runs, "gates-only", 5) - percents(runs, "DL", 5) / 2,
            LEARNS,
        ),
    ]
    names = {"K^V": "nu-value", "K^F": "nu-feature", "K": "nu", "H": "nu-paths"}
    assert figures(found) == [
        (
            names[g],
            f"ν of {g}, soft-GaLU",
            "epoch",
            "ν",
            False,
            True,
            [curve(label, epochs, nus(g, r)) for r, label in words.items()],
        )
        for g in grams
    ]
    assert found.remarks[2] == (
        "Smallest numerical rank of K: 3 of 200 (or of all examples); at most 90.00 % of the "
        "targets' energy is left out of ν."
    )
    assert len(found.remarks) == 4


def test_kernel_ridge() -> None:
    labels = {
        "gram": "Σ, the inputs alone",
        "npk_start": "H at the start (random gates)",
        "npk_end": "H after training (learnt gates)",
        "ntk_start": "K at the start",
        "ntk_end": "K after training",
        "limit": "K^(d), infinite width",
    }
    ridge = made(["ridge"], 3, lambda n: {key: n.one(1e4) for key in labels})
    numbers = Numbers()
    numbers.some(100)
    cntk = {
        f"cntk-s{s}": ({"cntk": numbers.one(1e4), "limit": numbers.one(1e4)}, numbers.one(100))
        for s in range(3)
    }
    runs = made_runs(["relu"])
    found = read("kernel-ridge", QUICK, runs, {**ridge, **cntk})
    times = spent(ridge, "ridge", 3), spent(cntk, "cntk", 3)
    assert rows(found) == [
        cell_row(runs, "relu", "ReLU network, all training examples"),
        *(
            row(label, 100 * np.array(of(ridge, "ridge", key, 3)), unit="%", seconds=times[0])
            for key, label in labels.items()
        ),
        row(
            "CNTK, 3 convolutions + pooling",
            100 * np.array(of(cntk, "cntk", "cntk", 3)),
            unit="%",
            seconds=times[1],
        ),
        row(
            "K^(d) on the CNTK's fewer examples",
            100 * np.array(of(cntk, "cntk", "limit", 3)),
            unit="%",
            seconds=times[1],
        ),
    ]
    assert found.claims == ()
    assert found.remarks == (
        "The kernels see far fewer examples than the network: compare them with each other.",
    )
