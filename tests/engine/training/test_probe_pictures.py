"""Pictures of the probe examples: the pixels of the data, whatever was done to them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from dgn_engine.protocol.watching import ProbeSet
from dgn_engine.training.probe_pictures import LONGEST, SIDE, make_pictures

SET = ProbeSet((4, 7), (0, 1), ("a", "b"), "digest")
RANDOM = np.random.default_rng(0)


def test_grey_images_in_the_unit_range_are_shown_as_they_are() -> None:
    x = RANDOM.random((2, 1, 5, 6)).astype(np.float32)
    x[0, 0, 0, :2] = 0.0, 1.0
    found = make_pictures(SET, x, "none")
    assert found.images is not None
    np.testing.assert_array_equal(found.images, np.rint(255 * x[:, 0].astype(float)))
    assert (found.images[0, 0, 0], found.images[0, 0, 1]) == (0, 255)
    assert (found.remark, found.missing, found.vectors) == ("", "", None)


def test_a_normalisation_is_undone_before_they_are_shown() -> None:
    levels = RANDOM.integers(0, 256, (2, 3, 4, 4))
    mean = np.reshape((0.4914, 0.4822, 0.4465), (1, 3, 1, 1))
    deviation = np.reshape((0.2470, 0.2435, 0.2616), (1, 3, 1, 1))
    x = ((levels / 255 - mean) / deviation).astype(np.float32)
    found = make_pictures(SET, x, "cifar10")
    assert found.images is not None
    np.testing.assert_array_equal(found.images, levels.transpose(0, 2, 3, 1))
    assert found.remark == ""


def test_pixels_of_another_range_are_scaled_and_that_is_said() -> None:
    x = np.array([-2.0, 0.0, 2.0, 6.0]).reshape(2, 1, 1, 2)
    found = make_pictures(SET, x, "none")
    assert found.images is not None
    assert found.images.ravel().tolist() == [0, 64, 128, 255]
    assert "black is −2 and white 6" in found.remark


def test_large_images_are_means_of_blocks_and_odd_channels_are_averaged() -> None:
    x = RANDOM.random((2, 2, 130, 260))
    found = make_pictures(SET, x, "none")
    assert found.images is not None
    assert found.shape == (2, 26, 52)
    assert max(found.shape) <= SIDE
    slow = x[1, :, 5:10, 250:255].mean()
    assert found.images[1, 1, 50] == round(255 * slow)
    assert "mean of 2 channels" in found.remark
    assert "reduced from 130×260 pixels" in found.remark


@pytest.mark.parametrize("wide", [2, LONGEST])
def test_vectors_are_their_numbers_and_cannot_be_written_to(wide: int) -> None:
    x = RANDOM.normal(size=(2, wide)).astype(np.float32)
    found = pickle.loads(pickle.dumps(make_pictures(SET, x, "none")))
    np.testing.assert_array_equal(found.vectors, x)
    assert found.images is None
    assert not found.vectors.flags.writeable


def test_what_has_no_picture_says_why() -> None:
    assert "1,025 numbers" in make_pictures(SET, np.zeros((2, LONGEST + 1)), "none").missing
    assert make_pictures(SET, np.zeros((2, 3, 4)), "none").missing
    flat = make_pictures(SET, np.full((2, 1, 2, 2), 3.0), "none")
    assert flat.images is not None
    assert not flat.images.any()
