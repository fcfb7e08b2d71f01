"""The run that a file belongs to, by the id that it states.

`run.json` has the id of its run; every checkpoint and frame states it too, each log line its first
eight digits, and the first and last line are known by their checksums. Files of version 0.1 state
none and are accepted. A run copied from a session file gets a new id and keeps the earlier ones,
each with the number of lines, frames and checkpoints at that time.
"""

from __future__ import annotations

import re
import uuid
import zlib
from collections.abc import Mapping
from math import inf
from typing import Any

from dgn_engine.errors import UserError
from dgn_engine.storage.inner_path import InnerPath
from dgn_engine.storage.runs import run_info
from dgn_engine.storage.runs.run_ranges import is_count

ID = "id"  # in run.json
FORMER = "former_ids"
COUNTS = "former_counts"  # by id: the number of lines, frames and checkpoints at that time
LINES, FRAMES, CHECKPOINTS = range(3)  # indices of these counts
RUN = "run"  # in the state of a checkpoint and the head of a frame
OF_ANOTHER = "belongs to another run"
TAG = 8  # characters
_TAG = re.compile(rf"[0-9a-f]{{{TAG}}}")
# Parts of the configuration that every run has and never changes.
_FIXED = (("seed",), ("net", "name"), ("net", "options"), ("training", "batch"))


def id_of(info: Mapping[str, Any]) -> str:
    """Return the id of a `run.json`'s run; '' if it states none."""
    value = info.get(ID, "")
    return value if isinstance(value, str) else ""


def ids_of(info: Mapping[str, Any], what: int = CHECKPOINTS) -> dict[str, float]:
    """Return the ids that files of a run may state, each with the first number it may not have.

    Empty if `run.json` states none.

    Args:
        info: The `run.json`.
        what: `LINES`, `FRAMES` or `CHECKPOINTS`, which are numbered.
    """
    former, counts = info.get(FORMER), info.get(COUNTS)
    known = counts if isinstance(counts, dict) else {}
    ids: dict[str, float] = {}
    for former_id in former if isinstance(former, list) else ():
        ends = known.get(former_id)
        ids[former_id] = inf  # earlier versions did not store the counts
        if isinstance(ends, list) and len(ends) == 3 and all(map(is_count, ends)):
            ids[former_id] = ends[what]
    ids[id_of(info)] = inf
    ids.pop("", None)
    return ids


def tag_of(run: str) -> str:
    """Return the tag by which log lines state a run's id; '' for none. A tag is its own tag."""
    if not run:
        return ""
    match = _TAG.match(run)
    return match[0] if match else f"{zlib.crc32(run.encode('utf-8', 'replace')):08x}"


def tags_of(info: Mapping[str, Any]) -> dict[str, float]:
    """Return the tags that lines of a run may have, each with the first number it may not have.

    Empty if `run.json` states no id.
    """
    tags: dict[str, float] = {}
    for run_id, end in ids_of(info, LINES).items():
        tags[tag_of(run_id)] = max(end, tags.get(tag_of(run_id), 0))
    return tags


def with_new_id(info: Mapping[str, Any], counts: tuple[int, int, int]) -> dict[str, Any]:
    """Return the `run.json` of a copy: a separate run, whose files state the previous id.

    A run without an id gets none: nobody can tell which ids its files may state.

    Args:
        info: The run's `run.json`.
        counts: Of its lines, frames and checkpoints; later ones state the new id.
    """
    if not id_of(info):
        return dict(info)
    known = info.get(COUNTS)
    before = known if isinstance(known, dict) else {}
    ends = {**before, id_of(info): list(counts)}
    return {**info, ID: uuid.uuid4().hex, FORMER: sorted(ids_of(info)), COUNTS: ends}


def info_beside(path: InnerPath) -> dict[str, Any]:
    """Return the `run.json` beside a file or folder of a run; empty if it cannot be read."""
    try:
        return run_info.read_run_info(path.parent)
    except UserError:
        return {}


def belongs_to_run(stated: object, ids: Mapping[str, float], number: int = 0) -> bool:
    """Return whether a file of this number may belong to the run; True if unknown."""
    return not ids or not stated or (isinstance(stated, str) and number < ids.get(stated, 0))


def same_settings(one: object, other: object) -> bool:
    """Return whether two configurations may be of one run, for files that state no id."""
    for path in _FIXED:
        values = [_value_at(tree, path) for tree in (one, other)]
        if None not in values and values[0] != values[1]:
            return False
    return True


def _value_at(tree: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        tree = tree.get(name) if isinstance(tree, dict) else None
    return tree
