"""Random modules of a grammar: each is refused, or equal to autograd and to the path kernel."""

from __future__ import annotations

from collections import Counter

from tests.engine.kernels.module_grammar import judged

DRAWS = 40  # 2,000 more in tests/faults


def test_a_random_module_is_refused_or_equal_to_autograd() -> None:
    verdicts = Counter(judged(seed)[0] for seed in range(DRAWS))
    assert min(verdicts["equal"], verdicts["refused"]) > DRAWS // 4, "the grammar has both kinds"
