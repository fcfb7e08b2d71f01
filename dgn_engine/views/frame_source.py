"""The place where a run's recorded frames are: a folder, or memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dgn_engine.storage.runs.held_frames import HeldFrames
from dgn_engine.storage.runs.recorded_steps import RecordedSteps


@dataclass(frozen=True)
class FrameSource:
    """Recorded frames of a run in a folder or in memory; `foreign`: written by others."""

    folder: str = ""
    foreign: bool = False
    held: HeldFrames | None = None

    def open_frames(self) -> RecordedSteps | HeldFrames:
        """Open the frames for one thread.

        Raises:
            UserError: The folder cannot be read.
        """
        if self.held is not None:
            return self.held
        if not self.foreign:
            return RecordedSteps(Path(self.folder))
        from dgn_engine.storage.session_file.untrusted_run import plain_frame

        return RecordedSteps(Path(self.folder), clean=plain_frame)
