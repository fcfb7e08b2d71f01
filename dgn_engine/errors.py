"""What the user can mend: exceptions, and what a misspelt name may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from dgn_engine.text.printable import printable

MOST = 2000  # letters of a sentence
ALIKE = 0.6  # difflib's ratio from which a name is near enough to be offered


class UserError(Exception):
    """What was refused, where, and what to do; shown as a notice or on stderr with exit code 2.

    The sentence is made printable, whatever names and values from files it quotes; one of more
    than `MOST` letters is cut in its middle.
    """

    details: tuple[str, ...] = ()  # lines below the sentence, where a command prints it

    def __init__(self, sentence: object = "", *more: object) -> None:
        super().__init__(_cut(printable(str(sentence))), *more)


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
