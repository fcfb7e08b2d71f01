"""Measure one case of `make gpu` in its own process.

`python -m benchmarks.gpu_case NAME --out F.json` writes the row; if it fails, the last line it
prints says why.
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
from benchmarks.measure import measure_case
from benchmarks.training_epochs import EAGER
from dgn_engine.plugins import discover_plugins


def find_cases() -> dict[str, Case]:
    """Return the cases by name, in the order of measurement: lowest rank first."""
    named = discover_plugins("benchmarks.gpu_cases", "CASE", Case)
    return dict(sorted(named.items(), key=lambda pair: (pair[1].rank, pair[0])))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_case", description=__doc__)
    parser.add_argument("name", choices=tuple(find_cases()))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rounds-for", type=float, default=20.0, metavar="S", help="seconds")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--dry", action="store_true", help="one round of a few examples on the CPU")
    parser.add_argument("--device", help="default: cuda; with --dry cpu")
    options = parser.parse_args(arguments)
    case = find_cases()[options.name]
    device = torch.device(options.device or ("cpu" if options.dry else "cuda"))
    try:
        row = measure_case(
            options.name, case, device, options.quick, options.rounds_for, options.dry
        )
    except Exception as error:
        traceback.print_exc()
        first = (str(error).strip().splitlines() or [""])[0]
        print(f"{type(error).__name__}: {first}", file=sys.stderr, flush=True)
        return 1
    eager = {"eager": sorted(set(EAGER))} if EAGER else {}
    options.out.write_text(json.dumps(report.encode_row(row) | eager), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
