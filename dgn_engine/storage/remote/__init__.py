"""A run that is recorded on another machine: served there, read only, and mirrored here."""

PROTOCOL = 1
VERSION_HEADER = "Dgn-Protocol"
PREFIX = f"/dgn/{PROTOCOL}/"
SCHEME = "dgn://"
LOCAL = "127.0.0.1"  # nothing else is listened on; ssh -L brings it to another machine
TOKEN_BYTES = 32
