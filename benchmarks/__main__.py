"""`python -m benchmarks [--only NAME] [--quick] [--out F.json]`: the whole table in one run."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import torch

from benchmarks import machine, report
from benchmarks.case import Case
from benchmarks.floors import add_floors
from benchmarks.measure import measure_case
from benchmarks.rates import measure_rates
from benchmarks.timing import pin_to_one_core
from dgn_engine.plugins import discover_plugins


def main() -> int:
    """Run the cases and print each row. Return 1 if methods disagree, 2 for an unknown name."""
    pin_to_one_core()  # before any import that times which matrix product is faster
    cases = discover_plugins("benchmarks.cases", "CASE", Case)
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", action="append", choices=list(cases), help="one case; repeatable")
    parser.add_argument("--quick", action="store_true", help="fewer examples, three rounds")
    parser.add_argument("--out", type=Path, help="write everything as JSON")
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), help="default: both where there is one"
    )
    arguments = parser.parse_args()
    devices = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
    runs = []
    disagreements = 0
    for kind in [arguments.device] if arguments.device else devices:
        device = torch.device(kind)
        about = machine.describe_machine(device)
        print(*(f"{key}: {value}" for key, value in about.items()), sep="\n")
        rates = measure_rates(device)
        print(f"rates: {report.format_rates(rates)}", end="\n\n", flush=True)
        rows = []
        for name in arguments.only or cases:
            row = report.encode_row(measure_case(name, cases[name], device, arguments.quick))
            add_floors(row, rates)
            print(report.format_row(row), end="\n\n", flush=True)
            disagreements += not row["agrees"]
            rows.append(row)
        runs.append({"machine": about, "quick": arguments.quick, "rates": rates, "cases": rows})
        if arguments.out:
            arguments.out.parent.mkdir(parents=True, exist_ok=True)
            arguments.out.write_text(json.dumps(runs, indent=1), encoding="utf-8")
    return 1 if disagreements else 0


if __name__ == "__main__":
    sys.exit(main())
