"""Makes a damaged run folder readable again: what is sound stays, the rest moves to `damaged/`."""

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
    compare,
    count_lines,
    find_unsound,
    find_wrong_kinds,
    is_foreign_info,
    is_foreign_log,
    known_facts,
    known_manifest,
    put_manifest,
    scanned_log,
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
    own, former = _find_ids(folder)
    info = run_info.recreate(config, own)
    run_info.write(folder, info | former)
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
        f"nor {folder_layout.CONFIG} nor a checkpoint says what was trained.",
        kind="no-configuration",
    )


def _find_ids(folder: InnerPath) -> tuple[str, dict[str, Any]]:
    """The id of the run by what lies in its folder ('' where nothing states it), and what its
    `run.json` says of those before."""
    by_checkpoints, by_frames = _stated_by_checkpoints(folder), _stated_by_frames(folder)
    # Those of the newest first.
    stated = list(dict.fromkeys(one for one, _ in (*by_checkpoints, *by_frames)))
    full = {run_identity.tag_of(one): one for one in stated}
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
        one: [end, _count_stated(by_frames, one), _count_stated(by_checkpoints, one)]
        for one, end in zip(before, ends, strict=True)
    }
    return own, {run_identity.FORMER: before, run_identity.COUNTS: counts}


def _count_stated(stated: Sequence[tuple[str, int]], run: str) -> int:
    """How many frames or checkpoints there were when the last one of this run was written."""
    return 1 + max((number for one, number in stated if one == run), default=-1)


def _stated_by_checkpoints(folder: InnerPath) -> list[tuple[str, int]]:
    """The ids that they state, and their order; the newest first."""
    held = run_checkpoints.scan(folder / folder_layout.CHECKPOINTS)
    sound = [one for one in reversed(held) if one.sound]
    found = ((run_checkpoints.read_state(one.path).get(run_identity.RUN), one) for one in sound)
    return [(stated, one.order) for stated, one in found if stated and isinstance(stated, str)]


def _stated_by_frames(folder: InnerPath) -> list[tuple[str, int]]:
    """Likewise, with their serial numbers."""
    frames = frame_files.scan(folder / folder_layout.FRAMES)
    sound = [frame for frame in reversed(frames) if not frame_files.check(frame)]
    found = ((frame_content.read_origin(frame.path).run, frame) for frame in sound)
    return [(stated, frame.serial) for stated, frame in found if stated]


def _stretches_of_log(folder: InnerPath) -> list[tuple[str, int, bool]]:
    """The tags that its lines state in their order, the number of the first line of each stretch,
    and whether the run went on there."""
    found: list[tuple[str, int, bool]] = []
    try:
        for line in LogScan(folder / folder_layout.LOG, {}):
            if line.run and (not found or found[-1][0] != line.run):
                found.append((line.run, line.seq, line.name == CONTINUED))
    except OSError:
        return []
    return found


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
    path, known = folder / folder_layout.LOG, _known(folder) or NOTHING
    written, marks = count_lines(folder, known), scanned_log(folder, known).marks
    why = "was missing"
    try:
        if not is_foreign_log(folder, known, marks):
            log = LogContents(path, written=written)
            changed = changed_lines(folder, known, log.missing)
            end = None if known == NOTHING else known.lines
            return _mend_log(folder, log, end, changed)
        why = "was put aside: it is of another run"
    except FileNotFoundError:
        pass
    except NotRegular as error:
        why = f"was put aside: {error.strerror}"
    folder_layout.set_aside(folder, path)
    _write_log(folder, _read_gaps(folder, (), written).fill(()))
    return [f"{folder_layout.LOG} {why}; an empty one was made, {written:,} lines are lost."]


def _mend_log(
    folder: InnerPath, log: LogContents, known_end: int | None, changed: Ranges
) -> list[str]:
    """`known_end`: how many lines there may be, where that is known; `changed`: numbers of lines
    that the writer did not leave there. Where one beside them is lost, the digest says nothing of
    the others."""
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
    _write_log(folder, gaps.fill(left))
    return [*_what_was_cut(log, added, changed, gaps, left), *_what_is_known(gaps)]


def _write_log(folder: InnerPath, lines: Iterable[LogLine]) -> None:
    """The log anew; its digests first: after a crash between the two, the log before is still one
    of which these lines are sound."""
    content, digests = bytearray(), LogDigests()
    for line in lines:
        raw = encode_line(line)
        digests.take(line.seq, raw)
        content += raw
    known = _known(folder)
    if known is not None and known.digests.stretch:
        stretch, found = digests.digests()
        left = replace(known, digests=replace(known.digests, stretch=stretch, log=found))
        run_info.write(folder, put_manifest(run_info.read(folder), left))
    write_file(folder / folder_layout.LOG, bytes(content))


def _what_was_cut(
    log: LogContents, added: int, changed: Ranges, gaps: GapReading, left: Sequence[LogLine]
) -> list[str]:
    if added:
        return [f"{folder_layout.LOG}: {added:,} lines were cut off that this run did not write."]
    if not (log.damaged or log.missing or changed):
        what = f"{bytes_in_words(log.torn)} that are no line were" if log.stray else _UNFINISHED
        return [f"{folder_layout.LOG}: {what} cut off."]
    return [f"{folder_layout.LOG}: {len(left):,} sound lines were kept, {gaps.lost:,} are lost."]


def _what_is_known(gaps: GapReading) -> list[str]:
    """Which lost lines were written anew."""
    said = []
    for line in gaps.lines:
        if line.name == CONTINUED:
            said.append(
                f"{folder_layout.LOG}: entry {line.seq:,} was made anew: the run went on from "
                f"step {line.fields['step']:,}, and entries {line.fields['lines']:,} to "
                f"{line.seq - 1:,} do not count."
            )
        elif line.name == SWAPPED:
            before, after = line.fields["before"], line.fields["after"]
            said.append(
                f"{folder_layout.LOG}: entry {line.seq:,} was made anew from what was written "
                f"later: the regime changed from {before} to {after}."
            )
    if gaps.doubtful:
        said.append(
            f"{folder_layout.LOG}: a change of the regime may be among the lines that are lost; "
            "no best score is given of what came before them."
        )
    return said


def _read_gaps(folder: InnerPath, lines: Sequence[LogLine], written: int) -> GapReading:
    known, info = _known(folder), run_info.read(folder)
    facts, tag = known_facts(folder, known), run_identity.tag_of(run_identity.id_of(info))
    return read_gaps(lines, written, run_info.first_regime(info), facts, tag)


def _drop_unsound(folder: InnerPath) -> list[str]:
    known = _known(folder)
    marks = scanned_log(folder, known or NOTHING).marks
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
    log = LogContents(folder / folder_layout.LOG)
    left = replace(left, lines=max(left.lines, log.end))
    if left.digests.stretch:
        stretch, digests = digest_log(folder / folder_layout.LOG).digests()
        left = replace(left, digests=replace(left.digests, stretch=stretch, log=digests))
    left = replace(left, marks=scanned_log(folder, left).marks)
    if left != known:
        run_info.write(folder, put_manifest(info, left))
    return [f"{damage}: struck out of the inventory." for damage in gone]


def _known(folder: InnerPath) -> Manifest | None:
    return known_manifest(run_info.read(folder))


def _link_aside(folder: InnerPath, path: InnerPath) -> None:
    """Before a file is written anew: until then it stays, or a crash would leave none."""
    if not path.is_file():
        folder_layout.set_aside(folder, path)
        return
    target = folder_layout.unused_place(folder, path)
    try:
        with path.at() as (name, here), target.at() as (new, above):
            os.link(name, new, src_dir_fd=here, dst_dir_fd=above, follow_symlinks=False)
    except OSError:  # a file system that has no links
        folder_layout.set_aside(folder, path)
        return
    target.parent.sync()
