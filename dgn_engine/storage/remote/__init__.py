"""A run that is recorded on another machine: served there, read only, and mirrored here."""

from dataclasses import dataclass

PROTOCOL = 1
VERSION_HEADER = "Dgn-Protocol"
PREFIX = f"/dgn/{PROTOCOL}/"
SCHEME = "dgn://"
LOCAL = "127.0.0.1"  # nothing else is listened on; ssh -L brings it to another machine
TOKEN_BYTES = 32


@dataclass(frozen=True)
class LineLimits:
    """What both sides of a line allow each other.

    `head`: bytes of the head of a message, its first line and its headers; `piece`: of a file in
    one reply. `patience`: seconds for a head, from its first byte to its last; `slowest`: bytes a
    second that a reply must bring after that.
    """

    head: int = 16 << 10
    piece: int = 1 << 20
    patience: float = 15.0
    slowest: int = 20_000


LIMITS = LineLimits()
