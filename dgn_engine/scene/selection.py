"""What is under the cursor or pinned, by its kind; a frozen value that all panels are given."""

from __future__ import annotations

from dataclasses import dataclass

# A unit is one of a layer: it is lit only where its layer is known.
PART_OF = {"unit": "layer"}


@dataclass(frozen=True)
class Selection:
    """Things by kind, each counted from 0: one or two probe examples (their places in the set), a
    gate layer, a unit of it."""

    parts: tuple[tuple[str, tuple[int, ...]], ...] = ()

    def of(self, kind: str) -> tuple[int, ...]:
        return next((ids for one, ids in self.parts if one == kind), ())

    def one(self, kind: str) -> int | None:
        """The only one of its kind."""
        ids = self.of(kind)
        return ids[0] if len(ids) == 1 else None

    @property
    def examples(self) -> tuple[int, ...]:
        return self.of("example")

    def over(self, other: Selection) -> Selection:
        """This one, and of the other the kinds that are missing here; parts of something only
        where that is the same."""
        mine = dict(self.parts)
        for kind, ids in other.parts:
            whole = PART_OF.get(kind)
            if kind not in mine and (whole is None or mine.get(whole) == other.of(whole)):
                mine[kind] = ids
        return Selection(tuple(sorted(mine.items())))


NOTHING = Selection()


def selected(**kinds: int | tuple[int, ...] | None) -> Selection:
    """`selected(layer=2, unit=5, example=(3, 14))`; None and () are left out."""
    parts = (
        (kind, ids if isinstance(ids, tuple) else (ids,))
        for kind, ids in kinds.items()
        if ids is not None and ids != ()
    )
    return Selection(tuple(sorted(parts)))
