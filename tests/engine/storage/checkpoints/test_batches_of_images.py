"""The child that reads a pickled batch of CIFAR: numbers, names, and one sentence for all else."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
from typing import Any

import numpy as np
import pytest

from dgn_engine.storage.checkpoints.batch_child import answer
from dgn_engine.storage.checkpoints.contents import CheckpointContents, UnreadableFile
from dgn_engine.storage.checkpoints.wire import receive
from tests.engine.storage.checkpoints.inert_trees import unreadable

PIXELS = np.arange(12, dtype=np.uint8).reshape(2, 6)


class _Calls:
    """What calls the system when it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("true",)


class _RefersOutside(pickle.Pickler):
    """Stores a list as a reference to what lies elsewhere."""

    def persistent_id(self, obj: object) -> str | None:
        return "elsewhere" if isinstance(obj, list) else None


def read(content: bytes, key: str = "labels", md5: str = "") -> CheckpointContents:
    pipe = io.BytesIO()
    answer(content, pipe, md5 or hashlib.md5(content).hexdigest(), key)
    pipe.seek(0)
    return receive(pipe, 1 << 20)


def batch(**parts: Any) -> bytes:
    return pickle.dumps(parts, protocol=2)


def test_pixels_and_labels_come_as_they_are() -> None:
    found = read(batch(data=PIXELS, labels=[3, 0]))
    assert np.array_equal(found.arrays["data"], PIXELS)
    assert found.arrays["labels"].tolist() == [3, 0]
    assert found.dtypes == {"data": "uint8", "labels": "int64"}


def test_names_come_in_their_order() -> None:
    found = read(batch(label_names=["cat", "dog", "a ship"]), "label_names")
    assert list(found.metadata.values()) == ["cat", "dog", "a ship"]
    assert not found.arrays


@pytest.mark.parametrize(
    "parts",
    [
        {"data": PIXELS},  # no labels
        {"data": PIXELS, "labels": "30"},
        {"data": PIXELS, "labels": [3, -1]},
        {"data": PIXELS, "labels": [3, 1 << 31]},
        {"data": PIXELS, "labels": [3, 0.0]},
        {"data": PIXELS, "labels": [3, True]},
        {"labels": [3, 0]},  # no pixels
        {"data": [1, 2], "labels": [3, 0]},
        {"data": PIXELS.astype(np.float32), "labels": [3, 0]},
    ],
)
def test_what_is_no_batch_is_damaged(parts: dict[str, Any]) -> None:
    with unreadable("damaged"):
        read(batch(**parts))


def test_a_list_is_no_batch() -> None:
    with unreadable("damaged"):
        read(pickle.dumps([1, 2], protocol=2))


def test_another_file_is_damaged_before_it_is_looked_at() -> None:
    with unreadable("damaged"):
        read(batch(labels=[_Calls()]), md5="0" * 32)


def test_a_batch_that_would_call_is_refused_and_calls_nothing() -> None:
    with pytest.raises(UnreadableFile, match=r"it names posix\.system|it names nt\.system"):
        read(batch(data=PIXELS, labels=[_Calls()]))


def test_numbers_that_lie_elsewhere_are_not_fetched() -> None:
    pipe = io.BytesIO()
    _RefersOutside(pipe, protocol=2).dump({"data": PIXELS, "labels": [1, 2]})
    with unreadable("no-numbers"):
        read(pipe.getvalue())
