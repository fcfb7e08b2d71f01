"""The first steps of our child processes: answers, end with the parent, confinement."""

from __future__ import annotations

import os
import signal
from typing import IO

from dgn_engine.confinement.parent_watch import end_after_parent, end_with_parent
from dgn_engine.confinement.process import unshare_network

_OF_THE_GROUP = ("SIGINT", "SIGHUP", "SIGUSR1")  # sent to the whole group; the parent handles them


def begin_child(*, confined: bool = False, buffering: int = -1) -> IO[bytes]:
    """Start a child that ends with its parent, and return the pipe for its answers.

    What libraries print goes to standard error.

    Args:
        confined: Take the network away; call `process.confine_process` before parsing the first
            untrusted byte, once everything needed is imported and open.
        buffering: Of the pipe, as for `open`.
    """
    answers = os.fdopen(os.dup(1), "wb", buffering)
    os.dup2(2, 1)
    if confined:
        unshare_network()
    end_with_parent()
    return answers


def begin_saving_child() -> None:
    """Start a child that saves its work when its parent asks for it, or is gone."""
    end_after_parent()
    ignore_group_signals()


def ignore_group_signals() -> None:
    """Ignore signals to the whole group from a terminal or Slurm: the parent ends this process."""
    for name in _OF_THE_GROUP:
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
