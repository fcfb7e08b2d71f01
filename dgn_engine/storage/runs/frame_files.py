"""Frames on disk: what the probes saw at one step, in one safetensors file that never changes."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from dgn_engine.errors import UserError
from dgn_engine.protocol.frames import Array, Frame, Reading
from dgn_engine.storage.atomic_write import write_file
from dgn_engine.storage.plain_data import from_plain, to_plain
from dgn_engine.storage.regular_files import FILE, read_regular, sha256_of
from dgn_engine.storage.runs import folder_layout

FORMAT = 1
UNPACKED = 1 << 30  # bytes of the gates of one frame
_STORED = ("step", "seconds", "interval", "scalars", "facts", "absent", "remark")  # of a reading


@dataclass(frozen=True)
class StoredFrame:
    """A frame's file; `serial` counts the frames of a run."""

    path: Path
    step: int
    serial: int
    digest: str  # beginning of the sha256, from the name
    bytes: int


def write(folder: Path, frame: Frame, serial: int) -> StoredFrame:
    """A new file. Raises `OSError`."""
    folder.mkdir(exist_ok=True)
    content = encode(frame)
    digest = hashlib.sha256(content).hexdigest()
    path = folder / folder_layout.frame_name(frame.step, serial, digest)
    write_file(path, content)
    return StoredFrame(path, frame.step, serial, digest[:16], len(content))


def stored(folder: Path) -> list[StoredFrame]:
    """Every frame by its serial number; nothing is opened."""
    found: list[StoredFrame] = []
    if not folder.is_dir():
        return found
    for path in folder.iterdir():
        key = folder_layout.frame_key(path.name)
        if key is None:
            continue
        try:
            size = path.stat().st_size
        except OSError:  # thinned a moment ago, or a link to nothing
            if not path.is_symlink():
                continue
            size = 0
        found.append(StoredFrame(path, *key, size))
    return sorted(found, key=lambda one: one.serial)


def trouble(frame: StoredFrame) -> str:
    """What is wrong with a file; empty where nothing is."""
    try:
        digest = sha256_of(frame.path)[1]
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    if digest[:16] != frame.digest:
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
    about: dict[str, Any] = {}
    for probe, reading in frame.readings.items():
        for name, array in reading.arrays.items():
            key = f"{probe}/{name}"
            if array.dtype in (np.uint8, np.bool_) and array.size and array.max() <= 1:
                packed[key] = list(array.shape)
                tensors[key] = np.packbits(array.reshape(-1))
            else:
                tensors[key] = np.ascontiguousarray(array)
        about[probe] = {name: to_plain(getattr(reading, name)) for name in _STORED}
        about[probe]["scalars"] = {k: repr(float(v)) for k, v in reading.scalars.items()}
    head = {
        "format": FORMAT,
        "step": frame.step,
        "epoch": frame.epoch,
        "packed": packed,
        "readings": about,
    }
    return save(tensors, metadata={"frame": json.dumps(head)})


def decode(content: bytes) -> Frame:
    """The inverse of `encode`, with read-only arrays."""
    head = json.loads(_metadata(content)["frame"])
    arrays: dict[str, dict[str, Array]] = {probe: {} for probe in head["readings"]}
    unpacked = 0
    for key, stored_array in load(content).items():
        probe, _, name = key.partition("/")
        array = stored_array
        if key in head["packed"]:
            shape = tuple(int(side) for side in head["packed"][key])
            count = math.prod(shape)
            unpacked += count
            if min(shape, default=0) < 0 or count > 8 * array.size or unpacked > UNPACKED:
                raise ValueError(f"the shape of {key} is not that of its bits")
            array = np.unpackbits(array, count=count).reshape(shape)
        array.flags.writeable = False
        arrays[probe][name] = array
    readings = {
        probe: replace(from_plain(Reading, {"probe": probe, **told}), arrays=arrays[probe])
        for probe, told in head["readings"].items()
    }
    return Frame(
        run=0,
        step=int(head["step"]),
        epoch=float(head["epoch"]),
        steps_per_second=0.0,
        eta_seconds=None,
        readings=readings,
    )


def _metadata(content: bytes) -> Mapping[str, str]:
    size = int.from_bytes(content[:8], "little")
    if size > len(content):
        raise ValueError("its header is cut off")
    metadata: Mapping[str, str] = json.loads(content[8 : 8 + size])["__metadata__"]
    return metadata
