"""Executors by name, and which of them suits a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

from dgn_engine.errors import UserError
from dgn_engine.sweep.executor import Executor
from dgn_engine.sweep.unit import Unit

Name = Literal["auto", "serial", "processes", "packed", "dask"]
NAMES: tuple[str, ...] = get_args(Name)


def find_executor(
    name: str = "auto", units: Sequence[Unit] = (), cluster: str = "", workers: int = 0
) -> Executor:
    """The executor of this name; 'auto' chooses by the units.

    `cluster`: for Dask 'tcp://…', 'local' or 'slurm[:options]'; naming one chooses it. `workers`:
    at most so many at a time, 0: as many as fit. Raises `UserError`, a sentence, for a name that is
    not known or options that would have no effect.
    """
    if name not in NAMES:
        raise UserError(f"There is no executor '{name}'; choose one of {', '.join(NAMES)}.")
    if cluster and name not in ("auto", "dask"):
        raise UserError(f"--cluster is for the executor 'dask', not for '{name}'; leave one out.")
    if workers < 0:
        raise UserError(f"--workers is {workers}; it must be at least 0.")
    if cluster or name == "dask":
        from dgn_engine.sweep.workers.dask_workers import DaskExecutor

        return DaskExecutor(cluster or "local", workers)
    if name == "serial":
        from dgn_engine.sweep.workers.serial import SerialExecutor

        return SerialExecutor()
    if name == "packed" or (name == "auto" and _suits_packs(units)):
        from dgn_engine.sweep.workers.batched_workers import BatchedExecutor

        return BatchedExecutor(workers)
    from dgn_engine.sweep.workers.processes import ProcessExecutor

    return ProcessExecutor(workers)


def works_here(cluster: str) -> bool:
    """Whether the units are carried out on this machine, with its devices and its files."""
    return cluster in ("", "local")


def _suits_packs(units: Sequence[Unit]) -> bool:
    """Dense networks on a CPU, two or more of which share a stack."""
    from dgn_engine.sweep.capacity import gpus
    from dgn_engine.sweep.workers.batched_workers import find_stacks

    return not gpus(units) and bool(find_stacks(units, Path(), 1))
