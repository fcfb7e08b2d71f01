"""Numbers for people are written in one place: no other text of the program formats a float."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import dgn_engine
import dgn_viewer

# Where people read a fixed style of its own, or a program reads it back.
OF_THE_VIEWER = {
    "docks/range_popup.py",  # fields, as one types
    "inspector/pages/reading_section.py",
    "widgets/integer_field.py",
    "widgets/number_entry.py",
    "widgets/number_field.py",
}
OF_THE_ENGINE = {
    "text/byte_counts.py",
    "text/written_numbers.py",
    "storage/runs/storage_limits.py",  # a file of settings
    "scene/example_readout.py",  # sets its power as mathematics
    "figures/pgf_file.py",  # TeX
    "model/adapt/from_module.py",  # as the sentences of kernels, which adapt a module
}
# Sentences of the library, about arguments that a program has given, and of the reports.
OTHERS = ("kernels/", "experiments/")
_FLOAT = re.compile(r"[eEfFgG%]$")
_SHARE_OR_POWER = re.compile(r"[eE%]$")
_FIELD = re.compile(r"\{[^{}]*:([^{}]*)\}")


def format_specs(source: str) -> Iterator[tuple[int, str]]:
    """Line and spec of each format of a number: of f-strings, `str.format` and `format`."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.FormattedValue(format_spec=ast.JoinedStr(values=parts)):
                whole = (p.value if isinstance(p, ast.Constant) else "?" for p in parts)
                yield node.lineno, "".join(map(str, whole))
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="format")):
                yield from ((node.lineno, spec) for spec in _FIELD.findall(text))
            case ast.Call(func=ast.Name(id="format"), args=[_, ast.Constant(value=str(spec))]):
                yield node.lineno, spec


def floats_written(root: Path, engine: bool = False) -> dict[str, list[str]]:
    """Formats of floats in each file. The engine may write what someone typed with a bare 'g', and
    its library and reports all but percent and powers."""
    wrong = {}
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        refused = _SHARE_OR_POWER if engine and name.startswith(OTHERS) else _FLOAT
        found = [
            f"line {line}: {spec}"
            for line, spec in format_specs(path.read_text(encoding="utf-8"))
            if refused.search(spec) and not (engine and spec == "g")
        ]
        if found:
            wrong[name] = found
    return wrong


def test_no_text_of_the_window_formats_a_float_by_itself() -> None:
    found = floats_written(Path(str(dgn_viewer.__file__)).parent)
    assert set(found) == OF_THE_VIEWER, found


def test_no_sentence_of_the_engine_formats_a_float_by_itself() -> None:
    found = floats_written(Path(str(dgn_engine.__file__)).parent, engine=True)
    assert set(found) == OF_THE_ENGINE, found


def test_formats_of_floats_are_found_and_those_of_whole_numbers_and_texts_are_not() -> None:
    source = """f"{a:.1%} {b:+.2e} {d:,} {e:,.{n}f} {f:g} {g:>7} {h:04}"
"{:.3g} {:,}".format(a, b)
format(a, ".2f")"""
    found = {spec for _, spec in format_specs(source) if _FLOAT.search(spec)}
    assert found == {".1%", "+.2e", ",.?f", "g", ".3g", ".2f"}
