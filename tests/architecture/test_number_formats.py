"""Numbers for people are written in one place: no other f-string writes percent or powers."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import dgn_viewer

# Fields that are typed into and files that are read by programs keep the form of a program.
TYPED = {
    "docks/range_popup.py",
    "inspector/pages/reading_section.py",
    "widgets/number_field.py",
    "scene/reading_text.py",
    "figures/export_values.py",
    "scene/example_readout.py",  # sets its power as mathematics
}
_SPEC = re.compile(r"[eE%]$|\.\d+[gG]$")


def number_formats(source: str) -> list[str]:
    """Formats of f-strings that write percent or, of small and large numbers, powers of ten."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FormattedValue) and isinstance(node.format_spec, ast.JoinedStr):
            parts = node.format_spec.values
            spec = "".join(str(one.value) for one in parts if isinstance(one, ast.Constant))
            if _SPEC.search(spec):
                found.append(f"line {node.lineno}: {spec}")
    return found


def test_no_fstring_of_the_window_writes_percent_or_powers_of_ten() -> None:
    root = Path(str(dgn_viewer.__file__)).parent
    wrong = {
        name: found
        for path in sorted(root.rglob("*.py"))
        if (name := path.relative_to(root).as_posix()) not in TYPED
        if (found := number_formats(path.read_text(encoding="utf-8")))
    }
    assert wrong == {}


def test_a_format_that_writes_percent_is_found() -> None:
    assert number_formats('f"{a:.1%} {b:.3g} {c:+.2e} {d:,} {e:.1f} {f:g}"') == [
        "line 1: .1%",
        "line 1: .3g",
        "line 1: +.2e",
    ]
