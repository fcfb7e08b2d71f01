"""Open an untrusted checkpoint: a child process reads the bytes; only numbers arrive here."""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable
from typing import IO, TypeVar

from dgn_engine.confinement.child_process import confined_command, start_confined
from dgn_engine.errors import LoadingWarning, UserError
from dgn_engine.storage.checkpoints import limits, wire
from dgn_engine.storage.checkpoints.array_layout import normalise_layout
from dgn_engine.storage.checkpoints.contents import AGAIN, CheckpointContents, UnreadableFile
from dgn_engine.storage.checkpoints.split_file import check_not_shard, is_index, read_split
from dgn_engine.storage.inner_path import FilePath
from dgn_engine.storage.regular_files import NotRegular, open_regular
from dgn_engine.text.loading_acts import describe_loading
from dgn_engine.text.printable import plain_text
from dgn_engine.text.written_numbers import format_duration

READER = "dgn_engine.storage.checkpoints.reader_child"
TIMEOUT = 60.0
Answer = TypeVar("Answer")


def read_tensors(
    path: FilePath,
    timeout: float = TIMEOUT,
    cancelled: threading.Event | None = None,
    *,
    as_saved: bool = False,
    part: str = "",
    warned: bool = True,
) -> CheckpointContents:
    """Read a .pt, .pth, .bin, .ckpt, .safetensors, .npz or .npy file, identified by its content.

    A checkpoint in several files is read by its index ('model.safetensors.index.json'). Nothing but
    the JSON of such an index is parsed in this process.

    Args:
        path: The file.
        timeout: Seconds; larger files get more.
        cancelled: Set it to stop.
        as_saved: Do not transpose matrices or reorder layers (`normalise_layout`).
        part: Of several networks, read the one under this key ('ema') or name prefix.
        warned: Emit a `LoadingWarning` for everything that Python would call, look up or import to
            load the file; False if the caller shows these itself.

    Raises:
        UserError: One sentence with the name of the file and the reason for refusing it, also if
            it was cancelled.
    """

    def read(file: FilePath, name: str, part: str, room: int, *more: str) -> CheckpointContents:
        def receive(pipe: IO[bytes], size: int) -> CheckpointContents:
            return wire.receive_contents(pipe, limits.expansion_limit(size), name, room)

        command = confined_command(READER, timeout, *([part, *more] if part or more else []))
        return ask_child(file, command, receive, timeout, cancelled, limits.LARGE, name)

    def read_shard(file: FilePath, name: str, part: str, room: int) -> CheckpointContents:
        return read(file, plain_text(name), part, room, "shard")

    if is_index(path):
        contents = read_split(path, part, read_shard)
    else:
        check_not_shard(path)
        contents = read(path, plain_text(path.name) or str(path), part, limits.TAKEN)
    if warned:
        for act in describe_loading(
            contents.would_call, contents.would_look_up, contents.would_import
        ):
            sentence = f"to load {contents.file_name}, Python would {act}; nothing was run"
            warnings.warn(sentence, LoadingWarning, stacklevel=2)
    return contents if as_saved else normalise_layout(contents)


def ask_child(
    path: FilePath,
    command: list[str],
    receive: Callable[[IO[bytes], int], Answer],
    timeout: float = TIMEOUT,
    cancelled: threading.Event | None = None,
    most: int = limits.FILE,
    name: str = "",
) -> Answer:
    """Pass a file to a confined child as standard input, and return the child's answer.

    Args:
        receive: Called with (answer, size of the file); raises as `wire.receive_contents` does.
        most: Largest size of the file in bytes.
        name: Name of the file in messages; that of `path` by default.

    Raises:
        UserError: One sentence that begins with the file's name.
    """
    name = name or plain_text(path.name) or str(path)
    file, size = _open_file(path, name, most)
    with file:
        try:
            child = start_confined(command, file)
        except OSError as error:
            raise UserError(
                f"{name} could not be read: no process could be started ({error})."
            ) from None
    timeout += size // limits.PACE
    deadline = time.monotonic() + timeout

    def reason_over() -> str:
        if cancelled is not None and cancelled.is_set():
            return "was not read: cancelled"
        return (
            ""
            if time.monotonic() < deadline
            else f"took longer than {format_duration(timeout)} to read"
        )

    with child:
        try:
            with child.killed_when(reason_over):
                return receive(child.stdout, size)
        except UnreadableFile as verdict:
            raise UserError(f"{name} {verdict}.", kind=verdict.kind) from None
        except MemoryError:
            raise UserError(f"{name} does not fit in memory.", kind="no-memory") from None
        except (EOFError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            reason = f"was refused: {child.describe_reader_end()}"
            if child.exit_code == -getattr(signal, "SIGBUS", 0) < 0:
                reason = "was cut off while it was being read"
            kind = "ended" if child.killed else "refused"
            raise UserError(
                f"{name} {child.killed or reason}.", kind=kind, value=child.exit_code
            ) from None


def _open_file(path: FilePath, name: str, most: int) -> tuple[IO[bytes], int]:
    """Open a regular file and return it with its size; never blocks, not even on a FIFO."""
    try:
        file = open_regular(path, most)
    except NotRegular as error:
        what_to_do = "; choose a single file" if error.errno == errno.EISDIR else ""
        raise UserError(f"{name} {error.verdict}{what_to_do}.", kind="no-file") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UserError(f"{name} cannot be opened: {reason}.", kind="no-file") from None
    size = os.fstat(file.fileno()).st_size
    if size == 0:
        file.close()
        raise UserError(f"{name} is empty; {AGAIN}.", kind="empty")
    return file, size
