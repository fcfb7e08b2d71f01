"""What the parsers make of honest and odd files, kind by kind: numbers, words, order, limits."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest
from torch import nn

from dgn_engine.storage.checkpoints import limits
from dgn_engine.storage.checkpoints.contents import decode_numbers, is_sound, natural_key
from dgn_engine.storage.checkpoints.pickle_file import (
    GlobalName,
    InertDict,
    InertObject,
    members_of,
    read_pickle,
)
from dgn_engine.storage.checkpoints.pickled_tensors import (
    StridedTensor,
    TensorStorage,
    Unsupported,
    build_inert,
    declared_storage,
    read_leaf,
)
from dgn_engine.storage.checkpoints.reader_child import tidy_names
from dgn_engine.storage.checkpoints.safetensors_file import read_safetensors
from dgn_engine.storage.checkpoints.stated_layers import stated_layers
from tests.engine.storage.checkpoints.inert_trees import (
    NUMBERS,
    layer,
    reason_not_read,
    records,
    sequence,
    table,
    tensor,
    tree_of,
    unreadable,
)
from tests.faults.answered import read_answer

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


def test_what_is_left_aside_is_cut_after_two_hundred_lines() -> None:
    many = {f"k{n}": n for n in range(203)}
    found = read_answer(pickle.dumps({"w": np.ones(1), **many}, protocol=4))
    assert len(found.ignored) == 201
    assert found.ignored[-2:] == ("k199 (int)", "and 3 more")
    exact = {f"k{n}": n for n in range(200)}
    found = read_answer(pickle.dumps({"w": np.ones(1), **exact}, protocol=4))
    assert found.ignored[-1] == "k199 (int)"


def test_prefixes_come_off_where_all_tensors_have_them() -> None:
    def names(*given: str) -> list[str]:
        tree = InertDict([(name, tensor(1)) for name in given])
        return list(tidy_names(tree_of(tree)).arrays)

    assert names("module.a", "module.b") == ["a", "b"]
    assert names("module.a", "b") == ["module.a", "b"]
    assert names("module._orig_mod.a.w", "module._orig_mod.b") == ["a.w", "b"]
    assert names("module.") == ["module."]
    twins = InertDict([("a\n", tensor(1)), ("a\\n", tensor(1))])
    with unreadable("named-twice"):
        tidy_names(tree_of(twins))


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
    assert sorted(names, key=natural_key) == ["9", "10", "a1b3", "a1b20", "w.2", "w.10", "x"]


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
        found, number = decode_numbers(given, name), ~np.isnan(wanted)
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(np.signbit(found)[number], np.signbit(wanted)[number])  # −0
    assert decode_numbers(np.array([0, 1, 7], np.uint8).view(bool), "bool").tolist() == [
        False,
        True,
        True,
    ]


def test_what_a_set_holds_are_its_members() -> None:
    for made, kind in ((frozenset({"a"}), "frozenset"), ({"a"}, "set")):
        thing, _ = read_pickle(pickle.dumps(made, 4), 0, build_inert, declared_storage)
        assert (thing.callee, list(members_of(thing))) == (kind, [("0", "a")])


def test_what_an_object_is_made_with_is_no_member_of_it() -> None:
    made = b"\x80\x04ca\nThing\n(K\x01t}X\x01\0\0\0kK\x02s\x92."  # a.Thing(1, k=2)
    thing, end = read_pickle(made, 0, build_inert, declared_storage)
    assert (thing.callee, list(members_of(thing)), end) == ("a.Thing", [], len(made))
    ordered = made.replace(b"ca\nThing\n(K\x01t", b"ccollections\nOrderedDict\n(t")
    assert (
        read_pickle(ordered, 0, build_inert, declared_storage)[0].pairs == []
    )  # those are its own


# What is made of the tree of a pickle: tensors, containers, words for everything else.

# the tree of a pickle


def test_tensors_have_the_names_of_their_paths_and_the_rest_is_named() -> None:
    tree = table(
        a=table(w=tensor(2, 2), note="x"),
        epoch=3,
        deep=[tensor(3), [tensor(1, offset=5)], table(n=None)],
        nothing=table(x=1, y=table(z=2)),
        call=InertObject("a.Thing", ()),
    )
    found = tree_of(tree)
    assert {name: array.tolist() for name, array in found.arrays.items()} == {
        "a.w": [[0, 1], [2, 3]],
        "deep.0": [0, 1, 2],
        "deep.1.0": [5],
    }
    assert found.ignored == (
        "a.note (str)",
        "epoch (int)",
        "deep.2 (dict)",
        "nothing (dict)",
        "call (a.Thing)",
    )
    assert found.kind == "made up"
    assert set(found.dtypes.values()) == {"float32"}


def test_a_tensor_alone_is_called_so() -> None:
    assert list(tree_of(tensor(2)).arrays) == ["tensor"]


@pytest.mark.parametrize(
    "name",
    [
        "state_dict",
        "model_state_dict",
        "model_state",
        "model",
        "net",
        "network",
        "weights",
        "params",
        "module",
    ],
)
def test_a_wrapping_comes_off_and_what_was_beside_it_is_named(name: str) -> None:
    found = tree_of(InertDict([("epoch", 3), (name, table(w=tensor(2))), ("other", tensor(1))]))
    assert list(found.arrays) == ["w"]
    assert found.ignored == ("epoch (int)", "other (tensor)")
    twice = tree_of(InertDict([("x", 1), ("model", InertDict([(name, table(w=tensor(2)))]))]))
    assert (list(twice.arrays), twice.ignored) == (["w"], ("x (int)",))


def test_a_wrapping_without_tensors_is_none() -> None:
    found = tree_of(table(model=table(x=1), w=tensor(2)))
    assert (list(found.arrays), found.ignored) == (["w"], ("model (dict)",))


def test_what_an_object_holds_besides_tensors_is_summed_up_by_its_class() -> None:
    thing = InertObject("a.Thing", (), state=table(w=tensor(2), n=1, m=table(k="x")))
    found = tree_of(table(thing=thing, n=2))
    assert (list(found.arrays), found.ignored) == (["thing.w"], ("thing (a.Thing)", "n (int)"))


def test_tensors_that_cannot_be_read_are_named_before_what_is_none() -> None:
    found = tree_of(table(n=1, s=Unsupported("a sparse tensor"), w=tensor(2)))
    assert (list(found.arrays), found.ignored) == (["w"], ("s (a sparse tensor)", "n (int)"))


def nested(depth: int) -> Any:
    tree: Any = table(w=tensor(2))
    for _ in range(depth - 1):
        tree = table(x=tree)
    return tree


def test_a_container_that_contains_itself_is_refused_and_one_that_is_shared_is_not() -> None:
    own = table(w=tensor(1))
    own["own"] = own
    with unreadable("cycle"):
        tree_of(own)
    shared = table(n=1)
    assert tree_of(table(a=shared, b=shared, w=tensor(1))).ignored == ("a (dict)", "b (dict)")
    both = table(w=tensor(1))
    assert list(tree_of(table(a=both, b=both)).arrays) == ["a.w", "b.w"]
    with unreadable("named-twice"):
        tree_of(InertDict([("w", tensor(1)), ("w", tensor(2))]))


def test_the_parts_of_a_saved_module_have_the_names_of_its_state_dict() -> None:
    linear = InertObject(
        "torch.nn.Linear",
        (),
        state=table(
            training=True, _parameters=table(weight=tensor(2)), _buffers=table(n=tensor(1))
        ),
    )
    model = InertObject(
        "a.Net", (), state=table(_parameters=table(), _modules=table(fc=linear), _buffers=3)
    )
    assert [name for name, _ in members_of(linear)] == ["training", "weight", "n"]
    assert list(tree_of(model).arrays) == ["fc.weight", "fc.n"]
    # without parameters of its own it is no module, and nothing is taken apart
    other = InertObject("a.Thing", (), state=table(_modules=table(fc=table(w=tensor(1))), x=1))
    assert [name for name, _ in members_of(other)] == ["_modules", "x"]


# one tensor

ARRAYS = "numpy._core.multiarray"


def test_a_view_is_read_from_its_first_number_by_its_strides() -> None:
    array, dtype = read_leaf(tensor(3, 2, offset=1, strides=(1, 4)), records)  # type: ignore[misc]
    assert (array.tolist(), dtype) == ([[1, 5], [2, 6], [3, 7]], "float32")
    array, _ = read_leaf(tensor(2, first=4, offset=1), records)  # type: ignore[misc]
    assert array.tolist() == [5, 6]
    array, _ = read_leaf(tensor(2, first=2, stored="float64"), records)  # type: ignore[misc]
    assert array.tolist() == [4, 5]  # the record counts doubles
    array, _ = read_leaf(tensor(12), records)  # type: ignore[misc]
    assert array.tolist() == list(range(12))
    array, _ = read_leaf(tensor(0, 3), records)  # type: ignore[misc]
    assert array.shape == (0, 3)
    array, _ = read_leaf(tensor(2, 3, strides=(0, 1)), records)  # type: ignore[misc]
    assert array.tolist() == [[0, 1, 2]] * 2
    big = lambda _: (memoryview(NUMBERS.astype(">f4").tobytes()), ">")  # noqa: E731
    array, _ = read_leaf(tensor(2, offset=1), big)  # type: ignore[misc]
    assert array.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("given", "word"),
    [
        *((tensor(1, strides=(1, 1)), "shape"), (tensor(1, offset=-1), "shape")),
        *((tensor(-1, strides=(1,)), "shape"), (tensor(1, strides=[1]), "shape")),
        (tensor(1, strides=(limits.EXTENT + 1,)), "shape"),
        (tensor(*[1] * 17), "17 dimensions"),
        (tensor(13, strides=(0,)), "repeats"),
        (StridedTensor(TensorStorage("0", "x", 12), 0, (1,), (1,), "complex64"), "complex64"),
        (StridedTensor(TensorStorage("0", "x", 12), 0, (1,), (1,), ""), "type"),
        (Unsupported("a sparse tensor"), "a sparse tensor"),
    ],
)
def test_a_tensor_that_is_not_read_says_why(given: Any, word: str) -> None:
    assert word in reason_not_read(read_leaf(given, records))


def array_call(
    shape: Any = (2, 3),
    code: Any = "f4",
    content: Any = None,
    fortran: bool = False,
    order: str = "<",
    callee: str = f"{ARRAYS}._reconstruct",
) -> Any:
    raw = NUMBERS[:6].astype(f"{order}f4").tobytes() if content is None else content
    module, _, name = callee.rpartition(".")
    kind = numpy_type(code, order)
    if "frombuffer" in callee:
        return build_inert(GlobalName(module, name), (raw, kind, shape, "F" if fortran else "C"))
    call = build_inert(GlobalName(module, name), (GlobalName("numpy", "ndarray"), (0,), b"b"))
    call.set_state((1, shape, kind, fortran, raw))
    return call


def numpy_type(code: Any, order: str = "<") -> InertObject:
    """As numpy pickles it, or a type of another library."""
    kind = build_inert(GlobalName("numpy", "dtype"), (code, False, True))
    odd = not isinstance(code, str)
    kind.set_state(() if odd else np.dtype(f"{order}{code}").__reduce__()[2])
    return kind


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("fortran", [False, True])
@pytest.mark.parametrize(
    "callee",
    [
        f"numpy.{core}.{maker}"
        for core in ("core", "_core")
        for maker in ("multiarray._reconstruct", "numeric._frombuffer")
    ],
)
def test_a_pickled_array_is_read_in_its_order(callee: str, fortran: bool, order: str) -> None:
    found = read_leaf(array_call(fortran=fortran, order=order, callee=callee), records)
    assert not isinstance(found, Unsupported)
    wanted = NUMBERS[:6].reshape(2, 3, order="F" if fortran else "C")
    assert (found[0].tolist(), found[1]) == (wanted.tolist(), "float32")
    text = array_call(content=NUMBERS[:6].tobytes().decode("latin-1"))  # of Python 2
    old = read_leaf(text, records)
    assert not isinstance(old, Unsupported)
    assert old[0].tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (array_call(code="O8"), "an array of O8"),
        (array_call(code="c8"), "an array of c8"),
        (array_call(code="U3"), "an array of U3"),
        (array_call(code=GlobalName("ml_dtypes", "bfloat16")), "an array of objects"),
        (array_call(content=[1, 2]), "an array of f4"),
        (
            build_inert(
                GlobalName("numpy._core.multiarray", "_reconstruct"),
                (GlobalName("numpy", "ndarray"), (0,), b"b"),
            ),
            "incomplete",
        ),
    ],
)
def test_a_pickled_array_that_is_none_of_numbers_says_what_it_is(call: Any, words: str) -> None:
    assert words in reason_not_read(read_leaf(call, records))


# calls and references in a pickle

STORE = TensorStorage("0", "float32", 12)
V2, V3 = "_rebuild_tensor_v2", "_rebuild_tensor_v3"


def rebuilt(name: str, *arguments: Any, module: str = "torch._utils") -> Any:
    return build_inert(GlobalName(module, name), arguments)


def test_a_tensor_of_bytes_has_the_type_that_is_named() -> None:
    place = (TensorStorage("0", "uint8", 12), 1, (2,), (1,), False, InertDict())
    for module, dtype in (("torch", "int16"), ("other", "")):
        assert rebuilt(V3, *place, GlobalName(module, "int16")).dtype == dtype
    with unreadable("not-written"):
        rebuilt(V3, STORE, *place[1:], GlobalName("torch", "int16"))


@pytest.mark.parametrize("name", [V2, V3])
@pytest.mark.parametrize("notes", ["neg", "conj"])
def test_a_view_that_turns_its_numbers_is_not_read(name: str, notes: str) -> None:
    more = (GlobalName("torch", "float32"),) if name == V3 else ()
    store = TensorStorage("0", "uint8", 48) if name == V3 else STORE
    place = (store, 0, (2,), (1,), False, InertDict(), *more)
    found = rebuilt(name, *place, InertDict([(notes, True)]))
    assert "conjugated or negated" in reason_not_read(found)


def test_tensors_without_numbers_are_named() -> None:
    meta = TensorStorage("0", "float32", 12, "meta")
    rest = (0, (1,), (1,), False, InertDict())
    assert reason_not_read(rebuilt(V2, meta, *rest)) == "a tensor without data"
    assert reason_not_read(rebuilt(V2, "nothing", *rest)) == "a tensor without data"
    words = {
        "_rebuild_qtensor": "a quantised tensor",
        "_rebuild_sparse_tensor": "a sparse tensor",
        "_rebuild_nested_tensor": "a nested tensor",
        "_rebuild_meta_tensor_no_storage": "a tensor without data",
    }
    for name, word in words.items():
        assert reason_not_read(rebuilt(name, 1, 2)) == word
    for name, given in ((V2, (STORE,)), (V3, (STORE, 0, (1,), (1,)))):
        with unreadable("not-written"):
            rebuilt(name, *given)
