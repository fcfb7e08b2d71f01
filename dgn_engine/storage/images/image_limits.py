"""Limits for folders and archives of images, and for the processes that read them.

Imports neither numpy nor Pillow, because the children import it.
"""

from __future__ import annotations

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
ARCHIVE = 1 << 40  # bytes of an archive, as stored
FILES = 2_000_000  # members, image or not
FILE = 64 << 20  # bytes of one image, as stored
NAME = 4096  # characters of a member's name
HEADER = 64 << 10  # bytes of a long name or of attributes before a tar member
DEPTH = 64  # nested folders
PIXELS = 1 << 26  # of one image
PIXELS_TOGETHER = 1 << 30  # of all decoded images, before scaling
SCANS = 100  # of one JPEG; progressive ones have about ten, and each costs as much as the image
DECODER_MEMORY = 1536 << 20  # bytes, mostly for the largest image: see `DECODING`
DECODER_SECONDS = 3600  # of processor time, for all images of a folder
DECODING = 20  # bytes that decoding takes per pixel, at most
PATIENCE = 60.0  # seconds without an answer, after which a child is killed

_MOST = 64 << 30
_USUAL = 512 << 20
_UNPACKING = 20 << 20  # bytes per second on a slow machine


def unpacked_limit(size: int) -> int:
    """Return the bytes to which an archive may unpack; images hardly shrink in archives."""
    return min(_MOST, _USUAL + 100 * size)


def unpacking_memory(size: int) -> int:
    """Return the bytes of memory for reading an archive of `size` bytes.

    It needs room for one image in several copies, and for a zip's list of members.
    """
    return (256 << 20) + min(4 * size, 2 << 30)


def unpacking_seconds(size: int) -> int:
    """Return the seconds of processor time for reading an archive of `size` bytes once."""
    return 30 + unpacked_limit(size) // _UNPACKING
