"""Runs every command and every block of Python that a document shows, exactly as it is shown.

    python -m documentation.shell_commands [DOCUMENT…] [--without DOCUMENT]

Without documents, it runs what the test suite leaves to `make docs`.

A command is a line of a block of code that begins with `dgn` or `dgn-viewer`, such words in a code
span that the program's own parser accepts as complete, or `python` with -c or with a file that the
document shows. Each document has an empty folder, in which everything runs in its order; files that
a command names and that are not there yet are small stand-ins (`documentation/stand_ins.py`). No
word is changed. Lines below a command in a block of kind `console`, or below one with a prompt in
an indented block, are its answer: it has to print each of them, but numbers may be others and … may
be anything. Commands that are not run are in `NOT_RUN`, with the reason and what covers them; for
Python see `documentation/python_blocks.py`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
import time
import traceback
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby, pairwise
from pathlib import Path

from dgn_engine.cli import _build_parser, _offered_commands, _own_commands
from dgn_engine.cli import main as dgn
from dgn_viewer.__main__ import build_parser as viewer_parser
from documentation.python_blocks import COVERED, namespace_of, run_block
from documentation.stand_ins import StandIns

ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(r"^ *```(?P<kind>[^\n]*)\n(?P<body>.*?)^ *```[ ]*$", re.DOTALL | re.MULTILINE)
_INDENTED = re.compile(
    r"^ {4,}(?P<prompt>\$ )?(?:dgn|python)\b(?:.*\\\n)*.*(?(prompt)(?:\n {4,}(?!\$ ).+)*)",
    re.MULTILINE,
)
_SPAN = re.compile(r"`((?:dgn|dgn-viewer)(?: [^`]+)?)`")
_FILE = re.compile(
    r"^```\w+ title=\"(?P<name>\w[\w./-]*)\"\n(?P<text>.*?)^```", re.DOTALL | re.MULTILINE
)
_SCRIPT = re.compile(r"python (?P<name>\w[\w./-]*\.py)\b")
RECORDS = {
    "CHANGELOG.md": "what has changed",
    "docs/decisions/": "why, at their time",
    "docs/results.md": "what was run; its results are kept",
}
# Names that sentences mention: without a word more they are refused, but not by the parser.
MENTIONS = frozenset({"dgn gate-information", "dgn inspect", "dgn reproduce"})
# Words that stand for something else; RUN and FILE are names of stand-ins.
_PLACEHOLDER = re.compile(r"…|\b(?:NAME|ID|DIR|PORT|TOPIC|COMMAND|FOLDER|NUMBER)\b")


@dataclass(frozen=True)
class NotRun:
    """Commands that cannot be run as they stand: why, and the tests that cover them."""

    reason: str
    tests: str  # a module or a folder of tests
    lines: tuple[str, ...]


NOT_RUN = (
    NotRun(
        "opens a window that stays",
        "tests/viewer/test_window.py",
        (
            "dgn-viewer",
            "dgn-viewer --portable",
            "dgn-viewer --process",
            "dgn-viewer RUN",
            "dgn-viewer relu",
            "dgn-viewer runs/first",
            "dgn-viewer runs/mine",
            "dgn-viewer watched",
            "dgn-viewer 'dgn-play:xor?depth=3&width=8&noise=0.1&regime=DL&seed=1'",
            "dgn-viewer dgn://127.0.0.1:40123",
        ),
    ),
    NotRun(
        "serves until it is stopped, or needs such a server",
        "tests/engine/storage/remote",
        (
            "dgn serve runs/mine --port 40123",
            "dgn serve first",
            "dgn mirror dgn://127.0.0.1:40123 copy",
        ),
    ),
    NotRun(
        "reads CIFAR-10 in processes that know only its published files",
        "tests/engine/cli/test_assumptions.py",
        ("dgn gate-information mine.pt --data cifar10 --normalise cifar10 --expect-accuracy 92.9",),
    ),
    NotRun(
        "run with the rest of its section by a test of its own; the first ends with exit code 2",
        "tests/documentation/test_files_section.py",
        (
            "dgn inspect digits.pt --data digits",
            "dgn inspect digits.pt --data digits --activation relu --geometry s2p1,p1",
            "dgn kernels digits.pt --inputs x.npy --labels y.npy --activation relu "
            "--geometry s2p1,p1 --out kernels.npz",
        ),
    ),
    NotRun(
        "needs a cluster",
        "tests/engine/sweep/test_dask.py",
        (
            "dgn sweep beta.toml --cluster tls://node0:8786 --tls-ca-file ca.pem "
            "--tls-cert me.pem --tls-key me-key.pem --out /shared/beta",
        ),
    ),
    NotRun(
        "needs Slurm",
        "tests/engine/sweep/test_slurm.py",
        (
            "dgn sweep beta.toml --out /shared/beta "
            "--cluster slurm:jobs=16,cores=4,memory=8GB,walltime=04:00:00",
        ),
    ),
    NotRun(
        "needs two cards",
        "tests/engine/sweep/test_sweep_devices.py",
        ("dgn sweep beta.toml --devices cuda:0,cuda:1 --out beta",),
    ),
    NotRun(
        "takes minutes to days",
        "tests/engine/experiments/test_reproduce.py",
        (
            "dgn reproduce npf-table2",
            "dgn reproduce npf-table2 --full",
            "dgn reproduce npf-table2 --full --only Adam/MNIST --seeds 5",
            "dgn reproduce npf-table2 --full --only Adam/MNIST --seeds 2 --seed-start 3 --out R",
            "dgn reproduce npf-table2 --full --only Adam/MNIST --data-root ~/data --out table2",
            "dgn reproduce all --quick",
        ),
    ),
)
# What takes longer than a test should; the others are run by tests/documentation.
IN_MAKE_DOCS = (
    "docs/guide/gate-information.md",
    "docs/guide/papers.md",
    "docs/guide/trouble.md",
    "docs/how-to/gates-of-a-checkpoint.md",
    "docs/start/own-cnn.md",
    "docs/start/tutorial.md",
)
TIMEOUT = 300.0  # seconds, of a program that is started


@dataclass(frozen=True)
class Outcome:
    line: str
    code: int
    output: str
    seconds: float

    @property
    def succeeded(self) -> bool:
        return self.code == 0


@dataclass(frozen=True)
class Step:
    """A command or a piece of Python in a block of a document."""

    line: str  # the command as it is typed, without a prompt or a comment
    code: str = ""  # of Python
    answer: tuple[str, ...] = ()  # lines that it prints


@dataclass(frozen=True)
class DocumentedCommand:
    document: str  # relative to the root
    line: str  # as it is typed, without a prompt or a comment


def document_paths() -> list[Path]:
    """Return the documents whose commands are run, in the order in which they are run."""
    paths = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
    return [path for path in paths if not _name(path).startswith(tuple(RECORDS))]


def _name(document: Path) -> str:
    return document.relative_to(ROOT).as_posix()


def shown_steps(text: str) -> Iterator[Step]:
    """Yield the commands and the Python in the blocks of code of a document, in their order."""
    files = {found["name"] for found in _FILE.finditer(text)}
    blocks = [(found.start(), found["kind"], found["body"]) for found in _BLOCK.finditer(text)]
    blocks += [
        (found.start(), "console" if found["prompt"] else "", found[0])
        for found in _INDENTED.finditer(_without_blocks(text))
    ]
    for _, kind, body in sorted(blocks):
        if kind == "python":
            yield from _steps_of_cell(textwrap.dedent(body))
        elif kind in ("", "sh", "console"):
            yield from _steps_of_shell(body, files, answered=kind == "console")


def _steps_of_cell(body: str) -> Iterator[Step]:
    """Yield a block of Python, or its pieces between the lines that Jupyter gives to a shell."""
    for is_shell, lines in groupby(body.splitlines(), lambda line: line.startswith("!dgn ")):
        piece = "\n".join(lines).strip("\n")
        if is_shell:
            yield from (Step(line.removeprefix("!")) for line in piece.splitlines())
        elif piece:
            yield Step(f"Python: {piece.splitlines()[0]} …", code=piece)


def _steps_of_shell(body: str, files: Collection[str], answered: bool) -> Iterator[Step]:
    steps: list[Step] = []
    for line in re.sub(r"\\\n\s*", "", body).splitlines():
        command = re.sub(r" #(?: .*)?$", "", " ".join(line.split()).removeprefix("$ "))
        script = _SCRIPT.match(command)
        ours = is_command(command) or command.startswith("python -c ")
        if ours or (script and script["name"] in files):
            steps.append(Step(command))
        elif answered and steps and line.strip():
            steps[-1] = replace(steps[-1], answer=(*steps[-1].answer, line))
    yield from steps


def block_commands(text: str) -> Iterator[str]:
    """Yield the commands in the blocks of code of a document, in their order."""
    yield from (step.line for step in shown_steps(text) if not step.code)


def span_commands(text: str) -> Iterator[str]:
    """Yield the code spans of a document that are complete commands."""
    for span in _SPAN.findall(_INDENTED.sub("", _without_blocks(text))):
        command = " ".join(span.split())
        if command not in MENTIONS and is_command(command) and is_complete(command):
            yield command


def _without_blocks(text: str) -> str:
    return _BLOCK.sub(lambda found: " " * len(found[0]), text)


def is_command(line: str) -> bool:
    """Return whether a line calls one of our programs and is complete."""
    begins = re.match(r"(dgn|dgn-viewer)(?: (?!\w+: )|$)", line)  # 'dgn train: …' is an answer
    return begins is not None and not _PLACEHOLDER.search(line)


def is_complete(line: str) -> bool:
    """Return whether the parser of the program accepts a command as it stands."""
    program, *words = shlex.split(line.partition(" > ")[0])
    if program == "python":
        return True
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            if program == "dgn":
                _dgn_parser().parse_command_line(words)
            else:
                viewer_parser().parse_args(words)
        except SystemExit as end:
            return not end.code
    return True


@cache
def _dgn_parser() -> argparse.ArgumentParser:
    commands = {name: load() for name, load in {**_offered_commands(), **_own_commands()}.items()}
    return _build_parser(commands)


@cache
def documented_commands() -> list[DocumentedCommand]:
    """Return every distinct command of the documents; one in a block goes before one in a span."""
    texts = {_name(path): path.read_text("utf-8") for path in document_paths()}
    shown: dict[str, DocumentedCommand] = {}
    for commands in (block_commands, span_commands):
        for name, text in texts.items():
            for line in commands(text):
                shown.setdefault(line, DocumentedCommand(name, line))
    order = {name: place for place, name in enumerate(texts)}
    return sorted(shown.values(), key=lambda command: order[command.document])


def subcommand(line: str) -> str:
    """Return the part of a command that names what it does: `dgn train`, `dgn runs list`."""
    words = line.split()
    return " ".join(words[: 3 if words[1:2] == ["runs"] else 2])


def commands_to_run(slow: bool) -> dict[str, list[str]]:
    """Return the commands of each document that are run; of one with Python there may be none.

    Args:
        slow: whether those that `make docs` runs, else those that the test suite runs.
    """
    found: dict[str, list[str]] = {
        name: [] for name in sorted(documents_with_python()) if (name in IN_MAKE_DOCS) == slow
    }
    for command in documented_commands():
        if command.line not in left_out() and (command.document in IN_MAKE_DOCS) == slow:
            found.setdefault(command.document, []).append(command.line)
    return found


@cache
def left_out() -> frozenset[str]:
    return frozenset(line for entry in NOT_RUN for line in entry.lines)


@cache
def documents_with_python() -> frozenset[str]:
    """Return the documents that show Python which is run here."""
    texts = {_name(path): path.read_text("utf-8") for path in document_paths()}
    return frozenset(
        name
        for name, text in texts.items()
        if name not in COVERED and any(step.code for step in shown_steps(text))
    )


def steps_to_run(document: str, lines: Sequence[str]) -> list[Step]:
    """Return these commands of a document, with their answers.

    Where it shows Python they are run among its blocks, and with them the commands of its blocks
    that another document shows, too.
    """
    shown = list(shown_steps((ROOT / document).read_text("utf-8")))
    if document not in documents_with_python():
        steps = {step.line: step for step in shown}
        return [steps.get(line, Step(line)) for line in lines]
    in_order = [step for step in shown if step.code or step.line not in left_out()]
    there = {step.line for step in in_order}
    return [*in_order, *(Step(line) for line in lines if line not in there)]


@cache
def real_starts() -> frozenset[str]:
    """Return the commands that are started as a user starts them: one of each subcommand.

    The others are calls of the same `main`, which saves the import of torch. The small CIFAR-10 is
    known to this process alone.
    """
    chosen: dict[str, str] = {}
    for lines in (*commands_to_run(slow=False).values(), *commands_to_run(slow=True).values()):
        for line in lines:
            if "cifar" not in line:
                chosen.setdefault(" ".join(line.split()[:2]), line)
    return frozenset(chosen.values())


def run_commands(document: str, lines: Sequence[str], stand_ins: StandIns) -> Iterator[Outcome]:
    """Run commands of a document, and its Python, in a folder of their own and in their order."""
    with tempfile.TemporaryDirectory() as name, stand_ins.installed(Path(name) / "home"):
        folder = Path(name).resolve() / "here"
        folder.mkdir()
        for shown in _FILE.finditer((ROOT / document).read_text("utf-8")):
            (folder / shown["name"]).parent.mkdir(parents=True, exist_ok=True)
            (folder / shown["name"]).write_text(shown["text"], "utf-8")
        with contextlib.chdir(folder), namespace_of(document, folder) as names:
            for step in steps_to_run(document, lines):
                if step.code:
                    begin = time.monotonic()
                    code, output = run_block(step.code, names)
                    yield Outcome(step.line, code, output, time.monotonic() - begin)
                    continue
                for file in _files_named_in(step.line):
                    if not (folder / file).exists():
                        stand_ins.put(document, file, folder)
                yield _compared(_run(step.line), step.answer)


def _compared(outcome: Outcome, answer: Sequence[str]) -> Outcome:
    """Let a command fail that does not print its answer."""
    printed = outcome.output.splitlines()
    lacking = [line for line in answer if not any(_as_shown(line).fullmatch(p) for p in printed)]
    if outcome.code or not lacking:
        return outcome
    return replace(outcome, code=1, output="\n".join([*printed, "NOT PRINTED:", *lacking]))


def _as_shown(line: str) -> re.Pattern[str]:
    """Return a pattern of the lines that may be printed where a document shows this one."""
    pieces = re.split(r"(\d[\d.,]*|…)", line.strip())
    patterns = {"…": ".*", "": ""}
    return re.compile(
        r"\s*"
        + "".join(
            patterns.get(piece, r"\d[\d.,]*" if piece[:1].isdigit() else re.escape(piece))
            for piece in pieces
        )
        + r"\s*"
    )


def _files_named_in(line: str) -> Iterator[str]:
    """Yield what may be the files that a command reads, in the words that name them."""
    words = shlex.split(line)
    for before, word in pairwise(words):
        if before in ("--out", "-o", ">"):
            continue
        yield re.sub(r"^(?:file|folder):|@\d+$", "", word)
        if word == "sweep.toml":
            yield "base.toml"
        if before == "--model":
            yield f"{word.partition(':')[0].replace('.', '/')}.py"


def _run(line: str) -> Outcome:
    words, begin = shlex.split(line), time.monotonic()
    if words[0] != "dgn" or ">" in words or line in real_starts():
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            line,
            shell=True,
            check=False,
            capture_output=True,
            encoding="utf-8",
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PATH": programs},
            timeout=TIMEOUT,
        )
        return Outcome(line, done.returncode, done.stdout + done.stderr, time.monotonic() - begin)
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            code = dgn(words[1:])
        except SystemExit as end:  # of the parser
            code = int(end.code or 0)
        except Exception:  # a fault of the program: the exit code that Python has for it
            code = 1
            traceback.print_exc()
    return Outcome(line, code, output.getvalue(), time.monotonic() - begin)


def main(arguments: Sequence[str]) -> int:
    """Run what these documents show, else what all those show that `make docs` runs."""
    parser = argparse.ArgumentParser(prog="python -m documentation.shell_commands")
    parser.add_argument("names", nargs="*", metavar="DOCUMENT")
    parser.add_argument("--without", action="append", default=[], metavar="DOCUMENT")
    asked = parser.parse_args(arguments)
    names: list[str] = asked.names
    chosen = {**commands_to_run(slow=True), **(commands_to_run(slow=False) if names else {})}
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        stand_ins = StandIns(Path(folder))
        for document, lines in chosen.items():
            if (names and document not in names) or document in asked.without:
                continue
            for outcome in run_commands(document, lines, stand_ins):
                sign = "ok" if outcome.succeeded else f"exit code {outcome.code}"
                print(f"{sign}, {outcome.seconds:.1f} s: {outcome.line}", flush=True)
                if not outcome.succeeded:
                    failed += 1
                    print(outcome.output, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
