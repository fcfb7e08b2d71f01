"""The manifest of a run's folder, written by its writer; `find_damage` compares the folder with it.

It is in `run.json`, written last and removed before anything changes again. A folder has none if
its writer was killed or an older version wrote it; then nobody can tell what is missing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.storage import lock
from dgn_engine.storage.atomic_write import PART, find_leftovers
from dgn_engine.storage.inner_path import InnerPath, inner_folder
from dgn_engine.storage.plain_data import from_plain, parse_json, to_plain
from dgn_engine.storage.regular_files import (
    FILE,
    JSON,
    Digest,
    NotRegular,
    check_file,
    digest_file,
    open_regular,
    read_text,
)
from dgn_engine.storage.runs import (
    folder_layout,
    frame_files,
    run_checkpoints,
    run_identity,
    run_info,
)
from dgn_engine.storage.runs.log import (
    DIGEST,
    NO_DIGEST,
    LogScan,
    LogWriter,
    Marks,
    Ranges,
    digest_log,
    extend_ranges,
    is_refuted,
    log_trouble,
)
from dgn_engine.storage.runs.log_gaps import LogFact, continued_in, facts_in
from dgn_engine.storage.runs.run_notes import LARGEST, parse_notes
from dgn_engine.storage.runs.run_ranges import is_count, is_word
from dgn_engine.text.byte_counts import bytes_in_words

KEY = "inventory"  # in run.json
_MARKS = "log_marks"  # beside it: earlier versions refuse an inventory with an unknown part
_DIGESTS = "digests"  # likewise
_OF = "of"  # in it: a digest of the inventory and marks; digests of another inventory are outdated
_MOST_DIGESTS = 100_000  # of frames: if there are more, none is stored
_MOST = 1_000_000  # frames: the manifest may be untrusted
_COUNT = 1 << 53
_WEIGHTS = re.compile(
    rf"{folder_layout.WEIGHTS}|{folder_layout.KEPT}/[A-Za-z0-9_-][A-Za-z0-9_.-]*\.safetensors"
)
_CHANGED = "has changed since it was written: the inventory has a different digest"
_EXTRA = "was added by someone else: it is not in the inventory"
_SMALL = {
    folder_layout.LOCK: 1 << 12,
    folder_layout.NOTES: LARGEST,
    folder_layout.ANSWERS: 1 << 24,
    folder_layout.MIRROR: 1 << 12,
}  # largest size of these files, in bytes
_FILES = {*folder_layout.FILES, *folder_layout.FOLDERS, *_SMALL}
# For each folder, '' for the run's: whether it may contain a file of this name.
_KNOWN_NAMES: Mapping[str, Callable[[str], bool]] = {
    "": lambda name: name.partition(".link")[0] in _FILES,  # what `repair` moved there
    folder_layout.CHECKPOINTS: lambda name: folder_layout.checkpoint_key(name) is not None,
    folder_layout.FRAMES: lambda name: folder_layout.frame_key(name) is not None,
    folder_layout.KEPT: lambda name: bool(_WEIGHTS.fullmatch(f"{folder_layout.KEPT}/{name}")),
}


@dataclass(frozen=True)
class Digests:
    """Prefixes of sha256 digests of a folder's contents, and what else is known about its log.

    Attributes:
        log: One per `stretch` lines of the log (`LogDigests`).
        frames: By serial number, as in their names.
        checkpoints: Of each `manifest.json`, by the checkpoint's name.
        regime: Of the run at the end; '' if unknown.
        continued: As in `LogFact`.
    """

    stretch: int = 0
    log: tuple[str, ...] = ()
    frames: Mapping[int, str] = field(default_factory=dict)
    checkpoints: Mapping[str, str] = field(default_factory=dict)
    regime: str = ""
    continued: Ranges | None = None


@dataclass(frozen=True)
class Manifest:
    """The manifest in `run.json`; raises `ValueError` if it is impossible.

    Attributes:
        lines: Number of lines of the log.
        frames: First and last serial number of each stretch.
        checkpoints: Names of their folders.
        files: Weights.
        marks: Checksums of the log's first and last line.
        digests: Empty if an older version wrote it.
    """

    lines: int
    frames: Ranges
    checkpoints: tuple[str, ...]
    files: Mapping[str, Digest]
    marks: Marks = field(default_factory=dict)
    digests: Digests = field(default_factory=Digests)

    def __post_init__(self) -> None:
        counts = [self.lines, *(number for stretch in self.frames for number in stretch)]
        counts += [written.bytes for written in self.files.values()]
        if not all(0 <= count <= _COUNT for count in counts):
            raise ValueError("a count")
        if any(last < first for first, last in self.frames):
            raise ValueError("a stretch of frames")
        if sum(last - first + 1 for first, last in self.frames) > _MOST:
            raise ValueError("too many frames")
        if not all(folder_layout.checkpoint_key(name) for name in self.checkpoints):
            raise ValueError("a checkpoint's name")
        if not all(_WEIGHTS.fullmatch(name) for name in self.files):
            raise ValueError("a file's name")

    @staticmethod
    def from_parts(
        lines: int,
        frames: Iterable[int],
        checkpoints: Iterable[str],
        files: Mapping[str, Digest],
        marks: Marks | None = None,
        digests: Digests | None = None,
    ) -> Manifest:
        """Build a manifest of these parts; `frames` are serial numbers.

        Digests of other frames and checkpoints are dropped.
        """
        serials, digests = sorted(frames), digests or Digests()
        names, written = tuple(sorted(checkpoints)), dict(sorted(files.items()))
        of_frames = {n: digests.frames[n] for n in serials if n in digests.frames}
        of_names = {n: digests.checkpoints[n] for n in names if n in digests.checkpoints}
        left = replace(digests, frames=of_frames, checkpoints=of_names)
        return Manifest(lines, find_ranges(serials), names, written, marks or {}, left)

    @property
    def log_fact(self) -> LogFact | None:
        """The manifest's facts about the log; None if an older version wrote it."""
        if not self.digests.stretch:
            return None
        known = self.digests
        return LogFact(self.lines, regime=known.regime, continued=known.continued)

    @property
    def frame_serials(self) -> frozenset[int]:
        return frozenset(n for first, last in self.frames for n in range(first, last + 1))


NOTHING = Manifest(0, (), (), {})


def read_manifest(info: Mapping[str, Any]) -> Manifest | None:
    """Return the manifest of a `run.json`, or None; raises `ValueError` if it is invalid."""
    if info.get(KEY) is None:
        return None
    try:
        manifest: Manifest = from_plain(Manifest, info[KEY])
        marks: Any = from_plain(tuple[tuple[int, str], ...], info.get(_MARKS, []))
        return replace(manifest, marks=dict(marks), digests=_digests_in(info, manifest))
    except TypeError as error:
        raise ValueError(str(error)) from None


def known_manifest(info: Mapping[str, Any]) -> Manifest | None:
    """Return the manifest as `read_manifest`, or None if invalid (`find_damage` reports that)."""
    try:
        return read_manifest(info)
    except ValueError:
        return None


def known_facts(folder: InnerPath, manifest: Manifest | None) -> list[LogFact]:
    """Return what the intact checkpoints and the inventory say about a log; raises `OSError`."""
    stated = None if manifest is None else manifest.log_fact
    return [*facts_in(folder), *([stated] if stated is not None else [])]


def with_manifest(info: Mapping[str, Any], manifest: Manifest | None) -> dict[str, Any]:
    """Return a `run.json` with this manifest, or with none."""
    bare = {key: value for key, value in info.items() if key not in (KEY, _MARKS, _DIGESTS)}
    if manifest is None:
        return bare
    inventory = to_plain(replace(manifest, digests=Digests()))
    del inventory["marks"], inventory["digests"]
    marks = {_MARKS: [list(pair) for pair in manifest.marks.items()]} if manifest.marks else {}
    whole = {**bare, KEY: inventory, **marks}
    return (
        {**whole, _DIGESTS: _encode_digests(whole, manifest)} if manifest.digests.stretch else whole
    )


def _digest_of_inventory(info: Mapping[str, Any]) -> str:
    parts = json.dumps([info.get(KEY), info.get(_MARKS)], sort_keys=True)
    return hashlib.sha256(parts.encode()).hexdigest()[:DIGEST]


def _encode_digests(info: Mapping[str, Any], manifest: Manifest) -> dict[str, Any]:
    """Encode the digests of the log and of frames as one string each, in order."""
    known, serials = manifest.digests, sorted(manifest.frame_serials)
    few = len(serials) <= _MOST_DIGESTS
    return {
        _OF: _digest_of_inventory(info),
        "stretch": known.stretch,
        "log": "".join(known.log),
        "frames": "".join(known.frames.get(n, NO_DIGEST) for n in serials) if few else "",
        "checkpoints": dict(known.checkpoints),
        "regime": known.regime,
        "continued": None if known.continued is None else [list(p) for p in known.continued],
    }


def _digests_in(info: Mapping[str, Any], manifest: Manifest) -> Digests:
    """Return the digests beside an inventory; raises `ValueError`.

    Empty if there are none, or if an older version continued the run.
    """
    tree = info.get(_DIGESTS)
    if not isinstance(tree, dict) or tree.get(_OF) != _digest_of_inventory(info):
        return Digests()
    stretch, regime, checkpoints = (tree.get(n) for n in ("stretch", "regime", "checkpoints"))
    frames, log = (_split_digests(tree.get(name)) for name in ("frames", "log"))
    serials = sorted(manifest.frame_serials)
    if not is_count(stretch) or not is_word(regime) or not isinstance(checkpoints, dict):
        raise ValueError("digests")
    if len(frames) not in (0, len(serials)):
        raise ValueError("digests")
    of_frames = {
        n: digest for n, digest in zip(serials, frames, strict=False) if digest != NO_DIGEST
    }
    return Digests(stretch, log, of_frames, checkpoints, regime, continued_in(tree))


def _split_digests(word: object) -> tuple[str, ...]:
    if not isinstance(word, str) or len(word) % DIGEST:
        raise ValueError("digests")
    return tuple(word[n : n + DIGEST] for n in range(0, len(word), DIGEST))


class ManifestWriter:
    """Remembers what a writer found when it opened a folder.

    What was missing then is still reported as missing after the run continues.
    """

    def __init__(self, folder: InnerPath, known: Manifest | None, frames: Iterable[int]) -> None:
        """`frames`: the existing serial numbers. Raises `OSError`."""
        self._digests = known.digests if known is not None else Digests()
        known = known or NOTHING
        self._folder = folder
        self._files = dict(known.files)
        self._stamps = {name: _file_stamp(path) for name, path in _weight_files(folder).items()}
        self._lost_checkpoints = {
            name
            for name in known.checkpoints
            if not (folder / folder_layout.CHECKPOINTS / name).exists()
        }
        self._lost_frames = known.frame_serials.difference(frames)

    def forget_frames(self, serial: int) -> None:
        """Forget frames from this number on: they are superseded."""
        self._lost_frames = frozenset(number for number in self._lost_frames if number < serial)

    def describe_files(self, frames: Mapping[int, str], log: LogWriter, fact: LogFact) -> Manifest:
        """Return the manifest of the folder from now on; raises `OSError`.

        Weights are hashed only if they are new or were rewritten.

        Args:
            frames: Digests by serial number.
            log: All of it must be written.
            fact: What is known of the run at its end.
        """
        for name, path in _weight_files(self._folder).items():
            if name not in self._files or self._stamps.get(name) != _file_stamp(path):
                with suppress(NotRegular):
                    self._files[name] = digest_file(path)
        checkpoints = _checkpoint_names(self._folder) | self._lost_checkpoints
        digests = Digests(
            *log.read_digests(),
            {**self._digests.frames, **frames},
            {**self._digests.checkpoints, **_digest_checkpoints(self._folder)},
            fact.regime,
            fact.continued,
        )
        serials = self._lost_frames.union(frames)
        return Manifest.from_parts(
            log.next_seq, serials, checkpoints, self._files, log.line_marks, digests
        )


@dataclass(frozen=True)
class Damage:
    """Damage to a file; `path` is in the run's folder, `harmless` damage loses nothing."""

    path: str
    trouble: str
    harmless: bool = False

    def __str__(self) -> str:
        return f"{self.path} {self.trouble}"


def find_damage(folder: Path) -> list[Damage]:
    """Return everything that differs from what was written; raises `UserError` if not a run."""
    try:
        root = inner_folder(folder)
        there = root.list_entries()
        names = (folder_layout.RUN, folder_layout.LOG, folder_layout.CHECKPOINTS)
        if not any(name in there for name in names):
            raise UserError(f"{folder} is not a run.", kind="no-run", value=folder)
        damages = _verify_all(root)
        if damages and lock.find_lock_holder(root / folder_layout.LOCK) is not None:
            again = {damage.path for damage in _verify_all(root)}  # its writer may have removed it
            damages = [damage for damage in damages if damage.path in again]
        return damages
    except OSError as error:
        raise UserError(f"{folder} cannot be read: {error.strerror or error}.") from None


def _verify_all(root: InnerPath) -> list[Damage]:
    links = [path.relative_name for path in folder_layout.links_in(root)]
    damages = [Damage(path, "is a link, which is not followed") for path in links]
    return [*damages, *(damage for damage in _verify_folder(root) if damage.path not in links)]


def _verify_folder(folder: InnerPath) -> list[Damage]:
    damages: list[Damage] = []
    info: dict[str, Any] = {}
    config, manifest = None, None
    try:
        info = run_info.read_run_info(folder)
        config = run_info.config_of(info)
    except UserError as refusal:
        missing = not (folder / folder_layout.RUN).exists()
        other = isinstance(refusal, run_info.LaterVersionError)
        trouble = "is missing" if missing else str(refusal) if other else "is damaged"
        damages.append(Damage(folder_layout.RUN, trouble))
    try:
        manifest = read_manifest(info)
    except ValueError:
        damages.append(Damage(folder_layout.RUN, "has an invalid inventory"))
    if is_foreign_info(folder):
        return [Damage(folder_layout.RUN, f"{run_identity.OF_ANOTHER}, unlike the other files")]
    log = LogScan(
        folder / folder_layout.LOG, marked=_marked_line_numbers(folder, manifest or NOTHING)
    )
    return [
        *damages,
        *_verify_config(folder, config),
        *_verify_log(folder, manifest or NOTHING, log),
        *(damage for _, damage in find_unsound(folder, manifest, log.marks)),
        *compare_manifest(folder, manifest or NOTHING)[0],
        *_find_foreign_files(folder),
        *(
            Damage(path.relative_name, "was not finished", harmless=True)
            for inner in folder_layout.written_folders(folder)
            if not inner.is_link()
            for path in find_leftovers(inner)
        ),
    ]


def reason_uncertain(folder: Path) -> str:
    """Return why files could be missing without notice, to end a sentence; '' if none could."""
    with suppress(UserError, ValueError):
        if (read_manifest(run_info.read_run_info(folder)) or NOTHING) != NOTHING:
            return ""
    if lock.find_lock_holder(folder / folder_layout.LOCK) is not None:
        return "it is being written"
    return "its writer was killed, or is an older version, and left no list of its files"


def count_lines(folder: InnerPath, manifest: Manifest) -> int:
    """Return how many lines of the log were written at least, by manifest and checkpoints."""
    stored = _scan_checkpoints(folder, thorough=False)
    return max((manifest.lines, *(checkpoint.lines for checkpoint in stored)))


def find_unsound(
    folder: InnerPath, manifest: Manifest | None, marks: Marks
) -> Iterator[tuple[InnerPath, Damage]]:
    """Yield the files that are not as this run's writers left them, and what is wrong with each.

    Args:
        manifest: None if it is unknown what should be there.
        marks: Checksums of the log's lines.
    """
    yield from find_wrong_kinds(folder)
    is_foreign = is_foreign_log(folder, manifest or NOTHING, marks)
    known = (manifest or NOTHING).digests
    of_checkpoints = _digest_checkpoints(folder) if known.checkpoints else {}
    orders: dict[int, str] = {}
    for checkpoint in _scan_checkpoints(folder):
        if not checkpoint.is_intact:
            yield checkpoint.path, Damage(checkpoint.damaged_path.relative_name, checkpoint.trouble)
        elif not is_foreign and is_refuted(marks, _expected_marks(checkpoint)):
            yield (
                checkpoint.path,
                Damage(checkpoint.path.relative_name, f"{run_identity.OF_ANOTHER}, unlike the log"),
            )
        elif checkpoint.order in orders:
            yield (
                checkpoint.path,
                Damage(checkpoint.path.relative_name, f"is a copy of {orders[checkpoint.order]}"),
            )
        elif manifest is not None and checkpoint.path.name not in manifest.checkpoints:
            yield checkpoint.path, Damage(checkpoint.path.relative_name, _EXTRA)
        elif known.checkpoints.get(checkpoint.path.name) not in (
            None,
            of_checkpoints.get(checkpoint.path.name),
        ):
            yield checkpoint.path, Damage(checkpoint.path.relative_name, _CHANGED)
        else:
            orders[checkpoint.order] = checkpoint.path.name
            keep = checkpoint.path / folder_layout.KEEP
            if keep.exists() and not (keep.is_file() and not keep.status().st_size):
                yield (
                    keep,
                    Damage(
                        keep.relative_name, "is not the empty file that marks a kept checkpoint"
                    ),
                )
    for frame in _scan_frames(folder):
        if trouble := frame_files.check_frame(frame):
            yield frame.path, Damage(frame.path.relative_name, trouble)
        elif manifest is not None and frame.serial not in manifest.frame_serials:
            yield frame.path, Damage(frame.path.relative_name, _EXTRA)
        elif known.frames.get(frame.serial, frame.digest) != frame.digest:
            yield frame.path, Damage(frame.path.relative_name, _CHANGED)
    for name, path in _weight_files(folder).items():
        if manifest is not None and name not in manifest.files:
            yield path, Damage(name, _EXTRA)
        elif manifest is None and (trouble := _check_tensors(path)):
            yield path, Damage(name, trouble)
    yield from _unreadable_files(folder)


def find_wrong_kinds(folder: InnerPath) -> Iterator[tuple[InnerPath, Damage]]:
    """Yield folders and small files of a run that have the wrong kind or are too large.

    `run.json`, `config.toml` and the log are checked separately.
    """
    there = folder.list_entries()
    for name in (name_ for name_ in folder_layout.FOLDERS if name_ in there):
        if not (stat.S_ISDIR(mode := there[name].st_mode) or stat.S_ISLNK(mode)):
            yield folder / name, Damage(name, "is not a folder")
    for name, most in _SMALL.items():
        status = there.get(name)
        if status is None or stat.S_ISLNK(status.st_mode):
            continue
        if not stat.S_ISREG(status.st_mode):
            yield folder / name, Damage(name, "is not a regular file")
        elif status.st_size > most:
            size = bytes_in_words(status.st_size)
            yield folder / name, Damage(name, f"has {size}, more than is ever written there")


def _check_tensors(path: InnerPath) -> str:
    """Return what is wrong with a safetensors file without a known digest; '' if nothing is found.

    Its size must match its header; changed numbers of the same size are not noticed.
    """
    try:
        with open_regular(path, FILE) as file:
            size, header = os.fstat(file.fileno()).st_size, int.from_bytes(file.read(8), "little")
            tree = parse_json(file.read(min(header, JSON)))
        ends = [entry["data_offsets"][1] for name, entry in tree.items() if name != "__metadata__"]
        whole = 8 + header + max(ends, default=0)
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        return "is damaged"
    return "" if whole == size else f"has {size:,} bytes, but {whole:,} were written"


def _unreadable_files(folder: InnerPath) -> Iterator[tuple[InnerPath, Damage]]:
    """Yield notes and answers that readers ignore because they are damaged or of another run."""
    from dgn_engine.storage.runs.run_answers import UNSOUND, parse_answers

    parsers = {folder_layout.NOTES: parse_notes, folder_layout.ANSWERS: parse_answers}
    for name, parse in parsers.items():
        try:
            if (folder / name).is_file():
                parse(folder)
        except OSError as error:
            yield folder / name, Damage(name, f"cannot be read ({error.strerror})")
        except UNSOUND as error:
            other = run_identity.OF_ANOTHER in error.args
            yield folder / name, Damage(name, run_identity.OF_ANOTHER if other else "is damaged")


def _find_foreign_files(folder: InnerPath) -> Iterator[Damage]:
    """Yield files that no writer of runs creates and no reader reads."""
    for within, is_known in _KNOWN_NAMES.items():
        inner = folder / within if within else folder
        if inner.is_link():
            continue
        for name in inner.list_entries():
            if not is_known(name) and not name.endswith(PART):
                yield Damage((inner / name).relative_name, "is not part of a run", harmless=True)


def is_foreign_log(folder: InnerPath, manifest: Manifest, marks: Marks) -> bool:
    """Return whether the log with these `marks` belongs to another run.

    Its first or last line is not the one in the inventory; without an inventory, it matches no
    checkpoint.
    """
    if manifest.marks:
        return is_refuted(marks, manifest.marks)
    expected = [
        _expected_marks(checkpoint) for checkpoint in _scan_checkpoints(folder, thorough=False)
    ]
    comparable = [mark for mark in expected if mark and marks.keys() >= mark.keys()]
    return bool(comparable) and all(is_refuted(marks, mark) for mark in comparable)


def scanned_log(folder: InnerPath, manifest: Manifest) -> LogScan:
    """Read the whole log for the `marks` known to inventory and checkpoints; none without a log."""
    log = LogScan(folder / folder_layout.LOG, {}, _marked_line_numbers(folder, manifest))
    with suppress(OSError):
        deque(log, maxlen=0)
    return log


def _marked_line_numbers(folder: InnerPath, manifest: Manifest) -> set[int]:
    return marked_lines(_scan_checkpoints(folder, thorough=False), manifest)


def marked_lines(
    checkpoints: Iterable[run_checkpoints.StoredCheckpoint], manifest: Manifest
) -> set[int]:
    """Return the numbers of the lines whose checksums inventory and checkpoints know."""
    return {seq for checkpoint in checkpoints for seq in _expected_marks(checkpoint)}.union(
        manifest.marks
    )


def _expected_marks(checkpoint: run_checkpoints.StoredCheckpoint) -> Marks:
    """Return the checksum of the last line before a checkpoint, by its number."""
    known = checkpoint.is_intact and checkpoint.line and checkpoint.lines
    return {checkpoint.lines - 1: checkpoint.line} if known else {}


def is_foreign_info(folder: InnerPath) -> bool:
    """Return whether `run.json` belongs to another run.

    All files that state a run state another one, and the log or configuration beside it is not its
    own either.
    """
    try:
        info = run_info.read_run_info(folder)
        config, manifest = run_info.config_of(info), read_manifest(info) or NOTHING
    except (UserError, ValueError):
        return False
    stored = _scan_checkpoints(folder, thorough=False)
    if any(checkpoint.trouble != run_identity.OF_ANOTHER for checkpoint in stored):
        return False
    frames = _scan_frames(folder)
    if any(frame_files.check_frame(frame) != run_identity.OF_ANOTHER for frame in frames):
        return False
    if not stored and not frames:
        return False
    log = scanned_log(folder, manifest)
    other = any(_verify_config(folder, config)) or log.is_foreign
    return other or is_refuted(log.marks, manifest.marks)


def compare_manifest(folder: InnerPath, manifest: Manifest) -> tuple[list[Damage], Manifest]:
    """Return what of the manifest is missing or has changed, and the manifest without that.

    A mirror has no checkpoints and weights, so they are not missed there.
    """
    is_mirror = folder_layout.is_mirror(folder)
    checkpoints = _checkpoint_names(folder)
    serials = {frame.serial for frame in _scan_frames(folder)}
    damages = [
        Damage(f"{folder_layout.CHECKPOINTS}/{name}", "is missing")
        for name in manifest.checkpoints
        if name not in checkpoints and not is_mirror
    ]
    for first, last in find_ranges(sorted(manifest.frame_serials - serials)):
        lost = f"{folder_layout.FRAMES}/*-{first:06}-*.safetensors"
        missing = "is missing" if first == last else f"to *-{last:06}-* are missing"
        damages.append(Damage(lost, missing))
    changed = {
        name: ""
        if is_mirror and not (folder / name).exists()
        else check_file(folder / name, digest)
        for name, digest in manifest.files.items()
    }
    damages += [Damage(name, trouble) for name, trouble in changed.items() if trouble]
    left = Manifest.from_parts(
        manifest.lines,
        manifest.frame_serials & serials,
        manifest.checkpoints if is_mirror else checkpoints.intersection(manifest.checkpoints),
        {name: written for name, written in manifest.files.items() if not changed[name]},
        manifest.marks,
        manifest.digests,
    )
    return damages, left


def changed_lines(folder: InnerPath, manifest: Manifest, missing: Ranges) -> Ranges:
    """Return the numbers of log entries in stretches that differ from what was written.

    A stretch with missing entries is left out. Raises `OSError`.
    """
    known = manifest.digests
    if not known.stretch:
        return ()
    stretch, current = digest_log(folder / folder_layout.LOG).all_digests()
    if stretch != known.stretch:  # another length, which is reported separately
        return ()
    pairs = enumerate(zip(current, known.log, strict=False))
    changed = (
        (n * stretch, min(manifest.lines, (n + 1) * stretch) - 1)
        for n, (here, left) in pairs
        if here != left
    )
    return tuple(
        (first, last)
        for first, last in changed
        if not any(a <= last and first <= b for a, b in missing)
    )


def _digest_checkpoints(folder: InnerPath) -> dict[str, str]:
    """Return prefixes of the sha256 of each checkpoint's `manifest.json`, by name."""
    digests_by_name = {}
    for name in _checkpoint_names(folder):
        path = folder / folder_layout.CHECKPOINTS / name / folder_layout.MANIFEST
        with suppress(OSError, UserError):
            digests_by_name[name] = digest_file(path).sha256[:DIGEST]
    return digests_by_name


def find_ranges(numbers: Iterable[int]) -> Ranges:
    """Return the first and last of each stretch of ascending numbers without a gap."""
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        extend_ranges(ranges, number)
    return tuple(ranges)


def _verify_config(folder: InnerPath, recorded: RunConfig | None) -> Iterator[Damage]:
    try:
        config = RunConfig.from_toml(read_text(folder / folder_layout.CONFIG))
    except FileNotFoundError:
        yield Damage(folder_layout.CONFIG, "is missing")
    except (OSError, ValueError, UserError):
        yield Damage(folder_layout.CONFIG, "is damaged")
    else:
        if recorded not in (None, config):
            trouble = f"is not the configuration of {folder_layout.RUN}"
            yield Damage(folder_layout.CONFIG, trouble)


def _verify_log(folder: InnerPath, manifest: Manifest, log: LogScan) -> Iterator[Damage]:
    name, written = folder_layout.LOG, count_lines(folder, manifest)
    try:
        deque(log, maxlen=0)
    except FileNotFoundError:
        yield Damage(name, "is missing")
        return
    except OSError as error:
        yield Damage(name, f"cannot be read ({error.strerror})")
        return
    if log.is_foreign or is_foreign_log(folder, manifest, log.marks):
        yield Damage(name, "is the log of another run")
        return
    if trouble := log_trouble(log, manifest.marks):
        yield Damage(name, trouble)
    if log.foreign:
        yield Damage(name, f"has lines of another run: {_format_ranges(log.foreign)}")
    if damaged := _subtract_ranges(log.damaged, log.foreign):
        is_single = len(damaged) == 1 and len(set(damaged[0])) == 1
        yield Damage(
            name, f"is damaged in {'line' if is_single else 'lines'} {_format_ranges(damaged)}"
        )
    if log.missing:
        yield Damage(name, f"lacks the entries {_format_ranges(log.missing)}")
    changed: Ranges = ()
    with suppress(OSError):  # it is reported separately
        changed = changed_lines(folder, manifest, log.missing)
    if changed := tuple(pair for pair in changed if pair[1] < log.end):
        yield Damage(
            name, f"differs from what was written in the entries {_format_ranges(changed)}"
        )
    if log.end < written or (manifest != NOTHING and log.end > manifest.lines):
        lines = f"{log.end:,} line{'' if log.end == 1 else 's'}"
        was = "was" if written == 1 else "were"
        yield Damage(name, f"has {lines}, but {written:,} {was} written")
    if log.torn and not log.stray:
        yield Damage(name, "ends in an unfinished line", harmless=True)


def _subtract_ranges(
    ranges: Iterable[tuple[int, int]], others: Sequence[tuple[int, int]]
) -> Ranges:
    """Return the numbers of these stretches outside the others, which lie within them."""
    left: list[tuple[int, int]] = []
    for first, last in ranges:
        for start, end in others:
            if first <= start <= last:
                left += [(first, start - 1)] if start > first else []
                first = end + 1
        left += [(first, last)] if first <= last else []
    return tuple(left)


def _format_ranges(ranges: Sequence[tuple[int, int]]) -> str:
    """Return '3, 7–12', at most ten of them."""
    words = [f"{a}" if a == b else f"{a}–{b}" for a, b in ranges]
    return ", ".join(words[:10]) + (" …" if len(words) > 10 else "")


def _scan_checkpoints(
    folder: InnerPath, thorough: bool = True
) -> list[run_checkpoints.StoredCheckpoint]:
    """Return the checkpoints; none if their folder is a link, which is reported separately."""
    inner = folder / folder_layout.CHECKPOINTS
    return [] if inner.is_link() else run_checkpoints.scan_checkpoints(inner, thorough)


def _scan_frames(folder: InnerPath) -> list[frame_files.StoredFrame]:
    inner = folder / folder_layout.FRAMES
    return [] if inner.is_link() else frame_files.scan_frames(inner)


def _weight_files(folder: InnerPath) -> dict[str, InnerPath]:
    """Return the existing weights by their paths within the folder."""
    kept = folder / folder_layout.KEPT
    there = [] if kept.is_link() else [kept / name for name in kept.list_entries()]
    return {
        path.relative_name: path
        for path in (folder / folder_layout.WEIGHTS, *there)
        if _WEIGHTS.fullmatch(path.relative_name) and path.exists()
    }


def _checkpoint_names(folder: InnerPath) -> set[str]:
    """Return the names of the existing checkpoints, intact or not."""
    inner = folder / folder_layout.CHECKPOINTS
    names = [] if inner.is_link() else inner.list_entries()
    return {name for name in names if folder_layout.checkpoint_key(name) is not None}


def _file_stamp(path: InnerPath) -> tuple[int, ...]:
    """Return a stamp that changes whenever the file is rewritten; raises `OSError`."""
    status = path.status()
    return (status.st_ino, status.st_size, status.st_mtime_ns)
