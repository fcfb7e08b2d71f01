"""What the user can mend: exceptions, and what a misspelt name may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Self

from dgn_engine.text.printable import printable

MOST = 2000  # letters of a sentence
ALIKE = 0.6  # difflib's ratio from which a name is near enough to be offered


class Where(str):
    """Where something stands in what the user gave: a setting ('training.batch'), an option, a key.
    Added to text, it makes a `MarkedSentence`, and whoever shows that may call it otherwise.
    """

    def __add__(self, other: str) -> MarkedSentence:
        return MarkedSentence(self, other)

    def __radd__(self, other: str) -> MarkedSentence:
        return MarkedSentence(other, self)


class Hint(Where):
    """A part of a sentence, no place, which whoever shows it may say otherwise or leave out."""


class MarkedSentence(str):
    """A sentence with places in it. It is printable, whatever names and values from files it
    quotes; one of more than `MOST` letters is cut in its middle."""

    parts: tuple[str, ...]

    def __new__(cls, *parts: str) -> Self:
        flat = [p for part in parts for p in (part.parts if isinstance(part, cls) else [part])]
        made = super().__new__(cls, _cut(printable("".join(flat))))
        made.parts = tuple(flat)
        return made

    def __add__(self, other: str) -> MarkedSentence:
        return MarkedSentence(self, other)

    def __radd__(self, other: str) -> MarkedSentence:
        return MarkedSentence(other, self)

    def __reduce__(self) -> tuple[object, ...]:
        return MarkedSentence, self.parts


def with_names(text: str, name_of: Callable[[str], str]) -> str:
    """Return a `MarkedSentence` with other names for its places; other text as it is."""
    if not isinstance(text, MarkedSentence):
        return text
    return str(MarkedSentence(*(name_of(p) if isinstance(p, Where) else p for p in text.parts)))


class UserError(Exception):
    """What was refused, where, and what to do; shown as a notice or on stderr with exit code 2.

    Args:
        sentence: What is said; made printable and cut, as a `MarkedSentence` is.
        kind: What is wrong, a short id: 'out-of-bounds'.
        value: What was given.
        way_out: What to do, where that is a part of the sentence that others ask for.

    Attributes:
        place: What it is about, the first `Where` of the sentence; '' where there is none.
    """

    details: tuple[str, ...] = ()  # lines below the sentence, where a command prints it

    def __init__(
        self,
        sentence: object = "",
        *more: object,
        kind: str = "",
        value: object = None,
        way_out: str = "",
    ) -> None:
        text = sentence if isinstance(sentence, MarkedSentence) else _cut(printable(str(sentence)))
        super().__init__(text, *more)
        self.kind, self.value, self.way_out = kind, value, way_out
        self.place = next((str(p) for p in getattr(text, "parts", ()) if type(p) is Where), "")

    @property
    def sentence(self) -> str:
        """What is said: a `MarkedSentence` where there are places in it."""
        return self.args[0] if self.args and isinstance(self.args[0], MarkedSentence) else str(self)

    def renamed(self, name_of: Callable[[str], str]) -> Self:
        """Return this refusal with other names for the places in its sentence."""
        self.args = (with_names(self.sentence, name_of), *self.args[1:])
        return self


class DoesNotFitError(UserError):
    """There is not enough memory where it was tried; elsewhere, or with fewer beside it, there may
    be."""


class LoadingWarning(UserWarning):
    """Python would do something to load a file that is not known to be harmless; nothing of it was
    done here. Commands print it on stderr, whichever of their files it is about."""


# After these CUDA refuses everything in its process.
_BROKEN_CUDA = (
    "CUDA error",
    "AcceleratorError",
    "cudaError",
    "_EXECUTION_FAILED",
    "illegal memory",
)


def breaks_cuda(what: str) -> bool:
    """Whether CUDA refuses everything in the process after this fault."""
    return any(word in what for word in _BROKEN_CUDA)


class ArgumentError(UserError, ValueError):
    """An argument of a library function was refused; whoever calls it may expect a ValueError."""


def did_you_mean(
    name: str, known: Iterable[str], aliases: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Return " Did you mean 'FR-II'?" for 'FRII', or '' where no known name is near.

    Case, spaces and hyphens count for nothing. `aliases` sends other words that may be typed (a
    key without its table) to the name that is offered.
    """
    offered = {one: one for one in known} | dict(aliases)
    by_letters: dict[str, str] = {}
    for typed, offer in offered.items():
        by_letters.setdefault(_letters(typed), offer)
    near = difflib.get_close_matches(_letters(name), by_letters, n=1, cutoff=ALIKE)
    return f" Did you mean '{by_letters[near[0]]}'?" if near else ""


def _cut(sentence: str) -> str:
    if len(sentence) <= MOST:
        return sentence
    return f"{sentence[: MOST - 1000]}…{sentence[-999:]}"


def _letters(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter not in " -_")
