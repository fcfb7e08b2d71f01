"""2,000 random modules: `adapt` refuses each or is equal to autograd, to 1e-10 in float64."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.engine.kernels.module_grammar import judged

pytestmark = [pytest.mark.faults, pytest.mark.timeout(7200)]
DRAWS, FIRST, AT_ONCE = 2000, 100, 200  # the first hundred are in the usual tests


@pytest.mark.parametrize("first", range(FIRST, FIRST + DRAWS, AT_ONCE))
def test_random_modules_are_refused_or_equal_to_autograd(first: int) -> None:
    verdicts = Counter(judged(seed)[0] for seed in range(first, first + AT_ONCE))
    print(f"modules {first} to {first + AT_ONCE - 1}: {dict(verdicts)}")
    assert min(verdicts["equal"], verdicts["refused"]) > AT_ONCE // 4
