"""The probes' readings at any recorded step of a run, read from disk and cached for a while.

    steps = RecordedSteps(Path(folder))
    found = steps.at(1200)          # the last frame at or before step 1,200, or None
    found.step, found.readings      # each reading states its own step
    readings_at(found, 1200, ["gates", "npk"])  # a sentence in place of what was not recorded

Reading takes no lock, holds no engine and changes nothing: a run that is being written can be read
from any thread or process. Comparisons of two steps, animations and the window use the same.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path

from dgn_engine.errors import UserError
from dgn_engine.protocol.frames import NOT_RECORDED, Frame, Reading
from dgn_engine.storage.inner_path import inner_folder
from dgn_engine.storage.runs import folder_layout, frame_files
from dgn_engine.storage.runs.frame_files import StoredFrame

HELD = 64 << 20  # bytes of cached arrays, those of the frames read last
_TICK = 100_000_000  # nanoseconds: file systems stamp changes at about this resolution


class RecordedSteps:
    """The recorded frames of one run by step; not thread-safe.

    `steps`: ascending, each once; update with `refresh_frames`.
    """

    def __init__(
        self,
        folder: Path,
        held: int = HELD,
        clean: Callable[[Frame], Frame] = lambda frame: frame,
    ) -> None:
        """Open a run.

        Args:
            held: Bytes of cached arrays, at most.
            clean: Applied to each frame that is read (`untrusted_run.plain_frame` if the run is
                someone else's).
        """
        self.folder = folder
        self._frames = inner_folder(folder) / folder_layout.FRAMES
        self._clean = clean
        self._most = held
        self._files: list[StoredFrame] = []
        self._looked: tuple[int, int] | None = None
        self._held: OrderedDict[int, Frame] = OrderedDict()  # by serial number
        self._bytes = 0
        self.steps: tuple[int, ...] = ()
        self.refresh_steps()

    def refresh_steps(self) -> bool:
        """Look for new and removed frames; return whether any changed. Raises `UserError`."""
        try:
            looked = self._folder_state()
            if looked is not None and looked == self._looked:
                return False
            frames = frame_files.scan_frames(self._frames)
            gone = not frames and not self.folder.exists()
        except OSError as error:
            raise UserError(
                f"The frames of {self.folder.name} cannot be read: {error.strerror}.",
                kind="unreadable",
            ) from None
        if gone:  # otherwise nothing would seem to have been recorded
            raise UserError(
                f"The folder {self.folder} does not exist: it was removed or renamed, and the "
                "recorded frames with it.",
                kind="no-folder",
            )
        newest = {frame.step: frame for frame in frames}  # the last of each step
        before, self._looked = self.steps, looked
        self._files = [newest[step] for step in sorted(newest)]
        self.steps = tuple(frame.step for frame in self._files)
        return self.steps != before

    def _folder_state(self) -> tuple[int, int] | None:
        """Return a state that changes with the frames; None within the clock's resolution."""
        if not self._frames.exists():
            return None
        status = self._frames.status()
        if abs(time.time_ns() - status.st_mtime_ns) < _TICK:
            return None
        return status.st_mtime_ns, status.st_ino

    def nearest_step(self, step: int) -> int | None:
        """Return the last recorded step at or before this one, or None."""
        index = bisect_right(self.steps, step)
        return self.steps[index - 1] if index else None

    def frame_at(self, step: int) -> Frame | None:
        """Return the last frame at or before a step, or None.

        If thinning has just removed it, the one before is returned.

        Raises:
            UserError: A file is damaged or cannot be read.
        """
        for _ in range(3):
            index = bisect_right(self.steps, step)
            if not index:
                return None
            stored = self._files[index - 1]
            known = self._held.get(stored.serial)
            if known is not None:
                self._held.move_to_end(stored.serial)
                return known
            try:
                return self._cache_frame(stored.serial, frame_files.read_frame(stored))
            except UserError:
                if stored.path.exists():
                    raise
                self._looked = None
                self.refresh_steps()
        return None

    def _cache_frame(self, serial: int, read: Frame) -> Frame:
        self._held[serial] = frame = self._clean(read)
        self._bytes += size_of(frame)
        while self._bytes > self._most and len(self._held) > 1:
            self._bytes -= size_of(self._held.popitem(last=False)[1])
        return frame


def size_of(frame: Frame) -> int:
    arrays = (array for reading in frame.readings.values() for array in reading.arrays.values())
    return sum(array.nbytes for array in arrays)


def readings_at(frame: Frame | None, step: int, probes: Iterable[str]) -> dict[str, Reading]:
    """Return a frame's readings, with a note for each requested probe that it lacks.

    `frame`: the last at or before `step`. A reading of another step never replaces a missing one.
    """
    readings = dict(frame.readings) if frame is not None else {}
    of = step if frame is None else frame.step
    for probe in probes:
        if probe not in readings:
            why = (
                f"It was not recorded at step {of:,}: no panel that needs it was open then, or "
                "training went on before it was read. What open panels show is recorded during "
                "training."
            )
            if frame is None:
                why = f"Nothing was recorded up to step {step:,}."
            readings[probe] = Reading(probe, of, facts={"fault": NOT_RECORDED}, absent=why)
    return readings
