"""Reconstruct what lost lines of a log said, as far as other files tell.

Any line may be missing, even one that changes what the lines around it mean: `RunContinued`, after
which earlier lines do not count, or `RegimeSwapped`, after which scores belong to another network.
Checkpoints and the inventory written after a gap say where the run continued and which regime it
had; without them, steps that go backwards show that the run continued from before. What is known is
read as a line in the gap, and `repair` writes it there.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dgn_engine.storage.inner_path import InnerPath
from dgn_engine.storage.runs import folder_layout, run_checkpoints
from dgn_engine.storage.runs.log import (
    CONTINUED,
    LOST,
    MADE_ANEW,
    SCORES,
    SWAPPED,
    LogLine,
    Ranges,
    Wanted,
)
from dgn_engine.storage.runs.run_ranges import is_count, is_word

DOUBTFUL = "doubtful"  # field of a line that stands for lost ones: they may include a change
# What `read_gaps` needs of lines; of scores only their steps, which all lines have.
NEEDED: Wanted = {CONTINUED: None, SWAPPED: None}
_MOST = 10_000  # continuations of a run


@dataclass(frozen=True)
class LogFact:
    """Facts recorded elsewhere after the first `lines` lines of a log.

    Attributes:
        regime: '' if not stated.
        continued: Number and `lines` of each `RunContinued`; None if not stated.
    """

    lines: int
    step: int = 0
    regime: str = ""
    continued: Ranges | None = None


@dataclass(frozen=True)
class GapReading:
    """The lines that stand for lost ones.

    Attributes:
        lines: In ascending order: known lines, and a `Lost` for unknown ones, marked `doubtful` if
            the regime after them is unknown.
        lost: Number of unknown lines.
    """

    lines: tuple[LogLine, ...] = ()
    lost: int = 0
    doubtful: bool = False

    def fill_gaps(self, lines: Iterable[LogLine]) -> Iterator[LogLine]:
        """Yield the intact lines with these in the gaps."""
        remaining = list(reversed(self.lines))
        for line in lines:
            while remaining and remaining[-1].seq < line.seq:
                yield remaining.pop()
            if line.name != LOST:  # it is one of ours
                yield line
        yield from reversed(remaining)


def continued_in(tree: Mapping[str, Any]) -> Ranges | None:
    """Return where the run continued by a state or inventory, as in `LogFact`; None if unknown."""
    pairs = tree.get("continued")
    if not isinstance(pairs, list) or len(pairs) > _MOST:
        return None
    continuations = [tuple(pair) for pair in pairs if isinstance(pair, list) and len(pair) == 2]
    if len(continuations) != len(pairs) or not all(
        is_count(n) for pair in continuations for n in pair
    ):
        return None
    return tuple((int(seq), int(lines)) for seq, lines in continuations)


def facts_in(folder: InnerPath) -> list[LogFact]:
    """Return what the intact checkpoints of a run say about its log, in its order."""
    facts = []
    inner = folder / folder_layout.CHECKPOINTS
    checkpoints = [] if inner.is_link() else run_checkpoints.scan_checkpoints(inner, thorough=False)
    for checkpoint in (checkpoint for checkpoint in checkpoints if checkpoint.is_intact):
        try:
            state = run_checkpoints.read_state(checkpoint.path)
        except (OSError, ValueError):
            continue
        regime = state.get("regime", "")
        known = regime if is_word(regime) else ""
        facts.append(LogFact(checkpoint.lines, checkpoint.step, known, continued_in(state)))
    return sorted(facts, key=lambda fact: fact.lines)


def read_gaps(
    lines: Iterable[LogLine],
    written: int,
    regime: str,
    facts: Sequence[LogFact],
    tag: str = "",
) -> GapReading:
    """Reconstruct the gaps of a log.

    Args:
        lines: All intact ones, in order, with the fields in `NEEDED`.
        written: Minimum number of lines written.
        regime: Regime of the run at its start.
        facts: What other files say.
        tag: Tag of the run, which lines in gaps state.
    """
    log = _Log(lines, written)
    if not log.gaps:
        return GapReading()
    return _GapReader(log, regime, sorted(facts, key=lambda fact: fact.lines), tag).read()


class _Log:
    """The numbers that matter in a log."""

    def __init__(self, lines: Iterable[LogLine], written: int) -> None:
        self.gaps: list[tuple[int, int]] = []
        self.swaps: list[tuple[int, str, str]] = []  # number, before, after
        self.continued: list[tuple[int, int]] = []
        self.scored, self.steps = array("q"), array("q")  # numbers and steps of scores
        self.at = array("d")
        end = 0
        for line in lines:
            if line.seq > end:
                self._add_gap(end, line.seq - 1)
            end = line.seq + 1
            step = line.fields.get("step")
            if line.name == LOST:
                upto = line.fields.get("upto", line.seq)
                end = max(end, upto + 1 if is_count(upto) else end)
                self._add_gap(line.seq, end - 1)
            elif line.name == SCORES and is_count(step):
                self.scored.append(line.seq)
                self.steps.append(step)
                self.at.append(line.at)
            elif line.name == SWAPPED:
                before, after = line.fields.get("before"), line.fields.get("after")
                self.swaps.append((line.seq, str(before or ""), str(after or "")))
            elif line.name == CONTINUED:
                first = line.fields.get("lines", line.seq)
                self.continued.append((line.seq, first if is_count(first) else line.seq))
        if end < written:
            self._add_gap(end, written - 1)

    def _add_gap(self, first: int, last: int) -> None:
        if self.gaps and self.gaps[-1][1] == first - 1:
            first = self.gaps.pop()[0]
        self.gaps.append((first, last))


class _GapReader:
    """Reconstructs gaps; each part takes time proportional to the log, however many gaps."""

    def __init__(self, log: _Log, regime: str, facts: Sequence[LogFact], tag: str) -> None:
        self._log, self._regime, self._facts, self._tag = log, regime, facts, tag
        self._known: dict[int, LogLine] = {}
        self._doubtful: set[int] = set()  # first lines of gaps
        self._continued = sorted(log.continued)
        with_continued = [fact for fact in facts if fact.continued is not None]
        self._newest = with_continued[-1] if with_continued else LogFact(0)
        self._stated = sorted(self._newest.continued or ())
        # Indices of the scores that count before a line, and how far they were read.
        self._counted, self._scored, self._went_on = array("q"), 0, 0

    def read(self) -> GapReading:
        for gap in self._log.gaps:
            self._find_continued(gap)
        self._follow_regime()
        lines = sorted((*self._known.values(), *self._lost_lines()), key=lambda line: line.seq)
        lost = sum(line.fields["upto"] + 1 - line.seq for line in lines if line.name == LOST)
        return GapReading(tuple(lines), lost, bool(self._doubtful))

    # Where the run continued

    def _find_continued(self, gap: tuple[int, int]) -> None:
        if self._newest.lines > gap[1]:
            for seq, lines in self._stated[bisect_left(self._stated, (gap[0], 0)) :]:
                if seq > gap[1]:
                    break
                self._add_continued(seq, lines)
        elif (counted := self._lines_before_return(gap)) is not None:
            self._add_continued(gap[0], counted)

    def _add_continued(self, seq: int, lines: int) -> None:
        step, at = self._score_before(lines)
        fields = {"step": step, "remark": "", "folder": "", "lines": lines, MADE_ANEW: True}
        self._known[seq] = LogLine(seq, at, CONTINUED, fields, self._tag)
        insort(self._continued, (seq, lines))

    def _lines_before_return(self, gap: tuple[int, int]) -> int | None:
        """Return how many lines count before a gap after which steps go back; None if they do not.

        The gap may have lost as many scores as lines after the checkpoint from which the run
        continued: so many fewer count before, but never fewer than before the newest checkpoint.
        """
        log = self._log
        after = bisect_left(log.scored, gap[1])
        if after == len(log.scored):
            return None
        went_on = bisect_left(log.continued, (gap[1], 0))
        if went_on < len(log.continued) and log.continued[went_on][0] < log.scored[after]:
            return None  # the log says so itself
        self._count_before(gap[0])
        counted, step = self._counted, log.steps[after]
        if not counted or log.steps[counted[-1]] < step:
            return None
        index = len(counted)
        while index and log.steps[counted[index - 1]] >= step:
            index -= 1
        index = max(0, index - (gap[1] - gap[0]))
        lines = log.scored[counted[index - 1]] + 1 if index else 0
        counts = [fact.lines for fact in self._facts if fact.lines <= gap[0] and fact.step <= step]
        return max([lines, *counts])

    def _count_before(self, number: int) -> None:
        """Collect the scores before a line, without those that do not count there."""
        log = self._log
        while self._went_on < len(self._continued):
            seq, lines = self._continued[self._went_on]
            if seq >= number:
                break
            self._take_scores(seq)
            while self._counted and log.scored[self._counted[-1]] >= lines:
                self._counted.pop()
            self._went_on += 1
        self._take_scores(number)

    def _take_scores(self, number: int) -> None:
        end = bisect_left(self._log.scored, number)
        self._counted.extend(range(self._scored, end))
        self._scored = max(self._scored, end)

    def _score_before(self, number: int) -> tuple[int, float]:
        """Return step and time of the last score before a line; zeros if there is none."""
        index = bisect_left(self._log.scored, number) - 1
        return (self._log.steps[index], self._log.at[index]) if index >= 0 else (0, 0.0)

    # The regime

    def _follow_regime(self) -> None:
        """Compare the regime of the intact lines with the regimes known from elsewhere.

        If they differ, it was changed in a gap: the last one is assumed, so that no score before it
        counts for this regime.
        """
        regime, history = self._regime, [(0, self._regime)]
        open_gaps: list[tuple[int, int]] = []

        def compare_regime(stated: str) -> None:
            nonlocal regime
            if stated and open_gaps and stated != regime:
                self._add_swap(open_gaps[-1], regime, stated)
                history.append((open_gaps[-1][1], stated))
                regime = stated
            if stated:
                open_gaps.clear()

        for number, _, what in self._regime_moments():
            match what:
                case (int(first), int(last)):
                    open_gaps.append((first, last))
                case LogFact(regime=stated):
                    compare_regime(stated)
                case (str(before), str(after)):
                    compare_regime(before)
                    regime = after
                    history.append((number, after))
                case int(lines):
                    while len(history) > 1 and history[-1][0] >= lines:
                        history.pop()
                    regime = history[-1][1]
                    while open_gaps and open_gaps[-1][0] >= lines:
                        open_gaps.pop()
        self._doubtful.update(first for first, _ in open_gaps)

    def _regime_moments(self) -> list[tuple[int, int, object]]:
        """Return everything that states a regime, in log order.

        A fact comes before the line written next, and a gap before its consequences.
        """
        log = self._log
        moments: list[tuple[int, int, object]] = []
        moments += [(last, 1, (first, last)) for first, last in log.gaps]
        moments += [(fact.lines, 0, fact) for fact in self._facts]
        moments += [(seq, 2, (before, after)) for seq, before, after in log.swaps]
        moments += [(seq, 3, lines) for seq, lines in self._continued]
        return sorted(moments, key=lambda moment: moment[:2])

    def _add_swap(self, gap: tuple[int, int], before: str, after: str) -> None:
        seq = next((n for n in range(gap[1], gap[0] - 1, -1) if n not in self._known), None)
        if seq is None:  # no room: not all of the gap is known
            self._doubtful.add(gap[0])
            return
        step, at = self._score_before(seq)
        groups: dict[str, list[str]] = {"kept": [], "frozen": [], "redrawn": [], "copied": []}
        fields = {"step": step, "before": before, "after": after, **groups, MADE_ANEW: True}
        self._known[seq] = LogLine(seq, at, SWAPPED, fields, self._tag)

    def _lost_lines(self) -> Iterator[LogLine]:
        all_known = sorted(self._known)
        for first, last in self._log.gaps:
            doubt = {DOUBTFUL: True} if first in self._doubtful else {}
            known = all_known[bisect_left(all_known, first) : bisect_left(all_known, last + 1)]
            starts = [first, *(seq + 1 for seq in known)]
            for start, end in zip(starts, [*known, last + 1], strict=True):
                if start < end:
                    yield LogLine(start, 0.0, LOST, {"upto": end - 1, **doubt}, self._tag)
