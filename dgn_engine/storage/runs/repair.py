"""Makes a damaged run folder readable again: what is sound stays, the rest moves to `damaged/`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.storage.atomic_write import clear_leftovers, write_file
from dgn_engine.storage.inner_path import Anchor, InnerPath
from dgn_engine.storage.lock import Lock
from dgn_engine.storage.regular_files import NotRegular, read_text
from dgn_engine.storage.runs import (
    folder_layout,
    frame_content,
    frame_files,
    run_checkpoints,
    run_identity,
    run_info,
)
from dgn_engine.storage.runs.log import LogContents, LogScan, fill_gaps, read_log
from dgn_engine.storage.runs.manifest import (
    KEY,
    NOTHING,
    Manifest,
    compare,
    count_lines,
    find_unsound,
    find_wrong_kinds,
    is_foreign_info,
    is_foreign_log,
    marks_of_log,
    put_manifest,
    read_manifest,
    verify,
)
from dgn_engine.text.byte_counts import bytes_in_words

_UNFINISHED = "a last line that was not finished was"


def repair(folder: Path) -> list[str]:
    """What was done, a sentence each; nothing is deleted, damaged files go to `damaged/`.

    Raises `UserError` where somebody writes the run, or there is nothing to make it whole from.
    """
    before = verify(folder)
    anchor = Anchor(folder)
    try:
        anchor.hold()
        try:
            done = _repair(InnerPath(anchor))
        finally:
            anchor.let_go()
    except OSError as error:
        raise UserError(f"Cannot repair {folder}: {error.strerror}.") from None
    left = [damage for damage in verify(folder) if not damage.harmless]
    if left:
        raise UserError(f"{folder} could not be made whole: {left[0]}.")
    return done if before else []


def _repair(root: InnerPath) -> list[str]:
    lock_file = root / folder_layout.LOCK
    aside = _drop_links(root, [lock_file] if lock_file.is_link() else [])
    if lock_file.exists() and not lock_file.is_file():
        folder_layout.set_aside(root, lock_file)
        aside.append(f"{folder_layout.LOCK} was put aside: it was no regular file.")
    wrong = [path for path, _ in find_wrong_kinds(root)]
    lock = Lock(lock_file)
    lock.take()
    if lock_file in wrong:
        aside.append(f"{folder_layout.LOCK} was emptied: it was larger than any lock.")
    try:
        aside += _drop_links(root, folder_layout.links(root))
        for folder in folder_layout.written_folders(root):
            clear_leftovers(folder)
        return [
            *aside,
            *_repair_info(root),
            *_repair_config(root),
            *_repair_log(root),
            *_drop_unsound(root),
            *_reduce_manifest(root),
        ]
    finally:
        lock.release()


def _drop_links(root: InnerPath, links: Sequence[InnerPath]) -> list[str]:
    for path in links:
        folder_layout.set_aside(root, path)
    return [f"{path.within} was put aside: it was a link." for path in links]


def _repair_info(folder: InnerPath) -> list[str]:
    """From the configuration's own file, else from a checkpoint, which holds it too."""
    foreign = is_foreign_info(folder)
    try:
        run_info.read(folder)
        if not foreign:
            return []
        folder_layout.set_aside(folder, folder / folder_layout.RUN)  # nothing is compared with it
    except run_info.LaterVersionError:
        raise
    except UserError:
        pass
    config, source = _recorded_config(folder, foreign)
    _link_aside(folder, folder / folder_layout.RUN)
    first, *former = _stated_ids(folder) or ["", *_tags_in_log(folder)[:1]]
    info = run_info.recreate(config, first)
    run_info.write(folder, info | ({run_identity.FORMER: former} if former else {}))
    why = " was put aside, because it is of another run. It" if foreign else ""
    return [
        f"{folder_layout.RUN}{why} was made anew from {source}; "
        "device, threads and fingerprint of the data are not known any more."
    ]


def _recorded_config(folder: InnerPath, foreign: bool) -> tuple[RunConfig, str]:
    """`foreign`: another run's files were put there, perhaps its configuration, too."""
    config = None if foreign else _read_config(folder)
    if config is not None:
        return config, folder_layout.CONFIG
    for one in reversed(run_checkpoints.scan(folder / folder_layout.CHECKPOINTS)):
        if one.sound:
            name = (one.path / folder_layout.STATE).within
            return run_info.config_of(run_checkpoints.read_state(one.path)), name
    raise UserError(
        f"{folder} cannot be repaired: neither {folder_layout.RUN} "
        f"nor {folder_layout.CONFIG} nor a checkpoint says what was trained."
    )


def _stated_ids(folder: InnerPath) -> list[str]:
    """The ids of the run that its checkpoints state, those of the newest first, or its frames."""
    held = run_checkpoints.scan(folder / folder_layout.CHECKPOINTS)
    states = [run_checkpoints.read_state(one.path) for one in reversed(held) if one.sound]
    stated = [state.get(run_identity.RUN) for state in states]
    if not any(stated):
        frames = frame_files.scan(folder / folder_layout.FRAMES)
        sound = [frame for frame in reversed(frames) if not frame_files.check(frame)]
        stated = [frame_content.read_origin(frame.path).run for frame in sound]
    return list(dict.fromkeys(one for one in stated if one and isinstance(one, str)))


def _tags_in_log(folder: InnerPath) -> list[str]:
    """Those that its lines state, the most common one first."""
    try:
        found = Counter(line.run for line in LogScan(folder / folder_layout.LOG, {}) if line.run)
    except OSError:
        return []
    return [tag for tag, _ in found.most_common()]


def _read_config(folder: InnerPath) -> RunConfig | None:
    try:
        return RunConfig.from_toml(read_text(folder / folder_layout.CONFIG))
    except (OSError, ValueError, UserError):
        return None


def _repair_config(folder: InnerPath) -> list[str]:
    config = run_info.config_of(run_info.read(folder))
    if _read_config(folder) == config:
        return []
    path = folder / folder_layout.CONFIG
    _link_aside(folder, path)
    write_file(path, config.to_toml().encode())
    return [f"{folder_layout.CONFIG} was made anew from {folder_layout.RUN}."]


def _repair_log(folder: InnerPath) -> list[str]:
    """Sound lines keep their numbers, because checkpoints name them."""
    path, known = folder / folder_layout.LOG, _known(folder)
    written, marks = count_lines(folder, known or NOTHING), marks_of_log(folder, known or NOTHING)
    why = "was missing"
    try:
        if not is_foreign_log(folder, known or NOTHING, marks):
            log = read_log(path).lacking(written)
            return _mend_log(folder, log, log.end if known in (None, NOTHING) else known.lines)
        why = "was put aside: it is of another run"
    except FileNotFoundError:
        pass
    except NotRegular as error:
        why = f"was put aside: {error.strerror}"
    folder_layout.set_aside(folder, path)
    write_file(path, fill_gaps(LogContents(()).lacking(written), _tag(folder)))
    return [f"{folder_layout.LOG} {why}; an empty one was made, {written:,} lines are lost."]


def _mend_log(folder: InnerPath, log: LogContents, end: int) -> list[str]:
    """`end`: how many lines there may be."""
    path, added = folder / folder_layout.LOG, sum(line.seq >= end for line in log.lines)
    if not (log.damaged or log.missing or log.torn or added):
        return []
    _link_aside(folder, path)
    left = tuple(line for line in log.lines if line.seq < end)
    write_file(path, fill_gaps(replace(log, lines=left), _tag(folder)))
    if added:
        return [f"{folder_layout.LOG}: {added:,} lines were cut off that this run did not write."]
    if not (log.damaged or log.missing):
        what = f"{bytes_in_words(log.torn)} that are no line were" if log.stray else _UNFINISHED
        return [f"{folder_layout.LOG}: {what} cut off."]
    lost = sum(last - first + 1 for first, last in log.missing)
    return [f"{folder_layout.LOG}: {len(log.lines):,} sound lines were kept, {lost:,} are lost."]


def _drop_unsound(folder: InnerPath) -> list[str]:
    known = _known(folder)
    marks = marks_of_log(folder, known or NOTHING)
    paths = [path for path, _ in find_unsound(folder, known, marks)]
    for path in paths:
        folder_layout.set_aside(folder, path)
    return [f"{path.within} was put aside." for path in paths]


def _reduce_manifest(folder: InnerPath) -> list[str]:
    """Take out of the manifest what is gone, and set damaged weights aside."""
    info, known = run_info.read(folder), _known(folder)
    if known is None:
        if KEY not in info:
            return []
        run_info.write(folder, put_manifest(info, None))
        return [f"{folder_layout.RUN}: an inventory that makes no sense was taken out."]
    gone, left = compare(folder, known)
    for name in known.files.keys() - left.files.keys():
        folder_layout.set_aside(folder, folder / name)
    left = replace(left, lines=max(left.lines, read_log(folder / folder_layout.LOG).end))
    left = replace(left, marks=marks_of_log(folder, left))
    if left != known:
        run_info.write(folder, put_manifest(info, left))
    return [f"{damage}: struck out of the inventory." for damage in gone]


def _tag(folder: InnerPath) -> str:
    return run_identity.tag_of(run_identity.id_of(run_info.read(folder)))


def _known(folder: InnerPath) -> Manifest | None:
    try:
        return read_manifest(run_info.read(folder))
    except ValueError:
        return None


def _link_aside(folder: InnerPath, path: InnerPath) -> None:
    """Before a file is written anew: until then it stays, or a crash would leave none."""
    if not path.is_file():
        folder_layout.set_aside(folder, path)
        return
    target = folder_layout.unused_place(folder, path)
    try:
        target.link_from(path)
    except OSError:  # a file system that has no links
        folder_layout.set_aside(folder, path)
        return
    target.parent.sync()
