"""What is done to the training examples on purpose: false labels and random pixels."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np

from dgn_engine.data._dataset import Examples


def frozen_stream(*key: object) -> np.random.RandomState:
    """A random stream that depends on nothing but its key (seed and purpose), for ever (NEP 19)."""
    digest = hashlib.sha256(repr(key).encode()).digest()
    return np.random.RandomState(np.frombuffer(digest, dtype="<u4"))


def noisy_labels(examples: Examples, share: float, seed: int) -> Examples:
    """Each training label is, with probability `share`, replaced by a uniformly drawn class.

    The class that is drawn may be the true one, so a share of share·(1 - 1/C) becomes false;
    at 1 all labels are random. A label that is false at one share is the same at every larger
    one. Test labels stay true.
    """
    if not share:
        return examples
    stream = frozen_stream("label noise", seed)
    coins = stream.random_sample(len(examples.train_y))
    drawn = stream.randint(0, len(examples.class_names), len(examples.train_y))
    labels = np.where(coins < share, drawn, examples.train_y)
    noisy = examples.named(f"label noise {share!r} seed {seed}")
    return replace(noisy, train_y=labels.astype(np.int64))


def random_pixels(examples: Examples, seed: int) -> Examples:
    """Each training image replaced by Gaussian pixels (Zhang et al. 2016, arXiv:1611.03530).

    They have the mean and the variance of all pixels of the training set and are not cut off at
    0 and 1. Labels and test images stay true.
    """
    mean, deviation = (
        examples.train_x.mean(dtype=np.float64),
        examples.train_x.std(dtype=np.float64),
    )
    stream = frozen_stream("random pixels", seed)
    pixels = np.empty_like(examples.train_x)
    for image in pixels:  # one at a time: normal() makes float64
        image[...] = stream.normal(mean, deviation, image.shape)
    return replace(examples.named(f"random pixels seed {seed}"), train_x=pixels)
