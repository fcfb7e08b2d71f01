"""The words that users read, in one file to be reviewed: tests/wording.txt.

`python -m tests.wording` (`make snapshots`) writes it from the source: every text of two words or
more that is no docstring, by module, in the order in which it stands there, with {} for what is
put in.
Whoever mends the English writes it anew and reads the diff; no other test holds a sentence.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILE = Path(__file__).with_suffix(".txt")
PLACES = ("dgn_engine", "app/dgn_viewer")
WORDS = re.compile(r"[^\W\d_]{2,}['’]?\s+(?:\S+\s+)*?[^\W\d_]{2,}")
NOT_WORDS = re.compile(r"^\s*(SELECT|INSERT|CREATE|DELETE|UPDATE|DROP|PRAGMA|<|import |from )")


def texts_of(source: str) -> Iterator[str]:
    """Yield what a module says, line breaks as spaces."""
    tree = ast.parse(source)
    passed_over = {id(node) for node in _docstrings(tree)}
    for node in sorted(_texts(tree), key=lambda node: (node.lineno, node.col_offset)):
        if id(node) in passed_over:
            continue
        text = " ".join(_template(node).split())
        if WORDS.search(text) and not NOT_WORDS.match(text):
            yield text


def all_texts() -> str:
    """Return the content of the file for the source as it is."""
    lines: list[str] = []
    for place in PLACES:
        for path in sorted((ROOT / place).rglob("*.py")):
            if texts := list(texts_of(path.read_text("utf-8"))):
                lines += [path.relative_to(ROOT).as_posix(), *(f"  {text}" for text in texts), ""]
    return "\n".join(lines)


def _docstrings(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value
        if isinstance(node, ast.JoinedStr):  # its parts are read with it
            yield from node.values


def _texts(tree: ast.AST) -> Iterator[ast.Constant | ast.JoinedStr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) or (
            isinstance(node, ast.Constant) and isinstance(node.value, str)
        ):
            yield node


def _template(node: ast.expr) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(_template(value) for value in node.values)
    return str(node.value) if isinstance(node, ast.Constant) else "{}"


if __name__ == "__main__":
    FILE.write_text(all_texts(), encoding="utf-8")
