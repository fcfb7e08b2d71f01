"""The rows of an experiment that --only can choose, with their estimated costs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dgn_engine.errors import UserError
from dgn_engine.experiments.report.cost import cost_of
from dgn_engine.experiments.report.data_sizes import expected_sizes
from dgn_engine.experiments.report.reproduce import has_rows, no_rows_message
from dgn_engine.experiments.report.unit_costs import Cost
from dgn_engine.experiments.report.write_report import ReproductionTask

ALL = "all rows"
LEFT_OUT = "not included at this scale"


@dataclass(frozen=True)
class RowCost:
    """The cost of the rows with a label; None, with a remark, if it is unknown."""

    label: str
    cost: Cost | None
    remark: str = ""


def row_costs(task: ReproductionTask) -> tuple[RowCost, ...]:
    """Return the costs of the rows that match the request's `only`, in the order of the paper.

    Missing data sets are assumed to have their published sizes.

    Raises:
        UserError: no label matches.
    """
    only = task.request.only
    labels = [label for label in task.experiment.rows if only in label]
    if only and not labels:
        raise UserError(no_rows_message(task), kind="no-rows", value=task.request.only)
    return tuple(_row_cost(task, label) for label in labels)


def whole_cost(task: ReproductionTask) -> RowCost:
    """Return the total cost of the request."""
    if not task.experiment.plan(task.request).units:
        return RowCost(ALL, None, LEFT_OUT)
    return _cost_or_refusal(task, ALL)


def _row_cost(task: ReproductionTask, label: str) -> RowCost:
    if not has_rows(task, label):
        return RowCost(label, None, LEFT_OUT)
    return _cost_or_refusal(replace(task, request=replace(task.request, only=label)), label)


def _cost_or_refusal(task: ReproductionTask, label: str) -> RowCost:
    try:
        return RowCost(label, cost_of(task, expected_sizes))
    except UserError as refusal:
        return RowCost(label, None, str(refusal))
