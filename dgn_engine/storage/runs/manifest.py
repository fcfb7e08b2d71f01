"""The manifest of a run's folder: what its writer left there; `verify` compares the folder with it.

It stands in `run.json`, written last and taken out before anything changes again. A folder whose
writer was killed, or that an older version wrote, has none; there nobody can tell what is gone.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.storage import lock
from dgn_engine.storage.atomic_write import find_leftovers
from dgn_engine.storage.inner_path import InnerPath, inside
from dgn_engine.storage.plain_data import from_plain, to_plain
from dgn_engine.storage.regular_files import Digest, NotRegular, check_file, digest_file, read_text
from dgn_engine.storage.runs import folder_layout, frame_files, run_checkpoints, run_info
from dgn_engine.storage.runs.log import LogScan, Ranges

KEY = "inventory"  # in run.json
_MOST = 1_000_000  # frames: the manifest may be untrusted
_COUNT = 1 << 53
_WEIGHTS = re.compile(
    rf"{folder_layout.WEIGHTS}|{folder_layout.KEPT}/[A-Za-z0-9_-][A-Za-z0-9_.-]*\.safetensors"
)


@dataclass(frozen=True)
class Manifest:
    """As it stands in `run.json`; raises `ValueError` where that cannot be.

    `lines` of the log; `frames`: first and last serial number of each stretch; `checkpoints`: the
    names of their folders; `files` of weights.
    """

    lines: int
    frames: Ranges
    checkpoints: tuple[str, ...]
    files: Mapping[str, Digest]

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
    def of(
        lines: int, frames: Iterable[int], checkpoints: Iterable[str], files: Mapping[str, Digest]
    ) -> Manifest:
        """One of these parts; `frames` by their serial numbers."""
        ranges = find_ranges(sorted(frames))
        return Manifest(lines, ranges, tuple(sorted(checkpoints)), dict(sorted(files.items())))

    @property
    def serials(self) -> frozenset[int]:
        return frozenset(n for first, last in self.frames for n in range(first, last + 1))


NOTHING = Manifest(0, (), (), {})


def read_manifest(info: Mapping[str, Any]) -> Manifest | None:
    """That of a `run.json`; None where there is none. Raises `ValueError` where it is nonsense."""
    if info.get(KEY) is None:
        return None
    try:
        manifest: Manifest = from_plain(Manifest, info[KEY])
    except TypeError as error:
        raise ValueError(str(error)) from None
    return manifest


def put_manifest(info: Mapping[str, Any], manifest: Manifest | None) -> dict[str, Any]:
    """A `run.json` with this manifest, or with none."""
    bare = {key: value for key, value in info.items() if key != KEY}
    return bare if manifest is None else {**bare, KEY: to_plain(manifest)}


class ManifestWriter:
    """Knows what a writer found when it opened a folder: what was gone then is still named as
    missing after the run went on.
    """

    def __init__(self, folder: InnerPath, known: Manifest | None, frames: Iterable[int]) -> None:
        """`frames`: the serial numbers that are there. Raises `OSError`."""
        known = known or NOTHING
        self._folder = folder
        self._files = dict(known.files)
        self._stamps = {name: _stamp(path) for name, path in _weights(folder).items()}
        self._lost_checkpoints = {
            name
            for name in known.checkpoints
            if not (folder / folder_layout.CHECKPOINTS / name).exists()
        }
        self._lost_frames = known.serials.difference(frames)

    def forget_frames(self, serial: int) -> None:
        """Frames from this number on are superseded."""
        self._lost_frames = frozenset(one for one in self._lost_frames if one < serial)

    def describe(self, lines: int, frames: Iterable[int]) -> Manifest:
        """What should be there from now on; raises `OSError`.

        Weights are hashed where they are new or were written anew.
        """
        for name, path in _weights(self._folder).items():
            if name not in self._files or self._stamps.get(name) != _stamp(path):
                with suppress(NotRegular):
                    self._files[name] = digest_file(path)
        checkpoints = _checkpoint_names(self._folder) | self._lost_checkpoints
        return Manifest.of(lines, self._lost_frames.union(frames), checkpoints, self._files)


@dataclass(frozen=True)
class Damage:
    """`path`: in the run's folder. `harmless`: interruptions leave such things, nothing is lost."""

    path: str
    trouble: str
    harmless: bool = False

    def __str__(self) -> str:
        return f"{self.path} {self.trouble}"


def verify(folder: Path) -> list[Damage]:
    """Everything that is not as it was written; raises `UserError` where there is no run."""
    try:
        root = inside(folder)
        there = root.listing()
        names = (folder_layout.RUN, folder_layout.LOG, folder_layout.CHECKPOINTS)
        if not any(name in there for name in names):
            raise UserError(f"{folder} holds no run.")
        links = list(_find_links(root))
        named = {one.path for one in links}
        return [*links, *(one for one in _verify(root) if one.path not in named)]
    except OSError as error:
        raise UserError(f"{folder} cannot be read: {error.strerror or error}.") from None


def _find_links(folder: InnerPath) -> Iterator[Damage]:
    for path in folder_layout.links(folder):
        yield Damage(path.within, "is a link, which is not followed")


def _verify(folder: InnerPath) -> list[Damage]:
    found: list[Damage] = []
    info: dict[str, Any] = {}
    config, manifest = None, NOTHING
    try:
        info = run_info.read(folder)
        config = run_info.config_of(info)
    except UserError as refusal:
        missing = not (folder / folder_layout.RUN).exists()
        other = isinstance(refusal, run_info.LaterVersionError)
        trouble = "is missing" if missing else str(refusal) if other else "is damaged"
        found.append(Damage(folder_layout.RUN, trouble))
    try:
        manifest = read_manifest(info) or NOTHING
    except ValueError:
        found.append(Damage(folder_layout.RUN, "holds an inventory that makes no sense"))
    return [
        *found,
        *_verify_config(folder, config),
        *_verify_log(folder, count_lines(folder, manifest)),
        *(damage for _, damage in find_unsound(folder)),
        *compare(folder, manifest)[0],
        *(
            Damage(path.within, "was not finished", harmless=True)
            for inner in folder_layout.written_folders(folder)
            if not inner.is_link()
            for path in find_leftovers(inner)
        ),
    ]


def why_uncertain(folder: Path) -> str:
    """Why files could be missing unseen, as the end of a sentence; '' where none could."""
    with suppress(UserError, ValueError):
        if (read_manifest(run_info.read(folder)) or NOTHING) != NOTHING:
            return ""
    if lock.holder(folder / folder_layout.LOCK) is not None:
        return "it is being written"
    return "its writer was killed, or an older version, and left no list of what is there"


def count_lines(folder: InnerPath, manifest: Manifest) -> int:
    """How many lines of the log were written at least, by manifest and checkpoints."""
    held = _checkpoints(folder, thorough=False)
    return max((manifest.lines, *(one.lines for one in held)))


def find_unsound(folder: InnerPath) -> Iterator[tuple[InnerPath, Damage]]:
    """Checkpoints and frames that do not hold what was written, and what is wrong with each."""
    for one in _checkpoints(folder):
        if not one.sound:
            culprit = one.path / one.culprit if one.culprit else one.path
            yield one.path, Damage(culprit.within, one.trouble)
    for frame in _frames(folder):
        if trouble := frame_files.check(frame):
            yield frame.path, Damage(frame.path.within, trouble)


def compare(folder: InnerPath, manifest: Manifest) -> tuple[list[Damage], Manifest]:
    """What of the manifest is gone or was changed, and the manifest without that."""
    checkpoints = _checkpoint_names(folder)
    serials = {frame.serial for frame in _frames(folder)}
    found = [
        Damage(f"{folder_layout.CHECKPOINTS}/{name}", "is missing")
        for name in manifest.checkpoints
        if name not in checkpoints
    ]
    for first, last in find_ranges(sorted(manifest.serials - serials)):
        lost = f"{folder_layout.FRAMES}/*-{first:06}-*.safetensors"
        missing = "is missing" if first == last else f"to *-{last:06}-* are missing"
        found.append(Damage(lost, missing))
    changed = {name: check_file(folder / name, one) for name, one in manifest.files.items()}
    found += [Damage(name, trouble) for name, trouble in changed.items() if trouble]
    left = Manifest.of(
        manifest.lines,
        manifest.serials & serials,
        checkpoints.intersection(manifest.checkpoints),
        {name: written for name, written in manifest.files.items() if not changed[name]},
    )
    return found, left


def find_ranges(numbers: Iterable[int]) -> Ranges:
    """First and last of each stretch of ascending numbers without a gap."""
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
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


def _verify_log(folder: InnerPath, written: int) -> Iterator[Damage]:
    """`written`: how many lines there were at least."""
    name = folder_layout.LOG
    log = LogScan(folder / name)
    try:
        deque(log, maxlen=0)
    except FileNotFoundError:
        yield Damage(name, "is missing")
        return
    except OSError as error:
        yield Damage(name, f"cannot be read ({error.strerror})")
        return
    if log.damaged:
        one = len(log.damaged) == 1 and len(set(log.damaged[0])) == 1
        yield Damage(name, f"is damaged in {'line' if one else 'lines'} {_ranges(log.damaged)}")
    if log.missing:
        yield Damage(name, f"lacks the entries {_ranges(log.missing)}")
    if log.end < written:
        yield Damage(name, f"has {log.end:,} lines, {written:,} were written")
    if log.torn:
        yield Damage(name, "ends in a line that was not finished", harmless=True)


def _ranges(ranges: Sequence[tuple[int, int]]) -> str:
    """'3, 7–12', cut after ten."""
    words = [f"{a}" if a == b else f"{a}–{b}" for a, b in ranges]
    return ", ".join(words[:10]) + (" …" if len(words) > 10 else "")


def _checkpoints(
    folder: InnerPath, thorough: bool = True
) -> list[run_checkpoints.StoredCheckpoint]:
    """None where their folder is a link, which is named by itself."""
    inner = folder / folder_layout.CHECKPOINTS
    return [] if inner.is_link() else run_checkpoints.scan(inner, thorough)


def _frames(folder: InnerPath) -> list[frame_files.StoredFrame]:
    inner = folder / folder_layout.FRAMES
    return [] if inner.is_link() else frame_files.scan(inner)


def _weights(folder: InnerPath) -> dict[str, InnerPath]:
    """The files of weights that are there, by their paths within the folder."""
    kept = folder / folder_layout.KEPT
    there = [] if kept.is_link() else kept.entries()
    return {
        path.within: path
        for path in (folder / folder_layout.WEIGHTS, *there)
        if _WEIGHTS.fullmatch(path.within) and path.exists()
    }


def _checkpoint_names(folder: InnerPath) -> set[str]:
    """Of the checkpoints that are there, sound or not."""
    inner = folder / folder_layout.CHECKPOINTS
    names = [] if inner.is_link() else inner.listing()
    return {name for name in names if folder_layout.checkpoint_key(name) is not None}


def _stamp(path: InnerPath) -> tuple[int, ...]:
    """Another one whenever the file was written anew; raises `OSError`."""
    status = path.status()
    return (status.st_ino, status.st_size, status.st_mtime_ns)
