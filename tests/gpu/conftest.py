"""Where the tests of this folder compute: on the CPU in every suite, on a card by `make gpu`.

What holds on both is written once; the suite without a card sees that the test itself is sound.
"""

from __future__ import annotations

import pytest
import torch

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> torch.device:
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("torch finds no card")
    return torch.device(request.param)
