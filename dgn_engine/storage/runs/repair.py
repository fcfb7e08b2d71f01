"""Make a damaged run folder readable again: intact files stay, others move to `damaged/`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

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
from dgn_engine.storage.runs.log import (
    CONTINUED,
    SWAPPED,
    LogContents,
    LogDigests,
    LogLine,
    LogScan,
    Ranges,
    digest_log,
    encode_line,
)
from dgn_engine.storage.runs.log_gaps import GapReading, read_gaps
from dgn_engine.storage.runs.manifest import (
    KEY,
    NOTHING,
    Manifest,
    changed_lines,
    compare_manifest,
    count_lines,
    find_damage,
    find_unsound,
    find_wrong_kinds,
    is_foreign_info,
    is_foreign_log,
    known_facts,
    known_manifest,
    scanned_log,
    with_manifest,
)
from dgn_engine.text.byte_counts import bytes_in_words

_UNFINISHED = "an unfinished last line was"


def repair_run_folder(folder: Path) -> list[str]:
    """Repair a run; nothing is deleted, damaged files go to `damaged/`.

    Returns:
        A sentence for each thing that was done.

    Raises:
        UserError: The run is being written, or nothing is left to restore it from.
    """
    before = find_damage(folder)
    anchor = Anchor(folder)
    try:
        anchor.hold_folder()
        try:
            done = _repair_locked(InnerPath(anchor))
        finally:
            anchor.release_folder()
    except OSError as error:
        raise UserError(f"Cannot repair {folder}: {error.strerror}.") from None
    remaining = [damage for damage in find_damage(folder) if not damage.harmless]
    if remaining:
        raise UserError(f"{folder} could not be repaired completely: {remaining[0]}.")
    return done if before else []


def _repair_locked(root: InnerPath) -> list[str]:
    lock_file = root / folder_layout.LOCK
    aside = _drop_links(root, [lock_file] if lock_file.is_link() else [])
    if lock_file.exists() and not lock_file.is_file():
        folder_layout.set_aside(root, lock_file)
        aside.append(f"{folder_layout.LOCK} was moved to damaged/: it was not a regular file.")
    wrong = [path for path, _ in find_wrong_kinds(root)]
    lock = Lock(lock_file)
    lock.acquire()
    if lock_file in wrong:
        aside.append(f"{folder_layout.LOCK} was emptied: it was larger than any lock.")
    try:
        aside += _drop_links(root, folder_layout.links_in(root))
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
    return [f"{path.relative_name} was moved to damaged/: it was a link." for path in links]


def _repair_info(folder: InnerPath) -> list[str]:
    """Restore `run.json` from the configuration file, or else from a checkpoint."""
    foreign = is_foreign_info(folder)
    try:
        run_info.read_run_info(folder)
        if not foreign:
            return []
        folder_layout.set_aside(folder, folder / folder_layout.RUN)  # compare nothing with it
    except run_info.LaterVersionError:
        raise
    except UserError:
        pass
    config, source = _recorded_config(folder, foreign)
    _link_aside(folder, folder / folder_layout.RUN)
    own, former = _find_ids(folder)
    info = run_info.recreate_info(config, own)
    run_info.write_run_info(folder, info | former)
    why = " was moved to damaged/, as it belongs to another run. It" if foreign else ""
    return [
        f"{folder_layout.RUN}{why} was recreated from {source}; "
        "device, threads and fingerprint of the data are no longer known."
    ]


def _recorded_config(folder: InnerPath, foreign: bool) -> tuple[RunConfig, str]:
    """Return the configuration and its file; `foreign`: the folder has files of another run."""
    config = None if foreign else _read_config(folder)
    if config is not None:
        return config, folder_layout.CONFIG
    for checkpoint in reversed(
        run_checkpoints.scan_checkpoints(folder / folder_layout.CHECKPOINTS)
    ):
        if checkpoint.is_intact:
            name = (checkpoint.path / folder_layout.STATE).relative_name
            return run_info.config_of(run_checkpoints.read_state(checkpoint.path)), name
    raise UserError(
        f"{folder} cannot be repaired: neither {folder_layout.RUN} "
        f"nor {folder_layout.CONFIG} nor a checkpoint has its configuration.",
        kind="no-configuration",
    )


def _find_ids(folder: InnerPath) -> tuple[str, dict[str, Any]]:
    """Return the run's id by the files in its folder ('' if none states it), and earlier ids.

    The earlier ids are entries for `run.json`.
    """
    by_checkpoints, by_frames = _stated_by_checkpoints(folder), _stated_by_frames(folder)
    # Those of the newest first.
    stated = list(dict.fromkeys(run_id for run_id, _ in (*by_checkpoints, *by_frames)))
    full = {run_identity.tag_of(run_id): run_id for run_id in stated}
    stretches = _stretches_of_log(folder)
    tags = [tag for tag, _, _ in stretches]
    follow = len(set(tags)) == len(tags) and all(
        begins or tag in full for tag, _, begins in stretches[1:]
    )
    if not follow or (stated and run_identity.tag_of(stated[0]) not in tags):
        common = [tag for tag, _ in Counter(tags).most_common(1)]
        own, *former = stated or ["", *common]
        return own, {run_identity.FORMER: former} if former else {}
    if not stretches:
        return "", {}
    *before, own = (full.get(tag, tag) for tag in tags)
    if not before:
        return (own, {}) if stated else ("", {run_identity.FORMER: [own]})
    ends = [first for _, first, _ in stretches[1:]]
    counts = {
        run_id: [end, _count_stated(by_frames, run_id), _count_stated(by_checkpoints, run_id)]
        for run_id, end in zip(before, ends, strict=True)
    }
    return own, {run_identity.FORMER: before, run_identity.COUNTS: counts}


def _count_stated(stated: Sequence[tuple[str, int]], run: str) -> int:
    """Return how many frames or checkpoints existed when the last one of this run was written."""
    return 1 + max((number for run_id, number in stated if run_id == run), default=-1)


def _stated_by_checkpoints(folder: InnerPath) -> list[tuple[str, int]]:
    """Return the ids that checkpoints state, and their order; the newest first."""
    checkpoints = run_checkpoints.scan_checkpoints(folder / folder_layout.CHECKPOINTS)
    sound = [checkpoint for checkpoint in reversed(checkpoints) if checkpoint.is_intact]
    ids = (
        (run_checkpoints.read_state(checkpoint.path).get(run_identity.RUN), checkpoint)
        for checkpoint in sound
    )
    return [
        (stated, checkpoint.order)
        for stated, checkpoint in ids
        if stated and isinstance(stated, str)
    ]


def _stated_by_frames(folder: InnerPath) -> list[tuple[str, int]]:
    """Return the ids that frames state, and their serial numbers."""
    frames = frame_files.scan_frames(folder / folder_layout.FRAMES)
    sound = [frame for frame in reversed(frames) if not frame_files.check_frame(frame)]
    ids = ((frame_content.read_origin(frame.path).run, frame) for frame in sound)
    return [(stated, frame.serial) for stated, frame in ids if stated]


def _stretches_of_log(folder: InnerPath) -> list[tuple[str, int, bool]]:
    """Return each stretch of log lines with one tag: tag, first line, and whether it continues."""
    stretches: list[tuple[str, int, bool]] = []
    try:
        for line in LogScan(folder / folder_layout.LOG, {}):
            if line.run and (not stretches or stretches[-1][0] != line.run):
                stretches.append((line.run, line.seq, line.name == CONTINUED))
    except OSError:
        return []
    return stretches


def _read_config(folder: InnerPath) -> RunConfig | None:
    try:
        return RunConfig.from_toml(read_text(folder / folder_layout.CONFIG))
    except (OSError, ValueError, UserError):
        return None


def _repair_config(folder: InnerPath) -> list[str]:
    config = run_info.config_of(run_info.read_run_info(folder))
    if _read_config(folder) == config:
        return []
    path = folder / folder_layout.CONFIG
    _link_aside(folder, path)
    write_file(path, config.to_toml().encode())
    return [f"{folder_layout.CONFIG} was recreated from {folder_layout.RUN}."]


def _repair_log(folder: InnerPath) -> list[str]:
    """Repair the log; intact lines keep their numbers, because checkpoints refer to them."""
    path, known = folder / folder_layout.LOG, _known_manifest(folder) or NOTHING
    written, marks = count_lines(folder, known), scanned_log(folder, known).marks
    why = "was missing"
    try:
        if not is_foreign_log(folder, known, marks):
            log = LogContents(path, written=written)
            changed = changed_lines(folder, known, log.missing)
            end = None if known == NOTHING else known.lines
            return _mend_log(folder, log, end, changed)
        why = "was moved to damaged/: it belongs to another run"
    except FileNotFoundError:
        pass
    except NotRegular as error:
        why = f"was moved to damaged/: {error.strerror}"
    folder_layout.set_aside(folder, path)
    _write_log(folder, _read_gaps(folder, (), written).fill_gaps(()))
    return [
        f"{folder_layout.LOG} {why}; an empty one was created, "
        f"and {_count_lines(written)} {_are(written)} lost."
    ]


def _mend_log(
    folder: InnerPath, log: LogContents, known_end: int | None, changed: Ranges
) -> list[str]:
    """Repair a log of this run.

    Args:
        known_end: Maximum number of lines, if known.
        changed: Numbers of lines that differ from what was written. If a line beside them is lost,
            the digest says nothing about the others.
    """
    path, missing = folder / folder_layout.LOG, log.missing
    end = log.end if known_end is None else known_end
    added = sum(line.seq >= end for line in log.lines)
    if not (log.damaged or log.missing or log.torn or added or changed):
        return []
    _link_aside(folder, path)
    left = tuple(
        line
        for line in log.lines
        if line.seq < end and not any(first <= line.seq <= last for first, last in changed)
    )
    gaps = _read_gaps(folder, left, max([end, *(last + 1 for _, last in missing)]))
    _write_log(folder, gaps.fill_gaps(left))
    return [*_describe_cut(log, added, changed, gaps, left), *_describe_restored(gaps)]


def _write_log(folder: InnerPath, lines: Iterable[LogLine]) -> None:
    """Rewrite the log, digests first, so that after a crash in between the old log still fits."""
    content, digests = bytearray(), LogDigests()
    for line in lines:
        raw = encode_line(line)
        digests.digest_line(line.seq, raw)
        content += raw
    known = _known_manifest(folder)
    if known is not None and known.digests.stretch:
        stretch, log_digests = digests.all_digests()
        remaining = replace(known, digests=replace(known.digests, stretch=stretch, log=log_digests))
        run_info.write_run_info(folder, with_manifest(run_info.read_run_info(folder), remaining))
    write_file(folder / folder_layout.LOG, bytes(content))


def _describe_cut(
    log: LogContents, added: int, changed: Ranges, gaps: GapReading, left: Sequence[LogLine]
) -> list[str]:
    if added:
        written = f"{_count_lines(added)} that this run did not write"
        return [f"{folder_layout.LOG}: {written} {'was' if added == 1 else 'were'} cut off."]
    if not (log.damaged or log.missing or changed):
        what = f"{bytes_in_words(log.torn)} that are not lines were" if log.stray else _UNFINISHED
        return [f"{folder_layout.LOG}: {what} cut off."]
    kept = f"{_count_lines(len(left), 'intact line')} {'was' if len(left) == 1 else 'were'} kept"
    return [f"{folder_layout.LOG}: {kept}, {gaps.lost:,} {_are(gaps.lost)} lost."]


def _count_lines(count: int, noun: str = "line") -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _describe_restored(gaps: GapReading) -> list[str]:
    """Describe the lost lines that were restored."""
    sentences = []
    for line in gaps.lines:
        if line.name == CONTINUED:
            sentences.append(
                f"{folder_layout.LOG}: entry {line.seq:,} was restored: the run continued from "
                f"step {line.fields['step']:,}, so entries {line.fields['lines']:,} to "
                f"{line.seq - 1:,} do not count."
            )
        elif line.name == SWAPPED:
            before, after = line.fields["before"], line.fields["after"]
            sentences.append(
                f"{folder_layout.LOG}: entry {line.seq:,} was restored from later entries: "
                f"the regime changed from {before} to {after}."
            )
    if gaps.doubtful:
        sentences.append(
            f"{folder_layout.LOG}: the lost lines may include a change of regime, so no best score "
            "is given for the time before them."
        )
    return sentences


def _read_gaps(folder: InnerPath, lines: Sequence[LogLine], written: int) -> GapReading:
    known, info = _known_manifest(folder), run_info.read_run_info(folder)
    facts, tag = known_facts(folder, known), run_identity.tag_of(run_identity.id_of(info))
    return read_gaps(lines, written, run_info.first_regime(info), facts, tag)


def _drop_unsound(folder: InnerPath) -> list[str]:
    known = _known_manifest(folder)
    marks = scanned_log(folder, known or NOTHING).marks
    paths = [path for path, _ in find_unsound(folder, known, marks)]
    for path in paths:
        folder_layout.set_aside(folder, path)
    return [f"{path.relative_name} was moved to damaged/." for path in paths]


def _reduce_manifest(folder: InnerPath) -> list[str]:
    """Remove missing files from the manifest, and move damaged weights to `damaged/`."""
    info, known = run_info.read_run_info(folder), _known_manifest(folder)
    if known is None:
        if KEY not in info:
            return []
        run_info.write_run_info(folder, with_manifest(info, None))
        return [f"{folder_layout.RUN}: an invalid inventory was removed."]
    gone, left = compare_manifest(folder, known)
    for name in known.files.keys() - left.files.keys():
        folder_layout.set_aside(folder, folder / name)
    log = LogContents(folder / folder_layout.LOG)
    left = replace(left, lines=max(left.lines, log.end))
    if left.digests.stretch:
        stretch, digests = digest_log(folder / folder_layout.LOG).all_digests()
        left = replace(left, digests=replace(left.digests, stretch=stretch, log=digests))
    left = replace(left, marks=scanned_log(folder, left).marks)
    if left != known:
        run_info.write_run_info(folder, with_manifest(info, left))
    return [f"{damage}: removed from the inventory." for damage in gone]


def _known_manifest(folder: InnerPath) -> Manifest | None:
    return known_manifest(run_info.read_run_info(folder))


def _link_aside(folder: InnerPath, path: InnerPath) -> None:
    """Keep a copy before a file is rewritten: it must stay until then, in case of a crash."""
    if not path.is_file():
        folder_layout.set_aside(folder, path)
        return
    target = folder_layout.unused_place(folder, path)
    try:
        with path.name_in_parent() as (name, here), target.name_in_parent() as (new, above):
            os.link(name, new, src_dir_fd=here, dst_dir_fd=above, follow_symlinks=False)
    except OSError:  # the file system has no links
        folder_layout.set_aside(folder, path)
        return
    target.parent.sync()
