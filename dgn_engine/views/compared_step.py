"""Comparisons in which A or B is a recorded step, or the reason why they are not comparable."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dgn_engine.protocol.branches import ComparedFrames
from dgn_engine.protocol.frames import Reading
from dgn_engine.protocol.run_state import RunChanges
from dgn_engine.scene.gate_agreement import AGREEMENT, PATH_DISTANCE, gate_agreement
from dgn_engine.scene.panel_spec import ComparedRun, View, run_key
from dgn_engine.storage.runs.recorded_steps import readings_at
from dgn_engine.views.past_view import Past


@dataclass(frozen=True)
class ComparedStep:
    """A recorded step of the compared run: B is what was recorded then.

    `own`: it is a step of the run on show.
    """

    frames: ComparedFrames
    past: Past
    own: bool = False

    @property
    def name(self) -> str:
        whose = "this run" if self.own else self.frames.name
        return f"{whose} at step {self.past.step:,}"

    @property
    def examples_digest(self) -> str:
        """Digest of the probe set of its readings; '' if unknown."""
        frame = self.past.frame
        if frame is not None and frame.probe_digest:
            return frame.probe_digest
        return self.frames.probe_digest_at(self.past.step)


_NO_WEIGHTS = "Recorded steps are without weights."


class Pairing:
    """Adds B to a view; caches the last gate agreement, which all panels ask for."""

    def __init__(self) -> None:
        self._of: tuple[object, ...] = ()
        self._agreement = Reading(AGREEMENT, 0)

    def add_comparison(
        self, view: View, step: ComparedStep | None, examples: tuple[str, str]
    ) -> View:
        """Add B and the gate agreement to a view.

        Args:
            view: The view of A.
            step: The recorded step shown as B; None: the network that the engine reads, on the
                current probe examples.
            examples: Digests of the probe set that A was read on, and of the current one.
        """
        if view.compared is None or (step is None and view.cursor is None):
            return view
        compared = view.compared
        if step is not None:
            compared = _compared_at(compared, step, run_key(view.run) if step.own else compared.run)
        theirs = examples[1] if step is None else step.examples_digest
        if why := _reason_not_comparable(examples[0], theirs, view):
            compared = _without_readings(compared, why)
            agreement = Reading(AGREEMENT, view.step, absent=why)
        else:
            agreement = self._read_agreement(view, compared)
        # The one at hand is from the network that was compared when the step was read.
        paths = Reading(PATH_DISTANCE, view.step, absent=_NO_WEIGHTS)
        readings = {**view.readings, AGREEMENT: agreement, PATH_DISTANCE: paths}
        return replace(view, compared=compared, readings=readings)

    def _read_agreement(self, view: View, compared: ComparedRun) -> Reading:
        ours, theirs = view.readings.get("gates"), compared.readings.get("gates")
        layers = () if view.run is None else view.run.layers
        inputs = (ours, theirs, layers, compared.layers)
        if len(inputs) != len(self._of) or any(
            a is not b for a, b in zip(inputs, self._of, strict=True)
        ):
            agreement = gate_agreement(ours, theirs, (layers, compared.layers))
            self._of, self._agreement = inputs, agreement
        return self._agreement


def _compared_at(compared: ComparedRun, step: ComparedStep, run: str) -> ComparedRun:
    """Return B as recorded at a step, with its curves up to there; `run`: which run it is."""
    past, frames = step.past, step.frames
    frame = past.frame
    state = past.state_in(RunChanges(frames.started, frames.changes))
    config, config_then = compared.config, state.current_config()
    series = {key: curve.until(past.step) for key, curve in compared.series.items()}
    if past.trouble:
        readings = {name: Reading(name, past.step, absent=past.trouble) for name in past.probes}
    else:
        readings = readings_at(frame, past.asked, past.probes)
    return ComparedRun(
        name=step.name,
        regime=state.regime,
        layers=frames.started.layers,
        wiring=state.wiring,
        step=past.step,
        readings=readings,
        series={} if step.own else series,  # the curves of A are the same
        own=step.own,
        run=run,
        at=past.step,
        config=None
        if config is None or config_then is None
        else config.with_changes_of(config_then),
        config_at=bool(frames.folder),  # else the run's changes are unknown
    )


def _reason_not_comparable(ours: str, theirs: str, view: View) -> str:
    """Return why the two are not compared, in one sentence; '' if they are."""
    if ours and theirs and ours == theirs:
        return ""
    where = f"A at step {view.step:,}" if view.cursor is not None else "A"
    if not (ours and theirs):
        return (
            f"{where} and B may have been read on different probe examples, so they are not "
            "compared."
        )
    return (
        f"B and {where} were read on different probe examples: both must use the same examples of "
        "the same data."
    )


def _without_readings(compared: ComparedRun, why: str) -> ComparedRun:
    readings = {name: Reading(name, compared.step, absent=why) for name in compared.readings}
    return replace(compared, readings=readings)
