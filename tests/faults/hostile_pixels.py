"""Images that are bombs, lie about themselves, or ask for a reader that is not meant."""

from __future__ import annotations

import io
import struct
import zlib
from functools import cache

import numpy as np
from PIL import Image


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png_of(
    width: int, height: int, *extra: bytes, rows: bytes | None = None, depth: int = 8, kind: int = 0
) -> bytes:
    """A PNG with these further chunks; `rows`: its compressed data."""
    head = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, 0)
    data = zlib.compress(bytes((width + 1) * height)) if rows is None else rows
    parts = (chunk(b"IHDR", head), *extra, chunk(b"IDAT", data), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@cache
def zeros(size: int) -> bytes:
    return zlib.compress(bytes(size), 9)


def saved(form: str, image: Image.Image, **options: object) -> bytes:
    content = io.BytesIO()
    image.save(content, form, **options)
    return content.getvalue()


def plain(width: int = 6, height: int = 4) -> Image.Image:
    return Image.new("RGB", (width, height), (7, 8, 9))


def jpeg_of(width: int, height: int, form: bytes = b"\xff\xc0") -> bytes:
    """A JPEG whose header says that it is as large as that."""
    content = saved("JPEG", plain())
    place = content.index(b"\xff\xc0")
    size = struct.pack(">HH", height, width)
    return content[:place] + form + content[place + 2 : place + 5] + size + content[place + 9 :]


def scans(count: int, side: int = 64) -> bytes:
    """A progressive JPEG whose last scan is there so many times more."""
    content = saved("JPEG", plain(side, side), progressive=True)
    last = content.rindex(b"\xff\xda")
    return content[:-2] + content[last:-2] * count + content[-2:]


def gif_of(width: int, height: int, frames: int = 1, frame: tuple[int, int] = (4, 4)) -> bytes:
    head = b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + b"\0\0\0\xff\xff\xff"
    one = b"," + struct.pack("<HHHHB", 0, 0, *frame, 0) + b"\2\2\x4c\1\0"
    return head + one * frames + b";"


def tiff_of(*entries: tuple[int, int, int, int], data: bytes = b"", chained: bool = False) -> bytes:
    """Little-endian: (tag, type, count, value) each; `chained`: the directory leads to itself."""
    body = struct.pack("<H", len(entries)) + b"".join(struct.pack("<HHII", *e) for e in entries)
    following = struct.pack("<I", 8 if chained else 0)
    return b"II*\0" + struct.pack("<I", 8) + body + following + data


def _tiff(width: int, height: int, *more: tuple[int, int, int, int], **how: bool) -> bytes:
    usual = (
        (256, 4, 1, width),
        (257, 4, 1, height),
        (258, 3, 1, 8),
        (259, 3, 1, 1),
        (262, 3, 1, 1),
    )
    return tiff_of(*usual, *more, data=bytes(64), chained=how.get("chained", False))


def _riff(width: int, height: int, frames: int) -> bytes:
    """An animated WebP of this canvas."""
    colours = [(place % 256, place // 256 * 40, 99) for place in range(frames)]
    first, *more = (Image.new("RGB", (8, 8), colour) for colour in colours)
    animated = {"save_all": True, "append_images": more, "lossless": True}
    content = bytearray(saved("WEBP", first, **animated))
    place = content.index(b"VP8X") + 12
    content[place : place + 6] = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(
        3, "little"
    )
    return bytes(content)


def images() -> dict[str, tuple[str, bytes, str]]:
    """Ending, bytes, and a pattern of the sentence; '' where it is taken beside sound ones."""
    pixels, broken = "more than 64 million pixels", "damaged or cannot be read"
    none = "its format is not supported"
    return {**_pngs(pixels, broken), **_others(pixels, broken, none), **_foreign(none)}


def _pngs(pixels: str, broken: str) -> dict[str, tuple[str, bytes, str]]:
    text, profile = b"t\0\0", b"p\0\0"
    many = [chunk(b"zTXt", text + zeros(1_000_000)) for _ in range(200)]
    return {
        "a PNG of 100,000 × 100,000": ("png", png_of(100_000, 100_000, rows=b""), pixels),
        "a PNG of 2^31 × 2^31": ("png", png_of(2**31 - 1, 2**31 - 1, rows=b""), pixels),
        "a PNG of no size": ("png", png_of(0, 0, rows=b""), f"{broken}|no size"),
        "a PNG with a profile of 100 MB": (
            "png",
            png_of(6, 4, chunk(b"iCCP", profile + zeros(100 << 20))),
            f"{broken}|^taken$",
        ),
        "a PNG with a text of 100 MB": (
            "png",
            png_of(6, 4, chunk(b"zTXt", text + zeros(100 << 20))),
            f"{broken}|^taken$",
        ),
        "a PNG with 200 texts of 1 MB": ("png", png_of(6, 4, *many), f"{broken}|^taken$"),
        "a PNG with an international text of 100 MB": (
            "png",
            png_of(6, 4, chunk(b"iTXt", b"t\0\1\0\0\0" + zeros(100 << 20))),
            f"{broken}|^taken$",
        ),
        "a PNG of 100 MB of data for 24 pixels": (
            "png",
            png_of(6, 4, rows=zeros(100 << 20)),
            f"{broken}|^taken$",
        ),
        "a PNG that was cut off": ("png", png_of(40, 40)[:50], broken),
        "a PNG with a chunk of 4 GB": (
            "png",
            b"\x89PNG\r\n\x1a\n" + b"\xff\xff\xff\xff" + b"IHDR" + bytes(40),
            broken,
        ),
        "a PNG of 8000 × 8000 in 60 kB": (
            "png",
            png_of(8000, 8000, kind=0, depth=1, rows=zeros(1001 * 8000)),
            "",
        ),
    }


def _others(pixels: str, broken: str, none: str) -> dict[str, tuple[str, bytes, str]]:
    """JPEG, GIF, WebP, TIFF, BMP, PPM."""
    return {
        "a JPEG of 65,500 × 65,500": ("jpg", jpeg_of(65_500, 65_500), pixels),
        "a JPEG of 8000 × 8000 without data": ("jpg", jpeg_of(8000, 8000), f"{broken}|^taken$"),
        "a JPEG of 3,000 scans": ("jpg", scans(3000), "more than 100 scans"),
        "a JPEG of an unknown form": ("jpg", jpeg_of(6, 4, b"\xff\xcb"), broken),
        "a GIF of 65,535 × 65,535": ("gif", gif_of(65_535, 65_535), pixels),
        "a GIF of 100,000 frames": ("gif", gif_of(6, 4, 100_000), ""),
        "a GIF whose frame is beyond it": ("gif", gif_of(6, 4, 1, (60_000, 60_000)), pixels),
        "a WebP of 16,000 × 16,000": ("webp", _riff(16_000, 16_000, 2), f"{pixels}|{broken}"),
        "a WebP of 1,000 frames": ("webp", _riff(8, 8, 1000), ""),
        "a WebP that is none": ("webp", b"RIFF\xff\xff\xff\xffWAVEfmt ", none),
        "a TIFF of 2^31 × 2^31": ("tif", _tiff(2**31, 2**31), f"{pixels}|{none}"),
        "a TIFF without sizes": ("tif", tiff_of((258, 3, 1, 8)), broken),
        "a TIFF with a tag of 4 GB": (
            "tif",
            _tiff(6, 4, (273, 4, 2**30, 8), (270, 2, 2**32 - 1, 8)),
            broken,
        ),
        "a TIFF that leads to itself": (
            "tif",
            _tiff(6, 4, (273, 4, 1, 74), (279, 4, 1, 24), chained=True),
            f"{broken}|^taken$",
        ),
        "a TIFF of a strip that is not there": (
            "tif",
            _tiff(6, 4, (273, 4, 1, 2**31), (279, 4, 1, 24)),
            broken,
        ),
        "a TIFF of 8000 × 8000 without data": (
            "tif",
            _tiff(8000, 8000, (273, 4, 1, 74), (279, 4, 1, 24)),
            broken,
        ),
        "a BMP of 2^31 × 2^31": (
            "bmp",
            b"BM"
            + bytes(12)
            + struct.pack("<IIIHHIIIIII", 40, 2**31 - 1, 2**31 - 1, 1, 24, *6 * [0]),
            f"{pixels}|{broken}",
        ),
        "a BMP with a header of 4 GB": ("bmp", b"BM" + bytes(12) + b"\xff" * 40, broken),
        "a PPM of 10^9 × 10^9": ("ppm", b"P6 1000000000 1000000000 255 " + bytes(9), pixels),
        "a PPM with a comment of 400 kB": ("ppm", b"P6 #" + b"x" * 400_000, broken),
        "a PPM of numbers without end": ("ppm", b"P3 6 4 255 " + b"1" * 1_000_000, broken),
        "a PPM of no level": ("ppm", b"P6 6 4 0 " + bytes(72), broken),
        "a TIFF of floating-point numbers": (
            "tif",
            saved("TIFF", Image.fromarray(np.zeros((4, 6), np.float32))),
            "floating-point",
        ),
    }


def _foreign(none: str) -> dict[str, tuple[str, bytes, str]]:
    """What other readers of Pillow would take."""
    return {
        "PostScript": ("png", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", none),
        "a PDF": ("jpg", b"%PDF-1.7\n", none),
        "an icon": ("png", saved("ICO", plain(16, 16)), none),
        "a Photoshop file": ("png", b"8BPS\0\1" + bytes(60), none),
        "JPEG 2000": ("jpg", b"\0\0\0\x0cjP  \r\n\x87\n" + bytes(60), none),
        "AVIF": ("png", b"\0\0\0 ftypavif" + bytes(60), none),
        "an SVG": ("png", b"<svg xmlns='http://www.w3.org/2000/svg'/>", none),
        "a TGA": ("png", saved("TGA", plain()), none),
        "an animated cursor": ("png", b"RIFF\0\0\0\0ACON" + bytes(60), none),
        "a text file": ("png", b"no image", none),
        "nothing": ("png", b"", none),
    }


def together(sound: dict[str, bytes]) -> dict[str, tuple[dict[str, bytes], str]]:
    """Files of an archive in which each image could be taken alone."""
    large = png_of(8000, 8000, rows=zeros(8001 * 8000))
    many = {f"b/z{i}.png": large for i in range(300)}
    small = {f"a/s{i}.png": content for i, content in enumerate(sound.values()) for _ in (0,)}
    crowd = {f"a/c{i}.png": next(iter(sound.values())) for i in range(400)}
    return {
        "300 images of 8000 × 8000": ({**sound, **many}, "need .* GiB of memory"),
        "300 images of 8000 × 8000 among small ones": (
            {**sound, **small, **crowd, **many},
            "million pixels in total",
        ),
    }
