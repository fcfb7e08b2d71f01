"""The recorded step that was requested last, until its frame has been read."""

from __future__ import annotations

from collections.abc import Iterable

from dgn_engine.views.frame_source import FrameSource
from dgn_engine.views.past_view import Past
from dgn_viewer.timeline.past_reader import PastReader, StepFound, StepRequest

LATEST = 1 << 62  # later than any step


class WantedStep:
    """Requests steps from a reader, one after the other; only the last request counts.

    `step`: shown or being read; None: none. `steps`: recorded steps known so far.

    Args:
        reader: Reads the frames; pass its answers to `accept_answer`.
        probes: Probes of all panels.
    """

    def __init__(self, reader: PastReader, probes: Iterable[str]) -> None:
        self._reader = reader
        self._probes = tuple(dict.fromkeys(probes))
        self.step: int | None = None
        self.steps: tuple[int, ...] = ()
        self.request: StepRequest | None = None  # not answered yet

    def set_request(self, source: FrameSource, step: int, moved: int, last: int) -> None:
        """Request the step `moved` recorded steps from `step`; `last`: the last existing step."""
        self.request = StepRequest(source, step, moved)
        if self.step is None or not moved:
            self.step = min(step, last)

    def send_request(self) -> None:
        if self.request is not None:
            self._reader.submit_request(self.request)

    def accept_answer(self, found: StepFound) -> bool:
        """Return whether this answers the current request, and clear the request."""
        if found.request is not self.request or self.step is None:
            return False
        self.request = None
        return True

    def show_answer(self, found: StepFound, asked: int) -> Past:
        """Return the recorded state at the requested step, and make that the current step."""
        past = Past(asked, found.frame, self._probes, found.trouble)
        self.step = past.step
        return past

    def clear_request(self) -> None:
        """Clear the request and the current step."""
        self.request, self.step = None, None
