"""The binary protocol between the children of this folder and their parent, little-endian.

Imports neither numpy nor Pillow, because the children import it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import IO

from dgn_engine.storage.images import image_limits

# From the unpacking child: a head, then the name and the content, or the end of a sentence.
# Fields: record type, fraction of the archive read, lengths of name and content.
UNPACKED = struct.Struct("<cdIQ")
FILE, PROGRESS, REFUSED, END = b"F", b"P", b"R", b"E"

# To a decoding child: task, channels, height, width, number of images; then their lengths, eight
# bytes each, and their contents.
ASKED = struct.Struct("<cIIII")
MEASURE, DECODE = b"M", b"D"
# From it: number of successes; an answer for each; if not all, why the next one failed.
COUNT = struct.Struct("<I")
SIZE = struct.Struct("<IIB")  # width, height, whether it is grey
VERDICT = 600  # bytes of a reason, at most


def pack_request(task: bytes, shape: tuple[int, int, int], contents: Sequence[bytes]) -> bytes:
    """Pack a request for images (C, H, W); measuring needs no shape."""
    lengths = struct.pack(f"<{len(contents)}Q", *map(len, contents))
    return b"".join((ASKED.pack(task, *shape, len(contents)), lengths, *contents))


def read_exactly(pipe: IO[bytes], length: int) -> bytes:
    """Read exactly `length` bytes; raises `EOFError` if the pipe ends before."""
    content = pipe.read(length)
    if len(content) != length:
        raise EOFError("the answer is cut off")
    return content


def answer_size(task: bytes, shape: tuple[int, int, int]) -> int:
    """Return the bytes of the answer for one image."""
    return SIZE.size if task == MEASURE else shape[0] * shape[1] * shape[2]


def read_refusal(take: Callable[[int], bytes]) -> str:
    """Read the reason after an incomplete answer."""
    return take(min(COUNT.unpack(take(COUNT.size))[0], VERDICT)).decode("utf-8", "replace")


def as_refusal(reason: str) -> bytes:
    text = reason.encode("utf-8", "replace")[:VERDICT]
    return COUNT.pack(len(text)) + text


def is_image(name: str) -> bool:
    """Return whether a path has an image suffix and no hidden part."""
    path = f"/{name}"  # asked of each of up to millions of files
    hidden = "/." in path or "/__MACOSX/" in path
    return not hidden and name.lower().endswith(image_limits.SUFFIXES)
