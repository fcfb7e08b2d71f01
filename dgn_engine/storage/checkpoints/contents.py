"""What is read from a checkpoint: arrays by name, their types of numbers, and what is ignored."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dgn_engine.protocol.file_reading import NOTHING_SAID, FileReading
from dgn_engine.storage.checkpoints import limits
from dgn_engine.text.printable import plain

Array = npt.NDArray[Any]
PREFIXES = ("module.", "_orig_mod.")  # of DataParallel and torch.compile, taken off when read

AGAIN = "download or save it again"  # the way out where a file is not all there
TAKES_A_PART = (
    "dgn inspect, kernels and gate-information take a part of it (--part); for anything else save "
    "fewer tensors in a file"
)

Value = bool | int | float | str | tuple[int, int] | None


@dataclass(frozen=True)
class StatedLayer:
    """A layer, by the `name` that its tensors have ('0', 'body.3').

    `kind`: one of `stated_layers.KINDS`, with just those numbers; otherwise the name of a class
    that is not known here, without numbers.
    """

    name: str
    kind: str
    numbers: dict[str, Value] = field(default_factory=dict)


class UnreadableFile(Exception):  # noqa: N818 - a verdict about a file, not a fault of ours
    """Why a file is not taken, as the end of a sentence that begins with its name.

    `kind`: what is wrong, a short id; `value`: which part of it.
    """

    def __init__(self, why: str, kind: str = "", value: object = None) -> None:
        super().__init__(why)
        self.kind, self.value = kind, value


@dataclass(frozen=True)
class ParsedFile:
    """What a format's parser made of a file, within the child.

    The arrays are views on the bytes of the file, laid out as `LAYOUT` says; they are decoded when
    they are sent. The child is not told the name of the file. The other fields as in
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
    """What a file holds: arrays in the order of its layers, half precision as float32.

    `dtypes`: as the file had them. `ignored`: what is not a dense tensor of numbers, in words.
    `metadata`: text notes of a safetensors file, untrusted, so only to be compared. `kind`: what
    sort of file it is, whatever it is called. `layers`: those of a saved `nn.Sequential`, as it
    states them; `module`: the class of a whole saved module, 'nets.Net'. `picked`: a user chose
    the arrays and their order, so that names and numbers of layers say nothing more. `layout`: how
    the arrays are not as the file has them, sentences or ''.
    `children`: all modules of a whole saved module in the order in which they were registered,
    which need not be that in which they compute (`saved_children`). `said`: text and numbers beside
    the tensors, by their dotted keys (`stated_entries`).
    `part`: the key of the file's dictionary that they were taken from, where `others` beside it
    hold weights of the same network (ema, target), or where a user chose it; otherwise ''.
    `would_call`: what Python would call to load the file, apart from what is known to be harmless,
    `would_look_up`: other names that are not known to be harmless, in whatever place, and
    `would_import`: their modules, where nothing of them is called and neither torch nor numpy has
    imported them; nothing was looked up here. `reading`: what the user says of its network where
    the file does not.
    """

    picked: bool = False
    layout: str = ""
    reading: FileReading = NOTHING_SAID


def is_sound(shape: tuple[Any, ...]) -> bool:
    """Whether there can be an array of this shape at all."""
    whole = all(type(side) is int and side >= 0 for side in shape)
    small = len(shape) <= limits.DIMENSIONS
    return whole and small and math.prod(max(side, 1) for side in shape) <= limits.EXTENT


def common_prefix(names: Iterable[str]) -> str:
    """The prefixes of DataParallel and torch.compile that all names begin with; or ''."""
    rest, found = list(names), ""
    while rest and (
        prefix := next((p for p in PREFIXES if all(n.startswith(p) and n != p for n in rest)), "")
    ):
        rest = [name.removeprefix(prefix) for name in rest]
        found += prefix
    return found


def no_such_part(part: str, known: Iterable[str]) -> str:
    """The verdict on a file that does not have a part, with those that it has."""
    names = [f"'{plain(name, 60)}'" for name in known]
    more = ", …" if len(names) > 8 else ""
    return f"has no part '{plain(part, 60)}'; it has {', '.join(names[:8])}{more}"


def natural(name: str) -> list[tuple[int, int, str]]:
    """A key that sorts 'weights.10' after 'weights.2'."""
    runs = re.findall(r"\d+|\D+", name[: limits.NAME]) or [""]
    return [(0, int(run), "") if run.isdecimal() else (1, 0, run) for run in runs]


def whole_bytes(array: Array) -> memoryview:
    """The bytes of a contiguous array, which may be a scalar or empty."""
    return array.reshape(-1).view(np.uint8).data


# How a file stores each type, little-endian. What numpy lacks is read as whole numbers as wide.
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

# Types that are not read; the sizes of their records are checked all the same.
_WIDTHS = {"complex32": 4, "complex64": 8, "complex128": 16, "qint8": 1, "quint8": 1, "qint32": 4}


def width(dtype: str) -> int:
    """Bytes of one number in the file; 0 where the type is not known here."""
    return np.dtype(LAYOUT[dtype]).itemsize if dtype in LAYOUT else _WIDTHS.get(dtype, 0)


def sent_as(dtype: str) -> str:
    """The numpy type in which numbers of this type leave the reader."""
    return "<f4" if dtype in WIDENED else LAYOUT[dtype]


def decoded(bits: Array, dtype: str) -> Array:
    """The numbers themselves, contiguous, in the type of `sent_as`."""
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
    """All 256 values of float8 e4m3fn, by their bits.

    1 sign, 4 exponent (bias 7), 3 mantissa bits; no infinity, NaN at S.1111.111. Source:
    Micikevicius et al. 2022, arXiv:2209.05433.
    """
    bits = np.arange(256)
    exponent, mantissa = bits >> 3 & 15, bits & 7
    small = mantissa / 8 * 2.0**-6
    size = np.where(exponent == 0, small, (1 + mantissa / 8) * 2.0 ** (exponent - 7))
    size[bits & 127 == 127] = np.nan
    return np.where(bits < 128, size, -size).astype(np.float32)


_E4M3 = _e4m3()
