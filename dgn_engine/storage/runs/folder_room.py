"""How much of a run's limit is left for what may thin out: frames, and checkpoints before changes.

Everything else stays whatever it takes: the log, the newest checkpoints, the last one, those that
the user keeps, weights and answers. Where that leaves less than an eighth of the limit, an eighth
is left all the same: the folder is then larger than its limit, and `dgn runs show` says so.
"""

from __future__ import annotations

import stat
from collections.abc import Sequence
from contextlib import suppress

from dgn_engine.storage.inner_path import FilePath, inside
from dgn_engine.storage.runs import folder_layout, storage_limits
from dgn_engine.storage.runs.retention import choose_thinned
from dgn_engine.storage.runs.run_checkpoints import NEWEST, StoredCheckpoint

LEAST = 8  # this part of the limit is always left for frames


class FolderRoom:
    """`limit`: bytes of the folder; `frames`: bytes that all frames may have."""

    def __init__(self, folder: FilePath, frames: int | None = None) -> None:
        """`frames`: where it does not follow from the user's limit."""
        self._folder = folder
        self._fixed = frames
        self.limit = self.frames = 0
        self.look()

    def look(self) -> None:
        """See what the limit and the other files are now."""
        root = folder_layout.runs_root()
        self.limit = storage_limits.limits_that_hold(root).run
        others = bytes_of(self._folder, without=folder_layout.FRAMES)
        left = max(self.limit - others, self.limit // LEAST)
        self.frames = left if self._fixed is None else self._fixed

    def superfluous(
        self, checkpoints: Sequence[StoredCheckpoint], share: float = 0.0
    ) -> list[StoredCheckpoint]:
        """Checkpoints before changes that go, so that these take at most half of what is left.

        `share`: so that this part of their bytes is left, whatever the limit.
        """
        sound = [one for one in checkpoints if one.sound]
        before = [one for one in sound[:-NEWEST] if one.kept.startswith("before")]
        old = [one for one in before if not (one.path / folder_layout.KEEP).exists()]
        sizes = [bytes_of(one.path) for one in old]
        others = bytes_of(self._folder, without=folder_layout.FRAMES) - sum(sizes)
        room = max(self.limit - others, self.limit // LEAST) // 2
        room = int(share * sum(sizes)) if share else room
        if sum(sizes) <= room:
            return []
        return [old[place] for place in choose_thinned([o.step for o in old], sizes, (), room)]


def bytes_of(folder: FilePath, without: str = "") -> int:
    """Of all regular files below a folder, but not in its folder `without`; no link is followed,
    and what cannot be looked at counts nothing."""
    total, waiting = 0, [inside(folder)]
    while waiting:
        here = waiting.pop()
        with suppress(OSError):
            for name, status in here.listing().items():
                if stat.S_ISREG(status.st_mode):
                    total += status.st_size
                elif stat.S_ISDIR(status.st_mode) and not (
                    without == name and len(here.parts) == 0
                ):
                    waiting.append(here / name)
    return total
