"""The scalars of a recorded run as curves over its steps, and its last spectrum."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from dgn_engine.errors import UserError
from dgn_engine.protocol.events import Event, Measured, ProbeScalars
from dgn_engine.protocol.frames import Array, Reading
from dgn_engine.protocol.run_list import RunCurves
from dgn_engine.storage.runs.run_notes import read_notes
from dgn_engine.storage.runs.run_reader import RunReader

TRAINING = "training"  # source of loss and accuracy; every other source is a probe's id
SPECTRUM = "npk"
_SPECTRA = ("eigenvalues", "cumulative")


def read_curves(folder: Path) -> RunCurves:
    """Raises `UserError` where there is no run, or it cannot be read."""
    reader = RunReader(folder)
    reading, started = _last_spectrum(reader), reader.started
    at_first = 0 if started is None else started.began_with or len(started.probe_set.indices)
    newest = {e.probe: e.examples for e in reader.events if isinstance(e, ProbeScalars)}
    return RunCurves(
        folder=str(folder),
        name=read_notes(folder).name or folder.name,
        scalars=fold_scalars(reader.events),
        examples={probe: examples or at_first for probe, examples in newest.items()},
        spectrum={} if reading is None else {name: reading.arrays[name] for name in _SPECTRA},
        spectrum_step=0 if reading is None else reading.step,
        spectrum_remark="" if reading is None else reading.remark,
    )


def fold_scalars(events: tuple[Event, ...]) -> dict[tuple[str, str], tuple[Array, Array]]:
    """Steps (int64) and values (float64) of each scalar. Of a probe those of as many examples as
    its newest reading has: a trace over others is another curve.
    """
    found: dict[tuple[str, str, tuple[int, int]], tuple[list[int], list[float]]] = {}
    newest: dict[str, tuple[int, int]] = {}
    for event in events:
        match event:
            case Measured():
                source, examples, values = TRAINING, (0, 0), _scores(event)
            case ProbeScalars():
                source, examples, values = event.probe, event.read_on, event.values
            case _:
                continue
        newest[source] = examples
        for name, value in values.items():
            steps, held = found.setdefault((source, name, examples), ([], []))
            steps.append(event.step)
            held.append(value)
    return {
        (source, name): (np.array(steps, dtype=np.int64), np.array(values, dtype=np.float64))
        for (source, name, examples), (steps, values) in found.items()
        if examples == newest[source]
    }


def _scores(event: Measured) -> Mapping[str, float]:
    scores = {
        "train_loss": event.train_loss,
        "train_accuracy": event.train_accuracy,
        "test_loss": event.test_loss,
        "test_accuracy": event.test_accuracy,
    }
    return {name: value for name, value in scores.items() if value is not None}


def _last_spectrum(reader: RunReader) -> Reading | None:
    """Of the last frame that can be read; None where none is."""
    try:
        frame = reader.latest_frame(reader.step)
    except UserError:
        return None
    reading = frame.readings.get(SPECTRUM) if frame is not None else None
    if reading is None or any(name not in reading.arrays for name in _SPECTRA):
        return None
    return reading
