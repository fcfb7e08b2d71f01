"""Events for looking back: where the recorded frames of the run on show lie."""

from __future__ import annotations

from dataclasses import dataclass

from dgn_engine.protocol.events import Event


@dataclass(frozen=True)
class FramesRecorded(Event):
    """The frames of the run that is shown lie in its folder, on this machine.

    Whoever looks back reads them there (`dgn_engine.storage.runs.recorded_steps`), so that neither
    the engine's thread nor its process has to. `foreign`: others wrote them.
    """

    folder: str
    foreign: bool = False
