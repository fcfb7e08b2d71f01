"""Write the result of a reproduction: `results.json`, reports, tables and figures."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from dgn_engine.errors import UserError
from dgn_engine.experiments import Experiment, Findings, Plan, Request, Row
from dgn_engine.experiments._claims import at_scale, with_holm
from dgn_engine.experiments.report.data_sizes import expected_sizes
from dgn_engine.experiments.report.document import (
    Document,
    ReportRow,
    ReportUnit,
    State,
    read_document,
    to_bytes,
)
from dgn_engine.experiments.report.known_findings import known_findings
from dgn_engine.experiments.report.result_layout import FIGURES, REPORT, RESULTS, TABLES
from dgn_engine.experiments.report.run_scale import describe_substitution, scale_of
from dgn_engine.experiments.report.unit_costs import cost_of_units
from dgn_engine.storage.atomic_write import make_folder, write_file
from dgn_engine.storage.inner_path import InnerPath, inner_folder
from dgn_engine.storage.runs import run_info
from dgn_engine.sweep.schedule import SOUND, UnitProgress
from dgn_engine.sweep.statistics import find_outlier, mean_and_half_width
from dgn_engine.sweep.unit import Training, Unit, unit_folder
from dgn_engine.sweep.unit_results import UnitResults, read_unstartable, state_of

_MOST = 12  # maximum number of runs to list by name


@dataclass(frozen=True)
class ReproductionTask:
    """An experiment to reproduce.

    Attributes:
        name: its name.
        experiment: the experiment.
        request: its options.
        folder: its results folder.
        command: arguments of `dgn` that repeat it.
        files: further files to write to the folder, by name.
    """

    name: str
    experiment: Experiment
    request: Request
    folder: Path
    command: tuple[str, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)


def write_report(
    task: ReproductionTask,
    plan: Plan,
    state: State = "done",
    last: Mapping[str, UnitProgress] | None = None,
    took: float = math.nan,
) -> Document:
    """Read the results of the units and write `results.json` and the report.

    Args:
        task: the experiment.
        plan: its units.
        state: how far it is.
        last: last progress of each unit, if it was executed now.
        took: duration in seconds, NaN if unknown.
    """
    progress = last or {}
    failed = {name for name, unit_progress in progress.items() if unit_progress.state == "failed"}
    results = UnitResults(task.folder, failed)
    states = {
        unit.id: progress[unit.id].state
        if unit.id in progress
        else _state_before(unit, task.folder)
        for unit in plan.units
    }
    findings, unfinished = _available_findings(task, plan, state, results, states)
    units = tuple(
        ReportUnit(
            unit.id,
            states[unit.id],
            results.seconds_of(unit.id),
            progress[unit.id].trouble if unit.id in progress else "",
        )
        for unit in plan.units
    )
    scale = scale_of(task.experiment, task.request) if task.experiment.reproduces else None
    document = Document(
        name=task.name,
        title=task.experiment.title,
        paper=task.experiment.paper,
        about=task.experiment.about,
        scale=scale.word if scale else "",
        protocol=task.request.protocol if task.experiment.reproduces else "",
        request=asdict(task.request),
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        state=state,
        versions=run_info.package_versions(),
        machine=machine_facts(plan, task.folder, took),
        seconds=results.seconds,
        rows=tuple(report_row(row, task.request.seed_start) for row in findings.rows),
        claims=with_holm([at_scale(task.request, claim) for claim in findings.claims]),
        figures=findings.figures,
        remarks=(*findings.remarks, *_early_ends(states, results, task)),
        scaled_down=plan.scaled_down,
        choices=plan.choices,
        units=units,
        answer=findings.answer,
        details=findings.details,
        command=task.command,
        columns=findings.columns,
        estimated=_estimated_seconds(task, plan),
        notices=(*unfinished, *task_notices(task)),
    )
    write_file(inner_folder(task.folder) / RESULTS, to_bytes(document))
    document = read_document(task.folder)  # report what other readers will see
    write_files(document, task.folder)
    return document


def _estimated_seconds(task: ReproductionTask, plan: Plan) -> float:
    """Return the estimated computing time on CPUs; NaN if it is unknown."""
    try:
        cost = cost_of_units(plan.units, task.request.scale, expected_sizes)
    except UserError:  # a data set that is not here
        return math.nan
    return math.nan if cost.unknown or cost.device != "cpu" else cost.packed


def _available_findings(
    task: ReproductionTask,
    plan: Plan,
    state: State,
    results: UnitResults,
    states: Mapping[str, str],
) -> tuple[Findings, tuple[str, ...]]:
    """Return the findings known so far and, if incomplete, a sentence on what is missing."""
    if state == "running":
        return Findings(), ()
    if state == "done":
        return task.experiment.findings(task.request, results), ()
    missing = [name for name, unit_state in states.items() if unit_state not in SOUND]
    done = (
        f"{state.capitalize()}: {len(states) - len(missing):,} of {len(states):,} runs and "
        "calculations are done."
    )
    if not task.experiment.reproduces:  # a single answer, without independent rows
        if state != "failed":
            return Findings(), ()
        try:
            return task.experiment.findings(task.request, results), ()
        except UserError as refusal:
            return Findings(), (done, str(refusal))
    known = known_findings(task.experiment, task.request, plan, results, missing)
    sentences = [done]
    for heading, labels in (("Not done", known.missing), ("Partly done", known.partial)):
        if labels:
            quoted = [f"'{label}'" for label in labels]
            sentences.append(f"{heading}: {_join_names(quoted)}.")
    if known.why and not known.found.rows:
        sentences.append(known.why if known.why.endswith(".") else f"{known.why}.")
    if known.claims:
        claims = "1 claim that needs" if known.claims == 1 else f"{known.claims} claims that need"
        sentences.append(f"Left out: {claims} the missing runs.")
    return known.found, (" ".join(sentences),)


def task_notices(task: ReproductionTask) -> tuple[str, ...]:
    """Return sentences on data and scale that differ from the paper, shown at start and on top."""
    if not task.experiment.reproduces:
        return ()
    choice = (task.experiment, task.request)
    return (*describe_substitution(*choice), *scale_of(*choice).sentences)


def write_files(document: Document, folder: Path) -> None:
    """Write reports, tables and figures, each file atomically.

    Raises:
        UserError: the folder contains a link, or cannot be written.
    """
    try:
        _write_files(document, inner_folder(folder))
    except OSError as error:
        raise UserError(
            f"Cannot write the report to {folder}: {error.strerror}.",
            kind="not-writable",
            value=str(folder),
        ) from None


def _write_files(document: Document, folder: InnerPath) -> None:
    from dgn_engine.experiments.report.html import render_html
    from dgn_engine.experiments.report.markdown import render_markdown
    from dgn_engine.experiments.report.table_files import table_files

    drawn: dict[str, bytes] = {}
    if document.figures:
        from dgn_engine.experiments.report.report_figures import (
            figure_bytes,  # matplotlib takes seconds
        )

        drawn = {figure.name: figure_bytes(figure, "svg") for figure in document.figures}
    write_file(folder / f"{REPORT}.md", render_markdown(document).encode())
    write_file(folder / f"{REPORT}.html", render_html(document, drawn).encode())
    for name, content in table_files(document).items():
        make_folder(folder / TABLES)
        write_file(folder / TABLES / name, content)
    for figure in document.figures:
        make_folder(folder / FIGURES)
        for kind, content in (
            ("pdf", figure_bytes(figure, "pdf")),
            ("svg", drawn[figure.name]),
        ):
            write_file(folder / FIGURES / f"{figure.name}.{kind}", content)


def _early_ends(
    states: Mapping[str, str], results: UnitResults, task: ReproductionTask
) -> Iterator[str]:
    """Yield sentences on runs that diverged, could not start because of that, or failed."""
    diverged, unstartable = [], []
    for name in (name for name, state in states.items() if state == "diverged"):
        unstartable_unit = read_unstartable(unit_folder(task.folder, name))
        if unstartable_unit is not None:
            unstartable.append(f"'{name}' (needs '{unstartable_unit.source}')")
            continue
        try:
            diverged.append(f"'{name}' at step {results.trained_run(name).diverged_at:,}")
        except UserError:
            diverged.append(f"'{name}'")
    if diverged:
        counts = (
            "These count with their best score until then; they were not retuned."
            if task.experiment.reproduces
            else "These have no accuracy, and their seeds are left out."
        )
        yield f"Diverged: {_join_names(diverged)}. {counts}"
    if unstartable:
        yield (
            f"Not started, because the run that provides their gates or weights diverged early: "
            f"{_join_names(unstartable)}. These count as diverged."
        )
    failed = [f"'{name}'" for name, state in states.items() if state == "failed"]
    if failed:
        yield f"Failed: {_join_names(failed)}. Their table cells are empty."


def _join_names(names: list[str]) -> str:
    more = f" and {len(names) - _MOST:,} more" if len(names) > _MOST else ""
    return ", ".join(names[:_MOST]) + more


def report_row(row: Row, seed_start: int = 0) -> ReportRow:
    """Compute the statistics of a row, ignoring missing values.

    Args:
        row: the row.
        seed_start: the seed of its first value, if its values are seeds.
    """
    values = tuple(value for value in row.values if math.isfinite(value))
    mean, half = mean_and_half_width(values)
    difference = math.nan if row.printed is None else mean - row.printed.value
    outlier = find_outlier(values)
    if outlier is not None:
        first = seed_start if row.of == "seeds" else 0
        outlier = replace(outlier, number=first + row.values.index(outlier.value))
    few = (
        f"{len(values)} of {len(row.values)} have a value" if len(values) < len(row.values) else ""
    )
    return ReportRow(
        row.label,
        values,
        mean,
        half,
        row.printed,
        difference,
        row.unit,
        row.epochs,
        row.seconds,
        "; ".join(part for part in (row.remark, few) if part),
        row.of,
        row.place,
        outlier,
    )


def _state_before(unit: Unit, root: Path) -> str:
    try:
        state = state_of(unit, root)
    except UserError:
        return "queued"
    return state if state in ("done", "diverged") else "queued"


def machine_facts(plan: Plan, root: Path, took: float) -> dict[str, object]:
    """Return the hardware that executed a plan; `took` is its duration in seconds, or NaN."""
    return {
        "processor": run_info.processor_name(),
        "cores": os.cpu_count(),
        "platform": platform.platform(),
        "device": ", ".join(sorted(_used_devices(plan, root))) or "cpu",
        "wall_seconds": took if math.isfinite(took) else None,
    }


def _used_devices(plan: Plan, root: Path) -> set[str]:
    devices = set()
    for unit in plan.units:
        if isinstance(unit, Training):
            try:
                devices.add(
                    str(run_info.read_run_info(unit_folder(root, unit.id)).get("device", ""))
                )
            except UserError:
                continue
    return devices - {""}
