"""Errors that the user can fix, and suggestions for misspelt names."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Self

from dgn_engine.text.printable import printable

MOST = 2000  # characters of a sentence
ALIKE = 0.6  # the lowest difflib ratio of a name that is suggested


class Where(str):
    """The place in the user's input that an error is about: a setting ('training.batch'), an
    option, a key.

    Added to text it makes a `MarkedSentence`, whose places can be renamed before it is shown.
    """

    def __add__(self, other: str) -> MarkedSentence:
        return MarkedSentence(self, other)

    def __radd__(self, other: str) -> MarkedSentence:
        return MarkedSentence(other, self)


class Hint(Where):
    """A part of a sentence that is not a place, but can be reworded or left out in the same way."""


class MarkedSentence(str):
    """A sentence that knows its places.

    It is printable, whatever names and values from files it quotes; beyond `MOST` characters its
    middle is cut out.
    """

    parts: tuple[str, ...]

    def __new__(cls, *parts: str) -> Self:
        flat = [p for part in parts for p in (part.parts if isinstance(part, cls) else [part])]
        sentence = super().__new__(cls, _cut_middle(printable("".join(flat))))
        sentence.parts = tuple(flat)
        return sentence

    def __add__(self, other: str) -> MarkedSentence:
        return MarkedSentence(self, other)

    def __radd__(self, other: str) -> MarkedSentence:
        return MarkedSentence(other, self)

    def __reduce__(self) -> tuple[object, ...]:
        return MarkedSentence, self.parts


def with_names(text: str, name_of: Callable[[str], str]) -> str:
    """Return a `MarkedSentence` with its places renamed; other text is returned unchanged."""
    if not isinstance(text, MarkedSentence):
        return text
    return str(MarkedSentence(*(name_of(p) if isinstance(p, Where) else p for p in text.parts)))


class UserError(Exception):
    """A refusal: what, where, and what to do. Shown as a notice, or on stderr with exit code 2.

    Args:
        sentence: The message; made printable and shortened, as a `MarkedSentence` is.
        kind: A short id of what is wrong: 'out-of-bounds'.
        value: The refused value.
        way_out: What to do, if callers need that part of the sentence separately.

    Attributes:
        place: The first `Where` in the sentence; '' if there is none.
    """

    details: tuple[str, ...] = ()  # lines that a command prints below the sentence

    def __init__(
        self,
        sentence: object = "",
        *more: object,
        kind: str = "",
        value: object = None,
        way_out: str = "",
    ) -> None:
        text = (
            sentence
            if isinstance(sentence, MarkedSentence)
            else _cut_middle(printable(str(sentence)))
        )
        super().__init__(text, *more)
        self.kind, self.value, self.way_out = kind, value, way_out
        self.place = next((str(p) for p in getattr(text, "parts", ()) if type(p) is Where), "")

    @property
    def sentence(self) -> str:
        """The message, as a `MarkedSentence` if it has places."""
        return self.args[0] if self.args and isinstance(self.args[0], MarkedSentence) else str(self)

    def rename_places(self, name_of: Callable[[str], str]) -> Self:
        """Rename the places in the message, and return this error."""
        self.args = (with_names(self.sentence, name_of), *self.args[1:])
        return self


class DoesNotFitError(UserError):
    """Raised if memory is too small here; it may be enough elsewhere, or with less running."""


class LoadingWarning(UserWarning):
    """Warns that Python would run possibly harmful code to load a file; none of it was run here.

    Commands print it on stderr, whichever file it concerns.
    """


# After these errors every CUDA call in the process fails.
_BROKEN_CUDA = (
    "CUDA error",
    "AcceleratorError",
    "cudaError",
    "_EXECUTION_FAILED",
    "illegal memory",
)


def breaks_cuda(what: str) -> bool:
    """Return whether CUDA is unusable in this process after an error with this message."""
    return any(word in what for word in _BROKEN_CUDA)


class ArgumentError(UserError, ValueError):
    """Raised for an argument of a library function; also a `ValueError`, as callers expect."""


def did_you_mean(
    name: str, known: Iterable[str], aliases: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Return " Did you mean 'FR-II'?" for 'FRII'; '' if no known name is similar.

    Case, spaces and hyphens are ignored. `aliases` maps other words that may be typed (a key
    without its table) to the names to suggest.
    """
    offered = {known_name: known_name for known_name in known} | dict(aliases)
    by_letters: dict[str, str] = {}
    for typed, suggestion in offered.items():
        by_letters.setdefault(_plain_letters(typed), suggestion)
    matches = difflib.get_close_matches(_plain_letters(name), by_letters, n=1, cutoff=ALIKE)
    return f" Did you mean '{by_letters[matches[0]]}'?" if matches else ""


def how_to_install(*packages: str) -> str:
    """Return the command that installs packages into the Python that runs this, as a sentence.

    The packaged program (`make bundle`, `make deb`) has no pip; the sentence says what to do.
    """
    if getattr(sys, "frozen", False):
        return "The packaged program cannot use it; install dgn-viewer into a Python environment."
    python = sys.executable or "python"
    quoted = f'"{python}"' if " " in python else python
    return f"Install it with: {quoted} -m pip install {' '.join(packages)}"


def _cut_middle(sentence: str) -> str:
    if len(sentence) <= MOST:
        return sentence
    return f"{sentence[: MOST - 1000]}…{sentence[-999:]}"


def _plain_letters(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter not in " -_")
