"""A run that is recorded on another machine: served there, read only, and mirrored here."""

PROTOCOL = 1
VERSION_HEADER = "Dgn-Protocol"
PREFIX = f"/dgn/{PROTOCOL}/"
SCHEME = "dgn://"
LOCAL = "127.0.0.1"  # nothing else is listened on; ssh -L brings it to another machine
TOKEN_BYTES = 32

# What both sides allow each other.
HEAD = 16 << 10  # bytes of the head of a message: its first line and its headers
PIECE = 1 << 20  # … of a file in one reply
PATIENCE = 15.0  # seconds for a head, from its first byte to its last
SLOWEST = 20_000  # bytes a second that a reply must bring, after `PATIENCE`
