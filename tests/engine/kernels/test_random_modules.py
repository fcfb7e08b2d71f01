"""Random modules of a grammar: each is refused, or equal to autograd and to the path kernel."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.daily import nightly
from tests.engine.kernels.module_grammar import judge_module

DRAWS = 20  # and those up to 100 at night; 2,000 more in tests/faults


@pytest.mark.parametrize("start", [0, *nightly(*range(DRAWS, 100, DRAWS))])
def test_a_random_module_is_refused_or_equal_to_autograd(start: int) -> None:
    verdicts = Counter(judge_module(seed)[0] for seed in range(start, start + DRAWS))
    assert min(verdicts["equal"], verdicts["refused"]) > DRAWS // 7, "the grammar has both kinds"
