"""From image files to arrays of one size: measured first, decoded after, nothing larger between."""

from __future__ import annotations

import io
import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from dgn_engine.data._image_files import ImageFile
from dgn_engine.errors import UserError

FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
PIXELS = 1 << 26  # of one image
VALUES = 1 << 30  # of all images together; four bytes each once they are floats
_GREY = ("1", "L", "LA", "La", "I", "F")

Levels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class ImageSize:
    width: int
    height: int
    grey: bool


def measured(file: ImageFile, source: str) -> ImageSize:
    """Size and colour from the header alone; a bomb is refused here, undecoded."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(file.content), formats=FORMATS) as image:
                width, height = image.size
                grey = image.mode in _GREY or image.mode.startswith("I;")
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):
        width, height, grey = PIXELS, 2, True
    except Exception as error:  # decoders fail in every type of exception
        raise _damaged(file, source, error) from None
    if width * height > PIXELS:
        raise UserError(
            f"{source}: {file.name} unpacks to more than {PIXELS >> 20} million pixels and was "
            "refused; scale it down first."
        )
    return ImageSize(width, height, grey)


def common_shape(measures: Iterable[ImageSize], source: str) -> tuple[int, int, int]:
    """(C, H, W) that every image is brought to: the most frequent size, 1 channel if all are grey.

    Raises `UserError` where they would not fit in memory together.
    """
    counts = Counter(measures)
    sizes: Counter[tuple[int, int]] = Counter()
    for measure, count in counts.items():
        sizes[measure.height, measure.width] += count
    height, width = max(sizes, key=lambda s: (sizes[s], s[0] * s[1], s))
    channels = 1 if all(measure.grey for measure in counts) else 3
    total = counts.total() * channels * height * width
    if total > VALUES:
        raise UserError(
            f"{source}: {counts.total():,} images of {width}×{height} pixels need "
            f"{4 * total / 2**30:.0f} GiB of memory; scale them down first."
        )
    return channels, height, width


def decoded(file: ImageFile, shape: tuple[int, int, int], source: str) -> Levels:
    """Levels (C, H, W); an image of another size is resized, one without colour repeated."""
    channels, height, width = shape
    try:
        with Image.open(io.BytesIO(file.content), formats=FORMATS) as image:
            image.load()
            plain = _eight_bits(image).convert("L" if channels == 1 else "RGB")
            if plain.size != (width, height):
                plain = plain.resize((width, height), Image.Resampling.BILINEAR)
            levels = np.asarray(plain, dtype=np.uint8)
    except UserError:
        raise
    except Exception as error:  # decoders fail in every type of exception
        raise _damaged(file, source, error) from None
    return levels[None] if channels == 1 else levels.transpose(2, 0, 1)


def _eight_bits(image: Image.Image) -> Image.Image:
    """Images of 16 bits a pixel, which convert() would clip, by their upper byte."""
    if image.mode == "I" or image.mode.startswith("I;"):
        wide = np.asarray(image).astype(np.int64)
        if wide.min() >= 0 and wide.max() < 1 << 16:
            return Image.fromarray((wide >> 8).astype(np.uint8))
        raise ValueError("its pixels have more than 16 bits")
    if image.mode == "F":
        raise ValueError("its pixels are floating-point numbers")
    return image


def _damaged(file: ImageFile, source: str, error: Exception) -> UserError:
    reason = str(error) or type(error).__name__
    if isinstance(error, UnidentifiedImageError):
        reason = "it is none of the kinds of image that are read"
    return UserError(f"{source}: {file.name} is damaged or cannot be read ({reason}).")
