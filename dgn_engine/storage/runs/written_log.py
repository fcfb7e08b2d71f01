"""The log of a run that is being written, and what its writer has to know about it."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from dgn_engine.errors import UserError
from dgn_engine.storage.inner_path import InnerPath
from dgn_engine.storage.runs import folder_layout, run_identity, run_info
from dgn_engine.storage.runs.log import (
    CONTINUED,
    LINE,
    SWAPPED,
    LogLine,
    LogScan,
    LogWriter,
    Wanted,
    log_trouble,
)
from dgn_engine.storage.runs.log_gaps import NEEDED, LogFact, read_gaps
from dgn_engine.storage.runs.log_summary import THINNED, lines_before
from dgn_engine.storage.runs.manifest import (
    NOTHING,
    Manifest,
    is_foreign_log,
    known_facts,
    marked_lines,
)
from dgn_engine.storage.runs.run_checkpoints import StoredCheckpoint
from dgn_engine.storage.runs.run_ranges import is_count
from dgn_engine.storage.runs.serial_numbers import find_next_numbers

_CUT = f"{folder_layout.LOG} was cut off; what was removed is lost"
CHANGES = ("RegimeSwapped", "Rewired", "SettingChanged", CONTINUED, "Diverged", "Failed")
_MARKS: Wanted = dict.fromkeys(CHANGES)


class WrittenLog:
    """Appends to the log of a run, and keeps track of what it says. Raises `OSError`.

    Attributes:
        changes: Steps of changes.
        continued: Numbers of the lines where the run continued, and how many lines counted there.
        regime: The one at the end.
        thinned: Whether frames or checkpoints were thinned out.
        numbers: The next free numbers when it was opened.
    """

    def __init__(
        self,
        root: InnerPath,
        info: Mapping[str, Any],
        known: Manifest | None,
        checkpoints: Collection[StoredCheckpoint],
        remark: Callable[[str], None],
    ) -> None:
        """Open the log; raises `UserError` if nothing may be appended to it.

        Args:
            root: The run's folder.
            info: Its `run.json`.
            known: Its inventory.
            checkpoints: All existing ones.
            remark: Called with what was mended.
        """
        self._root, self._remark = root, remark
        self.changes, self.thinned = array("q"), False
        self._swaps: list[tuple[int, str]] = []  # numbers, and the regime changed to
        marked = marked_lines(checkpoints, known or NOTHING)
        scan = LogScan(root / folder_layout.LOG, _MARKS, marked, info)
        continued: list[LogLine] = []
        with suppress(FileNotFoundError):
            continued += [line for line in scan if self._continues_at(line)]
        self.numbers = find_next_numbers(root, known or NOTHING, continued)
        if trouble := _reason_not_appended(root, known or NOTHING, scan):
            path = root.anchor.path
            raise UserError(
                f"{path / folder_layout.LOG} {trouble}; 'dgn runs repair {path}' moves it to "
                "damaged/.",
                kind="other-run",
            )
        facts, first = known_facts(root, known), run_info.first_regime(info)
        written = max((known.lines if known else 0, *(fact.lines for fact in facts)))
        if scan.missing or scan.has_lost or scan.end < written:
            lines = LogScan(root / folder_layout.LOG, NEEDED)
            with suppress(FileNotFoundError):
                lost = read_gaps(lines, known.lines if known else 0, first, facts).lines
                continued += [line for line in lost if line.name == CONTINUED]
        self.continued = sorted((line.seq, lines_before(line)) for line in continued)
        newest = max(facts, key=lambda fact: fact.lines, default=LogFact(0, regime=first))
        later = [after for seq, after in self._swaps if seq >= newest.lines]
        self.regime = later[-1] if later else newest.regime or first
        # Last: if anything fails before, no file stays open.
        tag = run_identity.tag_of(run_identity.id_of(info))
        self.writer = LogWriter(root / folder_layout.LOG, self.numbers.lines, tag)

    def _continues_at(self, line: LogLine) -> bool:
        """Read an existing line; return whether the run continued there."""
        if line.name in CHANGES and is_count(line.fields.get("step")):
            self.changes.append(line.fields["step"])
        self.thinned = self.thinned or line.name == THINNED
        if line.name == SWAPPED:
            self._swaps.append((line.seq, str(line.fields.get("after", ""))))
        if line.name == CONTINUED:
            lines = lines_before(line)
            self._swaps = [swap for swap in self._swaps if swap[0] < lines]
        return line.name == CONTINUED

    @property
    def line_count(self) -> int:
        return self.writer.next_seq

    @property
    def log_fact(self) -> LogFact:
        """The facts about the run at its end."""
        return LogFact(self.line_count, 0, self.regime, tuple(self.continued))

    def note_all(self, notes: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        """Append these lines, all or none."""
        self._mend_cut()  # before writing, which would leave a hole
        self.writer.append_all(notes)
        for index, (name, fields) in enumerate(notes):
            if name == SWAPPED:
                self.regime = str(fields.get("after", ""))
            elif name == CONTINUED:
                seq = self.line_count - len(notes) + index
                self.continued.append((seq, int(fields.get("lines", seq))))
            if name in CHANGES:
                self.changes.append(int(fields.get("step", 0)))

    def mend_log(self) -> None:
        """Restore the log if it is missing or was cut off."""
        if not self.writer.is_named:
            try:
                content = self.writer.read_back()
            except OSError:  # the disk was gone: use the file of this name
                self.reopen_log()
            else:
                folder_layout.set_aside(self._root, self._root / folder_layout.LOG)
                self.writer.rewrite_file(content)
                self._remark(f"{folder_layout.LOG} was missing or replaced, and has been rewritten")
        self._mend_cut()

    def reopen_log(self) -> None:
        if self.writer.reopen_file():
            self._remark(_CUT)

    def _mend_cut(self) -> None:
        if self.writer.accept_cut():
            self._remark(_CUT)


def _reason_not_appended(root: InnerPath, manifest: Manifest, scan: LogScan) -> str:
    """Return why nothing may be appended to a log, to end a sentence; '' if it may.

    A piece of zeros from a system crash is no reason: it is cut off.
    """
    if scan.is_foreign or is_foreign_log(root, manifest, scan.marks):
        return "is the log of another run"
    return log_trouble(scan, {}) if scan.torn > LINE else ""
