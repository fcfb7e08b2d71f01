"""The test examples that a run classified correctly: `answers.json` in its folder.

The file stays on this machine, as `weights/` does: it is not part of the manifest or of a session
file. It contains a digest of itself, unless an older version wrote it. A damaged file counts as
empty.
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
from dgn_engine.storage.inner_path import FilePath, inner_folder
from dgn_engine.storage.plain_data import parse_json
from dgn_engine.storage.regular_files import read_regular
from dgn_engine.storage.runs import folder_layout, run_identity

_MOST = 1 << 24  # bytes of the file
_EXAMPLES = 1 << 24
_BESTS = 16  # more are not written
_STEP = 1 << 53
_DIGITS = 16  # of a step
_DIGEST = "sha256"  # of everything else in the file
_KEYS = {run_identity.RUN, "examples", "best", "last"}
UNSOUND = (ValueError, KeyError, TypeError, AttributeError)

Mask = NDArray[np.bool_]  # (N,): True if a test example was classified correctly


@dataclass(frozen=True)
class RunAnswers:
    """Masks of equal length by the step of their test pass; raises `ValueError` otherwise.

    `best`: passes with the best test score so far, ascending; `last`: the newest pass.
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
    def example_count(self) -> int:
        """Length of the masks; 0 if there are none."""
        return max((len(mask) for mask in (*self.best.values(), *self.last.values())), default=0)


NONE = RunAnswers({}, {})


def write_answers(folder: FilePath, answers: RunAnswers) -> None:
    """Replace the answers, with the run's id; raises `OSError`."""
    root = inner_folder(folder)
    tree = {
        run_identity.RUN: run_identity.id_of(
            run_identity.info_beside(root / folder_layout.ANSWERS)
        ),
        "examples": answers.example_count,
        "best": {str(step): _pack_mask(mask) for step, mask in answers.best.items()},
        "last": {str(step): _pack_mask(mask) for step, mask in answers.last.items()},
    }
    tree[_DIGEST] = _digest_of(tree)
    write_file(root / folder_layout.ANSWERS, (json.dumps(tree, indent=1) + "\n").encode())


def read_answers(folder: FilePath) -> RunAnswers:
    """Return the answers of a run; none if missing, unreadable or of another run."""
    try:
        return parse_answers(folder)
    except (OSError, *UNSOUND):
        return NONE


def parse_answers(folder: FilePath) -> RunAnswers:
    """Read the answers; raises `OSError` or one of `UNSOUND`."""
    path = inner_folder(folder) / folder_layout.ANSWERS
    tree = parse_json(read_regular(path, _MOST))
    if tree.keys() - {_DIGEST} - _KEYS or tree.get(_DIGEST, _digest_of(tree)) != _digest_of(tree):
        raise ValueError("a different digest")
    examples = tree["examples"]
    if type(examples) is not int or not 0 <= examples <= _EXAMPLES:
        raise ValueError("a number of examples")
    ids = run_identity.ids_of(run_identity.info_beside(path))
    if not run_identity.belongs_to_run(tree.get(run_identity.RUN), ids):
        raise ValueError(run_identity.OF_ANOTHER)
    return RunAnswers(_read_masks(tree["best"], examples), _read_masks(tree["last"], examples))


def _digest_of(tree: Mapping[str, Any]) -> str:
    """Return the sha256 of everything in the file but the digest itself."""
    content = {key: value for key, value in tree.items() if key != _DIGEST}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _pack_mask(mask: Mask) -> str:
    return base64.b64encode(np.packbits(mask).tobytes()).decode()


def _read_masks(tree: Mapping[str, Any], examples: int) -> dict[int, Mask]:
    """Decode the masks, ascending by step; raises `ValueError` or `TypeError` if invalid."""
    if len(tree) > _BESTS:
        raise ValueError("too many")
    if any(len(step) > _DIGITS for step in tree):
        raise ValueError("a step")
    masks = {int(step): _unpack_mask(text, examples) for step, text in tree.items()}
    return dict(sorted(masks.items()))


def _unpack_mask(text: str, examples: int) -> Mask:
    packed = np.frombuffer(base64.b64decode(text, validate=True), dtype=np.uint8)
    if len(packed) != -(-examples // 8):
        raise ValueError("a length")
    bits = np.unpackbits(packed)
    if bits[examples:].any():
        raise ValueError("answers beyond the last example")
    return bits[:examples].astype(np.bool_)
