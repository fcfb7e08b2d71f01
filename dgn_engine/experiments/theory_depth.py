"""[NPF], [DGN]: how fast gradient descent is, by depth, under own, frozen and random gates."""

from __future__ import annotations

from typing import Any

import torch

from dgn_engine.experiments import _initial
from dgn_engine.experiments._descent import course, log_left
from dgn_engine.experiments._experiment import Experiment, Plan, Request
from dgn_engine.experiments._findings import Figure, Findings, Row
from dgn_engine.experiments._judging import judge
from dgn_engine.experiments._published import claim
from dgn_engine.experiments._random_gates import targets
from dgn_engine.experiments._series import averaged
from dgn_engine.random_streams import random_stream
from dgn_engine.sweep.unit import Calculation, CalculationInputs
from dgn_engine.sweep.unit_results import UnitResults

HERE = "dgn_engine.experiments.theory_depth"
DEPTHS = (2, 4, 6, 8, 12, 16, 20)
KINDS = {"relu": "ReLU", "galu": "GaLU (FR-II)", "coins": "coins (FRG)"}


def plan(request: Request) -> Plan:
    """One network for each kind of gates, depth and seed."""
    n, width, steps = (40, 64, 100) if request.quick else (200, 256, 400)
    units = tuple(
        Calculation(
            f"{kind}-d{depth}-s{seed}",
            f"{HERE}:speed",
            {"kind": kind, "depth": depth, "seed": seed, "n": n, "width": width, "steps": steps},
        )
        for kind in KINDS
        for depth in DEPTHS
        for seed in range(request.seeds_or(3, 5))
    )
    return Plan(
        units,
        (f"n = {n}, width {width}, {steps} steps instead of 200, 256, 400",)
        if request.quick
        else (),
        (
            "unit inputs of dimension 10 with correlation 0.5; y ~ U[-1, 1]; weights N(0, 2/w); "
            "α = 0.1/ρ_max(K_0), full batch",
        ),
    )


def speed(work: CalculationInputs) -> dict[str, Any]:
    """‖e_T‖²/‖e_0‖² of the trained network, and ρ_min/ρ_max of K_0."""
    given = work.arguments
    kind, width, seed, n = given["kind"], given["width"], given["seed"], given["n"]
    network = _initial.normal(10, width, given["depth"], seed, own=kind == "relu")
    if kind == "coins":
        coins = random_stream("coins", seed)
        network = network.with_gates(
            tuple(
                (torch.rand(n, width, generator=coins) < 0.5).double()
                for _ in range(given["depth"] - 1)
            )
        )
    x, y = _initial.unit_inputs(n, (10,), seed, 0.5), targets(n, seed)
    found = course(network, x, y, given["steps"])
    values = found.eigenvalues
    return {"left": found.errors[-1], "condition": float(values[0] / values[-1])}


def findings(request: Request, results: UnitResults) -> Findings:
    """The error that is left and the condition of K_0, by depth."""
    seeds = range(request.seeds_or(3, 5))
    rows: list[Row] = []
    lines = []
    left: dict[str, list[list[float]]] = {}
    for kind, label in KINDS.items():
        cells = [
            [results.calculated(f"{kind}-d{depth}-s{seed}") for depth in DEPTHS] for seed in seeds
        ]
        left[kind] = [[log_left(c["left"]) for c in curve] for curve in cells]
        lines.append(averaged(label, DEPTHS, left[kind]))
        for place, depth in enumerate(DEPTHS):
            seconds = results.seconds_of(*(f"{kind}-d{depth}-s{seed}" for seed in seeds))
            rows.append(
                Row(
                    f"{label}, d = {depth}: log10 of the error's square left",
                    tuple(curve[place] for curve in left[kind]),
                    unit="",
                    seconds=seconds,
                )
            )
            rows.append(
                Row(
                    f"{label}, d = {depth}: ρ_min/ρ_max of K_0",
                    tuple(curve[place]["condition"] for curve in cells),
                    unit="",
                    seconds=seconds,
                )
            )
    judged = tuple(
        judge(
            request,
            claim("dgn-2"),
            f"coins: d = {DEPTHS[end]} − best depth between",
            [curve[end] - min(curve[1:-1]) for curve in left["coins"]],
            "above",
            0.0,
        )
        for end in (0, -1)
    )
    figure = Figure(
        "speed",
        "Training speed by depth",
        "depth d",
        "log10 of the error's square left",
        tuple(lines),
    )
    return Findings(tuple(rows), judged, (figure,))


EXPERIMENT = Experiment(
    title="Training speed by depth",
    paper="[NPF] §3, [DGN] §3",
    about="Real gradient descent, not its kernel's: own gates, frozen ones, coins.",
    plan=plan,
    findings=findings,
    quick_minutes=1.0,
    full_hours=0.3,
    claims=("dgn-2",),
)
