"""The whole window for minutes: its memory stays flat, and is back after ten other networks.

`SOAK_MINUTES=30 make faults` for half an hour; without it three minutes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.tables import Table

pytestmark = [pytest.mark.faults, pytest.mark.timeout(7200)]

MINUTES = float(os.environ.get("SOAK_MINUTES", "3"))
MB = 10**6
GROWN = 20 * MB  # in all the minutes of one run
FIRST = 160 * MB  # what libraries load and keep for networks of other kinds, once
AGAIN = 50 * MB  # by which a second round of the same ten networks may differ from the first


def test_memory_is_flat_and_is_back_after_ten_other_networks(tmp_path: Path, table: Table) -> None:
    row = table.row(f"soak: {MINUTES:g} minutes of one run, twice ten networks")
    row.injected += 21
    into = tmp_path / "samples.jsonl"
    environment = {
        **os.environ,
        "QT_QPA_PLATFORM": "offscreen",
        "DGN_RUNS_ROOT": str(tmp_path / "runs"),
        "XDG_CONFIG_HOME": str(tmp_path / "settings"),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    child = [sys.executable, "-m", "tests.faults.soaked_viewer", str(into)]
    child += ["--minutes", str(MINUTES), "--networks", "10", "--rounds", "2"]
    done = subprocess.run(child, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Failed(" not in done.stderr, done.stderr[-2000:]
    assert "RecordingPaused(" not in done.stderr, done.stderr[-2000:]
    samples = [json.loads(line) for line in into.read_text("utf-8").splitlines()]

    def memory(phase: str) -> list[int]:
        return [sample["rss"] for sample in samples if sample["phase"] == phase]

    begun, ended = memory("warm")[-1], memory("steady")[-1]
    first, second = memory("again 1")[-1], memory("again 2")[-1]
    recorded = samples[-1]["recorded"]
    row.remark = (
        f"{begun // MB} → {ended // MB} MB in {samples_steps(samples):,} steps; {first // MB} and "
        f"{second // MB} MB after ten and twenty other networks; {recorded // MB} MB recorded"
    )
    assert ended - begun < GROWN
    assert first - begun < FIRST
    assert second - first < AGAIN
    row.survived += 21


def samples_steps(samples: list[dict[str, int]]) -> int:
    """Steps of the first run."""
    return max(one["step"] for one in samples if one["phase"] in ("warm", "steady"))
