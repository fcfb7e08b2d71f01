"""Units of work, each with its own folder and result: trainings and calculations.

Units are idempotent: finished ones are skipped and interrupted ones resumed. They refer to their
needs by the ids of other units. Units, tasks and updates are passed between processes and machines
as JSON, so that nothing from a worker is unpickled.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path, PurePath, PureWindowsPath
from typing import Any, Literal, NamedTuple

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.frozen_data import dataclass
from dgn_engine.storage.plain_data import from_plain, to_plain

UNITS = "units"  # subfolder of a sweep's folder with one folder per unit
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=+-]*")


class UnitFile(NamedTuple):
    """A file created by another unit; `file` is relative to that unit's folder."""

    unit: str
    file: str

    def path(self, root: Path) -> Path:
        return unit_folder(root, self.unit) / self.file

    def is_at(self, path: str) -> bool:
        """Return whether a path of this or another system leads to this file in some folder."""
        inner = PurePath(UNITS, self.unit, self.file).parts
        return PureWindowsPath(path).parts[-len(inner) :] == inner  # splits at / and at \


@dataclass(frozen=True)
class Training:
    """A run to train; `gates_from` and `weights_from` replace these fields of its configuration."""

    id: str
    config: RunConfig
    gates_from: UnitFile | None = None
    weights_from: UnitFile | None = None

    @property
    def needs(self) -> tuple[str, ...]:
        sources = (self.gates_from, self.weights_from)
        return tuple(dict.fromkeys(source.unit for source in sources if source is not None))

    def resolve_paths(self, root: Path) -> RunConfig:
        """Return the configuration with the paths of the other units' files filled in."""
        gating, training = self.config.gating, self.config.training
        if self.gates_from is not None:
            gating = replace(gating, gates_from=str(self.gates_from.path(root)))
        if self.weights_from is not None:
            training = replace(training, weights_from=str(self.weights_from.path(root)))
        return replace(self.config, gating=gating, training=training)

    def is_run(self, config: RunConfig, root: Path) -> bool:
        """Return whether a run in this unit's folder has the configuration of this unit.

        The run names files of other units by their path when it began; `root` may have been moved
        or copied since.
        """
        gating, training = config.gating, config.training
        if self.gates_from is not None and self.gates_from.is_at(gating.gates_from):
            gating = replace(gating, gates_from=str(self.gates_from.path(root)))
        if self.weights_from is not None and self.weights_from.is_at(training.weights_from):
            training = replace(training, weights_from=str(self.weights_from.path(root)))
        found = replace(config, gating=gating, training=training)
        return found.is_same_run(self.resolve_paths(root))


@dataclass(frozen=True)
class Calculation:
    """A call `module:function(CalculationInputs) -> JSON` that may read other units' folders.

    `arguments` are plain JSON values. The function must belong to this package.
    """

    id: str
    function: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class CalculationInputs:
    """The inputs of a calculation: arguments, its own folder, and the folders of its needs."""

    arguments: Mapping[str, Any]
    folder: Path
    needs: Mapping[str, Path]


Unit = Training | Calculation

# 'refused': retrying is pointless; 'held': another process has locked its run; 'lost': its worker
# or GPU is gone; 'crowded': to be retried where there is more memory.
UpdateState = Literal[
    "running", "done", "diverged", "interrupted", "failed", "refused", "held", "lost", "crowded"
]


@dataclass(frozen=True)
class ProcessId:
    pid: int
    host: str


@dataclass(frozen=True)
class UnitTask:
    """A unit to execute; `ended` are processes known to be dead, whose locks do not count."""

    unit: Unit
    root: Path
    ended: tuple[ProcessId, ...] = ()

    def to_text(self) -> str:
        return json.dumps(to_plain(self, omit_none=True))

    @staticmethod
    def from_text(text: str) -> UnitTask:
        task: UnitTask = from_plain(UnitTask, json.loads(text))
        return task


@dataclass(frozen=True)
class UnitUpdate:
    """An update on a unit from its worker.

    Attributes:
        unit: its id.
        state: its state.
        fraction: share of its steps that are done.
        score: best test accuracy so far.
        trouble: why it failed, with the end of its log.
        holder: the process on another machine that has locked the run; it may be dead.
        no_memory: whether it ran out of memory.
        notice: a sentence for the user.
    """

    unit: str
    state: UpdateState
    fraction: float = 0.0
    score: float | None = None
    trouble: str = ""
    holder: ProcessId | None = None
    no_memory: bool = False
    notice: str = ""

    @property
    def is_over(self) -> bool:
        """True once the worker has finished with the unit."""
        return self.state != "running"

    def to_text(self) -> str:
        return json.dumps(to_plain(self))

    @staticmethod
    def from_text(text: str) -> UnitUpdate:
        update: UnitUpdate = from_plain(UnitUpdate, json.loads(text))
        return update


OnUpdate = Callable[[UnitUpdate], None]
Stopped = Callable[[], bool]  # polled: whether to stop


def unit_folder(root: Path, unit_id: str) -> Path:
    """Return the folder of a unit; raises `UserError` if it or its parent is a link."""
    folder = root / UNITS / unit_id
    for path in (folder.parent, folder):
        if path.is_symlink():
            raise UserError(
                f"{path} is a link, which is not followed; remove it from {root}.",
                kind="link",
                value=str(path),
            )
    return folder


def check_units(units: Sequence[Unit]) -> None:
    """Raise `UserError` for invalid or duplicate ids, or a need that does not come before."""
    ids: set[str] = set()
    for unit in units:
        if not _NAME.fullmatch(unit.id) or unit.id in ids:
            raise UserError(
                f"The unit id '{unit.id}' is invalid or not unique.",
                kind="no-name",
                value=unit.id,
            )
        for need in unit.needs:
            if need not in ids:
                raise UserError(
                    f"The unit '{unit.id}' needs '{need}', which does not come before it.",
                    kind="wrong-order",
                    value=need,
                )
        ids.add(unit.id)


def same_unit(one: Unit, other: Unit) -> bool:
    """Return whether two units are the same work, possibly on different devices."""
    if isinstance(one, Training) and isinstance(other, Training):
        return one.config.is_same_run(other.config) and one == replace(other, config=one.config)
    return one == other


def unit_to_plain(unit: Unit) -> dict[str, Any]:
    """Return the unit as stored in `unit.json` and `plan.json`."""
    tree: dict[str, Any] = to_plain(unit, omit_none=True)
    return tree
