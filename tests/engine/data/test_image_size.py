"""Images of another size and grey ones in several channels, as a configuration asks for them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from dgn_engine.config import DataConfig
from dgn_engine.data import load_examples
from dgn_engine.data._preprocessing import as_stored, in_channels, preprocessing_of, resized
from tests.refusals import refused

DIGITS = DataConfig("digits", train_limit=30, test_limit=20)
ASKED = replace(DIGITS, image_size=12, image_channels=3, normalise="imagenet")


def test_a_part_that_is_prepared_later_is_as_if_all_had_been() -> None:
    whole, raw = load_examples(ASKED), load_examples(as_stored(ASKED))
    assert as_stored(ASKED) == DIGITS
    assert whole.train_x.shape == (30, 3, 12, 12)
    part = preprocessing_of(ASKED)(torch.from_numpy(raw.test_x[3:9]))
    np.testing.assert_allclose(part.numpy(), whole.test_x[3:9], atol=1e-6)
    assert (whole.train_y == raw.train_y).all()


def test_what_has_the_channels_and_the_size_stays_as_it_is() -> None:
    raw = load_examples(DIGITS)
    assert in_channels(raw, 1) is raw
    assert resized(raw, 8) is raw
    colour = in_channels(raw, 3)
    assert in_channels(colour, 3) is colour


def test_what_cannot_be_is_refused() -> None:
    colour = in_channels(load_examples(DIGITS), 3)
    with refused("other-inputs", place="data.image_channels", value=4):
        in_channels(colour, 4)
    vectors = DataConfig("identical", options=(("dim", 5), ("n", 8)))
    with refused("other-inputs", place="data.image_channels", value=3):
        load_examples(replace(vectors, image_channels=3))
    with refused("not-images"):
        load_examples(replace(vectors, image_size=3))
    raw = load_examples(DIGITS)
    resized(raw, 16, most=50 * 16 * 16)
    with refused("too-large") as refusal:
        resized(raw, 16, most=50 * 16 * 16 - 1)
    assert "1×16×16" in str(refusal.error)


def test_images_that_are_resized_a_few_at_a_time_are_all_resized() -> None:
    raw = load_examples(DIGITS)
    whole = resized(raw, 12)
    for at_once in (1, 7, 30):
        few = resized(raw, 12, at_once=at_once)
        np.testing.assert_allclose(few.train_x, whole.train_x, atol=1e-6)
        np.testing.assert_allclose(few.test_x, whole.test_x, atol=1e-6)
