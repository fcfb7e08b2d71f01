"""Images of another size and grey ones in several channels, as a configuration asks for them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from dgn_engine.config import DataConfig
from dgn_engine.data import _preprocessing, load_examples
from dgn_engine.data._preprocessing import as_stored, in_channels, preprocessing_of, resized
from dgn_engine.errors import UserError

DIGITS = DataConfig("digits", train_limit=30, test_limit=20)
ASKED = replace(DIGITS, image_size=12, image_channels=3, normalise="imagenet")


def test_a_part_that_is_prepared_later_is_as_if_all_had_been(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_preprocessing, "AT_ONCE", 7)
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


def test_what_cannot_be_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    colour = in_channels(load_examples(DIGITS), 3)
    with pytest.raises(UserError, match=r"image_channels is 4: only grey images, .* have 3\."):
        in_channels(colour, 4)
    vectors = DataConfig("identical", options=(("dim", 5), ("n", 8)))
    with pytest.raises(UserError, match=r"image_channels is 3: .*; these are vectors\."):
        load_examples(replace(vectors, image_channels=3))
    with pytest.raises(UserError, match="Only images can be resized"):
        load_examples(replace(vectors, image_size=3))
    monkeypatch.setattr(_preprocessing, "VALUES", 50 * 16 * 16 - 1)
    with pytest.raises(UserError, match=r"50 images of 1×16×16 need 50 KiB of memory; take fewer"):
        load_examples(replace(DIGITS, image_size=16))
