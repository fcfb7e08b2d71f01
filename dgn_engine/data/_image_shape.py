"""The one shape that all images of a folder are brought to, and whether they fit in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from dgn_engine.errors import UserError
from dgn_engine.storage.images import image_limits
from dgn_engine.storage.images.decoder_pool import ImageSize
from dgn_engine.text.byte_counts import binary_size_in_words
from dgn_engine.text.written_numbers import decimals

VALUES = 1 << 30  # of all images together; four bytes each once they are floats


def common_shape(measures: Iterable[ImageSize], source: str) -> tuple[int, int, int]:
    """(C, H, W) that every image is brought to: the most frequent size, 1 channel if all are grey.

    Raises `UserError` where they would not fit in memory together, or would take long to decode.
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
            f"{binary_size_in_words(4 * total)} of memory; scale them down first."
        )
    pixels = sum(count * height * width for (height, width), count in sizes.items())
    if pixels > image_limits.PIXELS_TOGETHER:
        raise UserError(
            f"{source}: {counts.total():,} images unpack to "
            f"{decimals(pixels / 1e6, 0)} million pixels together, more than "
            f"{decimals(image_limits.PIXELS_TOGETHER / 1e6, 0)} million; scale them down first."
        )
    return channels, height, width
