"""Which examples the probe set is made of, as one line of text that a configuration can hold."""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass

import numpy as np

from dgn_engine.errors import UserError
from dgn_engine.protocol.frames import Array

MOST_DRAWN = 8  # examples of the user's own
MOST_VALUES = 1 << 14  # numbers of one of them
_PARTS = "'classes 3,8', 'rows 0,5,9' and 'drawn …', with '; ' between them"


@dataclass(frozen=True)
class ProbeChoice:
    """Balanced over `classes` (by number or name; empty: all), or the training examples `rows`;
    after them the user's own, `drawn`, whose pixels (0…255) are packed as text.

    `str()` gives the text, '' for a set balanced over all classes.
    """

    classes: tuple[str, ...] = ()
    rows: tuple[int, ...] = ()
    drawn: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [f"classes {','.join(self.classes)}"] if self.classes else []
        parts += [f"rows {','.join(map(str, self.rows))}"] if self.rows else []
        return "; ".join([*parts, *(f"drawn {one}" for one in self.drawn)])

    @property
    def in_words(self) -> str:
        """'balanced over classes 3, 8, and 1 drawn'."""
        if self.rows:
            first = f"{len(self.rows):,} chosen by hand"
        elif self.classes:
            plural = "es" if len(self.classes) > 1 else ""
            first = f"class{plural} {', '.join(self.classes)}"
        else:
            first = "balanced over the classes"
        return first + (f", and {len(self.drawn)} drawn" if self.drawn else "")

    @staticmethod
    def parse(text: str) -> ProbeChoice:
        """The inverse of `str()`. Raises `UserError`."""
        found: dict[str, list[str]] = {"classes": [], "rows": [], "drawn": []}
        for part in filter(None, (one.strip() for one in text.split(";"))):
            kind, _, values = part.partition(" ")
            named = [one.strip() for one in values.split(",") if one.strip()]
            if kind not in found or not named:
                raise UserError(
                    f"probe_set has '{part[:40]}'; it takes {_PARTS}.",
                    kind="unknown-key",
                    value=part[:40],
                )
            found[kind] += named
        if found["classes"] and found["rows"]:
            raise UserError(
                "probe_set names classes and rows; it takes one of them.", kind="contradiction"
            )
        if len(found["drawn"]) > MOST_DRAWN:
            raise UserError(
                f"probe_set has more than {MOST_DRAWN} drawn examples.",
                kind="too-large",
                value=len(found["drawn"]),
            )
        bad = [one for one in found["rows"] if not (one.isascii() and one.isdigit())]
        if bad:
            raise UserError(
                f"probe_set has the row '{bad[0][:20]}'; rows are numbers from 0.",
                kind="not-a-number",
                value=bad[0][:20],
            )
        rows = tuple(dict.fromkeys(int(one) for one in found["rows"] if len(one) < 16))
        return ProbeChoice(tuple(dict.fromkeys(found["classes"])), rows, tuple(found["drawn"]))


def packed(pixels: Array) -> str:
    """Grey or colour levels 0…255 of one example, of any shape, as a word of plain letters."""
    content = zlib.compress(np.ascontiguousarray(pixels, dtype=np.uint8).tobytes(), 9)
    return base64.urlsafe_b64encode(content).decode("ascii")


def unpacked(word: str, shape: tuple[int, ...]) -> Array:
    """The levels (uint8) of this shape. Raises `UserError` where the word has others."""
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
            f"probe_set has a drawn example that is no picture of {sides} pixels.",
            kind="wrong-shape",
            value=shape,
        )
    return np.frombuffer(content, np.uint8).reshape(shape)
