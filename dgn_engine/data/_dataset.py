"""The interface of a data set: examples in memory, and how to obtain them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dgn_engine.config import DataConfig
from dgn_engine.config.setting import Setting
from dgn_engine.errors import UserError

Report: TypeAlias = Callable[[str, float | None], None]
"""Called with the current activity and the fraction done (None if unknown)."""

Images: TypeAlias = npt.NDArray[np.float32]
Labels: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Examples:
    """A data set in memory: images (n, C, H, W) or vectors (n, d), and labels (n,).

    Labels index `class_names`. Images from a file are in [0, 1]. `fingerprint` is a sha256 that
    differs if pixels, labels, their order or names differ. `source` is the state of the user's
    files that they were read from (`DataSet.source_state`), empty if it cannot be known again.
    `cuts`: the hyperplanes w·x + b = 0 at which the labels change, if they are known: a row (w, b)
    each, (m, d + 1).
    """

    train_x: Images
    train_y: Labels
    test_x: Images
    test_y: Labels
    class_names: tuple[str, ...]
    name: str
    fingerprint: str
    signed: bool = False  # two classes as -1 and +1, learnt with one logit
    source: str = ""
    cuts: npt.NDArray[np.float64] | None = None

    def with_variant(self, how: str) -> Examples:
        """Return it with the fingerprint of a variant; `how` describes the change."""
        fingerprint = hashlib.sha256(f"{self.fingerprint} {how}".encode()).hexdigest()
        return replace(self, fingerprint=fingerprint)


def _always_available(_root: Path | None) -> bool:
    return True


@dataclass(frozen=True)
class DataSizes:
    """The number of examples of a data set, the shape of one, and its classes (1: one logit)."""

    train: int
    test: int
    shape: tuple[int, ...]
    classes: int


@dataclass(frozen=True)
class DataSet:
    """A plug-in: how to load it, whether that needs a download first, and its options.

    `load` finds a value for each of `options` in `config.options`. `available` takes the folder of
    data sets (None: the default one); data that come with the program are always available.
    `sizes`: of the whole set, if they follow from its options without reading or drawing anything;
    used for estimates.
    """

    title: str
    load: Callable[[DataConfig, Report], Examples]
    hint: str  # how to get it, one sentence
    options: tuple[Setting, ...] = ()
    takes_path: bool = False  # a configuration names it as name:PATH
    available: Callable[[Path | None], bool] = _always_available
    sizes: Callable[[DataConfig], DataSizes] | None = None
    plane: bool = False  # points of the plane, for teaching: (x, y) or (x, y, 1)
    splits: bool = False  # `load` holds out the test part itself, by `_split.split_test_part`
    # of the user's files now, to be compared with `Examples.source`
    source_state: Callable[[DataConfig], str] | None = None

    @property
    def rooted(self) -> bool:
        """True if it is in the folder of data sets."""
        return self.available is not _always_available

    @property
    def is_generated(self) -> bool:
        """True if it is generated from its options instead of read from files."""
        return bool(self.options)


def examples_from_levels(
    name: str,
    train: tuple[npt.NDArray[np.uint8], npt.NDArray[np.integer]],
    test: tuple[npt.NDArray[np.uint8], npt.NDArray[np.integer]],
    class_names: tuple[str, ...],
    top: int = 255,
) -> Examples:
    """Build examples from integer grey or colour levels 0…`top`, (n, C, H, W), and labels (n,).

    Raises:
        UserError: There are no examples, or a label has no class.
    """
    digest = hashlib.sha256(json.dumps([class_names, top]).encode())
    parts: list[tuple[Images, Labels]] = []
    for what, (levels, numbers) in (("training", train), ("test", test)):
        labels = numbers.astype(np.int64)
        if len(levels) == 0 or len(levels) != len(labels):
            raise UserError(
                f"The {what} part of {name} has {len(levels)} images and {len(labels)} labels; "
                "it needs the same number of both, and at least one.",
                kind="wrong-length",
            )
        if labels.min() < 0 or labels.max() >= len(class_names):
            raise UserError(
                f"The {what} part of {name} has labels outside 0…{len(class_names) - 1}.",
                kind="out-of-bounds",
            )
        digest.update(str(levels.shape).encode())
        digest.update(np.ascontiguousarray(levels).data)
        digest.update(labels.data)
        parts.append((np.divide(levels, np.float32(top), dtype=np.float32), labels))
    (train_x, train_y), (test_x, test_y) = parts
    return Examples(train_x, train_y, test_x, test_y, class_names, name, digest.hexdigest())
