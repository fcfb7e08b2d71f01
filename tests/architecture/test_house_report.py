"""What `make house` counts, on code that is known by hand."""

from __future__ import annotations

import ast
from pathlib import Path

import grimp
import pytest

from benchmarks.house import count_functions, count_late_imports, find_slivers

CODE = '''
class Box:
    def __init__(self):
        pass

    def kept(self):
        """What is in it."""

    def largest(self, values):
        """Return the largest value.

        Args:
            values: At least one.
        """
        from dgn_engine.errors import UserError

        return max(values)


def _read_part(name):
    """Of a file, one part."""
'''


def test_functions_are_counted_by_their_names_and_docstrings() -> None:
    found = count_functions([ast.parse(CODE)])
    assert (found.count, found.one_word, found.idioms) == (3, 2, 1)
    assert (found.public, found.public_with_arguments) == (2, 1)
    assert found.odd_docstrings == 2


def test_imports_of_our_own_modules_inside_functions_are_counted() -> None:
    assert count_late_imports([ast.parse(CODE), ast.parse("from dgn_engine import errors\n")]) == 1


@pytest.mark.parametrize(("importers", "found"), [((), 0), (("a",), 1), (("a", "b"), 0)])
def test_a_small_module_with_one_importer_is_named(
    importers: tuple[str, ...], found: int, tmp_path: Path
) -> None:
    graph = grimp.ImportGraph()
    graph.add_module("dgn_engine.small")
    for importer in importers:
        graph.add_import(importer=f"dgn_engine.{importer}", imported="dgn_engine.small")
    for lines, expected in ((59, found), (60, 0)):
        lengths = {tmp_path / "dgn_engine" / "small.py": lines}
        assert len(find_slivers(graph, lengths, tmp_path)) == expected
