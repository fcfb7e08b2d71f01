"""What counts as a mutation, and what is passed over."""

from __future__ import annotations

import pytest

from tests.mutants.mutations import mutations, parses


def changed(source: str) -> set[str]:
    text = source.encode()
    return {m.applied(text).decode() for m in mutations(text) if parses(m.applied(text))}


@pytest.mark.parametrize(
    ("source", "bug"),
    [
        ("a = b < c", "a = b <= c"),
        ("a = b - c", "a = b + c"),
        ("a = b and c", "a = b or c"),
        ("a = not b", "a = (b)"),
        ("a = 3", "a = 4"),
        ("a = f(b, c=d)", "a = f(b)"),
        ("if a:\n    b = 1", "if not (a):\n    b = 1"),
        ("def f(a):\n    a.b()\n    return a", "def f(a):\n    pass\n    return a"),
        ("if a:\n    raise b", "if False:\n    raise b"),
        ("for a in b:\n    break", "for a in b:\n    continue"),
    ],
)
def test_a_small_bug_is_one_edit(source: str, bug: str) -> None:
    assert bug in changed(source)


@pytest.mark.parametrize(
    "source",
    [
        '"""A module of 3 lines."""',
        "a: int | None = b",
        "from a import b",
        'raise ValueError(f"{a + 1}")',
        "assert a < b",
        "a = zip(b, c, strict=True)",
        "if TYPE_CHECKING:\n    import a",
        '__all__ = ["a"]',
    ],
)
def test_what_no_reader_would_call_a_bug_is_passed_over(source: str) -> None:
    assert changed(source) == set()


def test_letters_of_more_than_one_byte_do_not_move_an_edit() -> None:
    assert 'a = "Θ", b > c' in changed('a = "Θ", b <= c')
