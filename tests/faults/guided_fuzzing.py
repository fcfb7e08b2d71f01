"""Coverage-guided fuzzing of the reader: `make fuzz`, or `python -m tests.faults.guided_fuzzing`.

atheris (libFuzzer for Python) changes seeds so that new branches of
`dgn_engine.storage.checkpoints` are reached; where it is not installed,
hypothesis changes the same seeds blindly. Each target runs in
a process of its own; nothing that it does may open, import or call anything. A number of runs is
given, not a time, so that it ends; the counts are printed.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.faults import fuzz_targets, tables

RUNS = 100_000  # of each target
_DONE = re.compile(r"Done (\d+) (?:runs )?in (\d+) second")
_COVERED = re.compile(r"cov: (\d+)")


def main(arguments: Sequence[str] | None = None) -> int:
    """0 where every input was read or refused; 1 where one of them broke the reader."""
    given = parser().parse_args(arguments)
    if given.target:
        print(f"Done {fuzz_targets.blind(given.target, given.runs, given.seed)} in 0 seconds")
        return 0
    guided = importlib.util.find_spec("atheris") is not None and not given.blind
    how = "atheris, guided by coverage" if guided else "hypothesis, blind"
    print(f"{how}; {given.runs:,} inputs of at most {fuzz_targets.LONGEST:,} bytes for each target")
    print(f"{'target':24} {'inputs':>10} {'seconds':>8} {'branches':>9}  verdict")
    total, broken = 0, 0
    for target in fuzz_targets.TARGETS:
        tried, seconds, covered, trouble = _child(target, given.runs, given.seed, guided)
        total += tried
        broken += bool(trouble)
        verdict = trouble or "read or refused, nothing run"
        print(f"{target:24} {tried:10,} {seconds:8.0f} {covered:>9}  {verdict}", flush=True)
        tables.append_rows(
            "guided",
            [
                {
                    "target": target,
                    "how": how,
                    "inputs": tried,
                    "seconds": round(seconds),
                    "branches": covered,
                    "broken": bool(trouble),
                }
            ],
        )
    print(f"{total:,} inputs, {broken} targets broken")
    return 1 if broken else 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    result = argparse.ArgumentParser(prog="guided_fuzzing", description=__doc__)
    result.add_argument("--runs", type=int, default=RUNS, help="inputs for each target")
    result.add_argument("--seed", type=int, default=1)
    result.add_argument("--blind", action="store_true", help="hypothesis, not atheris")
    result.add_argument("--target", choices=fuzz_targets.TARGETS, help=argparse.SUPPRESS)
    return result


def _child(target: str, runs: int, seed: int, guided: bool) -> tuple[int, float, str, str]:
    """Inputs tried, seconds, branches reached, and what went wrong or ''."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        what = ["--target", target, "--runs", str(runs), "--seed", str(seed)]
        command = [sys.executable, "-m", "tests.faults.guided_fuzzing", *what]
        if guided:
            fuzz_targets.write_seeds(target, place)
            options = [f"-runs={runs}", f"-seed={seed}", f"-max_len={fuzz_targets.LONGEST}"]
            options += ["-timeout=20", "-rss_limit_mb=1500", f"-artifact_prefix={folder}/"]
            options += [f"-dict={folder}/words", f"{folder}/seeds"]
            command = [sys.executable, "-m", "tests.faults.atheris_child", target, *options]
        began = time.monotonic()
        done = subprocess.run(command, capture_output=True, check=False)
        seconds = time.monotonic() - began
        said = (done.stdout + done.stderr).decode("utf-8", "replace")
        tried = max((int(n) for n, _ in _DONE.findall(said)), default=0)
        covered = _COVERED.findall(said)
        trouble = "" if done.returncode == 0 and tried else _trouble(said, place)
    return tried, seconds, covered[-1] if covered else "-", trouble


def _trouble(said: str, place: Path) -> str:
    """The last words, and the input that did it in hexadecimal digits."""
    inputs = [f.read_bytes().hex() for f in place.glob("*-*") if f.is_file()]
    errors = [line for line in said.splitlines() if "Error: " in line or "ERROR: " in line]
    return " ".join([*(errors or said.splitlines()[-3:]), "by", *inputs])


if __name__ == "__main__":
    sys.exit(main())
