"""Copy tensors from the card to the host without waiting.

The tensor is cloned in the training stream; a side stream copies the clone into pinned memory and
records an event. On a CPU the copy is immediate.
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor


class HostCopy:
    """A tensor on its way to the host."""

    def __init__(self, host: Tensor, arrived: torch.cuda.Event | None = None) -> None:
        """Wrap a copy.

        Args:
            host: Tensor on the CPU, filled once `arrived` is done.
            arrived: Event of the copy; None if it is complete.
        """
        self._host = host
        self._arrived = arrived

    @property
    def is_ready(self) -> bool:
        """Return whether `tensor` would return without waiting.

        Returns:
            Always True on a CPU.
        """
        return self._arrived is None or bool(self._arrived.query())  # type: ignore[no-untyped-call]

    @property
    def tensor(self) -> Tensor:
        """Return the copied tensor, waiting for the card if necessary.

        Returns:
            On the CPU, in the shape and dtype of the source.
        """
        if self._arrived is not None:
            self._arrived.synchronize()
            self._arrived = None
        return self._host


class HostCopier:
    """Copies of tensors to the host, made while the training stream keeps running."""

    def __init__(self, device: torch.device) -> None:
        """Bind a device; the side stream is created on first use.

        Args:
            device: Device of the tensors.
        """
        self._device = device

    @cached_property
    def _side(self) -> torch.cuda.Stream:
        return torch.cuda.Stream(self._device, priority=-1)  # type: ignore[no-untyped-call]  # torch's stub

    def fetch(self, tensor: Tensor) -> HostCopy:
        """Start copying a tensor, as it will be after all work queued so far.

        Args:
            tensor: Tensor on this device.

        Returns:
            A handle to the copy.
        """
        now = tensor.detach().clone()
        if self._device.type != "cuda":
            return HostCopy(now.cpu())
        self._side.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._side):
            host = torch.empty(now.shape, dtype=now.dtype, pin_memory=True)
            host.copy_(now, non_blocking=True)
            now.record_stream(self._side)  # keeps its memory until the copy is done
            arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]  # torch's stub
            arrived.record(self._side)
        return HostCopy(host, arrived)
