"""TOML of others is held to bounds: size, depth, parts of a key, digits, and what kind of file."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgn_engine.cli import main
from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.storage.config_file import read_config
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.sweep.sweep_file import read_sweep
from dgn_engine.text.toml import DEEPEST, LONGEST, MOST, PARTS, TomlError, format_toml, parse_toml
from tests.refusals import assert_one_sentence, refused, refused_command

FAR = 100_000
HOSTILE = {  # a text, the kind of its refusal, and what is told
    "a number of 10⁵ digits": ("x = " + "9" * FAR, "too-long", "line 1"),
    "with underscores": ("x = 1" + "_1" * FAR, "too-long", str(LONGEST)),
    "a hexadecimal number": ("x = 0x" + "f" * FAR, "too-long", "line 1"),
    "a float of 10⁵ digits": ("x = 1." + "9" * FAR, "too-long", "line 1"),
    "an exponent": ("x = 1e" + "9" * FAR, "too-long", "line 1"),
    "a negative number": ("\n\nx = -" + "9" * FAR, "too-long", "line 3"),
    "a bare key": ("a" * FAR + " = 1", "too-long", "line 1"),
    "65 bits": (f"x = [1, {{y = {2**63}}}]", "out-of-bounds", "64 bits"),
    "65 bits below 0": (f"x = {-(2**63) - 1}", "out-of-bounds", "64 bits"),
    "a dotted key": ("a" + ".a" * FAR + " = 1", "too-many", "line 1"),
    "with blanks and quotes": ("a" + " . 'a'\t.\"b\"" * PARTS + " = 1", "too-many", str(PARTS)),
    "a dotted table": ("[a" + ".a" * FAR + "]", "too-many", "line 1"),
    "a dotted table of tables": ("[[a" + ".a" * FAR + "]]", "too-many", "line 1"),
    "in an inline table": ("x = {a" + ".a" * FAR + " = 1}", "too-many", "line 1"),
    "lists in lists": ("x = " + "[" * FAR + "]" * FAR, "too-deep", str(DEEPEST)),
    "tables in tables": ("x = " + "{a = " * 9000 + "1" + "}" * 9000, "too-deep", "line 1"),
    "behind a string": ("x = ['''[''', \"]\\\"\", " + "[" * DEEPEST, "too-deep", "line 1"),
    "one letter too many": ("a" * (LONGEST + 1) + " = 1", "too-long", "line 1"),
    "one part too many": (".".join("a" * (PARTS + 1)) + " = 1", "too-many", "line 1"),
    "one level too deep": (
        "x = " + "[" * (DEEPEST + 1) + "]" * (DEEPEST + 1),
        "too-deep",
        "line 1",
    ),
    "a file": ("#" * (MOST + 1), "too-large", "512 KiB"),
    "a string that never ends": ('x = """' + '\\"""' * 5000 + "\\", "wrong-form", "TOML"),
    "no TOML": ("x = ", "wrong-form", "TOML"),
}
FINE = {
    "dots in strings": "x = '" + "a." * 500 + "' # " + "b." * 500 + "\n",
    "brackets in strings": 'x = "' + "[" * 500 + '"\ny = """\n' + "{" * 500 + '"""',
    "digits in strings": f"x = '{'9' * 5000}'",
    "long lists": "x = [" + "1.5, " * 20_000 + "]",
    "as many letters as may be": "a" * LONGEST + " = 1",
    "as many parts as may be": ".".join("a" * PARTS)
    + " = 1\n["
    + ".".join("b" * PARTS)
    + "]\nc = 1",
    "as large a file as may be": "x = 1 #".ljust(MOST, "#"),
    "keys of some parts": "a.b.'c d'.e = 1\n[a.f.g]\nh = 1",
    "64 bits": f"x = [{2**63 - 1}, {-(2**63)}]",
    "times": "x = 1979-05-27T07:32:00.999999-07:00",
    "lists in lists": "x = " + "[" * DEEPEST + "]" * DEEPEST,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_out_of_bounds_is_refused_wherever_it_stands(name: str, tmp_path: Path) -> None:
    text, kind, told = HOSTILE[name]
    with pytest.raises(TomlError, match=told) as error:
        parse_toml(text)
    assert error.value.kind == kind
    with refused(kind) as refusal:
        RunConfig.from_toml(text)
    assert told in str(refusal.error)
    assert len(str(refusal.error)) < 200
    (tmp_path / "base.toml").write_text(text)
    sweep = tmp_path / "sweep.toml"
    sweep.write_text("base = 'base.toml'\n[grid]\nseed = [0, 1]\n")
    with pytest.raises(UserError, match=r"sweep\.toml: .*base\.toml") as of_base:
        read_sweep(sweep)
    assert_one_sentence(str(of_base.value))


@pytest.mark.parametrize("name", FINE)
def test_what_is_within_bounds_is_parsed(name: str) -> None:
    assert parse_toml(FINE[name])


def fifo(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def circle(path: Path) -> None:
    path.symlink_to(path.name)


def holes(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def no_text(path: Path) -> None:
    path.write_bytes(b"x = '\xff'")


@pytest.mark.parametrize(
    ("make", "kind", "reason"),
    [
        (fifo, "unreadable", "regular file"),
        (device, "unreadable", "regular file"),
        (circle, "unreadable", "symbolic links"),
        (holes, "unreadable", "512 KiB"),
        (no_text, "no-text", "UTF-8"),
        (Path.mkdir, "unreadable", "folder"),
        (lambda path: None, "unreadable", "No such file"),
    ],
)
def test_what_is_no_file_of_text_is_refused_without_waiting(
    make: Callable[[Path], None], kind: str, reason: str, tmp_path: Path
) -> None:
    path, sweep = tmp_path / "base.toml", tmp_path / "sweep.toml"
    make(path)
    for read, what in ((read_config, "configuration"), (read_sweep, "sweep")):
        with refused(kind, value=what) as refusal:
            read(path)
        assert f"{path}: " in str(refusal.error)
        assert reason in str(refusal.error)
    sweep.write_text("base = 'base.toml'\n[grid]\nseed = [0, 1]\n")
    for words in (["train", path], ["sweep", path], ["sweep", sweep]):
        assert reason in str(refused_command(*words))


def test_a_base_has_no_base_and_none_is_read_in_a_circle(tmp_path: Path) -> None:
    first = tmp_path / "first.toml"
    first.write_text("base = 'first.toml'\n[grid]\nseed = [0, 1]\n")
    with pytest.raises(UserError, match="'base'"):
        read_sweep(first)


def test_the_configuration_in_a_run_folder_is_held_to_the_same_bounds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    RunFolder.create(tmp_path / "run", RunConfig()).close()
    (tmp_path / "run" / "config.toml").write_text(HOSTILE["a dotted key"][0])
    assert main(["runs", "verify", str(tmp_path / "run")]) == 1
    assert "config.toml" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ('"net.options.width" = [[1], [2]]', "width"),
        ('"net.options.width" = [{a = 1}, {a = 2}]', "width"),
        ('"net.options.width" = [1979-05-27, 2]', "width"),
        ('"data.binary" = [[1], [1, 2, 3]]', "data.binary"),
        ("seed = [nan, inf]", "seed"),
        ('"training.learning_rate" = [nan, inf]', "learning_rate"),
        ("seed = [[0], [1]]", "seed"),
        ("seed = [{}]", "seed is {}"),
        ('"a.b.c" = [1]', "a"),
        ('"." = [1]', "key"),
        ('"" = [1]', "key"),
    ],
)
def test_odd_values_of_a_sweep_are_refused_in_one_sentence(
    line: str, named: str, tmp_path: Path
) -> None:
    sweep = tmp_path / "sweep.toml"
    sweep.write_text(f"[grid]\n{line}\n")
    with pytest.raises(UserError, match=named):
        read_sweep(sweep)


SCALARS = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.text(st.characters(exclude_categories=["Cs"]))
)
KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(KEYS, TREES, max_size=4))
def test_what_is_written_is_read_back(tree: dict[str, object]) -> None:
    assert repr(tomllib.loads(format_toml(tree))) == repr(_with_tables_last(tree))


def _with_tables_last(tree: Any) -> Any:
    """As TOML keeps the order: what stands in a table before the tables in it."""
    if not isinstance(tree, dict):
        return tree
    ordered = sorted(tree.items(), key=lambda pair: isinstance(pair[1], dict))
    return {key: _with_tables_last(value) for key, value in ordered}


def test_a_configuration_is_written_as_other_writers_do() -> None:
    tree = {
        "b": {"x": 1e-05, "options": {}, "a b": '"\\\t\n\x7fü'},
        "c": {"d": {"e": [1, 2]}},
        "a": [],
    }
    assert format_toml(tree) == (
        'a = []\n\n[b]\nx = 1e-05\n"a b" = "\\"\\\\\t\\n\\u007fü"\n\n[b.options]\n\n'
        "[c.d]\ne = [\n    1,\n    2,\n]\n"
    )
    with pytest.raises(TypeError):
        format_toml({"a": None})
