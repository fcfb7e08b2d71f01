"""Logs drawn at random, of runs that go on again and again, and which of their lines count."""

from __future__ import annotations

import math
import random
from typing import Any

from dgn_engine.protocol.training import Measured, RegimeSwapped
from dgn_engine.storage.plain_data import to_plain
from dgn_engine.storage.runs.log import LogLine
from dgn_engine.storage.runs.log_summary import ENDS


def measured(step: int, accuracy: float | None = None) -> tuple[str, dict[str, Any]]:
    return "Measured", to_plain(Measured(step, step / 5, 0.5, 0.5, None, accuracy))


def swapped(step: int, after: str) -> tuple[str, dict[str, Any]]:
    return "RegimeSwapped", to_plain(RegimeSwapped(step, "DL", after, (), (), (), ()))


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
