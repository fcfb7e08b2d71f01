"""The file format of a frame: arrays as safetensors, everything else as JSON in its header.

Format 2 stores large arrays in fewer bytes (`packed_arrays`); format 1 can still be read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from dgn_engine.protocol.frames import Array, Frame, Reading
from dgn_engine.storage.inner_path import InnerPath
from dgn_engine.storage.plain_data import from_plain, parse_json, to_plain
from dgn_engine.storage.regular_files import FILE, open_regular
from dgn_engine.storage.runs import packed_arrays
from dgn_engine.storage.runs.run_ranges import STEPS, is_count

FORMAT = 2
HEADER = 64 << 20  # bytes of a frame's header
UNPACKED = 1 << 30  # bytes of the gates of one frame
UNSOUND = (
    *(SafetensorError, ValueError, KeyError, TypeError, AttributeError),
    *(OverflowError, RecursionError),
)  # what `decode_frame` raises for a damaged file
# Of a reading:
_STORED = ("step", "seconds", "interval", "scalars", "facts", "absent", "remark", "error")


class FrameOrigin(NamedTuple):
    """The origin that a frame states; `serial` is None and `run` '' if not stated."""

    step: int
    serial: int | None = None
    run: str = ""


def encode_frame(frame: Frame, run: str = "", serial: int | None = None) -> bytes:
    """Encode a frame: tensors 'probe/array', everything else as JSON.

    Zeros and ones are packed into bits, other large arrays as in `packed_arrays`. `run`: id of its
    run; `serial`: its number there.
    """
    tensors: dict[str, Array] = {}
    packed: dict[str, list[int]] = {}
    shrunk: dict[str, dict[str, Any]] = {}
    readings: dict[str, Any] = {}
    for probe, reading in frame.readings.items():
        if reading.pending:  # it is recorded once it is complete
            continue
        for name, array in reading.arrays.items():
            key = f"{probe}/{name}"
            if packed_arrays.is_bits(array):
                packed[key] = list(array.shape)
                tensors[key] = np.packbits(array.reshape(-1))
            elif (smaller := packed_arrays.shrink_array(array)) is not None:
                tensors[key], shrunk[key] = smaller
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
    stated = {"shrunk": shrunk, "run": run, "serial": serial, "examples": frame.probe_digest}
    head |= {name: value for name, value in stated.items() if value not in (None, "", {})}
    if frame.regime:
        head |= {"regime": frame.regime, "wiring": frame.wiring}
    head_text = json.dumps(to_plain(head, "word"), allow_nan=False)
    return save(tensors, metadata={"frame": head_text})


def decode_frame(content: bytes) -> Frame:
    """Decode a frame, with read-only arrays; raises one of `UNSOUND`."""
    return decode_with(content, read_head(content))


def read_head(content: bytes) -> dict[str, Any]:
    """Return what is in a frame's file besides the arrays; raises one of `UNSOUND`."""
    head: dict[str, Any] = parse_json(_read_metadata(content)["frame"].encode())
    return head


def decode_with(content: bytes, head: Mapping[str, Any]) -> Frame:
    """Decode a frame whose head was already read."""
    arrays: dict[str, dict[str, Array]] = {probe: {} for probe in head["readings"]}
    if int(head.get("format", 1)) > FORMAT:
        raise ValueError("a newer version of this program wrote it")
    shrunk, unpacked = head.get("shrunk", {}), 0
    for key, stored_array in load(content).items():
        probe, _, name = key.partition("/")
        array = stored_array
        if key in head["packed"]:
            shape = tuple(head["packed"][key])
            count = packed_arrays.count_of(shape)
            unpacked += count
            if count > 8 * array.size or unpacked > UNPACKED:
                raise ValueError(f"the shape of {key} does not match its bits")
            array = np.unpackbits(array, count=count).reshape(shape)
        elif key in shrunk:
            unpacked += packed_arrays.count_of(tuple(shrunk[key]["shape"])) * 8
            if unpacked > UNPACKED:
                raise ValueError(f"{key} is too large")
            array = packed_arrays.restore_array(array, shrunk[key])
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
    regime, wiring = head.get("regime", ""), tuple(head.get("wiring", ()))
    digest = head.get("examples", "")
    if not isinstance(digest, str):
        raise ValueError("the digest of the examples")
    if not isinstance(regime, str) or sorted(wiring) != list(range(len(wiring))):
        raise ValueError("a regime, or an order of gate layers")
    for probe, reading in readings.items():
        kinds = [about["as"] for key, about in shrunk.items() if key.startswith(f"{probe}/")]
        if words := packed_arrays.words_of(kinds):
            remark = " · ".join(filter(None, (reading.remark, words)))
            readings[probe] = replace(reading, remark=remark)
    return Frame(
        run=0,
        step=step,
        epoch=epoch,
        steps_per_second=0.0,
        eta_seconds=None,
        readings=readings,
        regime=regime,
        wiring=wiring,
        probe_digest=digest,
    )


def read_origin(path: InnerPath) -> FrameOrigin:
    """Return what a frame states about itself, from its header; raises `OSError` or `UNSOUND`."""
    with open_regular(path, FILE) as file:
        size = int.from_bytes(file.read(8), "little")
        if size > HEADER:
            raise ValueError("its header is too large")
        return origin_in(read_head(size.to_bytes(8, "little") + file.read(size)))


def origin_in(head: Mapping[str, Any]) -> FrameOrigin:
    """Return what a head states about its frame; raises one of `UNSOUND`."""
    step, serial, run = head["step"], head.get("serial"), head.get("run", "")
    if not is_count(step) or not isinstance(run, str):
        raise ValueError("invalid step or run")
    if serial is not None and not is_count(serial):
        raise ValueError("invalid frame number")
    return FrameOrigin(step, serial, run)


def _read_metadata(content: bytes) -> Mapping[str, str]:
    size = int.from_bytes(content[:8], "little")
    if size > len(content):
        raise ValueError("its header is cut off")
    metadata: Mapping[str, str] = parse_json(content[8 : 8 + size])["__metadata__"]
    return metadata
