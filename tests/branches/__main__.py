"""Which branches of the packages that must not err are taken by their own tests (`make coverage`).

    python -m tests.branches [--numprocesses 2] [--missing]

Runs the tests that concern the kernels, the reader of checkpoints and run folders under coverage,
prints a table, and ends with code 1 where a package has less than `LEAST` of its branches. What
children do is not counted: those that read the files of strangers are confined and may write
nothing, not even what was measured. Loops that numba compiles are counted as plain Python.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from coverage import Coverage

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / "build" / "coverage"
LEAST = 95.0  # per cent of the branches of each package
# What each package is, and the tests that say what it does.
CONCERNED = {
    "dgn_engine/kernels": ("tests/engine/kernels",),
    "dgn_engine/storage/checkpoints": (
        "tests/engine/storage/checkpoints",
        "tests/engine/importing/test_array_layout.py",
    ),
    "dgn_engine/storage/runs": (
        "tests/engine/storage/runs",
        "tests/engine/session/test_followed_runs.py",
    ),
}
# Slow, and of documents or processes: they take no branch that the others do not.
LEFT_OUT = (
    "test_benchmarks",
    "test_documented_limits",
    "test_kernels_document",
    "test_memory_budget",
    "test_notebooks",
)


class Taken(NamedTuple):
    """Of a file or a package: lines and branches, those that were run, and arcs that were not."""

    lines: int
    lines_run: int
    branches: int
    branches_run: int
    missing: tuple[tuple[int, int], ...] = ()

    @property
    def share(self) -> float:
        """Per cent of the branches; all of none."""
        return 100.0 * self.branches_run / self.branches if self.branches else 100.0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--numprocesses", type=int, default=2, help="so many at once")
    parser.add_argument("--missing", action="store_true", help="list the branches not taken")
    given = parser.parse_args()
    PLACE.mkdir(parents=True, exist_ok=True)
    for old in PLACE.glob("part-*"):
        old.unlink()
    if code := measure(chosen(), given.numprocesses):
        return code
    measured = Coverage(data_file=str(PLACE / "all"), config_file=str(ROOT / "pyproject.toml"))
    measured.combine([str(path) for path in PLACE.glob("part-*")], keep=True)
    measured.save()
    measured.json_report(outfile=str(PLACE / "report.json"))
    files = taken(PLACE / "report.json")
    print(*table(files), sep="\n")
    if given.missing:
        print(*not_taken(files), sep="\n")
    return int(any(whole.share < LEAST for whole in by_package(files).values()))


def chosen() -> list[Path]:
    """The modules of tests to run."""
    places = [ROOT / place for places in CONCERNED.values() for place in places]
    found = [path for place in places for path in _modules(place)]
    return [path for path in found if path.stem not in LEFT_OUT]


def _modules(place: Path) -> Sequence[Path]:
    return sorted(place.rglob("test_*.py")) if place.is_dir() else [place]


def measure(modules: Sequence[Path], processes: int) -> int:
    """Run them, split over so many processes; the exit code of one that failed, or 0."""
    quiet = {"QT_QPA_PLATFORM": "offscreen", "OMP_NUM_THREADS": "1"}
    running = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "coverage", "run", f"--data-file={PLACE / f'part-{part}'}"),
                *("-m", "pytest", "-q", "-p", "no:cacheprovider"),
                *(str(module.relative_to(ROOT)) for module in modules[part::processes]),
            ],
            cwd=ROOT,
            env={**os.environ, **quiet},
        )
        for part in range(processes)
    ]
    return max(abs(process.wait()) for process in running)


def taken(report: Path) -> dict[str, Taken]:
    """Each file of the packages, by its path below the root, from coverage's report in JSON."""
    found = {}
    for path, about in json.loads(report.read_text("utf-8"))["files"].items():
        of = about["summary"]
        found[Path(path).as_posix()] = Taken(
            of["num_statements"],
            of["covered_lines"],
            of["num_branches"],
            of["covered_branches"],
            tuple((line, to) for line, to in about["missing_branches"]),
        )
    return found


def by_package(files: Mapping[str, Taken]) -> dict[str, Taken]:
    """The files of each package together."""
    found = {}
    for package in CONCERNED:
        inside = [one for path, one in files.items() if path.startswith(f"{package}/")]
        found[package] = Taken(*(sum(one[place] for one in inside) for place in range(4)))
    return found


def table(files: Mapping[str, Taken]) -> Iterator[str]:
    """A line for each package, with what it is short of."""
    yield f"{'package':32} {'lines run':>12} {'branches':>12} {'taken':>9}"
    for package, one in by_package(files).items():
        lines, branches = f"{one.lines_run}/{one.lines}", f"{one.branches_run}/{one.branches}"
        mark = "" if one.share >= LEAST else f"  less than {LEAST:g} %"
        yield f"{package:32} {lines:>12} {branches:>12} {one.share:7.1f} %{mark}"


def not_taken(files: Mapping[str, Taken]) -> Iterator[str]:
    """'dgn_engine/kernels/gram.py:63 never goes on to line 64', one for each branch."""
    for path, one in files.items():
        for line, to in one.missing:
            yield f"{path}:{line} never goes on to {f'line {to}' if to > 0 else 'the end'}"


if __name__ == "__main__":
    sys.exit(main())
