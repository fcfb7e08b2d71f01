"""Who listens where, and whose children there are: from /proc, for processes of ours."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import ssl
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_LISTENS = "0A"  # the state in /proc/net/tcp


class Listener(NamedTuple):
    pid: int
    address: str
    port: int


def find_descendants(pid: int) -> list[int]:
    """Children of this process, their children, and so on."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            for child in map(int, (task / "children").read_text().split()):
                found += [child, *find_descendants(child)]
    return found


def find_listeners(pids: Iterable[int]) -> list[Listener]:
    """Every TCP port, of IPv4 and IPv6, on which one of these processes listens."""
    found: list[Listener] = []
    for pid in pids:
        ours = {link for link in _links(pid) if link.startswith("socket:")}
        for name in ("tcp", "tcp6"):
            for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTENS and f"socket:[{fields[9]}]" in ours:
                    address, port = fields[1].split(":")
                    found.append(Listener(pid, _readable(address), int(port, 16)))
    return found


CLOSED = (ConnectionError, ssl.SSLError, TimeoutError)


def read_reply(one: Listener, words: bytes, context: ssl.SSLContext | None = None) -> bytes:
    """What it answers; nothing where it closes the line, or greets nobody for a moment."""
    with contextlib.ExitStack() as stack, contextlib.suppress(*CLOSED):
        line = stack.enter_context(socket.create_connection((one.address, one.port), 60.0))
        line.settimeout(60.0 if words else 0.3)
        if context is not None:
            line = stack.enter_context(context.wrap_socket(line))
        line.sendall(words)
        return line.recv(65_536)
    return b""


def _links(pid: int) -> list[str]:
    links: list[str] = []
    for handle in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            links.append(str(handle.readlink()))
    return links


def _readable(address: str) -> str:
    """The kernel writes words of 32 bits in the order of this machine."""
    words = struct.iter_unpack(">I", bytes.fromhex(address))
    return str(ipaddress.ip_address(b"".join(struct.pack("=I", word) for (word,) in words)))
