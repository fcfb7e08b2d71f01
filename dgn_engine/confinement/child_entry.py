"""What a child of ours does first: where its answers go, whose end it follows, what it gives up."""

from __future__ import annotations

import os
import signal
from typing import IO

from dgn_engine.confinement.parent_watch import end_after_parent, end_with_parent
from dgn_engine.confinement.process import cut_off

_OF_THE_GROUP = ("SIGINT", "SIGHUP", "SIGUSR1")  # sent to all of it; the parent acts on them


def begin_child(*, confined: bool = False, buffering: int = -1) -> IO[bytes]:
    """Begin a child that ends with its parent, and return the pipe for its answers: what libraries
    print goes to standard error.

    Args:
        confined: take the network away; `process.confine` is to follow, before the first byte of a
            stranger is parsed, when all is imported and open that will be needed.
        buffering: of the pipe, as for `open`.
    """
    answers = os.fdopen(os.dup(1), "wb", buffering)
    os.dup2(2, 1)
    if confined:
        cut_off()
    end_with_parent()
    return answers


def begin_saving_child() -> None:
    """Begin a child that saves its work when its parent asks for it, or is gone."""
    end_after_parent()
    ignore_group_signals()


def ignore_group_signals() -> None:
    """Leave signals that a terminal or Slurm sends to the whole group to the parent, which ends
    this process in the order that it needs."""
    for name in _OF_THE_GROUP:
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
