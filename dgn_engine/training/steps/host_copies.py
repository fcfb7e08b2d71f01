"""Numbers on their way from the card to the host, for which nobody waits.

A copy of the numbers is made in the stream that trains; a side stream brings it into pinned memory,
and an event says when it has arrived. On a CPU it has arrived at once.
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor


class HostCopy:
    """What a tensor was when it was asked for."""

    def __init__(self, host: Tensor, arrived: torch.cuda.Event | None = None) -> None:
        self._host = host
        self._arrived = arrived

    @property
    def ready(self) -> bool:
        """Whether it can be read without waiting."""
        return self._arrived is None or bool(self._arrived.query())  # type: ignore[no-untyped-call]

    @property
    def tensor(self) -> Tensor:
        """On the CPU; waits for it where it has not arrived."""
        if self._arrived is not None:
            self._arrived.synchronize()
            self._arrived = None
        return self._host


class Courier:
    """Brings tensors of one device to the host; the stream that trains goes on meanwhile."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    @cached_property
    def _side(self) -> torch.cuda.Stream:
        return torch.cuda.Stream(self._device, priority=-1)  # type: ignore[no-untyped-call]  # torch's stub

    def fetch(self, tensor: Tensor) -> HostCopy:
        """Ask for the numbers that it holds when what is queued by now is done."""
        now = tensor.detach().clone()
        if self._device.type != "cuda":
            return HostCopy(now.cpu())
        self._side.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._side):
            host = torch.empty(now.shape, dtype=now.dtype, pin_memory=True)
            host.copy_(now, non_blocking=True)
            now.record_stream(self._side)  # its memory is not given to others before that
            arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]  # torch's stub
            arrived.record(self._side)
        return HostCopy(host, arrived)
