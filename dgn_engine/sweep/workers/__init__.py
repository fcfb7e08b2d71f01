"""Executors of units: serial, in processes, in stacks, or on a Dask cluster.

Executors are imported only when chosen, because a training process must set its number of threads
before it imports torch.
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
    """Return an executor by name; 'auto' chooses one that suits the units.

    Args:
        name: one of `NAMES`.
        units: the units to execute.
        cluster: Dask cluster 'tls://…', 'local' or 'slurm[:options]'; implies 'dask'.
        workers: maximum number of workers; 0: as many as fit.
        tls: TLS options of a cluster.
        devices: devices of processes and stacks, such as 'cuda:0,cuda:1'; '': all GPUs.

    Raises:
        UserError: the name is unknown, or an option would have no effect.
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
            f"--cluster needs the executor 'dask', not '{name}'; remove one of them.",
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


def explain_stacks(
    name: str, units: Sequence[Unit], cluster: str = "", workers: int = 0, devices: str = ""
) -> str:
    """Return which runs are trained in stacks and which one by one, and why.

    Args:
        name: the executor's name; only 'auto' and 'packed' train stacks.
        units: the units to execute.
        cluster, workers, devices: as for `find_executor`.

    Returns:
        A few sentences; '' if another executor was requested, or there are no runs.
    """
    if cluster or name not in ("auto", "packed"):
        return ""
    from dgn_engine.sweep.workers.batched_workers import BatchedExecutor

    named = _devices_of(name, cluster, devices, units)
    return BatchedExecutor(workers, named, gaining=name == "auto").explain_stacks(units)


def _devices_of(name: str, cluster: str, text: str, units: Sequence[Unit]) -> tuple[str, ...]:
    """Return the devices of --devices; raises `UserError` if one is missing or has no effect."""
    if not text:
        return ()
    from dgn_engine.sweep.workers.places import parse_devices, places_on, usable_gpus

    if cluster or name in ("serial", "dask"):
        raise UserError(
            "--devices needs the executor 'processes' or 'packed'; cluster workers use the GPU in "
            "CUDA_VISIBLE_DEVICES where they are started.",
            kind="contradiction",
            value=text,
        )
    named = parse_devices(text)
    places_on(named, usable_gpus(units), units)
    return named


def runs_on_this_machine(cluster: str) -> bool:
    """Return whether units are executed on this machine, with its devices and files."""
    return cluster in ("", "local")


def _suits_packs(units: Sequence[Unit], named: Sequence[str]) -> bool:
    """Return whether some units can be trained as a stack; on a CPU, only if that is faster."""
    from dgn_engine.sweep.workers.batched_workers import find_stacks
    from dgn_engine.sweep.workers.places import CPU, usable_gpus

    return bool(find_stacks(units, Path(), 1, CPU in named or not usable_gpus(units)))
