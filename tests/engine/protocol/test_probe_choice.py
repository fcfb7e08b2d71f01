"""Which examples a probe set is made of, as text."""

from __future__ import annotations

import base64
import zlib

import numpy as np
import pytest

from dgn_engine.protocol.probe_choice import ProbeChoice, pack_pixels, unpack_pixels
from tests.refusals import refused


@pytest.mark.parametrize(
    ("text", "choice", "words"),
    [
        ("", ProbeChoice(), "balanced over the classes"),
        ("classes 3, 8", ProbeChoice(classes=("3", "8")), "classes 3, 8"),
        ("classes 3", ProbeChoice(classes=("3",)), "class 3"),
        (" rows 5,0,5 ;", ProbeChoice(rows=(5, 0)), "2 selected"),
        (
            "rows 1,2; drawn ab-_",
            ProbeChoice(rows=(1, 2), drawn=("ab-_",)),
            "2 selected, and 1 drawn",
        ),
    ],
)
def test_a_choice_is_read_from_its_text_and_written_again(
    text: str, choice: ProbeChoice, words: str
) -> None:
    assert ProbeChoice.parse(text) == choice == ProbeChoice.parse(str(choice))
    assert choice.in_words == words


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("colour 3", "unknown-key", "colour 3"),
        ("classes", "unknown-key", "classes"),
        ("classes 3; rows 1", "contradiction", None),
        ("rows 1,-2", "not-a-number", "-2"),
        ("drawn a,b,c,d,e,f,g,h,i", "too-large", 9),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, kind: str, value: object) -> None:
    with refused(kind, value=value):
        ProbeChoice.parse(text)


def test_a_drawn_example_is_packed_and_unpacked_and_never_more_than_its_shape() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (1, 8, 8)).astype(np.uint8)
    np.testing.assert_array_equal(unpack_pixels(pack_pixels(pixels), (1, 8, 8)), pixels)
    bomb = base64.urlsafe_b64encode(zlib.compress(bytes(1 << 24))).decode()
    for word, shape in (
        (pack_pixels(pixels), (1, 8, 9)),
        ("!!", (1, 8, 8)),
        ("", (1, 1, 1)),
        (bomb, (1, 8, 8)),
    ):
        with refused("wrong-shape"):
            unpack_pixels(word, shape)
