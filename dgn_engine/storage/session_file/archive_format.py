"""The format of a session file `.dgn`: a zip of JSON and safetensors, nothing else.

Imports neither torch nor anything that opens files: the confined reader imports it.
"""

from __future__ import annotations

from dgn_engine.storage.runs import folder_layout
from dgn_engine.storage.runs.folder_layout import Kind

FORMAT = "dgn-viewer session 1"
ENDING = ".dgn"
ABOUT = "session.json"  # the first member, which identifies the file
MANIFEST = "manifest.json"  # the last: size and sha256 of all others
FOLDER = "run/"

JSON = 4 << 20  # bytes of one JSON file
LOG = 256 << 20  # bytes of a log
LINE = 1 << 20  # bytes of one of its lines

_TOP: dict[str, Kind] = {ABOUT: "json", MANIFEST: "json"}
_SIGNATURE = b"PK\x03\x04"


def kind_of(name: str) -> Kind | None:
    """Return the type of a member of this name; None if a session has no such member."""
    if name.startswith(FOLDER):
        return folder_layout.kind_of(name.removeprefix(FOLDER))
    return _TOP.get(name)


def looks_like_session(start: bytes) -> bool:
    """Return whether the first bytes of a file (64 are enough) are those of a session."""
    return start.startswith(_SIGNATURE) and start[30 : 30 + len(ABOUT)] == ABOUT.encode()
