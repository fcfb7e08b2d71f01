"""`python -m benchmarks.peers [--only NAME] [--out F.json]`: the rows against neural-tangents."""

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
from benchmarks.peer import is_installed, start_peer
from benchmarks.rates import measure_rates
from benchmarks.timing import pin_to_one_core
from dgn_engine.plugins import discover_plugins


def main() -> int:
    """Run the cases and print each row. Without neural-tangents, say so and return 0."""
    pin_to_one_core()  # before any import that times which matrix product is faster
    cases = discover_plugins("benchmarks.peer_cases", "CASE", Case)
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--only", action="append", choices=list(cases), help="one case; repeatable")
    parser.add_argument("--out", type=Path, help="write everything as JSON")
    arguments = parser.parse_args()
    if not is_installed():
        print("Skipped: neural-tangents is not installed; `make bench-peers` tries to.")
        return 0
    about = machine.describe_machine(torch.device("cpu")) | {"peer": start_peer().versions}
    print(*(f"{key}: {value}" for key, value in about.items()), sep="\n")
    rates = measure_rates(torch.device("cpu"))
    print(f"rates: {report.format_rates(rates)}", end="\n\n", flush=True)
    rows = []
    disagreements = 0
    for name in arguments.only or cases:
        measured = measure_case(name, cases[name], torch.device("cpu"), quick=False)
        row = report.encode_row(measured)
        add_floors(row, rates)
        print(report.format_row(row), end="\n\n", flush=True)
        disagreements += not row["agrees"]
        rows.append(row)
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps([{"machine": about, "rates": rates, "cases": rows}], indent=1)
        arguments.out.write_text(text, encoding="utf-8")
    return 1 if disagreements else 0


if __name__ == "__main__":
    sys.exit(main())
