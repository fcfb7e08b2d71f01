"""Select and modify examples: splits, a pair of classes, fewer examples, false labels, random
pixels."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from dgn_engine.data._dataset import Examples, Labels
from dgn_engine.errors import UserError, Where

Places = npt.NDArray[np.int64]


def stratified_split(labels: Labels, tests: int, seed: int = 0) -> tuple[Places, Places]:
    """Return the indices of training and test examples, ascending, in proportion for each class.

    Shares are rounded by largest remainder, so that exactly `tests` examples are held out, or fewer
    if a class would otherwise have nothing left for training.
    """
    classes, counts = np.unique(labels, return_counts=True)
    wanted = counts * (tests / len(labels))
    shares = np.floor(wanted).astype(int)
    order = np.argsort(shares - wanted, kind="stable")
    open_to_more = [index for index in order if shares[index] + 1 < counts[index]]
    shares[open_to_more[: tests - int(shares.sum())]] += 1
    held_out: list[Places] = []
    for label, share in zip(classes, shares, strict=True):
        held_out.append(_shuffle_indices(np.flatnonzero(labels == label), seed)[:share])
    test = np.sort(np.concatenate(held_out))
    return np.setdiff1d(np.arange(len(labels)), test), test


def balanced_indices(labels: Labels, limit: int, seed: int = 0) -> Places:
    """Return the indices, ascending, of `limit` examples drawn in turn from every class."""
    turns: list[tuple[int, int, int]] = []
    for label in np.unique(labels):
        members = _shuffle_indices(np.flatnonzero(labels == label), seed)
        turns.extend((turn, int(label), int(index)) for turn, index in enumerate(members))
    return np.sort(np.array([index for _, _, index in sorted(turns)[:limit]], dtype=np.int64))


def only_pair(examples: Examples, pair: tuple[int, int]) -> Examples:
    """Select two classes: the first of the pair becomes label 0, the second 1."""
    top = len(examples.class_names) - 1
    for number in pair:
        if not 0 <= number <= top:
            raise UserError(
                f"{examples.name} has no class {number}; "
                + Where("data.binary")
                + f" takes two from 0 to {top}.",
                kind="out-of-bounds",
                value=number,
            )
    train_x, train_y = _pair_of(examples.train_x, examples.train_y, pair)
    test_x, test_y = _pair_of(examples.test_x, examples.test_y, pair)
    if len(np.unique(train_y)) < 2 or not len(test_y):
        raise UserError(
            f"{examples.name} lacks examples of one of the classes {list(pair)}.", kind="empty"
        )
    return replace(
        examples.with_variant(f"binary {pair[0]} {pair[1]}"),
        train_x=train_x,
        train_y=train_y,
        test_x=test_x,
        test_y=test_y,
        class_names=(examples.class_names[pair[0]], examples.class_names[pair[1]]),
        signed=True,
    )


def only_first(examples: Examples, limit: int, part: Literal["train", "test"]) -> Examples:
    """Select at most `limit` examples of a part, balanced over classes; the other stays."""
    images, labels = f"{part}_x", f"{part}_y"
    if limit >= len(getattr(examples, labels)):
        return examples
    indices = balanced_indices(getattr(examples, labels), limit)
    selected = {name: getattr(examples, name)[indices] for name in (images, labels)}
    return replace(examples.with_variant("test " * (part == "test") + f"limit {limit}"), **selected)


def frozen_stream(*key: object) -> np.random.RandomState:
    """Return a random stream that depends only on its key (seed and purpose), forever (NEP 19)."""
    digest = hashlib.sha256(repr(key).encode()).digest()
    return np.random.RandomState(np.frombuffer(digest, dtype="<u4"))


def noisy_labels(examples: Examples, share: float, seed: int) -> Examples:
    """Replace each training label with probability `share` by a uniformly drawn class.

    The drawn class may be the true one, so a share of share·(1 - 1/C) becomes false; at 1 all
    labels are random. A label that is false at one share is the same at every larger one. Test
    labels stay true.
    """
    if not share:
        return examples
    stream = frozen_stream("label noise", seed)
    uniform = stream.random_sample(len(examples.train_y))
    drawn = stream.randint(0, len(examples.class_names), len(examples.train_y))
    labels = np.where(uniform < share, drawn, examples.train_y)
    noisy = examples.with_variant(f"label noise {share!r} seed {seed}")
    return replace(noisy, train_y=labels.astype(np.int64))


def random_pixels(examples: Examples, seed: int) -> Examples:
    """Replace each training image by Gaussian pixels (Zhang et al. 2016, arXiv:1611.03530).

    They have the mean and variance of all training pixels and are not clipped to [0, 1]. Labels and
    test images stay unmodified.
    """
    images = examples.train_x
    mean, deviation = images.mean(dtype=np.float64), images.std(dtype=np.float64)
    stream = frozen_stream("random pixels", seed)
    pixels = np.empty_like(images)
    for image in pixels:  # one at a time: normal() makes float64
        image[...] = stream.normal(mean, deviation, image.shape)
    return replace(examples.with_variant(f"random pixels seed {seed}"), train_x=pixels, cuts=None)


def _pair_of(
    images: npt.NDArray[np.float32], labels: Labels, pair: tuple[int, int]
) -> tuple[npt.NDArray[np.float32], Labels]:
    indices = np.flatnonzero(np.isin(labels, pair))
    return images[indices], (labels[indices] == pair[1]).astype(np.int64)


def _shuffle_indices(places: npt.NDArray[np.intp], seed: int) -> Places:
    # RandomState, not Generator: its stream is frozen forever (NEP 19), so a split is too.
    return np.random.RandomState(seed).permutation(places).astype(np.int64)
