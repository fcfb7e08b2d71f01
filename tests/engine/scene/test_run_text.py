"""What a run is called in the toolbar and under figures."""

import pytest

from dgn_engine.config import DataConfig
from dgn_engine.scene.run_text import ago, data_in_words


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (DataConfig(), "digits"),
        (DataConfig("mnist", binary=(4, 7)), "mnist 4|7"),
        (DataConfig("folder:/data/flowers"), "folder flowers"),
        (DataConfig(label_noise=0.25), "digits, 25 % label noise"),
        (DataConfig(label_noise=1, pixels="random"), "digits, 100 % label noise, random pixels"),
    ],
)
def test_data_that_are_spoilt_are_called_so(data: DataConfig, words: str) -> None:
    assert data_in_words(data) == words


def test_a_moment_is_described_by_how_long_ago_it_was() -> None:
    assert [ago(s) for s in (-5, 10, 70, 7300, 90_000, 900_000)] == [
        "just now",
        "just now",
        "1 min ago",
        "2 h ago",
        "1 day ago",
        "10 days ago",
    ]
