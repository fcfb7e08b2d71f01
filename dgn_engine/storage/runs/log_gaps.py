"""What lost lines of a log said, as far as that stands elsewhere.

Any line may have stood in a gap, also one that changes what the lines around it mean:
`RunContinued`, after which earlier lines do not count, or `RegimeSwapped`, after which scores are
of another network. Checkpoints and the inventory written behind a gap say where the run went on and
which regime it had; where there is none, steps that go back say that the run went on from before
them. What is known is read as a line of its own in the gap, and `repair` writes it there.
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

DOUBTFUL = "doubtful"  # field of a line that stands for lost ones: a change may be among them
# What `read_gaps` needs of lines; of scores their steps, which all lines have.
NEEDED: Wanted = {CONTINUED: None, SWAPPED: None}
_MOST = 10_000  # times that a run went on


@dataclass(frozen=True)
class LogFact:
    """What was written down behind the first `lines` lines of a log: the regime ('' where it does
    not say), and where the run went on: number and `lines` of each `RunContinued` (None where it
    does not say)."""

    lines: int
    step: int = 0
    regime: str = ""
    continued: Ranges | None = None


@dataclass(frozen=True)
class GapReading:
    """`lines`: what stands for the lost lines, ascending: lines that are known, and a `Lost` for
    those that are not, with `doubtful` where the regime behind them is not known; `lost`: how many
    lines are not known."""

    lines: tuple[LogLine, ...] = ()
    lost: int = 0
    doubtful: bool = False

    def fill(self, lines: Iterable[LogLine]) -> Iterator[LogLine]:
        """The sound lines with these in the gaps between them."""
        left = list(reversed(self.lines))
        for line in lines:
            while left and left[-1].seq < line.seq:
                yield left.pop()
            if line.name != LOST:  # it is among ours
                yield line
        yield from reversed(left)


def continued_in(tree: Mapping[str, Any]) -> Ranges | None:
    """Where the run went on, as `LogFact`, of a state or inventory; None where it does not say."""
    pairs = tree.get("continued")
    if not isinstance(pairs, list) or len(pairs) > _MOST:
        return None
    found = [tuple(pair) for pair in pairs if isinstance(pair, list) and len(pair) == 2]
    if len(found) != len(pairs) or not all(is_count(n) for pair in found for n in pair):
        return None
    return tuple((int(seq), int(lines)) for seq, lines in found)


def facts_in(folder: InnerPath) -> list[LogFact]:
    """What the sound checkpoints of a run say of its log, in its order."""
    found = []
    inner = folder / folder_layout.CHECKPOINTS
    held = [] if inner.is_link() else run_checkpoints.scan(inner, thorough=False)
    for one in (one for one in held if one.sound):
        try:
            state = run_checkpoints.read_state(one.path)
        except (OSError, ValueError):
            continue
        regime = state.get("regime", "")
        known = regime if is_word(regime) else ""
        found.append(LogFact(one.lines, one.step, known, continued_in(state)))
    return sorted(found, key=lambda fact: fact.lines)


def read_gaps(
    lines: Iterable[LogLine],
    written: int,
    regime: str,
    facts: Sequence[LogFact],
    tag: str = "",
) -> GapReading:
    """What stood in the gaps of a log.

    Args:
        lines: all sound ones, in order, with the fields that `NEEDED` names.
        written: how many lines there were at least.
        regime: of the run at its start.
        facts: by their `lines`.
        tag: of the run, which lines in gaps state.
    """
    log = _Log(lines, written)
    if not log.gaps:
        return GapReading()
    return _GapReader(log, regime, sorted(facts, key=lambda fact: fact.lines), tag).read()


class _Log:
    """The numbers of what matters in a log."""

    def __init__(self, lines: Iterable[LogLine], written: int) -> None:
        self.gaps: list[tuple[int, int]] = []
        self.swaps: list[tuple[int, str, str]] = []  # number, before, after
        self.continued: list[tuple[int, int]] = []
        self.scored, self.steps = array("q"), array("q")  # numbers and steps of scores
        self.at = array("d")
        end = 0
        for line in lines:
            if line.seq > end:
                self._lose(end, line.seq - 1)
            end = line.seq + 1
            step = line.fields.get("step")
            if line.name == LOST:
                upto = line.fields.get("upto", line.seq)
                end = max(end, upto + 1 if is_count(upto) else end)
                self._lose(line.seq, end - 1)
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
            self._lose(end, written - 1)

    def _lose(self, first: int, last: int) -> None:
        if self.gaps and self.gaps[-1][1] == first - 1:
            first = self.gaps.pop()[0]
        self.gaps.append((first, last))


class _GapReader:
    """Each part takes time in proportion to the log, however many gaps it has."""

    def __init__(self, log: _Log, regime: str, facts: Sequence[LogFact], tag: str) -> None:
        self._log, self._regime, self._facts, self._tag = log, regime, facts, tag
        self._known: dict[int, LogLine] = {}
        self._doubtful: set[int] = set()  # first lines of gaps
        self._continued = sorted(log.continued)
        said = [fact for fact in facts if fact.continued is not None]
        self._newest = said[-1] if said else LogFact(0)
        self._stated = sorted(self._newest.continued or ())
        # Places of the scores that count before a line, and how far they were taken.
        self._counted, self._scored, self._went_on = array("q"), 0, 0

    def read(self) -> GapReading:
        for gap in self._log.gaps:
            self._find_continued(gap)
        self._follow_regime()
        lines = sorted((*self._known.values(), *self._lost()), key=lambda line: line.seq)
        lost = sum(line.fields["upto"] + 1 - line.seq for line in lines if line.name == LOST)
        return GapReading(tuple(lines), lost, bool(self._doubtful))

    # Where the run went on

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
        """How many lines count before a gap behind which the steps go back; None where they do
        not.

        Behind the checkpoint from which the run went on it may have lost as many scores as lines:
        so many fewer count before, but never fewer than before the newest checkpoint that is there.
        """
        log = self._log
        after = bisect_left(log.scored, gap[1])
        if after == len(log.scored):
            return None
        went_on = bisect_left(log.continued, (gap[1], 0))
        if went_on < len(log.continued) and log.continued[went_on][0] < log.scored[after]:
            return None  # it says so itself
        self._count_before(gap[0])
        counted, step = self._counted, log.steps[after]
        if not counted or log.steps[counted[-1]] < step:
            return None
        place = len(counted)
        while place and log.steps[counted[place - 1]] >= step:
            place -= 1
        place = max(0, place - (gap[1] - gap[0]))
        lines = log.scored[counted[place - 1]] + 1 if place else 0
        held = [one.lines for one in self._facts if one.lines <= gap[0] and one.step <= step]
        return max([lines, *held])

    def _count_before(self, number: int) -> None:
        """Take the scores before a line, less those that do not count there."""
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
        """Step and time of the last score before a line; zeros where there is none."""
        place = bisect_left(self._log.scored, number) - 1
        return (self._log.steps[place], self._log.at[place]) if place >= 0 else (0, 0.0)

    # Which regime it had

    def _follow_regime(self) -> None:
        """Compare the regime that the sound lines say with those that are known elsewhere; one that
        differs was changed to in a gap since: in the last one, so that no score before it counts as
        one of this regime."""
        regime, history = self._regime, [(0, self._regime)]
        open_gaps: list[tuple[int, int]] = []

        def compare(stated: str) -> None:
            nonlocal regime
            if stated and open_gaps and stated != regime:
                self._add_swap(open_gaps[-1], regime, stated)
                history.append((open_gaps[-1][1], stated))
                regime = stated
            if stated:
                open_gaps.clear()

        for number, _, what in self._moments():
            match what:
                case (int(first), int(last)):
                    open_gaps.append((first, last))
                case LogFact(regime=stated):
                    compare(stated)
                case (str(before), str(after)):
                    compare(before)
                    regime = after
                    history.append((number, after))
                case int(lines):
                    while len(history) > 1 and history[-1][0] >= lines:
                        history.pop()
                    regime = history[-1][1]
                    while open_gaps and open_gaps[-1][0] >= lines:
                        open_gaps.pop()
        self._doubtful.update(first for first, _ in open_gaps)

    def _moments(self) -> list[tuple[int, int, object]]:
        """Everything that says a regime, in the order of the log; a fact before the line that was
        written next, and what a gap lost before what came of it."""
        log = self._log
        found: list[tuple[int, int, object]] = []
        found += [(last, 1, (first, last)) for first, last in log.gaps]
        found += [(fact.lines, 0, fact) for fact in self._facts]
        found += [(seq, 2, (before, after)) for seq, before, after in log.swaps]
        found += [(seq, 3, lines) for seq, lines in self._continued]
        return sorted(found, key=lambda moment: moment[:2])

    def _add_swap(self, gap: tuple[int, int], before: str, after: str) -> None:
        seq = next((n for n in range(gap[1], gap[0] - 1, -1) if n not in self._known), None)
        if seq is None:  # it had no room: what is known of the gap is not all
            self._doubtful.add(gap[0])
            return
        step, at = self._score_before(seq)
        groups: dict[str, list[str]] = {"kept": [], "frozen": [], "redrawn": [], "copied": []}
        fields = {"step": step, "before": before, "after": after, **groups, MADE_ANEW: True}
        self._known[seq] = LogLine(seq, at, SWAPPED, fields, self._tag)

    def _lost(self) -> Iterator[LogLine]:
        all_known = sorted(self._known)
        for first, last in self._log.gaps:
            doubt = {DOUBTFUL: True} if first in self._doubtful else {}
            known = all_known[bisect_left(all_known, first) : bisect_left(all_known, last + 1)]
            starts = [first, *(seq + 1 for seq in known)]
            for start, end in zip(starts, [*known, last + 1], strict=True):
                if start < end:
                    yield LogLine(start, 0.0, LOST, {"upto": end - 1, **doubt}, self._tag)
