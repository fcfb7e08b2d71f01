"""Folders of one stack that were left at different steps, put back to a step they all know."""

from __future__ import annotations

from collections.abc import Sequence

from dgn_engine.storage.runs import run_checkpoints
from dgn_engine.storage.runs.run_folder import RunFolder


def align(folders: Sequence[RunFolder]) -> None:
    """Where a kill fell between two of the stack's checkpoints, drop those that others lack.

    Each run keeps its two newest, so that after a kill there always is a common one. Where there
    is none, some were not trained together with the others: they stay, and go on by themselves.
    """
    common = set.intersection(*(_known(folder) for folder in folders))
    if not common:
        return
    for folder in folders:
        for one in [one for one in folder.checkpoints if one.sound and one.step > max(common)]:
            folder.drop(one)


def _known(folder: RunFolder) -> set[int]:
    """Steps that a run can go on from; its seed as well while nothing was thinned out."""
    sound = [one for one in folder.checkpoints if one.sound]
    steps = {one.step for one in sound}
    newest = max((one.order for one in sound), default=-1)
    return steps | {0} if newest < run_checkpoints.NEWEST else steps
