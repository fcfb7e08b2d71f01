"""What a session file `.dgn` is made of: a zip of JSON and safetensors, nothing else.

Free of torch and of everything that opens files: the confined reader imports it.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from dgn_engine.storage.runs import folder_layout

FORMAT = "dgn-viewer session 1"
ENDING = ".dgn"
ABOUT = "session.json"  # the first member, by which the file is known
MANIFEST = "manifest.json"  # the last: size and sha256 of every other
FOLDER = "run/"

JSON = 4 << 20  # bytes of one JSON file
LOG = 256 << 20  # bytes of a log
LINE = 1 << 20  # bytes of one of its lines
DEPTH = 30  # lists and objects in each other
NODES = 400_000  # values in one JSON file

Kind = Literal["json", "log", "tensors", "text", "mark"]
_TOP: dict[str, Kind] = {ABOUT: "json", MANIFEST: "json"}
_IN_RUN: dict[str, Kind] = {
    folder_layout.RUN: "json",
    folder_layout.CONFIG: "text",
    folder_layout.LOG: "log",
    folder_layout.WEIGHTS: "tensors",
}
_IN_CHECKPOINT: dict[str, Kind] = {
    folder_layout.TENSORS: "tensors",
    folder_layout.STATE: "json",
    folder_layout.MANIFEST: "json",
    folder_layout.KEEP: "mark",
}
_CHECKPOINT = re.compile(rf"{folder_layout.CHECKPOINTS}/[0-9]{{9,15}}(?:-[0-9]{{1,6}})?/([a-z.]+)")
_FRAME = re.compile(
    rf"{folder_layout.FRAMES}/[0-9]{{9,15}}-[0-9]{{6,12}}-[0-9a-f]{{16}}\.safetensors"
)
_SIGNATURE = b"PK\x03\x04"


def kind_of(name: str) -> Kind | None:
    """What a member of this name must be; None where a session has no such member."""
    if not name.startswith(FOLDER):
        return _TOP.get(name)
    inner = name.removeprefix(FOLDER)
    if _FRAME.fullmatch(inner):
        return "tensors"
    found = _CHECKPOINT.fullmatch(inner)
    return _IN_CHECKPOINT.get(found[1]) if found else _IN_RUN.get(inner)


def looks_like_session(start: bytes) -> bool:
    """Whether the first bytes of a file (64 are enough) are those of a session, whatever its
    name is.
    """
    return start.startswith(_SIGNATURE) and start[30 : 30 + len(ABOUT)] == ABOUT.encode()


def too_deep(tree: Any) -> bool:
    """Whether a parsed JSON value is nested deeper, or holds more, than any of ours. No recursion:
    it may be hostile.
    """
    level, seen = [tree], 0
    for _ in range(DEPTH):
        seen += len(level)
        if seen > NODES:
            return True
        level = [
            inner
            for value in level
            if isinstance(value, (dict, list))
            for inner in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return False
    return True
