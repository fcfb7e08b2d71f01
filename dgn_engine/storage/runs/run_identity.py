"""Which run the files of a run's folder belong to, by the id that stands in them.

`run.json` has the id of its run; every checkpoint and every frame states it too, each line of the
log its first eight digits, and the first and last line are known by their checksums. Files of 0.1
state none, and are taken as they are. A run that is copied out of a session file gets an id of its
own and keeps those before it, each with how many lines, frames and checkpoints there were then.
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
COUNTS = "former_counts"  # by the id: how many lines, frames and checkpoints there were then
LINES, FRAMES, CHECKPOINTS = range(3)  # places of these counts
RUN = "run"  # in the state of a checkpoint and the head of a frame
OF_ANOTHER = "is of another run"
TAG = 8  # characters
_TAG = re.compile(rf"[0-9a-f]{{{TAG}}}")
# What no run changes of its configuration, and what each has one of.
_FIXED = (("seed",), ("net", "name"), ("net", "options"), ("training", "batch"))


def id_of(info: Mapping[str, Any]) -> str:
    """The id of the run of a `run.json`; '' where it states none."""
    found = info.get(ID, "")
    return found if isinstance(found, str) else ""


def ids_of(info: Mapping[str, Any], what: int = CHECKPOINTS) -> dict[str, float]:
    """The ids that files of the run may state, each with the first number that none of it may have;
    none where its `run.json` states none.

    Args:
        info: that `run.json`.
        what: `LINES`, `FRAMES` or `CHECKPOINTS`, which is numbered.
    """
    former, counts = info.get(FORMER), info.get(COUNTS)
    known = counts if isinstance(counts, dict) else {}
    found: dict[str, float] = {}
    for one in former if isinstance(former, list) else ():
        ends = known.get(one)
        found[one] = inf  # versions before did not say it
        if isinstance(ends, list) and len(ends) == 3 and all(map(is_count, ends)):
            found[one] = ends[what]
    found[id_of(info)] = inf
    found.pop("", None)
    return found


def tag_of(run: str) -> str:
    """By which the lines of a log state the run of an id; '' of a run that states none. A tag is
    that of itself."""
    if not run:
        return ""
    found = _TAG.match(run)
    return found[0] if found else f"{zlib.crc32(run.encode('utf-8', 'replace')):08x}"


def tags_of(info: Mapping[str, Any]) -> dict[str, float]:
    """Those that lines of the run may have, each with the first number that none of it may have;
    none where its `run.json` states none."""
    found: dict[str, float] = {}
    for one, end in ids_of(info, LINES).items():
        found[tag_of(one)] = max(end, found.get(tag_of(one), 0))
    return found


def with_new_id(info: Mapping[str, Any], counts: tuple[int, int, int]) -> dict[str, Any]:
    """The `run.json` of a copy: a run of its own, whose files state the id that it had before. One
    that states none gets none: nobody can tell which ids its files may state.

    Args:
        info: that of the run.
        counts: of its lines, frames and checkpoints; what comes later states the new id.
    """
    if not id_of(info):
        return dict(info)
    known = info.get(COUNTS)
    before = known if isinstance(known, dict) else {}
    ends = {**before, id_of(info): list(counts)}
    return {**info, ID: uuid.uuid4().hex, FORMER: sorted(ids_of(info)), COUNTS: ends}


def info_beside(path: InnerPath) -> dict[str, Any]:
    """The `run.json` beside a file or folder of a run; empty where it cannot be read."""
    try:
        return run_info.read(path.parent)
    except UserError:
        return {}


def belongs(stated: object, ids: Mapping[str, float], number: int = 0) -> bool:
    """Whether what a file of this number states may be the run's id; True where either is not
    known."""
    return not ids or not stated or (isinstance(stated, str) and number < ids.get(stated, 0))


def same_settings(one: object, other: object) -> bool:
    """Whether two configurations, as plain trees, can be of one run: for files that state no id."""
    for path in _FIXED:
        values = [_value(tree, path) for tree in (one, other)]
        if None not in values and values[0] != values[1]:
            return False
    return True


def _value(tree: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        tree = tree.get(name) if isinstance(tree, dict) else None
    return tree
