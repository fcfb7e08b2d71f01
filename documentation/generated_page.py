"""What the site has besides the documents in docs/: pages and pictures made at build time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

BUILD = "build/docs"  # what is made on the way, below the root of the sources


@dataclass(frozen=True)
class GeneratedPage:
    """A document that is written at build time; `path` is relative to docs/."""

    path: str
    text: str


@dataclass(frozen=True)
class GeneratedPicture:
    """A picture that is drawn at build time; `path` is relative to docs/."""

    path: str
    content: bytes


Generated = GeneratedPage | GeneratedPicture


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    yield "| " + " | ".join(heads) + " |"
    yield "|" + " --- |" * len(heads)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "∣").replace("\n", " ") for cell in row) + " |"
