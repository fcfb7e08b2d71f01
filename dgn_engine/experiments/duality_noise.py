"""[DUAL] Experiment 2: what gates keep that were learnt under label noise (M1 … M5)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dgn_engine.config import RunConfig
from dgn_engine.experiments._experiment import Experiment, Plan, Request
from dgn_engine.experiments._findings import Claim, Figure, Findings, Row
from dgn_engine.experiments._judging import judge, judge_within
from dgn_engine.experiments._published import claim, printed
from dgn_engine.experiments._scaled import beside, dual_words
from dgn_engine.experiments._series import averaged
from dgn_engine.experiments._training import dual_config, row_of, under
from dgn_engine.storage.runs.folder_layout import WEIGHTS
from dgn_engine.sweep.unit import Training, UnitFile
from dgn_engine.sweep.unit_results import TrainedRun, UnitResults

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


def plan(request: Request) -> Plan:
    """Five models for each noise level and seed; without noise M4 is M1 and M5 is M2."""
    config = dual_config(request, 40, 100)
    units = [
        unit
        for level in LEVELS
        for seed in range(request.seeds_or(3, 5))
        for unit in _models(config, level, seed)
    ]
    return Plan(
        tuple(units),
        dual_words(request) if request.quick else (),
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

    tail = f"{level}-s{seed}"
    yield Training(f"m1-{tail}", under(noisy(level / 100, seed), "ReLU", seed))
    gates = UnitFile(f"m1-{tail}", WEIGHTS)
    yield Training(f"m2-{tail}", under(config, "FL", seed), gates_from=gates)
    upstream = under(noisy(1.0, 1000 + seed), "FL", seed)
    yield Training(f"m3-upstream-{tail}", upstream, gates_from=gates)
    values = UnitFile(f"m3-upstream-{tail}", WEIGHTS)
    yield Training(f"m3-{tail}", under(config, "FL", seed), gates, values)
    if level:
        yield Training(f"m4-{tail}", under(config, "ReLU", seed), weights_from=gates)
        made = UnitFile(f"m4-{tail}", WEIGHTS)
        yield Training(f"m5-{tail}", under(config, "FL", seed), gates_from=made)


def findings(request: Request, results: UnitResults) -> Findings:
    """The table, the upstream curves, and what the paper reads out of them."""
    seeds = range(request.seeds_or(3, 5))
    cells = {
        (model, level): [results.trained(f"{model}-{level}-s{seed}") for seed in seeds]
        for level in LEVELS
        for model in ("m1", "m2", "m3", *(("m4", "m5") if level else ()))
    }
    rows = tuple(
        row
        for level in LEVELS
        for column, model in COLUMNS.items()
        if (model, level) in cells
        for row in [_row(request, level, column, cells[model, level])]
    )
    curves = tuple(
        averaged(
            f"γ = {level} %",
            cells["m1", level][0].epochs,
            [[100 * score for score in run.test] for run in cells["m1", level]],
        )
        for level in LEVELS
    )
    figure = Figure(
        "upstream",
        "Training on noisy labels: rise, peak, fall",
        "epoch",
        "test accuracy (%)",
        curves,
    )
    return Findings(rows, tuple(_claims(request, cells)), (figure,))


Cells = dict[tuple[str, int], list[TrainedRun]]


def _row(request: Request, level: int, column: str, runs: list[TrainedRun]) -> Row:
    value, remark = beside(request, printed(TABLE, str(level), column), "the CNN on CIFAR-10")
    found = row_of(f"γ = {level} %: {column}", runs, value, remark)
    if column.endswith("end"):
        return replace(found, values=tuple(100 * run.last for run in runs))
    return found


def _claims(request: Request, cells: Cells) -> Iterator[Claim]:
    def best(model: str, level: int) -> list[float]:
        return [100 * run.best for run in cells[model, level]]

    def less(one: list[float], other: list[float]) -> list[float]:
        return [a - b for a, b in zip(one, other, strict=True)]

    yield judge(
        request, claim("dual-9"), "M3(0) − M2(0)", less(best("m3", 0), best("m2", 0)), "above", -2.0
    )
    for level, fall in FALLS.items():
        falls = less(best("m1", 0), best("m4", level))
        off = [value - fall for value in falls]
        yield judge_within(
            request,
            claim("dual-10"),
            f"M1(0) − M4({level}) − {fall:g}",
            off,
            2.0,
            remark="the printed falls are those of the CNN on CIFAR-10",
        )
        yield judge_within(
            request,
            claim("dual-11"),
            f"M4({level}) − M5({level})",
            less(best("m4", level), best("m5", level)),
            0.5,
        )
        ends = [100 * run.last for run in cells["m1", level]]
        yield judge(
            request,
            claim("dual-12"),
            f"peak − end of M1({level})",
            less(best("m1", level), ends),
            "above",
            0.0,
        )
        nearer = [
            abs(m4 - end) - abs(m4 - m2)
            for m4, m2, end in zip(best("m4", level), best("m2", level), ends, strict=True)
        ]
        yield judge(
            request,
            claim("dual-12"),
            f"|M4 − M1's end| − |M4 − M2| at {level} %",
            nearer,
            "above",
            0.0,
        )


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
