"""What is made of the tree of a pickle: tensors, containers, words for everything else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dgn_engine.storage.checkpoints import limits
from dgn_engine.storage.checkpoints.call_recorder import CallRecorder
from dgn_engine.storage.checkpoints.pickle_file import (
    GlobalName,
    InertDict,
    InertObject,
    members,
    type_name,
)
from dgn_engine.storage.checkpoints.pickled_tensors import (
    StridedTensor,
    TensorStorage,
    Unsupported,
    build,
    read_leaf,
    storage,
)
from tests.engine.storage.checkpoints.inert_trees import (
    NUMBERS,
    records,
    refusal,
    table,
    tensor,
    tree_of,
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


DEEP = "nests too many things in each other, and was refused"


def nested(depth: int) -> Any:
    tree: Any = table(w=tensor(2))
    for _ in range(depth - 1):
        tree = table(x=tree)
    return tree


def test_what_is_nested_too_deep_too_wide_or_too_long_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "DEPTH", 5)
    assert list(tree_of(nested(5)).arrays) == ["x.x.x.x.w"]
    assert refusal(tree_of, nested(6)) == DEEP
    monkeypatch.undo()
    monkeypatch.setattr(limits, "NAME", 2)
    assert refusal(tree_of, nested(8)) == DEEP  # a path of more than four names
    monkeypatch.undo()
    monkeypatch.setattr(limits, "NODES", 40)
    wide = InertDict([(str(n), 1) for n in range(38)])
    assert tree_of(table(w=tensor(1), n=1)).arrays
    assert refusal(tree_of, table(w=tensor(1), wide=wide)) == DEEP
    short = [InertDict([("k", n)]) for n in range(14)]  # few at a time, many in all
    assert refusal(tree_of, [tensor(1), *short]) == DEEP


def test_more_tensors_or_numbers_than_allowed_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    three = InertDict([(str(n), tensor(4)) for n in range(3)])
    assert len(tree_of(three, 48).arrays) == 3
    assert "more numbers than its size allows" in refusal(tree_of, three, 47)
    monkeypatch.setattr(limits, "MEMBERS", 3)
    assert len(tree_of(three).arrays) == 3
    monkeypatch.setattr(limits, "MEMBERS", 2)
    assert refusal(tree_of, three) == "holds more than 2 tensors"


def test_a_container_that_contains_itself_is_refused_and_one_that_is_shared_is_not() -> None:
    own = table(w=tensor(1))
    own["own"] = own
    assert "contains itself" in refusal(tree_of, own)
    shared = table(n=1)
    assert tree_of(table(a=shared, b=shared, w=tensor(1))).ignored == ("a (dict)", "b (dict)")
    both = table(w=tensor(1))
    assert list(tree_of(table(a=both, b=both)).arrays) == ["a.w", "b.w"]
    assert "cannot be told apart" in refusal(
        tree_of, InertDict([("w", tensor(1)), ("w", tensor(2))])
    )


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


def test_members_of_everything_have_names() -> None:
    thing = InertObject("x", ("a",), items=["b"], pairs=[(1, "c"), (None, "d"), (b"k", "e")])
    thing.state = (table(s=1), ["t"])
    assert list(members(thing)) == [
        ("0", "b"),
        ("1", "c"),
        ("None", "d"),
        ("k", "e"),
        ("s", 1),
        ("0", "t"),
    ]
    assert list(members(("p", "q"))) == [("0", "p"), ("1", "q")]
    assert list(members(3)) == []
    names = [type_name(n) for n in (thing, table(), GlobalName("a", "B"), None, 3, tensor(1))]
    assert names == ["x", "dict", "a.B", "None", "int", "tensor"]
    assert table(a=1).get("b") is None
    assert InertDict([("a", 1), (3, 4)]).get("a") == 1


# one tensor


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


@pytest.mark.parametrize("given", [tensor(13), tensor(2, offset=11), tensor(2, 2, strides=(10, 2))])
def test_a_tensor_that_reaches_behind_its_record_is_refused(given: StridedTensor) -> None:
    assert "more numbers for a tensor than its storage holds" in refusal(read_leaf, given, records)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (tensor(1, strides=(1, 1)), "declares an impossible shape"),
        (tensor(1, offset=-1), "declares an impossible shape"),
        (tensor(-1, strides=(1,)), "declares an impossible shape"),
        (tensor(1, strides=(limits.EXTENT + 1,)), "declares an impossible shape"),
        (tensor(1, strides=[1]), "a tensor without a shape"),
        (tensor(*[1] * 17), "17 dimensions"),
        (tensor(13, strides=(0,)), "repeats its numbers more often than it has any"),
        (StridedTensor(TensorStorage("0", "x", 12), 0, (1,), (1,), "complex64"), "complex64"),
        (
            StridedTensor(TensorStorage("0", "x", 12), 0, (1,), (1,), ""),
            "numbers of an unknown type",
        ),
        (Unsupported("a sparse tensor"), "a sparse tensor"),
    ],
)
def test_a_tensor_that_is_not_read_says_why(given: Any, reason: str) -> None:
    assert why(read_leaf(given, records)) == reason


def array_call(
    shape: Any = (2, 3),
    code: Any = "f4",
    content: Any = None,
    fortran: bool = False,
    order: str = "<",
    callee: str = "numpy._core.multiarray._reconstruct",
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
        "numpy.core.multiarray._reconstruct",
        "numpy._core.multiarray._reconstruct",
        "numpy.core.numeric._frombuffer",
        "numpy._core.numeric._frombuffer",
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
            "an array that is not all there",
        ),
    ],
)
def test_a_pickled_array_that_is_none_of_numbers_says_what_it_is(call: Any, words: str) -> None:
    assert why(read_leaf(call, records)) == words


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((2, 4), "its bytes do not fill"),
        ((1, 3), "its bytes do not fill"),
        ((-2, -3), "impossible shape"),
        ((2.0, 3), "impossible shape"),
    ],
)
def test_a_pickled_array_of_another_shape_than_its_bytes_is_refused(shape: Any, words: str) -> None:
    assert words in refusal(read_leaf, array_call(shape), records)


# calls and references in a pickle

STORE = TensorStorage("0", "float32", 12)
V2, V3 = "_rebuild_tensor_v2", "_rebuild_tensor_v3"


def rebuilt(name: str, *arguments: Any, module: str = "torch._utils") -> Any:
    return build(GlobalName(module, name), arguments)


def test_a_call_that_makes_a_tensor_becomes_one() -> None:
    wanted = StridedTensor(STORE, 1, (2,), (1,), "float32")
    fields = ("storage", "offset", "shape", "strides", "dtype")

    def same(found: Any, dtype: str = "float32") -> bool:
        values = [getattr(found, name) for name in fields]
        return values == [STORE, wanted.offset, wanted.shape, wanted.strides, dtype]

    place = (STORE, 1, (2,), (1,))
    assert same(rebuilt("_rebuild_tensor", *place))
    assert same(rebuilt(V2, *place, False, InertDict()))
    assert same(rebuilt(V2, *place, False, InertDict(), table()))
    made = rebuilt(V2, *place, False, InertDict())
    for name, more in (("_rebuild_parameter", ()), ("_rebuild_parameter_with_state", (None,))):
        assert rebuilt(name, made, True, InertDict(), *more) is made
    whole = (made, GlobalName("torch", "float32"), "xla:0", False)
    assert rebuilt("_rebuild_device_tensor_from_cpu_tensor", *whole) is made
    variable = rebuilt("Parameter", made, module="torch.nn.parameter")
    assert variable is made
    variable.set_state((True, False, InertDict()))  # of torch 0.3
    kind = GlobalName("a", "Mine")
    plain = (*place, False, InertDict())
    for state in (None, table(tag="x"), (None, table(tag="x"))):
        inner = (GlobalName("torch._utils", V2), kind, plain, state)
        assert same(rebuilt("_rebuild_from_type_v2", *inner, module="torch._tensor"))
    changed = (GlobalName("torch._utils", V2), kind, plain, table(data=made))
    assert why(rebuilt("_rebuild_from_type_v2", *changed, module="torch._tensor")) == (
        "a tensor of the class a.Mine"
    )
    unknown = rebuilt(
        "_rebuild_from_type_v2", GlobalName("a", "f"), kind, (1,), {}, module="torch._tensor"
    )
    assert (unknown.callee, unknown.arguments) == ("a.Mine", (1, {}))


def test_a_tensor_of_bytes_has_the_type_that_is_named() -> None:
    place = (TensorStorage("0", "uint8", 12), 1, (2,), (1,), False, InertDict())
    for module, dtype in (("torch", "int16"), ("other", "")):
        assert rebuilt(V3, *place, GlobalName(module, "int16")).dtype == dtype
    words = "torch does not write"
    assert words in refusal(rebuilt, V3, STORE, *place[1:], GlobalName("torch", "int16"))


@pytest.mark.parametrize("name", [V2, V3])
@pytest.mark.parametrize("notes", ["neg", "conj"])
def test_a_view_that_turns_its_numbers_is_not_read(name: str, notes: str) -> None:
    more = (GlobalName("torch", "float32"),) if name == V3 else ()
    store = TensorStorage("0", "uint8", 48) if name == V3 else STORE
    place = (store, 0, (2,), (1,), False, InertDict(), *more)
    found = rebuilt(name, *place, InertDict([(notes, True)]))
    assert why(found) == "a view that turns its numbers"


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
    assert "torch does not write" in refusal(rebuilt, V2, STORE)
    assert "torch does not write" in refusal(rebuilt, V3, STORE, 0, (1,), (1,))


def test_containers_of_a_pickle_are_containers() -> None:
    ordered = rebuilt("OrderedDict", [("a", 1), ["b", 2]], module="collections")
    assert ordered.pairs == [("a", 1), ("b", 2)]
    maker = GlobalName("builtins", "int")
    default = rebuilt("defaultdict", maker, module="collections")
    assert (default.pairs, default.name) == ([], "collections.defaultdict")
    counts = rebuilt("Counter", table(a=1), module="collections")
    assert (counts.pairs, counts.name) == ([("a", 1)], "collections.Counter")
    assert rebuilt("OrderedDict", module="collections").pairs == []
    assert rebuilt("Size", [2, 3], module="torch") == (2, 3)
    assert rebuilt("Size", module="torch") == ()
    odd = rebuilt("Size", 3, module="torch")
    assert (odd.callee, odd.odd, list(members(odd))) == ("torch.Size", True, [])
    assert rebuilt("encode", "aé", "latin1", module="_codecs") == "aé".encode("latin-1")
    assert refusal(lambda: rebuilt("encode", "a", "utf-8", module="_codecs"))
    scalar = rebuilt("scalar", numpy_type("f8"), b"x" * 8, module="numpy.core.multiarray")
    assert (scalar.callee, scalar.arguments, scalar.odd) == ("numpy.float64", (), False)
    made = rebuilt("_reconstructor", GlobalName("a", "B"), 3, [1], module="copyreg")
    assert (made.callee, made.arguments) == ("a.B", ([1],))


def test_names_of_unknown_calls_are_kept_once_and_in_order() -> None:
    calls = CallRecorder()
    for name in ("system", "popen", "system"):
        calls.called(GlobalName("os", name), ())
    calls.called(GlobalName("collections", "OrderedDict"), ())
    calls.called(GlobalName("torch", "Size"), (3,))
    assert calls.would_call == ("os.system", "os.popen")


KIND = GlobalName("torch", "HalfStorage")


def test_a_reference_out_of_a_pickle_is_a_storage() -> None:
    for more, first, length in (((), 0, None), ((None,), 0, None), ((("k", 3, 2),), 3, 2)):
        found = storage(("storage", KIND, "7", "cuda:0", 5, *more))
        values = (found.key, found.dtype, found.where, found.count, found.first, found.length)
        assert values == ("7", "float16", "cuda:0", 5, first, length)
    kind = GlobalName("torch", "Unheard")
    assert storage(("storage", kind, "7", "cpu", 5)).dtype == "torch.Unheard"
    assert storage(("module", KIND, "file", "source")) is KIND


@pytest.mark.parametrize(
    "reference",
    [
        None,
        (),
        "storage",
        ("other", KIND, "7", "cpu", 5),
        ("storage", KIND, "7", "cpu"),
        ("storage", KIND, "7", "cpu", 5, None, None),
        ("module", KIND, "x"),
        ("storage", KIND, "7", "cpu", -1),
        ("storage", KIND, 7, "cpu", 5),
        ("storage", KIND, "7", 0, 5),
        ("storage", KIND, "7", "cpu", 5.0),
        ("storage", "HalfStorage", "7", "cpu", 5),
        ("storage", KIND, "7", "cpu", 5, 3),
        ("storage", KIND, "7", "cpu", 5, ("k", -3, 2)),
        ("storage", KIND, "7", "cpu", 5, ("k", 3)),
        ("storage", KIND, "7", "cpu", 5, ("k", 3.0, 1)),
        ("storage", KIND, "7", "cpu", 5, ("k", 3, 3)),
    ],
)
def test_a_reference_that_is_no_storage_is_refused(reference: Any) -> None:
    assert refusal(storage, reference).startswith("refers out of its pickle to ")
