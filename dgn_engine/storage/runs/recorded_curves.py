"""The scalars of a recorded run as curves over its steps, and its last spectrum."""

from __future__ import annotations

from pathlib import Path

from dgn_engine.errors import UserError
from dgn_engine.protocol.frames import Array, Reading
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.runs import TRAINING, RunCurves, scores_of
from dgn_engine.protocol.thinned_curve import ThinnedCurve
from dgn_engine.protocol.training import Measured
from dgn_engine.protocol.watching import ProbeScalars, ReadOn
from dgn_engine.storage.runs.run_notes import read_notes
from dgn_engine.storage.runs.run_reader import RunReader

SPECTRUM = "npk"
_SPECTRA = ("eigenvalues", "cumulative")


def read_curves(folder: Path) -> RunCurves:
    """Read the curves of a run; raises `UserError` if there is none or it cannot be read."""
    reader = RunReader(folder)
    curves = ScalarCurves()
    for event in reader.log.each_event():
        curves.collect_event(event)
    reading, started = _last_spectrum(reader), reader.start_event
    at_first = 0 if started is None else started.began_with or len(started.probe_set.indices)
    return RunCurves(
        folder=str(folder),
        name=read_notes(folder).name or folder.name,
        scalars=curves.curve_points(),
        examples={
            probe: read_on[0] or at_first for probe, read_on in curves.read_on_by_probe().items()
        },
        spectrum={} if reading is None else {name: reading.arrays[name] for name in _SPECTRA},
        spectrum_step=0 if reading is None else reading.step,
        spectrum_remark="" if reading is None else reading.remark,
    )


class ScalarCurves:
    """Collects the scalars of a run from its events, one by one; long curves are thinned.

    A probe's curve has only scalars on as many examples as its newest reading: a trace over others
    is another curve.
    """

    def __init__(self) -> None:
        self._curves: dict[tuple[str, str, ReadOn], ThinnedCurve] = {}
        self._newest: dict[str, ReadOn] = {}

    def collect_event(self, event: Event) -> None:
        match event:
            case Measured():
                source, examples, values = TRAINING, (0, 0, ""), scores_of(event)
            case ProbeScalars():
                source, examples, values = event.probe, event.read_on, dict(event.values)
            case _:
                return
        self._newest[source] = examples
        for name, value in values.items():
            curve = self._curves.setdefault((source, name, examples), ThinnedCurve())
            curve.append(event.step, value)

    def read_on_by_probe(self) -> dict[str, ReadOn]:
        """Return the examples on which each probe's newest scalars were read."""
        return {source: read for source, read in self._newest.items() if source != TRAINING}

    def curve_points(self) -> dict[tuple[str, str], tuple[Array, Array]]:
        """Return steps (int64) and values (float64) of each scalar."""
        return {
            (source, name): curve.points()
            for (source, name, examples), curve in self._curves.items()
            if examples == self._newest[source]
        }


def _last_spectrum(reader: RunReader) -> Reading | None:
    """Return the spectrum of the last readable frame, or None."""
    try:
        frame = reader.latest_frame(reader.step)
    except UserError:
        return None
    reading = frame.readings.get(SPECTRUM) if frame is not None else None
    if reading is None or any(name not in reading.arrays for name in _SPECTRA):
        return None
    return reading
