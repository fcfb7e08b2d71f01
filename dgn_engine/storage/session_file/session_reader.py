"""Open a session file: a confined child checks it, then its members become a run's folder.

The contents of that folder are checked twice, as files and as a run.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from dgn_engine.confinement.child_process import confined_command
from dgn_engine.errors import UserError
from dgn_engine.storage.atomic_write import (
    PART,
    make_folders,
    make_private,
    sync_folder,
    sync_tree,
    write_file,
)
from dgn_engine.storage.checkpoints.checkpoint_reader import ask_child
from dgn_engine.storage.checkpoints.wire import read_head
from dgn_engine.storage.plain_data import parse_json
from dgn_engine.storage.regular_files import FILE, open_regular, read_regular
from dgn_engine.storage.runs import folder_layout, run_identity, run_info
from dgn_engine.storage.runs.manifest import known_manifest, with_manifest
from dgn_engine.storage.runs.run_ranges import is_count
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.storage.runs.serial_numbers import count_all
from dgn_engine.storage.session_file import archive_format
from dgn_engine.storage.session_file.untrusted_run import check_run, escape_words
from dgn_engine.text.printable import plain_text

TIMEOUT = 120.0  # seconds
_PIECE = 1 << 20
_MEMBERS = 20_000
_WHY = 500  # characters of a refusal: it may quote a name from the file


@dataclass(frozen=True)
class UnpackedSession:
    """An unpacked session file. `window`: the window's layout as JSON; untrusted."""

    folder: Path
    file_name: str
    name: str  # of the run
    step: int
    status: str
    saved: str
    window: Any


def is_session(path: Path) -> bool:
    """Return whether a file begins like a session; False if it cannot be read."""
    try:
        with open_regular(path, FILE) as file:
            return archive_format.looks_like_session(file.read(64))
    except (OSError, ValueError):
        return False


def unpack_session(
    path: Path, place: Path, cancelled: threading.Event | None = None
) -> UnpackedSession:
    """Unpack a session into a new folder in `place`, which others must not write to.

    Raises:
        UserError: One sentence that begins with the file's name; nothing is left behind.
    """
    name = plain_text(path.name) or str(path)
    folder = place / uuid.uuid4().hex
    folder.mkdir()

    def receive_files(pipe: IO[bytes], size: int) -> None:
        try:
            _receive_files(pipe, size, folder)
        except OSError as error:
            raise UserError(f"{name} cannot be unpacked to {place}: {error.strerror}.") from None

    command = confined_command("dgn_engine.storage.session_file.unpack_child", TIMEOUT)
    try:
        ask_child(path, command, receive_files, TIMEOUT, cancelled)
        return _open_unpacked(name, folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def adopt_run(folder: Path, root: Path, name: str) -> Path:
    """Copy an unpacked run to the user's runs, completely or not at all, with a new id.

    Raises `UserError`.
    """
    safe_name = "".join(c for c in name if c.isascii() and (c.isalnum() or c in "-_."))[:100]
    path = folder_layout.unused_path(root, safe_name.strip(".") or "session")
    part = root / f".{path.name}.{os.getpid()}{PART}"
    try:
        make_folders(root)
        shutil.copytree(folder, part)
        run_info.write_run_info(
            part, run_identity.with_new_id(run_info.read_run_info(part), count_all(part))
        )
        make_private(part)
        sync_tree(part)
        part.rename(path)
        sync_folder(root)
    except OSError as error:
        reason = error.strerror or "it could not be copied"
        raise UserError(f"Cannot copy the session's run to {path}: {reason}.") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return path


def _receive_files(pipe: IO[bytes], size: int, folder: Path) -> None:
    """Write the child's files without trusting its answer."""
    files = [(name, count) for name, count in read_head(pipe)["files"]]
    if len(files) > _MEMBERS or any(type(count) is not int or count < 0 for _, count in files):
        raise ValueError("the answer is invalid")
    if len({name for name, _ in files}) != len(files) or sum(n for _, n in files) > size:
        raise ValueError("the answer is larger than its file")
    for name, count in files:
        if archive_format.kind_of(name) is None:
            raise ValueError("a name is not that of a member")
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            _copy_bytes(pipe, file, count)


def _copy_bytes(pipe: IO[bytes], file: IO[bytes], count: int) -> None:
    while count:
        piece = pipe.read(min(count, _PIECE))
        if not piece:
            raise EOFError("the answer is cut off")
        file.write(piece)
        count -= len(piece)


def _open_unpacked(name: str, folder: Path) -> UnpackedSession:
    run = folder / archive_format.FOLDER
    try:
        about = parse_json(read_regular(folder / archive_format.ABOUT))
        if not is_count(about["step"]):
            raise ValueError("a step")
        session = UnpackedSession(
            folder=run,
            file_name=name,
            name=plain_text(str(about["run"]), 120),
            step=about["step"],
            status=plain_text(str(about["status"]), 20),
            saved=plain_text(str(about["saved"]), 40),
            window=about["look"],
        )
    except (ValueError, KeyError, TypeError, OverflowError):
        why = f"{name} has an invalid {archive_format.ABOUT}."
        raise UserError(why, kind="damaged", value=archive_format.ABOUT) from None
    try:
        info = run_info.read_run_info(run)
    except UserError as refusal:
        is_nonsense = refusal.kind == run_info.NO_SENSE
        why = f"has invalid values ({refusal.value})" if is_nonsense else "is damaged"
        why = f"{name} contains a run whose {folder_layout.RUN} {why}."
        raise UserError(why, kind="damaged", value=folder_layout.RUN) from None
    try:
        if known_manifest(info) is None:  # missing or invalid
            info = with_manifest(info, None)
        run_info.write_run_info(run, escape_words(info))
        (run / folder_layout.LOG).touch()
        reader = RunReader(run)
        check_run(reader)
        write_file(run / folder_layout.CONFIG, reader.config.to_toml().encode())
    except UserError as refusal:
        why = plain_text(str(refusal).replace(str(run), "").strip("/").rstrip("."), _WHY)
        why = f"{name} contains a run that was refused: {why}."
        raise UserError(why, kind="refused-run") from None
    except OSError as error:
        raise UserError(f"{name} cannot be unpacked: {error.strerror}.") from None
    with contextlib.suppress(OSError):
        (folder / archive_format.ABOUT).unlink()
    return session
