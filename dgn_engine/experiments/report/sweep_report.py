"""The report of a sweep: a row per setting over its seeds, and a figure per varied field.

Seeds are replicates, not a field. The report is also stored in the sweep's results.json, so that a
sweep can be opened like any result.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dgn_engine.experiments import Plan
from dgn_engine.experiments.report.document import Document, ReportUnit, State
from dgn_engine.experiments.report.write_report import machine_facts, report_row
from dgn_engine.protocol.experiments import Figure, PlottedLine, Row
from dgn_engine.storage.runs import run_info
from dgn_engine.sweep.statistics import mean_and_half_width
from dgn_engine.sweep.summary import SummaryRow
from dgn_engine.sweep.sweep_file import Sweep

SEED = "seed"
FEW = 6  # maximum number of lines, one per setting of the other fields
_DECADES = 2  # minimum range for a logarithmic axis
_OVER = ("done", "diverged")
_ACCURACY = "best test accuracy (%)"


@dataclass(frozen=True)
class _Group:
    """The runs of one setting, which differ only in the seed."""

    settings: Mapping[str, Any]
    runs: tuple[SummaryRow, ...]

    @property
    def finished_runs(self) -> list[SummaryRow]:
        return [run for run in self.runs if run.state in _OVER]


def sweep_document(
    name: str,
    sweep: Sweep,
    lines: Sequence[SummaryRow],
    state: State,
    root: Path,
    command: Sequence[str] = (),
) -> Document:
    """Return the report of the finished runs; a notice lists unfinished settings."""
    fields = [field for field in sweep.fields if field != SEED]
    groups = _group_runs(lines)
    of = "seeds" if SEED in sweep.fields else "runs"
    missing = [
        _settings_label(group.settings, fields) for group in groups if not group.finished_runs
    ]
    done = sum(line.state in _OVER for line in lines)
    notices = []
    if done < len(lines):
        open_ = f" No runs yet for: {'; '.join(missing[:FEW])}." if missing else ""
        rest = len(missing) - FEW
        more = f" And {rest:,} more setting{'s' * (rest > 1)}." if rest > 0 else ""
        notices.append(f"{done:,} of {len(lines):,} runs are done.{open_}{more}")
    return Document(
        name=f"sweep-{name}",
        title=f"Sweep {name}",
        paper="Sweep",
        about=f"{len(lines):,} run{'s' * (len(lines) != 1)} over {', '.join(sweep.fields)}.",
        scale="",
        protocol="",
        request={},
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        state=state,
        versions=run_info.package_versions(),
        machine=machine_facts(Plan(tuple(run.unit for run in sweep.runs)), root, math.nan),
        seconds=sum(line.seconds for line in lines if math.isfinite(line.seconds)),
        rows=tuple(
            report_row(_group_row(group, fields, of)) for group in groups if group.finished_runs
        ),
        figures=tuple(_field_figures(fields, groups, of)),
        units=tuple(
            ReportUnit(row.id, row.state, row.seconds, row.trouble * (row.state == "failed"))
            for row in lines
        ),
        notices=tuple(notices),
        command=tuple(command),
    )


def _group_runs(lines: Sequence[SummaryRow]) -> list[_Group]:
    groups: dict[str, list[SummaryRow]] = {}
    for line in lines:
        groups.setdefault(_value_key(_without_seed(line.settings)), []).append(line)
    return [_Group(_without_seed(runs[0].settings), tuple(runs)) for runs in groups.values()]


def _without_seed(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in settings.items() if field != SEED}


def _group_row(group: _Group, fields: Sequence[str], of: str) -> Row:
    over = group.finished_runs
    parts = [
        f"{statistic} {100 * mean:.2f} %"
        for statistic, mean in (
            ("last", _finite_mean(run.last for run in over)),
            ("train", _finite_mean(run.train for run in over)),
        )
        if math.isfinite(mean)
    ]
    if len(over) < len(group.runs):
        parts.append(f"{len(over)} of {len(group.runs)} {of} are done")
    diverged = sum(run.state == "diverged" for run in over)
    if diverged:
        parts.append(f"{diverged} diverged")
    epochs = [run.epochs for run in over if math.isfinite(run.epochs)]
    return Row(
        _settings_label(group.settings, fields) or "all",
        tuple(100 * run.best for run in over),
        epochs=max(epochs, default=math.nan),
        seconds=sum(run.seconds for run in over if math.isfinite(run.seconds)),
        remark="; ".join(parts),
        of=of,
    )


def _finite_mean(values: Any) -> float:
    return mean_and_half_width(tuple(value for value in values if math.isfinite(value)))[0]


def _settings_label(settings: Mapping[str, Any], fields: Sequence[str]) -> str:
    lasts = [field.rpartition(".")[2] for field in fields]
    named = {
        field: last if lasts.count(last) == 1 else field
        for field, last in zip(fields, lasts, strict=True)
    }
    return ", ".join(
        f"{named[f]} {_format_setting_value(settings[f])}" for f in fields if f in settings
    )


def _format_setting_value(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(_format_setting_value(item) for item in value) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _value_key(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _field_figures(fields: Sequence[str], groups: Sequence[_Group], of: str) -> list[Figure]:
    """Return a figure for each field that has several values among the finished runs."""
    over = [group for group in groups if group.finished_runs]
    figures = []
    for field in fields:
        values = {
            _value_key(g.settings[field]): g.settings[field] for g in over if field in g.settings
        }
        if len(values) > 1:
            figures.append(_field_figure(field, list(values.values()), fields, over, of))
    return figures


def _field_figure(
    field: str, values: list[Any], fields: Sequence[str], groups: Sequence[_Group], of: str
) -> Figure:
    others = [name for name in fields if name != field]
    lines: dict[str, list[_Group]] = {}
    for group in groups:
        if field in group.settings:
            rest = {name: group.settings[name] for name in others if name in group.settings}
            lines.setdefault(_settings_label(rest, others), []).append(group)
    note = f"Mean over {of} ± half-width of the 95 % interval; n is in the table."
    if len(lines) > FEW:
        lines = {"mean": [group for members in lines.values() for group in members]}
        note += f" Values are means over all settings of {', '.join(others)}."
    numeric = all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values)
    values = sorted(values) if numeric else values
    positions = {_value_key(v): float(v) if numeric else float(p) for p, v in enumerate(values)}
    return Figure(
        name="by-" + "".join(c if c.isalnum() else "_" for c in field),
        title=f"Best test accuracy by {field}",
        x=field,
        y=_ACCURACY,
        lines=tuple(
            _field_line(label or field, field, members, positions, numeric)
            for label, members in lines.items()
        ),
        log_x=numeric and values[0] > 0 and values[-1] / values[0] >= 10**_DECADES,
        categories=() if numeric else tuple(_format_setting_value(value) for value in values),
        note=note,
    )


def _field_line(
    label: str, field: str, groups: Sequence[_Group], places: Mapping[str, float], numeric: bool
) -> PlottedLine:
    """Return the mean at each value of the field; several settings are averaged per seed."""
    points = []
    for key, position in places.items():
        by_seed: dict[str, list[float]] = {}
        for group in groups:
            if _value_key(group.settings[field]) == key:
                for run in group.finished_runs:
                    if math.isfinite(run.best):
                        seed = _value_key(run.settings.get(SEED))
                        by_seed.setdefault(seed, []).append(100 * run.best)
        if by_seed:
            means = tuple(sum(scores) / len(scores) for scores in by_seed.values())
            points.append((position, *mean_and_half_width(means)))
    halves = tuple(0.0 if math.isnan(half) else half for _, _, half in points)
    return PlottedLine(
        label,
        tuple(position for position, _, _ in points),
        tuple(mean for _, mean, _ in points),
        halves if any(halves) else (),
        "line" if numeric else "points",
    )
