"""`make gpu`: all that needs a CUDA card, in under eight minutes: tests, then a table.

    python -m benchmarks.gpu --out build/gpu.json --page docs/gpu.md

The tests are those marked `gpu`; the cases are those of `benchmarks/gpu_cases`. Without a card it
says so in one sentence and ends with exit code 3, and no page is touched.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import torch

from benchmarks import gpu_page, machine, report
from benchmarks.case import Case
from benchmarks.measure import measure
from dgn_engine.plugins import discover

NO_CARD = 3
NO_CARD_WORDS = (
    "make gpu needs a CUDA card and a torch built for it; torch finds no card here, so nothing was "
    "measured and docs/gpu.md stays as it is."
)
CASE_SECONDS = 20.0  # of rounds, for each case
TEST_SECONDS = 240  # that the tests may take
Tree = dict[str, object]


def tests() -> Tree:
    """Run the tests marked `gpu`; how they ended and their last line."""
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "-q", "-p", "no:cacheprovider", "tests"]
    began = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TEST_SECONDS)
    except subprocess.TimeoutExpired:
        return {"code": 1, "summary": f"stopped after {TEST_SECONDS} s", "seconds": TEST_SECONDS}
    print(done.stdout[-4000:], done.stderr[-2000:], sep="\n", flush=True)
    lines = done.stdout.strip().splitlines() or ["no output"]
    seconds = round(time.monotonic() - began, 1)
    return {"code": done.returncode, "summary": lines[-1].strip("= "), "seconds": seconds}


def table(device: torch.device, quick: bool, only: list[str] | None) -> list[Tree]:
    """Every case; one that fails is a row that says why, and the others go on."""
    rows: list[Tree] = []
    for name, case in discover("benchmarks.gpu_cases", "CASE", Case).items():
        if only and name not in only:
            continue
        try:
            row = measure(name, case, device, quick, CASE_SECONDS)
        except Exception as error:  # a table with a gap says more than none
            why = f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
            print(f"{case.title}: {why}", flush=True)
            rows.append({"name": name, "title": case.title, "failed": why})
        else:
            print(report.text(row), end="\n\n", flush=True)
            rows.append(report.tree(row))
    return rows


def main(arguments: list[str] | None = None) -> int:
    """0 where the tests pass and every case was measured, 1 where not, 3 without a card."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/gpu.json"))
    parser.add_argument("--page", type=Path, help="Markdown page to write; default: beside --out")
    parser.add_argument("--only", action="append", help="one case; repeatable; no tests")
    parser.add_argument("--quick", action="store_true", help="fewer examples, three rounds")
    given = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        print(NO_CARD_WORDS, file=sys.stderr)
        return NO_CARD
    device = torch.device("cuda")
    began = time.monotonic()
    tested = tests() if not given.only else None
    rows = table(device, given.quick, given.only)
    found: Tree = {
        "measured": True,
        "machine": machine.machine(device) | {"cuda": torch.version.cuda},
        "quick": given.quick,
        "tests": tested,
        "cases": rows,
    }
    found["seconds"] = round(time.monotonic() - began, 1)
    page = given.page or given.out.with_suffix(".md")
    for path, text in (
        (given.out, json.dumps(found, indent=1)),
        (page, gpu_page.page(found)),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    print(f"{given.out} and {page} are written, after {found['seconds']} s.")
    sound = tested is None or tested["code"] == 0
    return 0 if sound and not any("failed" in row for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
