"""One experiment from its plan to its report, in a folder in which it can be gone on with."""

from __future__ import annotations

import json
import math
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from dgn_engine.errors import UserError
from dgn_engine.experiments import Experiment, Findings, Plan, Request, Row
from dgn_engine.experiments._claims import at_scale
from dgn_engine.experiments.report import progress
from dgn_engine.experiments.report.diverged import ended_early
from dgn_engine.experiments.report.document import (
    Document,
    ReportRow,
    ReportUnit,
    State,
    read,
    to_bytes,
)
from dgn_engine.experiments.report.progress import ProgressTally, ReproductionProgress
from dgn_engine.experiments.report.result_layout import PLAN, RESULTS
from dgn_engine.experiments.report.training_notes import trained_as
from dgn_engine.experiments.report.write_report import write_report
from dgn_engine.statistics import mean_and_half_width
from dgn_engine.storage.atomic_write import write_file
from dgn_engine.storage.plain_data import from_plain
from dgn_engine.storage.regular_files import read_text
from dgn_engine.storage.runs import run_info
from dgn_engine.sweep.schedule import UnitProgress
from dgn_engine.sweep.scheduler import Executor
from dgn_engine.sweep.unit import (
    Training,
    Unit,
    check_units,
    same_unit,
    unit_folder,
    unit_to_plain,
)
from dgn_engine.sweep.unit_results import UnitResults, state_of

EVERY = 0.5  # seconds between two writings of the progress
Look = Callable[[ReproductionProgress, UnitProgress | None], None]


@dataclass(frozen=True)
class ReproductionTask:
    """What is to be reproduced, and where; `command` does it again.

    `files` are written beside the result, once the folder is known to be its own.
    """

    name: str
    experiment: Experiment
    request: Request
    folder: Path
    command: tuple[str, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)


def plan_of(task: ReproductionTask) -> Plan:
    """The plan, checked; raises `UserError` where nothing is left to do."""
    plan = task.experiment.plan(task.request)
    if not plan.units:
        only = f" whose label holds '{task.request.only}'" if task.request.only else ""
        raise UserError(f"{task.name} has no rows{only} at this scale.")
    check_units(plan.units)
    return replace(
        plan,
        scaled_down=(
            *(plan.scaled_down if task.request.quick else ()),
            *_limits(task.request),
        ),
        choices=(*plan.choices, *trained_as(plan.units)),
    )


def _limits(request: Request) -> list[str]:
    """How the data were cut, a sentence each."""
    parts = ((request.train_limit, "training"), (request.test_limit, "test"))
    return [f"at most {n:,} {part} examples, balanced over the classes" for n, part in parts if n]


def reproduce(
    task: ReproductionTask, executor: Executor, look: Look, stop: Callable[[], bool] = lambda: False
) -> Document:
    """Carry the plan out as far as it goes, and write the report of what there is.

    `look` is shown each change. Raises `UserError` where the folder holds something else.
    """
    plan = plan_of(task)
    _claim_folder(task.folder, plan.units, task.files)
    tally = ProgressTally(task.name, plan.units)
    written = -math.inf

    def told(update: UnitProgress) -> None:
        nonlocal written
        tally.told(update)
        now = tally.standing()
        look(now, update)
        if time.monotonic() - written >= EVERY:
            written = time.monotonic()
            progress.write(now, task.folder)

    if not (task.folder / RESULTS).exists():  # so that a folder that is killed can be gone on with
        report(task, plan, "running")
    progress.write(tally.standing(), task.folder)
    began = time.monotonic()
    try:
        executor.run(plan.units, task.folder, told, stop)
    except BaseException:
        progress.write(tally.standing("failed"), task.folder)
        raise
    took = time.monotonic() - began
    state = _state(tally, plan)
    document = report(task, plan, state, tally.last, took)
    progress.write(tally.standing(state), task.folder)
    return document


def report_again(task: ReproductionTask) -> Document:
    """The report of what is there; raises `UserError` where a unit is not done."""
    plan = plan_of(task)
    states = [(unit.id, state_of(unit, task.folder)) for unit in plan.units]
    open_ = [name for name, state in states if state not in ("done", "diverged")]
    if open_:
        raise UserError(
            f"{len(open_)} of {len(states)} runs and calculations in {task.folder} are not done "
            f"('{open_[0]}' first); the same command without --report-only goes on with them."
        )
    return report(task, plan)


def report(
    task: ReproductionTask,
    plan: Plan,
    state: State = "done",
    last: Mapping[str, UnitProgress] | None = None,
    took: float = math.nan,
) -> Document:
    """Read what the units came to and write everything that can be read of it."""
    told = last or {}
    failed = {name for name, progress in told.items() if progress.state == "failed"}
    results = UnitResults(task.folder, failed)
    found, why = Findings(), ""
    if state in ("done", "failed"):
        try:
            found = task.experiment.findings(task.request, results)
        except UserError as refusal:
            if state == "done":
                raise
            why = str(refusal)
    units = tuple(_unit_line(unit, results, told.get(unit.id), task.folder) for unit in plan.units)
    states = {unit.id: unit.state for unit in units}
    document = Document(
        name=task.name,
        title=task.experiment.title,
        paper=task.experiment.paper,
        about=task.experiment.about,
        scale=task.request.scale,
        protocol=task.request.protocol,
        request=asdict(task.request),
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        state=state,
        versions=run_info.versions(),
        machine=_machine(plan, task.folder, took),
        seconds=results.seconds,
        rows=tuple(_line(row) for row in found.rows),
        claims=tuple(at_scale(task.request, claim) for claim in found.claims),
        figures=found.figures,
        remarks=(
            *found.remarks,
            *ended_early(states, results, task.folder),
            *((why,) if why else ()),
        ),
        scaled_down=plan.scaled_down,
        choices=plan.choices,
        units=units,
        command=task.command,
    )
    write_file(task.folder / RESULTS, to_bytes(document))
    document = read(task.folder)  # as everybody else will see it
    write_report(document, task.folder)
    return document


def _claim_folder(folder: Path, units: Sequence[Unit], files: Mapping[str, bytes]) -> None:
    """Refuse a folder in which a unit of the same name stands for something else."""
    path = folder / PLAN
    plain = {unit.id: unit_to_plain(unit) for unit in units}
    try:
        known = json.loads(read_text(path))
    except FileNotFoundError:
        known = {}
    except (OSError, ValueError, RecursionError):
        raise UserError(f"{path} cannot be read; choose another folder with --out.") from None
    if not isinstance(known, dict):
        raise UserError(f"{path} is damaged; choose another folder with --out.")
    for name, tree in plain.items():
        if not _same(known.get(name, tree), tree):
            raise UserError(
                f"{folder} holds '{name}' with other settings; repeat the command it was begun "
                "with, or choose another folder with --out."
            )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in {PLAN: json.dumps({**known, **plain}).encode(), **files}.items():
            write_file(folder / name, content)
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror}.") from None


def _same(known: object, wanted: dict[str, object]) -> bool:
    """Whether a unit of the plan there is the wanted one; what it does not say is as usual."""
    if known == wanted:
        return True
    try:
        return same_unit(from_plain(Unit, known), from_plain(Unit, wanted))
    except (UserError, TypeError, ValueError):
        return False


def _state(tally: ProgressTally, plan: Plan) -> State:
    last = [tally.last[unit.id].state if unit.id in tally.last else "queued" for unit in plan.units]
    if all(state in ("done", "skipped", "diverged") for state in last):
        return "done"
    over = all(state in progress.OVER for state in last)
    return "failed" if over else "interrupted"


def _line(row: Row) -> ReportRow:
    """With mean and interval of the values that are there."""
    values = tuple(value for value in row.values if math.isfinite(value))
    mean, half = mean_and_half_width(values)
    difference = math.nan if row.printed is None else mean - row.printed.value
    few = (
        f"{len(values)} of {len(row.values)} have a value" if len(values) < len(row.values) else ""
    )
    return ReportRow(
        row.label, values, mean, half, row.printed, difference,
        row.unit, row.epochs, row.seconds, "; ".join(part for part in (row.remark, few) if part),
    )  # fmt: skip


def _unit_line(
    unit: Unit, results: UnitResults, told: UnitProgress | None, root: Path
) -> ReportUnit:
    state = told.state if told is not None else _untold(unit, root)
    return ReportUnit(unit.id, state, results.seconds_of(unit.id), told.trouble if told else "")


def _untold(unit: Unit, root: Path) -> str:
    """The state of a unit that nobody has said anything about since."""
    try:
        state = state_of(unit, root)
    except UserError:
        return "queued"
    return state if state in ("done", "diverged") else "queued"


def _machine(plan: Plan, root: Path, took: float) -> dict[str, object]:
    return {
        "processor": run_info.processor(),
        "cores": os.cpu_count(),
        "platform": platform.platform(),
        "device": ", ".join(sorted(_devices(plan, root))) or "cpu",
        "wall_seconds": took if math.isfinite(took) else None,
    }


def _devices(plan: Plan, root: Path) -> set[str]:
    """Those that the runs were begun on."""
    seen = set()
    for unit in plan.units:
        if isinstance(unit, Training):
            try:
                seen.add(str(run_info.read(unit_folder(root, unit.id)).get("device", "")))
            except UserError:
                continue
    return seen - {""}
