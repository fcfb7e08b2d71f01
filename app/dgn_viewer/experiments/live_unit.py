"""Which run of an experiment the window trains itself when it is asked to watch."""

from __future__ import annotations

import json
from pathlib import Path

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.experiments.report.result_layout import PLAN
from dgn_engine.storage.plain_data import from_plain
from dgn_engine.storage.regular_files import read_text
from dgn_engine.sweep.unit import Training, Unit, unit_folder

_NEEDS = "weights.safetensors"


def to_watch(folder: Path) -> tuple[str, RunConfig]:
    """The first training that is not over and whose needs are met, else the first of all.

    Raises `UserError` where the plan is not there yet.
    """
    units = [unit for unit in _units(folder) if isinstance(unit, Training)]
    ready = [unit for unit in units if all(_over(folder, need) for need in unit.needs)]
    if not ready:
        raise UserError("The experiment has no run that can be watched yet; wait a moment.")
    open_ = [unit for unit in ready if not _over(folder, unit.id)]
    chosen = (open_ or ready)[0]
    return chosen.id, chosen.resolved(folder)


def _units(folder: Path) -> list[Unit]:
    try:
        tree = json.loads(read_text(folder / PLAN))
        return [from_plain(Unit, unit) for unit in tree.values()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise UserError("The experiment has no plan yet; wait a moment.") from None


def _over(folder: Path, unit: str) -> bool:
    """A run that is over has written its weights."""
    return (unit_folder(folder, unit) / _NEEDS).exists()
