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
        ("a = b[-1]", "a = b[0]"),
        ("a = b.clone()", "a = b"),
        ("a = copy.deepcopy(b)", "a = b"),
        ("a = [*b.parameters(), *b.buffers()]", "a = [*b.parameters(), *()]"),
        ("a = b.state_dict()", "a = dict(b.named_parameters())"),
        (
            "def f(a):\n    b = a.c()\n    d = a.e()\n    return b, d",
            "def f(a):\n    d = a.e()\n    b = a.c()\n    return b, d",
        ),
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


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("a.b = None", "reset left out"),
        ("a.b = deque()", "reset left out"),
        ("a.clear()", "reset left out"),
        ("a.close()", "release forgotten"),
        ("a.b = 3", "statement left out"),
        ("a.draw()", "statement left out"),
    ],
)
def test_what_is_left_out_has_a_kind_by_what_it_does(statement: str, kind: str) -> None:
    left_out = [m for m in mutations(f"def f(a):\n    {statement}\n".encode()) if m.text == "pass"]
    assert [m.kind for m in left_out] == [kind]


def test_a_constructor_resets_nothing() -> None:
    source = b"class A:\n    def __init__(self):\n        self.b = None\n"
    assert {m.kind for m in mutations(source) if m.text == "pass"} == {"statement left out"}


def test_reads_of_which_one_needs_the_other_are_not_swapped() -> None:
    source = b"def f(a):\n    b = a.c()\n    d = a.e(b)\n    return d\n"
    assert "reads swapped" not in {m.kind for m in mutations(source)}


def test_letters_of_more_than_one_byte_do_not_move_an_edit() -> None:
    assert 'a = "Θ", b > c' in changed('a = "Θ", b <= c')
