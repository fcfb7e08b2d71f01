"""Assign images to classes and parts (training or test) by their folders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dgn_engine.data._variants import stratified_split
from dgn_engine.errors import UserError

TEST_SHARE = 0.2
_TRAIN, _TEST, _OTHER = ("train", "training"), ("test", "testing"), ("val", "valid", "validation")


@dataclass(frozen=True)
class ImageLayout:
    """Names of the images in both parts, sorted, with the class number of each."""

    class_names: tuple[str, ...]
    train: tuple[tuple[str, int], ...]
    test: tuple[tuple[str, int], ...]


def layout_of_images(names: Sequence[str], source: str) -> ImageLayout:
    """Derive the layout from the names: CLASS/…, or train/CLASS/… and test/CLASS/….

    A single folder around everything is skipped. Without a test part, a fixed fifth of each class
    is held out.

    Raises:
        UserError: There are fewer than two classes.
    """
    paths = {name: tuple(name.split("/")) for name in sorted(names)}
    if not paths:
        raise UserError(f"{source} has no images (.png, .jpg and the like).", kind="no-file")
    while len({path[0] for path in paths.values()}) == 1 and min(map(len, paths.values())) > 2:
        paths = {name: path[1:] for name, path in paths.items()}
    tops = {path[0].lower() for path in paths.values() if len(path) > 1}
    if tops & {*_TRAIN} and tops & {*_TEST, *_OTHER} and tops <= {*_TRAIN, *_TEST, *_OTHER}:
        test_tops = _TEST if tops & {*_TEST} else _OTHER
        train = {name: path[1] for name, path in paths.items() if _is_below(path, _TRAIN)}
        test = {name: path[1] for name, path in paths.items() if _is_below(path, test_tops)}
        return _given_layout(train, test, source)
    return _split_layout({name: path[0] for name, path in paths.items() if len(path) > 1}, source)


def _is_below(path: tuple[str, ...], tops: tuple[str, ...]) -> bool:
    return len(path) > 2 and path[0].lower() in tops


def _given_layout(train: dict[str, str], test: dict[str, str], source: str) -> ImageLayout:
    class_names = _class_names(train, source)
    for label in set(test.values()) - set(class_names):
        raise UserError(
            f"{source} has test images of class '{label}' but no training images.", kind="missing"
        )
    return ImageLayout(
        class_names, _number_labels(train, class_names), _number_labels(test, class_names)
    )


def _split_layout(labels: dict[str, str], source: str) -> ImageLayout:
    class_names = _class_names(labels, source)
    numbered = _number_labels(labels, class_names)
    numbers = np.array([number for _, number in numbered], dtype=np.int64)
    train, test = stratified_split(numbers, round(len(numbers) * TEST_SHARE))
    return ImageLayout(
        class_names,
        tuple(numbered[index] for index in train),
        tuple(numbered[index] for index in test),
    )


def _class_names(labels: dict[str, str], source: str) -> tuple[str, ...]:
    labels_ = set(labels.values())
    if len(labels_) < 2:
        raise UserError(
            f"{source} has images of {len(labels_)} class{'' if len(labels_) == 1 else 'es'}; it "
            "needs a folder of images for each of at least two classes.",
            kind="empty",
        )
    if all(name.isdecimal() for name in labels_):
        return tuple(sorted(labels_, key=int))
    return tuple(sorted(labels_))


def _number_labels(
    labels: dict[str, str], class_names: tuple[str, ...]
) -> tuple[tuple[str, int], ...]:
    number = {name: index for index, name in enumerate(class_names)}
    return tuple((name, number[label]) for name, label in labels.items())
