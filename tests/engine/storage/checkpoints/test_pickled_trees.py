"""What is made of the tree of a pickle: tensors, containers, words for everything else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dgn_engine.storage.checkpoints import limits
from dgn_engine.storage.checkpoints.pickle_file import GlobalName, InertDict, InertObject, members
from dgn_engine.storage.checkpoints.pickled_tensors import (
    StridedTensor,
    TensorStorage,
    Unsupported,
    build,
    read_leaf,
)
from tests.engine.storage.checkpoints.inert_trees import (
    NUMBERS,
    records,
    table,
    tensor,
    tree_of,
    unreadable,
    why,
)

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
    assert [name for name, _ in members(linear)] == ["training", "weight", "n"]
    assert list(tree_of(model).arrays) == ["fc.weight", "fc.n"]
    # without parameters of its own it is no module, and nothing is taken apart
    other = InertObject("a.Thing", (), state=table(_modules=table(fc=table(w=tensor(1))), x=1))
    assert [name for name, _ in members(other)] == ["_modules", "x"]


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
    assert word in why(read_leaf(given, records))


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
        return build(GlobalName(module, name), (raw, kind, shape, "F" if fortran else "C"))
    call = build(GlobalName(module, name), (GlobalName("numpy", "ndarray"), (0,), b"b"))
    call.set_state((1, shape, kind, fortran, raw))
    return call


def numpy_type(code: Any, order: str = "<") -> InertObject:
    """As numpy pickles it, or a type of another library."""
    kind = build(GlobalName("numpy", "dtype"), (code, False, True))
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
            build(
                GlobalName("numpy._core.multiarray", "_reconstruct"),
                (GlobalName("numpy", "ndarray"), (0,), b"b"),
            ),
            "not all there",
        ),
    ],
)
def test_a_pickled_array_that_is_none_of_numbers_says_what_it_is(call: Any, words: str) -> None:
    assert words in why(read_leaf(call, records))


# calls and references in a pickle

STORE = TensorStorage("0", "float32", 12)
V2, V3 = "_rebuild_tensor_v2", "_rebuild_tensor_v3"


def rebuilt(name: str, *arguments: Any, module: str = "torch._utils") -> Any:
    return build(GlobalName(module, name), arguments)


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
    assert "turns" in why(found)


def test_tensors_without_numbers_are_named() -> None:
    meta = TensorStorage("0", "float32", 12, "meta")
    rest = (0, (1,), (1,), False, InertDict())
    assert why(rebuilt(V2, meta, *rest)) == "a tensor without numbers"
    assert why(rebuilt(V2, "nothing", *rest)) == "a tensor without numbers"
    words = {
        "_rebuild_qtensor": "a quantised tensor",
        "_rebuild_sparse_tensor": "a sparse tensor",
        "_rebuild_nested_tensor": "a nested tensor",
        "_rebuild_meta_tensor_no_storage": "a tensor without numbers",
    }
    for name, word in words.items():
        assert why(rebuilt(name, 1, 2)) == word
    for name, given in ((V2, (STORE,)), (V3, (STORE, 0, (1,), (1,)))):
        with unreadable("not-written"):
            rebuilt(name, *given)
