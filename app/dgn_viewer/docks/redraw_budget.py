"""How often each panel is drawn, so that all drawing together keeps to a share of the time."""

from __future__ import annotations

from collections.abc import Collection

SHARE = 0.05  # of one core, for everything that the thread of the window does
SHORTEST = 1 / 30  # seconds between two drawings of one panel
LONGEST = 0.9  # a panel in sight is drawn about once a second, whatever it costs
PROMPT_SHARE = 0.25  # of one core, at most, for a panel that is drawn as soon as it changes
_STEPS = (SHORTEST, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, LONGEST)
_SMOOTHING = 0.3  # weight of the newest cost


class RedrawBudget:
    """Learns what drawings cost, in processor time, and derives the intervals between them.

    Prompt panels are drawn as soon as they change; what they and the rest of the window leave of
    the share is divided evenly among the others.
    """

    def __init__(self, prompt: Collection[str] = (), share: float = SHARE) -> None:
        self._prompt = frozenset(prompt)
        self._share = share
        self._cost: dict[str, float] = {}  # seconds of one drawing
        self._spacing: dict[str, float] = {}  # seconds between two of them
        self._drawing = 0.0  # seconds of drawing since the last account
        self._account: tuple[float, float] | None = None  # wall and processor time then
        self._rest = 0.0  # share of a core that goes to other things than drawing

    def drawn(self, name: str, cost: float, since: float) -> None:
        """A drawing took `cost` seconds, `since` seconds after the one before."""
        for store, value in ((self._cost, cost), (self._spacing, since)):
            before = store.get(name, value)
            store[name] = before + _SMOOTHING * (value - before)
        self._drawing += cost

    def settle(self, wall: float, busy: float) -> None:
        """Once a second: what the thread has used (`busy`, seconds) besides drawing."""
        if self._account is not None and wall - self._account[0] < 1.0:
            return
        if self._account is not None:
            used = busy - self._account[1] - self._drawing
            share = max(used, 0.0) / (wall - self._account[0])
            self._rest += _SMOOTHING * (share - self._rest)
        self._account, self._drawing = (wall, busy), 0.0

    def is_prompt(self, name: str) -> bool:
        """Whether this panel is drawn before the others."""
        return name in self._prompt

    def interval(self, name: str, visible: Collection[str]) -> float:
        """Seconds from one drawing of this panel to the next, of those in sight."""
        cost = self._cost.get(name, 0.0)
        if name in self._prompt:
            return min(max(SHORTEST, cost / PROMPT_SHARE), LONGEST)
        others = [each for each in visible if each not in self._prompt]
        taken = sum(
            self._cost[each] / max(self._spacing[each], SHORTEST)
            for each in visible
            if each in self._prompt and each in self._cost
        )
        left = max(self._share - self._rest - taken, 0.1 * self._share)
        return _rounded(cost * len(others) / left)


def _rounded(seconds: float) -> float:
    """The next longer one of a few intervals, so that the footer does not flicker."""
    return next((step for step in _STEPS if step >= seconds), LONGEST)
