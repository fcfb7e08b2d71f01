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

# What is logged, by the word that stands in the file: those words outlive the names of classes.
LOGGED: Mapping[str, type[Any]] = {
    "Measured": told.Measured,
    "Traced": told.ProbeScalars,
    "RegimeSwapped": told.RegimeSwapped,
    "WeightsTaken": told.WeightsTaken,
    "Rewired": told.Rewired,
    "SettingChanged": told.SettingChanged,
    "Saved": told.WeightsSaved,
    "Diverged": told.Diverged,
    "Failed": told.Failed,
    "Finished": told.Finished,
    "RecordingPaused": told.RecordingPaused,
    "RecordingResumed": told.RecordingResumed,
    "RunContinued": told.RunContinued,
}
_WORD_OF = {kind: word for word, kind in LOGGED.items()}
_SPLIT = b',"crc":"'
_WORDS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


@dataclass(frozen=True)
class LogLine:
    """One line as it was read. `at`: seconds since 1970 by a clock that may have been set back."""

    seq: int
    at: float
    name: str
    fields: Mapping[str, Any]


def encode(line: LogLine) -> bytes:
    """The line with its end. The checksum is the CRC-32 of all bytes before ',\"crc\"'."""
    tree = {"seq": line.seq, "at": line.at, "event": line.name, **_plain(line.fields)}
    body = json.dumps(tree, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    head = body[:-1]
    return head + _SPLIT + f'{zlib.crc32(head):08x}"}}\n'.encode()


def decode(raw: bytes) -> LogLine | None:
    """The line, without its end; None where it is torn or damaged."""
    head, split, tail = raw.rpartition(_SPLIT)
    if not split or tail != f'{zlib.crc32(head):08x}"}}'.encode():
        return None
    try:
        tree = json.loads(head + b"}")
        return LogLine(
            int(tree.pop("seq")), float(tree.pop("at")), str(tree.pop("event")), dict(tree)
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def is_logged(event: Event) -> bool:
    """Whether the log of a run keeps this event."""
    return type(event) in _WORD_OF


def log_word(event: Event) -> str:
    """The word that stands for the event's kind in the log."""
    return _WORD_OF[type(event)]


def fields_of(event: Event) -> dict[str, Any]:
    """What is written of an event."""
    return {item.name: getattr(event, item.name) for item in dataclasses.fields(event)}


def event_of(line: LogLine) -> Event | None:
    """The event that a line tells; None for what is no event, or has another shape."""
    kind = LOGGED.get(line.name)
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
