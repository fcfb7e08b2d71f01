"""The examples of a pack's networks, loaded once; what is the same lies in memory once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from torch import Tensor

from dgn_engine.config import DataConfig
from dgn_engine.data import Examples, load_examples
from dgn_engine.protocol.frames import Array
from dgn_engine.training.device_data import DeviceData


class SharedData:
    """Variants that differ in their labels alone share their images."""

    def __init__(self) -> None:
        self._loaded: dict[DataConfig, Examples] = {}
        self._tensors: dict[int, Tensor] = {}  # by the array they were made from

    def examples(self, config: DataConfig) -> Examples:
        """Raises `Refusal` where they cannot be loaded."""
        if config not in self._loaded:
            found, known = load_examples(config), self._loaded.values()
            found = replace(
                found,
                train_x=_known(found.train_x, [one.train_x for one in known]),
                test_x=_known(found.test_x, [one.test_x for one in known]),
            )
            self._loaded[config] = found
        return self._loaded[config]

    def shared(self, config: DataConfig, data: DeviceData) -> DeviceData:
        """`data`, made from these examples, with the images that other networks have already."""
        examples = self.examples(config)
        return replace(
            data,
            train_x=self._tensors.setdefault(id(examples.train_x), data.train_x),
            test_x=self._tensors.setdefault(id(examples.test_x), data.test_x),
        )


def _known(images: Array, known: Sequence[Array]) -> Array:
    same = (one for one in known if one.shape == images.shape and np.array_equal(one, images))
    return next(same, images)
