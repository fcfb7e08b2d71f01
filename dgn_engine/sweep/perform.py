"""One unit carried out in this process: skipped where it is done, continued where it was begun."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from dgn_engine.errors import UserError
from dgn_engine.protocol.events import Event
from dgn_engine.storage.runs.folder_layout import RUN
from dgn_engine.sweep.calculation import calculate, is_calculated
from dgn_engine.sweep.unit import Calculation, Training, Unit, unit_folder
from dgn_engine.sweep.unstartable import find_unstartable, read_unstartable

State = Literal["done", "diverged", "interrupted", "begun", "new"]


class UnitWatcher(Protocol):
    """Somebody who wants to know how a unit goes."""

    def stepped(self, step: int) -> None:
        """After each step of a training."""

    def on_event(self, event: Event) -> None:
        """At each event of a training."""


@dataclass(frozen=True)
class SilentWatcher:
    """Nobody watches."""

    def stepped(self, step: int) -> None:
        """Not told."""

    def on_event(self, event: Event) -> None:
        """Not told."""


def state_of(unit: Unit, root: Path) -> State:
    """What its folder says; raises `UserError` where the folder holds another unit's work."""
    folder = unit_folder(root, unit.id)
    if isinstance(unit, Calculation):
        return "done" if is_calculated(unit, folder) else "new"
    if not (folder / RUN).exists():
        return "diverged" if find_unstartable(unit, root) and read_unstartable(folder) else "new"
    from dgn_engine.storage.runs.run_reader import RunReader

    reader = RunReader(folder)
    if not reader.config.same_run(unit.resolved(root)):
        raise UserError(
            f"{folder} holds a run with another configuration; choose another folder with --out."
        )
    status = reader.outcome
    if status in ("finished", "diverged"):
        return "done" if status == "finished" else "diverged"
    return "begun"


def perform(
    unit: Unit,
    root: Path,
    watcher: UnitWatcher | None = None,
    interrupted: Callable[[], bool] = lambda: False,
) -> State:
    """Carry a unit out; 'done' or 'diverged' where there is nothing left to do, 'interrupted'
    where it was told to stop and can go on later. Raises whatever goes wrong.
    """
    state = state_of(unit, root)
    if state in ("done", "diverged"):
        return state
    if isinstance(unit, Calculation):
        calculate(unit, root)
        return "done"
    return _train(unit, root, state == "begun", watcher or SilentWatcher(), interrupted)


def _train(
    unit: Training, root: Path, begun: bool, watcher: UnitWatcher, interrupted: Callable[[], bool]
) -> State:
    from dgn_engine.storage.runs.run_folder import RunFolder
    from dgn_engine.training.headless_run import HeadlessRun

    path = unit_folder(root, unit.id)
    headless = HeadlessRun(watcher, interrupted)
    folder = RunFolder(path) if begun else RunFolder.create(path, unit.resolved(root))
    try:
        outcome = headless.go_on(folder) if begun else headless.train(folder.config, folder)
    except UserError:
        if not folder.begun:
            folder.discard()  # it never began
        raise
    finally:
        folder.close()
    if outcome.unsaved:
        raise UserError(outcome.unsaved)
    if outcome.diverged:
        return "diverged"
    return "interrupted" if interrupted() and state_of(unit, root) != "done" else "done"
