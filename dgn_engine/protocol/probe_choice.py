"""The choice of the probe set, as one line of text in a configuration."""

from __future__ import annotations

import base64
import zlib

import numpy as np

from dgn_engine.errors import UserError
from dgn_engine.frozen_data import dataclass
from dgn_engine.protocol.frames import Array

MOST_DRAWN = 8  # the user's own examples
MOST_VALUES = 1 << 14  # values of one of them
_PARTS = "'classes 3,8', 'rows 0,5,9' and 'drawn …', separated by '; '"


@dataclass(frozen=True)
class ProbeChoice:
    """A probe set: balanced over `classes` (by number or name; empty: all), or the training
    examples `rows`, followed by the user's own `drawn` examples, whose pixels (0…255) are packed as
    text.

    `str()` returns the text, '' for a set balanced over all classes.
    """

    classes: tuple[str, ...] = ()
    rows: tuple[int, ...] = ()
    drawn: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [f"classes {','.join(self.classes)}"] if self.classes else []
        parts += [f"rows {','.join(map(str, self.rows))}"] if self.rows else []
        return "; ".join([*parts, *(f"drawn {text}" for text in self.drawn)])

    @property
    def in_words(self) -> str:
        """'class 3, 8, and 1 drawn'."""
        if self.rows:
            first = f"{len(self.rows):,} selected"
        elif self.classes:
            plural = "es" if len(self.classes) > 1 else ""
            first = f"class{plural} {', '.join(self.classes)}"
        else:
            first = "balanced over the classes"
        return first + (f", and {len(self.drawn)} drawn" if self.drawn else "")

    @staticmethod
    def parse(text: str) -> ProbeChoice:
        """Parse the text of `str()`; raises `UserError`."""
        parts: dict[str, list[str]] = {"classes": [], "rows": [], "drawn": []}
        for part in filter(None, (item.strip() for item in text.split(";"))):
            kind, _, values = part.partition(" ")
            items = [item.strip() for item in values.split(",") if item.strip()]
            if kind not in parts or not items:
                raise UserError(
                    f"probe_set has '{part[:40]}'; it accepts {_PARTS}.",
                    kind="unknown-key",
                    value=part[:40],
                )
            parts[kind] += items
        if parts["classes"] and parts["rows"]:
            raise UserError(
                "probe_set has both classes and rows; give one of them.", kind="contradiction"
            )
        if len(parts["drawn"]) > MOST_DRAWN:
            raise UserError(
                f"probe_set has more than {MOST_DRAWN} drawn examples; remove some.",
                kind="too-large",
                value=len(parts["drawn"]),
            )
        bad = [item for item in parts["rows"] if not (item.isascii() and item.isdigit())]
        if bad:
            raise UserError(
                f"probe_set has the row '{bad[0][:20]}'; rows are integers, 0 or more.",
                kind="not-a-number",
                value=bad[0][:20],
            )
        rows = tuple(dict.fromkeys(int(item) for item in parts["rows"] if len(item) < 16))
        return ProbeChoice(tuple(dict.fromkeys(parts["classes"])), rows, tuple(parts["drawn"]))


def pack_pixels(pixels: Array) -> str:
    """Pack grey or colour levels 0…255 of one example, of any shape, as URL-safe text."""
    content = zlib.compress(np.ascontiguousarray(pixels, dtype=np.uint8).tobytes(), 9)
    return base64.urlsafe_b64encode(content).decode("ascii")


def unpack_pixels(word: str, shape: tuple[int, ...]) -> Array:
    """Return the packed levels (uint8) in this shape; raises `UserError` if they do not fit it."""
    wanted = int(np.prod(shape))
    try:
        stream = zlib.decompressobj()
        content = stream.decompress(
            base64.b64decode(word, altchars=b"-_", validate=True), wanted + 1
        )
    except (ValueError, zlib.error):
        content = b""
    if len(content) != wanted or wanted > MOST_VALUES:
        sides = "×".join(map(str, shape))
        raise UserError(
            f"probe_set has a drawn example that is not an image of {sides} pixels.",
            kind="wrong-shape",
            value=shape,
        )
    return np.frombuffer(content, np.uint8).reshape(shape)
