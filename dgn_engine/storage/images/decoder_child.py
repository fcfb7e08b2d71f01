"""A process that measures and decodes images: `python -m … SECONDS MEMORY`.

Standard input: requests; standard output: answers (`image_records`). Only the Pillow readers in
`FORMATS` are imported. It does not import numpy, so it starts quickly.
"""

from __future__ import annotations

import copy  # noqa: F401 - GIFs want it, and later nothing may be imported
import io
import struct
import sys
import warnings

from PIL import Image, ImageFile
from PIL.BmpImagePlugin import BmpImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.PpmImagePlugin import PpmImageFile
from PIL.TiffImagePlugin import PREFIXES as TIFF
from PIL.TiffImagePlugin import TiffImageFile
from PIL.WebPImagePlugin import WebPImageFile

from dgn_engine.confinement.child_entry import begin_child
from dgn_engine.confinement.process import confine_process
from dgn_engine.storage.images import image_limits as limits
from dgn_engine.storage.images import image_records as records

# Identified by their first bytes. Image.open() would load all of Pillow's readers on failure.
FORMATS: tuple[tuple[tuple[bytes, ...], type[ImageFile.ImageFile]], ...] = (
    ((b"\xff\xd8\xff",), JpegImageFile),
    ((b"\x89PNG\r\n\x1a\n",), PngImageFile),
    ((b"BM",), BmpImageFile),
    ((b"GIF87a", b"GIF89a"), GifImageFile),
    ((b"RIFF",), WebPImageFile),
    (tuple(TIFF), TiffImageFile),
    (tuple(b"P%c" % kind for kind in b"0123456fy"), PpmImageFile),
)
_GREY = ("1", "L", "LA", "La", "I", "F")
_NONE_OF_THEM = "its format is not supported"
_TOO_LARGE = (
    f"unpacks to more than {limits.PIXELS >> 20} million pixels and was refused; scale it down "
    "first"
)
_SCAN = b"\xff\xda"  # starts a JPEG scan, and occurs nowhere else in its data


class UnreadableImage(Exception):  # noqa: N818 - a verdict about a file, not a fault of ours
    """An image is refused; the message is a clause that follows its name."""


def main(seconds: int, memory: int) -> None:
    """Confine this process, then answer requests until standard input ends."""
    Image.MAX_IMAGE_PIXELS = limits.PIXELS
    warnings.simplefilter("ignore")
    pipe = begin_child(confined=True, buffering=0)
    confine_process(seconds, memory)
    while head := sys.stdin.buffer.read(records.ASKED.size):
        task, channels, height, width, count = records.ASKED.unpack(head)
        lengths = struct.unpack(f"<{count}Q", records.read_exactly(sys.stdin.buffer, 8 * count))
        contents = [records.read_exactly(sys.stdin.buffer, length) for length in lengths]
        reply = answer_images(task, (channels, height, width), contents)
        while reply:
            reply = reply[pipe.write(reply) :]


def answer_images(task: bytes, shape: tuple[int, int, int], contents: list[bytes]) -> memoryview:
    """Return the answers for the images up to the first that is refused, and the reason."""
    answers: list[bytes] = []
    reason = b""
    while contents:
        content = contents.pop(0)
        try:
            answers.append(
                measure_image(content) if task == records.MEASURE else decode_image(content, shape)
            )
        except Exception as error:  # decoders fail in every type of exception
            reason = records.as_refusal(_verdict_on(error))
            break
    return memoryview(b"".join((records.COUNT.pack(len(answers)), *answers, reason)))


def _verdict_on(error: Exception) -> str:
    if isinstance(error, UnreadableImage):
        return str(error)
    if isinstance(error, (Image.DecompressionBombWarning, Image.DecompressionBombError)):
        return _TOO_LARGE
    reason = str(error) or type(error).__name__
    if isinstance(error, MemoryError):
        reason = "decoding it takes too much memory"
    return f"is damaged or cannot be read ({reason})"


def open_image(content: bytes) -> Image.Image:
    """Open an image, reading its header only; raises `UnreadableImage` and others."""
    for marks, kind in FORMATS:
        if content.startswith(marks):
            try:
                image = kind(io.BytesIO(content))
            except (SyntaxError, IndexError, TypeError, struct.error):  # as in Image.open()
                continue
            if image.width * image.height > limits.PIXELS:
                raise UnreadableImage(_TOO_LARGE)
            return image
    raise UnreadableImage(f"is damaged or cannot be read ({_NONE_OF_THEM})")


def measure_image(content: bytes) -> bytes:
    """Return size and colour from the header; bombs are refused here, undecoded."""
    with open_image(content) as image:
        grey = image.mode in _GREY or image.mode.startswith("I;")
        return records.SIZE.pack(image.width, image.height, grey)


def decode_image(content: bytes, shape: tuple[int, int, int]) -> bytes:
    """Decode to levels (H, W, C), resized if necessary; grey images are repeated."""
    channels, height, width = shape
    with open_image(content) as image:
        if isinstance(image, JpegImageFile) and content.count(_SCAN) > limits.SCANS:
            raise UnreadableImage(f"has more than {limits.SCANS} scans and was refused")
        image.load()
        if image.width * image.height > limits.PIXELS:
            raise UnreadableImage(_TOO_LARGE)
        plain = _eight_bits(image).convert("L" if channels == 1 else "RGB")
    if plain.size != (width, height):
        plain = plain.resize((width, height), Image.Resampling.BILINEAR)
    return plain.tobytes()


def _eight_bits(image: Image.Image) -> Image.Image:
    """Reduce 16-bit images to their upper byte; convert() would clip them."""
    if image.mode == "LAB":  # would need another library to convert
        raise ValueError("its colours are CIELAB")
    if image.mode == "F":
        raise ValueError("its pixels are floating-point numbers")
    if image.mode != "I" and not image.mode.startswith("I;"):
        return image
    if image.mode == "I":  # four bytes wide, in the byte order of this machine
        low, high = image.getextrema()
        if not 0 <= low <= high < 1 << 16:  # type: ignore[operator] # one band: two numbers
            raise ValueError("its pixels have more than 16 bits")
        upper = image.tobytes()[1::4] if sys.byteorder == "little" else image.tobytes()[2::4]
    else:
        big = image.mode == "I;16B" or (image.mode == "I;16N" and sys.byteorder == "big")
        upper = image.tobytes()[0 if big else 1 :: 2]
    return Image.frombytes("L", image.size, upper)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
