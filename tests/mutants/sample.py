"""Draws the sample of mutants: a seed, so many for each group of packages, spread over kinds."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.mutations import Mutation, mutations, parses

# Group → its folders and the share of mutants that its tests have to kill, in percent.
GROUPS: dict[str, tuple[tuple[str, ...], int]] = {
    "kernels": (("dgn_engine/kernels",), 90),
    "model": (("dgn_engine/model", "dgn_engine/regimes", "dgn_engine/data"), 90),
    "training": (("dgn_engine/training",), 90),
    "attachment": (("dgn_engine/attachment", "dgn_engine/notebook"), 90),
    "storage": (("dgn_engine/storage",), 90),
    "importing": (
        tuple(f"dgn_engine/{package}" for package in ("importing", "confinement", "config")),
        90,
    ),
    "sweep": (("dgn_engine/sweep",), 85),
    "experiments": (("dgn_engine/experiments",), 85),
    "session": (("dgn_engine/session", "dgn_engine/protocol"), 85),
    "cli": (("dgn_engine/cli",), 85),
    "pictures": (
        tuple(f"dgn_engine/{package}" for package in ("views", "panels", "scene", "figures")),
        85,
    ),
    "window": (("app/dgn_viewer",), 80),
}


@dataclass(frozen=True)
class Mutant:
    """One mutation of one file; `id` stays the same as long as the text of the file does.

    `drawn_as`: its id when it was drawn, where the file has changed since.
    """

    group: str
    file: str
    mutation: Mutation
    drawn_as: str = ""

    @property
    def id(self) -> str:
        """'dgn_engine/x.py:12:3:comparison:<='."""
        m = self.mutation
        return f"{self.file}:{m.line}:{m.start}-{m.end}:{m.kind}:{m.text[:60]}"


def files_of(root: Path, places: Sequence[str]) -> list[Path]:
    """The source files of a group, in order."""
    found: list[Path] = []
    for place in places:
        path = root / place
        found += [path] if path.is_file() else sorted(path.rglob("*.py"))
    return found


def draw(root: Path, each: int, seed: int) -> list[Mutant]:
    """`each` mutants of every group: kinds take turns, so that constants do not crowd it."""
    drawn: list[Mutant] = []
    for group, (places, _) in GROUPS.items():
        by_kind: dict[str, list[Mutant]] = defaultdict(list)
        for path in files_of(root, places):
            for mutation in mutations(path.read_bytes()):
                mutant = Mutant(group, path.relative_to(root).as_posix(), mutation)
                by_kind[mutation.kind].append(mutant)
        chance = random.Random(f"{seed}:{group}")
        for mutants in by_kind.values():
            chance.shuffle(mutants)
        chosen: list[Mutant] = []
        while len(chosen) < each and any(by_kind.values()):
            for kind in sorted(by_kind):
                if by_kind[kind] and len(chosen) < each:
                    mutant = by_kind[kind].pop()
                    source = (root / mutant.file).read_bytes()
                    if parses(mutant.mutation.applied(source)):
                        chosen.append(mutant)
        drawn += chosen
    return drawn


def find(root: Path, row: Mapping[str, str]) -> Mutant | None:
    """The mutant of a verdict in the tree as it is: same file, line of text and change.

    Of several the nearest to where it was. None where the line is gone.
    """
    file, number, _, kind, _ = row["id"].split(":", 4)
    path = root / file
    if not path.exists():
        return None
    source = path.read_bytes()
    lines = source.decode("utf-8").splitlines()
    alike = [
        mutation
        for mutation in mutations(source)
        if (mutation.kind, mutation.text) == (kind, row["new"])
        and lines[mutation.line - 1].strip() == row["line"]
    ]
    if not alike:
        return None
    nearest = min(alike, key=lambda mutation: abs(mutation.line - int(number)))
    return Mutant(row["group"], file, nearest, row["id"])
