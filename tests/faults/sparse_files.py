"""Checkpoints of gigabytes that take no room on the disk: their numbers are holes, thus zeros."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path

from tests.faults.pickle_assembly import make_pickle, storage, tensor

SIDE = 512  # of a small matrix beside the large one
_PIECE = bytes(1 << 20)


def safetensors(path: Path, large: int, dtype: str = "F32") -> None:
    """'net.w' is small, 'ema.w' has `large` bytes."""
    small, width = 4 * SIDE * SIDE, {"F32": 4, "F16": 2}[dtype]
    head = json.dumps(
        {
            "net.w": {"dtype": "F32", "shape": [SIDE, SIDE], "data_offsets": [0, small]},
            "ema.w": {
                "dtype": dtype,
                "shape": [large // width],
                "data_offsets": [small, small + large],
            },
        }
    ).encode()
    with path.open("wb") as file:
        file.write(len(head).to_bytes(8, "little") + head)
        file.truncate(8 + len(head) + small + large)


def torch_zip(path: Path, large: int, *, sound: bool = True) -> None:
    """As `safetensors`; `sound`: the checksum of the large numbers is right."""
    small = 4 * SIDE * SIDE
    tree = {
        name: tensor((count,), (1,), 0, storage(key, count))
        for name, key, count in (("net.w", "0", SIDE * SIDE), ("ema.w", "1", large // 4))
    }
    listing = make_pickle(tree)
    members = [
        ("a/data.pkl", listing, len(listing), zlib.crc32(listing)),
        ("a/byteorder", b"little", 6, zlib.crc32(b"little")),
        ("a/data/0", b"", small, _zeros(small)),
        ("a/data/1", b"", large, _zeros(large) if sound else 1),
        ("a/version", b"3\n", 2, zlib.crc32(b"3\n")),
    ]
    directory = b""
    with path.open("wb") as file:
        for name, content, size, crc in members:
            at, coded = file.tell(), name.encode()
            facts = struct.pack("<HHHHHIIIHH", 20, 0, 0, 0, 33, crc, size, size, len(coded), 0)
            file.write(b"PK\3\4" + facts + coded + content)
            if not content:
                file.seek(size, 1)
            place = struct.pack("<HHHII", 0, 0, 0, 0, at)
            directory += b"PK\1\2\x14\0" + facts + place + coded
        begin = file.tell()
        file.write(directory)
        counts = struct.pack("<HHHHIIH", 0, 0, 5, 5, len(directory), begin, 0)
        file.write(b"PK\5\6" + counts)


def _zeros(count: int) -> int:
    found = 0
    for _ in range(count >> 20):
        found = zlib.crc32(_PIECE, found)
    return zlib.crc32(_PIECE[: count & 0xFFFFF], found)
