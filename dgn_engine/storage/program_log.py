"""The program's log in the user's state folder: starts and ends, notices, errors with tracebacks.

Each entry opens the file, appends and closes it, so several programs may write to it, and it may be
moved or removed at any time. If it cannot be written the program continues without it.
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

LARGEST = 1 << 20  # bytes after which a new file is started
OLDER = 2  # older files that are kept
_OURS = ("dgn_engine", "dgn_viewer")
_FORM = "%(asctime)s [%(process)d] %(levelname)s %(message)s"
_ADDED = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)


def log_path() -> Path:
    """Return the current file; 'dgn-viewer.1.log' beside it is the previous one."""
    return user_log() / "dgn-viewer.log"


class RotatingLog(logging.Handler):
    """Appends printable text to a private file, and renames it when it reaches `largest` bytes."""

    def __init__(self, path: Path, largest: int = LARGEST) -> None:
        super().__init__()
        self._path, self._largest = path, largest
        self.setFormatter(logging.Formatter(_FORM))

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError, ValueError, TypeError):  # a log must not cause errors
            text = printable(self.format(record), lines=True)
            self.append_entry(f"{text}\n".encode("utf-8", "backslashreplace"))

    def append_entry(self, entry: bytes) -> None:
        """Append an entry; raises `OSError` if it cannot be written."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(OSError):  # another program was faster, or has it open (Windows)
            self._begin_another()
        handle = os.open(self._path, _ADDED, 0o600)
        try:
            os.write(handle, entry)  # in one call, so that entries of two programs do not mix
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
    """Log everything within the block, our own messages from INFO on; yield a logger.

    An exception that ends the block and a crash of the interpreter are logged, too.

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
            "%s %s started: Python %s, %s; %s",
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
            log.exception("%s ended with an error.", program)
            raise


@contextmanager
def crashes_logged() -> Iterator[None]:
    """Log the Python stacks if native code crashes the process.

    If `PYTHONFAULTHANDLER` or a debugger sends them elsewhere, that is kept.
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
    """Log the exception being handled, for a program that logs nothing else."""
    sentence = f"{program} {__version__} ended with an error."
    record = logging.LogRecord(program, logging.ERROR, "", 0, sentence, (), sys.exc_info())
    RotatingLog(log_path()).handle(record)


def end_of_log(most: int = 200_000) -> str:
    """Return the newest whole lines, at most `most` bytes; raises `OSError` without a log."""
    with log_path().open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - most))
        if size > most:
            file.readline()
        return printable(file.read().decode("utf-8", "replace"), lines=True)
