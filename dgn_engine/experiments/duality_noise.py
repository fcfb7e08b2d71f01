"""[DUAL] Experiment 2: what gates keep that were learnt under label noise (M1 … M5)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dgn_engine.config import RunConfig
from dgn_engine.experiments import Claim, Experiment, Figure, Findings, Plan, Request, Row
from dgn_engine.experiments._claims import above, judge, within
from dgn_engine.experiments._configurations import dual_config, dual_scaled_down
from dgn_engine.experiments._grid import BAND, Grid, TrainedCell, minus, training
from dgn_engine.experiments._published import comparable, printed
from dgn_engine.storage.runs.folder_layout import WEIGHTS
from dgn_engine.sweep.unit import Training, UnitFile
from dgn_engine.sweep.unit_results import UnitResults

TABLE = "duality_experiment2"
LEVELS = (0, 25, 50, 75)
FALLS = {25: 4.3, 50: 7.6, 75: 13.1}
COLUMNS = {
    "M1 ReLU best": "m1",
    "M1 ReLU end": "m1",
    "M2 fixed gates, true labels": "m2",
    "M3 fixed gates, random then true labels": "m3",
    "M4 ReLU downstream true": "m4",
    "M5 fixed gates of M4, true": "m5",
}
SEEDS = (3, 5)

Cells = dict[tuple[str, int], TrainedCell]  # by model and noise level


def plan(request: Request) -> Plan:
    """Train five models for each noise level and seed; without noise M4 is M1 and M5 is M2."""
    config = dual_config(request, 40, 100)
    units = [
        unit
        for level in LEVELS
        for seed in request.seed_range(*SEEDS)
        for unit in _models(config, level, seed)
    ]
    return Plan(
        tuple(units),
        dual_scaled_down(request),
        (
            "epochs are printed nowhere: each stage is trained as long as the others",
            "gates and weights are taken as they stand at the end of a stage",
            "each label is replaced with probability γ by a uniformly drawn class, anew for each "
            "seed; the training set of M3's first stage has only such labels",
        ),
    )


def _models(config: RunConfig, level: int, seed: int) -> Iterator[Training]:
    def noisy(gamma: float, salt: int) -> RunConfig:
        data = replace(config.data, label_noise=gamma, variant_seed=salt)
        return replace(config, data=data)

    def last(unit: Training) -> UnitFile:
        return UnitFile(unit.id, WEIGHTS)

    m1 = training(noisy(level / 100, seed), "ReLU", seed, f"m1-{level}")
    gates = last(m1)
    yield m1
    yield training(config, "FL", seed, f"m2-{level}", gates_from=gates)
    random_labels = noisy(1.0, 1000 + seed)
    upstream = training(random_labels, "FL", seed, f"m3-upstream-{level}", gates_from=gates)
    yield upstream
    yield training(config, "FL", seed, f"m3-{level}", gates_from=gates, weights_from=last(upstream))
    if level:
        m4 = training(config, "ReLU", seed, f"m4-{level}", weights_from=gates)
        yield m4
        yield training(config, "FL", seed, f"m5-{level}", gates_from=last(m4))


def findings(request: Request, results: UnitResults) -> Findings:
    grid = Grid(results, request.seed_range(*SEEDS))
    cells = {
        (model, level): grid.trained(f"{model}-{level}")
        for level in LEVELS
        for model in ("m1", "m2", "m3", *(("m4", "m5") if level else ()))
    }
    rows = tuple(
        _row(request, level, column, cells[model, level])
        for level in LEVELS
        for column, model in COLUMNS.items()
        if (model, level) in cells
    )
    figure = Figure(
        "upstream",
        "Training on noisy labels: rise, peak, fall",
        "epoch",
        "test accuracy (%)",
        tuple(cells["m1", level].accuracy_line(f"γ = {level} %") for level in LEVELS),
        note=BAND,
    )
    return Findings(rows, tuple(_claims(cells)), (figure,), columns=tuple(COLUMNS))


def _row(request: Request, level: int, column: str, cell: TrainedCell) -> Row:
    found = comparable(request, printed(TABLE, str(level), column), "the CNN on CIFAR-10")
    values = cell.last if column.endswith("end") else cell.best
    noise = f"γ = {level} %"
    return cell.row(f"{noise}: {column}", *found, values=values, place=(noise, column))


def _claims(cells: Cells) -> Iterator[Claim]:
    best = {key: cell.best for key, cell in cells.items()}
    kept = minus(best["m3", 0], best["m2", 0])
    yield judge("dual-9", "M3(0) − M2(0)", above(kept, -2.0))
    for level, fall in FALLS.items():
        m1, m2, m4 = best["m1", level], best["m2", level], best["m4", level]
        ends = cells["m1", level].last
        yield judge(
            "dual-10",
            f"M1(0) − M4({level}) − {fall:g}",
            within([value - fall for value in minus(best["m1", 0], m4)], 2.0),
            "the printed falls are those of the CNN on CIFAR-10",
        )
        same = within(minus(m4, best["m5", level]), 0.5)
        yield judge("dual-11", f"M4({level}) − M5({level})", same)
        yield judge("dual-12", f"peak − end of M1({level})", above(minus(m1, ends)))
        nearer = [
            abs(four - end) - abs(four - two) for four, two, end in zip(m4, m2, ends, strict=True)
        ]
        yield judge("dual-12", f"|M4 − M1's end| − |M4 − M2| at {level} %", above(nearer))


EXPERIMENT = Experiment(
    title="Gates learnt under label noise (M1 … M5)",
    paper="[DUAL] Experiment 2",
    about="Networks fit noisy labels in their values; their gates still serve the true ones.",
    plan=plan,
    findings=findings,
    quick_minutes=2.5,
    full_hours=8000,
    claims=("dual-9", "dual-10", "dual-11", "dual-12"),
)
