"""`make mutants`: puts small bugs in, one at a time, and counts those that the tests notice.

    python -m tests.mutants map            which tests run which line (the suite under coverage)
    python -m tests.mutants map TEST…      the same of these files or ids, added to what is known
    python -m tests.mutants changed        run the tests that run the lines changed since the map
    python -m tests.mutants run --each 80  try a sample; go on where an earlier run stopped
    python -m tests.mutants retry          try the survivors once more, after tests were added
    python -m tests.mutants report         kill rates by package, survivors

Everything lies in build/mutants. What survives and mypy rejects is no mutant: mypy notices it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path

from tests.mutants import changed_lines
from tests.mutants.sample import GROUPS, Mutant, draw, find
from tests.mutants.which_tests import SECONDS, LineMap
from tests.mutants.worker import Trial

ROOT = Path(__file__).parents[2]
PLACE = ROOT / "build" / "mutants"
MAP = PLACE / "map.json"
NOT_NOTICED = ("survived", "not run")
COPIED = (
    "app",
    "dgn_engine",
    "resources",
    "tests",
    "benchmarks",
    "docs",
    "documentation",
    "pyproject.toml",
)
SECONDS_EACH = 60.0  # of tests for one mutant, by their usual durations


def environment(tree: Path) -> dict[str, str]:
    """For processes that import from a copy of the tree."""
    places = os.pathsep.join(str(tree / part) for part in ("app", "resources", "."))
    one = {"PYTHONPATH": places, "OMP_NUM_THREADS": "1", "QT_QPA_PLATFORM": "offscreen"}
    # Else each mutant would compile every test anew: workers only read what is compiled here.
    return os.environ | one | {"PYTHONDONTWRITEBYTECODE": ""}


def copy_tree(name: str) -> Path:
    """A fresh copy of what the tests need."""
    tree = PLACE / name
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    for part in COPIED:
        source = ROOT / part
        if source.is_dir():
            ignore = shutil.ignore_patterns("__pycache__", "mutants")
            shutil.copytree(source, tree / part, ignore=ignore)
        else:
            shutil.copy(source, tree / part)
    for top in ("Makefile", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE"):
        shutil.copy(ROOT / top, tree)
    return tree


def make_map(workers: int, chosen: Sequence[str] = ()) -> None:
    """Run the suite, or the chosen tests, once under coverage, so many processes at a time."""
    PLACE.mkdir(parents=True, exist_ok=True)
    suites = chosen or sorted(
        (path for path in _suites() if _holds_tests(ROOT / path)),
        key=lambda path: -sum(file.stat().st_size for file in (ROOT / path).rglob("*.py")),
    )
    with ThreadPoolExecutor(workers) as pool:
        parts = list(pool.map(_map_part, range(len(suites)), suites))
    known = LineMap.read(MAP) if chosen else LineMap(changed_lines.head(ROOT))
    for part, spent in enumerate(parts):
        known.add(PLACE / f"coverage-{part}", ROOT)
        known.seconds |= spent
    known.write(MAP)


def _map_part(part: int, suite: str) -> dict[str, float]:
    """Run the tests of one folder under coverage; returns the seconds of each."""
    durations = PLACE / f"seconds-{part}.json"
    command = [
        *(sys.executable, "-m", "coverage", "run", "--source=dgn_engine,app/dgn_viewer"),
        *(f"--data-file={PLACE / f'coverage-{part}'}", "-m", "pytest", "-q"),
        *("-p", "tests.mutants.which_tests", "-p", "no:cacheprovider", suite),
    ]
    subprocess.run(
        command, cwd=ROOT, env=environment(ROOT) | {SECONDS: str(durations)}, check=False
    )
    spent: dict[str, float] = json.loads(durations.read_text("utf-8"))
    return spent


def _suites() -> list[str]:
    left_out = {"__pycache__", "conftest.py", "faults", "mutants", "gpu"}
    found = [path.relative_to(ROOT) for path in ROOT.glob("tests/*/*")]
    found += [path.relative_to(ROOT) for path in ROOT.glob("tests/test_*.py")]
    return sorted(path.as_posix() for path in found if not left_out.intersection(path.parts))


def _holds_tests(path: Path) -> bool:
    return path.name.startswith("test_") or (path.is_dir() and any(path.rglob("test_*.py")))


def run_changed(seconds: float) -> int:
    """Run the tests that run what was changed since the map was made; returns pytest's code."""
    if not MAP.exists():
        print(
            "There is no map of which tests run which line: make map (once, the time of a suite)."
        )
        return 2
    chosen = changed_lines.choose(ROOT, LineMap.read(MAP), seconds)
    print(chosen.summary, flush=True)
    if not chosen.tests:
        return 0
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen.tests]
    return subprocess.run(command, cwd=ROOT, env=environment(ROOT), check=False).returncode


def choose_tests(mutant: Mutant, known: LineMap, most: float) -> tuple[str, ...]:
    """Ids of the tests that run the mutant's line, quick ones first, `most` seconds in all.

    A line that runs in a child process or compiled is none that a test is seen to run, and one that
    runs at import is seen only in the test that imported it first: then those of its file, else
    those of its package.
    """
    lines, seconds = known.lines.get(mutant.file, {}), known.seconds
    line = 0 if mutant.mutation.at_import else mutant.mutation.line
    candidates: Iterable[str] = lines.get(line, ())
    if not candidates:
        candidates = {test for tests in lines.values() for test in tests}
    if not candidates:
        parts = Path(mutant.file).parts
        package = f"viewer/{parts[2]}" if parts[0] == "app" else f"engine/{parts[1]}"
        candidates = [test for test in seconds if test.startswith(f"tests/{package}/")]
    chosen: list[str] = []
    spent = 0.0
    for test in sorted(candidates, key=lambda test: seconds.get(test, 1.0)):
        spent += seconds.get(test, 1.0)
        if chosen and spent > most:
            break
        chosen.append(test)
    return tuple(chosen)


class Types:
    """Whether mypy would reject a mutant; with its cache, since a daemon starts anew each time."""

    def __init__(self, tree: Path) -> None:
        """`tree`: a copy of what is checked, with its pyproject.toml."""
        self._tree = tree
        self._second = 0
        self._lock = threading.Lock()
        self._usual = self._errors()

    def _errors(self) -> Counter[str]:
        """What mypy says, without the numbers of lines."""
        command = [sys.executable, "-m", "mypy"]
        done = subprocess.run(command, cwd=self._tree, capture_output=True, text=True, check=False)
        if not re.search(r"^Success|^Found .*\(checked \d+", done.stdout, re.MULTILINE):
            raise RuntimeError(f"mypy has no verdict: {done.stdout}{done.stderr}")
        found = (line for line in done.stdout.splitlines() if ": error" in line)
        return Counter(re.sub(r":\d+:", ":", line) for line in found)

    def reject(self, mutant: Mutant, content: bytes) -> bool:
        """Whether mypy has something to say that it does not say without the mutant."""
        with self._lock:
            path = self._tree / mutant.file
            before = path.read_bytes()
            self._write(path, content)
            try:
                return bool(self._errors() - self._usual)
            finally:
                self._write(path, before)

    def _write(self, path: Path, content: bytes) -> None:
        """mypy's cache takes a file of the same size and second for unchanged."""
        path.write_bytes(content)
        self._second += 1
        os.utime(path, (self._second, self._second))


class Trials:
    """The mutants of a sample that are still to be tried, and where their verdicts go."""

    def __init__(self, waiting: Iterable[Mutant], most: float) -> None:
        self._known, self._most = LineMap.read(MAP), most
        self._results = PLACE / "results.jsonl"
        self._waiting = deque(waiting)
        self._types = Types(copy_tree("types"))
        self._writing = threading.Lock()

    def run(self, workers: int) -> None:
        """Try all of them; each verdict is written at once, so that a run can be stopped."""
        threads = [threading.Thread(target=self._serve, args=(n,)) for n in range(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _serve(self, number: int) -> None:
        tree = copy_tree(f"tree-{number}")
        shutil.copytree(ROOT / "tests" / "mutants", tree / "tests" / "mutants")
        # Compiled once, with pytest's rewritten assertions: workers write no bytecode.
        collect = [sys.executable, "-m", "pytest", "--collect-only", "-q"]
        subprocess.run(collect, cwd=tree, env=environment(tree), capture_output=True, check=False)
        command = [sys.executable, "-m", "tests.mutants.worker"]
        with subprocess.Popen(
            command,
            cwd=tree,
            env=environment(tree),
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            while (mutant := self._next()) is not None:
                self._write(mutant, self._verdict(mutant, process))
            assert process.stdin is not None
            process.stdin.close()

    def _next(self) -> Mutant | None:
        with self._writing:
            return self._waiting.popleft() if self._waiting else None

    def _verdict(self, mutant: Mutant, process: subprocess.Popen[str]) -> str:
        content = mutant.mutation.applied((ROOT / mutant.file).read_bytes())
        tests = choose_tests(mutant, self._known, self._most)
        verdict = self._try(mutant, content, tests, process) if tests else "not run"
        # mypy takes longer than most tests: it is asked of what these let pass.
        if verdict in NOT_NOTICED and self._types.reject(mutant, content):
            return "rejected"
        return verdict

    def _try(
        self,
        mutant: Mutant,
        content: bytes,
        tests: tuple[str, ...],
        process: subprocess.Popen[str],
    ) -> str:
        usual = sum(self._known.seconds.get(test, 1.0) for test in tests)
        trial = Trial(mutant.file, content.decode("latin-1"), tests, 30 + 5 * usual)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(trial.to_json() + "\n")
        process.stdin.flush()
        return process.stdout.readline().strip() or "lost"

    def _write(self, mutant: Mutant, verdict: str) -> None:
        lines = (ROOT / mutant.file).read_text("utf-8").splitlines()
        row = {
            "id": mutant.drawn_as or mutant.id,
            "group": mutant.group,
            "verdict": verdict,
            "line": lines[mutant.mutation.line - 1].strip(),
            "new": mutant.mutation.text,
        }
        with self._writing, self._results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def results() -> list[dict[str, str]]:
    """The verdicts so far; of a mutant that was tried again, the last."""
    path = PLACE / "results.jsonl"
    text = path.read_text("utf-8") if path.exists() else ""
    rows = (json.loads(line) for line in text.splitlines())
    return list({row["id"]: row for row in rows}.values())


def untried(each: int, seed: int, only: str) -> list[Mutant]:
    """What a sample holds and no earlier run has tried, groups in turn."""
    done = {row["id"] for row in results()}
    by_group: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in draw(ROOT, each, seed):
        if mutant.id not in done and only in mutant.group:
            by_group[mutant.group].append(mutant)
    turns = zip_longest(*by_group.values())
    return [mutant for turn in turns for mutant in turn if mutant is not None]


def survivors(only: str) -> list[Mutant]:
    """What survived so far and is still in the tree, wherever its line is now."""
    rows = [row for row in results() if row["verdict"] in NOT_NOTICED and only in row["group"]]
    return [mutant for row in rows if (mutant := find(ROOT, row)) is not None]


def report() -> int:
    """Kill rates by group and the survivors; 1 where a group is below its bar."""
    rows = results()
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        counts[row["group"]][row["verdict"]] += 1
    low = False
    print("| package | tried | killed | rate | bar |\n| --- | ---: | ---: | ---: | ---: |")
    for group, (_, bar) in GROUPS.items():
        found = counts[group]
        killed = found["killed"] + found["timeout"]
        tried = sum(found.values()) - found["rejected"] - found["lost"]
        rate = 100 * killed / tried if tried else float("nan")
        low |= not rate >= bar
        print(f"| {group} | {tried} | {killed} | {rate:.0f} % | {bar} % |")
    for row in rows:
        if row["verdict"] in NOT_NOTICED:
            print(f"{row['verdict']}: {row['id']}\n    {row['line']}  →  {row['new']}")
    return int(low)


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("what", choices=("map", "changed", "run", "retry", "report"))
    parser.add_argument("tests", nargs="*", help="of map: only these files, folders or ids")
    parser.add_argument("--each", type=int, default=80)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=SECONDS_EACH, help="of tests, for each")
    given = parser.parse_intermixed_args()
    if given.what == "map":
        make_map(given.workers, given.tests)
    elif given.what == "changed":
        return run_changed(given.seconds)
    elif given.what == "run":
        sample = untried(given.each, given.seed, given.only)
        Trials(sample, given.seconds).run(given.workers)
    elif given.what == "retry":
        Trials(survivors(given.only), given.seconds).run(given.workers)
    else:
        return report()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
