"""The types of numbers that files hold: how wide, how to be read, and which are left aside."""

from __future__ import annotations

import numpy as np

from dgn_engine.storage.checkpoints.contents import Array

# As the bytes lie in a file, little-endian. What numpy lacks lies in whole numbers of its width.
LAYOUT = {
    "float64": "<f8",
    "float32": "<f4",
    "float16": "<f2",
    "bfloat16": "<u2",
    "float8_e4m3fn": "|u1",
    "float8_e5m2": "|u1",
    "int64": "<i8",
    "int32": "<i4",
    "int16": "<i2",
    "int8": "|i1",
    "uint64": "<u8",
    "uint32": "<u4",
    "uint16": "<u2",
    "uint8": "|u1",
    "bool": "|b1",
}
WIDENED = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")

# Not read, but their records have a size that can be checked.
_WIDTHS = {"complex32": 4, "complex64": 8, "complex128": 16, "qint8": 1, "quint8": 1, "qint32": 4}


def width(dtype: str) -> int:
    """Bytes of one number in the file; 0 where the type is not known here."""
    return np.dtype(LAYOUT[dtype]).itemsize if dtype in LAYOUT else _WIDTHS.get(dtype, 0)


def sent_as(dtype: str) -> str:
    """The numpy type in which numbers of this type leave the reader."""
    return "<f4" if dtype in WIDENED else LAYOUT[dtype]


def decoded(bits: Array, dtype: str) -> Array:
    """The numbers themselves, contiguous, in the type that `sent_as` tells."""
    if dtype == "bfloat16":  # the upper half of a float32
        return (bits.astype(np.uint32, order="C") << 16).view(np.float32)
    if dtype == "float8_e5m2":  # the upper half of a float16
        return (bits.astype(np.uint16, order="C") << 8).view(np.float16).astype(np.float32)
    if dtype == "float8_e4m3fn":
        return np.asarray(_E4M3[bits])
    if dtype == "bool":  # a byte other than 0 and 1 is no bool of numpy
        return np.asarray(bits.view(np.uint8) != 0)
    with np.errstate(invalid="ignore"):  # a signalling NaN is a NaN
        return bits.astype(sent_as(dtype), order="C", copy=False)


def _e4m3() -> Array:
    """All 256 values: 1 sign, 4 exponent (bias 7), 3 mantissa bits; no infinity, NaN at S.1111.111
    (Micikevicius et al. 2022, arXiv:2209.05433).
    """
    bits = np.arange(256)
    exponent, mantissa = bits >> 3 & 15, bits & 7
    small = mantissa / 8 * 2.0**-6
    size = np.where(exponent == 0, small, (1 + mantissa / 8) * 2.0 ** (exponent - 7))
    size[bits & 127 == 127] = np.nan
    return np.where(bits < 128, size, -size).astype(np.float32)


_E4M3 = _e4m3()
