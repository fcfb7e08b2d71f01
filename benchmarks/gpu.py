"""`make gpu`: all that needs a CUDA card, in under eight minutes: tests, then a table.

    python -m benchmarks.gpu --out build/gpu.json --page docs/gpu.md

The tests are those of `tests/gpu` that are marked `gpu`; they have `TEST_SECONDS`. The cases are
those of `benchmarks/gpu_cases`, by their rank, each in a process of its own: a fault of CUDA ends
only that one. A case that finds no time left is a row that says so. Without a card, or without a
package that this needs, it says so in one sentence and ends with exit code 3, and no page is
touched. Any interpreter will do that has the packages of `NEEDED`: nothing is installed or fetched.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from time import monotonic as now

NO_CARD = 3
NEEDED = {
    "torch": "torch", "numpy": "numpy", "safetensors": "safetensors", "sklearn": "scikit-learn",
    "pytest": "pytest",
}  # fmt: skip
NO_CARD_WORDS = (
    "make gpu needs a CUDA card and a torch built for it; torch finds no card here, so nothing was "
    "measured and docs/gpu.md stays as it is."
)
LIMIT = 460.0  # seconds for everything; what is left of eight minutes is for ending
TEST_SECONDS = 200.0  # that the tests may take
CASE_SECONDS = 100.0  # that one case may take, with making its networks
ROUND_SECONDS = 20.0  # of rounds, for each case
LEAST = 20.0  # seconds: with less no case is begun
TESTS = ("-c", "tests/gpu/make_gpu.ini", "--rootdir=.", "--confcutdir=tests/gpu", "-v", "tests/gpu")
Tree = dict[str, object]


def missing() -> list[str]:
    """Packages that this interpreter lacks, as one installs them."""
    return [name for module, name in NEEDED.items() if importlib.util.find_spec(module) is None]


def run_for(
    command: list[str], seconds: float, environment: Mapping[str, str]
) -> tuple[int | None, str]:
    """Exit code and output of a command; None where it was stopped after so many seconds."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            start_new_session=True,
        )
        code: int | None
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _end(process)
        output.seek(0)
        return code, output.read()


def _end(process: subprocess.Popen[bytes]) -> None:
    """With what it has started."""
    if process.poll() is None:
        os.killpg(process.pid, 9)
        process.wait()


def tests(seconds: float) -> Tree:
    """Run the tests marked `gpu`; how they ended, how many had passed and their last line."""
    began = now()
    command = [sys.executable, "-m", "pytest", *TESTS, "-m", "gpu", "-p", "no:cacheprovider"]
    with tempfile.TemporaryDirectory() as home:  # nothing goes among the user's own runs
        code, said = run_for(command, seconds, {"DGN_HOME": home})
    print(said[-6000:], flush=True)
    lines = said.strip().splitlines() or ["no output"]
    summary = lines[-1].strip("= ")
    if code is None:
        passed, failed = (
            sum(f" {word}" in line for line in lines) for word in ("PASSED", "FAILED")
        )
        summary = f"stopped after {seconds:.0f} s: {passed} had passed, {failed} failed"
    taken = round(now() - began, 1)
    return {"code": 1 if code is None else code, "summary": summary, "seconds": taken}


def table(titles: Mapping[str, str], quick: bool, until: float) -> list[Tree]:
    """Every case in its order while there is time; one that fails or comes too late is a row that
    says why. `until`: a moment of `now`."""
    rows: list[Tree] = []
    for name, title in titles.items():
        left = until - now()
        if left < LEAST:
            rows.append({"name": name, "title": title, "skipped": "no time was left"})
            continue
        row = case(name, title, quick, min(left, CASE_SECONDS))
        print(row.get("failed") or f"{title}: measured", flush=True)
        rows.append(row)
    return rows


def case(name: str, title: str, quick: bool, seconds: float) -> Tree:
    """One case, measured by a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "row.json"
        budget = max(1.0, min(ROUND_SECONDS, seconds / 4))
        command = [sys.executable, "-m", "benchmarks.gpu_case", name, "--out", str(out)]
        command += ["--rounds-for", f"{budget:.1f}", *(["--quick"] if quick else [])]
        code, said = run_for(command, seconds, {"DGN_HOME": folder})
        if code == 0 and out.exists():
            row: Tree = json.loads(out.read_text("utf-8"))
            return row
    print(said[-3000:], flush=True)
    why = (said.strip().splitlines() or [f"exit code {code}"])[-1].rstrip(".")
    if code is None:
        why = f"it was stopped after {seconds:.0f} s"
    return {"name": name, "title": title, "failed": why}


def main(arguments: list[str] | None = None) -> int:
    """0 where the tests pass and no case failed, 1 where not, 3 where nothing can be measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/gpu.json"))
    parser.add_argument("--page", type=Path, help="Markdown page to write; default: beside --out")
    parser.add_argument("--only", action="append", help="one case; repeatable; no tests")
    parser.add_argument("--quick", action="store_true", help="fewer examples, three rounds")
    given = parser.parse_args(arguments)
    if lacks := missing():
        print(
            f"make gpu needs {', '.join(lacks)}, which {sys.executable} lacks; install what is "
            "missing there, or name another interpreter with make GPU_PYTHON=python3 gpu.",
            file=sys.stderr,
        )
        return NO_CARD
    import torch  # only now: it may be missing

    from benchmarks import gpu_page, machine
    from benchmarks.gpu_case import cases

    if not torch.cuda.is_available():
        print(NO_CARD_WORDS, file=sys.stderr)
        return NO_CARD
    device = torch.device("cuda")
    began = now()
    tested = tests(TEST_SECONDS) if not given.only else None
    titles = {name: one.title for name, one in cases().items()}
    chosen = {name: title for name, title in titles.items() if name in (given.only or titles)}
    rows = table(chosen, given.quick, began + LIMIT)
    found: Tree = {
        "measured": True,
        "machine": machine.machine(device) | {"cuda": torch.version.cuda},
        "quick": given.quick,
        "tests": tested,
        "cases": rows,
    }
    found["seconds"] = round(now() - began, 1)
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
