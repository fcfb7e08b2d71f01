"""Items under the cursor or pinned, by kind, as a frozen value that all panels share."""

from __future__ import annotations

from dgn_engine.frozen_data import dataclass

# A unit belongs to a layer, and is highlighted only where its layer is known.
PART_OF = {"unit": "layer"}


@dataclass(frozen=True)
class Selection:
    """Items by kind, counted from 0: one or two probe examples, a gate layer, a unit of it."""

    parts: tuple[tuple[str, tuple[int, ...]], ...] = ()

    def ids_of_kind(self, kind: str) -> tuple[int, ...]:
        return next((ids for part, ids in self.parts if part == kind), ())

    def single_id(self, kind: str) -> int | None:
        """Return the id of a kind if there is exactly one."""
        ids = self.ids_of_kind(kind)
        return ids[0] if len(ids) == 1 else None

    @property
    def examples(self) -> tuple[int, ...]:
        return self.ids_of_kind("example")

    def merged_over(self, other: Selection) -> Selection:
        """Add kinds from another selection that are missing in this one.

        Parts of a whole are added only if the whole is the same.
        """
        merged = dict(self.parts)
        for kind, ids in other.parts:
            whole = PART_OF.get(kind)
            if kind not in merged and (
                whole is None or merged.get(whole) == other.ids_of_kind(whole)
            ):
                merged[kind] = ids
        return Selection(tuple(sorted(merged.items())))


NOTHING = Selection()


def make_selection(**kinds: int | tuple[int, ...] | None) -> Selection:
    """Make a selection: `make_selection(layer=2, unit=5, example=(3, 14))`.

    None and () are left out.
    """
    parts = (
        (kind, ids if isinstance(ids, tuple) else (ids,))
        for kind, ids in kinds.items()
        if ids is not None and ids != ()
    )
    return Selection(tuple(sorted(parts)))
