"""The budget of watching as the window sees it: its share, and what the window itself takes."""

from __future__ import annotations

import os

import torch

from dgn_engine.errors import UserError
from dgn_engine.protocol.commands import ReportWindow, SetWatchShare
from dgn_engine.text.written_numbers import number
from dgn_engine.training.run import Run
from dgn_engine.training.watch_budget import DRAWING, SHARE


class WatchCommands:
    """Keeps the user's share for the runs that follow."""

    def __init__(self) -> None:
        self._share = SHARE

    def employ(self, run: Run) -> None:
        """A run begins: it is watched as the user wants it."""
        run.budget.share = self._share

    def set_share(self, command: SetWatchShare, run: Run | None) -> None:
        """Raises `UserError` for what is no share."""
        share = command.share
        if not 0.0 < share <= 1.0:
            raise UserError(f"A share of {number(share)} is none: give one above 0, and at most 1.")
        self._share = share
        if run is not None:
            self.employ(run)

    def charge_window(self, command: ReportWindow, run: Run | None) -> None:
        """A window in another process delays training only where both need the same core."""
        apart = command.process != os.getpid()
        if run is None or (apart and (os.cpu_count() or 1) > torch.get_num_threads()):
            return
        run.budget.charge(DRAWING, command.drawing, own=False)
        run.budget.charge("window", command.other, own=False)
