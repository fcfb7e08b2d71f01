"""Ten thousand runs are listed, and a log of ten million lines is read: seconds and memory, which
are measured and not asserted.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from dgn_engine.storage.runs import folder_layout
from tests.faults import hostile_runs
from tests.faults.tables import append_rows

pytestmark = [pytest.mark.faults, pytest.mark.timeout(7200)]

RUNS = 10_000
LINES = 10_000_000
ROOT = Path(__file__).parents[2]
# A process begins with the peak of the one that started it, except in what Linux writes down.
MEASURED = """
import pathlib, re, resource, sys, time
from dgn_engine.cli import main
began = time.monotonic()
code = main(sys.argv[1:])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
peak *= 1 if sys.platform == "darwin" else 1024
told = pathlib.Path("/proc/self/status")
if told.exists():
    peak = int(re.search(r"VmHWM:\\s+(\\d+)", told.read_text())[1]) * 1024
print(code, time.monotonic() - began, peak, file=sys.stderr)
"""


def measure(what: str, place: Path, *arguments: object) -> tuple[int, str]:
    """Run `dgn`, keep a row, and return its exit code and what it said."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(place / "cache")}
    paths = [str(ROOT), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    code, seconds, peak = done.stderr.split()
    row = {"what": what, "seconds": float(seconds), "peak": int(peak)}
    print(row)
    append_rows("measured", [row])
    return int(code), done.stdout


def test_ten_thousand_runs_are_listed(quick_disk: Path) -> None:
    hostile_runs.make_honest(quick_disk / "one", steps=40)
    for number in range(RUNS):
        shutil.copytree(quick_disk / "one", quick_disk / "runs" / f"run-{number:05}")
    for what in ("read for the first time", "from the cache"):
        code, said = measure(
            f"a list of {RUNS:,} runs, {what}", quick_disk, "runs", "list", quick_disk / "runs"
        )
        assert code == 0
        assert said.count("\n") == 1 + RUNS


def write_long(log: Path, lines: int) -> None:
    """A log goes on to so many lines: two scores, then a scalar, and so on."""
    first = log.read_bytes().count(b"\n")
    with log.open("ab") as file:
        for seq in range(first, lines):
            head = f'{{"seq":{seq},"at":{1e9 + seq / 100:.3f},"event":'
            if seq % 3 == 2:
                body = f'"Traced","step":{seq},"probe":"npk","values":{{"nu":1.25,"rank":4.0}}'
            else:
                tested = (
                    '0.5,"test_accuracy":0.75' if seq % 60 == 0 else 'null,"test_accuracy":null'
                )
                body = (
                    f'"Measured","step":{seq},"epoch":{seq / 45:.4f},"train_loss":0.51234,'
                    f'"train_accuracy":0.875,"test_loss":{tested}'
                )
            raw = (head + body).encode()
            file.write(raw + b',"crc":"%08x"}\n' % zlib.crc32(raw))


def test_a_log_of_ten_million_lines_is_listed_shown_and_verified(quick_disk: Path) -> None:
    run = quick_disk / "runs" / "long"
    hostile_runs.make_honest(run, killed=True)
    write_long(run / folder_layout.LOG, LINES)
    lines = f"a log of {LINES:,} lines"
    code, said = measure(f"{lines}, listed", quick_disk, "runs", "list", quick_disk / "runs")
    assert code == 0
    assert f"{LINES - 1:,}" in said
    code, said = measure(f"{lines}, shown", quick_disk, "runs", "show", run)
    assert code == 0
    assert "best 100.00 %" in said
    code, said = measure(f"{lines}, verified", quick_disk, "runs", "verify", run)
    assert code == 0
    assert "is intact" in said
