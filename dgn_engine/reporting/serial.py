"""One unit after another in this process."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from dgn_engine.protocol.events import Event, Measured, RegimeSwapped, RunContinued, RunStarted
from dgn_engine.refusal import Refusal
from dgn_engine.sweep.performing import perform, state_of
from dgn_engine.sweep.running import Progress, Told
from dgn_engine.sweep.unit import Unit

TRIES = 3


class Serial:
    """See `Executor`."""

    def run(
        self,
        units: Sequence[Unit],
        root: Path,
        told: Callable[[Progress], None],
        stop: Callable[[], bool],
    ) -> dict[str, Told]:
        """Carry the units out, each after the one before."""
        last: dict[str, Told] = {}
        for unit in units:
            if stop():
                break
            failed = [need for need in unit.needs if last.get(need) == "failed"]
            if failed:
                end = Progress(unit.id, "failed", trouble=f"it needs {failed[0]}, which failed")
            elif state_of(unit, root) in ("done", "diverged"):
                end = Progress(unit.id, "skipped", 1.0)
            else:
                end = _attempt(unit, root, told, stop)
            last[unit.id] = end.state
            told(end)
        return last


def _attempt(
    unit: Unit, root: Path, told: Callable[[Progress], None], stop: Callable[[], bool]
) -> Progress:
    trouble = ""
    for _ in range(TRIES):
        watcher = _Watcher(unit.id, told)
        told(Progress(unit.id, "running"))
        try:
            state = perform(unit, root, watcher, stop)
        except Refusal as refusal:  # it will not go better the next time
            return Progress(unit.id, "failed", trouble=str(refusal))
        except Exception:
            trouble = traceback.format_exc()
            continue
        if state == "interrupted":
            return Progress(unit.id, "interrupted", watcher.fraction, watcher.best)
        return Progress(unit.id, "diverged" if state == "diverged" else "done", 1.0, watcher.best)
    return Progress(unit.id, "failed", trouble=trouble)


class _Watcher:
    """Turns steps and events into progress, some hundred times a run at most."""

    def __init__(self, unit: str, told: Callable[[Progress], None]) -> None:
        self._unit = unit
        self._told = told
        self._total = 0
        self.fraction = 0.0
        self.best: float | None = None

    def stepped(self, step: int) -> None:
        fraction = step / self._total if self._total else 0.0
        if fraction >= self.fraction + 0.01:
            self.fraction = fraction
            self._told(Progress(self._unit, "running", fraction, self.best))

    def on_event(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self._total = event.total_steps
        elif isinstance(event, RegimeSwapped):
            self.best = None
        elif isinstance(event, RunContinued):
            self.fraction = event.step / self._total if self._total else 0.0
            self._told(Progress(self._unit, "running", self.fraction, self.best))
        elif isinstance(event, Measured) and event.test_accuracy is not None:
            self.best = max(self.best or 0.0, event.test_accuracy)
