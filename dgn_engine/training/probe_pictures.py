"""Thumbnails of the probe examples, from the inputs that the network gets."""

from __future__ import annotations

import numpy as np

from dgn_engine.data._normalisation import parse_normalisation
from dgn_engine.protocol.frames import Array
from dgn_engine.protocol.watching import ProbeExamples, ProbeSet
from dgn_engine.text.written_numbers import format_number

SIDE = 64  # pixels of a side, at most
LONGEST = 1024  # numbers of a vector with a picture
_ROUNDING = 1e-3  # tolerance around [0, 1] after undoing the normalisation


def make_pictures(
    probe_set: ProbeSet, x: Array, normalise: str, one: tuple[int, ...] = ()
) -> ProbeExamples:
    """Convert examples to pictures.

    Normalisation is undone. If pixels still leave [0, 1], all examples are scaled alike and the
    remark says so.

    Args:
        probe_set: The probe examples.
        x: Inputs: images (n, C, H, W) or vectors (n, d).
        normalise: Normalisation of the data, as `normalisation` parses it.
        one: Shape of an example in the data, if the network takes another.

    Returns:
        uint8 images of at most `SIDE` pixels a side, or float32 vectors; otherwise the reason why
        there are none.
    """
    if x.ndim == 2 and x.shape[1] > LONGEST:
        why = f"The examples are vectors of {x.shape[1]:,} numbers, too long to show as a picture."
        return ProbeExamples(probe_set, missing=why)
    if x.ndim == 2:
        numbers = np.ascontiguousarray(x, dtype=np.float32)
        return ProbeExamples(probe_set, numbers.shape, numbers=numbers.tobytes(), one=one)
    if x.ndim != 4:
        return ProbeExamples(probe_set, missing="The examples are not two-dimensional images.")
    images, remarks = (
        _undo_normalisation(np.nan_to_num(x.astype(np.float64)), normalise),
        list[str](),
    )
    images, scaled = _scale_to_unit_range(images)
    remarks.extend(scaled)
    if images.shape[1] not in (1, 3):
        remarks.append(f"mean of {images.shape[1]} channels")
        images = images.mean(axis=1, keepdims=True)
    if max(images.shape[2:]) > SIDE:
        remarks.append("reduced from {}×{} pixels".format(*images.shape[2:]))
        images = _downsample(images)
    pixels = np.rint(255.0 * images).astype(np.uint8).transpose(0, 2, 3, 1)
    pixels = pixels[..., 0] if pixels.shape[-1] == 1 else pixels
    remark = f"Pictures: {', '.join(remarks)}." if remarks else ""
    shape = one or tuple(x.shape[1:])
    return ProbeExamples(probe_set, pixels.shape, pixels.tobytes(), remark=remark, one=shape)


def _undo_normalisation(images: Array, normalise: str) -> Array:
    how = parse_normalisation(normalise)
    if how is None:
        return images
    sides = (1, len(how.mean), 1, 1)
    undone: Array = images * np.reshape(how.deviation, sides) + np.reshape(how.mean, sides)
    return undone


def _scale_to_unit_range(images: Array) -> tuple[Array, list[str]]:
    """Scale to [0, 1]; return the images and how they were scaled."""
    low, high = float(images.min()), float(images.max())
    if low >= -_ROUNDING and high <= 1.0 + _ROUNDING:
        return np.clip(images, 0.0, 1.0), []
    scaled = (images - low) / ((high - low) or 1.0)
    ends = f"black is {format_number(low, 3)} and white {format_number(high, 3)}"
    return scaled, [f"{ends}, the extremes of these examples"]


def _downsample(images: Array) -> Array:
    """Average square blocks of pixels until no side exceeds `SIDE`, cutting off the rest."""
    block = -(-max(images.shape[2:]) // SIDE)
    n, channels, height, width = images.shape
    high, wide = max(height // block, 1), max(width // block, 1)
    down, across = min(block, height), min(block, width)
    cut = images[:, :, : high * down, : wide * across]
    means: Array = cut.reshape(n, channels, high, down, wide, across).mean(axis=(3, 5))
    return means
