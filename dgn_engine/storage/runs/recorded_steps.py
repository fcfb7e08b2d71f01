"""What the probes read at any recorded step of a run: found by step, read from disk, kept a while.

    steps = RecordedSteps(Path(folder))
    found = steps.at(1200)          # the last frame at or before step 1,200, or None
    found.step, found.readings      # each reading says its own step
    readings_at(found, 1200, ["gates", "npk"])  # a sentence in the place of what was not recorded

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
from dgn_engine.storage.inner_path import inside
from dgn_engine.storage.runs import folder_layout, frame_files
from dgn_engine.storage.runs.frame_files import StoredFrame

HELD = 64 << 20  # bytes of the arrays of frames that are kept, the newest read ones
_TICK = 100_000_000  # nanoseconds: file systems stamp changes no finer than some of these


class RecordedSteps:
    """The recorded frames of one run by step; not for several threads at once.

    `steps`: in ascending order, each once; `renew` sees what came and went since.
    """

    def __init__(
        self,
        folder: Path,
        held: int = HELD,
        clean: Callable[[Frame], Frame] = lambda frame: frame,
    ) -> None:
        """`held`: bytes of arrays that are kept in memory at most. `clean`: applied to each frame
        that is read (`untrusted_run.plain_frame` where others wrote the run)."""
        self.folder = folder
        self._frames = inside(folder) / folder_layout.FRAMES
        self._clean = clean
        self._most = held
        self._files: list[StoredFrame] = []
        self._looked: tuple[int, int] | None = None
        self._held: OrderedDict[int, Frame] = OrderedDict()  # by serial number
        self._bytes = 0
        self.steps: tuple[int, ...] = ()
        self.renew()

    def renew(self) -> bool:
        """See which frames there are now; whether that has changed. Raises `UserError`."""
        try:
            looked = self._state()
            if looked is not None and looked == self._looked:
                return False
            found = frame_files.scan(self._frames)
            gone = not found and not self.folder.exists()
        except OSError as error:
            raise UserError(
                f"The frames of {self.folder.name} cannot be read: {error.strerror}.",
                kind="unreadable",
            ) from None
        if gone:  # else it would seem that nothing was ever recorded
            raise UserError(
                f"The folder {self.folder} is not there: it was removed or renamed, and the "
                "recorded frames with it.",
                kind="no-folder",
            )
        newest = {one.step: one for one in found}  # of several of one step the last
        before, self._looked = self.steps, looked
        self._files = [newest[step] for step in sorted(newest)]
        self.steps = tuple(one.step for one in self._files)
        return self.steps != before

    def _state(self) -> tuple[int, int] | None:
        """Differs when a frame came or went; None where that cannot be told: a change within the
        same tick of the clock would be missed."""
        if not self._frames.exists():
            return None
        status = self._frames.status()
        if abs(time.time_ns() - status.st_mtime_ns) < _TICK:
            return None
        return status.st_mtime_ns, status.st_ino

    def nearest(self, step: int) -> int | None:
        """The last recorded step at or before this one; None where there is none."""
        place = bisect_right(self.steps, step)
        return self.steps[place - 1] if place else None

    def at(self, step: int) -> Frame | None:
        """The last frame at or before a step; None where nothing was recorded until then.

        One that thinning has just taken away gives way to the one before it. Raises `UserError`
        where a file is damaged or cannot be read.
        """
        for _ in range(3):
            place = bisect_right(self.steps, step)
            if not place:
                return None
            stored = self._files[place - 1]
            known = self._held.get(stored.serial)
            if known is not None:
                self._held.move_to_end(stored.serial)
                return known
            try:
                return self._keep(stored.serial, frame_files.read(stored))
            except UserError:
                if stored.path.exists():
                    raise
                self._looked = None
                self.renew()
        return None

    def _keep(self, serial: int, read: Frame) -> Frame:
        self._held[serial] = frame = self._clean(read)
        self._bytes += size_of(frame)
        while self._bytes > self._most and len(self._held) > 1:
            self._bytes -= size_of(self._held.popitem(last=False)[1])
        return frame


def size_of(frame: Frame) -> int:
    arrays = (array for reading in frame.readings.values() for array in reading.arrays.values())
    return sum(array.nbytes for array in arrays)


def readings_at(frame: Frame | None, step: int, probes: Iterable[str]) -> dict[str, Reading]:
    """The readings of a frame, and for each of these probes that it lacks one that says so.

    `frame`: the last at or before `step`. A reading of another step is never put in the place of
    one that is missing.
    """
    found = dict(frame.readings) if frame is not None else {}
    of = step if frame is None else frame.step
    for probe in probes:
        if probe not in found:
            why = (
                f"It was not recorded at step {of:,}: no panel that needs it was open then. What "
                "open panels show is recorded while the network trains."
            )
            if frame is None:
                why = f"Nothing was recorded up to step {step:,}."
            found[probe] = Reading(probe, of, facts={"fault": NOT_RECORDED}, absent=why)
    return found
