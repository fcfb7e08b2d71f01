"""The origin of a branch in its `run.json`, and the part of the parent's log before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dgn_engine.config import RunConfig
from dgn_engine.protocol.branches import BranchChanges
from dgn_engine.storage.inner_path import InnerPath
from dgn_engine.storage.plain_data import from_plain, to_plain
from dgn_engine.storage.regular_files import FILE, read_regular
from dgn_engine.storage.runs import run_identity, run_info
from dgn_engine.storage.runs.log import decode_line, encode_line, is_of_another

_KEY = "branch"
# What a branch inherits: the network that the parent's first event describes, and the machine that
# trained it; a branch trained elsewhere may differ in the last bits.
_INHERITED = (
    "versions",
    "platform",
    "processor",
    "device",
    "threads",
    "data_fingerprint",
    "probe_set",
    "parameters_value",
    "parameters_feature",
    "started",
)


@dataclass(frozen=True)
class BranchOrigin:
    """The origin of a branch.

    `parent`: name of its folder; `parent_id`: its run id, which stays when the folder is renamed.
    """

    parent: str
    parent_id: str
    step: int
    changes: BranchChanges


def branch_info(
    config: RunConfig, parent: Mapping[str, Any], origin: BranchOrigin
) -> dict[str, Any]:
    """Return the `run.json` of a branch of the run whose `run.json` is `parent`."""
    inherited = {name: parent[name] for name in _INHERITED if name in parent}
    return {**run_info.create_info(config), **inherited, _KEY: to_plain(origin)}


def origin_of(info: Mapping[str, Any]) -> BranchOrigin | None:
    """Return the origin of a run; None if it is not a branch or does not say."""
    try:
        origin: BranchOrigin = from_plain(BranchOrigin, info[_KEY])
    except (KeyError, TypeError, ValueError):
        return None
    return origin


def log_before(path: InnerPath, lines: int, run: str) -> bytes:
    """Return the first `lines` lines of a log, restated as lines of the run with this id.

    Raises `OSError`.
    """
    kept, tag = bytearray(), run_identity.tag_of(run)
    tags = run_identity.tags_of(run_identity.info_beside(path))
    for raw in read_regular(path, FILE).splitlines(keepends=True):
        line = decode_line(raw.removesuffix(b"\n"))
        if not raw.endswith(b"\n") or (line is not None and line.seq >= lines):
            break
        own = line is not None and bool(line.run) and not is_of_another(line, tags)
        kept += encode_line(line._replace(run=tag)) if line is not None and own else raw
    return bytes(kept)
