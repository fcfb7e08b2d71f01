"""Bounds what a stranger can make the ports of a Dask process hold.

Dask waits for a TLS handshake without a limit in time or number, and starts an HTTP server, without
TLS, which takes the body of a request before it answers. Every connection is an open file of the
process that schedules, or that writes a run.
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

HANDSHAKE = 10.0  # seconds that a connection has to show its certificate
MOST = 128  # connections of this process that may be about to; one more ends the oldest


def raise_file_limit() -> None:
    """Allow this process, and those that it starts, as many open files as the system lets it."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):  # macOS allows less than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def guard_ports() -> None:
    """Bound the ports that this process opens from now on; for a process that is ours alone."""
    raise_file_limit()
    registry.backends["tls"] = _Backend()
    ServerNode.start_http_server = _start_no_server


@contextmanager
def guarded_ports() -> Iterator[None]:
    """Bound the ports that this process opens while it lasts."""
    backend, start = registry.get_backend("tls"), ServerNode.start_http_server
    guard_ports()
    try:
        yield
    finally:
        registry.backends["tls"], ServerNode.start_http_server = backend, start


class _Listener(TLSListener):  # type: ignore[misc]  # distributed has no types
    _waiting: dict[Any, None] = {}  # noqa: RUF012 - of all listeners of the process, oldest first

    def _handle_stream(self, stream: Any, address: Any) -> Awaitable[None]:
        """Called for each connection as soon as it is accepted."""
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
    """In the place of `ServerNode.start_http_server`: nothing listens."""
    node.http_application = RoutingApplication([])
