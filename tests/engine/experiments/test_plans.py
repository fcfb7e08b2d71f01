"""What is trained for each experiment: every unit of a plan, and every setting of its run.

The settings are those of the papers (docs/theory.md, published.json), of the authors' notebooks
('as in code') and, at the quick scale, of a small network on the digits.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from dgn_engine.config import DataConfig, GatingConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.experiments import Request
from dgn_engine.experiments import find_experiment as find
from dgn_engine.sweep.unit import Calculation, Training, Unit, UnitFile
from tests.engine.experiments.made_up import FULL, QUICK

BEST = "weights/best.safetensors"
LAST = "weights.safetensors"
CODE = Request(protocol="as-in-code")
FULL_CODE = Request(scale="full", protocol="as-in-code")


def fc(width: int, depth: int, **start: Any) -> NetConfig:
    return NetConfig("fc", (("width", width), ("depth", depth)), **start)


def glorot(net: NetConfig) -> NetConfig:
    """As in the authors' notebooks."""
    return replace(net, bias=True, init="glorot")


def run(
    data: str | DataConfig,
    net: NetConfig,
    epochs: int,
    *,
    beta: float = 8.0,
    epsilon: float = 0.0,
    step: float = 3e-4,
    optimiser: Any = "adam",
    batch: int = 32,
    loss: Any = "cross-entropy",
    **training: Any,
) -> RunConfig:
    """Adam 3e-4, batch 32, cross entropy, β = 8 unless said otherwise."""
    return RunConfig(
        data=DataConfig(data) if isinstance(data, str) else data,
        net=net,
        gating=GatingConfig(beta=beta, epsilon=epsilon),
        training=TrainingConfig(loss, optimiser, step, batch=batch, epochs=epochs, **training),
    )


def unit(
    config: RunConfig,
    cell: str,
    regime: str,
    seed: int,
    gates: tuple[str, str] | None = None,
    weights: tuple[str, str] | None = None,
    best: bool = False,
    **gating: Any,
) -> Training:
    """A run; `best`: it keeps its weights at its best; `gates` and `weights`: unit and file."""
    config = replace(config, seed=seed, gating=replace(config.gating, regime=regime, **gating))
    if best:
        config = replace(config, training=replace(config.training, keep_best=True))
    sources = [None if source is None else UnitFile(*source) for source in (gates, weights)]
    return Training(f"{cell}-s{seed}", config, *sources)


def five(config: RunConfig, seed: int, prefix: str) -> Iterator[Training]:
    yield unit(config, f"{prefix}-ReLU", "ReLU", seed, best=True)
    for regime in ("FR-II", "FR-DI", "DL"):
        yield unit(config, f"{prefix}-{regime}", regime, seed)
    yield unit(config, f"{prefix}-FL", "FL", seed, (f"{prefix}-ReLU-s{seed}", BEST))


def units(name: str, request: Request) -> list[Unit]:
    return list(find(name).plan(request).units)


def test_runs_are_of_batch_32_unless_a_plan_says_otherwise() -> None:
    config = units("dgn-gates-only", QUICK)[0].config  # type: ignore[union-attr]
    assert (config.training.batch, config.training.loss) == (32, "cross-entropy")
    assert (config.training.optimiser, config.training.momentum) == ("adam", 0.0)
    assert (config.net.bias, config.net.init) == (False, "kaiming")
    assert (config.gating.wiring, config.gating.value_input) == ((), "image")


@pytest.mark.parametrize(
    ("request_", "seeds", "made"),
    [
        (
            QUICK, 3,
            [
                ("fc-sgd-0.1", run("digits", fc(64, 6), 40, optimiser="sgd", step=0.1)),
                ("fc-adam-0.0003", run("digits", fc(64, 6), 40)),
            ],
        ),
        (
            CODE, 3,
            [
                (
                    "fc-sgd-0.01",
                    run("digits", glorot(fc(64, 6)), 40, optimiser="sgd", step=0.01, beta=4,
                        epsilon=0.1),
                ),
                (
                    "fc-adam-0.0001",
                    run("digits", glorot(fc(64, 6)), 40, step=1e-4, beta=4, epsilon=0.1),
                ),
            ],
        ),
        (
            FULL, 5,
            [
                *(
                    (f"fc-sgd-{s}", run("mnist", fc(128, 6), 50, optimiser="sgd", step=float(s)))
                    for s in ("0.1", "0.01", "0.001")
                ),
                ("fc-adam-0.0003", run("mnist", fc(128, 6), 20)),
                *(
                    (
                        f"vconv-sgd-{s}",
                        run("cifar10", NetConfig("vconv"), 80, optimiser="sgd", step=float(s)),
                    )
                    for s in ("0.1", "0.01", "0.001")
                ),
                ("vconv-adam-0.0003", run("cifar10", NetConfig("vconv"), 80)),
                *(
                    (
                        f"gconv-sgd-{s}",
                        run("cifar10", NetConfig("gconv"), 100, optimiser="sgd", step=float(s)),
                    )
                    for s in ("0.1", "0.01", "0.001")
                ),
                ("gconv-adam-0.0003", run("cifar10", NetConfig("gconv"), 200)),
            ],
        ),
        (
            FULL_CODE, 5,
            [
                (
                    f"{net.name}-{optimiser}-{step:g}",
                    run(data, glorot(net), epochs, optimiser=optimiser, step=step, beta=4,
                        epsilon=0.1),
                )
                for net, data, optimiser, step, epochs in (
                    (fc(128, 6), "mnist", "sgd", 1e-2, 300),
                    (fc(128, 6), "mnist", "adam", 1e-4, 100),
                    (NetConfig("vconv"), "cifar10", "sgd", 1e-2, 80),
                    (NetConfig("vconv"), "cifar10", "adam", 3e-4, 80),
                    (NetConfig("gconv"), "cifar10", "sgd", 1e-1, 100),
                    (NetConfig("gconv"), "cifar10", "adam", 3e-4, 200),
                )
            ],
        ),
        (
            Request(only="SGD", steps=(0.5, 0.25)), 3,
            [
                (f"fc-sgd-{s}", run("digits", fc(64, 6), 40, optimiser="sgd", step=float(s)))
                for s in ("0.5", "0.25")
            ],
        ),
    ],
)  # fmt: skip
def test_npf_table2_trains_five_regimes_for_each_row_step_and_seed(
    request_: Request, seeds: int, made: list[tuple[str, RunConfig]]
) -> None:
    assert units("npf-table2", request_) == [
        one
        for prefix, config in made
        for seed in range(seeds)
        for one in five(config, seed, prefix)
    ]


def noise_columns(config: RunConfig, seed: int, prefix: str) -> Iterator[Training]:
    yield from five(config, seed, prefix)
    for name, data in (
        ("labels", replace(config.data, label_noise=1.0, variant_seed=seed)),
        ("pixels", replace(config.data, pixels="random", variant_seed=seed)),
    ):
        upstream = f"{prefix}-{name}-gates"
        yield unit(replace(config, data=data), upstream, "ReLU", seed)
        yield unit(config, f"{prefix}-{name}", "FL", seed, (f"{upstream}-s{seed}", LAST))


SGD = ("0.1", "0.01", "0.001")
ARCHES = [(1, 128, 6), (2, 128, 10), (3, 256, 6), (4, 256, 10)]


@pytest.mark.parametrize(
    ("request_", "seeds", "made"),
    [
        (QUICK, 3, [("Arch-1-adam-0.0003", run("digits", fc(64, 6), 40))]),
        (
            CODE, 3,
            [("Arch-1-adam-0.0003", run("digits", glorot(fc(64, 6)), 40, beta=4, epsilon=0.1))],
        ),
        (
            Request(only="Arch-4"), 3, [("Arch-4-adam-0.0003", run("digits", fc(64, 10), 40))],
        ),
        (
            FULL, 5,
            [
                *(
                    (f"Arch-{number}-{o}-{s}",
                     run("mnist", fc(width, depth), epochs, optimiser=o, step=float(s)))
                    for number, width, depth in ARCHES
                    for o, steps, epochs in (("adam", ("0.0003",), 20), ("sgd", SGD, 50))
                    for s in steps
                ),
                *(
                    (f"Arch-5-sgd-{s}",
                     run("cifar10", NetConfig("vconv"), 80, optimiser="sgd", step=float(s)))
                    for s in SGD
                ),
            ],
        ),
    ],
)  # fmt: skip
def test_workshop_table4_trains_seven_columns(
    request_: Request, seeds: int, made: list[tuple[str, RunConfig]]
) -> None:
    assert units("workshop-table4", request_) == [
        one
        for prefix, config in made
        for seed in range(seeds)
        for one in noise_columns(config, seed, prefix)
    ]


@pytest.mark.parametrize(
    ("request_", "seeds", "every", "config"),
    [
        (QUICK, 3, 2, run("digits", fc(64, 6), 15)),
        (FULL, 5, 10, run("cifar10", NetConfig("gconv"), 80)),
        (CODE, 3, 2, run("digits", glorot(fc(64, 6)), 15, beta=4, epsilon=0.1)),
    ],
)
def test_npf_stages_copies_the_gates_of_six_stages(
    request_: Request, seeds: int, every: int, config: RunConfig
) -> None:
    kept = tuple(stage * every for stage in (1, 2, 3, 4, 5, 6))
    watched = replace(config, training=replace(config.training, epochs=kept[-1], keep_epochs=kept))
    expected = []
    for seed in range(seeds):
        expected += [unit(watched, "relu", "ReLU", seed), unit(config, "fr", "FR-II", seed)]
        expected += [
            unit(
                config, f"fl{stage}", "FL", seed,
                (f"relu-s{seed}", f"weights/epoch-{epoch:04d}.safetensors"),
            )
            for stage, epoch in enumerate(kept, 1)
        ]  # fmt: skip
    assert units("npf-stages", request_) == expected


def pair(name: str) -> DataConfig:
    return DataConfig(name, binary=(4, 7))


def notebooks_net(width: int, depth: int) -> NetConfig:
    return fc(width, depth, init="bernoulli", sigma=math.sqrt(2 / width))


RMS = {"optimiser": "rmsprop", "step": 1e-4, "batch": 64, "loss": "squared"}


@pytest.mark.parametrize(
    ("request_", "seeds", "config"),
    [
        (QUICK, 3, run(pair("digits"), notebooks_net(50, 5), 60,
                       keep_epochs=tuple(range(0, 61, 2)), **RMS)),
        (FULL, 5, run(pair("mnist"), notebooks_net(100, 5), 50,
                      keep_epochs=tuple(range(0, 51, 2)), **RMS)),
        (FULL_CODE, 5, run(pair("mnist"), notebooks_net(100, 6), 50, beta=4, epsilon=0.1,
                           keep_epochs=tuple(range(0, 51, 2)), **RMS)),
        (Request(epochs=3, seeds=1), 1, run(pair("digits"), notebooks_net(50, 5), 3,
                                            keep_epochs=(0, 1, 2, 3), **RMS)),
    ],
)  # fmt: skip
def test_npf_nu_keeps_weights_while_relu_learns_two_digits(
    request_: Request, seeds: int, config: RunConfig
) -> None:
    expected: list[Unit] = []
    for seed in range(seeds):
        expected += [
            unit(config, "relu", "ReLU", seed),
            Calculation(
                f"nu-s{seed}", "dgn_engine.experiments.npf_nu:nu_of_stages", {}, (f"relu-s{seed}",)
            ),
        ]
    assert units("npf-nu", request_) == expected


@pytest.mark.parametrize(
    ("request_", "seeds", "config"),
    [
        (QUICK, 3, run("digits", fc(64, 5), 30, keep_epochs=tuple(range(0, 31, 2)))),
        (FULL, 5, run("mnist", fc(128, 5), 60, keep_epochs=tuple(range(0, 61, 5)))),
        (FULL_CODE, 5, run("mnist", glorot(fc(128, 6)), 60, beta=4, epsilon=0.1,
                           keep_epochs=tuple(range(0, 61, 5)))),
        (Request(epochs=3, seeds=1), 1, run("digits", fc(64, 5), 3, keep_epochs=(0, 1, 2, 3))),
    ],
)  # fmt: skip
def test_npf_kernels_keeps_weights_while_dl_learns(
    request_: Request, seeds: int, config: RunConfig
) -> None:
    function = "dgn_engine.experiments.npf_kernels:kernels_of_stages"
    expected: list[Unit] = []
    for seed in range(seeds):
        expected += [
            unit(config, "dl", "DL", seed),
            Calculation(f"kernels-s{seed}", function, {}, (f"dl-s{seed}",)),
        ]
    assert units("npf-kernels", request_) == expected


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
                config, "reversed", "FL", seed, (f"ReLU-s{seed}", BEST), wiring=(3, 2, 1, 0),
                value_input="random",
            ),
        ]  # fmt: skip
    function = "dgn_engine.experiments.composite_hidden_outputs:outputs"
    expected.append(Calculation("outputs", function, {}, ("ReLU-s0", "reversed-s0")))
    assert units("composite-hidden-outputs", request_) == expected


@pytest.mark.parametrize(
    ("request_", "seeds", "config", "kept"),
    [
        (QUICK, 3, run(pair("digits"), fc(50, 5), 60, **RMS), range(0, 61, 6)),
        (FULL, 5, run(pair("mnist"), fc(100, 5), 50, **RMS), range(0, 51, 5)),
        (Request(epochs=3, seeds=1), 1, run(pair("digits"), fc(50, 5), 3, **RMS), range(4)),
    ],
)
def test_dgn_adaptable_gates(request_: Request, seeds: int, config: RunConfig, kept: range) -> None:
    watched = replace(config, training=replace(config.training, keep_epochs=tuple(kept)))
    function = "dgn_engine.experiments.dgn_adaptable_gates:nu_of_stages"
    expected: list[Unit] = []
    for s in range(seeds):
        expected += [
            unit(config, "ReLU", "ReLU", s, best=True),
            unit(watched, "FR-II", "FR-II", s),
            unit(watched, "DL", "DL", s),
            unit(config, "soft-ReLU", "soft-ReLU", s),
            unit(config, "gates-only", "gates-only", s),
            unit(config, "FL", "FL", s, (f"ReLU-s{s}", BEST)),
            Calculation(f"nu-FR-II-s{s}", function, {}, (f"FR-II-s{s}",)),
            Calculation(f"nu-DL-s{s}", function, {}, (f"DL-s{s}",)),
        ]
    assert units("dgn-adaptable-gates", request_) == expected


@pytest.mark.parametrize(
    ("request_", "seeds", "config"),
    [
        (QUICK, 3, run("digits", fc(64, 5), 40)),
        (FULL, 5, run("mnist", fc(128, 5), 50)),
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


def forty_eight(config: RunConfig, prefix: str, relus: int, seeds: int) -> Iterator[Training]:
    for seed in range(relus):
        relu = f"{prefix}-ReLU"
        yield unit(config, relu, "ReLU", seed, best=True)
        if seed >= seeds:
            continue
        for regime in ("FR-II", "FR-DI", "FL", "DL"):
            gates = (f"{relu}-s{seed}", BEST) if regime == "FL" else None
            for seen in ("image", "ones"):
                for order in permutations(range(4)):
                    cell = f"{prefix}-{regime}-{seen}-{''.join(map(str, order))}"
                    yield unit(
                        config, cell, regime, seed, gates, wiring=order, value_input=seen
                    )  # fmt: skip


CNN4 = NetConfig("cnn4", (("channels", 128),))


@pytest.mark.parametrize(
    ("request_", "rows"),
    [
        (QUICK, [("fc", run("digits", fc(32, 5), 20, beta=10, step=1e-3), 3, 1)]),
        (
            FULL,
            [
                ("fc", run("mnist", fc(128, 5), 60, beta=10, until=0.999), 3, 1),
                ("cnn", run("cifar10", CNN4, 100, beta=10, until=0.999), 3, 1),
            ],
        ),
        (
            Request(scale="full", only="FC/MNIST", epochs=3, seeds=2),
            [("fc", run("mnist", fc(128, 5), 3, beta=10), 2, 2)],
        ),
        (Request(only="CNN"), []),
    ],
)
def test_duality_48(request_: Request, rows: list[Any]) -> None:
    assert units("duality-48", request_) == [
        one
        for prefix, config, relus, seeds in rows
        for one in forty_eight(config, prefix, relus, seeds)
    ]


def dual(quick_epochs: int, full_epochs: int = 100) -> list[Any]:
    """The network of [DUAL] at both scales."""
    return [
        (QUICK, 3, run("digits", fc(64, 5), quick_epochs, beta=10, step=1e-3)),
        (FULL, 5, run("cifar10", CNN4, full_epochs, beta=10)),
    ]


@pytest.mark.parametrize(("request_", "seeds", "config"), dual(25))
def test_duality_linear_features(request_: Request, seeds: int, config: RunConfig) -> None:
    expected = []
    for s in range(seeds):
        expected += [
            unit(config, "ReLU", "ReLU", s, best=True),
            unit(config, "DL-linear", "DL-linear", s, best=True),
            unit(config, "FR-II", "FR-II", s),
            unit(config, "FR-linear", "FR-linear", s),
            unit(config, "DL", "DL", s),
            unit(config, "FL", "FL", s, (f"ReLU-s{s}", BEST)),
            unit(config, "FL-linear", "FL-linear", s, (f"DL-linear-s{s}", BEST)),
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


@pytest.mark.parametrize(("request_", "seeds", "config"), dual(20))
def test_duality_tiling(request_: Request, seeds: int, config: RunConfig) -> None:
    """The rotations are drawn by the wiring's name and the seed, the same for all regimes."""
    expected = []
    for s in range(seeds):
        expected.append(unit(config, "ReLU", "ReLU", s, best=True))
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
                if request_ == FULL:
                    gating["shift"] = tuple(draw.randint(1, 4) for _ in range(4))
            expected += [
                unit(
                    config, f"{regime}-{name}", regime, s,
                    (f"ReLU-s{s}", BEST) if regime == "FL" else None, **gating,
                )
                for regime in ("FR-II", "FL", "DL")
            ]  # fmt: skip
    assert units("duality-tiling", request_) == expected


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
    "composite-davidnet", "composite-hidden-outputs", "dgn-adaptable-gates", "dgn-gates-only",
    "dgn-random-mnist", "duality-48", "duality-linear-features", "duality-noise",
    "duality-tiling", "kernel-ridge", "npf-kernels", "npf-nu", "npf-stages", "npf-table2",
    "workshop-table4",
]  # fmt: skip


@pytest.mark.parametrize("scale", ["quick", "full"])
@pytest.mark.parametrize("name", TRAINED)
def test_what_is_asked_of_the_data_and_the_device_holds_for_every_run(
    name: str, scale: Any
) -> None:
    asked = Request(
        scale, seeds=2, epochs=17, data="fashion-mnist", data_root="/there", download=True,
        device="cpu", train_limit=1009, test_limit=1013,
    )  # fmt: skip
    runs = [one for one in units(name, asked) if isinstance(one, Training)]
    data = {replace(one.config.data, label_noise=0, pixels="true", variant_seed=0, binary=None)
            for one in runs}  # fmt: skip
    assert data == {
        DataConfig("fashion-mnist", "/there", download=True, train_limit=1009, test_limit=1013)
    }
    assert {one.config.device for one in runs} == {"cpu"}
    assert {one.config.seed for one in runs} == {0, 1}
    watched = {"npf-stages": {12, 60}}.get(name, set())
    assert {one.config.training.epochs for one in runs} - watched == {17}
