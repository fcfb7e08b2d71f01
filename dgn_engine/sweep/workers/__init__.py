"""Where units are carried out: one by one, in processes, in stacks, on a Dask cluster.

The executors by name, and which of them suits a sweep. Nothing is imported before it is chosen: a
process that trains sets its number of threads before torch is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dgn_engine.errors import UserError, did_you_mean
from dgn_engine.sweep.cluster_tls import ClusterTls, check_tls
from dgn_engine.sweep.unit import Unit

if TYPE_CHECKING:
    from dgn_engine.sweep.scheduler import Executor

NAMES = ("auto", "serial", "processes", "packed", "dask")


def find_executor(
    name: str = "auto",
    units: Sequence[Unit] = (),
    cluster: str = "",
    workers: int = 0,
    tls: ClusterTls | None = None,
    devices: str = "",
) -> Executor:
    """Return the executor of this name; 'auto' chooses by the units.

    Args:
        name: one of `NAMES`.
        units: what is to be carried out.
        cluster: for Dask 'tls://…', 'local' or 'slurm[:options]'; naming one chooses it.
        workers: at most so many at a time; 0: as many as fit.
        tls: how the processes of a cluster are protected.
        devices: 'cuda:0,cuda:1': where processes and stacks compute; '': on every card.

    Raises:
        UserError: the name is not known, or options would have no effect.
    """
    if name not in NAMES:
        raise UserError(
            f"There is no executor '{name}'; choose one of {', '.join(NAMES)}."
            f"{did_you_mean(name, NAMES)}",
            kind="unknown-name",
            value=name,
        )
    if cluster and name not in ("auto", "dask"):
        raise UserError(
            f"--cluster is for the executor 'dask', not for '{name}'; leave one out.",
            kind="contradiction",
            value=name,
        )
    if workers < 0:
        raise UserError(
            f"--workers is {workers}; it must be at least 0.", kind="out-of-bounds", value=workers
        )
    named = _devices_of(name, cluster, devices, units)
    tls = tls or ClusterTls()
    if cluster or name == "dask":
        from dgn_engine.sweep.workers.dask_workers import DaskExecutor

        return DaskExecutor(cluster or "local", workers, tls)
    check_tls(cluster, tls)
    if name == "serial":
        from dgn_engine.sweep.workers.serial import SerialExecutor

        return SerialExecutor()
    if name == "packed" or (name == "auto" and _suits_packs(units, named)):
        from dgn_engine.sweep.workers.batched_workers import BatchedExecutor

        return BatchedExecutor(workers, named, gaining=name == "auto")
    from dgn_engine.sweep.workers.processes import ProcessExecutor

    return ProcessExecutor(workers, named)


def _devices_of(name: str, cluster: str, text: str, units: Sequence[Unit]) -> tuple[str, ...]:
    """The devices that were named, all of which are there; raises `UserError`."""
    if not text:
        return ()
    from dgn_engine.sweep.workers.places import gpus, parse_devices, places_on

    if cluster or name in ("serial", "dask"):
        raise UserError(
            "--devices is for the executors 'processes' and 'packed'; workers of a cluster have "
            "the card that CUDA_VISIBLE_DEVICES names where they are started.",
            kind="contradiction",
            value=text,
        )
    named = parse_devices(text)
    places_on(named, gpus(units), units)
    return named


def works_here(cluster: str) -> bool:
    """Whether the units are carried out on this machine, with its devices and its files."""
    return cluster in ("", "local")


def _suits_packs(units: Sequence[Unit], named: Sequence[str]) -> bool:
    """Whether two or more of these share a stack: dense networks, on a CPU narrow ones, which alone
    are quicker so there."""
    from dgn_engine.sweep.workers.batched_workers import find_stacks
    from dgn_engine.sweep.workers.places import CPU, gpus

    return bool(find_stacks(units, Path(), 1, CPU in named or not gpus(units)))
