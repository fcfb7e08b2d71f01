"""A run without a viewer: the same `Run`, stepped to its end."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch

from dgn_engine import __version__
from dgn_engine.config import RunConfig
from dgn_engine.protocol.events import Event, Measured, RegimeSwapped, RunStarted, Working
from dgn_engine.refusal import Refusal
from dgn_engine.run import Run
from dgn_engine.runs.folder import RunFolder


class Watcher(Protocol):
    """Somebody who wants to know how it goes."""

    def stepped(self, step: int) -> None:
        """After each step."""

    def on_event(self, event: Event) -> None:
        """At each event."""


@dataclass(frozen=True)
class Outcome:
    """What came of a run. Accuracies (0…1) are those of the last regime that was in force."""

    step: int = 0
    regime: str = ""
    best_accuracy: float = float("nan")
    best_epoch: float = 0.0
    last_accuracy: float = float("nan")
    diverged: bool = False

    @property
    def summary(self) -> str:
        """One line for people."""
        if self.best_accuracy != self.best_accuracy:
            return f"{self.regime}: {self.step:,} steps, no test score yet"
        return (
            f"{self.regime}: {self.step:,} steps, best test accuracy {self.best_accuracy:.2%} "
            f"(epoch {self.best_epoch:.0f}), last {self.last_accuracy:.2%}"
        )


def train(
    config: RunConfig,
    folder: RunFolder | None,
    watcher: Watcher,
    interrupted: Callable[[], bool],
) -> Outcome:
    """Train to the last epoch, or until interrupted; the folder gets log and weights either way.

    Raises `Refusal` where the configuration cannot be carried out or has no end.
    """
    if config.training.epochs == 0:
        raise Refusal("training.epochs is 0, which never ends; say how many with --epochs.")
    outcome = Outcome()

    def emit(event: Event) -> None:
        nonlocal outcome
        outcome = _after(outcome, event)
        if folder is not None:
            folder.record(event)
        watcher.on_event(event)

    run = Run(1, config, emit, lambda what, part: emit(Working(what, part)), live=False)
    started = run.started(paused=False)
    emit(started)
    if folder is not None:
        folder.begin(started, versions(), run.fingerprint)
    try:
        while not (run.finished or run.diverged or interrupted()):
            run.advance()
            watcher.stepped(run.step_count)
    finally:
        if folder is not None:
            run.save(folder.weights)
            folder.close()
    return replace(outcome, step=run.step_count, diverged=run.diverged)


def versions() -> dict[str, str]:
    """Of what decides a number."""
    return {
        "dgn-viewer": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }


def _after(outcome: Outcome, event: Event) -> Outcome:
    match event:
        case RunStarted():
            return Outcome(regime=event.regime)
        case RegimeSwapped():
            return Outcome(regime=event.after)
        case Measured(test_accuracy=float(accuracy)):
            last = replace(outcome, last_accuracy=accuracy)
            if not outcome.best_accuracy >= accuracy:
                return replace(last, best_accuracy=accuracy, best_epoch=event.epoch)
            return last
        case _:
            return outcome
