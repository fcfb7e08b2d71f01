"""The view of a step looked back at: what was recorded then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

from dgn_engine.frozen_data import dataclass
from dgn_engine.protocol.frames import NOT_RECORDED, Frame, Reading
from dgn_engine.protocol.run_state import RunChanges, RunState
from dgn_engine.protocol.runs import TRAINING
from dgn_engine.scene.elements import Mark
from dgn_engine.scene.panel_spec import View
from dgn_engine.storage.runs.recorded_steps import readings_at
from dgn_engine.views.event_marks import changes_network

BACK_TO_LIVE = "Return to live to change the run."


@dataclass(frozen=True)
class Past:
    """A step that was asked for, and the last frame recorded at or before it.

    `probes`: of the panels; those missing in the frame say so. `trouble`: why the step cannot be
    shown, in a sentence.
    """

    asked: int
    frame: Frame | None = None
    probes: tuple[str, ...] = ()
    trouble: str = ""

    @property
    def step(self) -> int:
        """The step shown."""
        return self.asked if self.frame is None else self.frame.step

    @cached_property
    def readings(self) -> dict[str, Reading]:
        """The recorded or absent reading of each probe: the same objects for all panels."""
        if self.trouble:
            facts = {"fault": NOT_RECORDED}
            return {
                probe: Reading(probe, self.step, facts=facts, absent=self.trouble)
                for probe in self.probes
            }
        recorded = readings_at(self.frame, self.asked, self.probes)
        return {probe: replace(reading, interval=0.0) for probe, reading in recorded.items()}

    def state_in(self, run: RunChanges | None) -> RunState:
        """Return the state of the run at the step; an empty one if there is no run."""
        return RunState() if run is None else run.state_at(self.step, self.frame)


@dataclass(frozen=True)
class PastViews:
    """Makes the views of all steps of a run, as known at one moment.

    It does not change while the run trains, so another thread may use it. `chose`: the step at
    which the probe examples were last changed.
    """

    live: View
    run: RunChanges | None = None
    chose: int = -1

    def view_at(self, past: Past, choices: Mapping[str, str]) -> View:
        """Return the view of a panel at a past step, with these choices."""
        live = replace(self.live, choices=dict(choices))
        if past.step <= self.chose:  # its examples may differ
            live = replace(live, pictures=None)
        return past_view(live, past, past.state_in(self.run))


def past_view(live: View, past: Past, then: RunState) -> View:
    """Return `live` with that step's readings, regime and wiring; curves and marks stay whole."""
    step, entry, diverged = past.step, then.regime_entry, live.diverged
    return replace(
        live,
        cursor=step,
        step=step,
        regime=then.regime,
        wiring=then.wiring,
        readings=past.readings,
        outdated=_find_outdated(live, past),
        diverged=diverged if diverged is not None and diverged <= step else None,
        probe_examples=0,  # the examples of a past step cannot be chosen
        tested=entry is None or not entry.drawn_gates,
    )


def _find_outdated(live: View, past: Past) -> dict[str, Mark]:
    """Return what was measured before the last change of the network up to that step."""
    changes = [mark for mark in live.marks if mark.x <= past.step and changes_network(mark)]
    if not changes:
        return {}
    newest, outdated = changes[-1], dict[str, Mark]()
    for probe, reading in past.frame.readings.items() if past.frame is not None else ():
        if reading.step < newest.x:
            outdated[probe] = newest
    for (source, name), series in live.series.items():
        until = series.until(past.step).steps
        # A score at the step of a change was measured before it: changes come between steps.
        if source == TRAINING and until.size and until[-1] <= newest.x:
            outdated[name] = newest
    return outdated
