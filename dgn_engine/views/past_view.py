"""The view of a step that is looked back at: what was recorded then, and what is known of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from dgn_engine.protocol.frames import NOT_RECORDED, Frame, Reading
from dgn_engine.protocol.run_state import RunChanges, RunState
from dgn_engine.protocol.runs import TRAINING
from dgn_engine.scene.elements import Mark
from dgn_engine.scene.panel_spec import View
from dgn_engine.storage.runs.recorded_steps import readings_at
from dgn_engine.views.event_marks import changes_network

BACK_TO_LIVE = "Go back to live to change the run."


@dataclass(frozen=True)
class Past:
    """A step that somebody asked for, and the last frame that was recorded at or before it.

    `probes`: of the panels; those that the frame lacks say so. `trouble`: why it cannot be shown,
    in a sentence.
    """

    asked: int
    frame: Frame | None = None
    probes: tuple[str, ...] = ()
    trouble: str = ""

    @property
    def step(self) -> int:
        """The step that is shown."""
        return self.asked if self.frame is None else self.frame.step

    @cached_property
    def readings(self) -> dict[str, Reading]:
        """What was recorded of each probe, or that nothing was: the same objects for all panels."""
        if self.trouble:
            facts = {"fault": NOT_RECORDED}
            return {
                probe: Reading(probe, self.step, facts=facts, absent=self.trouble)
                for probe in self.probes
            }
        recorded = readings_at(self.frame, self.asked, self.probes)
        return {probe: replace(reading, interval=0.0) for probe, reading in recorded.items()}

    def state_in(self, run: RunChanges | None) -> RunState:
        """Return the state of the run at the step; the empty one where there is no run."""
        return RunState() if run is None else run.state_at(self.step, self.frame)


@dataclass(frozen=True)
class PastViews:
    """What the views of all steps of a run are made of, as it was known at one moment.

    It stays as it is while the run goes on: another thread may use it. `chose`: the step at which
    other probe examples were chosen last.
    """

    live: View
    run: RunChanges | None = None
    chose: int = -1

    def at(self, past: Past, choices: Mapping[str, str]) -> View:
        """What a panel is given that looks back, with these choices."""
        live = replace(self.live, choices=dict(choices))
        if past.step <= self.chose:  # its examples may have been others
            live = replace(live, pictures=None)
        return past_view(live, past, past.state_in(self.run))


def past_view(live: View, past: Past, then: RunState) -> View:
    """`live` with the readings, regime and wiring of that step; curves and marks stay whole."""
    step, entry, diverged = past.step, then.regime_entry, live.diverged
    return replace(
        live,
        cursor=step,
        step=step,
        regime=then.regime,
        wiring=then.wiring,
        readings=past.readings,
        outdated=_outdated(live, past),
        diverged=diverged if diverged is not None and diverged <= step else None,
        probe_examples=0,  # those of that step cannot be chosen any more
        tested=entry is None or not entry.drawn_gates,
    )


def _outdated(live: View, past: Past) -> dict[str, Mark]:
    """What was measured before the last change of the network up to that step."""
    changes = [mark for mark in live.marks if mark.x <= past.step and changes_network(mark)]
    if not changes:
        return {}
    newest, found = changes[-1], dict[str, Mark]()
    for probe, reading in past.frame.readings.items() if past.frame is not None else ():
        if reading.step < newest.x:
            found[probe] = newest
    for (source, name), series in live.series.items():
        until = series.until(past.step).steps
        # A score of the step of a change was measured before it: changes come between two steps.
        if source == TRAINING and until.size and until[-1] <= newest.x:
            found[name] = newest
    return found
