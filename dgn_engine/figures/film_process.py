"""Drawing of an animation in a child process, with progress. Blocks: call it in a thread."""

from __future__ import annotations

import json
import pickle
import tempfile
from collections.abc import Callable

from dgn_engine.confinement.child_process import (
    ChildProcess,
    describe_end,
    module_command,
    one_thread,
    python_environment,
)
from dgn_engine.errors import UserError
from dgn_engine.figures.film_order import Film, FilmOrder, Told

_NICENESS = 10  # training goes first


class FilmCancelledError(Exception):
    """The animation was cancelled."""


class FilmFaultError(Exception):
    """A bug in the child process; its traceback is a note."""


class FilmProcess:
    """Draws one animation; `stop` ends it from any thread and leaves nothing behind."""

    def __init__(
        self, command: Callable[[str], list[str]] = module_command, place: str | None = None
    ) -> None:
        """`command`: runs a module; `place`: folder for its files, else a temporary one."""
        self.stopped = False
        self._command, self._place = command, place

    def stop(self) -> None:
        self.stopped = True

    def request_film(self, order: FilmOrder, on_progress: Told) -> Film:
        """Return the animation once it is drawn.

        Raises:
            UserError: It cannot be drawn.
            FilmCancelledError: `stop` was called.
        """
        if self.stopped:
            raise FilmCancelledError
        with tempfile.TemporaryDirectory(dir=self._place) as place:
            folders = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), place)  # removed with our own files
            try:
                with tempfile.TemporaryFile(dir=place) as content:
                    pickle.dump(order, content, protocol=5)
                    content.seek(0)
                    child = ChildProcess(
                        self._command("dgn_engine.figures.film_child"),
                        environment=python_environment() | one_thread() | folders,
                        stdin=content,
                        lower_by=_NICENESS,
                    )
            except OSError as error:
                raise UserError(
                    f"Cannot draw the animation: {error.strerror}; nothing was written.",
                    kind="no-process",
                    value=error.strerror,
                ) from None
            with child, child.killed_when(lambda: "it was cancelled" if self.stopped else ""):
                return self._receive_film(child, on_progress)

    def _receive_film(self, child: ChildProcess, on_progress: Told) -> Film:
        for line in child.stdout:
            answer = json.loads(line) if line.endswith(b"\n") else {}
            match answer:
                case {"film": int(size), "words": str(words)}:
                    content = child.stdout.read(size)
                    if len(content) == size and not self.stopped:
                        return Film(content, words)
                case {"words": str(words), "done": int(done), "of": int(of)}:
                    on_progress(words, done, of)
                case {"refused": str(why)}:
                    raise UserError(why, kind="refused")
                case {"fault": str(what), "trace": str(trace)}:
                    fault = FilmFaultError(what)
                    fault.add_note(trace)
                    raise fault
        if self.stopped:
            raise FilmCancelledError
        end = describe_end(child.wait())
        raise UserError(
            f"The process that draws the animation stopped early ({end}); nothing was written. Try "
            "again, with fewer frames if memory is short.",
            kind="ended-early",
            value=end,
        )
