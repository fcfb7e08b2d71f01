"""What was refused, as data: tests ask for kind, place and value, and leave the sentence alone
(tests/wording.txt holds that).

    with refused("out-of-bounds", place="training.momentum", value=-1):
        TrainingConfig(momentum=-1)

    refusal = refused_command("train", "--momentum", "-1")
    assert (refusal.kind, refusal.value) == ("out-of-bounds", -1)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from dgn_engine.cli import carry_out
from dgn_engine.errors import UserError

ANY = object()  # for a value that does not matter


@dataclass
class Refusal:
    """The refusal, once the block has ended."""

    error: UserError = field(default_factory=UserError)


@contextmanager
def refused(kind: str, place: str | None = None, value: object = ANY) -> Iterator[Refusal]:
    """Assert that the block raises a `UserError` of this kind, in one sentence.

    Args:
        kind: The kind; it may not be ''.
        place: The place, where it is a part of what is asserted.
        value: The value, where it is a part of what is asserted.
    """
    assert kind, "a refusal that is tested has a kind: give it one where it is raised"
    found = Refusal()
    with pytest.raises(UserError) as caught:
        yield found
    found.error = caught.value
    assert found.error.kind == kind, f"{found.error.kind!r}: {found.error}"
    if place is not None:
        assert found.error.place == place
    if value is not ANY:
        assert found.error.value == value
    assert_one_sentence(str(found.error))


def refused_command(*words: object) -> UserError:
    """Return the refusal of `dgn WORDS`, which is raised instead of being printed."""
    with pytest.raises(UserError) as caught:
        carry_out([str(word) for word in words])
    assert_one_sentence(str(caught.value))
    return caught.value


def assert_one_sentence(text: str) -> None:
    """Assert that a text can stand in a notice: there is something in it, and no line break."""
    assert text.strip()
    assert "\n" not in text
