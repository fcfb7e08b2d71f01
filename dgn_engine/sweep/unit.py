"""Units of work: a run to train, or something to calculate; each has one folder and one result.

A unit is idempotent: what is done is skipped, what was interrupted goes on, and what it needs is
named by the ids of other units. Units, tasks and updates cross between processes and machines as
JSON text: nothing that comes from a worker is unpickled.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.storage.plain_data import from_plain, to_plain

UNITS = "units"  # the folder within a sweep's folder; each unit has one of its own in it
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=+-]*")


class UnitFile(NamedTuple):
    """A file that another unit makes: `file` is relative to that unit's folder."""

    unit: str
    file: str

    def path(self, root: Path) -> Path:
        return unit_folder(root, self.unit) / self.file


@dataclass(frozen=True)
class Training:
    """One run. `gates_from` and `weights_from` stand for the same fields of the configuration."""

    id: str
    config: RunConfig
    gates_from: UnitFile | None = None
    weights_from: UnitFile | None = None

    @property
    def needs(self) -> tuple[str, ...]:
        made = (self.gates_from, self.weights_from)
        return tuple(dict.fromkeys(source.unit for source in made if source is not None))

    def resolved(self, root: Path) -> RunConfig:
        """Return the configuration with the paths of what other units made."""
        gating, training = self.config.gating, self.config.training
        if self.gates_from is not None:
            gating = replace(gating, gates_from=str(self.gates_from.path(root)))
        if self.weights_from is not None:
            training = replace(training, weights_from=str(self.weights_from.path(root)))
        return replace(self.config, gating=gating, training=training)


@dataclass(frozen=True)
class Calculation:
    """A function of the folders of other units: `module:function(CalculationInputs) -> JSON`.

    `arguments` are plain JSON values. The function lives in this package: nothing else is called.
    """

    id: str
    function: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class CalculationInputs:
    """The input of a calculation: arguments, the folder for its files, the folders of its needs."""

    arguments: Mapping[str, Any]
    folder: Path
    needs: Mapping[str, Path]


Unit = Training | Calculation

# 'refused': it would be refused again; 'held': another process writes its run; 'lost': its worker
# is gone, or the card that it computed on; 'crowded': it is to be tried where there is more memory.
UpdateState = Literal[
    "running", "done", "diverged", "interrupted", "failed", "refused", "held", "lost", "crowded"
]


@dataclass(frozen=True)
class ProcessId:
    pid: int
    host: str


@dataclass(frozen=True)
class UnitTask:
    """A unit to attempt. `ended`: processes that are known to be dead, whose locks do not count."""

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
    """What a worker says of a unit. `fraction` of its steps; `score`: best test accuracy so far.

    `trouble`: why it failed, with the end of its log; `holder`: who writes a run that is held on
    another machine, and may be dead; `no_memory`: it did not fit where it was tried; `notice`: a
    sentence for whoever waits for the sweep.
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
    def over(self) -> bool:
        """Whether the worker is free again."""
        return self.state != "running"

    def to_text(self) -> str:
        return json.dumps(to_plain(self))

    @staticmethod
    def from_text(text: str) -> UnitUpdate:
        update: UnitUpdate = from_plain(UnitUpdate, json.loads(text))
        return update


OnUpdate = Callable[[UnitUpdate], None]
Stopped = Callable[[], bool]  # asked often


def unit_folder(root: Path, unit_id: str) -> Path:
    """The folder of a unit; raises `UserError` where it, or that of all units, is a link."""
    folder = root / UNITS / unit_id
    for place in (folder.parent, folder):
        if place.is_symlink():
            raise UserError(
                f"{place} is a link, which is not followed; take it out of {root}.",
                kind="link",
                value=str(place),
            )
    return folder


def check_units(units: Sequence[Unit]) -> None:
    """Raise `UserError` if ids are no names or occur twice, or a need comes too late or never."""
    seen: set[str] = set()
    for unit in units:
        if not _NAME.fullmatch(unit.id) or unit.id in seen:
            raise UserError(
                f"The unit '{unit.id}' has no proper name of its own.",
                kind="no-name",
                value=unit.id,
            )
        for need in unit.needs:
            if need not in seen:
                raise UserError(
                    f"The unit '{unit.id}' needs '{need}', which does not come before.",
                    kind="wrong-order",
                    value=need,
                )
        seen.add(unit.id)


def same_unit(one: Unit, other: Unit) -> bool:
    """Whether both stand for one piece of work, on whatever device."""
    if isinstance(one, Training) and isinstance(other, Training):
        return one.config.same_run(other.config) and one == replace(other, config=one.config)
    return one == other


def unit_to_plain(unit: Unit) -> dict[str, Any]:
    """Return the unit as `unit.json` and `plan.json` hold it."""
    tree: dict[str, Any] = to_plain(unit, omit_none=True)
    return tree
