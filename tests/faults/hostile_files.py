"""Hostile and odd files: what each is, and the verdict that it must get."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.faults import (
    hostile_archives,
    hostile_headers,
    hostile_kinds,
    hostile_pickles,
)


@dataclass(frozen=True)
class Hostile:
    """Made in a folder by `place`; `content`: its bytes, where it is a file that can be opened.

    `refused`: a pattern of the sentence; or else it is read, and exactly the tensors `shown` are,
    and something that matches `ignored` is named.
    """

    place: Callable[[Path], Path]
    refused: str = ""
    shown: tuple[str, ...] = ()
    ignored: str = ""
    content: bytes = b""


def kinds(canary: Path) -> dict[str, Hostile]:
    """All that are files; whatever runs makes a folder at `canary`."""
    found: dict[str, Hostile] = {}
    for name, (content, refused) in _bytes(canary).items():
        found[name] = Hostile(_writer(name, content), refused, content=content)
    for name, (content, shown, ignored) in {
        **hostile_pickles.odd(canary),
        **hostile_kinds.odd(),
    }.items():
        found[name] = Hostile(_writer(name, content), "", shown, ignored, content)
    return found


def _bytes(canary: Path) -> dict[str, tuple[bytes, str]]:
    return {
        **hostile_headers.OTHERS,
        **hostile_headers.safetensors_files(),
        **hostile_headers.npy(canary),
        **hostile_archives.archives(),
        **hostile_pickles.refused(canary),
        **hostile_kinds.refused(),
    }


def _writer(name: str, content: bytes) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        path = folder / (name.replace(" ", "_").replace("/", "_").replace("^", "") + ".pt")
        path.write_bytes(content)
        return path

    return write


def _linked(target: str) -> Callable[[Path], Path]:
    def link(folder: Path) -> Path:
        (folder / "link.pt").symlink_to(target)
        return folder / "link.pt"

    return link


def _fifo(folder: Path) -> Path:
    os.mkfifo(folder / "fifo.pt")
    return folder / "fifo.pt"


def _socket(folder: Path) -> Path:
    # its path may be no longer than about a hundred characters
    place = os.path.relpath(folder / "s.pt")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(place)
    return folder / "s.pt"


def _giant(folder: Path) -> Path:
    with (folder / "giant.pt").open("wb") as file:
        file.truncate(65 << 30)
    return folder / "giant.pt"


def _empty(folder: Path) -> Path:
    (folder / "empty.pt").touch()
    return folder / "empty.pt"


NO_FILES = {
    "a folder": Hostile(lambda folder: folder, "is a folder"),
    "a FIFO": Hostile(_fifo, "not a regular file"),
    "a socket": Hostile(_socket, "cannot be opened|not a regular file"),
    "a link to a device": Hostile(_linked("/dev/zero"), "not a regular file"),
    "a link to nothing": Hostile(_linked("nowhere"), "cannot be opened"),
    "a link to itself": Hostile(_linked("link.pt"), "cannot be opened"),
    "a missing file": Hostile(lambda folder: folder / "gone.pt", "cannot be opened"),
    "a name with NUL": Hostile(lambda folder: folder / "a\0b.pt", "cannot be opened"),
    "an empty file": Hostile(_empty, "is empty"),
    "65 gigabytes of nothing": Hostile(_giant, "larger than 64 GiB"),
}
