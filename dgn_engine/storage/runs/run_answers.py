"""Which test examples a run answered right: `answers.json` in its folder.

The file belongs to this machine, as `weights/` does: it is no part of the manifest, nor of a
session file. A digest of what it says stands in it, but where an older version wrote it. A file
that is damaged holds no answers.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dgn_engine.storage.atomic_write import write_file
from dgn_engine.storage.inner_path import FilePath, inside
from dgn_engine.storage.plain_data import parse_json
from dgn_engine.storage.regular_files import read_regular
from dgn_engine.storage.runs import folder_layout, run_identity

_MOST = 1 << 24  # bytes of the file
_EXAMPLES = 1 << 24
_BESTS = 16  # more are not written
_STEP = 1 << 53
_DIGITS = 16  # of a step
_DIGEST = "sha256"  # in the file: of all else in it
_KEYS = {run_identity.RUN, "examples", "best", "last"}
UNSOUND = (ValueError, KeyError, TypeError, AttributeError)

Mask = NDArray[np.bool_]  # (N,): True where a test example was answered right


@dataclass(frozen=True)
class RunAnswers:
    """Masks of equal length by the step of their test pass; raises `ValueError` for others.

    `best`: where the test score was the best so far, ascending; `last`: the newest test pass.
    """

    best: Mapping[int, Mask]
    last: Mapping[int, Mask]

    def __post_init__(self) -> None:
        lengths = {len(mask) for mask in (*self.best.values(), *self.last.values())}
        if len(lengths) > 1 or not all(0 < length <= _EXAMPLES for length in lengths):
            raise ValueError("lengths")
        if len(self.best) > _BESTS or len(self.last) > 1:
            raise ValueError("too many")
        if not all(0 <= step <= _STEP for step in (*self.best, *self.last)):
            raise ValueError("a step")

    @property
    def examples(self) -> int:
        """Length of the masks; 0 where there are none."""
        return max((len(mask) for mask in (*self.best.values(), *self.last.values())), default=0)


NONE = RunAnswers({}, {})


def write_answers(folder: FilePath, answers: RunAnswers) -> None:
    """Put these in the place of those before, with the id of the run; raises `OSError`."""
    root = inside(folder)
    tree = {
        run_identity.RUN: run_identity.id_of(
            run_identity.info_beside(root / folder_layout.ANSWERS)
        ),
        "examples": answers.examples,
        "best": {str(step): _packed(mask) for step, mask in answers.best.items()},
        "last": {str(step): _packed(mask) for step, mask in answers.last.items()},
    }
    tree[_DIGEST] = _digest_of(tree)
    write_file(root / folder_layout.ANSWERS, (json.dumps(tree, indent=1) + "\n").encode())


def read_answers(folder: FilePath) -> RunAnswers:
    """Those of a run; none where there are none, they cannot be read, or are of another run."""
    try:
        return parse_answers(folder)
    except (OSError, *UNSOUND):
        return NONE


def parse_answers(folder: FilePath) -> RunAnswers:
    """As `read_answers`; raises `OSError` or one of `UNSOUND`."""
    path = inside(folder) / folder_layout.ANSWERS
    tree = parse_json(read_regular(path, _MOST))
    if tree.keys() - {_DIGEST} - _KEYS or tree.get(_DIGEST, _digest_of(tree)) != _digest_of(tree):
        raise ValueError("another digest")
    examples = tree["examples"]
    if type(examples) is not int or not 0 <= examples <= _EXAMPLES:
        raise ValueError("a number of examples")
    ids = run_identity.ids_of(run_identity.info_beside(path))
    if not run_identity.belongs(tree.get(run_identity.RUN), ids):
        raise ValueError(run_identity.OF_ANOTHER)
    return RunAnswers(_masks(tree["best"], examples), _masks(tree["last"], examples))


def _digest_of(tree: Mapping[str, Any]) -> str:
    """The sha256 of what the file says, but of the digest itself."""
    told = {key: value for key, value in tree.items() if key != _DIGEST}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def _packed(mask: Mask) -> str:
    return base64.b64encode(np.packbits(mask).tobytes()).decode()


def _masks(tree: Mapping[str, Any], examples: int) -> dict[int, Mask]:
    """Ascending by step; raises `ValueError` or `TypeError` where that is no set of masks."""
    if len(tree) > _BESTS:
        raise ValueError("too many")
    if any(len(step) > _DIGITS for step in tree):
        raise ValueError("a step")
    masks = {int(step): _unpacked(text, examples) for step, text in tree.items()}
    return dict(sorted(masks.items()))


def _unpacked(text: str, examples: int) -> Mask:
    packed = np.frombuffer(base64.b64decode(text, validate=True), dtype=np.uint8)
    if len(packed) != -(-examples // 8):
        raise ValueError("a length")
    bits = np.unpackbits(packed)
    if bits[examples:].any():
        raise ValueError("answers beyond the last example")
    return bits[:examples].astype(np.bool_)
