"""Pixels are normalised as the user did: by name, in numbers, or in a sentence why not."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dgn_engine.config import DataConfig
from dgn_engine.data import load_examples
from dgn_engine.data._normalisation import NORMALISATIONS, normalisation
from dgn_engine.data._preprocessing import Preprocessing
from dgn_engine.errors import UserError


@pytest.mark.parametrize("name", NORMALISATIONS)
def test_each_name_is_its_mean_and_deviation_channel_by_channel(name: str) -> None:
    mean, deviation = NORMALISATIONS[name]
    x = np.random.default_rng(0).random((4, len(mean), 5, 6))
    how = normalisation(name)
    assert how is not None
    found = how(x)
    for channel, (m, s) in enumerate(zip(mean, deviation, strict=True)):
        np.testing.assert_allclose(found[:, channel], (x[:, channel] - m) / s, rtol=1e-14)


def test_numbers_are_taken_for_each_channel_or_one_for_all() -> None:
    x = np.random.default_rng(0).random((4, 3, 2, 2)) * 255
    three, one = normalisation("1,2,3/4,5,6"), normalisation("0.5/0.25")
    assert three is not None
    assert one is not None
    np.testing.assert_allclose(three(x)[:, 2], (x[:, 2] - 3) / 6, rtol=1e-14)
    np.testing.assert_allclose(one(x.reshape(4, 12)), (x.reshape(4, 12) - 0.5) / 0.25, rtol=1e-14)
    assert three.in_words == "normalised by 1,2,3/4,5,6"


def test_none_leaves_everything() -> None:
    assert normalisation("none") is None
    assert load_examples(DataConfig()).fingerprint == (
        load_examples(DataConfig(normalise="none")).fingerprint
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cifar", "Did you mean 'cifar10'?"),
        ("a/b", "is none of none, imagenet"),
        ("1,2/3", "as many means as deviations"),
        ("1/0", "deviations from 1e-06 to 1,000,000"),
        ("0/1e-320", "deviations from 1e-06 to 1,000,000"),
        ("1e30/1", "means within ±1,000,000"),
        ("nan/1", "means within ±1,000,000"),
        ("1/2/3", "is none of none, imagenet"),
    ],
)
def test_what_says_no_normalisation_is_refused(text: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        normalisation(text)
    with pytest.raises(UserError, match=words):
        load_examples(DataConfig(normalise=text))


def test_a_named_normalisation_is_only_of_pixels_in_the_unit_interval() -> None:
    how = normalisation("mnist")
    assert how is not None
    with pytest.raises(UserError, match=r"pixels in \[0, 1\]; these go from 0 to 255"):
        how(np.array([[0.0, 255.0]]))


def test_channels_that_are_others_are_refused() -> None:
    how = normalisation("imagenet")
    assert how is not None
    for x, have in ((np.zeros((2, 1, 4, 4)), "have 1"), (np.zeros((2, 9)), "are rows of numbers")):
        with pytest.raises(UserError, match=f"of 3 channels; these images {have}"):
            how(x)


def test_examples_of_a_configuration_are_normalised_and_are_another_set() -> None:
    plain, found = load_examples(DataConfig()), load_examples(DataConfig(normalise="0.3/0.4"))
    for part in ("train_x", "test_x"):
        wanted = (getattr(plain, part) - np.float32(0.3)) / np.float32(0.4)
        np.testing.assert_allclose(getattr(found, part), wanted, rtol=1e-6)
        assert getattr(found, part).dtype == np.float32
    assert found.fingerprint != plain.fingerprint


def test_resizing_and_normalising_are_the_same_in_either_order() -> None:
    images = torch.rand((2, 3, 20, 40), dtype=torch.float64)
    how = normalisation("cifar10")
    assert how is not None
    resized = Preprocessing(10)(images)
    twin = how(resized.numpy())
    np.testing.assert_allclose(Preprocessing(10, "cifar10")(images).numpy(), twin, rtol=1e-10)
