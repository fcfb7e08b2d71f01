"""What was found in a checkpoint: plain arrays by name, and what was left aside."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dgn_engine.storage.checkpoints import limits

if TYPE_CHECKING:
    from dgn_engine.storage.checkpoints.stated_layers import StatedLayer

Array = npt.NDArray[Any]


class UnreadableFile(Exception):  # noqa: N818 - a verdict about a file, not a fault of ours
    """Why a file is not taken, as the end of a sentence that begins with its name."""


@dataclass(frozen=True)
class ParsedFile:
    """Arrays in the order of the layers; `dtypes` as the file had them; `ignored` in words.

    `kind`: what sort of file it is. Within the reader, arrays are views on the bytes of the file
    as `number_types.LAYOUT` has them; they are decoded when they are sent. `calls`: the globals
    that Python would call to load the file; none was looked up. `layers`: what a saved
    `nn.Sequential` says of itself.
    """

    arrays: dict[str, Array]
    dtypes: dict[str, str]
    ignored: tuple[str, ...] = ()
    metadata: dict[str, str] = field(default_factory=dict)
    kind: str = ""
    calls: tuple[str, ...] = ()
    layers: tuple[StatedLayer, ...] = ()


def plain(text: str, longest: int = limits.NAME) -> str:
    """Text that can be shown: unprintable characters escaped, cut to `longest`.

    Escaped are also line breaks and the marks that turn the direction of writing.
    """
    shown = "".join(
        c if c.isprintable() else c.encode("unicode_escape", "replace").decode()
        for c in text[: longest + 1]
    )
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def is_sound(shape: tuple[Any, ...]) -> bool:
    """Whether there can be an array of this shape at all."""
    whole = all(type(side) is int and side >= 0 for side in shape)
    small = len(shape) <= limits.DIMENSIONS
    return whole and small and math.prod(max(side, 1) for side in shape) <= limits.EXTENT


def natural(name: str) -> list[tuple[int, int, str]]:
    """Key that sorts 'weights.10' after 'weights.2'."""
    parts: list[tuple[int, int, str]] = []
    run = ""
    for c in name[: limits.NAME]:
        if run and c.isdecimal() != run[-1].isdecimal():
            parts.append(_part(run))
            run = ""
        run += c
    return [*parts, _part(run)]


def _part(run: str) -> tuple[int, int, str]:
    return (0, int(run), "") if run.isdecimal() else (1, 0, run)


def whole_bytes(array: Array) -> memoryview:
    """The bytes of a contiguous array; also of one without axes or without numbers."""
    return array.reshape(-1).view(np.uint8).data
