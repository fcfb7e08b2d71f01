"""A and B where one of them is a recorded step: what is shown as B, or why it is not."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dgn_engine.protocol.branches import ComparedFrames
from dgn_engine.protocol.frames import Reading
from dgn_engine.protocol.run_state import RunChanges
from dgn_engine.scene.gate_agreement import AGREEMENT, gate_agreement
from dgn_engine.scene.panel_spec import ComparedRun, View, run_key
from dgn_engine.storage.runs.recorded_steps import readings_at
from dgn_engine.views.past_view import Past


@dataclass(frozen=True)
class ComparedStep:
    """A recorded step of the run that is compared with: B is what was recorded then.

    `own`: it is the run on show itself.
    """

    frames: ComparedFrames
    past: Past
    own: bool = False

    @property
    def name(self) -> str:
        whose = "this run" if self.own else self.frames.name
        return f"{whose} at step {self.past.step:,}"

    @property
    def examples(self) -> str:
        """The digest of the probe set that it was read on; '' where that is not known."""
        frame = self.past.frame
        if frame is not None and frame.probe_digest:
            return frame.probe_digest
        return self.frames.probe_digest_at(self.past.step)


class Pairing:
    """Puts B beside A in a view. It keeps the last agreement of gates: all panels ask for it."""

    def __init__(self) -> None:
        self._of: tuple[object, ...] = ()
        self._agreement = Reading(AGREEMENT, 0)

    def paired(self, view: View, step: ComparedStep | None, examples: tuple[str, str]) -> View:
        """`step`: that is shown as B; None: the network that the engine reads, on the examples of
        now. `examples`: digests of the probe sets that A was read on, and of that of now."""
        if view.compared is None or (step is None and view.cursor is None):
            return view
        compared = view.compared
        if step is not None:
            compared = _at(compared, step, run_key(view.run) if step.own else compared.run)
        theirs = examples[1] if step is None else step.examples
        if why := _why_not(examples[0], theirs, view):
            compared = _without(compared, why)
            agreement = Reading(AGREEMENT, view.step, absent=why)
        else:
            agreement = self._read(view, compared)
        readings = {**view.readings, AGREEMENT: agreement}
        return replace(view, compared=compared, readings=readings)

    def _read(self, view: View, compared: ComparedRun) -> Reading:
        ours, theirs = view.readings.get("gates"), compared.readings.get("gates")
        layers = () if view.run is None else view.run.layers
        of = (ours, theirs, layers, compared.layers)
        if len(of) != len(self._of) or any(a is not b for a, b in zip(of, self._of, strict=True)):
            found = gate_agreement(ours, theirs, (layers, compared.layers))
            self._of, self._agreement = of, found
        return self._agreement


def _at(compared: ComparedRun, step: ComparedStep, run: str) -> ComparedRun:
    """B as it was recorded at a step, with its curves up to there; `run`: which one it is."""
    past, frames = step.past, step.frames
    frame = past.frame
    then = past.state_in(RunChanges(frames.started, frames.changes))
    known, now = compared.config, then.current_config()
    series = {key: one.until(past.step) for key, one in compared.series.items()}
    if past.trouble:
        readings = {name: Reading(name, past.step, absent=past.trouble) for name in past.probes}
    else:
        readings = readings_at(frame, past.asked, past.probes)
    return ComparedRun(
        name=step.name,
        regime=then.regime,
        layers=frames.started.layers,
        wiring=then.wiring,
        step=past.step,
        readings=readings,
        series={} if step.own else series,  # A draws its own curves
        own=step.own,
        run=run,
        at=past.step,
        config=None if known is None or now is None else known.with_changes_of(now),
        config_at=bool(frames.folder),  # else the changes of the run are not known
    )


def _why_not(ours: str, theirs: str, view: View) -> str:
    """Why the two are not compared, in one sentence; '' where they are."""
    if ours and theirs and ours == theirs:
        return ""
    where = f"A at step {view.step:,}" if view.cursor is not None else "A"
    if not (ours and theirs):
        return f"It is not known whether {where} and B were read on the same probe examples."
    return (
        f"B was read on other probe examples than {where}: both have to be read on the same "
        "examples of the same data."
    )


def _without(compared: ComparedRun, why: str) -> ComparedRun:
    readings = {name: Reading(name, compared.step, absent=why) for name in compared.readings}
    return replace(compared, readings=readings)
