"""What the parent believes of the reading child's answer, and what the child says of parts."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from dgn_engine.storage.checkpoints import wire
from dgn_engine.storage.checkpoints.averaged_weights import averaged_beside, is_averaged
from dgn_engine.storage.checkpoints.batch_child import answer_batch as answer_of_batch
from dgn_engine.storage.checkpoints.contents import CheckpointContents, UnreadableFile
from dgn_engine.storage.checkpoints.stated_entries import LONGEST, MOST
from dgn_engine.storage.checkpoints.stated_layers import CHILDREN
from dgn_engine.storage.checkpoints.wire import receive_contents
from tests.engine.storage.checkpoints.inert_trees import unreadable
from tests.faults.answered import read_answer

ONE = np.ones((2, 3), np.float32)


def head(**changed: Any) -> dict[str, Any]:
    tensor = {"name": "w", "shape": [2, 3], "dtype": "float32"}
    rest: dict[str, Any] = dict.fromkeys(("ignored", "layers", "others", "children", "said"), ())
    rest |= {
        "metadata": {},
        "kind": "safetensors",
        "module": "",
        "part": "",
        "would_call": [],
        "would_look_up": [],
        "would_import": [],
    }
    return {**rest, "tensors": [{**tensor, **changed}]}


def received(line: dict[str, Any], numbers: bytes = ONE.tobytes()) -> CheckpointContents:
    return wire.receive_contents(io.BytesIO(json.dumps(line).encode() + b"\n" + numbers), 1 << 10)


def test_a_sound_answer_is_taken() -> None:
    assert np.array_equal(received(head()).arrays["w"], ONE)


@pytest.mark.parametrize(
    "changed",
    [{"shape": [100, 100]}, {"shape": [-2, -3]}, {"shape": [2.5, 3]}, {"dtype": "object"}],
)
def test_an_answer_that_cannot_be_is_not_believed(changed: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^(the answer|a shape|a type) "):
        received(head(**changed))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("children", [{"name": "0", "kind": "Linear", "numbers": {"in_features": 3}}]),
        ("children", [{"name": "0", "kind": "a.B", "numbers": {"x": 1}}]),
        ("children", [{"name": "0", "kind": "a.B", "numbers": {}}] * (CHILDREN + 1)),
        ("said", [["key", 3]]),
        ("said", [["key"]]),
        ("said", {"key": "text"}),
        ("said", [["key", "text"]] * (MOST + 1)),
    ],
)
def test_what_a_file_says_crosses_only_as_it_may(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=r" (is|are) invalid$"):
        received({**head(), field: value})


def test_entries_that_cross_are_short_and_printable() -> None:
    found = received({**head(), "said": [["a\x1b" * 99, "\n" * 999]]})
    assert all(len(text) <= LONGEST and text.isprintable() for text in found.said[0])


def test_an_answer_that_is_cut_is_no_answer() -> None:
    with pytest.raises(EOFError):
        received(head(), ONE.tobytes()[:-1])
    with pytest.raises(EOFError):
        wire.receive_contents(io.BytesIO(b'{"tensors": []}'), 1 << 10)


def test_numbers_that_find_no_memory_are_refused_before_they_take_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wire, "_SMALL", 8)
    monkeypatch.setattr(wire, "free_memory", lambda: 16)
    with pytest.raises(MemoryError):
        received(head())


@pytest.mark.parametrize(
    ("trouble", "kind", "said"),
    [
        (UnreadableFile("has no \x1b", "odd"), "odd", "has no \\x1b"),
        (MemoryError(), "no-memory", ""),
        (KeyError("w"), "fault", "KeyError: 'w'"),
    ],
)
def test_whatever_a_file_provokes_is_one_sentence(trouble: Exception, kind: str, said: str) -> None:
    pipe = io.BytesIO()
    with wire.refusals_to(pipe):
        raise trouble
    pipe.seek(0)
    with pytest.raises(UnreadableFile) as refused:
        wire.receive_contents(pipe, 1 << 10)
    assert refused.value.kind == kind
    assert said in str(refused.value)


# Parts of a file


def asked(part: str, **arrays: np.ndarray[Any, Any]) -> CheckpointContents:
    return read_answer(safetensors.numpy.save(arrays), part)


def test_a_part_is_what_stands_under_its_name() -> None:
    found = asked("ema", **{"model.w": ONE, "ema.w": 2 * ONE})
    assert found.part == "ema"
    assert {name: array[0, 0] for name, array in found.arrays.items()} == {"w": 2.0}


def test_a_part_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(UnreadableFile, match=r"has no part 'swa'; it has 'ema', 'model'$"):
        asked("swa", **{"model.w": ONE, "ema.w": ONE})
    with pytest.raises(UnreadableFile, match=r"'p7', …$"):
        asked("swa", **{f"p{number}.w": ONE for number in range(10)})


# Averaged weights


def test_averaged_weights_are_known_by_their_names() -> None:
    names = ("ema", "state_dict_ema", "SWA_model", "polyak", "ema2", "averaged_weights")
    assert all(map(is_averaged, names))
    assert not any(map(is_averaged, ("schema", "model", "avgpool", "cinema", "")))


def test_a_network_beside_its_average_is_found_by_its_matrices() -> None:
    bias = np.ones(3, np.float32)
    both = {"model.0.w": ONE, "model.0.b": bias, "ema.0.w": ONE}
    assert averaged_beside(both) == ("model", "ema")
    assert averaged_beside({"model.0.w": ONE, "ema.0.w": ONE.T}) is None
    assert averaged_beside({"model.0.b": bias, "ema.0.b": bias}) is None
    assert averaged_beside({"ema.0.w": ONE, "ema.1.w": ONE}) is None
    assert averaged_beside({"model.0.w": ONE, "other.0.w": ONE}) is None


# A pickled batch of CIFAR: numbers, names, and one sentence for all else.

PIXELS = np.arange(12, dtype=np.uint8).reshape(2, 6)


class _Calls:
    """What calls the system when it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("true",)


class _RefersOutside(pickle.Pickler):
    """Stores a list as a reference to what lies elsewhere."""

    def persistent_id(self, obj: object) -> str | None:
        return "elsewhere" if isinstance(obj, list) else None


def read_batch(content: bytes, key: str = "labels", md5: str = "") -> CheckpointContents:
    pipe = io.BytesIO()
    answer_of_batch(content, pipe, md5 or hashlib.md5(content).hexdigest(), key)
    pipe.seek(0)
    return receive_contents(pipe, 1 << 20)


def batch(**parts: Any) -> bytes:
    return pickle.dumps(parts, protocol=2)


def test_pixels_and_labels_come_as_they_are() -> None:
    found = read_batch(batch(data=PIXELS, labels=[3, 0]))
    assert np.array_equal(found.arrays["data"], PIXELS)
    assert found.arrays["labels"].tolist() == [3, 0]
    assert found.dtypes == {"data": "uint8", "labels": "int64"}


def test_names_come_in_their_order() -> None:
    found = read_batch(batch(label_names=["cat", "dog", "a ship"]), "label_names")
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
        read_batch(batch(**parts))


def test_a_list_is_no_batch() -> None:
    with unreadable("damaged"):
        read_batch(pickle.dumps([1, 2], protocol=2))


def test_another_file_is_damaged_before_it_is_looked_at() -> None:
    with unreadable("damaged"):
        read_batch(batch(labels=[_Calls()]), md5="0" * 32)


def test_a_batch_that_would_call_is_refused_and_calls_nothing() -> None:
    with pytest.raises(UnreadableFile, match=r"it refers to (posix|nt)\.system"):
        read_batch(batch(data=PIXELS, labels=[_Calls()]))


def test_numbers_that_lie_elsewhere_are_not_fetched() -> None:
    pipe = io.BytesIO()
    _RefersOutside(pipe, protocol=2).dump({"data": PIXELS, "labels": [1, 2]})
    with unreadable("no-numbers"):
        read_batch(pipe.getvalue())
