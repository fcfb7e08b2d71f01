"""What is trained for [DUAL], [COMP] and [DGN]: every unit of a plan, and every setting of its run.

The settings are those of the papers (docs/theory.md, published.json), of the authors' notebooks
('as in code') and, at the quick scale, of a small network on the digits.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from dgn_engine.config import DataConfig, NetConfig, RunConfig
from dgn_engine.experiments import Request
from dgn_engine.sweep.unit import Calculation, Training, Unit
from dgn_engine.sweep.workers.batched_workers import find_stacks
from tests.engine.experiments.forty_eight import ALL, EIGHT
from tests.engine.experiments.made_up import FULL, QUICK
from tests.engine.experiments.planned import (
    BEST,
    CNN4,
    LAST,
    RMS,
    fc,
    pair,
    run,
    unit,
    units,
)


@pytest.mark.parametrize(
    ("request_", "seeds", "config", "cells"),
    [
        (
            QUICK, 3,
            run("digits", NetConfig("davidnet", (("width", 4),)), 10, beta=10, optimiser="sgd",
                step=0.5, batch=256),
            [("FR-II", "image"), ("FL", "image")],
        ),
        (
            Request(scale="full", augmentation="davidnet"), 5,
            run("cifar10", NetConfig("davidnet", (("width", 64),)), 24, beta=10, optimiser="sgd",
                step=0.5, batch=256, augmentation="davidnet"),
            [(r, seen) for r in ("FR-II", "FR-DI", "FL", "DL") for seen in ("image", "ones")],
        ),
    ],
)  # fmt: skip
def test_composite_davidnet(
    request_: Request, seeds: int, config: RunConfig, cells: list[tuple[str, str]]
) -> None:
    expected = []
    for seed in range(seeds):
        gates = {"FL": (f"ReLU-s{seed}", BEST)}
        expected.append(unit(config, "ReLU", "ReLU", seed, best=True))
        expected += [
            unit(config, f"{regime}-{seen}", regime, seed, gates.get(regime), value_input=seen)
            for regime, seen in cells
        ]
    assert units("composite-davidnet", request_) == expected


@pytest.mark.parametrize(
    ("request_", "seeds", "config"),
    [
        (QUICK, 3, run("digits", NetConfig("cnn4", (("channels", 8),)), 20, beta=10, step=3e-3,
                       keep_epochs=(20,))),
        (FULL, 5, run("cifar10", NetConfig("cnn4", (("channels", 128),)), 100, beta=10,
                      keep_epochs=(100,))),
    ],
)  # fmt: skip
def test_composite_hidden_outputs(request_: Request, seeds: int, config: RunConfig) -> None:
    expected: list[Unit] = []
    for seed in range(seeds):
        expected += [
            unit(config, "ReLU", "ReLU", seed, best=True),
            unit(
                config,
                "reversed",
                "FL",
                seed,
                (f"ReLU-s{seed}", BEST),
                wiring=(3, 2, 1, 0),
                value_input="random",
            ),
        ]
    function = "dgn_engine.experiments.composite_hidden_outputs:pictures"
    expected.append(Calculation("pictures-s0", function, {}, ("ReLU-s0", "reversed-s0")))
    assert units("composite-hidden-outputs", request_) == expected


RMSPROP: dict[str, Any] = {"optimiser": "rmsprop", "batch": 64, "smoothing": 0.9}
KERAS: dict[str, Any] = {**RMS, "smoothing": 0.9}
SOFT_KINDS = ("FR-II", "FR-II-soft", "FL", "DL", "soft-ReLU")


@pytest.mark.parametrize(
    ("request_", "seeds", "config", "kept"),
    [
        (QUICK, 5, run(pair("digits"), fc(50, 5), 60, **KERAS), range(0, 61, 6)),
        (FULL, 10, run(pair("mnist"), fc(100, 5), 50, **KERAS), range(0, 51, 5)),
        (Request(epochs=3, seeds=1), 1, run(pair("digits"), fc(50, 5), 3, **KERAS), range(4)),
    ],
)
def test_dgn_adaptable_gates(request_: Request, seeds: int, config: RunConfig, kept: range) -> None:
    watched = replace(config, training=replace(config.training, keep_epochs=tuple(kept)))
    function = "dgn_engine.experiments.dgn_adaptable_gates:nus_of_stages"
    expected: list[Unit] = []
    for s in range(seeds):
        expected += [
            unit(config, "ReLU", "ReLU", s, best=True),
            unit(config, "FR-II", "FR-II", s),
            unit(watched, "FR-II-soft", "FR-II-soft", s),
            unit(config, "FL", "FL", s, (f"ReLU-s{s}", BEST)),
            unit(watched, "DL", "DL", s),
            unit(config, "soft-ReLU", "soft-ReLU", s),
            unit(config, "gates-only", "gates-only", s),
            Calculation(f"grams-FR-II-soft-s{s}", function, {}, (f"FR-II-soft-s{s}",)),
            Calculation(f"grams-DL-s{s}", function, {}, (f"DL-s{s}",)),
        ]
    assert units("dgn-adaptable-gates", request_) == expected


@pytest.mark.parametrize(
    ("request_", "seeds", "rows"),
    [
        (
            QUICK,
            3,
            {
                "dense": run("digits", fc(64, 5), 30, step=1e-3),
                "conv": run("digits", NetConfig("cnn4", (("channels", 8),)), 20, step=3e-3),
            },
        ),
        (
            FULL,
            5,
            {
                "dense": run("cifar10", fc(256, 5), 50),
                "conv": run("cifar10", NetConfig("cnn4", (("channels", 32),)), 50),
            },
        ),
        (Request(scale="full", only="dense"), 5, {"dense": run("cifar10", fc(256, 5), 50)}),
        (Request(only="nothing"), 3, {}),
    ],
)
def test_dgn_cifar10(request_: Request, seeds: int, rows: dict[str, RunConfig]) -> None:
    expected = []
    for s, (row, config) in product(range(seeds), rows.items()):
        gates = (f"{row}-ReLU-s{s}", BEST)
        expected.append(unit(config, f"{row}-ReLU", "ReLU", s, best=True))
        expected += [
            unit(config, f"{row}-{kind}", kind, s, gates if kind == "FL" else None)
            for kind in SOFT_KINDS
        ]
    assert units("dgn-cifar10", request_) == expected


@pytest.mark.parametrize(
    ("request_", "seeds", "config"),
    [
        (QUICK, 3, run("digits", fc(64, 5), 40, step=1e-3, **RMSPROP)),
        (FULL, 5, run("mnist", fc(128, 5), 50, step=1e-4, **RMSPROP)),
    ],
)
def test_dgn_gates_only(request_: Request, seeds: int, config: RunConfig) -> None:
    assert units("dgn-gates-only", request_) == [
        unit(config, regime, regime, seed)
        for seed in range(seeds)
        for regime in ("gates-only", "FR-II", "DL")
    ]


@pytest.mark.parametrize(
    ("request_", "seeds", "config"),
    [
        (QUICK, 3, run("hard", fc(32, 4), 3000, loss="squared", step=1e-3, batch=2)),
        (FULL, 10, run("hard", fc(128, 4), 20000, loss="squared", step=1e-3, batch=2)),
    ],
)
def test_dgn_hard_data(request_: Request, seeds: int, config: RunConfig) -> None:
    assert units("dgn-hard-data", request_) == [
        unit(config, regime, regime, seed) for seed in range(seeds) for regime in ("ReLU", "FRG")
    ]


@pytest.mark.parametrize(
    ("request_", "seeds", "name", "net", "epochs"),
    [(QUICK, 3, "digits", fc(64, 5), 60), (FULL, 5, "mnist", fc(256, 5), 100)],
)
def test_dgn_random_mnist(
    request_: Request, seeds: int, name: str, net: NetConfig, epochs: int
) -> None:
    expected = []
    for seed in range(seeds):
        for cell, variant in (
            ("true-labels", {}),
            ("random-labels", {"label_noise": 1.0}),
            ("random-pixels", {"pixels": "random"}),
        ):
            config = run(DataConfig(name, variant_seed=seed, **variant), net, epochs)  # type: ignore[arg-type]
            expected += [
                unit(config, f"{cell}-GaLU", "FR-II", seed),
                unit(config, f"{cell}-ReLU", "ReLU", seed),
            ]
    assert units("dgn-random-mnist", request_) == expected


def models(
    config: RunConfig, prefix: str, seeds: int, orders: tuple[str, ...]
) -> Iterator[Training]:
    for seed in range(seeds):
        relu = f"{prefix}-ReLU"
        yield unit(config, relu, "ReLU", seed, best=True)
        for regime in ("FR-II", "FR-DI", "FL", "DL"):
            gates = (f"{relu}-s{seed}", BEST) if regime == "FL" else None
            for seen in ("image", "ones"):
                for order in orders:
                    yield unit(
                        config,
                        f"{prefix}-{regime}-{seen}-{order}",
                        regime,
                        seed,
                        gates,
                        wiring=tuple(map(int, order)),
                        value_input=seen,
                    )


@pytest.mark.parametrize(
    ("request_", "rows"),
    [
        (QUICK, [("fc", run("digits", fc(32, 5), 20, beta=10, step=1e-3), 3, EIGHT)]),
        (
            FULL,
            [
                ("fc", run("mnist", fc(128, 5), 60, beta=10, until=0.999), 3, ALL),
                ("cnn", run("cifar10", CNN4, 100, beta=10, until=0.999), 3, ALL),
            ],
        ),
        (
            Request(scale="full", only="FC/MNIST", epochs=3, seeds=2),
            [("fc", run("mnist", fc(128, 5), 3, beta=10), 2, ALL)],
        ),
        (Request(only="CNN"), []),
    ],
)
def test_duality_48(request_: Request, rows: list[Any]) -> None:
    assert units("duality-48", request_) == [
        one
        for prefix, config, seeds, orders in rows
        for one in models(config, prefix, seeds, orders)
    ]


def test_eight_orders_put_each_gate_layer_twice_at_each_place() -> None:
    places = [(place, layer) for order in EIGHT for place, layer in enumerate(order)]
    assert all(places.count(one) == 2 for one in product(range(4), "0123"))
    assert len(set(EIGHT)) == 8


def dual(quick_epochs: int, full_epochs: int = 100) -> list[Any]:
    """The network of [DUAL] at both scales."""
    return [
        (QUICK, 3, run("digits", fc(64, 5), quick_epochs, beta=10, step=1e-3)),
        (FULL, 5, run("cifar10", CNN4, full_epochs, beta=10)),
    ]


def networks(quick_epochs: int) -> list[Any]:
    """Those of the claims that are tried on both networks of [DUAL], with the prefixes of cells.

    The dense one ends when it has learnt almost all, as in duality-48, or as was asked for.
    """
    quick = run("digits", fc(64, 5), quick_epochs, beta=10, step=1e-3)
    dense = run("mnist", fc(128, 5), 60, beta=10, until=0.999)
    cnn = run("cifar10", CNN4, 100, beta=10)
    return [
        (QUICK, 3, {"": quick}),
        (Request(only="FC"), 3, {"": quick}),
        (FULL, 5, {"fc-": dense, "": cnn}),
        (Request(scale="full", only="FC"), 5, {"fc-": dense}),
        (Request(scale="full", only="CNN"), 5, {"": cnn}),
        (
            Request(scale="full", only="MNIST", epochs=3, seeds=1),
            1,
            {"fc-": run("mnist", fc(128, 5), 3, beta=10)},
        ),
        (Request(scale="full", only="VGG"), 5, {}),
        (Request(only="VGG"), 3, {}),
    ]


@pytest.mark.parametrize(("request_", "seeds", "rows"), networks(25))
def test_duality_linear_features(request_: Request, seeds: int, rows: dict[str, RunConfig]) -> None:
    expected = []
    for (cell, config), s in product(rows.items(), range(seeds)):
        expected += [
            unit(config, f"{cell}ReLU", "ReLU", s, best=True),
            unit(config, f"{cell}DL-linear", "DL-linear", s, best=True),
            unit(config, f"{cell}FR-II", "FR-II", s),
            unit(config, f"{cell}FR-linear", "FR-linear", s),
            unit(config, f"{cell}DL", "DL", s),
            unit(config, f"{cell}FL", "FL", s, (f"{cell}ReLU-s{s}", BEST)),
            unit(config, f"{cell}FL-linear", "FL-linear", s, (f"{cell}DL-linear-s{s}", BEST)),
        ]
    assert units("duality-linear-features", request_) == expected


@pytest.mark.parametrize(("request_", "seeds", "config"), dual(40))
def test_duality_noise(request_: Request, seeds: int, config: RunConfig) -> None:
    expected = []
    for level in (0, 25, 50, 75):
        for s in range(seeds):
            noisy, drawn = (
                replace(config, data=replace(config.data, label_noise=share, variant_seed=salt))
                for share, salt in ((level / 100, s), (1.0, 1000 + s))
            )
            m1, m3 = (f"m1-{level}-s{s}", LAST), (f"m3-upstream-{level}-s{s}", LAST)
            expected += [
                unit(noisy, f"m1-{level}", "ReLU", s),
                unit(config, f"m2-{level}", "FL", s, m1),
                unit(drawn, f"m3-upstream-{level}", "FL", s, m1),
                unit(config, f"m3-{level}", "FL", s, m1, m3),
            ]
            if level:
                expected += [
                    unit(config, f"m4-{level}", "ReLU", s, weights=m1),
                    unit(config, f"m5-{level}", "FL", s, (f"m4-{level}-s{s}", LAST)),
                ]
    assert units("duality-noise", request_) == expected


@pytest.mark.parametrize(("request_", "seeds", "rows"), networks(20))
def test_duality_tiling(request_: Request, seeds: int, rows: dict[str, RunConfig]) -> None:
    """The rotations are drawn by the wiring's name and the seed, the same for all regimes."""
    expected = []
    for (cell, config), s in product(rows.items(), range(seeds)):
        expected.append(unit(config, f"{cell}ReLU", "ReLU", s, best=True))
        for name, tiling, turns in (
            ("identity", (), False),
            ("rotated", (), True),
            ("tiled-2", (2, 2, 2, 2), False),
            ("tiled-2-rotated", (2, 2, 2, 2), True),
            ("tiled-1321-rotated", (1, 3, 2, 1), True),
        ):
            gating: dict[str, Any] = {"tiling": tiling}
            if turns:
                draw = random.Random(f"{name} {s}")
                gating["rotation"] = tuple(draw.randint(1, 63) for _ in range(4))
                if config.net.name == "cnn4":
                    gating["shift"] = tuple(draw.randint(1, 4) for _ in range(4))
            expected += [
                unit(
                    config,
                    f"{cell}{regime}-{name}",
                    regime,
                    s,
                    (f"{cell}ReLU-s{s}", BEST) if regime == "FL" else None,
                    **gating,
                )
                for regime in ("FR-II", "FL", "DL")
            ]
    assert units("duality-tiling", request_) == expected


@pytest.mark.parametrize("name", ["duality-linear-features", "duality-tiling"])
def test_dense_networks_of_both_claims_train_in_stacks(name: str, tmp_path: Path) -> None:
    planned = units(name, Request(scale="full", only="FC"))
    stacked = set().union(*find_stacks(planned, tmp_path, 1))
    assert stacked == {one.id for one in planned}


@pytest.mark.parametrize(
    ("request_", "seeds", "config", "few", "images"),
    [
        (QUICK, 3, run("digits", fc(64, 5), 30, keep_epochs=(0, 30)), 60, 20),
        (FULL, 5, run("mnist", fc(128, 5), 20, keep_epochs=(0, 20)), 200, 40),
    ],
)
def test_kernel_ridge(
    request_: Request, seeds: int, config: RunConfig, few: int, images: int
) -> None:
    place = "dgn_engine.experiments.kernel_ridge"
    expected: list[Unit] = []
    for s in range(seeds):
        needs = (f"relu-s{s}",)
        expected += [
            unit(config, "relu", "ReLU", s),
            Calculation(
                f"ridge-s{s}", f"{place}:regressions", {"seed": s, "per_class": few}, needs
            ),
            Calculation(
                f"cntk-s{s}", f"{place}:convolutional", {"seed": s, "per_class": images}, needs
            ),
        ]
    assert units("kernel-ridge", request_) == expected


TRAINED = [
    "composite-davidnet",
    "composite-hidden-outputs",
    "dgn-adaptable-gates",
    "dgn-cifar10",
    "dgn-gates-only",
    "dgn-random-mnist",
    "duality-48",
    "duality-linear-features",
    "duality-noise",
    "duality-tiling",
    "kernel-ridge",
    "npf-kernels",
    "npf-nu",
    "npf-stages",
    "npf-table2",
    "workshop-table4",
]


@pytest.mark.parametrize("scale", ["quick", "full"])
@pytest.mark.parametrize("name", TRAINED)
def test_what_is_asked_of_the_data_and_the_device_holds_for_every_run(
    name: str, scale: Any
) -> None:
    asked = Request(
        scale,
        seeds=2,
        epochs=17,
        data="fashion-mnist",
        data_root="/there",
        download=True,
        device="cpu",
        train_limit=1009,
        test_limit=1013,
    )
    runs = [one for one in units(name, asked) if isinstance(one, Training)]
    data = {
        replace(one.config.data, label_noise=0, pixels="true", variant_seed=0, binary=None)
        for one in runs
    }
    assert data == {
        DataConfig("fashion-mnist", "/there", download=True, train_limit=1009, test_limit=1013)
    }
    assert {one.config.device for one in runs} == {"cpu"}
    assert {one.config.seed for one in runs} == {0, 1}
    watched = {"npf-stages": {12, 60}, "workshop-table4": {85, 170}}.get(name, set())
    assert {one.config.training.epochs for one in runs} - watched == {17}
