"""Writes the folder of one run: whatever is added is whole or absent.

Everything here raises `OSError` when the disk is full, read-only or gone; what that means for the
run is decided by the recorder. Making and opening raise `UserError`.
"""

from __future__ import annotations

import os
import time
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.runs import RecordThinned
from dgn_engine.protocol.training import RunStarted
from dgn_engine.storage.atomic_write import (
    clear_leftovers,
    make_folders,
    sync_folder,
    write_folder,
)
from dgn_engine.storage.inner_path import Anchor, InnerPath, inner
from dgn_engine.storage.lock import Lock
from dgn_engine.storage.plain_data import to_plain
from dgn_engine.storage.runs import (
    folder_layout,
    frame_files,
    run_checkpoints,
    run_identity,
    run_info,
)
from dgn_engine.storage.runs.folder_room import FolderRoom
from dgn_engine.storage.runs.log import (
    CONTINUED,
    LINE,
    SWAPPED,
    SYNC_EVERY,
    LogLine,
    LogScan,
    LogWriter,
    Wanted,
    log_trouble,
    log_word,
)
from dgn_engine.storage.runs.log_gaps import NEEDED, LogFact, facts_in, read_gaps
from dgn_engine.storage.runs.log_summary import THINNED, lines_before
from dgn_engine.storage.runs.manifest import (
    KEY,
    NOTHING,
    Manifest,
    ManifestWriter,
    find_ranges,
    is_foreign_log,
    marked_lines,
    put_manifest,
    read_manifest,
)
from dgn_engine.storage.runs.run_checkpoints import Snapshot
from dgn_engine.storage.runs.run_ranges import is_count
from dgn_engine.storage.runs.serial_numbers import NextNumbers, find_next_numbers
from dgn_engine.text.printable import is_utf8

_CUT = f"{folder_layout.LOG} was cut; what was cut off is lost"
CHANGES = ("RegimeSwapped", "Rewired", "SettingChanged", CONTINUED, "Diverged", "Failed")
_MARKS: Wanted = dict.fromkeys(CHANGES)


class RunFolder:
    """Holds the lock, and the folder itself, from `create` or `open` to `close`.

    What is written goes into the folder that was opened, wherever it is moved and whatever is put
    in its place. About once a second, and before each checkpoint and frame, it is looked at:
    where its folder is gone or replaced that is an `OSError`; what can be mended is, and said
    (`take_remarks`).
    """

    def __init__(self, path: Path, frames_cap: int | None = None) -> None:
        """Open a folder that holds a run, for writing.

        `frames_cap`: bytes of all frames; None: what the user's limit of a run's folder leaves.
        """
        folder_layout.refuse_links(path)
        self.info = run_info.read(path)
        self._anchor = Anchor(path)
        self.root = InnerPath(self._anchor)  # of all that is read and written here
        self._room = FolderRoom(self.root, frames_cap)
        self.tell: Callable[[Event], None] = _nobody_hears
        self._lock = Lock(self.root / folder_layout.LOCK)
        self._remarks: list[str] = []
        self._looked = 0.0
        try:
            self._anchor.hold()
            folder_layout.require_no_link(self.root)
            self._lock.take()
            self.info = run_info.read(self.root)  # its last writer may have ended a moment ago
            for folder in folder_layout.written_folders(self.root):
                clear_leftovers(folder)
            self._sync_names()  # its last writer may have been killed before it did
            known = self._known_manifest()
            self.checkpoints = run_checkpoints.scan(self.root / folder_layout.CHECKPOINTS)
            log = _LogMarks(self.root, marked_lines(self.checkpoints, known or NOTHING))
            numbers = find_next_numbers(self.root, known or NOTHING, log.marks())
            if trouble := log.trouble(known or NOTHING):
                raise UserError(
                    f"{path / folder_layout.LOG} {trouble}; 'dgn runs repair {path}' puts it aside."
                )
            self._frames = frame_files.scan(self.root / folder_layout.FRAMES)
            self._changes = log.changes
            self._continued, self._regime = self._known_of_log(known, log)
            serials = [frame.serial for frame in self._frames]
            self._manifest = ManifestWriter(self.root, known, serials)
            self._thinned = log.thinned
            # Last: whatever fails before leaves no file open.
            self._log = LogWriter(
                self.root / folder_layout.LOG, numbers.lines, run_identity.tag_of(self._id)
            )
        except UserError:
            self._let_go()
            raise
        except OSError as error:
            self._let_go()
            raise UserError(f"Cannot write the run to {path}: {error.strerror}.") from None
        self.held: frozenset[int] = frozenset()  # steps whose checkpoints stay while this is open
        self._changed = False  # so far it is as its last writer left it
        self._serial, self._order = numbers.frames, numbers.checkpoints

    @staticmethod
    def create(
        path: Path,
        config: RunConfig,
        frames_cap: int | None = None,
        info: Mapping[str, Any] | None = None,
        log: bytes = b"",
    ) -> RunFolder:
        """A new folder, or an empty one, becomes a run; a branch with this `run.json` and log."""
        if not is_utf8(str(path.absolute())):  # what is recorded names it
            raise UserError(f"{path} is no name in UTF-8; choose another folder with --out.")
        if folder_layout.is_reserved(path.name):
            raise UserError(
                f"{path} has the name of the settings of all runs; choose another folder with "
                "--out."
            )
        try:
            if path.is_symlink():
                raise UserError(f"{path} is a link; choose another folder with --out.")
            if path.exists() and not path.is_dir():
                raise UserError(f"{path} is not a folder; choose another one with --out.")
            if path.exists() and any(path.iterdir()):
                raise UserError(f"{path} is not empty; choose another folder with --out.")
            make_folders(path.parent)
            write_folder(
                path,
                {
                    folder_layout.RUN: run_info.encode(info or run_info.create(config)),
                    folder_layout.CONFIG: config.to_toml().encode(),
                    folder_layout.LOG: log,
                    folder_layout.LOCK: b"",
                },
            )
        except OSError as error:
            raise UserError(f"Cannot write the run to {path}: {error.strerror}.") from None
        return RunFolder(path, frames_cap)

    @property
    def path(self) -> Path:
        """Where it lies, as far as is known: it may be moved while it is written."""
        return self._anchor.path

    @property
    def begun(self) -> bool:
        """Whether the run was ever built here."""
        return "started" in self.info

    @property
    def _id(self) -> str:
        return run_identity.id_of(self.info)

    @property
    def weights(self) -> InnerPath:
        return self.root / folder_layout.WEIGHTS

    @property
    def config(self) -> RunConfig:
        return run_info.config_of(self.info)

    @property
    def newest(self) -> run_checkpoints.StoredCheckpoint | None:
        sound = [one for one in self.checkpoints if one.sound]
        return sound[-1] if sound else None

    def newest_snapshot(self) -> Snapshot | None:
        """What the last sound checkpoint holds; None where the run must begin at its seed."""
        while (newest := self.newest) is not None:
            try:
                return run_checkpoints.load(newest)
            except UserError:  # sound a moment ago: an older one serves as well
                self.checkpoints.remove(newest)
        return None

    @property
    def last_frame_step(self) -> int | None:
        """The step of the newest frame; None where there is none."""
        return self._frames[-1].step if self._frames else None

    def plan_frames(self, probes: Sequence[str], every: int) -> None:
        """Write down what is recorded as frames; see `run_info.add_frames`."""
        if run_info.frames_of(self.info) != (tuple(probes), every):
            self._change()
            self._write_info(run_info.add_frames(self.info, probes, every))

    def begin(self, started: RunStarted, fingerprint: str, threads: int, stack: str = "") -> None:
        """`stack`: names those that are trained in one process with it; '' of a run by itself."""
        self._change()
        info = run_info.add_start(self.info, started, fingerprint, threads)
        self._write_info(run_info.add_stack(info, stack) if stack else info)

    def note(self, name: str, fields: Mapping[str, Any]) -> None:
        self.note_all([(name, fields)])

    def note_all(self, notes: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        """Write these lines into the log, all or none."""
        if time.monotonic() - self._looked >= SYNC_EVERY:
            self._look()
        self._change()
        self._mend_cut()  # before they are written: it would leave a hole
        self._log.append_all(notes)
        for place, (name, fields) in enumerate(notes):
            if name == SWAPPED:
                self._regime = str(fields.get("after", ""))
            elif name == CONTINUED:
                seq = self._log.next_seq - len(notes) + place
                self._continued.append((seq, int(fields.get("lines", seq))))
            if name in CHANGES:
                self._changes.append(int(fields.get("step", 0)))

    def go_on(self, fields: Mapping[str, Any]) -> None:
        """Mark in the log that the run goes on from the newest sound checkpoint, or from its seed.

        Lines after that checkpoint count no more, and frames after it are removed.
        """
        newest = self.newest
        lines = serial = 0
        if newest is not None:
            lines, serial = newest.lines, newest.frames
        given = NextNumbers(self._log.next_seq, self._serial, self._order)
        self.note("RunContinued", {**fields, "lines": lines, **given.to_fields()})
        self._log.sync()
        self._regime = self._regime_of(newest)
        superseded = [frame for frame in self._frames if frame.serial >= serial]
        for frame in superseded:
            frame.path.unlink(missing_ok=True)
        if superseded:  # none may come back when later checkpoints count it
            (self.root / folder_layout.FRAMES).sync()
        self._frames = [frame for frame in self._frames if frame.serial < serial]
        self._manifest.forget_frames(serial)

    def checkpoint(self, snapshot: Snapshot, kept: str) -> None:
        """Write a checkpoint, and remove those that are no longer needed."""
        self._look()
        self._change()
        self._log.sync()
        folder = self.root / folder_layout.CHECKPOINTS
        lines = self._log.next_seq
        marks = {"kept": kept, "lines": lines, "frames": self._serial}
        marks |= {run_identity.RUN: self._id}
        marks |= {"line": self._log.marks.get(lines - 1, "")}
        marks |= {"continued": [list(pair) for pair in self._continued]}
        self._regime = str(snapshot.state.get("regime", self._regime))
        # A checkpoint whose writing failed at the end may lie there all the same, with its number.
        order, self._order = self._order, self._order + 1
        self.checkpoints.append(run_checkpoints.write(folder, snapshot, order, marks))
        for one in self._not_held(run_checkpoints.choose_superfluous(self.checkpoints)):
            with suppress(OSError):  # the new one is written: what stays too long does no harm
                if not (one.path / folder_layout.KEEP).exists():
                    run_checkpoints.remove(one)
                self.checkpoints.remove(one)
        self._room.look()
        self._thin([], self._not_held(self._room.superfluous(self.checkpoints)))

    def _not_held(
        self, checkpoints: list[run_checkpoints.StoredCheckpoint]
    ) -> list[run_checkpoints.StoredCheckpoint]:
        held = self.held  # another thread may set it meanwhile
        return [one for one in checkpoints if one.step not in held]

    def drop(self, checkpoint: run_checkpoints.StoredCheckpoint) -> None:
        """Take a checkpoint out: the run goes on from an earlier one."""
        self._change()
        run_checkpoints.remove(checkpoint)
        self.checkpoints.remove(checkpoint)

    def add_frame(self, frame: Frame) -> None:
        """Write a frame; where there are too many, old ones thin out."""
        self._look()
        self._change()
        self._frames.append(
            frame_files.write(self.root / folder_layout.FRAMES, frame, self._serial, self._id)
        )
        self._serial += 1
        room = self._room.frames
        self._thin(frame_files.choose_dropped(self._frames, self._changes, room), [])

    def thin(self, share: float) -> None:
        """Leave this share of the bytes of its frames, and of its checkpoints before changes."""
        room = int(share * sum(frame.bytes for frame in self._frames))
        frames = frame_files.choose_dropped(self._frames, self._changes, room)
        self._thin(frames, self._room.superfluous(self.checkpoints, share))

    def _last_step(self) -> int:
        frames = [frame.step for frame in self._frames[-1:]]
        return max([0, *frames, *(one.step for one in self.checkpoints[-1:])])

    def _thin(
        self,
        frames: Sequence[frame_files.StoredFrame],
        checkpoints: Sequence[run_checkpoints.StoredCheckpoint],
    ) -> None:
        """Write down what goes, then take it out: nothing is gone that the log does not name."""
        if not frames and not checkpoints:
            return
        self._change()
        event = RecordThinned(
            step=self._last_step(),
            frames=find_ranges(sorted(one.serial for one in frames)),
            checkpoints=tuple(one.path.name for one in checkpoints),
            limit=self._room.limit,
        )
        self._log.append(log_word(event), dict(to_plain(event)))
        if not self._thinned:
            self.tell(event)
        self._thinned = True
        for frame in frames:
            with suppress(OSError):  # the new one is written: what stays too long does no harm
                frame.path.unlink(missing_ok=True)
        gone = {frame.serial for frame in frames if not frame.path.exists()}
        self._frames = [frame for frame in self._frames if frame.serial not in gone]
        for checkpoint in checkpoints:
            with suppress(OSError):
                run_checkpoints.remove(checkpoint)
                self.checkpoints.remove(checkpoint)

    @property
    def lines(self) -> int:
        return self._log.next_seq

    def sync(self) -> None:
        self._look()
        self._log.sync()

    def take_remarks(self) -> list[str]:
        """What was mended since the last time, a sentence each."""
        remarks, self._remarks = self._remarks, []
        return remarks

    def why(self, error: OSError) -> str:
        """Why it cannot be written, as the end of a sentence."""
        if not self._anchor.is_named:
            return self._why_gone()
        return error.strerror or str(error.args[-1] if error.args else error)

    def recover(self, last: bool = False) -> None:
        """After trouble: raise `OSError` unless our folder is there and can be written.

        `last`: the folder is written where it lies now, also if another lies in its place; where
        it was removed, what is left of the run goes into a new folder beside it.
        """
        if not self._anchor.is_named and not self._follow(last):
            try:
                self._return()
            except OSError:
                if not (last and self._anchor.is_removed):
                    raise
                self._begin_anew()
        self._look()
        self._sync_names()
        self._reopen_log()

    def close(self) -> None:
        """Leave the manifest, if there is room for it, and release the lock."""
        self._log.close()
        if self._changed:
            with suppress(OSError, UserError):
                self._write_manifest()
            self._changed = False
        self._let_go()

    def discard(self) -> None:
        """Remove the folder, unless another lies in its place."""
        ours = self._anchor.is_named
        self.close()
        if ours:
            inner(self.path).remove_tree(ignore_errors=True)

    def _let_go(self) -> None:
        self._lock.release()
        self._anchor.let_go()

    def _look(self) -> None:
        """Raise `OSError` unless our folder lies where it did or was only renamed; put back its
        lock and its log where they are gone."""
        self._looked = time.monotonic()
        if not self._anchor.is_named and not self._follow(last=False):
            raise OSError(None, self._why_gone())
        if not self._lock.is_named:
            self._lock.retake()
            self._remark(f"{folder_layout.LOCK} was gone, or another file; it was made anew")
        if not self._log.is_named:
            self._mend_log()
        self._mend_cut()
        if not (self.root / folder_layout.RUN).exists():
            self._write_info(self.info)
            self._remark(f"{folder_layout.RUN} was gone; it was written anew")

    def _mend_log(self) -> None:
        try:
            content = self._log.read_back()
        except OSError:  # of a disk that was away: the file of this name is looked at
            self._reopen_log()
            return
        folder_layout.set_aside(self.root, self.root / folder_layout.LOG)
        self._log.write_anew(content)
        self._remark(f"{folder_layout.LOG} was gone, or another file; it was written anew")

    def _mend_cut(self) -> None:
        if self._log.take_cut():
            self._remark(_CUT)

    def _reopen_log(self) -> None:
        if self._log.reopen():
            self._remark(_CUT)

    def _remark(self, what: str) -> None:
        self._remarks.append(f"In {self.path} {what}. Somebody else changes files in it.")

    def _follow(self, last: bool) -> bool:
        """Whether the folder was renamed, and nothing else has its place; from now on it is said
        to lie there."""
        before, found = self.path, self._anchor.find()
        if found is None or (os.path.lexists(before) and not last):
            return False
        self._anchor.path = found
        self._remarks.append(f"{before} was moved to {found}; it is recorded there from now on.")
        return True

    def _why_gone(self) -> str:
        if self._anchor.trouble:
            return f"its folder cannot be reached ({self._anchor.trouble})"
        found = self._anchor.find()
        away = "was removed" if found is None else f"was moved to {found}"
        if os.path.lexists(self.path):
            return f"another folder lies in its place, and its own {away}"
        return f"its folder {away}"

    def _return(self) -> None:
        """Go on in a folder that is this run's, though it is not the one that was held: it was
        away and was copied back. Raises `OSError`."""
        try:
            here = run_info.read(self.path)
        except UserError as refusal:
            raise OSError(None, str(refusal)) from None
        if here.get("id") != self.info.get("id"):
            raise OSError(None, "another run lies in its folder now")
        self._anchor.hold()
        folder_layout.require_no_link(self.root)

    def _begin_anew(self) -> None:
        """Its folder is deleted: the log, which is still held open, and what comes now go into a
        new folder beside it. Frames and checkpoints went with the old one. Raises `OSError`."""
        before, info = self.path, put_manifest(self.info, None)
        target = folder_layout.unused_path(before.parent, f"{before.name}-recovered")
        try:
            log = self._log.read_back()
        except OSError:
            log = b""
        make_folders(target.parent)
        files = {folder_layout.RUN: run_info.encode(info), folder_layout.LOG: log}
        files |= {folder_layout.CONFIG: self.config.to_toml().encode(), folder_layout.LOCK: b""}
        write_folder(target, files)
        self._anchor.path = target
        self._anchor.hold()
        self.info = info
        self._lock.retake()
        self._log.write_anew(log)
        self.checkpoints, self._frames = [], []
        self._manifest = ManifestWriter(self.root, None, [])
        self._remarks.append(
            f"{before} was removed; what was in memory of its run is saved in {target}: the log "
            "and the last checkpoint, without frames and earlier checkpoints."
        )

    def _known_of_log(
        self, known: Manifest | None, log: _LogMarks
    ) -> tuple[list[tuple[int, int]], str]:
        """Where the run went on, and the regime that its log ends in; of lost lines what is known
        elsewhere."""
        facts = facts_in(self.root)
        if known is not None and known.fact is not None:
            facts.append(known.fact)
        first = run_info.first_regime(self.info)
        continued, swaps = log.continued, log.swaps
        written = known.lines if known else 0
        if log.has_gaps or log.end < max((written, *(fact.lines for fact in facts))):
            lines = LogScan(self.root / folder_layout.LOG, NEEDED)
            with suppress(FileNotFoundError):
                found = read_gaps(lines, written, first, facts).lines
                continued += [
                    (one.seq, lines_before(one)) for one in found if one.name == CONTINUED
                ]
        newest = max(facts, key=lambda fact: fact.lines, default=LogFact(0, regime=first))
        later = [after for seq, after in swaps if seq >= newest.lines]
        return sorted(continued), later[-1] if later else newest.regime or first

    def _regime_of(self, checkpoint: run_checkpoints.StoredCheckpoint | None) -> str:
        if checkpoint is None:
            return run_info.first_regime(self.info)
        try:
            return str(run_checkpoints.read_state(checkpoint.path).get("regime", ""))
        except (OSError, ValueError):
            return ""

    def _known_manifest(self) -> Manifest | None:
        try:
            return read_manifest(self.info)
        except ValueError:  # `verify` names it
            return None

    def _sync_names(self) -> None:
        for folder in folder_layout.written_folders(self.root):
            if folder.is_dir():
                folder.sync()
        with suppress(PermissionError):  # who may not list the runs may still write this one
            sync_folder(self.path.parent)

    def _change(self) -> None:
        """Take the manifest out before anything changes: it no longer holds."""
        if not self._changed and KEY in self.info:
            self._write_info(put_manifest(self.info, None))
        self._changed = True

    def _write_manifest(self) -> None:
        frames = {frame.serial: frame.digest for frame in self._frames}
        fact = LogFact(self.lines, 0, self._regime, tuple(self._continued))
        left = self._manifest.describe(
            self.lines, frames, self._log.marks, self._log.digests(), fact
        )
        self._write_info(put_manifest(self.info, left))

    def _write_info(self, info: dict[str, Any]) -> None:
        run_info.write(self.root, info)
        self.info = info


def _nobody_hears(_: Event) -> None:
    """A folder that is written without a window and without a progress bar."""


class _LogMarks:
    """What a writer has to know of the log that it goes on with; none of its lines is held."""

    def __init__(self, folder: InnerPath, marked: Collection[int]) -> None:
        self._folder = folder
        self._scan = LogScan(folder / folder_layout.LOG, _MARKS, marked)
        self.changes = array("q")  # steps of changes
        self.thinned = False
        self.continued: list[tuple[int, int]] = []  # numbers, and how many lines counted
        self.swaps: list[tuple[int, str]] = []  # numbers, and to which regime

    @property
    def end(self) -> int:
        return self._scan.end

    @property
    def has_gaps(self) -> bool:
        return bool(self._scan.missing) or self._scan.has_lost

    def marks(self) -> Iterator[LogLine]:
        """Of the sound lines those where the run went on; the others are noted when all are taken.
        None where there is no log; raises `OSError`.
        """
        with suppress(FileNotFoundError):
            for line in self._scan:
                if line.name in CHANGES and is_count(line.fields.get("step")):
                    self.changes.append(line.fields["step"])
                self.thinned = self.thinned or line.name == THINNED
                if line.name == SWAPPED:
                    self.swaps.append((line.seq, str(line.fields.get("after", ""))))
                if line.name == CONTINUED:
                    lines = lines_before(line)
                    self.continued.append((line.seq, lines))
                    self.swaps = [swap for swap in self.swaps if swap[0] < lines]
                    yield line

    def trouble(self, manifest: Manifest) -> str:
        """Why nothing is written behind its lines, as the end of a sentence; '' where it may be. A
        system that crashed may have left a piece of zeros, which is cut off."""
        if self._scan.is_foreign or is_foreign_log(self._folder, manifest, self._scan.marks):
            return "is the log of another run"
        return log_trouble(self._scan, {}) if self._scan.torn > LINE else ""


def create_named(root: Path, config: RunConfig) -> RunFolder:
    """A new run in the user's folder of runs, named by time and settings; raises `UserError`."""
    words = f"{config.gating.regime}-{config.net.short}-{config.data.name.partition(':')[0]}"
    name = f"{datetime.now():%Y%m%d-%H%M%S}-{words}"
    return RunFolder.create(folder_layout.unused_path(root, name), config)
