"""Where the tests of this folder compute: on the CPU in every suite, on a card by `make gpu`.

What holds on both is written once; the suite without a card sees that the test itself is sound.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
import torch

PATIENCE = 60.0  # seconds for what is done beside the steps
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> torch.device:
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("torch finds no card")
    return torch.device(request.param)


@pytest.fixture
def in_time() -> Callable[[], bool]:
    """Return True as long as the test may wait; then it fails, and the others have their turn."""
    until = time.monotonic() + PATIENCE

    def check() -> bool:
        assert time.monotonic() < until
        return True

    return check


@pytest.fixture(autouse=True, scope="module")
def own_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing goes among the user's own runs, whose folder takes platformdirs to find."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DGN_HOME", str(tmp_path_factory.mktemp("home")))
        yield
