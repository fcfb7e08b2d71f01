"""What a run is called in the toolbar and under figures."""

import pytest

from dgn_engine.config import DataConfig
from dgn_viewer.scene.run_text import data_in_words


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
