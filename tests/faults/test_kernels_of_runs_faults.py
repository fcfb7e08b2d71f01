"""Random runs of every regime and network, one after the other: `dgn kernels` is true of each."""

from __future__ import annotations

from pathlib import Path

import pytest

from dgn_engine.model.nets import all_nets
from dgn_engine.regimes import all_regimes
from tests.engine.cli.judged_run import judge
from tests.plugins import each

pytestmark = [pytest.mark.faults, pytest.mark.timeout(7200)]
SEEDS = 5  # of each pair; that of the usual tests is 0


@pytest.mark.parametrize("net", each(all_nets()))
@pytest.mark.parametrize("regime", each(regime.name for regime in all_regimes()))
def test_files_of_kernels_are_of_the_runs_as_they_are(
    tmp_path: Path, regime: str, net: str
) -> None:
    for seed in range(SEEDS):
        judge(tmp_path / str(seed), regime, net, seed)
    print(f"kernels of {SEEDS} runs of {net} in {regime}: those of the runs")
