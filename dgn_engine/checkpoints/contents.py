"""What was found in a checkpoint: plain arrays by name, and what was left aside."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Unreadable(Exception):  # noqa: N818 - a verdict about a file, not a fault of ours
    """Why a file is not taken, as the end of a sentence that begins with its name."""


@dataclass(frozen=True)
class Contents:
    """Arrays in the order of the layers; `dtypes` as the file had them; `ignored` in words."""

    arrays: dict[str, Array]
    dtypes: dict[str, str]
    ignored: tuple[str, ...] = ()
    metadata: dict[str, str] = field(default_factory=dict)


def plain(text: str, longest: int = 300) -> str:
    """Text that can be shown: unprintable characters escaped, cut to `longest`.

    Escaped are also line breaks and the marks that turn the direction of writing.
    """
    shown = "".join(
        c if c.isprintable() else c.encode("unicode_escape", "replace").decode()
        for c in text[: longest + 1]
    )
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def natural(name: str) -> list[tuple[int, int, str]]:
    """Key that sorts 'weights.10' after 'weights.2'."""
    parts: list[tuple[int, int, str]] = []
    run = ""
    for c in name + "\0":
        if run and c.isdecimal() != run[-1].isdecimal():
            parts.append((0, int(run), "") if run.isdecimal() else (1, 0, run))
            run = ""
        run += c
    return parts


def widened(array: Array) -> Array:
    """Half precision as float32, everything else little-endian as it is."""
    if array.dtype == np.float16:
        return array.astype(np.float32)
    return array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
