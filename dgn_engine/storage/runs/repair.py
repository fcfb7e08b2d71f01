"""Makes a damaged run folder readable again: what is sound stays, what is not is put aside."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.storage.atomic_write import clear_leftovers, write_file
from dgn_engine.storage.lock import Lock
from dgn_engine.storage.regular_files import NotRegular, read_regular, read_text
from dgn_engine.storage.runs import folder_layout, frame_files, manifest, run_checkpoints, run_info
from dgn_engine.storage.runs.log import LogContents, fill_gaps, read_log
from dgn_engine.storage.runs.manifest import Manifest
from dgn_engine.storage.runs.verify import verify


def repair(folder: Path) -> list[str]:
    """What was done, a sentence each; nothing is deleted, damaged files go to `damaged/`.

    Raises `UserError` where somebody writes the run, or there is nothing to make it whole from.
    """
    before = verify(folder)
    lock = Lock(folder / folder_layout.LOCK)
    try:
        lock.take()
        try:
            done = [
                *_leftovers(folder),
                *_about(folder),
                *_config(folder),
                *_log(folder),
                *_checkpoints(folder),
                *_frames(folder),
                *_inventory(folder),
            ]
        finally:
            lock.release()
    except OSError as error:
        raise UserError(f"Cannot repair {folder}: {error.strerror}.") from None
    left = [finding for finding in verify(folder) if not finding.harmless]
    if left:
        raise UserError(f"{folder} could not be made whole: {left[0]}.")
    return done if before else []


def _leftovers(folder: Path) -> list[str]:
    for inner in (folder, folder / folder_layout.CHECKPOINTS, folder / folder_layout.FRAMES):
        clear_leftovers(inner)
    return []


def _about(folder: Path) -> list[str]:
    """From the configuration's own file, else from a checkpoint, which holds it too."""
    try:
        run_info.read(folder)
        return []
    except UserError as refusal:
        if "another version" in str(refusal):
            raise
    config, source = _recorded_config(folder)
    _put_aside(folder, folder / folder_layout.RUN)
    write_file(folder / folder_layout.RUN, run_info.encode(run_info.repaired(config)))
    return [
        f"{folder_layout.RUN} was made anew from {source}; "
        "device, threads and fingerprint of the data are not known any more."
    ]


def _recorded_config(folder: Path) -> tuple[RunConfig, str]:
    try:
        return _config_file(folder / folder_layout.CONFIG), folder_layout.CONFIG
    except UserError:
        pass
    for one in reversed(run_checkpoints.stored(folder / folder_layout.CHECKPOINTS)):
        if one.sound:
            state = json.loads(read_regular(one.path / folder_layout.STATE))
            name = one.path.relative_to(folder) / folder_layout.STATE
            return RunConfig.from_dict(state["config"]), name.as_posix()
    raise UserError(
        f"{folder} cannot be repaired: neither {folder_layout.RUN} "
        f"nor {folder_layout.CONFIG} nor a checkpoint says what was trained."
    )


def _config_file(path: Path) -> RunConfig:
    try:
        return RunConfig.from_toml(read_text(path))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {error}.") from None


def _config(folder: Path) -> list[str]:
    path = folder / folder_layout.CONFIG
    config = RunConfig.from_dict(run_info.read(folder)["config"])
    try:
        if _config_file(path) == config:
            return []
    except UserError:
        pass
    _put_aside(folder, path)
    write_file(path, config.to_toml().encode())
    return [f"{folder_layout.CONFIG} was made anew from {folder_layout.RUN}."]


def _log(folder: Path) -> list[str]:
    """Sound lines keep their numbers, because checkpoints name them."""
    path, written = folder / folder_layout.LOG, _lines(folder)
    try:
        log = read_log(path).lacking(written)
    except (FileNotFoundError, NotRegular) as error:
        _put_aside(folder, path)
        write_file(path, fill_gaps(LogContents(()).lacking(written)))
        gone = isinstance(error, FileNotFoundError)
        why = "was missing" if gone else f"was put aside: {error.strerror}"
        return [f"{folder_layout.LOG} {why}; an empty one was made, {written:,} lines are lost."]
    if not (log.damaged or log.missing or log.torn):
        return []
    _put_aside(folder, path)
    write_file(path, fill_gaps(log))
    if not (log.damaged or log.missing):
        return [f"{folder_layout.LOG}: a last line that was not finished was cut off."]
    lost = sum(last - first + 1 for first, last in log.missing)
    return [f"{folder_layout.LOG}: {len(log.lines):,} sound lines were kept, {lost:,} are lost."]


def _lines(folder: Path) -> int:
    """That were written at least."""
    held = run_checkpoints.stored(folder / folder_layout.CHECKPOINTS)
    known = _known(folder)
    return max((known.lines if known else 0, *(one.lines for one in held)))


def _known(folder: Path) -> Manifest | None:
    try:
        return manifest.told(run_info.read(folder))
    except ValueError:
        return None


def _inventory(folder: Path) -> list[str]:
    """What is gone is struck out, once it has been told; damaged weights are put aside."""
    told, known = run_info.read(folder), _known(folder)
    if known is None:
        if manifest.KEY in told:
            write_file(folder / folder_layout.RUN, run_info.encode(manifest.without(told)))
            return [f"{folder_layout.RUN}: an inventory that makes no sense was taken out."]
        return []
    serials = [frame.serial for frame in frame_files.stored(folder / folder_layout.FRAMES)]
    gone = manifest.troubles(folder, known, serials)
    left = manifest.reduced(folder, known, serials, read_log(folder / folder_layout.LOG).end)
    for name in known.files.keys() - left.files.keys():
        _put_aside(folder, folder / name)
    if left != known:
        whole = {**told, manifest.KEY: left.to_json()}
        write_file(folder / folder_layout.RUN, run_info.encode(whole))
    return [f"{path} {trouble}: struck out of the inventory." for path, trouble in gone]


def _checkpoints(folder: Path) -> list[str]:
    done: list[str] = []
    for one in run_checkpoints.stored(folder / folder_layout.CHECKPOINTS):
        if not one.sound:
            _put_aside(folder, one.path)
            done.append(f"{folder_layout.CHECKPOINTS}/{one.path.name} was put aside.")
    return done


def _frames(folder: Path) -> list[str]:
    done: list[str] = []
    for frame in frame_files.stored(folder / folder_layout.FRAMES):
        if frame_files.trouble(frame):
            _put_aside(folder, frame.path)
            done.append(f"{folder_layout.FRAMES}/{frame.path.name} was put aside.")
    return done


def _put_aside(folder: Path, path: Path) -> None:
    if not os.path.lexists(path):
        return
    target = folder / folder_layout.DAMAGED / path.relative_to(folder)
    again = 1
    while os.path.lexists(target):
        target = target.with_name(f"{path.name}.{again}")
        again += 1
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(path, target)
