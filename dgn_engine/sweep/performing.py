"""One unit carried out in this process: skipped where it is done, continued where it was begun."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from dgn_engine.protocol.events import Event
from dgn_engine.refusal import Refusal
from dgn_engine.runs.durable import write_file
from dgn_engine.runs.places import RUN
from dgn_engine.sweep.unit import Calculation, Training, Unit, Work, unit_folder

RESULT = "result.json"  # of a calculation
PACKAGE = "dgn_engine."
State = Literal["done", "diverged", "interrupted", "begun", "new"]


class Watcher(Protocol):
    """Somebody who wants to know how a unit goes."""

    def stepped(self, step: int) -> None:
        """After each step of a training."""

    def on_event(self, event: Event) -> None:
        """At each event of a training."""


@dataclass(frozen=True)
class Quiet:
    """Nobody watches."""

    def stepped(self, step: int) -> None:
        """Not told."""

    def on_event(self, event: Event) -> None:
        """Not told."""


def state_of(unit: Unit, root: Path) -> State:
    """What its folder says; raises `Refusal` where the folder holds another unit's work."""
    folder = unit_folder(root, unit.id)
    if isinstance(unit, Calculation):
        return "done" if (folder / RESULT).exists() else "new"
    if not (folder / RUN).exists():
        return "new"
    from dgn_engine.runs.reader import RunReader

    reader = RunReader(folder)
    if reader.config != unit.resolved(root):
        raise Refusal(
            f"{folder} holds a run with another configuration; choose another folder with --out."
        )
    status = reader.outcome
    if status in ("finished", "diverged"):
        return "done" if status == "finished" else "diverged"
    return "begun"


def perform(
    unit: Unit,
    root: Path,
    watcher: Watcher | None = None,
    interrupted: Callable[[], bool] = lambda: False,
) -> State:
    """Carry a unit out; 'done' or 'diverged' where there is nothing left to do, 'interrupted'
    where it was told to stop and can go on later. Raises whatever goes wrong.
    """
    state = state_of(unit, root)
    if state in ("done", "diverged"):
        return state
    if isinstance(unit, Calculation):
        _calculate(unit, root)
        return "done"
    return _train(unit, root, state == "begun", watcher or Quiet(), interrupted)


def _train(
    unit: Training, root: Path, begun: bool, watcher: Watcher, interrupted: Callable[[], bool]
) -> State:
    from dgn_engine.headless import Headless
    from dgn_engine.runs.folder import RunFolder

    path = unit_folder(root, unit.id)
    headless = Headless(watcher, interrupted)
    if begun:
        folder = RunFolder(path)
        try:
            outcome = headless.go_on(folder)
        finally:
            folder.close()
    else:
        config = unit.resolved(root)
        outcome = headless.train(config, RunFolder.create(path, config))
    if outcome.unsaved:
        raise Refusal(outcome.unsaved)
    if outcome.diverged:
        return "diverged"
    return "interrupted" if interrupted() and state_of(unit, root) != "done" else "done"


def _calculate(unit: Calculation, root: Path) -> None:
    module, _, name = unit.function.partition(":")
    if not module.startswith(PACKAGE):
        raise Refusal(f"The unit '{unit.id}' names {unit.function}, which is not part of dgn.")
    function: Callable[[Work], Any] = getattr(importlib.import_module(module), name)
    folder = unit_folder(root, unit.id)
    folder.mkdir(parents=True, exist_ok=True)
    needs = {need: unit_folder(root, need) for need in unit.needs}
    value = function(Work(unit.arguments, folder, needs))
    write_file(folder / RESULT, json.dumps(value).encode())
