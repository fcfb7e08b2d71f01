"""How often a step that is looked back at is drawn while a network trains in the same process.

Python runs one thread at a time: while panels are drawn no step is taken. Who drags along the time
sees pictures as often as the share of watching allows; who rests sees the step at once.
"""

from __future__ import annotations

from dgn_engine.protocol.frames import Watching

CREDIT = 0.06  # seconds of drawing that may come at once, before pictures have to wait
WINDOW = "window"  # in the ledger where the window holds training up


class LookBackPace:
    """Drawing earns `share` seconds a second, up to `CREDIT`; what is drawn is taken off."""

    def __init__(self) -> None:
        self._share = 0.0  # 0: drawing delays nothing
        self._credit = CREDIT
        self._earned = 0.0  # when it was counted last

    def follow(self, watching: Watching | None, paced: bool) -> None:
        """Take over what the engine says; a `paced` run waits between its steps anyway."""
        delays = watching is not None and WINDOW in watching.parts and not paced
        self._share = watching.share if watching is not None and delays else 0.0

    def drew(self, cost: float, now: float) -> None:
        """A panel was drawn, for so many seconds of the processor; a debt is no greater than the
        credit, so that a picture that took long is not waited for for minutes."""
        self._earn(now)
        self._credit = max(self._credit - cost, -CREDIT)

    def wait(self, now: float) -> float:
        """Seconds until the next picture may be drawn; 0: at once."""
        if not self._share:
            return 0.0
        self._earn(now)
        return max(-self._credit / self._share, 0.0)

    def _earn(self, now: float) -> None:
        share = self._share or 1.0
        self._credit = min(self._credit + share * max(now - self._earned, 0.0), CREDIT)
        self._earned = now
