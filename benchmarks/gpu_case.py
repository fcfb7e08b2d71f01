"""One case of `make gpu` in a process of its own.

`python -m benchmarks.gpu_case NAME --out F.json` writes the row; where something fails, the last
line that it prints says what.
"""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from pathlib import Path

import torch

from benchmarks import report
from benchmarks.case import Case
from benchmarks.measure import measure
from benchmarks.training_epochs import EAGER
from dgn_engine.plugins import discover_plugins


def cases() -> dict[str, Case]:
    """By name, in the order in which they are measured: the lowest rank first."""
    found = discover_plugins("benchmarks.gpu_cases", "CASE", Case)
    return dict(sorted(found.items(), key=lambda pair: (pair[1].rank, pair[0])))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_case", description=__doc__)
    parser.add_argument("name", choices=tuple(cases()))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rounds-for", type=float, default=20.0, metavar="S", help="seconds")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--dry", action="store_true", help="one round of a few examples on the CPU")
    parser.add_argument("--device", help="default: cuda; with --dry cpu")
    given = parser.parse_args(arguments)
    case = cases()[given.name]
    device = torch.device(given.device or ("cpu" if given.dry else "cuda"))
    try:
        row = measure(given.name, case, device, given.quick, given.rounds_for, given.dry)
    except Exception as error:
        traceback.print_exc()
        first = (str(error).strip().splitlines() or [""])[0]
        print(f"{type(error).__name__}: {first}", file=sys.stderr, flush=True)
        return 1
    eager = {"eager": sorted(set(EAGER))} if EAGER else {}
    given.out.write_text(json.dumps(report.tree(row) | eager), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
