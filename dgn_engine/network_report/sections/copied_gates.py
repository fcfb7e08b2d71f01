"""What the gates have learnt, [NPF] Definition 5.1: value networks trained with copies of them.

An earlier measurement of the same network is used; a new one is run if the time allows it.
"""

from __future__ import annotations

from dgn_engine.errors import UserError
from dgn_engine.experiments.report.data_sizes import expected_sizes
from dgn_engine.experiments.report.document import Document, read_document
from dgn_engine.experiments.report.figure_scenes import scene_of
from dgn_engine.experiments.report.reproduce import plan_of, reproduce
from dgn_engine.experiments.report.unit_costs import START, cost_of_units
from dgn_engine.experiments.report.write_report import ReproductionTask
from dgn_engine.figures.provenance import FigurePanel
from dgn_engine.network_report.panel_figures import describe_figure
from dgn_engine.network_report.section import (
    Quantity,
    SectionCost,
    SectionResult,
    SectionSpec,
    not_here,
)
from dgn_engine.network_report.subject import Subject
from dgn_engine.sweep.workers import find_executor


def cost(subject: Subject, limit: float) -> SectionCost:
    """Estimate the training of all value networks; nothing if it was measured before."""
    task = subject.gate_task()
    if task is None or _earlier_result(task) is not None:
        return SectionCost(0.0)
    seconds = START + cost_of_units(plan_of(task).units, "full", expected_sizes).packed
    return SectionCost(seconds, seconds)


def measure(subject: Subject, seconds: float) -> SectionResult:
    """Train value networks with the gates and with random ones, and compare their accuracy."""
    task = subject.gate_task()
    if task is None:
        raise not_here("The gates of this network cannot be copied to value networks.")
    document = _earlier_result(task)
    if document is None:
        executor = find_executor("auto", plan_of(task).units)
        document = reproduce(task, executor, lambda now, changed: None, subject.is_stopped)
    if document.state != "done":
        raise UserError(f"The measurement was {document.state}.", kind="interrupted")
    found = document.details["share"]
    percent, low, high = (
        float("nan") if found[name] is None else found[name] / 100
        for name in ("percent", "low", "high")
    )
    # Without a conclusion the gap may be nothing, or negative, and its share means nothing.
    concluded = document.details["verdict"] != "none"
    share = Quantity("share of the gap that the gates recover", percent, "percent", low, high)
    quantities = (
        *((share,) if concluded else ()),
        *(
            Quantity(
                row.label,
                row.mean / 100,
                "percent",
                (row.mean - row.half_width) / 100,
                (row.mean + row.half_width) / 100,
            )
            for row in document.rows
        ),
    )
    figure = document.figures[0]
    context = describe_figure(subject, "Gate information")
    return SectionResult(
        (*document.answer, *([_describe_meaning(low, high)] if concluded else [])),
        quantities,
        FigurePanel("gate_information", scene_of((figure,)), context),
        "Test accuracy of the value networks over training; bands: 95 % intervals over seeds.",
        " ".join(document.remarks),
    )


def _describe_meaning(low: float, high: float) -> str:
    """Say what an interval of the share means."""
    if low > 0.5:
        return "Most of what this network knows beyond random gates is in which gates open."
    if high < 0.5:
        return "Most of what this network knows beyond random gates is in its values."
    if low == low:
        return "The interval leaves open whether its gates or its values carry more."
    return ""


def _earlier_result(task: ReproductionTask) -> Document | None:
    """Return the finished result in the task's folder; None if there is none."""
    try:
        document = read_document(task.folder)
    except UserError:
        return None
    return document if document.state == "done" else None


SECTION = SectionSpec("gate-information", "Gate information", cost, measure)
