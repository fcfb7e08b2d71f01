"""What is trained for [NPF] and [WS]: every unit of a plan, and every setting of its run.

The settings are those of the papers (docs/theory.md, published.json), of the authors' notebooks
('as in code') and, at the quick scale, of a small network on the digits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from dgn_engine.config import NetConfig, RunConfig
from dgn_engine.experiments import Request
from dgn_engine.sweep.unit import Calculation, Training, Unit
from tests.engine.experiments.made_up import FULL, QUICK
from tests.engine.experiments.planned import (
    CODE,
    FULL_CODE,
    LAST,
    RMS,
    fc,
    five,
    glorot,
    notebooks_net,
    pair,
    run,
    unit,
    units,
)


def test_runs_are_of_batch_32_unless_a_plan_says_otherwise() -> None:
    config = units("npf-table2", Request(only="Adam"))[1].config  # type: ignore[union-attr]
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
                    (f"fc-sgd-{s}", run("mnist", fc(128, 6), 300, optimiser="sgd", step=float(s)))
                    for s in ("0.1", "0.01", "0.001")
                ),
                ("fc-adam-0.0003", run("mnist", fc(128, 6), 100)),
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


def noise_columns(config: RunConfig, seed: int, prefix: str, most: int) -> Iterator[Training]:
    """The gates come from a network that has memorised noise, or had so many epochs."""
    yield from five(config, seed, prefix)
    longer = replace(config.training, until=0.999, epochs=most)
    for name, data in (
        ("labels", replace(config.data, label_noise=1.0, variant_seed=seed)),
        ("pixels", replace(config.data, pixels="random", variant_seed=seed)),
    ):
        upstream = f"{prefix}-{name}-gates"
        yield unit(replace(config, data=data, training=longer), upstream, "ReLU", seed)
        yield unit(config, f"{prefix}-{name}", "FL", seed, (f"{upstream}-s{seed}", LAST))


KERAS = {**RMS, "smoothing": 0.9}  # Keras' ρ
SGD = ("0.1", "0.01", "0.001")
ARCHES = [(1, 128, 6), (2, 128, 10), (3, 256, 6), (4, 256, 10)]


@pytest.mark.parametrize(
    ("request_", "seeds", "made"),
    [
        (QUICK, 3, [("Arch-1-adam-0.0003", run("digits", fc(64, 6), 40))]),
        (
            CODE, 3,
            [("Arch-1-adam-0.0001", run("digits", glorot(fc(64, 6)), 40, step=1e-4, beta=4,
                                        epsilon=0.1))],
        ),
        (
            FULL_CODE, 5,
            [
                *(
                    (f"Arch-{number}-{o}-{s:g}",
                     run("mnist", glorot(fc(width, depth)), epochs, optimiser=o, step=s, beta=4,
                         epsilon=0.1))
                    for number, width, depth in ARCHES
                    for o, s, epochs in (("adam", 1e-4, 100), ("sgd", 1e-2, 300))
                ),
                (
                    "Arch-5-sgd-0.01",
                    run("cifar10", glorot(NetConfig("vconv")), 80, optimiser="sgd", step=1e-2,
                        beta=4, epsilon=0.1),
                ),
            ],
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
                    for o, steps, epochs in (("adam", ("0.0003",), 100), ("sgd", SGD, 300))
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
        for one in noise_columns(config, seed, prefix, 400 if request_.quick else 500)
    ]


@pytest.mark.parametrize(
    ("request_", "seeds", "every", "config"),
    [
        (QUICK, 3, 2, run("digits", fc(64, 6), 15)),
        (FULL, 5, 10, run("cifar10", NetConfig("gconv"), 80)),
        (CODE, 3, 2, run("digits", glorot(fc(64, 6)), 15, beta=4, epsilon=0.1)),
    ],
)
def test_npf_stages_copies_the_gates_of_six_stages_in_the_code_of_the_best_until_then(
    request_: Request, seeds: int, every: int, config: RunConfig
) -> None:
    kept = tuple(stage * every for stage in (1, 2, 3, 4, 5, 6))
    in_code = request_.protocol == "as-in-code"
    file = "best-until-{:04}" if in_code else "epoch-{:04}"
    training = replace(config.training, epochs=kept[-1], keep_epochs=kept, keep_best=in_code)
    watched = replace(config, training=training)
    expected = []
    for seed in range(seeds):
        expected += [unit(watched, "relu", "ReLU", seed), unit(config, "fr", "FR-II", seed)]
        expected += [
            unit(
                config,
                f"fl{stage}",
                "FL",
                seed,
                (f"relu-s{seed}", f"weights/{file.format(epoch)}.safetensors"),
            )
            for stage, epoch in enumerate(kept, 1)
        ]
    assert units("npf-stages", request_) == expected


@pytest.mark.parametrize(
    ("request_", "seeds", "config"),
    [
        (QUICK, 3, run(pair("digits"), notebooks_net(50, 5), 60,
                       keep_epochs=tuple(range(0, 61, 2)), **KERAS)),
        (FULL, 5, run(pair("mnist"), notebooks_net(100, 5), 50,
                      keep_epochs=tuple(range(0, 51, 2)), **KERAS)),
        (FULL_CODE, 5, run(pair("mnist"), notebooks_net(100, 6), 50, beta=4, epsilon=0.1,
                           keep_epochs=tuple(range(0, 51, 2)), **KERAS)),
        (Request(epochs=3, seeds=1), 1, run(pair("digits"), notebooks_net(50, 5), 3,
                                            keep_epochs=(0, 1, 2, 3), **KERAS)),
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
        (QUICK, 3, run("digits", fc(64, 6), 30, keep_epochs=tuple(range(0, 31, 2)))),
        (FULL, 5, run("mnist", fc(128, 6), 60, keep_epochs=tuple(range(0, 61, 5)))),
        (
            FULL_CODE,
            5,
            run(
                "mnist",
                glorot(fc(128, 6)),
                60,
                optimiser="sgd",
                step=1e-2,
                beta=4,
                epsilon=0.1,
                keep_epochs=tuple(range(0, 61, 5)),
            ),
        ),
        (Request(epochs=3, seeds=1), 1, run("digits", fc(64, 6), 3, keep_epochs=(0, 1, 2, 3))),
    ],
)
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


@pytest.mark.parametrize(("epochs", "most"), [(3, 30), (100, 500), (600, 600)])
def test_noise_is_learnt_for_ten_times_the_epochs_of_a_row_and_500_at_most(
    epochs: int, most: int
) -> None:
    request = Request(scale="full", only="Arch-1 w=128 d=6 Adam", epochs=epochs, seeds=1)
    learnt = {
        one.config.training.epochs
        for one in units("workshop-table4", request)
        if isinstance(one, Training) and "-gates-" in one.id
    }
    assert learnt == {most}
