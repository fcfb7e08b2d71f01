"""Trainings that cannot begin: the run whose weights or gates they take diverged before it left
them. They count as diverged themselves; their folder says why."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from dgn_engine.storage.atomic_write import write_file
from dgn_engine.storage.plain_data import from_plain, to_plain
from dgn_engine.storage.runs.folder_layout import RUN
from dgn_engine.sweep.unit import Training, Unit, unit_folder

ORPHAN = "orphan.json"


@dataclass(frozen=True)
class UnstartableUnit:
    """`source`: the unit that left nothing; `step`: at which the first of them diverged."""

    source: str
    step: int


def find_unstartable(unit: Unit, root: Path) -> UnstartableUnit | None:
    """What keeps a unit from beginning, where its needs are over; None where nothing does."""
    if not isinstance(unit, Training) or (unit_folder(root, unit.id) / RUN).exists():
        return None
    for made in (unit.gates_from, unit.weights_from):
        if made is not None and not made.path(root).exists():
            step = _diverged_at(unit_folder(root, made.unit))
            if step is not None:
                return UnstartableUnit(made.unit, step)
    return None


def record_unstartable(unit_id: str, orphan: UnstartableUnit, root: Path) -> None:
    """Write it into the unit's folder, for who reads results there."""
    folder = unit_folder(root, unit_id)
    folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / ORPHAN, json.dumps(to_plain(orphan)).encode())


def read_unstartable(folder: Path) -> UnstartableUnit | None:
    """What a unit's folder says, where it holds no run."""
    if (folder / RUN).exists():
        return None
    try:
        tree = json.loads((folder / ORPHAN).read_text(encoding="utf-8"))
        orphan: UnstartableUnit = from_plain(UnstartableUnit, tree)
    except (OSError, ValueError, TypeError):
        return None
    return orphan


def _diverged_at(folder: Path) -> int | None:
    if not (folder / RUN).exists():
        orphan = read_unstartable(folder)
        return None if orphan is None else orphan.step
    from dgn_engine.storage.runs.run_reader import RunReader

    return RunReader(folder).diverged_at
