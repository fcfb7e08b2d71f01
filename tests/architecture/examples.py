"""The project with every example of docs/adding.md in its place.

`python -m tests.architecture.examples [ARGUMENTS OF PYTEST]` runs the whole suite there,
`python -m tests.architecture.examples types` mypy.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = (
    ".ci",
    ".github",
    "app",
    "benchmarks",
    "dgn_engine",
    "docs",
    "documentation",
    "packaging",
    "requirements",
    "resources",
    "tests",
)
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# ((?:app|dgn_engine)/\S+\.py)\n")


@dataclass(frozen=True)
class Example:
    """A plug-in: its file, and the lines under 'See it'."""

    path: str
    text: str
    use: str

    @property
    def name(self) -> str:
        """That of its file: its id, but for hyphens and capitals."""
        return Path(self.path).stem


def examples() -> tuple[Example, ...]:
    """Those of docs/adding.md, in order."""
    found: list[Example] = []
    for block in BLOCK.findall((ROOT / "docs" / "adding.md").read_text("utf-8")):
        if place := FILE.match(block):
            found.append(Example(place[1], block[place.end() :], ""))
        else:
            found[-1] = Example(found[-1].path, found[-1].text, found[-1].use + block)
    return tuple(found)


def write_project(folder: Path) -> None:
    """A copy of the sources, tests and documents, and in it every example.

    What Python has compiled comes along: it stays true of files that keep their times.
    """
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name)
    for path in ROOT.iterdir():
        if path.is_file() and path.name != ".git":
            shutil.copy(path, folder)
    for example in examples():
        target = folder / example.path
        assert not target.exists(), f"{example.path} exists: the example needs another name"
        target.write_text(example.text, encoding="utf-8")


def environment(folder: Path) -> dict[str, str]:
    """That of a process which imports the packages of the copy and shows no window."""
    variables = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    paths = os.pathsep.join(str(folder / name) for name in ("app", "resources", "."))
    return variables | {
        "PYTHONPATH": paths,
        "OMP_NUM_THREADS": "1",
        "QT_QPA_PLATFORM": "offscreen",
    }


def run_in(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """`python COMMAND` in the copy, with all it printed as `stdout`."""
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def main() -> int:
    """Run the suite, or mypy, in a copy and print what it prints; returns its exit code."""
    folder = ROOT / "build" / "plugins"
    shutil.rmtree(folder, ignore_errors=True)
    write_project(folder)
    command = [sys.executable, "-m", "pytest", *sys.argv[1:]]
    if sys.argv[1:] == ["types"]:
        command = [sys.executable, "-m", "mypy"]
        if (cache := ROOT / ".mypy_cache").is_dir():  # else all of torch's types are read
            shutil.copytree(cache, folder / ".mypy_cache")
    else:
        assert run_in(folder, "-m", "tests.wording").returncode == 0  # what the examples say, too
    return subprocess.run(command, cwd=folder, env=environment(folder), check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
