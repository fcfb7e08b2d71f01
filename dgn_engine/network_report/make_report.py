"""Estimate what the sections of a report cost, and measure those that the time limit allows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dgn_engine.errors import UserError
from dgn_engine.experiments.report import reproduction_progress
from dgn_engine.experiments.report.document import Document, ReportRow, ReportUnit
from dgn_engine.experiments.report.reproduction_progress import ReproductionProgress, RunningUnit
from dgn_engine.experiments.report.result_layout import REPORT
from dgn_engine.network_report.section import MeasuredSection, Quantity, SectionCost, SectionSpec
from dgn_engine.network_report.subject import Subject
from dgn_engine.scene.run_text import describe_data
from dgn_engine.storage.atomic_write import make_folders
from dgn_engine.storage.plain_data import to_plain
from dgn_engine.storage.runs import run_info
from dgn_engine.text.written_numbers import format_duration, format_number
from dgn_engine.training.layer_infos import count_parameters
from dgn_engine.training.out_of_memory import free_memory, is_out_of_memory

DAY = 86_400.0  # seconds
STOPPED = "The report was stopped before it."


@dataclass(frozen=True)
class NetworkReport:
    """Everything on the page.

    Attributes:
        subject: The network.
        sections: The sections in order, those left out included.
        seconds: What they took together.
        limit: The time limit of a section.
        command: Arguments of `dgn` that write the same report.
        made: Date and time, ISO 8601.
        stopped: Whether the user stopped it.
    """

    subject: Subject
    sections: tuple[MeasuredSection, ...]
    seconds: float
    limit: float
    command: tuple[str, ...]
    made: str
    stopped: bool = False

    @property
    def title(self) -> str:
        """'Report of run@900'."""
        return f"Report of {self.subject.name}"

    @property
    def network_name(self) -> str:
        """'fc 32×5: both networks of dgn-viewer, regime DL'."""
        title, own = self.subject.imported.title, self.subject.imported.config
        started = self.subject.view({}).run
        return f"{started.network_name}: {title}" if own and started is not None else title

    @property
    def lead(self) -> tuple[str, ...]:
        """The first sentence of each section that was measured."""
        return tuple(m.section.sentences[0] for m in self.sections if m.section is not None)

    @property
    def left_out(self) -> tuple[str, ...]:
        """A sentence on each section that is missing."""
        return tuple(f"{m.spec.title}: {m.why}" for m in self.sections if m.section is None)

    def facts(self) -> Iterator[tuple[str, str]]:
        """Yield what was read and assumed: a name and its value each."""
        subject, imported = self.subject, self.subject.imported
        network, examples = subject.network, subject.examples
        architecture = network.architecture
        layers = architecture.gated_nodes
        yield "Network", self.network_name
        yield "Regime", f"{imported.regime.name}. {imported.regime.about}"
        yield (
            "Layers",
            f"{len(architecture.weight_layers)} with weights, {len(layers)} of them gated; "
            f"{architecture.classes:,} output{'s' * (architecture.classes > 1)}",
        )
        parts = [network.value] if network.own_gates else [network.value, network.feature]
        yield "Parameters", f"{sum(map(count_parameters, parts)):,}"
        if imported.config is not None:
            yield "Step", f"{imported.step:,}"
        if network.gate.soft:
            epsilon = network.gate.epsilon
            also = f", ε = {format_number(epsilon)}" if epsilon else ""
            yield "Gates", f"soft, β = {format_number(network.gate.beta)}{also}"
        yield (
            "Data",
            f"{describe_data(subject.data)}: {len(examples.train_y):,} training and "
            f"{len(examples.test_y):,} test examples of {len(examples.class_names):,} classes",
        )
        yield "Inputs", subject.prepare.in_words(subject.raw_shape or tuple(subject.x.shape[1:]))
        yield (
            "Kernels on",
            f"{subject.n:,} training examples, balanced over the classes (seed {subject.seed})",
        )
        assumed = [imported.assumption] if imported.assuming else []
        for sentence in (*imported.remarks, *assumed, *subject.notes):
            yield ("Assumed" if sentence in assumed else "Remark"), sentence

    def as_plain(self) -> dict[str, Any]:
        """Return the numbers and sentences as plain data for JSON."""
        tree = {
            "name": self.subject.name,
            "network": dict(self.facts()),
            "sections": {
                m.spec.key: {
                    "title": m.spec.title,
                    "sentences": m.section.sentences,
                    "method": m.section.method,
                    "seconds": m.seconds,
                    "quantities": [_plain_quantity(q) for q in m.section.quantities],
                    "files": m.files,
                }
                for m in self.sections
                if m.section is not None
            },
            "left_out": {m.spec.key: m.why for m in self.sections if m.section is None},
        }
        plain: dict[str, Any] = to_plain(tree, nonfinite="null")
        return plain

    def as_document(self) -> Document:
        """Return the report as a result that the window and notebooks show like any other."""
        rows = tuple(
            _row(m, quantity)
            for m in self.sections
            if m.section is not None
            for quantity in m.section.quantities
        )
        return Document(
            name=REPORT,
            title=self.title,
            paper=describe_data(self.subject.data),
            about="What this network's numbers are and how usual they are.",
            scale="",
            protocol="",
            request={},
            made=self.made,
            state="interrupted" if self.stopped else "done",
            versions=run_info.package_versions(),
            machine={"processor": run_info.processor_name(), "device": "cpu"},
            seconds=self.seconds,
            rows=rows,
            remarks=tuple(f"{name}: {value}" for name, value in self.facts()),
            answer=self.lead,
            notices=tuple(f"Left out: {sentence}" for sentence in self.left_out),
            units=tuple(
                ReportUnit(m.spec.key, "done", m.seconds)
                for m in self.sections
                if m.section is not None
            ),
            details=self.as_plain(),
            command=self.command,
        )


def estimate_costs(
    subject: Subject, specs: Sequence[SectionSpec], limit: float
) -> list[MeasuredSection]:
    """Return the cost of each section, and why it will be left out if it costs too much."""
    planned = []
    for spec in specs:
        try:
            cost = spec.cost(subject, limit)
        except UserError as refusal:
            planned.append(MeasuredSection(spec, SectionCost(0.0), why=str(refusal)))
            continue
        why = ""
        if cost.least > limit:
            why = (
                f"It would take about {format_duration(cost.least)}, more than the limit of "
                f"{format_duration(limit)} a section."
            )
            if cost.least < DAY:
                why += f" --seconds {math.ceil(1.2 * cost.least)} includes it."
        planned.append(MeasuredSection(spec, cost, why=why))
    return planned


def measure_sections(
    subject: Subject,
    planned: Sequence[MeasuredSection],
    limit: float,
    folder: Path,
    command: tuple[str, ...],
    show: Callable[[MeasuredSection], None],
) -> NetworkReport:
    """Measure the sections one after another.

    Args:
        subject: The network.
        planned: The sections with their costs.
        limit: Seconds that each may take.
        folder: Where the progress is written.
        command: Arguments of `dgn` that write the same report.
        show: Called with each section when it is done or left out.

    Returns:
        The report; a section that fails is left out, with the reason.
    """
    make_folders(folder)
    began = time.monotonic()
    done: list[MeasuredSection] = []
    total = sum(min(m.cost.seconds, limit) for m in planned if not m.why) or 1.0
    for measured in planned:
        _write_progress(folder, planned, done, total, limit, time.monotonic() - began)
        if not measured.why:
            measured = _measure_section(subject, measured, limit)
        done.append(measured)
        show(measured)
    stopped = subject.is_stopped()
    took = time.monotonic() - began
    _write_progress(folder, planned, done, total, limit, took, "done")
    made = datetime.now(UTC).isoformat(timespec="seconds")
    return NetworkReport(subject, tuple(done), took, limit, command, made, stopped)


def _measure_section(subject: Subject, planned: MeasuredSection, limit: float) -> MeasuredSection:
    """Measure one section; a refusal or a lack of memory leaves it out."""
    if subject.is_stopped():
        return replace(planned, why=STOPPED)
    began = time.monotonic()
    try:
        section = planned.spec.measure(subject, limit)
    except UserError as refusal:
        return replace(planned, why=str(refusal))
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        free_memory()
        return replace(planned, why="It does not fit in memory; use fewer --examples.")
    return replace(planned, section=section, seconds=time.monotonic() - began)


def _write_progress(
    folder: Path,
    planned: Sequence[MeasuredSection],
    done: Sequence[MeasuredSection],
    total: float,
    limit: float,
    elapsed: float,
    state: str = "running",
) -> None:
    """Write how far the report is, for the window."""
    spent = sum(min(m.cost.seconds, limit) for m in done if m.section is not None)
    to_come = planned[len(done) :]
    running = tuple(
        RunningUnit(f"{m.spec.title}: {m.why or cost_in_words(m.cost)}", 0.0) for m in to_come
    )
    fraction = min(1.0, spent / total)
    progress = ReproductionProgress(
        REPORT, state, len(planned), len(done), 0, fraction, elapsed, running=running
    )
    reproduction_progress.write_progress(progress, folder)


def cost_in_words(cost: SectionCost) -> str:
    """Return 'about 29 s', and whether that is for an estimate."""
    words = "less than 1 s" if cost.seconds < 1.0 else f"about {format_duration(cost.seconds)}"
    return f"{words}, as an estimate" if cost.estimated else words


def _row(measured: MeasuredSection, quantity: Quantity) -> ReportRow:
    """Return a number as a row of a result."""
    percent = quantity.form == "percent"
    value = 100 * quantity.value if percent else quantity.value
    typical = f"trained networks: {quantity.typical}" if quantity.typical else ""
    usual = [quantity.rank, quantity.label_rank, typical]
    return ReportRow(
        f"{measured.spec.title}: {quantity.name}",
        (value,),
        value,
        math.nan,
        None,
        math.nan,
        "%" if percent else "",
        remark="; ".join(filter(None, usual)),
        of="networks",
    )


def _plain_quantity(quantity: Quantity) -> dict[str, Any]:
    return {
        "name": quantity.name,
        "value": quantity.value,
        "interval": [quantity.low, quantity.high],
        "random_networks": list(quantity.random),
        "shuffled_labels": list(quantity.shuffled),
        "typical": quantity.typical or None,
    }
