"""The program's log, in the user's state folder: starts and ends, notices, faults with tracebacks.

Each entry opens the file, appends and closes it, so that several programs may write it, and it may
be moved or removed at any time. Where it cannot be written the program goes on without it.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from dgn_engine import __version__
from dgn_engine.storage.user_folders import user_log
from dgn_engine.text.printable import printable

LARGEST = 1 << 20  # bytes after which another file is begun
OLDER = 2  # files that are kept besides
_OURS = ("dgn_engine", "dgn_viewer")
_FORM = "%(asctime)s [%(process)d] %(levelname)s %(message)s"
_ADDED = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)


def log_path() -> Path:
    """The file that is written now; 'dgn-viewer.1.log' beside it is the one before."""
    return user_log() / "dgn-viewer.log"


class RotatingLog(logging.Handler):
    """Appends records to a file for this user alone, as printable text, and renames it when it has
    grown to `largest` bytes."""

    def __init__(self, path: Path, largest: int = LARGEST) -> None:
        super().__init__()
        self._path, self._largest = path, largest
        self.setFormatter(logging.Formatter(_FORM))

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError, ValueError, TypeError):  # no log is worth a fault
            text = printable(self.format(record), lines=True)
            self.append(f"{text}\n".encode("utf-8", "backslashreplace"))

    def append(self, entry: bytes) -> None:
        """Raise `OSError` where it cannot be written."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(OSError):  # another program was quicker, or has it open (Windows)
            self._begin_another()
        handle = os.open(self._path, _ADDED, 0o600)
        try:
            os.write(handle, entry)  # at once, so that entries of two programs do not mix
        finally:
            os.close(handle)

    def _begin_another(self) -> None:
        if not self._path.exists() or self._path.stat().st_size < self._largest:
            return
        names = [self._path, *(self._path.with_suffix(f".{n}.log") for n in range(1, OLDER + 1))]
        for older, newer in zip(reversed(names), reversed(names[:-1]), strict=False):
            if newer.exists():
                newer.replace(older)


@contextmanager
def program_log(program: str, words: Sequence[str]) -> Iterator[logging.Logger]:
    """Until the block ends, what is logged goes into the log, our own from INFO on; so does an
    exception that ends the block, and a crash of the interpreter. Yields a logger.

    `words`: the command line.
    """
    root, log = logging.getLogger(), logging.getLogger(f"dgn_engine.{program}")
    handlers = [RotatingLog(log_path()), *filter(None, [logging.lastResort])]
    levels = {name: logging.getLogger(name).level for name in _OURS}
    with ExitStack() as undone:
        for handler in handlers:
            root.addHandler(handler)
            undone.callback(root.removeHandler, handler)
        for name, level in levels.items():
            logging.getLogger(name).setLevel(logging.INFO)
            undone.callback(logging.getLogger(name).setLevel, level)
        log.info(
            "%s %s begins: Python %s, %s; %s",
            program,
            __version__,
            platform.python_version(),
            platform.platform(),
            " ".join(words) or "no arguments",
        )
        undone.enter_context(crashes_logged())
        try:
            yield log
        except Exception:
            log.exception("%s was ended by a fault.", program)
            raise


@contextmanager
def crashes_logged() -> Iterator[None]:
    """Write the Python stacks into the log when the process is ended by a fault in native code.

    Where `PYTHONFAULTHANDLER` or a debugger has them elsewhere, they stay there.
    """
    with ExitStack() as undone:
        with suppress(OSError):
            if not faulthandler.is_enabled():
                log_path().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                handle = os.open(log_path(), _ADDED, 0o600)
                undone.callback(os.close, handle)
                faulthandler.enable(handle)
                undone.callback(faulthandler.disable)
        yield


def record_fault(program: str) -> None:
    """Write the exception that is being handled; for a program that writes nothing else."""
    sentence = f"{program} {__version__} was ended by a fault."
    record = logging.LogRecord(program, logging.ERROR, "", 0, sentence, (), sys.exc_info())
    RotatingLog(log_path()).handle(record)


def end_of_log(most: int = 200_000) -> str:
    """The newest whole lines, at most so many bytes; raises `OSError` where there is no log."""
    with log_path().open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - most))
        if size > most:
            file.readline()
        return printable(file.read().decode("utf-8", "replace"), lines=True)
