"""Check that an untrusted run is plausible: numbers in range, names that can be shown.

Intact files may still be meant to harm whoever draws them. Types were checked when dataclasses were
built from them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any

from dgn_engine.errors import UserError
from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.training import RegimeSwapped, Rewired, RunStarted
from dgn_engine.protocol.watching import ProbeScalars, ReadOn
from dgn_engine.regimes import find_regime
from dgn_engine.storage.runs import folder_layout
from dgn_engine.storage.runs.log import LOGGED, LogScan, event_of, log_trouble
from dgn_engine.storage.runs.manifest import NOTHING, is_foreign_log, marked_lines, read_manifest
from dgn_engine.storage.runs.run_checkpoints import read_state, scan_checkpoints
from dgn_engine.storage.runs.run_ranges import STEPS
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.text.printable import plain_text

SERIES = 1000  # curves by name
_Each = tuple[int, ...]  # one number per gate layer
_FAULTS = (KeyError, TypeError, ValueError, AttributeError, RecursionError, OverflowError)


def check_run(reader: RunReader) -> None:
    """Raise `UserError`, a reason without a subject, if something is impossible."""
    parts: tuple[tuple[str, Callable[[RunReader], None]], ...] = (
        ("its description", _check_started),
        ("its log", _check_log),
        ("a checkpoint", _check_checkpoints),
        ("its last frame", _check_frame),
    )
    for part, check in parts:
        try:
            check(reader)
        except _FAULTS as error:
            reason = plain_text(f"{type(error).__name__}: {error}", 120)
            raise UserError(f"{part} is invalid ({reason})") from None


def _check_started(reader: RunReader) -> None:
    """Check the start of the run; its own numbers were checked when it was read."""
    reader.config  # noqa: B018 - built for its checks
    _check_range({key: value for key, value in reader.info.items() if key != "config"})
    started = reader.start_event
    if started is not None:
        find_regime(started.regime)
        _check_wiring(started, started.wiring, started.rotation, started.shift)


def _check_log(reader: RunReader) -> None:
    started = reader.start_event
    names: set[tuple[str, str, ReadOn]] = set()
    known = read_manifest(reader.info) or NOTHING
    marked = marked_lines(reader.checkpoints, known)
    log = LogScan(reader.root / folder_layout.LOG, marked=marked)
    for line in log:
        event = event_of(line)
        if event is None and line.name in LOGGED:
            raise ValueError(f"fields of {line.name}")
        match event:
            case ProbeScalars(probe=probe, values=values):
                names.update((probe, name, event.read_on) for name in values)
                if len(names) > SERIES:
                    raise ValueError("too many curves")
            case RegimeSwapped(after=after):
                find_regime(after)
            case Rewired(order=order, rotation=rotation, shift=shift):
                _check_wiring(started, order, rotation, shift)
    if is_foreign_log(reader.root, known, log.marks):
        raise ValueError("it belongs to another run")
    if trouble := log_trouble(log, known.marks):  # a session's log ends in a complete line
        raise ValueError(f"it {trouble}")


def _check_wiring(started: RunStarted | None, order: _Each, rotation: _Each, shift: _Each) -> None:
    if started is None:
        return
    if sorted(order) not in ([], list(range(len(started.layers)))):
        raise ValueError("order of the gate layers")
    if any(turns and len(turns) != len(started.layers) for turns in (rotation, shift)):
        raise ValueError("rotations of the gate layers")


def _check_checkpoints(reader: RunReader) -> None:
    for checkpoint in scan_checkpoints(reader.root / folder_layout.CHECKPOINTS, thorough=False):
        if not checkpoint.is_intact:
            raise ValueError(f"{checkpoint.path.name}: {checkpoint.culprit} {checkpoint.trouble}")
        state = read_state(checkpoint.path)
        _check_range(state)
        if not isinstance(state["regime"], str) or not isinstance(state["dials"], dict):
            raise TypeError("its state")
        find_regime(state["regime"])


def _check_frame(reader: RunReader) -> None:
    if reader.frames:
        frame = reader.frame_of_step(reader.frames[-1].step)
        if not math.isfinite(frame.epoch):
            raise ValueError("epoch")


def _check_range(tree: Any) -> None:
    """Check that integers are not too large."""
    if isinstance(tree, int) and abs(tree) > STEPS:
        raise ValueError("a number that is too large")
    inner = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    for value in inner:  # not deep: the depth was checked
        _check_range(value)


def escape_words(value: Any) -> Any:
    """Escape unprintable characters in JSON values and tuples, so that they can be shown."""
    if isinstance(value, str):
        return plain_text(value, 4096)
    if isinstance(value, dict):
        return {plain_text(str(key)): escape_words(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(escape_words(item) for item in value)
    return value


def plain_frame(frame: Frame) -> Frame:
    """Return the frame with words that can be shown."""
    readings = {}
    for probe, reading in frame.readings.items():
        absent, remark = plain_text(reading.absent, 4096), plain_text(reading.remark)
        facts = escape_words(reading.facts)
        readings[plain_text(probe)] = replace(reading, facts=facts, absent=absent, remark=remark)
    return replace(
        frame,
        readings=readings,
        regime=plain_text(frame.regime),
        probe_digest=plain_text(frame.probe_digest),
    )


def plain_event(event: Event) -> Event:
    assert is_dataclass(event)
    values = {item.name: getattr(event, item.name) for item in fields(event)}
    words = {name: value for name, value in values.items() if isinstance(value, (str, tuple))}
    return replace(event, **escape_words(words))
