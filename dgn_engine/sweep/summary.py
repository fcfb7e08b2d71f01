"""Summarise a sweep: a row per run, and a group per setting over its seeds."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dgn_engine.errors import UserError
from dgn_engine.storage.atomic_write import write_file
from dgn_engine.storage.inner_path import inner_folder
from dgn_engine.storage.plain_data import to_plain
from dgn_engine.sweep.schedule import SOUND, UnitProgress, UnitState
from dgn_engine.sweep.statistics import mean_and_half_width
from dgn_engine.sweep.sweep_file import Sweep, SweepRun
from dgn_engine.sweep.unit import UNITS
from dgn_engine.sweep.unit_results import UnitResults
from dgn_engine.text.printable import csv_cell

JSON, CSV = "results.json", "results.csv"
FORMAT = "dgn-viewer sweep 1"
NUMBERS = ("best", "last", "train", "epochs", "seconds")


@dataclass(frozen=True)
class SummaryRow:
    """The result of a run: accuracies 0…1, NaN if there is none. A skipped run is 'done'."""

    id: str
    settings: Mapping[str, Any]
    state: str
    best: float = math.nan
    last: float = math.nan
    train: float = math.nan
    epochs: float = math.nan
    seconds: float = math.nan
    trouble: str = ""


@dataclass(frozen=True)
class SummaryGroup:
    """Runs that differ only in the seed: means and half-widths of their 95 % intervals."""

    settings: Mapping[str, Any]
    n: int
    best: tuple[float, float]
    last: tuple[float, float]
    train: tuple[float, float]
    seconds: float


def rows_of(
    sweep: Sweep,
    states: Mapping[str, UnitState],
    last: Mapping[str, UnitProgress],
    root: Path,
    results: UnitResults | None = None,
) -> list[SummaryRow]:
    """Return a row for each run of the sweep; `results` are read from `root` by default."""
    results = results or UnitResults(root)
    return [
        _summary_row(run, states.get(run.unit.id, "queued"), last, results) for run in sweep.runs
    ]


def groups_of(lines: Sequence[SummaryRow]) -> list[SummaryGroup]:
    """Group finished runs by all settings except the seed, in order of appearance."""
    groups: dict[str, list[SummaryRow]] = {}
    for line in lines:
        if line.state in ("done", "diverged"):
            groups.setdefault(json.dumps(_without_seed(line), sort_keys=True), []).append(line)
    return [
        SummaryGroup(
            settings=_without_seed(members[0]),
            n=len(members),
            best=_mean_ignoring_nan(line.best for line in members),
            last=_mean_ignoring_nan(line.last for line in members),
            train=_mean_ignoring_nan(line.train for line in members),
            seconds=sum(line.seconds for line in members),
        )
        for members in groups.values()
    ]


def write_results(
    root: Path,
    sweep: Sweep,
    lines: Sequence[SummaryRow],
    state: str,
    report: Mapping[str, Any] | None = None,
) -> None:
    """Write results.json and results.csv atomically; raises `UserError`.

    Args:
        root: the folder of the sweep.
        sweep: the sweep.
        lines: a row per run.
        state: state of the sweep.
        report: plain data to be stored as 'report' in results.json.
    """
    tree = {
        "format": FORMAT,
        "state": state,
        "fields": list(sweep.fields),
        "runs": [
            {"folder": f"{UNITS}/{line.id}", **to_plain(line, nonfinite="null")} for line in lines
        ],
        "groups": [to_plain(group, nonfinite="null") for group in groups_of(lines)],
        **({} if report is None else {"report": report}),
    }
    try:
        write_file(
            inner_folder(root) / JSON,
            (json.dumps(tree, indent=1, ensure_ascii=False) + "\n").encode(),
        )
        write_file(inner_folder(root) / CSV, _results_csv(sweep, lines).encode())
    except OSError as error:
        raise UserError(
            f"Cannot write the results to {root}: {error.strerror}.",
            kind="not-writable",
            value=str(root),
        ) from None


def _summary_row(
    run: SweepRun, state: UnitState, last: Mapping[str, UnitProgress], results: UnitResults
) -> SummaryRow:
    unit_id = run.unit.id
    word = "done" if state == "skipped" else state
    if state not in SOUND:
        progress = last.get(unit_id)
        trouble = progress.trouble if progress else ""
        return SummaryRow(unit_id, run.settings, word, trouble=trouble)
    result = results.trained_run(unit_id)
    return SummaryRow(
        id=unit_id,
        settings=run.settings,
        state=word,
        best=result.best,
        last=result.last,
        train=result.train_accuracy,
        epochs=result.epochs[-1] if result.epochs else math.nan,
        seconds=result.seconds,
        trouble="" if result.diverged_at is None else f"diverged at step {result.diverged_at:,}",
    )


def _without_seed(line: SummaryRow) -> dict[str, Any]:
    return {field: value for field, value in line.settings.items() if field != "seed"}


def _mean_ignoring_nan(values: Any) -> tuple[float, float]:
    return mean_and_half_width(tuple(value for value in values if not math.isnan(value)))


def _results_csv(sweep: Sweep, lines: Sequence[SummaryRow]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(csv_cell, ["run", *sweep.fields, "state", *NUMBERS, "trouble"]))
    for line in lines:
        settings = [_setting_text(line.settings.get(field, "")) for field in sweep.fields]
        numbers = ["" if math.isnan(getattr(line, n)) else repr(getattr(line, n)) for n in NUMBERS]
        trouble = line.trouble.splitlines()[-1] if line.trouble else ""
        texts = map(csv_cell, [line.id, *settings, line.state])
        writer.writerow([*texts, *numbers, csv_cell(trouble)])
    return text.getvalue()


def _setting_text(value: Any) -> str:
    return " ".join(str(item) for item in value) if isinstance(value, list) else str(value)
