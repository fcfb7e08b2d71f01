"""The short-lived process that reads one of CIFAR's pickled batches, if its md5 is right.

`python -m dgn_engine.storage.checkpoints.batch_child SECONDS MD5 KEY`

As in `reader_child` it reads the file from standard input and answers on standard output; nothing
is imported or called. The answer is what the batch has under `KEY`: labels (N,), int64, with their
`data` (N, D), uint8; or names, as notes in order.
"""

from __future__ import annotations

import hashlib
import sys
from functools import partial
from typing import IO, Any

import numpy as np

from dgn_engine.storage.checkpoints import limits, wire
from dgn_engine.storage.checkpoints.call_recorder import CallRecorder
from dgn_engine.storage.checkpoints.contents import Array, ParsedFile, UnreadableFile
from dgn_engine.storage.checkpoints.file_content import Content
from dgn_engine.storage.checkpoints.pickle_file import InertDict, read_pickle
from dgn_engine.storage.checkpoints.pickled_arrays import PickledArray
from dgn_engine.storage.checkpoints.pickled_tensors import Unsupported, build_inert, read_leaf
from dgn_engine.storage.checkpoints.reader_child import serve_request
from dgn_engine.text.printable import plain_text

DATA, LABELS = "data", "labels"
_DAMAGED = "is damaged; delete it and download it again"
_MOST_LABEL = 1 << 31


def answer_batch(content: Content, pipe: IO[bytes], md5: str, key: str) -> None:
    with wire.refusals_to(pipe):
        own = content[:]  # another program may write to a mapped file after the check
        if hashlib.md5(own, usedforsecurity=False).hexdigest() != md5:
            raise UnreadableFile(_DAMAGED, kind="damaged")
        wire.send_contents(_read_batch(own, key), pipe)


def _read_batch(content: bytes, key: str) -> ParsedFile:
    calls = CallRecorder()
    tree, _ = read_pickle(
        content, 0, build_inert, _nothing_outside, calls, limits.description_limit(len(content))
    )
    if strange := (*calls.would_call, *calls.would_look_up):
        raise UnreadableFile(
            f"is not a batch of images; it refers to {plain_text(strange[0])}; nothing was run"
        )
    listed = tree.get(key) if isinstance(tree, InertDict) else None
    if not isinstance(listed, list):
        raise UnreadableFile(_DAMAGED, kind="damaged")
    if listed and all(type(name) is str for name in listed):
        return ParsedFile("", {}, {}, metadata={str(i): name for i, name in enumerate(listed)})
    if not all(type(label) is int and 0 <= label < _MOST_LABEL for label in listed):
        raise UnreadableFile(_DAMAGED, kind="damaged")
    arrays = {DATA: _read_pixels(tree.get(DATA)), LABELS: np.array(listed, np.int64)}
    return ParsedFile("", arrays, {DATA: "uint8", LABELS: "int64"})


def _read_pixels(node: Any) -> Array:
    leaf = read_leaf(node, _nothing_outside) if isinstance(node, PickledArray) else None
    if leaf is None or isinstance(leaf, Unsupported) or leaf[1] != "uint8":
        raise UnreadableFile(_DAMAGED, kind="damaged")
    return leaf[0]


def _nothing_outside(_reference: Any) -> Any:
    raise UnreadableFile("refers to data that it does not contain", kind="no-numbers")


if __name__ == "__main__":
    serve_request(partial(answer_batch, md5=sys.argv[2], key=sys.argv[3]), int(sys.argv[1]))
