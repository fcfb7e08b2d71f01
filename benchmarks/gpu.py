"""`make gpu`: all that needs a CUDA card, in under eight minutes: tests, then a table.

    python -m benchmarks.gpu --out build/gpu.json --page docs/gpu.md
    python -m benchmarks.gpu --dry    # the same on the CPU, small: does all of it run?

The tests are those of `tests/gpu` that are marked `gpu`; they have `TEST_SECONDS`. The cases are
those of `benchmarks/gpu_cases`, by their rank, each in a process of its own: a fault of CUDA ends
only that one. JSON and page are written anew after each result, so that what is killed leaves what
it has; a case that finds no time left is a row that says so. Without a card, or without a package
that this needs, it says so in one sentence and ends with exit code 3, and no page is touched. Any
interpreter will do that has the packages of `NEEDED`: nothing is installed or fetched.

A dry run takes the tests that are not marked `gpu`, and marks all that it writes.
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

from benchmarks.children import ending_on_signals, run_for, write_whole
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
    "measured and docs/gpu.md stays as it is."
)
LIMIT = 460.0  # seconds for everything; what is left of eight minutes is for ending
TEST_SECONDS = 200.0  # that the tests may take
CASE_SECONDS = 75.0  # that one case may take, with making its networks
RATE_SECONDS = 60.0  # that measuring the rates of the card may take
ROUND_SECONDS = 12.0  # of rounds, for each case
LEAST = 20.0  # seconds: with less no case is begun
TOO_LONG = 124  # code of tests that take longer than they have, as of `timeout`
NO_TIME = "it was not reached in time"
TESTS = ("-c", "tests/gpu/make_gpu.ini", "--rootdir=.", "--confcutdir=tests/gpu", "-v", "tests/gpu")
Tree = dict[str, Any]


def missing() -> list[str]:
    """Packages that this interpreter lacks, as one installs them."""
    return [name for module, name in NEEDED.items() if importlib.util.find_spec(module) is None]


class GpuReport:
    """JSON and page of one session, written anew after each result."""

    def __init__(self, out: Path, page: Path, content: Tree) -> None:
        self.content = content
        self._out, self._page = out, page
        self._began = now()

    def write(self) -> None:
        from benchmarks import gpu_page

        self.content["seconds"] = round(now() - self._began, 1)
        write_whole(self._out, json.dumps(self.content, indent=1))
        write_whole(self._page, gpu_page.page(self.content))


def run_tests(content: Tree, seconds: float, dry: bool = False) -> None:
    """Run the tests; write into the content how they ended, also where a signal ends this."""
    began = now()
    marks = "not gpu and not slow" if dry else "gpu"  # `slow` is the test of the dry run itself
    command = python_command("-m", "pytest", *TESTS, "-m", marks, "-p", "no:cacheprovider")
    # That module is about what `make gpu` itself needs, and runs parts of it.
    command += ["--ignore=tests/gpu/test_gpu_image.py"] * dry
    said: list[str] = []
    code: int | None = None
    try:
        with tempfile.TemporaryDirectory() as home:  # nothing goes among the user's own runs
            code, _ = run_for(command, seconds, _environment(home, dry), said=said)
            if code is None and seconds >= TEST_SECONDS:  # their own time, not the session's
                code = TOO_LONG
    finally:
        content["tests"] = judge_tests(code, "".join(said), now() - began)


def judge_tests(code: int | None, output: str, seconds: float) -> Tree:
    """Return 'passed', 'failed', or 'stopped' (none had failed by then), and a line about it.

    Args:
        code: pytest's exit code; None where it was stopped.
    """
    lines = output.strip().splitlines()
    failed = sum(bool(re.match(r"\S+::.* (FAILED|ERROR)\b", line)) for line in lines)
    word = "passed" if code == 0 else "stopped" if code is None and not failed else "failed"
    summary = lines[-1].strip("= ") if lines else ""
    if not re.search(r" in [\d.]+s", summary):  # it did not come to its end
        passed = sum(bool(re.match(r"\S+::.* PASSED\b", line)) for line in lines)
        begun = [line for line in lines if re.match(r"\S+::", line)] or ["none"]
        last = re.sub(r" (PASSED|FAILED|ERROR|SKIPPED)\b.*", "", begun[-1]).strip()
        how = "stopped" if code is None else f"ended with code {code}"
        summary = f"{how} after {seconds:.0f} s: {passed} had passed, {failed} failed; last: {last}"
    return {"word": word, "code": code, "summary": summary, "seconds": round(seconds, 1)}


def faults(content: Tree) -> bool:
    """Whether a test or a case failed, methods disagree or steps were not captured."""
    tests, rows = content["tests"], content["cases"]
    return (tests is not None and tests["word"] == "failed") or any(
        "failed" in row or row.get("eager") or not row.get("agrees", True) for row in rows
    )


def measure_rates(seconds: float, dry: bool = False) -> Tree | None:
    """Return what the card does in a second, or None where that failed."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "rates.json"
        command = python_command("-m", "benchmarks.rates", "--out", str(out))
        command += ["--device", "cpu" if dry else "cuda"]
        code, _ = run_for(command, seconds, _environment(folder, dry))
        if code == 0:
            rates: Tree = json.loads(out.read_text("utf-8"))
            return rates
    return None


def fill_table(
    report: GpuReport, quick: bool, until: float, dry: bool = False, rates: Tree | None = None
) -> None:
    """Measure the cases of a report in their order while there is time; one that fails or comes
    too late is a row that says why. `until`: a moment of `now`."""
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
    """Measure one case in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "row.json"
        budget = max(1.0, min(ROUND_SECONDS, seconds / 4))
        command = python_command("-m", "benchmarks.gpu_case", name, "--out", str(out))
        command += ["--rounds-for", f"{budget:.1f}"]
        command += ["--quick"] * quick + ["--dry"] * dry
        code, output = run_for(command, seconds, _environment(folder, dry))
        if code == 0 and out.exists():
            row: Tree = json.loads(out.read_text("utf-8"))
            return row
    if code is None and seconds < CASE_SECONDS:  # the session's time ended, not its own
        return {"name": name, "title": title, "skipped": NO_TIME}
    why = (output.strip().splitlines() or [f"exit code {code}"])[-1].rstrip(".")
    if code is None:
        why = f"it was stopped after {seconds:.0f} s"
    return {"name": name, "title": title, "failed": why}


def _environment(home: str, dry: bool) -> Mapping[str, str]:
    """Return what a child's environment differs in: a dry run leaves a card alone."""
    return {"DGN_HOME": home, **({"CUDA_VISIBLE_DEVICES": ""} if dry else {})}


def main(arguments: list[str] | None = None) -> int:
    """Return 0 where nothing failed, also where time ran out; 1 for `faults`, 2 where nothing can
    be written, 3 where nothing can be measured; 128 + n is the exit code after the signal n."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--out", type=Path, help="default: build/gpu.json, build/gpu-dry.json")
    parser.add_argument("--page", type=Path, help="Markdown page to write; default: beside --out")
    parser.add_argument("--only", action="append", help="one case; repeatable; no tests")
    parser.add_argument("--quick", action="store_true", help="fewer examples, three rounds")
    parser.add_argument("--dry", action="store_true", help="on the CPU, as small as can be")
    add_time_options(parser, LIMIT)
    given = parser.parse_args(arguments)
    until = moment_of_end(given)
    if lacks := missing():
        print(
            f"make gpu needs {', '.join(lacks)}, which {sys.executable} lacks; install what is "
            "missing there, or name another interpreter with make GPU_PYTHON=python3 gpu.",
            file=sys.stderr,
        )
        return NO_CARD
    out = given.out or Path("build/gpu-dry.json" if given.dry else "build/gpu.json")
    page = given.page or out.with_suffix(".md")
    with ending_on_signals():
        import torch  # only now: it may be missing

        if not given.dry and not torch.cuda.is_available():
            print(NO_CARD_WORDS, file=sys.stderr)
            return NO_CARD
        return _measure(given, out, page, until)


def add_time_options(parser: argparse.ArgumentParser, seconds: float) -> None:
    parser.add_argument("--seconds", type=float, default=seconds, help=f"for all ({seconds:g})")
    parser.add_argument("--until", type=float, help="the moment of its end, in Unix seconds")


def moment_of_end(given: argparse.Namespace) -> float:
    """Return the moment of `now` that --until or --seconds says."""
    seconds = given.seconds if given.until is None else given.until - time.time()
    return now() + float(seconds)


def _measure(given: argparse.Namespace, out: Path, page: Path, until: float) -> int:
    import torch

    from benchmarks import machine
    from benchmarks.gpu_case import cases

    device = torch.device("cpu" if given.dry else "cuda")
    titles = {name: case.title for name, case in cases().items()}
    content: Tree = {
        "measured": not given.dry,
        "dry": given.dry,
        "machine": machine.machine(device) | {"cuda": torch.version.cuda},
        "quick": given.quick,
        "tests": None,
        "rates": None,
        "cases": [
            {"name": name, "title": title, "skipped": NO_TIME}
            for name, title in titles.items()
            if name in (given.only or titles)
        ],
    }
    report = GpuReport(out, page, content)
    try:
        report.write()
    except OSError as error:
        print(f"{out} or {page} cannot be written: {error.strerror}.", file=sys.stderr)
        return 2
    try:
        if not given.only and (left := until - now()) >= LEAST:
            run_tests(content, min(TEST_SECONDS, left), given.dry)
            report.write()
        elif not given.only:
            content["tests"] = judge_tests(None, "", 0.0)
        if (left := until - now()) >= LEAST:
            content["rates"] = measure_rates(min(RATE_SECONDS, left), given.dry)
        fill_table(report, given.quick, until, given.dry, content["rates"])
    except SystemExit:
        content["stopped"] = True
        raise
    finally:
        report.write()
    print(f"{out} and {page} are written, after {content['seconds']} s.")
    return int(faults(content))


if __name__ == "__main__":
    sys.exit(main())
