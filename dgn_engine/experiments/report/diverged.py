"""What a report says of runs that diverged, and of those that failed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from dgn_engine.errors import UserError
from dgn_engine.sweep.unit import unit_folder
from dgn_engine.sweep.unit_results import UnitResults, read_unstartable

MOST = 12  # runs that are named; more are counted


def ended_early(states: Mapping[str, str], results: UnitResults, root: Path) -> Iterator[str]:
    """A sentence for the runs that diverged, one for those that were left because of it, and one
    for those that failed; `states` by the unit's id."""
    lost, orphans = [], []
    for name in (name for name, state in states.items() if state == "diverged"):
        orphan = read_unstartable(unit_folder(root, name))
        if orphan is not None:
            orphans.append(f"'{name}' (of '{orphan.source}')")
            continue
        try:
            lost.append(f"'{name}' at step {results.trained(name).diverged_at:,}")
        except UserError:
            lost.append(f"'{name}'")
    if lost:
        yield (
            f"Diverged: {_listed(lost)}. Such a run counts with its best score until then and is "
            "not retuned."
        )
    if orphans:
        yield (
            f"Not begun, because the run whose gates or weights they take diverged before it left "
            f"any: {_listed(orphans)}. They count as diverged."
        )
    failed = [f"'{name}'" for name, state in states.items() if state == "failed"]
    if failed:
        yield f"Failed: {_listed(failed)}. Their places in the table are empty."


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MOST:,} more" if len(names) > MOST else ""
    return ", ".join(names[:MOST]) + more
