"""Every command and every block of Python that a document shows is run, or is known not to be."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import matplotlib
import pytest

from dgn_engine.cli import _offered_commands, _own_commands
from dgn_viewer.__main__ import build_parser as viewer_parser
from documentation import shell_commands
from documentation.python_blocks import COVERED, GIVEN
from documentation.shell_commands import (
    IN_MAKE_DOCS,
    NOT_RUN,
    ROOT,
    block_commands,
    commands_to_run,
    document_paths,
    documented_commands,
    documents_with_python,
    is_complete,
    left_out,
    real_starts,
    run_commands,
    shown_steps,
    span_commands,
    subcommand,
)
from documentation.stand_ins import StandIns
from tests.architecture.examples import examples

LEFT_OUT = left_out()
SHOWN = {command.line for command in documented_commands()}
# Kinds of blocks of code: what is run, and what is only read.
KINDS = {"", "sh", "console", "python", "text", "latex", "bibtex"}
TITLED = re.compile(r'(?:python|toml) title="[\w./-]+"')
# Lines with a command of ours that are not run as they stand, and why.
NOT_READ = {
    "DGN_HOME=/media/stick/dgn-viewer-data dgn runs list": "names a folder of another machine",
    "exec dgn train --resume $RUN": "of a script for Slurm",
    "exec dgn train config.toml --out $RUN": "of a script for Slurm",
}
TEXTS = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in document_paths()}


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> StandIns:
    return StandIns(tmp_path_factory.mktemp("stand-ins"))


def pages() -> Iterator[object]:
    """Every document with something to run: README and the how-to pages in `make check`, those with
    Python in `make test`, others nightly."""
    for name in commands_to_run(slow=False):
        checked = name == "README.md" or "how-to" in name
        nightly = [] if name in documents_with_python() else [pytest.mark.nightly]
        yield pytest.param(name, marks=[pytest.mark.check] if checked else nightly)


@pytest.mark.slow
@pytest.mark.parametrize("document", list(pages()))
def test_what_a_document_shows_runs_as_it_is_shown(
    document: str, stand_ins: StandIns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MPLCONFIGDIR", matplotlib.get_cachedir())  # its list of fonts takes seconds
    lines = commands_to_run(slow=False)[document]
    ends = {
        outcome.line: (outcome.code, outcome.output)
        for outcome in run_commands(document, lines, stand_ins)
        if not outcome.succeeded
    }
    assert ends == {}


def test_python_is_run_in_the_suite_or_by_make_docs_or_by_a_test_of_its_own() -> None:
    shown = {name for name, text in TEXTS.items() if re.search("^ *```python$", text, re.MULTILINE)}
    assert shown | set(COVERED) == documents_with_python() | set(COVERED)
    assert set(COVERED) <= {name for name, text in TEXTS.items() if "```python" in text}
    assert [tests for _, tests in COVERED.values() if not (ROOT / tests).exists()] == []
    assert set(GIVEN) <= documents_with_python()


def test_a_file_of_python_that_a_document_shows_is_used_by_what_it_runs() -> None:
    for name, text in TEXTS.items():
        steps = " ".join(f"{step.line} {step.code}" for step in shown_steps(text))
        for file in re.findall(r'^```python title="(.+)\.py"$', text, re.MULTILINE):
            assert re.search(rf"\b{file.replace('/', '.')}\b", steps) or name in COVERED, file


def test_a_command_is_run_in_the_suite_or_by_make_docs_or_has_a_reason() -> None:
    suite = [line for lines in commands_to_run(slow=False).values() for line in lines]
    make_docs = [line for lines in commands_to_run(slow=True).values() for line in lines]
    assert sorted([*suite, *make_docs, *LEFT_OUT]) == sorted(SHOWN)
    assert set(commands_to_run(slow=True)) == set(IN_MAKE_DOCS)
    assert len(suite) > 60


def test_what_is_said_of_a_command_is_of_one_that_is_shown() -> None:
    assert LEFT_OUT <= SHOWN
    assert [entry.tests for entry in NOT_RUN if not (ROOT / entry.tests).exists()] == []


def test_every_command_in_the_documents_is_understood() -> None:
    assert [line for line in sorted(SHOWN) if not is_complete(line)] == []


def test_a_block_of_code_has_a_kind_that_is_known() -> None:
    """A block of another kind, ```bash or ```py, would be read by nobody."""
    for name, text in TEXTS.items():
        fences = re.findall(r"^[ >]*(`{3,}|~{3,})(.*)$", text, re.MULTILINE)
        assert {fence for fence, _ in fences} <= {"```"}, name
        opening = {kind for _, kind in fences[::2]}
        assert {kind for kind in opening - KINDS if not TITLED.fullmatch(kind)} == set(), name
        assert {kind for _, kind in fences[1::2]} <= {""}, name


def test_no_line_with_a_command_goes_unread() -> None:
    """Such as one behind a variable, `cd`, `time` or a path."""
    unread = {(name, line) for name, text in TEXTS.items() for line in unread_lines(text)}
    assert {line for _, line in unread} == set(NOT_READ), unread


def unread_lines(text: str) -> Iterator[str]:
    """Yield the lines of blocks that hold one of our programs as a word and are no step."""
    read = {word for step in shown_steps(text) for word in (step.line, *step.answer)}
    outside = shell_commands._without_blocks(text)
    blocks = [
        found["body"]
        for found in shell_commands._BLOCK.finditer(text)
        if found["kind"] in ("", "sh", "console")
    ]
    for line in re.sub(r"\\\n\s*", "", "\n".join([*blocks, *indented_lines(outside)])).splitlines():
        command = re.sub(r" #(?: .*)?$", "", " ".join(line.split()).removeprefix("$ "))
        named = re.search(r"(?:^|[\s;&|(/'\"])dgn(?:-viewer)?(?= (?!\w+: )|$)", command)
        script = re.match(r"python3? \S+\.py\b", command)
        if (named or script) and command not in read and line not in read and "…" not in command:
            yield command


def indented_lines(text: str) -> list[str]:
    return re.findall(r"^ {4,}.*(?:(?<=\\)\n.*)*", text, re.MULTILINE)


def test_lines_that_would_go_unread_are_found() -> None:
    text = """
```sh
dgn runs list
A=1 dgn runs list
cd a && dgn doctor   # why
$ .venv/bin/dgn-viewer --help
make run             # dgn
python not_shown.py --quick
```

    time dgn train \\
        --quiet
    dgn train: an answer
    dgn_engine/ and `dgn`
"""
    assert list(unread_lines(text)) == [
        "A=1 dgn runs list",
        "cd a && dgn doctor",
        ".venv/bin/dgn-viewer --help",
        "python not_shown.py --quick",
        "time dgn train --quiet",
    ]


def test_a_command_with_an_answer_is_run_in_its_own_document() -> None:
    """Of a command in two documents only the first is run, if neither shows Python."""
    for name, text in TEXTS.items():
        answered = {step.line for step in shown_steps(text) if step.answer} - LEFT_OUT
        if name not in documents_with_python():
            assert answered <= set(commands_to_run(name in IN_MAKE_DOCS).get(name, ())), name


def test_code_spans_name_subcommands_and_options_that_exist() -> None:
    """Also those that are not complete, and so are not run."""
    assert [(name, *wrong) for name, text in TEXTS.items() for wrong in wrong_spans(text)] == []
    text = """`dgn runs liste`, `dgn nothing`, `dgn train --option`, `dgn inspect a.pt --dataset D`,
`dgn-viewer --windows`, `dgn runs export RUN DIR --tensorboard`, `dgn runs list --no=1`, `dgn`"""
    assert list(wrong_spans(text)) == [
        ("dgn runs liste", "liste"),
        ("dgn nothing", "nothing"),
        ("dgn inspect a.pt --dataset D", "--dataset"),
        ("dgn-viewer --windows", "--windows"),
        ("dgn runs list --no=1", "--no"),
    ]


def wrong_spans(text: str) -> Iterator[tuple[str, str]]:
    """Yield code spans that begin with one of our programs, and the word that it does not know."""
    for span in shell_commands._SPAN.findall(shell_commands._without_blocks(text)):
        command = " ".join(span.split())
        program, *words = shlex.split(command)
        known = dict(viewer_parser()._option_string_actions)
        if program == "dgn":
            known = dict.fromkeys(("--help", "--version"))
            below = parsers()
            while words and below:
                if words[0].startswith("-") or re.search("[…A-Z]", words[0]):
                    break
                if words[0] not in below:
                    yield command, words[0]
                    break
                parser = below[words.pop(0)]
                known |= parser._option_string_actions
                below = parsers_below(parser)
        options = [word.partition("=")[0] for word in words if re.match("--?[a-z]", word)]
        yield from ((command, option) for option in options if option not in known)


@cache
def parsers() -> dict[str, argparse.ArgumentParser]:
    found = {}
    for name, load in {**_offered_commands(), **_own_commands()}.items():
        found[name] = argparse.ArgumentParser()
        load().add_arguments(found[name])
    return found


def parsers_below(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    return {
        name: below
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for name, below in action.choices.items()
    }


def test_every_subcommand_is_shown_and_started_as_a_user_starts_it() -> None:
    started = {" ".join(line.split()[:2]) for line in real_starts()}
    run = {
        subcommand(line)
        for slow in (True, False)
        for lines in commands_to_run(slow).values()
        for line in lines
    }
    # Of a plug-in the example in docs/adding.md is Python.
    added = {f"dgn {example.name}" for example in examples()}
    not_run = set(subcommands()) - run - added
    assert not_run == {"dgn serve", "dgn mirror"}
    assert not_run <= {subcommand(line) for line in LEFT_OUT}
    assert {" ".join(name.split()[:2]) for name in run} == started


def subcommands() -> Iterator[str]:
    for name, parser in parsers().items():
        below = parsers_below(parser)
        yield from (f"dgn {name} {verb}" for verb in below) if below else (f"dgn {name}",)


def test_commands_are_found_in_blocks_of_every_kind() -> None:
    text = """Text.

```sh
dgn train --seed 1 \\
    --quiet   # a comment
make run
```

```python
dgn = train()
```

```
dgn runs list
```

    dgn doctor
    $ dgn sweep a.toml \\
        --list

```console
$ dgn docs
dgn docs: an answer
```
"""
    assert list(block_commands(text)) == [
        "dgn train --seed 1 --quiet",
        "dgn runs list",
        "dgn doctor",
        "dgn sweep a.toml --list",
        "dgn docs",
    ]


def test_python_and_commands_are_run_in_their_order_in_one_folder(
    stand_ins: StandIns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "page.md").write_text("""
```python title="mine/own.py"
from pathlib import Path

Path("made.txt").write_text("42 files")
print("42 files were written")
```

    python mine/own.py     # a comment

```python
from mine.own import Path

text = Path("made.txt").read_text()
!dgn runs list --json
number = int(text.split()[0])
```

```console
$ python mine/own.py
41 … written
$ dgn runs list
another … of 7
```

    $ python mine/own.py
    41 folders were written


```python
assert number == 42
raise ValueError(text)
```
""")
    real_starts()  # of the documents that are there
    monkeypatch.setattr(shell_commands, "ROOT", tmp_path)
    monkeypatch.setattr(shell_commands, "documents_with_python", lambda: frozenset({"page.md"}))
    found = list(run_commands("page.md", [], stand_ins))
    assert [outcome.line.removeprefix("Python: ") for outcome in found] == [
        "python mine/own.py",
        "from mine.own import Path …",
        "dgn runs list --json",
        "number = int(text.split()[0]) …",
        "python mine/own.py",
        "dgn runs list",
        "python mine/own.py",
        "assert number == 42 …",
    ]
    assert [outcome.succeeded for outcome in found] == [True] * 5 + [False] * 3
    assert "NOT PRINTED:\nanother … of 7" in found[-3].output
    assert "NOT PRINTED:\n    41 folders were written" in found[-2].output
    assert "ValueError: 42 files" in found[-1].output
    assert "mine.own" not in sys.modules


def test_a_code_span_is_a_command_if_its_parser_takes_it() -> None:
    text = (
        "`dgn runs list`, `dgn figure`, `dgn train --seed`, `dgn reproduce NAME`, "
        "`dgn train\n--seed 1`, `dgn-viewer RUN`"
    )
    assert list(span_commands(text)) == ["dgn runs list", "dgn train --seed 1", "dgn-viewer RUN"]


def test_files_that_a_document_shows_or_names_are_there(
    stand_ins: StandIns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("net.pt", "images", "mypackage/module.py"):
        stand_ins.put("README.md", name, tmp_path)
        assert (tmp_path / name).exists()
    stand_ins.put("README.md", "no stand-in", tmp_path)
    assert not (tmp_path / "no stand-in").exists()
    (refused,) = run_commands("README.md", ["dgn inspect gone.pt"], stand_ins)
    assert (refused.code, refused.succeeded) == (2, False)
