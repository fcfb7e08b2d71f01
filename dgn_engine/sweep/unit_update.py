"""What a worker tells of a unit, as JSON text: nothing that comes from a worker is unpickled."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

from dgn_engine.storage.plain_data import from_plain, to_plain

# 'refused': it would be refused again; 'held': another process writes its run; 'lost': its worker
# is gone.
Word = Literal[
    "running", "done", "diverged", "interrupted", "failed", "refused", "held", "lost"
]  # fmt: skip


@dataclass(frozen=True)
class ProcessId:
    """A process of a machine."""

    pid: int
    host: str


@dataclass(frozen=True)
class UnitUpdate:
    """How a unit stands. `fraction` of its steps; `score`: its best test accuracy so far.

    `trouble`: why it failed, with the end of its log; `holder`: who writes a run that is held on
    another machine, and may be dead.
    """

    unit: str
    word: Word
    fraction: float = 0.0
    score: float | None = None
    trouble: str = ""
    holder: ProcessId | None = None

    @property
    def over(self) -> bool:
        """Whether the worker is free again."""
        return self.word != "running"

    def to_text(self) -> str:
        """As it crosses between processes and machines."""
        return json.dumps(to_plain(self))

    @staticmethod
    def from_text(text: str) -> UnitUpdate:
        """The inverse of `to_text`."""
        update: UnitUpdate = from_plain(UnitUpdate, json.loads(text))
        return update
