"""A socket that bounds a whole message in bytes and in time, however slowly it arrives.

A socket's timeout covers one call, but `http.client` and `http.server` read a head in as many calls
as the peer likes.
"""

from __future__ import annotations

import socket
import time
from typing import Any


class TooManyBytesError(OSError):
    """The peer sends more than allowed."""


class BoundedSocket(socket.socket):
    """Receives and sends only within the last allowance (`set_allowance`); nothing before it.

    The files of `makefile` and `http.server` call `recv_into` and `sendall`.
    """

    _until = 0.0
    _left = 0
    is_silent = True  # nothing was received since the last allowance
    is_cut = False  # the peer will send no more

    def set_allowance(self, most: int, seconds: float) -> None:
        """Allow receiving `most` bytes from now on, within `seconds` for receiving and sending."""
        self._left = most
        self._until = time.monotonic() + seconds
        self.is_silent = True

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        """Receive as a socket does; raises `TooManyBytesError` and `TimeoutError`."""
        if self._left <= 0:
            raise TooManyBytesError("more bytes than were allowed")
        self._set_timeout()
        most = min(nbytes or memoryview(buffer).nbytes, self._left)
        count = super().recv_into(buffer, most, flags)
        self._left -= count
        self.is_silent = self.is_silent and not count
        self.is_cut = not count
        return count

    def sendall(self, data: Any, flags: int = 0) -> None:
        """Send as a socket does, with a timeout for the whole call; raises `TimeoutError`."""
        self._set_timeout()
        super().sendall(data, flags)

    def _set_timeout(self) -> None:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self.settimeout(left)
