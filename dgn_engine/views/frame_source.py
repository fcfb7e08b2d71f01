"""Where the recorded frames of a run lie."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dgn_engine.storage.runs.held_frames import HeldFrames
from dgn_engine.storage.runs.recorded_steps import RecordedSteps
from dgn_engine.storage.session_file.untrusted_run import plain_frame


@dataclass(frozen=True)
class Source:
    """Where the frames of a run lie: in a folder, or in memory. `foreign`: others wrote them."""

    folder: str = ""
    foreign: bool = False
    held: HeldFrames | None = None

    def frames(self) -> RecordedSteps | HeldFrames:
        """For one thread. Raises `UserError` where the folder cannot be read."""
        if self.held is not None:
            return self.held
        folder = Path(self.folder)
        return RecordedSteps(folder, clean=plain_frame) if self.foreign else RecordedSteps(folder)
