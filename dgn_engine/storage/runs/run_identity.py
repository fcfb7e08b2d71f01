"""Which run the files of a run's folder belong to, by the id that stands in them.

`run.json` has the id of its run; every checkpoint and every frame states it too, each line of the
log its first eight digits, and the first and last line are known by their checksums. Files of 0.1
state none, and are taken as they are. A run that is copied out of a session file gets an id of its
own and keeps those before it.
"""

from __future__ import annotations

import re
import uuid
import zlib
from collections.abc import Mapping
from typing import Any

from dgn_engine.errors import UserError
from dgn_engine.storage.inner_path import InnerPath
from dgn_engine.storage.runs import run_info

ID = "id"  # in run.json
FORMER = "former_ids"
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


def ids_of(info: Mapping[str, Any]) -> frozenset[str]:
    """The ids that files of the run may state; none where its `run.json` states none."""
    former = info.get(FORMER, ())
    return frozenset(filter(None, (id_of(info), *(former if isinstance(former, list) else ()))))


def tag_of(run: str) -> str:
    """By which the lines of a log state the run of an id; '' of a run that states none. A tag is
    that of itself."""
    if not run:
        return ""
    found = _TAG.match(run)
    return found[0] if found else f"{zlib.crc32(run.encode('utf-8', 'replace')):08x}"


def tags_of(info: Mapping[str, Any]) -> frozenset[str]:
    """Those that lines of the run may have; none where its `run.json` states none."""
    return frozenset(map(tag_of, ids_of(info)))


def with_new_id(info: Mapping[str, Any]) -> dict[str, Any]:
    """The `run.json` of a copy: a run of its own, whose files state the id that it had before."""
    return {**info, ID: uuid.uuid4().hex, FORMER: sorted(ids_of(info))}


def info_beside(path: InnerPath) -> dict[str, Any]:
    """The `run.json` beside a file or folder of a run; empty where it cannot be read."""
    try:
        return run_info.read(path.parent)
    except UserError:
        return {}


def belongs(stated: object, ids: frozenset[str]) -> bool:
    """Whether what a file states may be the run's id; True where either is not known."""
    return not ids or not stated or stated in ids


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
