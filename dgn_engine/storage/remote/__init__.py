"""A run recorded on another machine: served there read-only, and mirrored here."""

from dataclasses import dataclass

PROTOCOL = 1
VERSION_HEADER = "Dgn-Protocol"
PREFIX = f"/dgn/{PROTOCOL}/"
SCHEME = "dgn://"
LOCAL = "127.0.0.1"  # the only address listened on; ssh -L forwards it to another machine
TOKEN_BYTES = 32


@dataclass(frozen=True)
class LineLimits:
    """Limits that both ends of a connection allow each other.

    Attributes:
        head: Bytes of a message's first line and headers.
        piece: Bytes of a file in one reply.
        patience: Seconds for a head, from its first byte to its last.
        slowest: Bytes per second that a reply must deliver after that.
    """

    head: int = 16 << 10
    piece: int = 1 << 20
    patience: float = 15.0
    slowest: int = 20_000


LIMITS = LineLimits()
