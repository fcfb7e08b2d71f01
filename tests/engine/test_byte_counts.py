"""Numbers of bytes in words."""

from __future__ import annotations

import pytest

from dgn_engine.text.byte_counts import binary_size_in_words, bytes_in_words


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1 kB"),
        (9_994, "9.99 kB"),
        (9_996, "10 kB"),
        (99_960, "100 kB"),
        (999_400, "999 kB"),
        (999_500, "1 MB"),
        (7.64e6, "7.64 MB"),
        (12.34e6, "12.3 MB"),
        (310.4e6, "310 MB"),
        (43e9, "43 GB"),
        (2.1e15, "2,100 TB"),
    ],
)
def test_bytes_are_said_in_three_digits(count: float, words: str) -> None:
    assert bytes_in_words(count) == words


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 bytes"),
        (512, "512 bytes"),
        (1 << 20, "1 MiB"),
        (1000 << 20, "1,000 MiB"),
        (1.5 * 2**30, "1.5 GiB"),
        (1.25 * 2**30, "1.25 GiB"),
        (2 << 40, "2 TiB"),
    ],
)
def test_limits_are_said_as_they_are_typed(count: float, words: str) -> None:
    assert binary_size_in_words(count) == words
