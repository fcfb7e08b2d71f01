"""Write a run to one file: `.dgn`, a zip of JSON and safetensors only, or its scores as `.csv`."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dgn_engine.errors import UserError
from dgn_engine.protocol.frames import Frame
from dgn_engine.storage.atomic_write import check_output, replace_file, write_file
from dgn_engine.storage.checkpoints import limits
from dgn_engine.storage.inner_path import InnerPath
from dgn_engine.storage.plain_data import to_plain
from dgn_engine.storage.regular_files import Digest, NotRegular, content_digest, read_regular
from dgn_engine.storage.runs import (
    folder_layout,
    frame_content,
    frame_files,
    run_checkpoints,
    run_identity,
    run_info,
)
from dgn_engine.storage.runs.log import decode_line
from dgn_engine.storage.runs.manifest import Manifest, known_manifest, with_manifest
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.storage.session_file import archive_format
from dgn_engine.text.printable import printable

FRAMES = 10 << 20  # bytes of frames in a session saved from the window
_CHANGES = ("RegimeSwapped", "Rewired", "SettingChanged")


@dataclass(frozen=True)
class SavePoint:
    """The step at which a session was saved; what came later is left out.

    `lines`: number of log lines before it; `frame`: the probes' readings at that step.
    """

    step: int
    lines: int
    frame: Frame | None = None


def export_run(folder: Path, out: Path) -> str:
    """Write a run as `.dgn` or its scores as `.csv`; return a sentence on what was written.

    Raises `UserError`.
    """
    check_output(out)
    reader = RunReader(folder)
    if out.suffix == archive_format.ENDING:
        count = save_session(folder, out)
        lost = f"; {reader.log.lost_in_words}" if reader.log.lost_in_words else ""
        return f"{out}: {count:,} files{lost}."
    if out.suffix != ".csv":
        raise UserError(
            f"{out.name} must end in .dgn (the whole run) or .csv (its scores).",
            kind="unknown-ending",
            value=out.name,
        )
    try:
        content = _scores_csv(reader)
        write_file(out, content.encode())
    except OSError as error:
        why = f"Cannot write {out}: {error.strerror}."
        raise UserError(why, kind="not-writable", value=error.strerror) from None
    lost = f"; {reader.log.lost_in_words}" if reader.log.lost_in_words else ""
    return f"{out}: {content.count(chr(10)) - 1:,} scores{lost}."


def save_session(
    folder: Path,
    out: Path,
    point: SavePoint | None = None,
    window: Mapping[str, Any] | None = None,
    name: str = "",
) -> int:
    """Write a session file of a recorded run, completely or not at all; return its file count.

    Args:
        point: Save the run as of this point: its newest checkpoint and those that the user keeps,
            and frames thinned to 10 MiB; None saves everything.
        window: The window's layout.
        name: The run's name, if not that of its folder.

    Raises:
        UserError: It cannot be written, or would be too large.
    """
    reader = RunReader(folder)
    step = reader.step if point is None else point.step
    about = {
        "format": archive_format.FORMAT,
        "run": printable(name or folder.name),  # the name may not be valid text
        "step": step,
        "status": reader.status if point is None else "saved",
        "saved": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": run_info.package_versions(),
        "look": window,
    }
    written: dict[str, Digest] = {}
    try:
        with replace_file(out) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            _add_member(archive, written, archive_format.ABOUT, _encode_json(about))
            for inner, content in _session_members(reader, point):
                _add_member(archive, written, f"{archive_format.FOLDER}{inner}", content)
                if file.tell() > limits.FILE - (32 << 20):
                    raise UserError(f"{out.name} would be larger than 2 GiB, and was not written.")
            archive.writestr(
                zipfile.ZipInfo(archive_format.MANIFEST), _encode_json(to_plain(written))
            )
    except OSError as error:
        why = f"Cannot write {out}: {error.strerror or error}."
        raise UserError(why, kind="not-writable", value=error.strerror) from None
    return len(written)


def _add_member(
    archive: zipfile.ZipFile, written: dict[str, Digest], name: str, content: bytes
) -> None:
    """Add a member uncompressed: numbers hardly shrink, and readers need no expansion limits."""
    archive.writestr(zipfile.ZipInfo(name), content)
    written[name] = content_digest(content)


def _session_members(reader: RunReader, point: SavePoint | None) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents of the run's files; a file that disappears meanwhile is left out.

    Checkpoints come first: in a run that continues, they disappear first.
    """
    for checkpoint in _chosen_checkpoints(reader, point):
        contents = {
            name: _file_content(checkpoint.path / name) for name in folder_layout.CHECKPOINT_FILES
        }
        if any(content is None for name, content in contents.items() if name != folder_layout.KEEP):
            continue
        for name, content in contents.items():
            if content is not None:
                yield f"{folder_layout.CHECKPOINTS}/{checkpoint.path.name}/{name}", content
    yield folder_layout.RUN, run_info.encode_info(_session_info(reader, point))
    for name in (folder_layout.CONFIG, *(() if point else (folder_layout.WEIGHTS,))):
        if (content := _file_content(reader.root / name)) is not None:
            yield name, content
    yield folder_layout.LOG, _log_content(reader.root / folder_layout.LOG, point)
    for frame in _chosen_frames(reader, point):
        if (content := _file_content(frame.path)) is not None:
            yield f"{folder_layout.FRAMES}/{frame.path.name}", content
    if point is not None and point.frame is not None:
        serial = 1 + max((frame.serial for frame in reader.frames), default=-1)
        content = frame_content.encode_frame(point.frame, run_identity.id_of(reader.info), serial)
        name = folder_layout.frame_name(point.step, serial, content_digest(content).sha256)
        yield f"{folder_layout.FRAMES}/{name}", content


def _session_info(reader: RunReader, point: SavePoint | None) -> dict[str, Any]:
    """Return its `run.json`, with a manifest of what goes into the file."""
    known = known_manifest(reader.info) if point is None else None
    if known is None:
        return with_manifest(reader.info, None)
    here = {item.path.name for item in reader.checkpoints}.intersection(known.checkpoints)
    files = {name: item for name, item in known.files.items() if name == folder_layout.WEIGHTS}
    if folder_layout.is_mirror(reader.root):
        files = {name: item for name, item in files.items() if (reader.root / name).exists()}
    left = Manifest.from_parts(
        known.lines, known.frame_serials, here, files, known.marks, known.digests
    )
    return with_manifest(reader.info, left)


def _chosen_checkpoints(
    reader: RunReader, point: SavePoint | None
) -> list[run_checkpoints.StoredCheckpoint]:
    sound = list(reader.checkpoints)
    if point is None:
        return sound
    before = [checkpoint for checkpoint in sound if checkpoint.step <= point.step]
    return [
        checkpoint
        for checkpoint in before
        if checkpoint is before[-1] or checkpoint.kept == "by the user"
    ]


def _chosen_frames(reader: RunReader, point: SavePoint | None) -> list[frame_files.StoredFrame]:
    if point is None:
        return list(reader.frames)
    before = [frame for frame in reader.frames if frame.step <= point.step]
    changes = [line.fields.get("step", 0) for line in reader.log.lines if line.name in _CHANGES]
    dropped = frame_files.choose_dropped(before, changes, FRAMES)
    return [frame for frame in before if frame not in dropped]


def _log_content(path: InnerPath, point: SavePoint | None) -> bytes:
    """Return its complete lines, up to the point."""
    lines = read_regular(path, limits.FILE).split(b"\n")[:-1]
    while point is not None and lines:
        last = decode_line(lines[-1])
        if last is not None and last.seq < point.lines:
            break
        lines.pop()
    content = b"".join(line + b"\n" for line in lines)
    if len(content) > archive_format.LOG:
        raise UserError(f"{path} is larger than 256 MiB, the limit of a session.")
    return content


def _file_content(path: InnerPath) -> bytes | None:
    try:
        return read_regular(path, limits.FILE)
    except FileNotFoundError:
        return None
    except NotRegular as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None


def _encode_json(tree: Mapping[str, Any]) -> bytes:
    plain = to_plain(tree, "word")
    return (json.dumps(plain, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _scores_csv(reader: RunReader) -> str:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    names = ("step", "epoch", "train_loss", "train_accuracy", "test_loss", "test_accuracy")
    table.writerow(names)
    for scores in reader.measured_events:
        values = (getattr(scores, name) for name in names)
        table.writerow(["" if value is None else repr(value) for value in values])
    return text.getvalue()
