"""What each experiment trains and calculates: settings in a reviewed file, and facts of them all.

The settings are those of the papers (docs/theory.md, published.json), of the authors' notebooks
('as in code') and, at the quick scale, of a small network on the digits.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from dgn_engine.config import DataConfig, RunConfig
from dgn_engine.experiments import Request, all_experiments
from dgn_engine.experiments import find_experiment as find
from dgn_engine.regimes import find_regime
from dgn_engine.sweep.unit import Calculation, Training, Unit
from dgn_engine.sweep.workers.batched_workers import find_stacks
from tests.engine.experiments.forty_eight import ALL, EIGHT, INPUTS, REGIMES
from tests.engine.experiments.made_up import FULL, QUICK, quantities
from tests.plugins import each
from tests.snapshots import Recorded

SHOWN = 12  # cells of a plan that are listed where there are more than twice as many
FC, CNN, VGG = (Request(scale="full", only=row) for row in ("FC", "CNN", "VGG"))
SHORT = Request(epochs=3, seeds=1)
NETWORKS = {
    "quick only FC": Request(only="FC"),
    "full only FC": FC,
    "full only CNN": CNN,
    "full only MNIST short": Request("full", only="MNIST", epochs=3, seeds=1),
    "full only VGG": VGG,
    "quick only VGG": Request(only="VGG"),
}
SPECIAL: dict[str, dict[str, Request]] = {
    "composite-davidnet": {"augmented": Request(scale="full", augmentation="davidnet")},
    "dgn-adaptable-gates": {"short": SHORT},
    "dgn-cifar10": {"dense": Request(scale="full", only="dense"), "none": Request(only="no row")},
    "duality-48": {
        "short": Request("full", only="FC/MNIST", epochs=3, seeds=2),
        "none": Request(only="CNN"),
    },
    "duality-linear-features": NETWORKS,
    "duality-tiling": NETWORKS,
    "npf-eigenvalue-bound": {"second sitting": Request(seeds=1, seed_start=4)},
    "npf-kernels": {"short": SHORT},
    "npf-nu": {"short": SHORT},
    "npf-table2": {"steps": Request(only="SGD", steps=(0.5, 0.25))},
    "workshop-table4": {"Arch-4": Request(only="Arch-4")},
}
REQUESTS = {
    f"{name} {words}": (name, request)
    for name, experiment in all_experiments().items()
    for words, request in (
        *(
            (f"{scale} {protocol}", Request(scale, protocol))  # type: ignore[arg-type]
            for scale, protocol in product(("quick", "full"), experiment.protocols)
        ),
        *SPECIAL.get(name, {}).items(),
    )
}
PLANS = pytest.mark.parametrize(("name", "request_"), REQUESTS.values(), ids=REQUESTS)


def units(name: str, request: Request) -> list[Unit]:
    return list(find(name).plan(request).units)


def cell_and_seed(unit: Unit) -> tuple[str, int]:
    cell, dash, seed = unit.id.rpartition("-s")
    return (cell, int(seed)) if dash else (unit.id, 0)


def settings_of(unit: Unit) -> dict[str, Any]:
    """Everything that a unit is told, by place: 'training.step'."""
    if isinstance(unit, Calculation):
        function = unit.function.removeprefix("dgn_engine.experiments.")
        return {"calls": function, **unit.arguments, "needs": list(unit.needs)}
    found = {
        f"{part}.{key}" if isinstance(value, dict) else part: each
        for part, value in unit.config.to_dict().items()
        for key, each in (value.items() if isinstance(value, dict) else [("", value)])
    }
    sources = {"gates": unit.gates_from, "weights": unit.weights_from}
    return found | {key: ": ".join(each) for key, each in sources.items() if each is not None}


DEFAULTS = settings_of(Training("x", RunConfig()))


def without(settings: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in settings.items() if k not in known or known[k] != v}


def shared(all_settings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    first, *others = all_settings
    return {k: v for k, v in first.items() if all(k in o and o[k] == v for o in others)}


def line(settings: Mapping[str, Any]) -> str:
    return " ".join(f"{key}={value}" for key, value in settings.items())


@PLANS
def test_a_plan_trains_and_calculates_what_is_recorded(
    name: str, request_: Request, recorded: Recorded
) -> None:
    """Cells of the first seed, without what all trainings share and what no plan sets."""
    plan = find(name).plan(request_)
    first = [unit for unit in plan.units if cell_and_seed(unit)[1] == request_.seed_start]
    groups: dict[str, dict[str, Any]] = {}
    for unit in first:
        settings = settings_of(unit)
        group = groups.setdefault(settings.get("calls", "trainings"), {})
        group[cell_and_seed(unit)[0]] = settings
    cells: dict[str, dict[str, str]] = {}
    for group, some in groups.items():
        common = shared(list(some.values()))
        shown = list(some) if len(some) <= 2 * SHOWN else [*some][:SHOWN] + [*some][-SHOWN:]
        cells[group] = {"all": line(without(common, {**DEFAULTS, "calls": group}))}
        cells[group] |= {
            cell: line(without(without(some[cell], common), DEFAULTS)) for cell in shown
        }
    recorded(
        {
            "units": len(plan.units),
            "seeds": sorted({cell_and_seed(unit)[1] for unit in plan.units}),
            **cells,
            "numbers said": quantities([*plan.scaled_down, *plan.choices]),
            "epochs": plan.epochs_from,
        }
    )


def test_what_no_plan_sets_is_recorded(recorded: Recorded) -> None:
    recorded(DEFAULTS)


@PLANS
def test_the_seeds_of_a_cell_differ_in_their_draws_alone(name: str, request_: Request) -> None:
    """What one takes of another unit is of its own seed."""
    cells: dict[str, list[tuple[int, Unit]]] = {}
    for unit in units(name, request_):
        cell, seed = cell_and_seed(unit)
        cells.setdefault(cell, []).append((seed, unit))
        assert all(need.endswith(f"-s{seed}") for need in unit.needs)
        if isinstance(unit, Training):
            assert unit.config.seed == seed
            assert (unit.gates_from is not None) == find_regime(
                unit.config.gating.regime
            ).takes_gates
    draws = {"seed", "data.variant_seed", "pre", "post"}
    draws |= {"gating.wiring", "gating.rotation", "gating.shift"}
    for some in cells.values():
        plain = [
            {key: str(value).replace(f"-s{seed}", "") for key, value in settings_of(unit).items()}
            for seed, unit in some
        ]
        assert all(set(without(each, plain[0])) <= draws for each in plain)
        salts = {
            unit.config.data.variant_seed - s for s, unit in some if isinstance(unit, Training)
        }
        assert len(salts) <= 1 or {u.config.data.variant_seed for _, u in some} == {0}  # type: ignore[union-attr]


@pytest.mark.parametrize(("request_", "orders"), [(QUICK, EIGHT), (FULL, ALL)])
def test_a_model_of_the_48_is_what_its_name_says(
    request_: Request, orders: tuple[str, ...]
) -> None:
    models = set()
    for unit in units("duality-48", request_):
        assert isinstance(unit, Training)
        prefix, _, model = cell_and_seed(unit)[0].partition("-")
        if model != "ReLU":
            gating = unit.config.gating
            order = "".join(map(str, gating.wiring))
            assert model == f"{gating.regime}-{gating.value_input}-{order}"
            models.add((unit.config.seed, prefix, gating.regime, gating.value_input, order))
    prefixes = ("fc",) if request_.quick else ("fc", "cnn")
    assert models == set(product(range(3), prefixes, REGIMES, INPUTS, orders))


def test_eight_orders_put_each_gate_layer_twice_at_each_place() -> None:
    places = [(place, layer) for order in EIGHT for place, layer in enumerate(order)]
    assert all(places.count(one) == 2 for one in product(range(4), "0123"))
    assert len(set(EIGHT)) == 8


def test_rotations_are_drawn_by_the_wiring_and_the_seed_alike_for_all_regimes() -> None:
    for unit in units("duality-tiling", FULL):
        assert isinstance(unit, Training)
        regime = unit.config.gating.regime
        wiring = cell_and_seed(unit)[0].removeprefix("fc-").removeprefix(f"{regime}-")
        if "rotated" in wiring:
            draw = random.Random(f"{wiring} {unit.config.seed}")
            assert unit.config.gating.rotation == tuple(draw.randint(1, 63) for _ in range(4))
            if unit.config.net.name == "cnn4":
                assert unit.config.gating.shift == tuple(draw.randint(1, 4) for _ in range(4))


def test_factors_of_blocks_are_drawn_by_the_seed_alike_at_all_widths() -> None:
    factors: dict[int, Any] = {}
    for unit in units("composite-resnet-kernel", FULL):
        assert isinstance(unit, Calculation)
        if unit.id.startswith("gamma"):
            drawn = (unit.arguments["pre"], unit.arguments["post"])
            assert factors.setdefault(unit.arguments["seed"], drawn) == drawn
    every = [factor for pair in factors.values() for part in pair for factor in part]
    assert len(set(every)) > 70
    assert 0.5 <= min(every) < 0.7 < 1.4 < max(every) <= 2


@pytest.mark.parametrize("name", ["duality-linear-features", "duality-tiling"])
def test_dense_networks_of_both_claims_train_in_stacks(name: str, tmp_path: Path) -> None:
    planned = units(name, FC)
    assert set().union(*find_stacks(planned, tmp_path, 1)) == {one.id for one in planned}


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


@pytest.mark.parametrize("scale", ["quick", "full"])
@pytest.mark.parametrize(
    "name",
    each(
        name
        for name, found in all_experiments().items()
        if name not in ("dgn-hard-data", "half-spaces")  # which are about data of their own
        and any(isinstance(unit, Training) for unit in found.plan(QUICK).units)
    ),
)
def test_what_is_asked_of_the_data_and_the_device_holds_for_every_run(
    name: str, scale: Any
) -> None:
    asked = Request(
        scale, seeds=2, epochs=17, data="fashion-mnist", data_root="/there", download=True,
        device="cpu", train_limit=1009, test_limit=1013,
    )  # fmt: skip
    runs = [one.config for one in units(name, asked) if isinstance(one, Training)]
    data = {
        replace(one.data, label_noise=0, pixels="true", variant_seed=0, binary=None) for one in runs
    }
    assert data == {DataConfig("fashion-mnist", "/there", True, train_limit=1009, test_limit=1013)}
    assert {(one.device, one.seed) for one in runs} == {("cpu", 0), ("cpu", 1)}
    watched = {"npf-stages": {12, 60}, "workshop-table4": {85, 170}}.get(name, set())
    assert {one.training.epochs for one in runs} - watched == {17}


@pytest.mark.parametrize(
    ("data", "stands"),
    [
        ("mnist", "64 128"),
        ("MNIST", "64 128"),
        ("digits", "1,437 8×8 MNIST"),
        ("fashion-mnist", "MNIST"),
    ],
)
def test_other_data_are_said_to_stand_for_the_papers(data: str, stands: str) -> None:
    first, *_ = find("npf-table2").plan(Request(data=data)).scaled_down
    assert quantities([first]) == [stands]
    assert (f"'{data}'" in first) == (data == "fashion-mnist")


def test_a_small_network_stands_for_the_one_that_is_asked_for() -> None:
    for name in ("duality-linear-features", "duality-tiling"):
        dense, same, cnn, usual = (
            quantities(find(name).plan(request).scaled_down)
            for request in (
                Request(only="FC"), Request(only="FC", data="mnist"), Request(only="CNN"), QUICK,
            )
        )  # fmt: skip
        assert dense[0].endswith("MNIST")
        assert dense[1:] == same
        assert cnn == usual
        assert cnn[0].endswith("CIFAR-10")


def test_the_code_of_the_authors_has_one_step_and_so_nothing_is_left_out() -> None:
    def said(request: Request) -> tuple[str, ...]:
        return find("npf-table2").plan(request).scaled_down

    (one_step,) = set(said(Request(only="SGD"))) - set(said(Request(only="SGD", steps=(0.5, 0.25))))
    assert "0.1" in one_step
    assert one_step not in said(Request(protocol="as-in-code"))
    assert find("npf-stages").plan(FULL).scaled_down == ()
