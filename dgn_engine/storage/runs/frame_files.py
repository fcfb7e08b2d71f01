"""Frames on disk, one safetensors file each that never changes; and which go when they are many."""

from __future__ import annotations

import json
import math
import stat
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from dgn_engine.errors import UserError
from dgn_engine.protocol.frames import Array, Frame, Reading
from dgn_engine.storage.atomic_write import make_folder, write_file
from dgn_engine.storage.inner_path import FilePath, InnerPath, inner
from dgn_engine.storage.plain_data import from_plain, parse_json, to_plain
from dgn_engine.storage.regular_files import FILE, digest, digest_file, read_regular
from dgn_engine.storage.runs import folder_layout
from dgn_engine.storage.runs.retention import choose_thinned
from dgn_engine.storage.runs.run_ranges import STEPS, is_count

FORMAT = 1
NEWEST = 32  # of the frames are never dropped
ROOM = 0.9  # frames are dropped to this share of the cap, so that it is not done at every frame
UNPACKED = 1 << 30  # bytes of the gates of one frame
_SIDES = 32  # of an array
# Of a reading:
_STORED = ("step", "seconds", "interval", "scalars", "facts", "absent", "remark", "error")


@dataclass(frozen=True)
class StoredFrame:
    """A frame's file; `serial` counts the frames of a run."""

    path: InnerPath
    step: int
    serial: int
    digest: str  # beginning of the sha256, from the name
    bytes: int


def write(folder: FilePath, frame: Frame, serial: int) -> StoredFrame:
    """A new file. Raises `OSError`."""
    folder = inner(folder)
    make_folder(folder)
    content = encode(frame)
    sha256 = digest(content).sha256
    path = folder / folder_layout.frame_name(frame.step, serial, sha256)
    write_file(path, content)
    return StoredFrame(path, frame.step, serial, sha256[:16], len(content))


def scan(folder: FilePath) -> list[StoredFrame]:
    """Every frame by its serial number; nothing is opened. Raises `OSError`."""
    folder = inner(folder)
    found = [
        StoredFrame(folder / name, *key, status.st_size if stat.S_ISREG(status.st_mode) else 0)
        for name, status in folder.listing().items()
        if (key := folder_layout.frame_key(name)) is not None
    ]
    return sorted(found, key=lambda one: one.serial)


def check(frame: StoredFrame) -> str:
    """What is wrong with a file, as the end of a sentence; empty where nothing is."""
    try:
        sha256 = digest_file(frame.path).sha256
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    if sha256[:16] != frame.digest:
        return "does not hold what was written (its sha256 differs from its name)"
    return ""


def read(frame: StoredFrame) -> Frame:
    """The frame; raises `UserError` where the file is not sound."""
    try:
        content = read_regular(frame.path, FILE)
        return decode(content)
    except OSError as error:
        raise UserError(f"{frame.path} cannot be read: {error.strerror}.") from None
    except (
        *(SafetensorError, ValueError, KeyError, TypeError, AttributeError),
        *(OverflowError, RecursionError),
    ) as error:
        raise UserError(f"{frame.path} is damaged ({error}).") from None


def encode(frame: Frame) -> bytes:
    """Tensors 'probe/array'; zeros and ones are packed, eight in a byte; the rest is JSON."""
    tensors: dict[str, Array] = {}
    packed: dict[str, list[int]] = {}
    readings: dict[str, Any] = {}
    for probe, reading in frame.readings.items():
        if reading.pending:  # what comes is recorded when it is there
            continue
        for name, array in reading.arrays.items():
            key = f"{probe}/{name}"
            if array.dtype in (np.uint8, np.bool_) and array.size and array.max() <= 1:
                packed[key] = list(array.shape)
                tensors[key] = np.packbits(array.reshape(-1))
            else:
                tensors[key] = np.ascontiguousarray(array)
        readings[probe] = {name: to_plain(getattr(reading, name)) for name in _STORED}
        readings[probe]["scalars"] = {k: repr(float(v)) for k, v in reading.scalars.items()}
    head = {
        "format": FORMAT,
        "step": frame.step,
        "epoch": frame.epoch,
        "packed": packed,
        "readings": readings,
    }
    head_text = json.dumps(to_plain(head, "word"), allow_nan=False)
    return save(tensors, metadata={"frame": head_text})


def decode(content: bytes) -> Frame:
    """The inverse of `encode`, with read-only arrays."""
    head = parse_json(_metadata(content)["frame"].encode())
    arrays: dict[str, dict[str, Array]] = {probe: {} for probe in head["readings"]}
    unpacked = 0
    for key, stored_array in load(content).items():
        probe, _, name = key.partition("/")
        array = stored_array
        if key in head["packed"]:
            shape = tuple(head["packed"][key])
            if len(shape) > _SIDES or not all(map(is_count, shape)):
                raise ValueError(f"the shape of {key}")
            count = math.prod(shape)
            unpacked += count
            if count > 8 * array.size or unpacked > UNPACKED:
                raise ValueError(f"the shape of {key} is not that of its bits")
            array = np.unpackbits(array, count=count).reshape(shape)
        array.flags.writeable = False
        arrays[probe][name] = array
    step, epoch = head["step"], from_plain(float, head["epoch"])
    if not is_count(step) or epoch > STEPS:
        raise ValueError("a step")
    readings = {
        probe: replace(from_plain(Reading, {"probe": probe, **fields}), arrays=arrays[probe])
        for probe, fields in head["readings"].items()
    }
    if not all(is_count(reading.step) for reading in readings.values()):
        raise ValueError("a step")
    return Frame(
        run=0,
        step=step,
        epoch=epoch,
        steps_per_second=0.0,
        eta_seconds=None,
        readings=readings,
    )


def _metadata(content: bytes) -> Mapping[str, str]:
    size = int.from_bytes(content[:8], "little")
    if size > len(content):
        raise ValueError("its header is cut off")
    metadata: Mapping[str, str] = parse_json(content[8 : 8 + size])["__metadata__"]
    return metadata


def choose_dropped(
    frames: Sequence[StoredFrame], events: Sequence[int], cap: int
) -> list[StoredFrame]:
    """Frames to delete so that the rest fits under `cap` bytes; none where they fit already.

    The first frame, the newest and the neighbours of events stay; the others thin out as
    `choose_thinned` says. Where those that should stay are too many themselves, the same rule
    takes from them: the cap is kept.

    Args:
        frames: in the order of their steps.
        events: steps of swaps, rewirings and the like.
        cap: bytes of all frames.
    """
    sizes = [frame.bytes for frame in frames]
    if sum(sizes) <= cap:
        return []
    pinned = _pinned(frames, events)
    steps = [frame.step for frame in frames]
    return [frames[place] for place in choose_thinned(steps, sizes, pinned, int(ROOM * cap))]


def _pinned(frames: Sequence[StoredFrame], events: Sequence[int]) -> set[int]:
    """Places of the newest frames, and of those next to events."""
    steps = [frame.step for frame in frames]
    pinned = set(range(max(0, len(frames) - NEWEST), len(frames)))
    for event in events:
        before, after = bisect_right(steps, event) - 1, bisect_left(steps, event)
        pinned.update(place for place in (before, after, after + 1) if 0 <= place < len(frames))
    return pinned
