"""Pixels are normalised as the user did, images resized and given channels as asked for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from dgn_engine.config import DataConfig
from dgn_engine.data import load_examples
from dgn_engine.data._normalisation import NORMALISATIONS, parse_normalisation
from dgn_engine.data._preprocessing import (
    Preprocessing,
    convert_channels,
    preprocessing_of,
    resize_examples,
    without_preprocessing,
)
from tests.refusals import refused


@pytest.mark.parametrize("name", NORMALISATIONS)
def test_each_name_is_its_mean_and_deviation_channel_by_channel(name: str) -> None:
    mean, deviation = NORMALISATIONS[name]
    x = np.random.default_rng(0).random((4, len(mean), 5, 6))
    how = parse_normalisation(name)
    assert how is not None
    found = how(x)
    for channel, (m, s) in enumerate(zip(mean, deviation, strict=True)):
        np.testing.assert_allclose(found[:, channel], (x[:, channel] - m) / s, rtol=1e-14)


def test_numbers_are_taken_for_each_channel_or_one_for_all() -> None:
    x = np.random.default_rng(0).random((4, 3, 2, 2)) * 255
    three, one = parse_normalisation("1,2,3/4,5,6"), parse_normalisation("0.5/0.25")
    assert three is not None
    assert one is not None
    np.testing.assert_allclose(three(x)[:, 2], (x[:, 2] - 3) / 6, rtol=1e-14)
    np.testing.assert_allclose(one(x.reshape(4, 12)), (x.reshape(4, 12) - 0.5) / 0.25, rtol=1e-14)
    assert "1,2,3/4,5,6" in three.in_words


def test_none_leaves_everything() -> None:
    assert parse_normalisation("none") is None
    assert load_examples(DataConfig()).fingerprint == (
        load_examples(DataConfig(normalise="none")).fingerprint
    )


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("cifar", "unknown-name"),
        ("a/b", "unknown-name"),
        ("1/2/3", "unknown-name"),
        ("1,2/3", "out-of-bounds"),
        ("1/0", "out-of-bounds"),
        ("0/1e-320", "out-of-bounds"),
        ("1e30/1", "out-of-bounds"),
        ("nan/1", "out-of-bounds"),
    ],
)
def test_what_says_no_normalisation_is_refused_before_anything_is_loaded(
    text: str, kind: str
) -> None:
    with refused(kind) as refusal:
        load_examples(DataConfig(normalise=text))
    assert "'cifar10'" in str(refusal.error) or text != "cifar"


def test_pixels_and_channels_that_are_others_are_refused() -> None:
    mnist, imagenet = parse_normalisation("mnist"), parse_normalisation("imagenet")
    assert mnist is not None
    assert imagenet is not None
    with refused("out-of-bounds") as refusal:
        mnist(np.array([[0.0, 255.0]]))
    assert "255" in str(refusal.error)
    for x in (np.zeros((2, 1, 4, 4)), np.zeros((2, 9))):
        with refused("other-inputs"):
            imagenet(x)


def test_examples_of_a_configuration_are_normalised_and_are_another_set() -> None:
    plain, found = load_examples(DataConfig()), load_examples(DataConfig(normalise="0.3/0.4"))
    for part in ("train_x", "test_x"):
        wanted = (getattr(plain, part) - np.float32(0.3)) / np.float32(0.4)
        np.testing.assert_allclose(getattr(found, part), wanted, rtol=1e-6)
        assert getattr(found, part).dtype == np.float32
    assert found.fingerprint != plain.fingerprint


def test_resizing_and_normalising_are_the_same_in_either_order() -> None:
    images = torch.rand((2, 3, 20, 40), dtype=torch.float64)
    how = parse_normalisation("cifar10")
    assert how is not None
    resized = Preprocessing(10)(images)
    twin = how(resized.numpy())
    np.testing.assert_allclose(Preprocessing(10, "cifar10")(images).numpy(), twin, rtol=1e-10)


DIGITS = DataConfig("digits", train_limit=30, test_limit=20)
ASKED = replace(DIGITS, image_size=12, image_channels=3, normalise="imagenet")


def test_a_part_that_is_prepared_later_is_as_if_all_had_been() -> None:
    whole, raw = load_examples(ASKED), load_examples(without_preprocessing(ASKED))
    assert without_preprocessing(ASKED) == DIGITS
    assert whole.train_x.shape == (30, 3, 12, 12)
    part = preprocessing_of(ASKED)(torch.from_numpy(raw.test_x[3:9]))
    np.testing.assert_allclose(part.numpy(), whole.test_x[3:9], atol=1e-6)
    assert (whole.train_y == raw.train_y).all()


def test_what_has_the_channels_and_the_size_stays_as_it_is() -> None:
    raw = load_examples(DIGITS)
    assert convert_channels(raw, 1) is raw
    assert resize_examples(raw, 8) is raw
    colour = convert_channels(raw, 3)
    assert convert_channels(colour, 3) is colour


def test_what_cannot_be_is_refused() -> None:
    colour = convert_channels(load_examples(DIGITS), 3)
    with refused("other-inputs", place="data.image_channels", value=4):
        convert_channels(colour, 4)
    vectors = DataConfig("identical", options=(("dim", 5), ("n", 8)))
    with refused("other-inputs", place="data.image_channels", value=3):
        load_examples(replace(vectors, image_channels=3))
    with refused("not-images"):
        load_examples(replace(vectors, image_size=3))
    raw = load_examples(DIGITS)
    resize_examples(raw, 16, most=50 * 16 * 16)
    with refused("too-large") as refusal:
        resize_examples(raw, 16, most=50 * 16 * 16 - 1)
    assert "1×16×16" in str(refusal.error)


def test_images_that_are_resized_a_few_at_a_time_are_all_resized() -> None:
    raw = load_examples(DIGITS)
    whole = resize_examples(raw, 12)
    for at_once in (1, 7, 30):
        few = resize_examples(raw, 12, at_once=at_once)
        np.testing.assert_allclose(few.train_x, whole.train_x, atol=1e-6)
        np.testing.assert_allclose(few.test_x, whole.test_x, atol=1e-6)
