"""The one interface that every executor has, and the simplest of them: one unit after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from dgn_engine.sweep.unit import Unit

Told = Literal["queued", "running", "done", "skipped", "diverged", "failed", "interrupted"]


@dataclass(frozen=True)
class UnitProgress:
    """What became of a unit, or how far it is (`fraction` of its steps, `score` so far)."""

    unit: str
    state: Told
    fraction: float = 0.0
    score: float | None = None
    trouble: str = ""


class Executor(Protocol):
    """Carries units out, each after those it needs, wherever it has room for them.

    A unit that is done already is told as 'skipped'; one that fails is tried twice again (not where
    it ends in a `Refusal`) and then told as 'failed' with the end of its log in `trouble`, and
    whatever needs it fails too. `stop` is asked often: once it says so, what runs is left so that
    it can go on later, and `run` returns. Returns the last state of every unit.
    """

    def run(
        self,
        units: Sequence[Unit],
        root: Path,
        told: Callable[[UnitProgress], None],
        stop: Callable[[], bool],
    ) -> dict[str, Told]:
        """Carry the units out in `root`; see the class."""
