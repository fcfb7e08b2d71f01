"""The contents of a checkpoint: arrays by name, their number types, and what is ignored."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import field
from typing import Any

import numpy as np
import numpy.typing as npt

from dgn_engine.frozen_data import dataclass
from dgn_engine.protocol.file_reading import NOTHING_SAID, FileReading
from dgn_engine.storage.checkpoints import limits
from dgn_engine.text.printable import plain_text

Array = npt.NDArray[Any]
PREFIXES = ("module.", "_orig_mod.")  # of DataParallel and torch.compile, stripped when read

AGAIN = "download or save it again"  # what to do about an incomplete file
TAKES_A_PART = (
    "read one part of it with --part (dgn inspect, kernels and gate-information), or save fewer "
    "tensors in a file"
)

Value = bool | int | float | str | tuple[int, int] | None


@dataclass(frozen=True)
class StatedLayer:
    """A layer, under the `name` its tensors have ('0', 'body.3').

    `kind`: one of `stated_layers.KINDS`, with exactly its numbers; otherwise the name of an unknown
    class, without numbers.
    """

    name: str
    kind: str
    numbers: dict[str, Value] = field(default_factory=dict)


class UnreadableFile(Exception):  # noqa: N818 - a verdict about a file, not a fault of ours
    """A file is refused; the message is a clause that follows its name.

    `kind`: what is wrong, a short id; `value`: which part of the file.
    """

    def __init__(self, why: str, kind: str = "", value: object = None) -> None:
        super().__init__(why)
        self.kind, self.value = kind, value


@dataclass(frozen=True)
class ParsedFile:
    """A format parser's result within the child.

    The arrays are views on the bytes of the file, laid out as in `LAYOUT`; they are decoded when
    they are sent. The child does not know the name of the file. Other fields as in
    `CheckpointContents`.
    """

    file_name: str
    arrays: dict[str, Array]
    dtypes: dict[str, str]
    ignored: tuple[str, ...] = ()
    metadata: dict[str, str] = field(default_factory=dict)
    kind: str = ""
    layers: tuple[StatedLayer, ...] = ()
    module: str = ""
    part: str = ""
    others: tuple[str, ...] = ()
    would_call: tuple[str, ...] = ()
    would_look_up: tuple[str, ...] = ()
    would_import: tuple[str, ...] = ()
    children: tuple[StatedLayer, ...] = ()
    said: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class CheckpointContents(ParsedFile):
    """The contents of a file: arrays in layer order, half precision as float32.

    Attributes:
        dtypes: Number types in the file.
        ignored: Descriptions of what is not a dense tensor of numbers.
        metadata: Text notes of a safetensors file; untrusted, so only for comparison.
        kind: Format of the file, whatever its name.
        layers: Layers that a saved `nn.Sequential` states.
        module: Class of a whole saved module, 'nets.Net'.
        part: Key of the file's dictionary that was read, if `others` beside it hold weights of the
            same network (ema, target) or a user chose it; otherwise ''.
        would_call: What Python would call to load the file, except known harmless names.
        would_look_up: Other names not known to be harmless, anywhere in the file.
        would_import: Their modules, if nothing of them is called and neither torch nor numpy has
            imported them. Nothing was looked up.
        children: All modules of a whole saved module in order of registration, which need not be
            the order of computation (`saved_children`).
        said: Text and numbers beside the tensors, by dotted keys (`stated_entries`).
        picked: The user chose the arrays and their order, so names and numbers mean nothing.
        layout: Sentences on how the arrays differ from those in the file, or ''.
        reading: What the user specifies about the network where the file does not.
    """

    picked: bool = False
    layout: str = ""
    reading: FileReading = NOTHING_SAID


def is_sound(shape: tuple[Any, ...]) -> bool:
    """Return whether an array of this shape can exist."""
    whole = all(type(side) is int and side >= 0 for side in shape)
    small = len(shape) <= limits.DIMENSIONS
    return whole and small and math.prod(max(side, 1) for side in shape) <= limits.EXTENT


def common_prefix(names: Iterable[str]) -> str:
    """Return the prefixes of DataParallel and torch.compile shared by all names; or ''."""
    rest, prefixes = list(names), ""
    while rest and (
        prefix := next((p for p in PREFIXES if all(n.startswith(p) and n != p for n in rest)), "")
    ):
        rest = [name.removeprefix(prefix) for name in rest]
        prefixes += prefix
    return prefixes


def no_such_part(part: str, known: Iterable[str]) -> str:
    """Say that a file lacks a part, and list those it has."""
    names = [f"'{plain_text(name, 60)}'" for name in known]
    more = ", …" if len(names) > 8 else ""
    return f"has no part '{plain_text(part, 60)}'; it has {', '.join(names[:8])}{more}"


def natural_key(name: str) -> list[tuple[int, int, str]]:
    """Return a key that sorts 'weights.10' after 'weights.2'."""
    runs = re.findall(r"\d+|\D+", name[: limits.NAME]) or [""]
    return [(0, int(run), "") if run.isdecimal() else (1, 0, run) for run in runs]


def whole_bytes(array: Array) -> memoryview:
    """Return the bytes of a contiguous array, which may be a scalar or empty."""
    return array.reshape(-1).view(np.uint8).data


# How a file stores each type, little-endian. Types that numpy lacks are read as integers.
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

# Types that are not read; the sizes of their records are still checked.
_WIDTHS = {"complex32": 4, "complex64": 8, "complex128": 16, "qint8": 1, "quint8": 1, "qint32": 4}


def dtype_width(dtype: str) -> int:
    """Return the bytes of one number in the file; 0 for an unknown type."""
    return np.dtype(LAYOUT[dtype]).itemsize if dtype in LAYOUT else _WIDTHS.get(dtype, 0)


def wire_dtype(dtype: str) -> str:
    """Return the numpy type in which numbers of this type leave the reader."""
    return "<f4" if dtype in WIDENED else LAYOUT[dtype]


def decode_numbers(bits: Array, dtype: str) -> Array:
    """Decode numbers into a contiguous array of the type of `wire_dtype`."""
    if dtype == "bfloat16":  # the upper half of a float32
        return (bits.astype(np.uint32, order="C") << 16).view(np.float32)
    if dtype == "float8_e5m2":  # the upper half of a float16
        return (bits.astype(np.uint16, order="C") << 8).view(np.float16).astype(np.float32)
    if dtype == "float8_e4m3fn":
        return np.asarray(_E4M3[bits])
    if dtype == "bool":  # a byte other than 0 and 1 is not a numpy bool
        return np.asarray(bits.view(np.uint8) != 0)
    with np.errstate(invalid="ignore"):  # a signalling NaN is a NaN
        return bits.astype(wire_dtype(dtype), order="C", copy=False)


def _e4m3_table() -> Array:
    """Return all 256 values of float8 e4m3fn, indexed by their bits.

    1 sign, 4 exponent (bias 7), 3 mantissa bits; no infinity, NaN at S.1111.111. Source:
    Micikevicius et al. 2022, arXiv:2209.05433.
    """
    bits = np.arange(256)
    exponent, mantissa = bits >> 3 & 15, bits & 7
    small = mantissa / 8 * 2.0**-6
    size = np.where(exponent == 0, small, (1 + mantissa / 8) * 2.0 ** (exponent - 7))
    size[bits & 127 == 127] = np.nan
    return np.where(bits < 128, size, -size).astype(np.float32)


_E4M3 = _e4m3_table()
