"""Checkpoints that the user opened: read in a child process while training goes on."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dgn_engine.architecture import Architecture
from dgn_engine.checkpoints.matching import Match, match_layers
from dgn_engine.checkpoints.reading import Listing, read_tensors
from dgn_engine.protocol.events import Event, Failed, FileClosed, FileListed, Refused, Tensor
from dgn_engine.refusal import Refusal


@dataclass(frozen=True)
class Opened:
    """A file that was read, matched with the layers of the run that is going on."""

    name: str
    match: Match


class OpenedFiles:
    """Files by ticket; each is read in a thread of its own that waits for the child process."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._lock = threading.Lock()
        self._tickets = 0
        self._listed: dict[int, tuple[str, Listing]] = {}
        self._readers: list[threading.Thread] = []
        self._closing = threading.Event()

    def open(self, path: Path, architecture: Architecture) -> None:
        """Begin to read; `FileListed` or `Refused` follows."""
        self._tickets += 1
        reader = threading.Thread(
            target=self._read,
            args=(self._tickets, path, architecture),
            name=f"dgn-file-{self._tickets}",
            daemon=True,
        )
        self._readers = [*(r for r in self._readers if r.is_alive()), reader]
        reader.start()

    def take(self, ticket: int, architecture: Architecture) -> Opened:
        """The weights of a listed file for this architecture; raises `Refusal` if they do not fit.

        Matched anew, because another run may have begun since the file was listed.
        """
        with self._lock:
            found = self._listed.get(ticket)
        if found is None:
            raise Refusal("That file is no longer open; drop it again.")
        name, listing = found
        match = match_layers(listing, architecture)
        if not match.fits:
            raise Refusal(match.verdict)
        return Opened(name, match)

    def forget(self, ticket: int) -> None:
        """Free the arrays of a listed file."""
        with self._lock:
            known = self._listed.pop(ticket, None)
        if known is not None:
            self._emit(FileClosed(ticket))

    def close(self) -> None:
        """Stop the readers and their child processes, and forget everything."""
        self._closing.set()
        for reader in self._readers:
            reader.join(timeout=5.0)
        self._listed.clear()

    def _read(self, ticket: int, path: Path, architecture: Architecture) -> None:
        try:
            listing = read_tensors(path, cancelled=self._closing)
            match = match_layers(listing, architecture)
        except Refusal as refusal:
            if not self._closing.is_set():
                self._emit(Refused(f"open {path.name}", str(refusal)))
            return
        except Exception as error:  # a reader's fault must not end silently
            self._emit(Failed(f"Opening {path.name} failed: {error}.", traceback.format_exc()))
            return
        with self._lock:
            self._listed[ticket] = (path.name, listing)
        self._emit(
            FileListed(
                ticket=ticket,
                path=str(path),
                file_name=path.name,
                tensors=tuple(
                    Tensor(name, array.shape, listing.dtypes[name])
                    for name, array in listing.arrays.items()
                ),
                matches=match.rows,
                fits=match.fits,
                verdict=match.verdict,
                ignored=listing.ignored,
            )
        )
