"""Has an animation drawn by a child process, and hears how far it is. Blocks: for a thread."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading

from dgn_engine.confinement.child import module_command, one_thread, python_environment
from dgn_engine.errors import UserError
from dgn_engine.figures.film_order import Film, FilmOrder, Told

_BELOW_NORMAL = 0x00004000  # Windows' class of priority; elsewhere the child is nice


class FilmCancelledError(Exception):
    """Nobody wants the film any more."""


class FilmFaultError(Exception):
    """A fault of ours in the child; its traceback is a note."""


class FilmProcess:
    """Draws one film; `stop` ends it from any thread, and nothing is left of it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self.stopped = False

    def stop(self) -> None:
        with self._lock:
            self.stopped = True
            if self._process is not None:
                _kill(self._process)

    def make(self, order: FilmOrder, told: Told) -> Film:
        """The film, once it is drawn. Raises `UserError`, and `FilmCancelledError` once `stop` was
        called."""
        with tempfile.TemporaryDirectory() as place:
            try:
                with tempfile.TemporaryFile(dir=place) as content:
                    pickle.dump(order, content, protocol=5)
                    content.seek(0)
                    process = self._start(content.fileno(), place)
            except OSError as error:
                raise UserError(
                    f"The animation cannot be drawn: {error.strerror}; nothing was written."
                ) from None
            try:
                return self._heard(process, told)
            finally:
                _kill(process)
                process.wait()
                assert process.stdout is not None
                process.stdout.close()

    def _start(self, content: int, place: str) -> subprocess.Popen[bytes]:
        """`place`: for its own files, which go with ours."""
        with self._lock:
            if self.stopped:
                raise FilmCancelledError
            self._process = subprocess.Popen(
                module_command("dgn_engine.figures.film_child"),
                stdin=content,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={
                    **python_environment(),
                    **one_thread(),
                    **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), place),
                },
                process_group=0 if os.name == "posix" else None,  # with it goes its ffmpeg
                creationflags=_BELOW_NORMAL if sys.platform == "win32" else 0,
            )
            return self._process

    def _heard(self, process: subprocess.Popen[bytes], told: Told) -> Film:
        assert process.stdout is not None
        for line in process.stdout:
            said = json.loads(line) if line.endswith(b"\n") else {}
            match said:
                case {"film": int(size), "words": str(words)}:
                    content = process.stdout.read(size)
                    if len(content) == size and not self.stopped:
                        return Film(content, words)
                case {"words": str(words), "done": int(done), "of": int(of)}:
                    told(words, done, of)
                case {"refused": str(why)}:
                    raise UserError(why)
                case {"fault": str(what), "trace": str(trace)}:
                    fault = FilmFaultError(what)
                    fault.add_note(trace)
                    raise fault
        if self.stopped:
            raise FilmCancelledError
        process.wait()
        raise UserError(
            f"The process that draws the animation ended early ({_how(process.returncode)}); "
            "nothing was written. Try again, with fewer pages where memory is short."
        )


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End it, and what it has started."""
    with contextlib.suppress(OSError):
        if os.name == "posix" and process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def _how(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {-code}"
