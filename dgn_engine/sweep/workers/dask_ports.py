"""Limit what unauthenticated clients can do to the ports of a Dask process.

Dask waits for TLS handshakes without a limit in time or number. It also starts an HTTP server
without TLS that reads the body of a request before it answers. Each connection is an open file of
the process that schedules or writes a run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from distributed.comm import registry
from distributed.comm.tcp import TLSBackend, TLSListener
from distributed.http.routing import RoutingApplication
from distributed.node import ServerNode

HANDSHAKE = 10.0  # seconds for a TLS handshake
MOST = 128  # pending handshakes of this process; one more closes the oldest


def raise_file_limit() -> None:
    """Raise the limit of open files of this process and its children to the hard limit."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):  # macOS allows less than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def guard_ports() -> None:
    """Protect all ports that this process opens from now on; only for our own processes."""
    raise_file_limit()
    registry.backends["tls"] = _Backend()
    ServerNode.start_http_server = _start_no_server


@contextmanager
def guarded_ports() -> Iterator[None]:
    """Protect the ports that this process opens within the block."""
    backend, start = registry.get_backend("tls"), ServerNode.start_http_server
    guard_ports()
    try:
        yield
    finally:
        registry.backends["tls"], ServerNode.start_http_server = backend, start


class _Listener(TLSListener):  # type: ignore[misc]  # distributed has no types
    _waiting: dict[Any, None] = {}  # noqa: RUF012 - shared by all listeners, oldest first

    def _handle_stream(self, stream: Any, address: Any) -> Awaitable[None]:
        """Register a newly accepted connection, closing the oldest pending one if too many."""
        self._waiting[stream] = None
        if len(self._waiting) > MOST:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            oldest.close()
        handled: Awaitable[None] = super()._handle_stream(stream, address)
        return handled

    async def _prepare_stream(self, stream: Any, address: Any) -> Any:
        try:
            return await asyncio.wait_for(super()._prepare_stream(stream, address), HANDSHAKE)
        except TimeoutError:
            stream.close()
            return None
        finally:
            self._waiting.pop(stream, None)


class _Backend(TLSBackend):  # type: ignore[misc]
    _listener_class = _Listener


def _start_no_server(node: Any, *_: object, **__: object) -> None:
    """Replace `ServerNode.start_http_server`, so that nothing listens."""
    node.http_application = RoutingApplication([])
