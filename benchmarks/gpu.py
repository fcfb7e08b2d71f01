"""`make gpu`: everything that needs a CUDA card, in under eight minutes: tests, then a table.

    python -m benchmarks.gpu          # build/gpu.json, and a page beside it
    python -m benchmarks.gpu --dry    # the same at small size on the CPU: does all of it run?

The tests are those in `tests/gpu` marked `gpu`; they may take `TEST_SECONDS`. The cases are those
in `benchmarks/gpu_cases`, by rank, each in its own process, so that a CUDA fault ends only that
one. JSON and page are rewritten after each result, so that a killed session keeps what it has; a
case for which no time was left gets a row that says so. A copy of the JSON in docs/measurements is
shown by the documentation. Without a card, or if a required package is missing, it prints one
sentence and exits with code 3, and no file is touched. Any interpreter with
the packages in `NEEDED` will do: nothing is installed or downloaded.

A dry run uses the tests not marked `gpu`, and marks everything it writes as dry.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from time import monotonic as now
from typing import Any

from benchmarks.children import exit_on_signals, run_with_limit, write_atomically
from dgn_engine.confinement.child_process import python_command

NO_CARD = 3
NEEDED = {
    "torch": "torch",
    "numpy": "numpy",
    "scipy": "scipy",
    "safetensors": "safetensors",
    "sklearn": "scikit-learn",
    "PIL": "Pillow",
    "rich": "rich",
    "pytest": "pytest",
}
NO_CARD_WORDS = (
    "make gpu needs a CUDA card and a torch built for it; torch finds no card here, so nothing was "
    "measured and no file was written."
)
LIMIT = 460.0  # seconds for everything; the rest of the eight minutes is for shutting down
TEST_SECONDS = 200.0  # limit for the tests
CASE_SECONDS = 75.0  # limit for one case, including building its networks
RATE_SECONDS = 60.0  # limit for measuring the rates of the card
ROUND_SECONDS = 12.0  # of timed rounds per case
LEAST = 20.0  # seconds: with less time left, no case is started
TOO_LONG = 124  # exit code of tests that exceed their limit, as for `timeout`
NO_TIME = "it was not reached in time"
TESTS = ("-c", "tests/gpu/make_gpu.ini", "--rootdir=.", "--confcutdir=tests/gpu", "-v", "tests/gpu")
Tree = dict[str, Any]


def find_missing_packages() -> list[str]:
    """Return the required packages that this interpreter lacks, by their PyPI names."""
    return [name for module, name in NEEDED.items() if importlib.util.find_spec(module) is None]


class GpuReport:
    """The JSON and the page of one session, rewritten after each result."""

    def __init__(self, out: Path, page: Path, content: Tree) -> None:
        self.content = content
        self._out, self._page = out, page
        self._began = now()

    def write(self) -> None:
        from benchmarks import gpu_page

        self.content["seconds"] = round(now() - self._began, 1)
        write_atomically(self._out, json.dumps(self.content, indent=1))
        write_atomically(self._page, gpu_page.format_page(self.content))


def run_tests(content: Tree, seconds: float, dry: bool = False) -> None:
    """Run the tests and store their outcome in the content, even if a signal ends the run."""
    began = now()
    marks = "not gpu and not slow" if dry else "gpu"  # `slow` is the test of the dry run itself
    command = python_command("-m", "pytest", *TESTS, "-m", marks, "-p", "no:cacheprovider")
    # That module tests what `make gpu` itself needs, and runs parts of it.
    command += ["--ignore=tests/gpu/test_gpu_image.py"] * dry
    printed: list[str] = []
    code: int | None = None
    try:
        with tempfile.TemporaryDirectory() as home:  # keep out of the user's own runs
            code, _ = run_with_limit(
                command, seconds, _child_environment(home, dry), printed=printed
            )
            if code is None and seconds >= TEST_SECONDS:  # their own limit, not the session's
                code = TOO_LONG
    finally:
        content["tests"] = judge_tests(code, "".join(printed), now() - began)


def judge_tests(code: int | None, output: str, seconds: float) -> Tree:
    """Return 'passed', 'failed' or 'stopped' (without a failure until then), and a summary.

    Args:
        code: pytest's exit code, or None if it was stopped.
    """
    lines = output.strip().splitlines()
    failed = sum(bool(re.match(r"\S+::.* (FAILED|ERROR)\b", line)) for line in lines)
    word = "passed" if code == 0 else "stopped" if code is None and not failed else "failed"
    summary = lines[-1].strip("= ") if lines else ""
    if not re.search(r" in [\d.]+s", summary):  # it did not finish
        passed = sum(bool(re.match(r"\S+::.* PASSED\b", line)) for line in lines)
        begun = [line for line in lines if re.match(r"\S+::", line)] or ["none"]
        last = re.sub(r" (PASSED|FAILED|ERROR|SKIPPED)\b.*", "", begun[-1]).strip()
        how = "stopped" if code is None else f"ended with code {code}"
        summary = f"{how} after {seconds:.0f} s: {passed} had passed, {failed} failed; last: {last}"
    return {"word": word, "code": code, "summary": summary, "seconds": round(seconds, 1)}


def has_faults(content: Tree) -> bool:
    """Return whether a test or case failed, methods disagree or steps were not captured."""
    tests, rows = content["tests"], content["cases"]
    return (tests is not None and tests["word"] == "failed") or any(
        "failed" in row or row.get("eager") or not row.get("agrees", True) for row in rows
    )


def measure_rates(seconds: float, dry: bool = False) -> Tree | None:
    """Return the peak rates of the card, or None if measuring them failed."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "rates.json"
        command = python_command("-m", "benchmarks.rates", "--out", str(out))
        command += ["--device", "cpu" if dry else "cuda"]
        code, _ = run_with_limit(command, seconds, _child_environment(folder, dry))
        if code == 0:
            rates: Tree = json.loads(out.read_text("utf-8"))
            return rates
    return None


def measure_cases(
    report: GpuReport, quick: bool, until: float, dry: bool = False, rates: Tree | None = None
) -> None:
    """Measure the cases of a report in order until the deadline; a case that fails or is not
    reached keeps a row that says why. `until`: deadline on the clock `now`."""
    from benchmarks.floors import add_floors

    rows: list[Tree] = report.content["cases"]
    for index, row in enumerate(rows):
        left = until - now()
        if left < LEAST:
            break
        measured = run_case(row["name"], row["title"], quick, min(left, CASE_SECONDS), dry)
        why = measured.get("failed") or measured.get("skipped") or "measured"
        print(f"{row['title']}: {why}", flush=True)
        if rates is not None and "methods" in measured:
            add_floors(measured, rates)
        rows[index] = measured | ({"dry": True} if dry else {})
        report.write()


def run_case(name: str, title: str, quick: bool, seconds: float, dry: bool = False) -> Tree:
    """Measure one case in its own process."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "row.json"
        budget = max(1.0, min(ROUND_SECONDS, seconds / 4))
        command = python_command("-m", "benchmarks.gpu_case", name, "--out", str(out))
        command += ["--rounds-for", f"{budget:.1f}"]
        command += ["--quick"] * quick + ["--dry"] * dry
        code, output = run_with_limit(command, seconds, _child_environment(folder, dry))
        if code == 0 and out.exists():
            row: Tree = json.loads(out.read_text("utf-8"))
            return row
    if code is None and seconds < CASE_SECONDS:  # the session's limit, not its own
        return {"name": name, "title": title, "skipped": NO_TIME}
    why = (output.strip().splitlines() or [f"exit code {code}"])[-1].rstrip(".")
    if code is None:
        why = f"it was stopped after {seconds:.0f} s"
    return {"name": name, "title": title, "failed": why}


def _child_environment(home: str, dry: bool) -> Mapping[str, str]:
    """Return the changes to a child's environment: a dry run does not see a card."""
    return {"DGN_HOME": home, **({"CUDA_VISIBLE_DEVICES": ""} if dry else {})}


def main(arguments: list[str] | None = None) -> int:
    """Run the session and return its exit code.

    0: nothing failed, even if time ran out; 1: `has_faults`; 2: the output cannot be written;
    3: nothing can be measured; 128 + n: ended by signal n.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--out", type=Path, help="default: build/gpu.json, build/gpu-dry.json")
    parser.add_argument("--page", type=Path, help="Markdown page to write; default: beside --out")
    parser.add_argument("--only", action="append", help="one case; repeatable; no tests")
    parser.add_argument("--quick", action="store_true", help="fewer examples, three rounds")
    parser.add_argument("--dry", action="store_true", help="on the CPU, as small as possible")
    add_time_options(parser, LIMIT)
    options = parser.parse_args(arguments)
    until = compute_deadline(options)
    if lacks := find_missing_packages():
        print(
            f"make gpu needs {', '.join(lacks)}, which {sys.executable} lacks; install what is "
            "missing there, or name another interpreter with make GPU_PYTHON=python3 gpu.",
            file=sys.stderr,
        )
        return NO_CARD
    out = options.out or Path("build/gpu-dry.json" if options.dry else "build/gpu.json")
    page = options.page or out.with_suffix(".md")
    with exit_on_signals():
        import torch  # late: it may be missing

        if not options.dry and not torch.cuda.is_available():
            print(NO_CARD_WORDS, file=sys.stderr)
            return NO_CARD
        return _measure_all(options, out, page, until)


def add_time_options(parser: argparse.ArgumentParser, seconds: float) -> None:
    parser.add_argument("--seconds", type=float, default=seconds, help=f"for all ({seconds:g})")
    parser.add_argument("--until", type=float, help="the deadline, in Unix seconds")


def compute_deadline(options: argparse.Namespace) -> float:
    """Return the deadline given by --until or --seconds, on the clock `now`."""
    seconds = options.seconds if options.until is None else options.until - time.time()
    return now() + float(seconds)


def _measure_all(options: argparse.Namespace, out: Path, page: Path, until: float) -> int:
    import torch

    from benchmarks import machine
    from benchmarks.gpu_case import find_cases

    device = torch.device("cpu" if options.dry else "cuda")
    titles = {name: case.title for name, case in find_cases().items()}
    content: Tree = {
        "measured": not options.dry,
        "dry": options.dry,
        "machine": machine.describe_machine(device) | {"cuda": torch.version.cuda},
        "quick": options.quick,
        "tests": None,
        "rates": None,
        "cases": [
            {"name": name, "title": title, "skipped": NO_TIME}
            for name, title in titles.items()
            if name in (options.only or titles)
        ],
    }
    report = GpuReport(out, page, content)
    try:
        report.write()
    except OSError as error:
        print(f"{out} or {page} cannot be written: {error.strerror}.", file=sys.stderr)
        return 2
    try:
        if not options.only and (left := until - now()) >= LEAST:
            run_tests(content, min(TEST_SECONDS, left), options.dry)
            report.write()
        elif not options.only:
            content["tests"] = judge_tests(None, "", 0.0)
        if (left := until - now()) >= LEAST:
            content["rates"] = measure_rates(min(RATE_SECONDS, left), options.dry)
        measure_cases(report, options.quick, until, options.dry, content["rates"])
    except SystemExit:
        content["stopped"] = True
        raise
    finally:
        report.write()
    print(f"{out} and {page} are written, after {content['seconds']} s.")
    if not options.dry:
        print(f"To keep the figures, copy {out} to docs/measurements/gpu.json.")
    return int(has_faults(content))


if __name__ == "__main__":
    sys.exit(main())
