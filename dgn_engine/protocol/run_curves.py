"""Curves of recorded runs, to be drawn beside another run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dgn_engine.protocol.events import Event, Measured, ProbeScalars
from dgn_engine.protocol.frames import Array

TRAINING = "training"  # source of loss and accuracy; every other source is a probe's id
SAMPLES = (Measured, ProbeScalars)  # many: they may wait, come together and change no state
_SCORES = ("train_loss", "train_accuracy", "test_loss", "test_accuracy")


def scores_of(event: Measured) -> dict[str, float]:
    """What was measured, by the name of its curve."""
    fields = vars(event)
    return {name: fields[name] for name in _SCORES if fields[name] is not None}


@dataclass(frozen=True)
class RunCurves:
    """What one recorded run wrote down over its steps, to be drawn beside another run.

    `scalars[(source, name)]`: steps and values, source 'training' or a probe; `examples[probe]`:
    of how many probe examples these are. `spectrum`: the eigenvalues of the neural path kernel and
    their cumulative energy, as last recorded at `spectrum_step`, `spectrum_remark` says of how many
    examples and how exact; empty where they were not.
    """

    folder: str
    name: str
    scalars: Mapping[tuple[str, str], tuple[Array, Array]]
    spectrum: Mapping[str, Array] = field(default_factory=dict)
    spectrum_step: int = 0
    spectrum_remark: str = ""
    examples: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class CurvesRead(Event):
    """The curves of all runs that were asked for, in that order, in the place of those before."""

    runs: tuple[RunCurves, ...]
