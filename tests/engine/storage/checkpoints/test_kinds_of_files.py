"""What the parsers make of honest and odd files, kind by kind: numbers, words, order, limits."""

from __future__ import annotations

import io
import json
import pickle
from typing import Any

import numpy as np
from torch import nn

from dgn_engine.storage.checkpoints import limits
from dgn_engine.storage.checkpoints.contents import CheckpointContents, decoded, is_sound, natural
from dgn_engine.storage.checkpoints.pickle_file import InertDict, InertObject, members, read_pickle
from dgn_engine.storage.checkpoints.pickled_tensors import build, storage
from dgn_engine.storage.checkpoints.reader_child import answer, tidy
from dgn_engine.storage.checkpoints.safetensors_file import read_safetensors
from dgn_engine.storage.checkpoints.stated_layers import stated_layers
from dgn_engine.storage.checkpoints.wire import receive
from tests.engine.storage.checkpoints.inert_trees import (
    NUMBERS,
    layer,
    sequence,
    table,
    tensor,
    tree_of,
    unreadable,
)

# safetensors


def safetensors(entries: dict[str, Any], numbers: bytes) -> bytes:
    head = json.dumps(entries).encode()
    return len(head).to_bytes(8, "little") + head + numbers


def entry(begin: int, end: int, dtype: str = "F32", shape: tuple[int, ...] | None = None) -> Any:
    shape = ((end - begin) // 4,) if shape is None else shape
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


def test_a_type_that_is_not_known_is_named_and_what_follows_is_read() -> None:
    found = read_safetensors(
        safetensors(
            {
                "w.10": entry(0, 8),
                "w.2": entry(8, 16, "F4", (16,)),
                "w.1": entry(16, 20),
                "w.3": entry(20, 24, "F8_E8M0", (4,)),
                "__metadata__": {"k": "v", "n": "3"},
            },
            NUMBERS[:6].tobytes(),
        )
    )
    assert {name: array.tolist() for name, array in found.arrays.items()} == {
        "w.1": [4],
        "w.10": [0, 1],
    }
    assert list(found.arrays) == ["w.1", "w.10"]
    assert found.ignored == ("w.2 (F4)", "w.3 (F8_E8M0)")
    assert found.metadata == {"k": "v", "n": "3"}
    assert found.kind == "safetensors"


# archives and kinds of files


def received(content: bytes) -> CheckpointContents:
    pipe = io.BytesIO()
    answer(content, pipe)
    pipe.seek(0)
    return receive(pipe, 1 << 20)


def test_what_is_left_aside_is_cut_after_two_hundred_lines() -> None:
    many = {f"k{n}": n for n in range(203)}
    found = received(pickle.dumps({"w": np.ones(1), **many}, protocol=4))
    assert len(found.ignored) == 201
    assert found.ignored[-2:] == ("k199 (int)", "and 3 more")
    exact = {f"k{n}": n for n in range(200)}
    found = received(pickle.dumps({"w": np.ones(1), **exact}, protocol=4))
    assert found.ignored[-1] == "k199 (int)"


def test_prefixes_come_off_where_all_tensors_have_them() -> None:
    def names(*given: str) -> list[str]:
        tree = InertDict([(name, tensor(1)) for name in given])
        return list(tidy(tree_of(tree)).arrays)

    assert names("module.a", "module.b") == ["a", "b"]
    assert names("module.a", "b") == ["module.a", "b"]
    assert names("module._orig_mod.a.w", "module._orig_mod.b") == ["a.w", "b"]
    assert names("module.") == ["module."]
    twins = InertDict([("a\n", tensor(1)), ("a\\n", tensor(1))])
    with unreadable("named-twice"):
        tidy(tree_of(twins))


# the layers that a module states


def test_nested_sequences_are_flattened_and_what_follows_them_is_read() -> None:
    relu, flat = (layer("activation.ReLU"), layer("flatten.Flatten", start_dim=1, end_dim=-1))
    inner = sequence(("0", layer("linear.Linear", in_features=3, out_features=2)), ("1", relu))
    found = stated_layers(sequence(("0", flat), ("body", inner), ("2", relu), ("x", 3)))
    assert [(one.name, one.kind) for one in found] == [
        ("0", "Flatten"),
        ("body.0", "Linear"),
        ("body.1", "ReLU"),
        ("2", "ReLU"),
    ]
    assert found[1].numbers == {"in_features": 3, "out_features": 2}
    linear = layer("linear.Linear", in_features=2, out_features=2, _parameters=table(w=tensor(2)))
    assert [one.name for one in tree_of(sequence(("0", linear), ("1", relu))).layers] == ["0", "1"]
    two = stated_layers(sequence(("a", sequence(("b", inner))), ("c", relu)))
    assert [one.name for one in two] == ["a.b.0", "a.b.1", "c"]
    hooked = sequence(("0", relu), _forward_hooks=table(h=1))
    assert [one.kind for one in stated_layers(sequence(("0", hooked), ("1", relu)))] == [
        sequence().callee,
        "ReLU",
    ]
    assert stated_layers(relu) == ()
    bare = InertObject(sequence().callee, ())
    assert [one.name for one in stated_layers(sequence(("0", bare), ("1", relu)))] == ["1"]
    parallel = f"{nn.DataParallel.__module__}.DataParallel"
    wrapped = InertObject(parallel, (), state=table(_modules=table(module=sequence(("0", relu)))))
    assert [one.name for one in stated_layers(wrapped)] == ["module.0"]


def test_a_layer_whose_numbers_make_no_sense_is_named() -> None:
    bad = layer("linear.Linear", in_features=-3, out_features=2)
    pool = layer("pooling.MaxPool2d", kernel_size=2, padding=0, dilation=1, ceil_mode=False)
    (one, other) = stated_layers(sequence(("0", bad), ("1", pool)))
    assert "in_features" in one.kind
    assert one.numbers == {}
    assert other.numbers["stride"] == (2, 2)  # the kernel's, where none is stated


# what is common


def test_names_are_sorted_as_people_count() -> None:
    names = ["w.10", "w.2", "a1b20", "a1b3", "10", "9", "x"]
    assert sorted(names, key=natural) == ["9", "10", "a1b3", "a1b20", "w.2", "w.10", "x"]


def test_a_shape_is_whole_and_bounded() -> None:
    assert is_sound(())
    assert is_sound((0, 5))
    assert is_sound((limits.EXTENT,))
    assert not is_sound((limits.EXTENT + 1,))
    assert not is_sound((0, limits.EXTENT + 1))
    assert not is_sound((1.0,))
    assert not is_sound((True,))
    assert not is_sound((-1,))
    assert is_sound((1,) * 16)
    assert not is_sound((1,) * 17)


def test_every_small_type_is_decoded_as_torch_does() -> None:
    import torch

    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16, torch.float16):
        wide = torch.finfo(dtype).bits == 16
        bits = np.arange(1 << (16 if wide else 8), dtype=np.uint16 if wide else np.uint8)
        wanted = torch.from_numpy(bits.copy()).view(dtype).float().numpy()
        name = str(dtype).removeprefix("torch.")
        given = bits.view(np.float16) if name == "float16" else bits
        np.testing.assert_array_equal(decoded(given, name), wanted)
    assert decoded(np.array([0, 1, 7], np.uint8).view(bool), "bool").tolist() == [False, True, True]


def test_what_a_set_holds_are_its_members() -> None:
    for made, kind in ((frozenset({"a"}), "frozenset"), ({"a"}, "set")):
        thing, _ = read_pickle(pickle.dumps(made, 4), 0, build, storage)
        assert (thing.callee, list(members(thing))) == (kind, [("0", "a")])


def test_what_an_object_is_made_with_is_no_member_of_it() -> None:
    made = b"\x80\x04ca\nThing\n(K\x01t}X\x01\0\0\0kK\x02s\x92."  # a.Thing(1, k=2)
    thing, end = read_pickle(made, 0, build, storage)
    assert (thing.callee, list(members(thing)), end) == ("a.Thing", [], len(made))
    ordered = made.replace(b"ca\nThing\n(K\x01t", b"ccollections\nOrderedDict\n(t")
    assert read_pickle(ordered, 0, build, storage)[0].pairs == []  # those are its own
