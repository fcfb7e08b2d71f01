"""Runs the blocks of the documents that are marked `<!-- run -->`, in a small form.

    python -m documentation.shell_blocks [DOCUMENT…]

One epoch each, in an empty folder for each document; `<!-- run: WORDS -->` adds words to
every command of the block.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dgn_engine.cli import main as dgn

ROOT = Path(__file__).parents[1]
_MARKED = re.compile(r"<!-- run(?:: (?P<more>.*?))? -->\n```sh\n(?P<block>.*?)```", re.DOTALL)
_FILE = re.compile(r"```\w+ title=\"(?P<name>[\w.]+)\"\n(?P<text>.*?)```", re.DOTALL)
SMALL = ((r"--epochs \d+", "--epochs 1"), (r"--record-every \d+", "--record-every 20"))
IN_FILES = ((r"training\.epochs = \d+", "training.epochs = 1"),)


@dataclass(frozen=True)
class Outcome:
    command: str
    code: int
    said: str


def commands(block: str) -> Iterator[str]:
    """The lines of a block, with those that end in a backslash joined to the next."""
    for line in block.replace("\\\n", " ").splitlines():
        if line.strip():
            yield " ".join(line.split())


def run(document: Path) -> Iterator[Outcome]:
    """Run every marked block of a document in one empty folder, in their order."""
    text = document.read_text("utf-8")
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["DGN_RESULTS_ROOT"] = folder  # of commands without --out
        try:
            for file in _FILE.finditer(text):
                Path(file["name"]).write_text(_smaller(file["text"], IN_FILES), "utf-8")
            for marked in _MARKED.finditer(text):
                more = f" {marked['more']}" if marked["more"] else ""
                for command in commands(marked["block"]):
                    yield _run(_smaller(command, SMALL) + more)
        finally:
            os.chdir(before)


def _run(command: str) -> Outcome:
    said = io.StringIO()
    words = shlex.split(command, comments=True)
    assert words[0] == "dgn", f"{command} is no command of dgn"
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            code = dgn(words[1:])
        except SystemExit as end:  # of the parser
            code = int(end.code or 0)
    return Outcome(command, code, said.getvalue())


def _smaller(text: str, changes: Sequence[tuple[str, str]]) -> str:
    for pattern, small in changes:
        text = re.sub(pattern, small, text)
    return text


def main(names: Sequence[str]) -> int:
    documents = [Path(name).resolve() for name in names] or sorted((ROOT / "docs").rglob("*.md"))
    failed = 0
    for document in documents:
        for outcome in run(document):
            print(f"{'ok' if outcome.code == 0 else outcome.code}: {outcome.command}", flush=True)
            if outcome.code != 0:
                failed += 1
                print(outcome.said, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
