"""Write the folder of one run: everything added is complete or absent.

Everything here raises `OSError` when the disk is full, read-only or gone; the recorder decides what
that means for the run. Creating and opening raise `UserError`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from dgn_engine.config import RunConfig
from dgn_engine.errors import Hint, UserError
from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.runs import RecordThinned
from dgn_engine.protocol.training import RunStarted
from dgn_engine.storage.atomic_write import clear_leftovers, make_folders, write_folder
from dgn_engine.storage.inner_path import InnerPath, as_inner_path
from dgn_engine.storage.plain_data import to_plain
from dgn_engine.storage.runs import (
    folder_layout,
    frame_files,
    run_checkpoints,
    run_identity,
    run_info,
    storage_limits,
)
from dgn_engine.storage.runs.held_folder import HeldFolder
from dgn_engine.storage.runs.log import SYNC_EVERY, log_word
from dgn_engine.storage.runs.manifest import (
    KEY,
    ManifestWriter,
    find_ranges,
    known_manifest,
    with_manifest,
)
from dgn_engine.storage.runs.run_checkpoints import Snapshot, StoredCheckpoint
from dgn_engine.storage.runs.written_log import WrittenLog
from dgn_engine.text.printable import is_utf8

_LEAST = 8  # this fraction of the limit is always left for frames

WITH_OUT = Hint(" with --out.")  # how a command lets the user choose another folder


class FolderRoom:
    """The part of a run's limit left for what may be thinned: frames and earlier checkpoints.

    Everything else stays whatever its size: the log, the newest and the last checkpoint, those that
    the user keeps, weights and answers. If that leaves less than an eighth of the limit, an eighth
    is granted anyway: the folder then exceeds its limit, and `dgn runs show` says so.

    Attributes:
        limit: Bytes of the folder.
        frames: Bytes of all frames.
    """

    def __init__(self, folder: InnerPath, frames: int | None = None) -> None:
        """`frames`: a fixed value instead of one computed from the user's limit."""
        self._folder = folder
        self._fixed = frames
        self.limit = self.frames = 0
        self.update_room()

    def update_room(self) -> None:
        """Read the current limit and the sizes of the other files."""
        root = folder_layout.runs_root()
        self.limit = storage_limits.effective_limits(root).run
        others = folder_layout.bytes_of(self._folder, without=folder_layout.FRAMES)
        remaining = max(self.limit - others, self.limit // _LEAST)
        self.frames = remaining if self._fixed is None else self._fixed

    def superfluous_checkpoints(
        self, checkpoints: Sequence[StoredCheckpoint], share: float = 0.0
    ) -> list[StoredCheckpoint]:
        """Return checkpoints before changes to remove, so that the rest takes half the room.

        `share`: keep this part of their bytes instead, whatever the limit.
        """
        sound = [checkpoint for checkpoint in checkpoints if checkpoint.is_intact]
        before = [
            checkpoint
            for checkpoint in sound[: -run_checkpoints.NEWEST]
            if checkpoint.kept.startswith("before")
        ]
        old = [
            checkpoint
            for checkpoint in before
            if not (checkpoint.path / folder_layout.KEEP).exists()
        ]
        sizes = [folder_layout.bytes_of(checkpoint.path) for checkpoint in old]
        others = folder_layout.bytes_of(self._folder, without=folder_layout.FRAMES) - sum(sizes)
        room = max(self.limit - others, self.limit // _LEAST) // 2
        room = int(share * sum(sizes)) if share else room
        if sum(sizes) <= room:
            return []
        gone = frame_files.choose_thinned([checkpoint.step for checkpoint in old], sizes, (), room)
        return [old[index] for index in gone]


class WrittenInfo:
    """The `run.json` of a run being written; its inventory is removed before anything changes.

    Attributes:
        tree: Its contents.
        is_changed: Whether the run was changed since it was opened.
    """

    def __init__(self, root: InnerPath) -> None:
        self._root = root
        self.tree = run_info.read_run_info(root)
        self.is_changed = False

    @property
    def id(self) -> str:
        return run_identity.id_of(self.tree)

    @property
    def was_built(self) -> bool:
        return "started" in self.tree

    @property
    def config(self) -> RunConfig:
        return run_info.config_of(self.tree)

    def write_info(self, tree: dict[str, Any]) -> None:
        run_info.write_run_info(self._root, tree)
        self.tree = tree

    def remove_inventory(self) -> None:
        """Remove the inventory before anything changes, because it becomes invalid."""
        if not self.is_changed and KEY in self.tree:
            self.write_info(with_manifest(self.tree, None))
        self.is_changed = True

    def plan_frames(self, probes: Sequence[str], every: int) -> None:
        """Record what is stored as frames; see `run_info.add_frames`."""
        if run_info.frames_of(self.tree) != (tuple(probes), every):
            self.remove_inventory()
            self.write_info(run_info.add_frames(self.tree, probes, every))

    def record_start(
        self, started: RunStarted, fingerprint: str, threads: int, stack: str = ""
    ) -> None:
        """Record the start; `stack` names the runs trained in one process with it, or is ''."""
        self.remove_inventory()
        tree = run_info.add_start(self.tree, started, fingerprint, threads)
        self.write_info(run_info.add_stack(tree, stack) if stack else tree)


class RunFolder:
    """A locked run folder, from `create` or opening to `close`.

    Everything is written to the folder that was opened, wherever it is moved and whatever replaces
    it. It is checked about once a second and before each checkpoint and frame: a missing or
    replaced folder raises `OSError`; other damage is mended and reported (`folder.take_remarks`).

    Attributes:
        folder: The open folder.
        root: Path for all reading and writing.
        info: Its `run.json`.
        log: Its log.
    """

    def __init__(self, path: Path, frames_cap: int | None = None) -> None:
        """Open the folder of a run for writing.

        `frames_cap`: bytes of all frames; None: what the user's limit of a run's folder leaves.
        """
        folder_layout.refuse_links(path)
        run_info.read_run_info(path)
        self.folder = HeldFolder(path)
        self.root = self.folder.root
        self._room = FolderRoom(self.root, frames_cap)
        self.tell: Callable[[Event], None] = lambda _: None  # without window and progress bar
        self._looked = 0.0
        try:
            self.folder.acquire()
            self.info = WrittenInfo(self.root)  # its last writer may have just ended
            for folder in folder_layout.written_folders(self.root):
                clear_leftovers(folder)
            self.folder.sync_names()  # its last writer may have been killed before doing so
            known = known_manifest(self.info.tree)
            self.checkpoints = run_checkpoints.scan_checkpoints(
                self.root / folder_layout.CHECKPOINTS
            )
            self._frames = frame_files.scan_frames(self.root / folder_layout.FRAMES)
            serials = [frame.serial for frame in self._frames]
            self._manifest = ManifestWriter(self.root, known, serials)
            self.log = WrittenLog(
                self.root, self.info.tree, known, self.checkpoints, self.folder.add_remark
            )
        except UserError:
            self.folder.release()
            raise
        except OSError as error:
            self.folder.release()
            raise _unwritable_error(path, error) from None
        self.held: frozenset[int] = frozenset()  # steps whose checkpoints stay while this is open
        self._serial, self._order = self.log.numbers.frames, self.log.numbers.checkpoints

    @staticmethod
    def create(
        path: Path,
        config: RunConfig,
        frames_cap: int | None = None,
        info: Mapping[str, Any] | None = None,
        log: bytes = b"",
    ) -> RunFolder:
        """Turn a new or empty folder into a run; a branch gets this `run.json` and log."""
        if not is_utf8(str(path.absolute())):  # recorded files contain it
            raise UserError(
                f"{path} is not a valid UTF-8 name; choose another folder" + WITH_OUT,
                kind="no-name",
            )
        if folder_layout.is_reserved(path.name):
            raise UserError(
                f"{path} is reserved for the settings of all runs; choose another folder"
                + WITH_OUT,
                kind="reserved-name",
            )
        try:
            if path.is_symlink():
                raise UserError(f"{path} is a link; choose another folder" + WITH_OUT, kind="link")
            if path.exists() and not path.is_dir():
                raise UserError(
                    f"{path} is not a folder; choose another one" + WITH_OUT, kind="no-folder"
                )
            if path.exists() and any(path.iterdir()):
                raise UserError(
                    f"{path} is not empty; choose another folder" + WITH_OUT, kind="not-empty"
                )
            make_folders(path.parent)
            write_folder(path, _files_of(info or run_info.create_info(config), config, log))
        except OSError as error:
            raise _unwritable_error(path, error) from None
        return RunFolder(path, frames_cap)

    @property
    def path(self) -> Path:
        """Its location as far as is known: it may be moved while being written."""
        return self.folder.path

    @property
    def newest_checkpoint(self) -> StoredCheckpoint | None:
        sound = [checkpoint for checkpoint in self.checkpoints if checkpoint.is_intact]
        return sound[-1] if sound else None

    def require_sound_checkpoint(self) -> None:
        """Raise `UserError` if there are checkpoints, and all are damaged."""
        if self.newest_checkpoint is None and self.checkpoints:
            last = self.checkpoints[-1]
            raise UserError(
                f"{last.damaged_path} {last.trouble}, and no checkpoint is intact; "
                f"'dgn runs repair {self.path}' moves it to damaged/, and the run then continues "
                "from step 0.",
                kind="damaged",
                value=last.damaged_path.relative_name,
            )

    def newest_snapshot(self) -> Snapshot | None:
        """Return the last intact checkpoint's state; None if the run must start from its seed."""
        while (newest := self.newest_checkpoint) is not None:
            try:
                return run_checkpoints.load_checkpoint(newest)
            except UserError:  # it was intact a moment ago: use an older one
                self.checkpoints.remove(newest)
        return None

    @property
    def last_frame_step(self) -> int | None:
        """The step of the newest frame; None if there is none."""
        return self._frames[-1].step if self._frames else None

    def write_note(self, name: str, fields: Mapping[str, Any]) -> None:
        self.note_all([(name, fields)])

    def note_all(self, notes: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        """Append these lines to the log, all or none."""
        if time.monotonic() - self._looked >= SYNC_EVERY:
            self._check_folder()
        self.info.remove_inventory()
        self.log.note_all(notes)

    def resume_from_newest(self, fields: Mapping[str, Any]) -> None:
        """Log that the run continues from the newest intact checkpoint, or from its seed.

        Lines after that checkpoint no longer count, and frames after it are removed.
        """
        newest = self.newest_checkpoint
        lines = serial = 0
        if newest is not None:
            lines, serial = newest.lines, newest.frames
        next_numbers = {
            "frames": self._serial,
            "checkpoints": self._order,
        }  # superseded ones are removed
        self.write_note("RunContinued", {**fields, "lines": lines, **next_numbers})
        self.log.writer.sync()
        self.log.regime = run_info.first_regime(self.info.tree)
        if newest is not None:
            self.log.regime = run_checkpoints.read_regime(newest)
        superseded = [frame for frame in self._frames if frame.serial >= serial]
        for frame in superseded:
            frame.path.unlink(missing_ok=True)
        if superseded:  # none may reappear when later checkpoints count it
            (self.root / folder_layout.FRAMES).sync()
        self._frames = [frame for frame in self._frames if frame.serial < serial]
        self._manifest.forget_frames(serial)

    def add_checkpoint(self, snapshot: Snapshot, kept: str) -> None:
        """Write a checkpoint, and remove those that are no longer needed."""
        self._check_folder()
        self.info.remove_inventory()
        self.log.writer.sync()
        folder = self.root / folder_layout.CHECKPOINTS
        lines = self.log.line_count
        marks = {"kept": kept, "lines": lines, "frames": self._serial}
        marks |= {run_identity.RUN: self.info.id}
        marks |= {"line": self.log.writer.line_marks.get(lines - 1, "")}
        marks |= {"continued": [list(pair) for pair in self.log.continued]}
        self.log.regime = str(snapshot.state.get("regime", self.log.regime))
        # A checkpoint that failed at the end of writing may exist nevertheless, with its number.
        order, self._order = self._order, self._order + 1
        self.checkpoints.append(run_checkpoints.write_step_folder(folder, snapshot, order, marks))
        protected = self.held  # another thread may change it meanwhile
        for checkpoint_ in run_checkpoints.choose_superfluous(self.checkpoints):
            if checkpoint_.step in protected:
                continue
            with suppress(OSError):  # the new one is written: a leftover does no harm
                if not (checkpoint_.path / folder_layout.KEEP).exists():
                    run_checkpoints.remove_checkpoint(checkpoint_)
                self.checkpoints.remove(checkpoint_)
        self._room.update_room()
        self._remove_thinned(
            [],
            [
                o
                for o in self._room.superfluous_checkpoints(self.checkpoints)
                if o.step not in protected
            ],
        )

    def drop_checkpoint(self, checkpoint: StoredCheckpoint) -> None:
        """Remove a checkpoint: the run continues from an earlier one."""
        self.info.remove_inventory()
        run_checkpoints.remove_checkpoint(checkpoint)
        self.checkpoints.remove(checkpoint)

    def add_frame(self, frame: Frame) -> None:
        """Write a frame; if there are too many, old ones are thinned."""
        self._check_folder()
        self.info.remove_inventory()
        folder = self.root / folder_layout.FRAMES
        self._frames.append(frame_files.write_frame(folder, frame, self._serial, self.info.id))
        self._serial += 1
        room = self._room.frames
        self._remove_thinned(frame_files.choose_dropped(self._frames, self.log.changes, room), [])

    def thin_record(self, share: float) -> None:
        """Keep this share of the bytes of frames, and of checkpoints before changes."""
        room = int(share * sum(frame.bytes for frame in self._frames))
        frames = frame_files.choose_dropped(self._frames, self.log.changes, room)
        self._remove_thinned(frames, self._room.superfluous_checkpoints(self.checkpoints, share))

    def _remove_thinned(
        self, frames: Sequence[frame_files.StoredFrame], checkpoints: Sequence[StoredCheckpoint]
    ) -> None:
        """Log what goes, then remove it: nothing disappears without a record in the log."""
        if not frames and not checkpoints:
            return
        self.info.remove_inventory()
        steps = [item.step for item in self._frames[-1:]]
        steps += [item.step for item in self.checkpoints[-1:]]
        event = RecordThinned(
            step=max([0, *steps]),
            frames=find_ranges(sorted(item.serial for item in frames)),
            checkpoints=tuple(item.path.name for item in checkpoints),
            limit=self._room.limit,
        )
        self.log.writer.append_line(log_word(event), dict(to_plain(event)))
        if not self.log.thinned:
            self.tell(event)
        self.log.thinned = True
        for frame in frames:
            with suppress(OSError):  # the new one is written: a leftover does no harm
                frame.path.unlink(missing_ok=True)
        gone = {frame.serial for frame in frames if not frame.path.exists()}
        self._frames = [frame for frame in self._frames if frame.serial not in gone]
        for checkpoint in checkpoints:
            with suppress(OSError):
                run_checkpoints.remove_checkpoint(checkpoint)
                self.checkpoints.remove(checkpoint)

    def sync(self) -> None:
        self._check_folder()
        self.log.writer.sync()

    def recover_folder(self, last: bool = False) -> None:
        """Recover after an error; raises `OSError` unless our folder exists and is writable.

        `last`: write the folder where it is now, even if another is in its place; if it was
        removed, save what is left of the run in a new folder beside it.
        """
        if not self.folder.relocate_folder(self.info.tree.get("id"), last):
            self._move_to_new_folder()
        self._check_folder()
        self.folder.sync_names()
        self.log.reopen_log()

    def close(self) -> None:
        """Write the manifest, if there is room for it, and release the lock."""
        self.log.writer.close()
        if self.info.is_changed:
            with suppress(OSError, UserError):
                frames = {frame.serial: frame.digest for frame in self._frames}
                left = self._manifest.describe_files(frames, self.log.writer, self.log.log_fact)
                self.info.write_info(with_manifest(self.info.tree, left))
            self.info.is_changed = False
        self.folder.release()

    def discard_folder(self) -> None:
        """Remove the folder, unless another is in its place."""
        ours = self.folder.is_named
        self.close()
        if ours:
            as_inner_path(self.path).remove_tree(ignore_errors=True)

    def _check_folder(self) -> None:
        """Check that our folder is there or was only renamed, and restore missing lock and log.

        Raises `OSError`.
        """
        self._looked = time.monotonic()
        self.folder.check_location()
        self.log.mend_log()
        if not (self.root / folder_layout.RUN).exists():
            self.info.write_info(self.info.tree)
            self.folder.add_remark(f"{folder_layout.RUN} was missing and has been rewritten")

    def _move_to_new_folder(self) -> None:
        """Save the log, still open, and what follows in a new folder: the old one was deleted.

        Its frames and checkpoints are gone. Raises `OSError`.
        """
        before, info = self.path, with_manifest(self.info.tree, None)
        target = folder_layout.unused_path(before.parent, f"{before.name}-recovered")
        try:
            log = self.log.writer.read_back()
        except OSError:
            log = b""
        make_folders(target.parent)
        write_folder(target, _files_of(info, self.info.config, log))
        self.folder.move_to(
            target,
            f"{before} was removed; what was in memory is saved in {target}: the log and the last "
            "checkpoint, without frames and earlier checkpoints.",
        )
        self.info.tree = info
        self.log.writer.rewrite_file(log)
        self.checkpoints, self._frames = [], []
        self._manifest = ManifestWriter(self.root, None, [])


def _unwritable_error(path: Path, error: OSError) -> UserError:
    why = f"Cannot write the run to {path}: {error.strerror}."
    return UserError(why, kind="not-writable", value=error.strerror)


def _files_of(info: Mapping[str, Any], config: RunConfig, log: bytes) -> dict[str, bytes]:
    """Return the files in the folder of a run without frames and checkpoints."""
    return {
        folder_layout.RUN: run_info.encode_info(info),
        folder_layout.CONFIG: config.to_toml().encode(),
        folder_layout.LOG: log,
        folder_layout.LOCK: b"",
    }


def create_named(root: Path, config: RunConfig) -> RunFolder:
    """Create a run in the user's runs folder, named by time and settings; raises `UserError`."""
    words = f"{config.gating.regime}-{config.net.display_name}-{config.data.name.partition(':')[0]}"
    name = f"{datetime.now():%Y%m%d-%H%M%S}-{words}"
    return RunFolder.create(folder_layout.unused_path(root, name), config)
