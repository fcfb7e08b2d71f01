"""Steps of the run that is compared with: where they lie, what was in force then."""

from __future__ import annotations

from dataclasses import dataclass

from dgn_engine.protocol.commands import Command
from dgn_engine.protocol.events import Event, ProbeSetChanged, RunStarted
from dgn_engine.protocol.run_state import Change


@dataclass(frozen=True)
class CompareHeld(Command):
    """Compare with an earlier step of this run, which is not recorded: whoever sends this holds
    what was read then."""

    title = "compare with step {step}"

    step: int


@dataclass(frozen=True)
class ComparedFrames(Event):
    """The frames of the run that is compared with lie in this folder, on this machine; whoever
    shows one of its steps reads it there, as with `FramesRecorded`; '' where who has asked holds
    them (`CompareHeld`). It follows `ComparisonOpened`.

    `changes`: of what was in force in it, in order. `step`: that is to be shown; None: its
    network, which the engine reads on the examples of now.
    """

    name: str
    folder: str
    started: RunStarted
    changes: tuple[Change, ...] = ()
    step: int | None = None

    def probe_digest_at(self, step: int) -> str:
        """Of the probe set that was read then; '' where it changed at just this step."""
        return probe_digest_at(self.started, self.changes, step)


def probe_digest_at(run: RunStarted, changes: tuple[Event, ...], step: int) -> str:
    """Of the probe set that a run was read on at a step, by the events of its log; '' where that
    cannot be told: another was chosen at just this step."""
    chosen = [one for one in changes if isinstance(one, ProbeSetChanged)]
    if any(one.step == step for one in chosen):
        return ""
    before = [one for one in chosen if one.step < step]
    return before[-1].digest if before else run.probe_set.digest
