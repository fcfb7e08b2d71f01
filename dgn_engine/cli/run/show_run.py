"""`dgn runs show`: describe a recorded run."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from dgn_engine.config import DataConfig
from dgn_engine.protocol.messages import Failed
from dgn_engine.protocol.runs import (
    RecordingMended,
    RecordingPaused,
    RecordingResumed,
    RunContinued,
)
from dgn_engine.protocol.training import RegimeSwapped, Rewired
from dgn_engine.storage.runs.folder_layout import find_run
from dgn_engine.storage.runs.run_reader import RunReader, frames_in_words
from dgn_engine.text.byte_counts import binary_size_in_words
from dgn_engine.text.printable import plain_text, print_line
from dgn_engine.text.written_numbers import format_number, format_percent

_CHANGES = 1000  # maximum number listed


def show_run(arguments: argparse.Namespace) -> int:
    folder = find_run(arguments.run)
    if not folder.is_file():
        for line in describe_run(folder, str(folder)):
            print_line(line)
        return 0
    from dgn_engine.storage.session_file.session_reader import unpack_session

    with tempfile.TemporaryDirectory() as temp_folder:
        session = unpack_session(folder, Path(temp_folder))
        saved = f"{folder}: a session, saved {session.saved} at step {session.step:,}"
        for line in (saved, *describe_run(session.folder, session.name)):
            print_line(plain_text(line, 2000))
    return 0


def describe_run(folder: Path, name: str) -> list[str]:
    """Return lines that describe a run; raises `UserError` if there is none.

    Args:
        folder: the run's folder.
        name: its name in the first line.
    """
    reader = RunReader(folder)
    config, info = reader.config, reader.info
    versions = ", ".join(f"{name} {word}" for name, word in info.get("versions", {}).items())
    options = ", ".join(f"{name} {value}" for name, value in config.net.options)
    net = f"{config.net.display_name} ({options})" if options else config.net.display_name
    threads = info.get("threads", "?")
    return [
        f"{name}: {reader.status}, step {reader.step:,}{_of_total(reader)}",
        f"  {config.gating.regime} · {net} · {_format_data(config.data)} · seed {config.seed}",
        f"  started {info.get('created', 'at an unknown time')} on "
        f"{info.get('device', 'an unknown device')}, {threads} thread{'' if threads == 1 else 's'}",
        f"  {versions}",
        *([f"  {reader.log.lost_in_words}"] if reader.log.lost_in_words else []),
        *_score_lines(reader),
        *_change_lines(reader),
        *(
            f"  checkpoint {checkpoint.path.name}"
            + (f" ({checkpoint.kept})" if checkpoint.kept else "")
            for checkpoint in reader.checkpoints
        ),
        *_frame_lines(reader),
    ]


def _format_data(data: DataConfig) -> str:
    text = data.name + (f" {data.binary[0]}|{data.binary[1]}" if data.binary else "")
    text += "".join(f", {name} {value}" for name, value in data.options)
    if data.label_noise:
        text += f", {format_number(100 * data.label_noise)} % label noise"
    return f"{text}, random pixels" if data.pixels == "random" else text


def _of_total(reader: RunReader) -> str:
    started = reader.start_event
    return f" of {started.total_steps:,}" if started is not None and started.total_steps else ""


def _score_lines(reader: RunReader) -> list[str]:
    best, last = reader.log.summary.best_of_all, reader.log.summary.last
    if best.accuracy != best.accuracy:
        return ["  no test score yet"]
    return [
        f"  test accuracy: best {format_percent(best.accuracy, 2)} at step {best.step:,}, "
        f"last {format_percent(last.accuracy, 2)} at step {last.step:,}"
    ]


def _change_lines(reader: RunReader) -> list[str]:
    parts: list[str] = []
    changes = reader.log.summary.changes
    for event in changes[:_CHANGES]:
        match event:
            case RegimeSwapped():
                parts.append(event.sentence)
            case Rewired():
                parts.append(_describe_wiring(event))
            case RunContinued():
                parts.append(f"Continued at step {event.step:,}. {event.remark}".rstrip())
            case RecordingPaused():
                parts.append(f"{event.reason} (step {event.step:,})")
            case RecordingMended():
                parts.append(f"{event.remark} (step {event.step:,})")
            case RecordingResumed():
                parts.append(
                    f"Recording resumed at step {event.step:,}, {event.lost:,} lines lost."
                )
            case Failed():
                parts.append(event.what)
    if len(changes) > _CHANGES:
        parts.append(f"… and {len(changes) - _CHANGES:,} more changes")
    return [f"  {sentence}" for sentence in parts]


def _describe_wiring(event: Rewired) -> str:
    order = " ".join(f"G{source + 1}" for source in event.order)  # as in the layer strip
    text = f"Gate layers in the order {order}"
    if event.rotation:
        text += f", rotated by {list(event.rotation)} units"
    if event.shift:
        text += f", shifted by {list(event.shift)} pixels"
    return f"{text} at step {event.step:,}."


def _frame_lines(reader: RunReader) -> list[str]:
    """Return lines on the recorded frames and on what was thinned out."""
    words = frames_in_words(reader.frames)
    size = binary_size_in_words(sum(f.bytes for f in reader.frames))
    lines = [f"  frames: {len(reader.frames)}, {size}" + (f", of {words}" if words else "")]
    frames, checkpoints, limit = reader.log.summary.thinned
    gone = [f"{frames:,} frames"] * bool(frames)
    gone += [f"{checkpoints:,} checkpoints"] * bool(checkpoints)
    if gone:
        lines.append(
            f"  thinned out by age: {' and '.join(gone)} "
            f"(folder limit {binary_size_in_words(limit)})"
        )
    return lines
