"""What the parent believes of the reading child's answer, and what the child says of parts."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from dgn_engine.storage.checkpoints import wire
from dgn_engine.storage.checkpoints.averaged_weights import averaged_beside, is_averaged
from dgn_engine.storage.checkpoints.contents import CheckpointContents, UnreadableFile
from dgn_engine.storage.checkpoints.reader_child import answer
from dgn_engine.storage.checkpoints.stated_entries import LONGEST, MOST
from dgn_engine.storage.checkpoints.stated_layers import CHILDREN

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
    return wire.receive(io.BytesIO(json.dumps(line).encode() + b"\n" + numbers), 1 << 10)


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
    with pytest.raises(ValueError, match=r"these are no|this is no|numbers of such"):
        received({**head(), field: value})


def test_entries_that_cross_are_short_and_printable() -> None:
    found = received({**head(), "said": [["a\x1b" * 99, "\n" * 999]]})
    assert all(len(text) <= LONGEST and text.isprintable() for text in found.said[0])


def test_an_answer_that_is_cut_is_no_answer() -> None:
    with pytest.raises(EOFError):
        received(head(), ONE.tobytes()[:-1])
    with pytest.raises(EOFError):
        wire.receive(io.BytesIO(b'{"tensors": []}'), 1 << 10)


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
    with wire.refusals(pipe):
        raise trouble
    pipe.seek(0)
    with pytest.raises(UnreadableFile) as refused:
        wire.receive(pipe, 1 << 10)
    assert refused.value.kind == kind
    assert said in str(refused.value)


# Parts of a file


def asked(part: str, **arrays: np.ndarray[Any, Any]) -> CheckpointContents:
    pipe = io.BytesIO()
    answer(safetensors.numpy.save(arrays), pipe, part)
    pipe.seek(0)
    return wire.receive(pipe, 1 << 20)


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
