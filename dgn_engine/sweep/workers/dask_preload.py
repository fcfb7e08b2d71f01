"""Preload module of the Dask workers and nannies that we start.

They ignore Ctrl-C and a closed terminal, because the process that started them stops them. Slurm
jobs shut down cleanly when they are signalled that their time is nearly up. Dask imports a preload
before it opens a port or starts a process, and calls `dask_setup` afterwards.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading

from dgn_engine.confinement.child_entry import ignore_group_signals
from dgn_engine.confinement.start_folder import distrust_start_folder
from dgn_engine.sweep.workers.dask_ports import guard_ports

_OURS = "SLURM_JOB_ID" in os.environ or multiprocessing.parent_process() is not None
if _OURS:  # not imported into another program's process
    distrust_start_folder()  # and Dask's scratch folder, which is in `sys.path` by now
    guard_ports()


def dask_setup(_worker: object) -> None:
    """Set up signal handling; called by Dask in a worker or nanny."""
    if threading.current_thread() is not threading.main_thread():
        return
    if "SLURM_JOB_ID" in os.environ:  # Dask shuts down cleanly on SIGTERM
        signal.signal(signal.SIGUSR1, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
        return
    ignore_group_signals()
