"""A log that is read in one go, without holding its lines, says what its lines say."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pytest

from dgn_engine.protocol import events
from dgn_engine.storage.plain_data import to_plain
from dgn_engine.storage.runs.log import LogLine, LogScan, encode_line, event_of, read_log
from dgn_engine.storage.runs.log_summary import ENDS, GOES_ON, scan_summary, summarise


def measured(step: int, accuracy: float | None = None) -> tuple[str, dict[str, Any]]:
    return "Measured", to_plain(events.Measured(step, step / 5, 0.5, 0.5, None, accuracy))


def swapped(step: int, after: str) -> tuple[str, dict[str, Any]]:
    return "RegimeSwapped", to_plain(events.RegimeSwapped(step, "DL", after, (), (), (), ()))


def lines_of(*parts: tuple[str, dict[str, Any]]) -> list[LogLine]:
    return [LogLine(seq, 100.0 + seq, *part) for seq, part in enumerate(parts)]


def drawn(seed: int) -> list[LogLine]:
    """A run that goes on again and again, from wherever it was."""
    chance = random.Random(seed)
    parts: list[tuple[str, dict[str, Any]]] = []
    for step in range(60):
        match chance.randrange(12):
            case 0:
                parts.append(swapped(step, chance.choice(("FL", "FR-II"))))
            case 1:
                back = chance.randrange(len(parts) + 1)
                parts.append(("RunContinued", {"step": step // 2, "lines": back}))
            case 2:
                parts.append((chance.choice([*ENDS]), {"step": step}))
            case 3:
                parts.append(("Traced", {"step": step, "probe": "npk", "values": {"nu": 1.0}}))
            case 4:
                parts.append(("Unheard", {"step": chance.choice(("x", None, -3, 2.5))}))
            case 5 | 6 | 7:
                score = chance.choice((0.25, 0.5, 0.75, math.nan, math.inf))
                parts.append(measured(step, score))
            case _:
                parts.append(measured(step))
    return lines_of(*parts)


def counting(lines: list[LogLine]) -> list[LogLine]:
    """By the rule in its plainest form."""
    kept: list[LogLine] = []
    for line in lines:
        if line.name == "RunContinued":
            kept = [one for one in kept if one.seq < line.fields["lines"]]
        kept.append(line)
    return kept


def best_of(found: list[Any]) -> tuple[int, float]:
    known = [one for one in found if 0 <= (one.test_accuracy or 0.0) <= 1]
    best = max(known, key=lambda one: one.test_accuracy, default=None)
    return (0, -1.0) if best is None else (best.step, best.test_accuracy)


@pytest.mark.parametrize("seed", range(40))
def test_a_summary_says_what_the_lines_that_count_say(seed: int, tmp_path: Path) -> None:
    lines = drawn(seed)
    (tmp_path / "log").write_bytes(b"".join(map(encode_line, lines)))
    kept = counting(lines)
    told = [event for line in kept if (event := event_of(line)) is not None]
    tested = [e for e in told if isinstance(e, events.Measured) and e.test_accuracy is not None]
    swaps = [place for place, e in enumerate(told) if isinstance(e, events.RegimeSwapped)]
    since = told[swaps[-1] :] if swaps else told
    last = [line.name for line in kept if line.name in (*ENDS, *GOES_ON)][-1:]
    for found in (summarise(lines), scan_summary(tmp_path / "log")):
        assert found.outcome == (ENDS[last[0]] if last and last[0] in ENDS else "interrupted")
        assert found.regime == (told[swaps[-1]].after if swaps else "")
        for score, among in ((found.best_of_all, told), (found.best, since)):
            wanted = best_of([e for e in tested if e in among])
            assert (score.step, score.accuracy) == wanted or math.isnan(score.accuracy)
            assert math.isnan(score.accuracy) == (wanted[1] < 0)
        assert repr(found.last.accuracy) == (repr(tested[-1].test_accuracy) if tested else "nan")
        steps = [line.fields.get("step", 0) for line in kept[-50:]]
        assert found.step == max(step for step in steps if type(step) is int and step >= 0)
        gaps = sum(line.name != "RunContinued" for line in lines[1:])
        assert found.seconds == gaps
        assert [type(e) for e in found.changes] == [
            type(e)
            for e in told
            if isinstance(e, (events.RegimeSwapped, events.RunContinued, events.Failed))
        ]


def test_lines_that_are_passed_over_are_checked_all_the_same(tmp_path: Path) -> None:
    lines = drawn(3)
    path = tmp_path / "log"
    content = bytearray(b"".join(map(encode_line, lines)))
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content) + b"torn")
    whole, quick = read_log(path), LogScan(path, {})
    heads = [(line.seq, line.at, line.name) for line in quick]
    assert heads == [(line.seq, line.at, line.name) for line in whole.lines]
    assert len(quick.damaged) == 1
    assert (*quick.damaged,) == whole.damaged
    assert (*quick.missing,) == whole.missing
    assert (quick.torn, quick.end) == (4, whole.end)


def test_a_run_that_goes_on_ten_thousand_times_is_read_in_one_go() -> None:
    parts = [("RunContinued", {"step": 1, "lines": seq}) for seq in range(10_000)]
    assert len(summarise(lines_of(*parts)).changes) == 10_000


def test_more_changes_than_any_run_has_are_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dgn_engine.storage.runs.log_summary._MOST", 9)
    with pytest.raises(ValueError, match="more than 9 changes"):
        summarise(lines_of(*(swapped(step, "FL") for step in range(10))))
