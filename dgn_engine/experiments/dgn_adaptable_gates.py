"""[DGN] Figures 6 to 8: gates that adapt against frozen ones, on two digits; ν of the NTK."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from dgn_engine.config import RunConfig, TrainingConfig
from dgn_engine.experiments import Experiment, Figure, Findings, Plan, Request
from dgn_engine.experiments._claims import above, below, judge
from dgn_engine.experiments._configurations import base, data_of, dense, stands_in, with_training
from dgn_engine.experiments._grid import Grid, averaged, calculation, gaps, gate_source, training
from dgn_engine.experiments._kept_networks import KeptNetworks, left_out_of_nu
from dgn_engine.kernels import class_targets, spectrum, tangent_kernels
from dgn_engine.sweep.unit import CalculationInputs, Unit
from dgn_engine.sweep.unit_results import UnitResults

REGIMES = {
    "GaLU, frozen gates": "FR-II",
    "GaLU, learnt gates": "FL",
    "soft-GaLU": "DL",
    "soft-ReLU": "soft-ReLU",
    "ReLU": "ReLU",
    "gates alone": "gates-only",
}
WATCHED = {"FR-II": "frozen gates", "DL": "adaptive gates"}
SEEDS = (3, 5)
PER_CLASS = 100


def plan(request: Request) -> Plan:
    """Train under six kinds of gates; take kernels of the frozen and the adaptive ones."""
    config, kept = _config(request)
    units: list[Unit] = []
    for seed in request.seed_range(*SEEDS):
        relu = gate_source(config, seed)
        watched = [
            training(with_training(config, keep_epochs=kept), regime, seed) for regime in WATCHED
        ]
        units += [relu, *watched]
        units += [
            training(config, regime, seed, gates_of=relu)
            for regime in ("soft-ReLU", "gates-only", "FL")
        ]
        units += [calculation(f"nu-{run.id}", nu_of_stages, run) for run in watched]
    return Plan(
        tuple(units),
        (*stands_in(request, "MNIST"), "50 units a layer instead of 100"),
        (
            "squared loss, RMSprop 1e-4, batch 64, width 100, d = 5: chosen after the authors' "
            "notebook on the same two digits; the numbers are stripped from the text at hand",
            "ν is that of K = K^V + K^F on the first 100 training examples of each digit",
        ),
    )


def _config(request: Request) -> tuple[RunConfig, tuple[int, ...]]:
    """Return the configuration, and the epochs at which weights are kept."""
    epochs = request.epochs_or(60, 50)
    data = replace(data_of(request, "mnist"), binary=(4, 7))
    config = base(request, dense(50 if request.quick else 100, 5), data, epochs)
    settings = TrainingConfig("squared", "rmsprop", 1e-4, batch=64, epochs=epochs)
    kept = tuple(range(0, epochs + 1, max(1, epochs // 10)))
    return replace(config, training=settings), kept


def nu_of_stages(work: CalculationInputs) -> dict[str, Any]:
    """Return ν of the whole tangent kernel at each kept epoch, float64, its rank and cut-off and
    the target's energy that is left out."""
    (folder,) = work.needs.values()
    kept = KeptNetworks(folder, PER_CLASS)
    found: dict[str, list[float]] = {
        name: [] for name in ("epochs", "nu", "rank", "cutoff", "outside")
    }
    targets = class_targets(kept.y, kept.classes)
    for epoch, network in kept:
        whole = tangent_kernels(network, kept.x, logits="mean").whole
        found["epochs"].append(epoch)
        seen = spectrum(whole.detach(), targets)
        found["nu"].append(seen.nu or math.nan)
        found["rank"].append(seen.rank)
        found["cutoff"].append(seen.cutoff)
        found["outside"].append(seen.outside or 0.0)
    return found


def findings(request: Request, results: UnitResults) -> Findings:
    grid = Grid(results, request.seed_range(*SEEDS))
    cells = {label: grid.trained(regime) for label, regime in REGIMES.items()}
    nus = {regime: grid.calculated(f"nu-{regime}") for regime in WATCHED}
    epochs = nus["DL"]["epochs"][0]
    rows = [cell.row(label) for label, cell in cells.items()]
    rows += [
        replace(
            cell.row(f"ν of K at the end, {WATCHED[regime]}", [nu[-1] for nu in cell["nu"]]),
            epochs=epochs[-1],
        )
        for regime, cell in nus.items()
    ]
    lines = tuple(averaged(WATCHED[regime], epochs, cell["nu"]) for regime, cell in nus.items())
    figure = Figure("nu", "ν of the tangent kernel", "epoch", "ν", lines, log_y=True)
    judged = [
        judge(
            "dgn-5",
            f"{label} − frozen gates",
            above(gaps(cells[label], cells["GaLU, frozen gates"])),
        )
        for label in ("soft-GaLU", "soft-ReLU", "ReLU", "GaLU, learnt gates")
    ]
    ratios = [
        max(math.log10(a / f) for a, f in zip(adaptive[1:], frozen[1:], strict=True))
        for adaptive, frozen in zip(nus["DL"]["nu"], nus["FR-II"]["nu"], strict=True)
    ]
    judged.append(judge("dgn-6", "largest log10 ν adaptive/frozen after the start", below(ratios)))
    calculated = [result for cell in nus.values() for result in cell.results]
    remarks = left_out_of_nu("K", calculated, 2 * PER_CLASS)
    return Findings(tuple(rows), tuple(judged), (figure,), remarks)


EXPERIMENT = Experiment(
    title="Gates that adapt against frozen ones",
    paper="[DGN] Figures 6 to 8",
    about="Two digits under six kinds of gates, and ν of the tangent kernel.",
    plan=plan,
    findings=findings,
    quick_minutes=1.5,
    full_hours=0.3,
    claims=("dgn-5", "dgn-6"),
)
