"""Starts confined children, writes to them and reads from them; ends those that do not answer."""

from __future__ import annotations

import subprocess
import threading
import time
from typing import IO

from dgn_engine.confinement.child import child_command, start_child
from dgn_engine.errors import UserError
from dgn_engine.storage.images import image_limits, image_records
from dgn_engine.text.written_numbers import duration


class ChildEnded(Exception):  # noqa: N818 - a verdict on what it was reading
    """A child gives no answer any more; how that came, as the end of a sentence."""


class ConfinedChild:
    """One child. Only the thread that asks it may read from it; `kill` is for any thread."""

    def __init__(self, command: list[str], stdin: IO[bytes] | int) -> None:
        """Raises `UserError` where no process can be started."""
        try:
            self._process = start_child(command, stdin)
        except OSError as error:
            raise UserError(f"No process could be started to read images ({error}).") from None
        self._asked: float | None = None  # since when it is waited for
        self._late = False

    def write(self, content: bytes) -> None:
        """Raises `ChildEnded`."""
        assert self._process.stdin is not None
        self._asked = time.monotonic()
        try:
            self._process.stdin.write(content)
            self._process.stdin.flush()
        except OSError:
            raise ChildEnded(self._how()) from None
        finally:
            self._asked = None

    def read(self, length: int) -> bytes:
        """Exactly so many bytes; raises `ChildEnded`."""
        assert self._process.stdout is not None
        self._asked = time.monotonic()
        try:
            return image_records.whole(self._process.stdout, length)
        except (EOFError, OSError, ValueError):
            raise ChildEnded(self._how()) from None
        finally:
            self._asked = None

    def kill_late(self, patience: float) -> None:
        """Kill it where it has been waited for too long."""
        asked = self._asked
        if asked is not None and time.monotonic() - asked > patience:
            self._late = True
            self._process.kill()

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        """Kill it, and wait for its end."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:  # what was still to be written
                    continue

    def _how(self) -> str:
        try:
            code = self._process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            return "its reader gave an answer that makes no sense"
        if self._late:
            return f"it was not read within {duration(image_limits.PATIENCE)}"
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"reading it ended its process ({how})"


class ConfinedChildren:
    """All children of one reading: none outlives it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._children: set[ConfinedChild] = set()
        self._closed = False

    def start(
        self, module: str, seconds: int, memory: int, stdin: IO[bytes] | int = subprocess.PIPE
    ) -> ConfinedChild:
        """Run a module of this folder; raises `UserError`, also where all were ended meanwhile."""
        command = child_command(seconds, f"dgn_engine.storage.images.{module}")
        with self._lock:
            if self._closed:
                raise UserError("Reading images was ended.")
            child = ConfinedChild([*command, str(memory)], stdin)
            self._children.add(child)
        return child

    def end(self, child: ConfinedChild) -> None:
        with self._lock:
            self._children.discard(child)
        child.close()

    def kill_late(self, patience: float | None = None) -> None:
        """Kill those that were waited for longer than `PATIENCE`."""
        with self._lock:
            for child in self._children:
                child.kill_late(image_limits.PATIENCE if patience is None else patience)

    def kill(self) -> None:
        """Kill all of them, and start no other; whoever waits for an answer is told at once."""
        with self._lock:
            self._closed = True
            for child in self._children:
                child.kill()

    def close(self) -> None:
        """End all of them. Nobody may wait for an answer any more."""
        self.kill()
        for child in list(self._children):
            self.end(child)
