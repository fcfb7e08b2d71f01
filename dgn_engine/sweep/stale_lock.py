"""Runs that another machine left locked: when may they be taken over?

Locks do not reach over a network, so nobody can see whether that writer lives. But a run that is
written gets a checkpoint every few seconds, whatever happens; one that has not changed for long is
nobody's. (The run's other machine has noticed long before that nobody waits for it any more.)
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from dgn_engine.storage.runs.folder_layout import CHECKPOINTS, LOG
from dgn_engine.sweep.unit import unit_folder
from dgn_engine.sweep.unit_update import ProcessId

QUIET = 120.0  # seconds
_Trace = tuple[ProcessId, int, tuple[str, ...]]


@dataclass
class StaleLock:
    """Watches the runs of a sweep that others hold."""

    root: Path
    quiet: float = QUIET
    _seen: dict[str, tuple[_Trace, float]] = field(default_factory=dict)

    def fell(self, unit_id: str, holder: ProcessId) -> bool:
        """Whether its run, which `holder` has locked, has not changed for so long; asked often."""
        now = time.monotonic()
        trace = self._trace(unit_id, holder)
        before, since = self._seen.get(unit_id, (None, now))
        if trace != before:
            since = now
        self._seen[unit_id] = (trace, since)
        return now - since >= self.quiet

    def _trace(self, unit_id: str, holder: ProcessId) -> _Trace:
        folder = unit_folder(self.root, unit_id)
        try:
            size = (folder / LOG).stat().st_size
            names = tuple(sorted(path.name for path in (folder / CHECKPOINTS).iterdir()))
        except OSError:
            return holder, 0, ()
        return holder, size, names
