"""Which tests run the lines of a change.

The map (`make map`) knows which tests run which line of one commit; a line of that commit that the
working tree has otherwise is one of a change. The tests of one changed line are those on which
`make mutants` tries a bug in it, so that the share of mutants that are killed is also the share of
bugs that `make check-changed` notices.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.which_tests import LineMap

SOURCE = ("dgn_engine", "app/dgn_viewer")
ROUND = 4  # tests of one line that come before the fifth of any other
FEW = 32  # tests of a file or a package of which no test is known to run the line
_FILE = re.compile(r"^--- (?:a/(.*)|/dev/null)$")
_NEW_FILE = re.compile(r"^\+\+\+ (?:b/(.*)|/dev/null)$")
_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")


@dataclass(frozen=True)
class Chosen:
    """The tests to run, and a sentence on them for each file."""

    tests: tuple[str, ...]
    summary: str


@dataclass(frozen=True)
class Change:
    """One changed file: its lines in the commit of the map, none where it is new."""

    file: str
    lines: frozenset[int]


def head(root: Path) -> str:
    """Return the id of the commit that is checked out; '' where there is no repository."""
    return _git(root, "rev-parse", "HEAD").strip()


def choose(root: Path, known: LineMap, seconds: float) -> Chosen:
    """Return the tests that run the lines that differ from the commit of the map.

    Args:
        root: The repository.
        known: The map.
        seconds: Of tests in all: the quickest four of each line, then the next.

    A test module that was changed is run as it is. A line that no test was seen to run (it runs in
    a child process, or is new) stands for the tests of its file, else for those of its package.
    """
    durations = known.seconds
    modules: list[str] = []
    ranks: dict[str, int] = {}
    said = []
    for change in changes(root, known.commit):
        if Path(change.file).name.startswith("test_") and (root / change.file).exists():
            modules.append(change.file)
            said.append(f"{change.file}: itself")
        elif change.file.startswith(SOURCE) and change.file.endswith(".py"):
            found, by = _ranks_of(change, known)
            for test, rank in found.items():
                ranks[test] = min(rank, ranks.get(test, rank))
            said.append(f"{change.file}: {len(found)} by {by}")
        else:
            said.append(f"{change.file}: no test is known to read it")
    cases = [test for test in ranks if test.partition("::")[0] not in modules]
    cases = [test for test in cases if (root / test.partition("::")[0]).exists()]
    chosen, spent = sorted(modules), 0.0
    for test in sorted(cases, key=lambda test: (ranks[test], durations.get(test, 1.0))):
        spent += durations.get(test, 1.0)
        if spent > seconds:
            said.append(f"{len(chosen) - len(modules)} of {len(cases)} tests in {seconds:.0f} s")
            break
        chosen.append(test)
    return Chosen(tuple(chosen), "\n".join(said) or "Nothing was changed since the map was made.")


def changes(root: Path, commit: str) -> list[Change]:
    """Return what differs from a commit in the working tree, and what git does not know."""
    changed = _parsed(_git(root, "diff", "--unified=0", "--no-renames", "--no-color", commit))
    new = _git(root, "ls-files", "--others", "--exclude-standard").splitlines()
    return [*changed, *(Change(file, frozenset()) for file in new)]


def _parsed(diff: str) -> Iterator[Change]:
    file, lines = "", set[int]()
    for line in diff.splitlines():
        if match := _FILE.match(line):
            if file:
                yield Change(file, frozenset(lines))
            file, lines = match[1] or "", set()
        elif match := _NEW_FILE.match(line):
            file = file or match[1]
        elif match := _HUNK.match(line):
            first, count = int(match[1]), int(match[2] or 1)
            # What is put between two lines is run by who runs either.
            lines |= set(range(first, first + count)) if count else {first, first + 1}
    if file:
        yield Change(file, frozenset(lines))


def _ranks_of(change: Change, known: LineMap) -> tuple[dict[str, int], str]:
    """Return the round in which each test comes, and what it was chosen by."""
    of_file, seconds = known.lines.get(change.file, {}), known.seconds
    ranks: dict[str, int] = {}
    for line in change.lines:
        for place, test in enumerate(_by_time(of_file.get(line, ()), seconds)):
            ranks[test] = min(place // ROUND, ranks.get(test, place))
    if ranks:
        return ranks, "line"
    if every := {test for tests in of_file.values() for test in tests}:
        return dict.fromkeys(
            _by_time(every, seconds)[:FEW], 0
        ), "file, no line of it was seen to run"
    parts = Path(change.file).parts
    folder = f"tests/viewer/{parts[2]}/" if parts[0] == "app" else f"tests/engine/{parts[1]}/"
    package = [test for test in seconds if test.startswith(folder)]
    return dict.fromkeys(_by_time(package, seconds)[:FEW], 0), "package, the file is new to the map"


def _by_time(tests: Iterable[str], seconds: Mapping[str, float]) -> list[str]:
    return sorted(tests, key=lambda test: (seconds.get(test, 1.0), test))


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout
