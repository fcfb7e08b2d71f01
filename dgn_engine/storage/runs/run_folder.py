"""The folder of one run as its only writer sees it: whatever it adds is whole or absent.

Everything here raises `OSError` when the disk is full, read-only or gone; what that means for the
run is decided by the recorder. Making and opening raise `UserError`.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.protocol.events import RunStarted
from dgn_engine.protocol.frames import Frame
from dgn_engine.storage.atomic_write import clear_leftovers, write_file, write_folder
from dgn_engine.storage.lock import Lock
from dgn_engine.storage.runs import folder_layout, frame_files, manifest, run_checkpoints, run_info
from dgn_engine.storage.runs.log import LogWriter, read_log
from dgn_engine.storage.runs.retention import CAP, to_drop
from dgn_engine.storage.runs.snapshot import Snapshot

TURNS = ("RegimeSwapped", "Rewired", "SettingChanged", "RunContinued", "Diverged", "Failed")


class RunFolder:
    """Holds the lock from `create` or `open` to `close`."""

    def __init__(self, path: Path, frames_cap: int = CAP) -> None:
        """Open a folder that holds a run, for writing."""
        self.path = path
        self.about = run_info.read(path)
        self._cap = frames_cap
        self._lock = Lock(path / folder_layout.LOCK)
        try:
            self._lock.take()
            self.about = run_info.read(path)  # its last writer may have ended a moment ago
            for folder in (path, path / folder_layout.CHECKPOINTS, path / folder_layout.FRAMES):
                clear_leftovers(folder)
            self._log = LogWriter(path / folder_layout.LOG)
            self.checkpoints = run_checkpoints.stored(path / folder_layout.CHECKPOINTS)
            self._frames = frame_files.stored(path / folder_layout.FRAMES)
            self._turns = [
                int(line.fields["step"])
                for line in read_log(path / folder_layout.LOG).lines
                if line.name in TURNS and "step" in line.fields
            ]
            serials = [frame.serial for frame in self._frames]
            self._before = manifest.PreviousManifest(path, self._inventory(), serials)
        except UserError:
            self._lock.release()
            raise
        except OSError as error:
            self._lock.release()
            raise UserError(f"Cannot write the run to {path}: {error.strerror}.") from None
        self._changed = False  # so far it is as its last writer left it
        self._serial = max(self._before.next_serial, 1 + max(serials, default=-1))
        self._order = 1 + max((one.order for one in self.checkpoints), default=-1)

    @staticmethod
    def create(path: Path, config: RunConfig, frames_cap: int = CAP) -> RunFolder:
        """A new folder, or an empty one, becomes a run."""
        try:
            if path.exists() and (not path.is_dir() or any(path.iterdir())):
                raise UserError(f"{path} is not empty; choose another folder with --out.")
            path.parent.mkdir(parents=True, exist_ok=True)
            write_folder(
                path,
                {
                    folder_layout.RUN: run_info.encode(run_info.new(config)),
                    folder_layout.CONFIG: config.to_toml().encode(),
                    folder_layout.LOG: b"",
                    folder_layout.LOCK: b"",
                },
            )
        except OSError as error:
            raise UserError(f"Cannot write the run to {path}: {error.strerror}.") from None
        return RunFolder(path, frames_cap)

    @property
    def weights(self) -> Path:
        """Where the weights go at the end."""
        return self.path / folder_layout.WEIGHTS

    @property
    def config(self) -> RunConfig:
        """Of the run."""
        return RunConfig.from_dict(self.about["config"])

    @property
    def newest(self) -> run_checkpoints.StoredCheckpoint | None:
        """The last sound checkpoint."""
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

    def begin(self, started: RunStarted, fingerprint: str, threads: int) -> None:
        """Write down what is known now that the run stands."""
        self._change()
        whole = run_info.begun(self.about, started, fingerprint, threads)
        self._write_about(whole)

    def note(self, name: str, fields: Mapping[str, Any]) -> None:
        """A line in the log."""
        self._change()
        self._log.append(name, dict(fields))
        if name in TURNS:
            self._turns.append(int(fields.get("step", 0)))

    def go_on(self, fields: Mapping[str, Any]) -> None:
        """Mark in the log that the run goes on from the newest sound checkpoint, or from its seed.

        Lines after that checkpoint count no more, and frames after it are removed.
        """
        newest = self.newest
        lines = serial = 0
        if newest is not None:
            lines, serial = newest.lines, newest.frames
        self._change()
        for frame in self._frames:
            if frame.serial >= serial:
                frame.path.unlink(missing_ok=True)
        self._frames = [frame for frame in self._frames if frame.serial < serial]
        self._before.forget_frames(serial)
        self.note("RunContinued", {**fields, "lines": lines})

    def checkpoint(self, snapshot: Snapshot, kept: str) -> None:
        """A new checkpoint; those that are no longer needed go."""
        self._change()
        self._log.sync()
        folder = self.path / folder_layout.CHECKPOINTS
        marks = {"kept": kept, "lines": self._log.next_seq, "frames": self._serial}
        new = run_checkpoints.write(folder, snapshot, self._order, marks)
        self._order += 1
        self.checkpoints.append(new)
        for one in run_checkpoints.superfluous(self.checkpoints):
            if not (one.path / folder_layout.KEEP).exists():
                run_checkpoints.remove(one)
            self.checkpoints.remove(one)

    def drop(self, checkpoint: run_checkpoints.StoredCheckpoint) -> None:
        """Take a checkpoint out: the run goes on from an earlier one."""
        self._change()
        run_checkpoints.remove(checkpoint)
        self.checkpoints.remove(checkpoint)

    def frame(self, frame: Frame) -> None:
        """A new frame; where there are too many, old ones thin out."""
        self._change()
        self._frames.append(
            frame_files.write(self.path / folder_layout.FRAMES, frame, self._serial)
        )
        self._serial += 1
        for one in to_drop(self._frames, self._turns, self._cap):
            one.path.unlink(missing_ok=True)
            self._frames.remove(one)

    @property
    def lines(self) -> int:
        """Of the log."""
        return self._log.next_seq

    def sync(self) -> None:
        """Make the log last."""
        self._log.sync()

    def recover(self) -> None:
        """After trouble: is this still our folder, and can its log be written?"""
        try:
            here = run_info.read(self.path)
        except UserError as refusal:
            raise OSError(None, str(refusal)) from None
        if here["id"] != self.about["id"]:
            raise OSError(None, "another run lies in its folder now")
        self._lock.retake()
        self._log.reopen()

    def close(self) -> None:
        """Let others write; what lies here is written down, if there is room for that."""
        self._log.close()
        if self._changed:
            with suppress(OSError, UserError):
                self._write_inventory()
            self._changed = False
        self._lock.release()

    def discard(self) -> None:
        """Remove a run that could not begin."""
        self.close()
        shutil.rmtree(self.path, ignore_errors=True)

    def _inventory(self) -> manifest.Manifest | None:
        try:
            return manifest.told(self.about)
        except ValueError:  # `verify` names it
            return None

    def _change(self) -> None:
        """Before anything changes: what was written down of the folder no longer holds."""
        if not self._changed and manifest.KEY in self.about:
            self._write_about(manifest.without(self.about))
        self._changed = True

    def _write_inventory(self) -> None:
        if run_info.read(self.path)["id"] != self.about["id"]:
            return  # another run lies in its folder now
        found = self._before.after(self.lines, (frame.serial for frame in self._frames))
        self._write_about({**self.about, manifest.KEY: found.to_json()})

    def _write_about(self, whole: dict[str, Any]) -> None:
        write_file(self.path / folder_layout.RUN, run_info.encode(whole))
        self.about = whole


def new_folder(root: Path, config: RunConfig) -> RunFolder:
    """A folder of its own in the user's folder of runs; raises `UserError`."""
    words = f"{config.gating.regime}-{config.net.name}-{config.data.name.partition(':')[0]}"
    name = f"{datetime.now():%Y%m%d-%H%M%S}-{words}"
    again = 1
    while (path := root / (name if again == 1 else f"{name}-{again}")).exists():
        again += 1
    return RunFolder.create(path, config)
