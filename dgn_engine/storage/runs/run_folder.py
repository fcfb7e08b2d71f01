"""Writes the folder of one run: whatever is added is whole or absent.

Everything here raises `OSError` when the disk is full, read-only or gone; what that means for the
run is decided by the recorder. Making and opening raise `UserError`.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.protocol.events import RunStarted
from dgn_engine.protocol.frames import Frame
from dgn_engine.storage.atomic_write import (
    clear_leftovers,
    make_folders,
    sync_folder,
    write_folder,
)
from dgn_engine.storage.lock import Lock
from dgn_engine.storage.runs import folder_layout, frame_files, run_checkpoints, run_info
from dgn_engine.storage.runs.log import LogLine, LogWriter, read_log
from dgn_engine.storage.runs.manifest import (
    KEY,
    NOTHING,
    Manifest,
    ManifestWriter,
    put_manifest,
    read_manifest,
)
from dgn_engine.storage.runs.run_checkpoints import Snapshot
from dgn_engine.storage.runs.serial_numbers import NextNumbers, find_next_numbers

CHANGES = ("RegimeSwapped", "Rewired", "SettingChanged", "RunContinued", "Diverged", "Failed")


class RunFolder:
    """Holds the lock from `create` or `open` to `close`."""

    def __init__(self, path: Path, frames_cap: int = frame_files.CAP) -> None:
        """Open a folder that holds a run, for writing."""
        self.path = path
        self.info = run_info.read(path)
        self._cap = frames_cap
        self._lock = Lock(path / folder_layout.LOCK)
        try:
            self._lock.take()
            self.info = run_info.read(path)  # its last writer may have ended a moment ago
            for folder in folder_layout.written_folders(path):
                clear_leftovers(folder)
            self._sync_names()  # its last writer may have been killed before it did
            known, lines = self._known_manifest(), _read_lines(path)
            numbers = find_next_numbers(path, known or NOTHING, lines)
            self._log = LogWriter(path / folder_layout.LOG, numbers.lines)
            self.checkpoints = run_checkpoints.scan(path / folder_layout.CHECKPOINTS)
            self._frames = frame_files.scan(path / folder_layout.FRAMES)
            self._changes = [
                int(line.fields["step"])
                for line in lines
                if line.name in CHANGES and "step" in line.fields
            ]
            serials = [frame.serial for frame in self._frames]
            self._manifest = ManifestWriter(path, known, serials)
        except UserError:
            self._lock.release()
            raise
        except OSError as error:
            self._lock.release()
            raise UserError(f"Cannot write the run to {path}: {error.strerror}.") from None
        self._changed = False  # so far it is as its last writer left it
        self._serial, self._order = numbers.frames, numbers.checkpoints

    @staticmethod
    def create(path: Path, config: RunConfig, frames_cap: int = frame_files.CAP) -> RunFolder:
        """A new folder, or an empty one, becomes a run."""
        try:
            if path.exists() and (not path.is_dir() or any(path.iterdir())):
                raise UserError(f"{path} is not empty; choose another folder with --out.")
            make_folders(path.parent)
            write_folder(
                path,
                {
                    folder_layout.RUN: run_info.encode(run_info.create(config)),
                    folder_layout.CONFIG: config.to_toml().encode(),
                    folder_layout.LOG: b"",
                    folder_layout.LOCK: b"",
                },
            )
        except OSError as error:
            raise UserError(f"Cannot write the run to {path}: {error.strerror}.") from None
        return RunFolder(path, frames_cap)

    @property
    def begun(self) -> bool:
        """Whether the run was ever built here."""
        return "started" in self.info

    @property
    def weights(self) -> Path:
        return self.path / folder_layout.WEIGHTS

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

    def plan_frames(self, probes: Sequence[str], every: int) -> None:
        """Write down what is recorded as frames; see `run_info.add_frames`."""
        if run_info.frames_of(self.info) != (tuple(probes), every):
            self._change()
            self._write_info(run_info.add_frames(self.info, probes, every))

    def begin(self, started: RunStarted, fingerprint: str, threads: int) -> None:
        self._change()
        self._write_info(run_info.add_start(self.info, started, fingerprint, threads))

    def note(self, name: str, fields: Mapping[str, Any]) -> None:
        self._change()
        self._log.append(name, dict(fields))
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
        superseded = [frame for frame in self._frames if frame.serial >= serial]
        for frame in superseded:
            frame.path.unlink(missing_ok=True)
        if superseded:  # none may come back when later checkpoints count it
            sync_folder(self.path / folder_layout.FRAMES)
        self._frames = [frame for frame in self._frames if frame.serial < serial]
        self._manifest.forget_frames(serial)

    def checkpoint(self, snapshot: Snapshot, kept: str) -> None:
        """Write a checkpoint, and remove those that are no longer needed."""
        self._change()
        self._log.sync()
        folder = self.path / folder_layout.CHECKPOINTS
        marks = {"kept": kept, "lines": self._log.next_seq, "frames": self._serial}
        # A checkpoint whose writing failed at the end may lie there all the same, with its number.
        order, self._order = self._order, self._order + 1
        self.checkpoints.append(run_checkpoints.write(folder, snapshot, order, marks))
        for one in run_checkpoints.choose_superfluous(self.checkpoints):
            with suppress(OSError):  # the new one is written: what stays too long does no harm
                if not (one.path / folder_layout.KEEP).exists():
                    run_checkpoints.remove(one)
                self.checkpoints.remove(one)

    def drop(self, checkpoint: run_checkpoints.StoredCheckpoint) -> None:
        """Take a checkpoint out: the run goes on from an earlier one."""
        self._change()
        run_checkpoints.remove(checkpoint)
        self.checkpoints.remove(checkpoint)

    def add_frame(self, frame: Frame) -> None:
        """Write a frame; where there are too many, old ones thin out."""
        self._change()
        self._frames.append(
            frame_files.write(self.path / folder_layout.FRAMES, frame, self._serial)
        )
        self._serial += 1
        for one in frame_files.choose_dropped(self._frames, self._changes, self._cap):
            with suppress(OSError):  # the new one is written: what stays too long does no harm
                one.path.unlink(missing_ok=True)
                self._frames.remove(one)

    @property
    def lines(self) -> int:
        return self._log.next_seq

    def sync(self) -> None:
        self._log.sync()

    def recover(self) -> None:
        """After trouble: raise `OSError` unless our folder is there and can be written."""
        try:
            here = run_info.read(self.path)
        except UserError as refusal:
            raise OSError(None, str(refusal)) from None
        if here["id"] != self.info["id"]:
            raise OSError(None, "another run lies in its folder now")
        self._lock.retake()
        self._sync_names()
        self._log.reopen()

    def close(self) -> None:
        """Leave the manifest, if there is room for it, and release the lock."""
        self._log.close()
        if self._changed:
            with suppress(OSError, UserError):
                self._write_manifest()
            self._changed = False
        self._lock.release()

    def discard(self) -> None:
        self.close()
        shutil.rmtree(self.path, ignore_errors=True)

    def _known_manifest(self) -> Manifest | None:
        try:
            return read_manifest(self.info)
        except ValueError:  # `verify` names it
            return None

    def _sync_names(self) -> None:
        for folder in folder_layout.written_folders(self.path):
            if folder.is_dir():
                sync_folder(folder)
        with suppress(PermissionError):  # who may not list the runs may still write this one
            sync_folder(self.path.parent)

    def _change(self) -> None:
        """Take the manifest out before anything changes: it no longer holds."""
        if not self._changed and KEY in self.info:
            self._write_info(put_manifest(self.info, None))
        self._changed = True

    def _write_manifest(self) -> None:
        if run_info.read(self.path)["id"] != self.info["id"]:
            return  # another run lies in its folder now
        left = self._manifest.describe(self.lines, (frame.serial for frame in self._frames))
        self._write_info(put_manifest(self.info, left))

    def _write_info(self, info: dict[str, Any]) -> None:
        run_info.write(self.path, info)
        self.info = info


def _read_lines(folder: Path) -> tuple[LogLine, ...]:
    """The sound lines of the log; none where there is no log. Raises `OSError`."""
    try:
        return read_log(folder / folder_layout.LOG).lines
    except FileNotFoundError:
        return ()


def create_named(root: Path, config: RunConfig) -> RunFolder:
    """A new run in the user's folder of runs, named by time and settings; raises `UserError`."""
    words = f"{config.gating.regime}-{config.net.short}-{config.data.name.partition(':')[0]}"
    name = f"{datetime.now():%Y%m%d-%H%M%S}-{words}"
    return RunFolder.create(folder_layout.unused_path(root, name), config)
