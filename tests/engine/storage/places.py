"""Where files of tests lie: in memory, and for a while not root's."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree  # as it was before a test replaced it

MEMORY = Path("/dev/shm")
NOBODY = 65534


@contextmanager
def folder_in_memory() -> Iterator[Path]:
    """Where there is such a place: a sync costs nothing there."""
    place = Path(tempfile.mkdtemp(prefix="dgn-disk-", dir=MEMORY if MEMORY.is_dir() else None))
    place.chmod(0o755)
    (place / "test").mkdir(mode=0o700)
    yield place / "test"
    rmtree(place)


@contextmanager
def not_root(owned: Path) -> Iterator[None]:
    """Root may do everything: give it all to somebody else, and be them for the time being."""
    if os.geteuid():
        yield
        return
    for path in (owned, *owned.rglob("*")):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
