"""The events of a recorded run that panels draw, in bounded memory: not all if there are many."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from dgn_engine.protocol.branches import BranchBegan
from dgn_engine.protocol.files import WeightsTaken
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.runs import TRAINING, HistoryReplayed, scores_of
from dgn_engine.protocol.training import Measured, RegimeSwapped, Rewired, SettingChanged
from dgn_engine.protocol.watching import ProbeScalars, ProbeSetChanged, ProbesLeft

MOST_SCORES = 1 << 14  # of each kind: tested, not tested, each probe's readings
MOSTCHANGES = 1 << 14
CHANGES = (
    *(BranchBegan, ProbeSetChanged, RegimeSwapped, WeightsTaken),
    *(Rewired, SettingChanged, ProbesLeft),
)


class _Numbered(NamedTuple):
    """An event, its index in the run and its index in its kind."""

    place: int
    number: int
    event: Event


class _KindOfEvent:
    """Events of one kind: all of them up to `most`, then every second one, every fourth …

    The last is kept, and those with the lowest and highest value of each sort.
    """

    def __init__(self, most: int) -> None:
        self._most, self._every, self.count = most, 1, 0
        self._kept: list[_Numbered] = []
        self._ends: dict[tuple[str, bool], tuple[float, _Numbered]] = {}
        self._last: list[_Numbered] = []

    def add_event(self, place: int, event: Event, values: Mapping[str, float]) -> None:
        numbered = _Numbered(place, self.count, event)
        self.count += 1
        self._last = [numbered]
        for name, value in values.items():
            for sign in (1.0, -1.0):
                key = name, sign > 0
                lowest = self._ends[key][0] if key in self._ends else math.inf
                if math.isfinite(value) and not sign * value >= lowest:
                    self._ends[key] = sign * value, numbered
        if numbered.number % self._every == 0:
            if len(self._kept) == self._most:
                self._every *= 2
                self._kept = self._kept[::2]
            if numbered.number % self._every == 0:
                self._kept.append(numbered)

    def selected_events(self) -> list[_Numbered]:
        by_number = {numbered.number: numbered for numbered in self._kept}
        for numbered in (*self._last, *(end for _, end in self._ends.values())):
            by_number[numbered.number] = numbered
        return [by_number[number] for number in sorted(by_number)]


def drawn_history(events: Iterable[Event], most: int = MOST_SCORES) -> HistoryReplayed:
    """Return the events of a run that panels draw, with counts of those left out."""
    kinds: dict[tuple[str, object], _KindOfEvent] = {}
    for place, event in enumerate(events):
        key, values = _kind_of(event)
        if key is not None:
            limit = min(most, MOSTCHANGES) if key[0] == "" else most
            kinds.setdefault(key, _KindOfEvent(limit)).add_event(place, event, values)
    selected = {key: kind.selected_events() for key, kind in kinds.items()}
    merged = heapq.merge(*selected.values(), key=lambda numbered: numbered.place)
    return HistoryReplayed(
        tuple(numbered.event for numbered in merged), _count_left_out(kinds, selected)
    )


def _kind_of(event: Event) -> tuple[tuple[str, object] | None, Mapping[str, float]]:
    """Return the source of an event and its kind there, and its values; None if not drawn."""
    if isinstance(event, Measured):
        return (TRAINING, event.test_loss is not None), scores_of(event)
    if isinstance(event, ProbeScalars):
        return (event.probe, event.read_on), event.values
    return (("", ""), {}) if isinstance(event, CHANGES) else (None, {})


def _count_left_out(
    kinds: Mapping[tuple[str, object], _KindOfEvent],
    held: Mapping[tuple[str, object], list[_Numbered]],
) -> dict[str, tuple[int, int]]:
    counts_by_source: dict[str, tuple[int, int]] = {}
    for key, kind in kinds.items():
        drawn, every = counts_by_source.get(key[0], (0, 0))
        counts_by_source[key[0]] = drawn + len(held[key]), every + kind.count
    return {source: counts for source, counts in counts_by_source.items() if counts[0] < counts[1]}
