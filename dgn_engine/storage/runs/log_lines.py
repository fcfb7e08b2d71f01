"""Lines of a run's log: one JSON object each, with its number, its time and a checksum."""

from __future__ import annotations

import dataclasses
import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dgn_engine.protocol import events as told
from dgn_engine.protocol.events import Event

LOGGED: tuple[type[Any], ...] = (
    told.Measured,
    told.Traced,
    told.RegimeSwapped,
    told.WeightsTaken,
    told.Rewired,
    told.SettingChanged,
    told.Saved,
    told.Diverged,
    told.Failed,
    told.Finished,
    told.RecordingPaused,
    told.RecordingResumed,
    told.RunContinued,
)
_BY_NAME = {kind.__name__: kind for kind in LOGGED}
_SPLIT = b',"crc":"'
_WORDS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


@dataclass(frozen=True)
class Line:
    """One line as it was read. `at`: seconds since 1970 by a clock that may have been set back."""

    seq: int
    at: float
    name: str
    fields: Mapping[str, Any]


def encode(line: Line) -> bytes:
    """The line with its end. The checksum is the CRC-32 of all bytes before ',\"crc\"'."""
    tree = {"seq": line.seq, "at": line.at, "event": line.name, **_plain(line.fields)}
    body = json.dumps(tree, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    head = body[:-1]
    return head + _SPLIT + f'{zlib.crc32(head):08x}"}}\n'.encode()


def decode(raw: bytes) -> Line | None:
    """The line, without its end; None where it is torn or damaged."""
    head, split, tail = raw.rpartition(_SPLIT)
    if not split or tail != f'{zlib.crc32(head):08x}"}}'.encode():
        return None
    try:
        tree = json.loads(head + b"}")
        return Line(int(tree.pop("seq")), float(tree.pop("at")), str(tree.pop("event")), dict(tree))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def fields_of(event: Event) -> dict[str, Any]:
    """What is written of an event."""
    return {item.name: getattr(event, item.name) for item in dataclasses.fields(event)}


def event_of(line: Line) -> Event | None:
    """The event that a line tells; None for what is no event, or has another shape."""
    kind = _BY_NAME.get(line.name)
    if kind is None:
        return None
    try:
        arguments = {
            item.name: _typed(str(item.type), line.fields[item.name])
            for item in dataclasses.fields(kind)
            if item.name in line.fields
        }
        event: Event = kind(**arguments)
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError):
        return None
    return event


def _plain(value: Any) -> Any:
    """JSON has no infinities: they are written as words."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _typed(declared: str, value: Any) -> Any:
    if declared.startswith("tuple"):
        return tuple(value)
    if declared.startswith("Mapping"):
        return {str(key): _number(inner) for key, inner in value.items()}
    if declared.startswith("float"):
        return None if value is None else _number(value)
    if declared == "int":
        return int(value)
    return value


def _number(value: Any) -> float:
    return _WORDS[value] if isinstance(value, str) else float(value)
