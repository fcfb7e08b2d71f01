"""`dgn kernels` on random runs of every regime and network: numbers of that run at that step."""

from __future__ import annotations

from pathlib import Path

import pytest

from dgn_engine.model.nets import all_nets
from dgn_engine.regimes import all_regimes
from tests.engine.cli.judged_run import judge
from tests.plugins import each

# Every regime with a third of the networks, and every network with a third of the regimes; all
# pairs are in `make faults`.
PAIRS = [
    (regime.name, net)
    for row, regime in enumerate(all_regimes())
    for column, net in enumerate(all_nets())
    if (row + column) % 3 == 0
]


@pytest.mark.parametrize(("regime", "net"), each(PAIRS))
def test_a_file_of_kernels_is_of_the_run_as_it_is_at_that_step(
    tmp_path: Path, regime: str, net: str
) -> None:
    judge(tmp_path, regime, net, 0)
