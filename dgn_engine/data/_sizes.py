"""The number of examples that a configuration selects, and their shape, without loading them."""

from __future__ import annotations

from dgn_engine.config import DataConfig
from dgn_engine.data._dataset import DataSizes
from dgn_engine.errors import UserError


def sizes_after_limits(whole: DataSizes, config: DataConfig, balanced: bool) -> DataSizes | None:
    """Return the sizes of what a configuration selects of a whole set.

    None if they depend on its labels or on a file. `balanced`: see `known_sizes`.
    """
    train, test, classes = whole.train, whole.test, whole.classes
    if config.test_indices:
        return None
    if config.binary is not None:
        if classes > 2 and not balanced:
            return None
        if max(config.binary) >= max(classes, 2):
            return None  # the classes are only known after loading
        if classes > 2:
            train, test = 2 * train // classes, 2 * test // classes
        classes = 1
    train = min(train, config.train_limit or train)
    test = min(test, config.test_limit or test)
    return DataSizes(train, test, prepared_shape(config, whole.shape), classes)


def prepared_shape(config: DataConfig, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of one example with the requested channels and size.

    Raises:
        UserError: That is impossible.
    """
    if len(shape) != 3:
        if config.image_size:
            raise UserError(
                "Only images can be resized; these examples are vectors.", kind="not-images"
            )
        return shape
    channels, *sides = shape
    if config.image_channels > 1 and channels == 1:
        channels = config.image_channels
    return (channels, *([config.image_size] * 2 if config.image_size else sides))
