"""The recorded step that somebody wants to see, until its frame is read."""

from __future__ import annotations

from collections.abc import Iterable

from dgn_engine.views.frame_source import Source
from dgn_engine.views.past_view import Past
from dgn_viewer.timeline.past_reader import PastReader, StepFound, StepRequest

LATEST = 1 << 62  # beyond every step


class WantedStep:
    """Asks a reader for one step after the other: what is wanted last is what counts.

    `step`: that is shown, or is being read; None: none is. `steps`: all that are recorded, as far
    as was looked.

    Args:
        reader: Reads the frames; its answers are passed to `take`.
        probes: Those of all panels.
    """

    def __init__(self, reader: PastReader, probes: Iterable[str]) -> None:
        self._reader = reader
        self._probes = tuple(dict.fromkeys(probes))
        self.step: int | None = None
        self.steps: tuple[int, ...] = ()
        self.request: StepRequest | None = None  # that has not been answered

    def want(self, source: Source, step: int, moved: int, last: int) -> None:
        """Want the recorded step so many places from this one; `last`: the last that there is."""
        self.request = StepRequest(source, step, moved)
        if self.step is None or not moved:
            self.step = min(step, last)

    def read(self) -> None:
        if self.request is not None:
            self._reader.ask(self.request)

    def take(self, found: StepFound) -> bool:
        """Return whether this answers what is wanted; then nothing else is."""
        if found.request is not self.request or self.step is None:
            return False
        self.request = None
        return True

    def show(self, found: StepFound, asked: int) -> Past:
        """Return what was recorded at the step that was asked for, which is shown from now on."""
        past = Past(asked, found.frame, self._probes, found.trouble)
        self.step = past.step
        return past

    def forget(self) -> None:
        """Want nothing, and show none."""
        self.request, self.step = None, None
