"""Makes a damaged run folder readable again: what is sound stays, the rest moves to `damaged/`."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.storage.atomic_write import (
    clear_leftovers,
    make_folders,
    sync_folder,
    write_file,
)
from dgn_engine.storage.lock import Lock
from dgn_engine.storage.regular_files import NotRegular, read_text
from dgn_engine.storage.runs import folder_layout, run_checkpoints, run_info
from dgn_engine.storage.runs.log import LogContents, fill_gaps, read_log
from dgn_engine.storage.runs.manifest import (
    KEY,
    NOTHING,
    Manifest,
    compare,
    count_lines,
    find_unsound,
    put_manifest,
    read_manifest,
    verify,
)


def repair(folder: Path) -> list[str]:
    """What was done, a sentence each; nothing is deleted, damaged files go to `damaged/`.

    Raises `UserError` where somebody writes the run, or there is nothing to make it whole from.
    """
    before = verify(folder)
    lock = Lock(folder / folder_layout.LOCK)
    try:
        lock.take()
        try:
            for inner in folder_layout.written_folders(folder):
                clear_leftovers(inner)
            done = [
                *_repair_info(folder),
                *_repair_config(folder),
                *_repair_log(folder),
                *_drop_unsound(folder),
                *_reduce_manifest(folder),
            ]
        finally:
            lock.release()
    except OSError as error:
        raise UserError(f"Cannot repair {folder}: {error.strerror}.") from None
    left = [damage for damage in verify(folder) if not damage.harmless]
    if left:
        raise UserError(f"{folder} could not be made whole: {left[0]}.")
    return done if before else []


def _repair_info(folder: Path) -> list[str]:
    """From the configuration's own file, else from a checkpoint, which holds it too."""
    try:
        run_info.read(folder)
        return []
    except UserError as refusal:
        if "another version" in str(refusal):
            raise
    config, source = _recorded_config(folder)
    _link_aside(folder, folder / folder_layout.RUN)
    run_info.write(folder, run_info.recreate(config))
    return [
        f"{folder_layout.RUN} was made anew from {source}; "
        "device, threads and fingerprint of the data are not known any more."
    ]


def _recorded_config(folder: Path) -> tuple[RunConfig, str]:
    config = _read_config(folder)
    if config is not None:
        return config, folder_layout.CONFIG
    for one in reversed(run_checkpoints.scan(folder / folder_layout.CHECKPOINTS)):
        if one.sound:
            name = one.path.relative_to(folder) / folder_layout.STATE
            return run_info.config_of(run_checkpoints.read_state(one.path)), name.as_posix()
    raise UserError(
        f"{folder} cannot be repaired: neither {folder_layout.RUN} "
        f"nor {folder_layout.CONFIG} nor a checkpoint says what was trained."
    )


def _read_config(folder: Path) -> RunConfig | None:
    try:
        return RunConfig.from_toml(read_text(folder / folder_layout.CONFIG))
    except (OSError, ValueError, UserError):
        return None


def _repair_config(folder: Path) -> list[str]:
    config = run_info.config_of(run_info.read(folder))
    if _read_config(folder) == config:
        return []
    path = folder / folder_layout.CONFIG
    _link_aside(folder, path)
    write_file(path, config.to_toml().encode())
    return [f"{folder_layout.CONFIG} was made anew from {folder_layout.RUN}."]


def _repair_log(folder: Path) -> list[str]:
    """Sound lines keep their numbers, because checkpoints name them."""
    path, written = folder / folder_layout.LOG, count_lines(folder, _known(folder) or NOTHING)
    try:
        log = read_log(path).lacking(written)
    except (FileNotFoundError, NotRegular) as error:
        _set_aside(folder, path)
        write_file(path, fill_gaps(LogContents(()).lacking(written)))
        gone = isinstance(error, FileNotFoundError)
        why = "was missing" if gone else f"was put aside: {error.strerror}"
        return [f"{folder_layout.LOG} {why}; an empty one was made, {written:,} lines are lost."]
    if not (log.damaged or log.missing or log.torn):
        return []
    _link_aside(folder, path)
    write_file(path, fill_gaps(log))
    if not (log.damaged or log.missing):
        return [f"{folder_layout.LOG}: a last line that was not finished was cut off."]
    lost = sum(last - first + 1 for first, last in log.missing)
    return [f"{folder_layout.LOG}: {len(log.lines):,} sound lines were kept, {lost:,} are lost."]


def _drop_unsound(folder: Path) -> list[str]:
    paths = [path for path, _ in find_unsound(folder)]
    for path in paths:
        _set_aside(folder, path)
    return [f"{path.relative_to(folder).as_posix()} was put aside." for path in paths]


def _reduce_manifest(folder: Path) -> list[str]:
    """Take out of the manifest what is gone, and set damaged weights aside."""
    info, known = run_info.read(folder), _known(folder)
    if known is None:
        if KEY not in info:
            return []
        run_info.write(folder, put_manifest(info, None))
        return [f"{folder_layout.RUN}: an inventory that makes no sense was taken out."]
    gone, left = compare(folder, known)
    for name in known.files.keys() - left.files.keys():
        _set_aside(folder, folder / name)
    left = replace(left, lines=max(left.lines, read_log(folder / folder_layout.LOG).end))
    if left != known:
        run_info.write(folder, put_manifest(info, left))
    return [f"{damage}: struck out of the inventory." for damage in gone]


def _known(folder: Path) -> Manifest | None:
    try:
        return read_manifest(run_info.read(folder))
    except ValueError:
        return None


def _link_aside(folder: Path, path: Path) -> None:
    """Before a file is written anew: until then it stays, or a crash would leave none."""
    if path.is_symlink() or not path.is_file():
        _set_aside(folder, path)
        return
    target = _unused_place(folder, path)
    try:
        target.hardlink_to(path)
    except OSError:  # a file system that has no links
        _set_aside(folder, path)
        return
    sync_folder(target.parent)


def _set_aside(folder: Path, path: Path) -> None:
    if not os.path.lexists(path):
        return
    target = _unused_place(folder, path)
    path.rename(target)
    sync_folder(target.parent)
    sync_folder(path.parent)


def _unused_place(folder: Path, path: Path) -> Path:
    target = folder / folder_layout.DAMAGED / path.relative_to(folder)
    again = 1
    while os.path.lexists(target):
        target = target.with_name(f"{path.name}.{again}")
        again += 1
    make_folders(target.parent)
    return target
