"""The probe examples as they can be shown: small pictures of images, the numbers of vectors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dgn_engine.protocol.events import Event, ProbeSet
from dgn_engine.protocol.frames import Array


@dataclass(frozen=True)
class ExamplesListed(Event):
    """The answer to `ListExamples`: `found` are those asked for, in the order of the data, out of
    `total` of the class `label` (-1: of all)."""

    label: int
    first: int
    total: int
    found: ProbeExamples


@dataclass(frozen=True)
class ProbeExamples(Event):
    """What the probe examples look like; it holds as long as `probe_set` is the probe set.

    `pixels`: uint8 (n, H, W) or (n, H, W, 3), in this `shape`; `numbers`: float32 (n, d) of
    examples that are no images. Bytes, because nobody can write to them. `missing`: why there is
    neither; `remark`: how the pictures were made, where they are not the pixels as they are. Both
    are sentences, or empty.
    """

    probe_set: ProbeSet
    shape: tuple[int, ...] = ()
    pixels: bytes = b""
    numbers: bytes = b""
    missing: str = ""
    remark: str = ""
    one: tuple[int, ...] = ()  # the shape of an example in the data: what is drawn has it

    @property
    def images(self) -> Array | None:
        """(n, H, W) or (n, H, W, 3), uint8, read-only; None where they are no images."""
        if not self.pixels:
            return None
        return np.frombuffer(self.pixels, np.uint8).reshape(self.shape)

    @property
    def vectors(self) -> Array | None:
        """(n, d), float32, read-only; None where they are images, or nothing is known."""
        if not self.numbers:
            return None
        return np.frombuffer(self.numbers, np.float32).reshape(self.shape)
