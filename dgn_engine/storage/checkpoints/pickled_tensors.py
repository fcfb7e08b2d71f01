"""Rebuilds tensors and arrays from the calls in a pickle that describe them; calls nothing.

Open it when a new torch or numpy pickles its tensors by another function. The names and arguments
are those of `torch/_utils.py`, `torch/_tensor.py` and `torch/serialization.py` of torch 0.4 to
2.13, and of numpy 1 and 2. Only the arguments that they write themselves are taken, for what else
would be read has rules of its own. A tensor becomes a view on the bytes of its record, once every
number of it is known to lie inside.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import NoneType
from typing import Any, ClassVar, cast

import numpy as np
from numpy.lib.stride_tricks import as_strided

from dgn_engine.storage.checkpoints import limits
from dgn_engine.storage.checkpoints.contents import LAYOUT, Array, UnreadableFile, is_sound, width
from dgn_engine.storage.checkpoints.pickle_file import (
    GlobalName,
    InertDict,
    InertObject,
    is_container,
)
from dgn_engine.text.printable import plain


@dataclass(frozen=True, eq=False, slots=True)
class TensorStorage:
    """Where the numbers of tensors are: a record of the file, or a file inside the pickle.

    `first`: the number at which a view on the record begins, `length`: how many it has. `inner`:
    the numbers themselves, as plain pickles have them, in this `order`.
    """

    type_name: ClassVar[str] = "storage"
    key: str
    dtype: str
    count: int
    where: str = "cpu"
    first: int = 0
    length: int | None = None
    inner: memoryview | None = None
    order: str = "<"


class _Tensor:
    """What a pickle can do with a tensor: give it the state of a variable of torch 0.3."""

    __slots__ = ()

    def set_state(self, state: Any) -> None:
        """Pass over (requires_grad, volatile, hooks); torch takes any other for other numbers."""
        match state:
            case (bool(), bool() | None, hooks) if _are_hooks(hooks):
                return
        raise UnreadableFile("gives a tensor a state, which torch does not write")


@dataclass(frozen=True, eq=False, slots=True)
class StridedTensor(_Tensor):
    """A dense tensor as the file describes it; not checked yet."""

    type_name: ClassVar[str] = "tensor"
    storage: TensorStorage
    offset: Any
    shape: Any
    strides: Any
    dtype: str


@dataclass(frozen=True, eq=False, slots=True)
class Unsupported(_Tensor):
    """A tensor that is not dense numbers, and why."""

    type_name: ClassVar[str] = "tensor"
    reason: str


class PickledType(InertObject):
    """A `numpy.dtype`; `dtype` is None where its numbers are of a type that is not read."""

    __slots__ = ("dtype",)

    def __init__(self, arguments: Any) -> None:
        super().__init__("numpy.dtype", arguments)
        self.dtype: np.dtype[Any] | None = None

    def set_state(self, state: Any) -> None:
        """Take the state that numpy writes for this type, and no other: its last number says
        whether the bytes are addresses of objects."""
        InertObject.set_state(self, state)
        code, *rest = self.arguments
        if isinstance(code, GlobalName) and not code.module.startswith(("numpy", "builtins")):
            return  # a type of another library, such as bfloat16
        made = _type_as_written(code, state) if rest in ([False, True], [0, 1]) else None
        if made is None:
            raise UnreadableFile("describes a type of numbers in a way that numpy does not write")
        self.dtype = made


class PickledArray(InertObject):
    """An array of numpy, whose shape, type and numbers are its state or its arguments."""

    __slots__ = ()

    def set_state(self, state: Any) -> None:
        """Take what numpy writes: (1, shape, type, whether in Fortran's order, bytes)."""
        match state:
            case (int(version), tuple(), PickledType(state=tuple()), bool(), _) if version == 1:
                if self.callee in _RECONSTRUCT:
                    InertObject.set_state(self, state)
                    return
        raise UnreadableFile("describes an array in a way that numpy does not write")


class PickledQueue(InertObject):
    """A deque, which forgets what it has no room for."""

    __slots__ = ()

    def check_filling(self) -> None:
        InertObject.check_filling(self)
        if self.pairs or len(self.items) in self.arguments[1:]:
            raise UnreadableFile("puts more into a deque than it holds, which no program saves")

    def extend(self, items: list[Any]) -> None:
        for item in items:
            self.append(item)


Leaf = StridedTensor | Unsupported | PickledArray
# The bytes of a storage, and their order: '<' or '>'.
Records = Callable[[TensorStorage], tuple[memoryview, str]]

_RECONSTRUCT = tuple(f"numpy.{core}.multiarray._reconstruct" for core in ("core", "_core"))
_FROM_BUFFER = tuple(f"numpy.{core}.numeric._frombuffer" for core in ("core", "_core"))
_NAMES = {layout[1:]: name for name, layout in LAYOUT.items() if name not in ("bfloat16",)} | {
    "u1": "uint8",
    "u2": "uint16",
}
# What torch reads through methods of a tensor, or sets in it.
_OF_TENSORS = frozenset(
    (
        *("data", "real", "imag", "grad", "_grad", "grad_fn", "_grad_fn", "grad_dtype", "names"),
        *("requires_grad", "volatile", "retains_grad", "_backward_hooks", "_base", "_cdata"),
        *("_post_accumulate_grad_hooks", "_python_dispatch", "shape", "dtype", "device", "layout"),
    )
)
_TENSOR_CLASSES = (
    "torch.Tensor",
    "torch._tensor.Tensor",
    "torch.nn.parameter.Parameter",
    "torch.nn.parameter.Buffer",
)
_CODE = 16  # characters of the code of a type
_FIELDS = 200  # of a record
_ATTRIBUTES = 200  # of a tensor
_NOT_WRITTEN = "describes a tensor in a way that torch does not write"


_STORAGES = {
    "FloatStorage": "float32",
    "DoubleStorage": "float64",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "UntypedStorage": "uint8",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
    "QInt8Storage": "qint8",
    "QUInt8Storage": "quint8",
    "QInt32Storage": "qint32",
}


def build(name: GlobalName, arguments: tuple[Any, ...]) -> Any:
    """What stands for the result of a call: unchecked tensor, container or `InertObject`."""
    text = str(name)
    builder = _BUILDERS.get(text)
    if builder is None:
        if text.startswith(_MAKES_TENSORS):
            return Unsupported("a tensor of a kind that is not read")
        return InertObject.of(name, arguments)
    try:
        return builder(arguments)
    except (IndexError, ValueError, TypeError):
        raise UnreadableFile(_NOT_WRITTEN) from None


def storage(reference: Any) -> Any:
    """The storage that a reference out of the pickle names; raises `UnreadableFile`."""
    if not isinstance(reference, tuple) or not reference:
        raise UnreadableFile("refers out of its pickle to something that is no storage")
    if reference[0] == "module" and len(reference) == 4:  # before 1.6: a class with its source code
        return reference[1]
    if reference[0] != "storage" or len(reference) not in (5, 6):
        raise UnreadableFile("refers out of its pickle to something that is no storage")
    _, kind, key, where, count, *view = reference
    sound = type(count) is int and count >= 0 and type(key) is str and type(where) is str
    if not sound or not isinstance(kind, GlobalName):
        raise UnreadableFile("refers out of its pickle to a storage that makes no sense")
    first: Any = 0
    length: Any = None
    if view and view[0] is not None:  # (key of the view, its first number, its length)
        _, first, length = (
            view[0] if isinstance(view[0], tuple) and len(view[0]) == 3 else (None,) * 3
        )
        if any(type(n) is not int or n < 0 for n in (first, length)) or first + length > count:
            raise UnreadableFile("refers out of its pickle to a storage that makes no sense")
    dtype = _STORAGES.get(kind.name, kind.name)
    return TensorStorage(key, dtype, count, where, first, length)


def _tensor_1(arguments: tuple[Any, ...]) -> StridedTensor | Unsupported:
    store, offset, shape, strides = arguments
    return _strided(store, offset, shape, strides, getattr(store, "dtype", ""))


def _tensor_2(arguments: tuple[Any, ...]) -> StridedTensor | Unsupported:
    store, offset, shape, strides, trained, hooks, *notes = arguments
    _check_notes(trained, hooks, *notes)
    return _strided(store, offset, shape, strides, getattr(store, "dtype", ""), *notes)


def _tensor_3(arguments: tuple[Any, ...]) -> StridedTensor | Unsupported:
    """A tensor of a type that no class of storages has: its storage is one of bytes."""
    store, offset, shape, strides, trained, hooks, dtype, *notes = arguments
    _check_notes(trained, hooks, *notes)
    if isinstance(store, TensorStorage) and store.dtype != "uint8":
        raise ValueError
    return _strided(store, offset, shape, strides, _type_of_torch(dtype), *notes)


def _check_notes(trained: Any, hooks: Any, notes: Any = None) -> None:
    """Raise `ValueError` unless a tensor requires a gradient or not, and its notes are a plain
    dictionary: torch turns the numbers wherever a note has a name, whatever its value."""
    if type(trained) is not bool or not _are_hooks(hooks):
        raise ValueError
    sound = notes is None or (isinstance(notes, InertDict) and notes.name == "dict")
    if not sound or any(key not in ("neg", "conj") or on is not True for key, on in _pairs(notes)):
        raise ValueError


def _pairs(table: Any) -> list[tuple[Any, Any]]:
    return table.pairs if isinstance(table, InertDict) else []


def _are_hooks(hooks: Any) -> bool:
    """Whether they are those that a tensor is saved with: none."""
    return hooks is None or (isinstance(hooks, InertDict) and not hooks.pairs)


def _type_of_torch(dtype: Any) -> str:
    return dtype.name if isinstance(dtype, GlobalName) and dtype.module == "torch" else ""


def _strided(
    store: Any, offset: Any, shape: Any, strides: Any, dtype: str, notes: Any = None
) -> StridedTensor | Unsupported:
    if not isinstance(store, TensorStorage) or store.where == "meta":
        return Unsupported("a tensor without numbers")
    if _pairs(notes):
        return Unsupported("a view that turns its numbers")
    return StridedTensor(store, offset, shape, strides, dtype)


def _parameter(arguments: tuple[Any, ...]) -> Any:
    """The tensor of a parameter, with attributes where it has some."""
    tensor, trained, hooks, *attributes = arguments
    _check_notes(trained, hooks)
    if len(attributes) > 1 or any(_changes_numbers(state) for state in attributes):
        raise ValueError
    return _checked(tensor)


def _variable(arguments: tuple[Any, ...]) -> Any:
    """The tensor of a parameter of torch 0.3; its state follows."""
    tensor, *trained = arguments
    if trained not in ([], [True], [False]):
        raise ValueError
    return _checked(tensor)


def _checked(tensor: Any) -> Any:
    if not isinstance(tensor, _Tensor):
        raise TypeError
    return tensor


def _of_device(arguments: tuple[Any, ...]) -> Any:
    """The tensor or array that stands for one on another device, and has its type."""
    inner, dtype, where, trained = arguments
    _check_notes(trained, None)
    if isinstance(inner, PickledArray):
        own = _array_name(inner)
    else:
        own = getattr(_checked(inner), "dtype", "")
    if type(where) is not str or not own or own != _type_of_torch(dtype):
        return Unsupported("a tensor that is turned into another type")
    return inner


def _changes_numbers(state: Any) -> bool:
    """Whether attributes that torch sets in a tensor are more than names of someone's choice."""
    parts = state if isinstance(state, tuple) and len(state) == 2 else (state,)
    return any(
        (part is not None and not isinstance(part, InertDict))
        or len(_pairs(part)) > _ATTRIBUTES
        or any(type(k) is not str or k in _OF_TENSORS or k[:2] == "__" for k, _ in _pairs(part))
        for part in parts
    )


def _subclass(arguments: tuple[Any, ...]) -> Any:
    """A tensor of a subclass, as (function, type, arguments, state): the plain tensor inside."""
    function, kind, inner, state = arguments
    if not isinstance(kind, GlobalName) or not isinstance(inner, tuple):
        raise TypeError
    if not isinstance(function, GlobalName) or not str(function).startswith(_MAKES_TENSORS):
        return InertObject(str(kind), (*inner, state))
    changed = _changes_numbers(state)
    if str(kind) in _TENSOR_CLASSES and changed:
        raise ValueError
    tensor = build(function, inner)
    if changed or (kind.module.startswith("torch.") and str(kind) not in _TENSOR_CLASSES):
        return Unsupported(f"a tensor of the class {plain(str(kind), 80)}")
    return _checked(tensor)


def _unsupported(reason: str) -> Callable[[tuple[Any, ...]], Unsupported]:
    return lambda _arguments: Unsupported(reason)


def _dictionary(name: str) -> Callable[[tuple[Any, ...]], InertDict]:
    """A maker of a dictionary; Python 2 passed its pairs to the call."""

    def make(arguments: tuple[Any, ...]) -> InertDict:
        (given,) = arguments or ((),)
        if isinstance(given, InertDict):
            given = given.pairs
        elif name == "collections.Counter" and given != ():  # it would count them
            raise TypeError
        if not isinstance(given, (list, tuple)):
            raise TypeError
        return InertDict(name=name).fill((key, value) for key, value in given)

    return make


def _defaulting(arguments: tuple[Any, ...]) -> InertDict:
    """A dictionary with what makes its other values; it is given no pairs."""
    (maker,) = arguments or (None,)
    if not isinstance(maker, (GlobalName, InertObject, NoneType)):
        raise TypeError
    return InertDict(name="collections.defaultdict")


def _queue(arguments: tuple[Any, ...]) -> PickledQueue:
    (given, most) = (*arguments, None)[:2] if arguments else ((), None)
    if len(arguments) > 2 or not isinstance(given, (list, tuple)):
        raise TypeError
    if most is not None and (type(most) is not int or not len(given) <= most):
        raise ValueError
    return PickledQueue("collections.deque", ((), most), items=list(given))


def _list(arguments: tuple[Any, ...]) -> list[Any]:
    (given,) = arguments or ((),)
    if not isinstance(given, (list, tuple)):
        raise TypeError
    return list(given)


def _namespace(name: str) -> Callable[[tuple[Any, ...]], InertObject]:
    def make(arguments: tuple[Any, ...]) -> InertObject:
        if arguments:
            raise ValueError
        return InertObject(name, ())

    return make


def latin_bytes(arguments: tuple[Any, ...]) -> bytes:
    """Return bytes that protocols before 3 pickle as (text, 'latin1'); raises `ValueError`."""
    text, coding = arguments
    if coding not in ("latin1", "latin-1"):
        raise ValueError
    return bytes(text.encode("latin-1"))


def _sequence(arguments: tuple[Any, ...]) -> Any:
    (items,) = arguments if arguments else ((),)
    return tuple(items) if isinstance(items, (list, tuple)) else InertObject("tuple", arguments)


def _reconstructed(arguments: tuple[Any, ...]) -> InertObject:
    """An object of some class by way of copyreg; its state follows."""
    kind, *inner = arguments
    inner = [thing for thing in inner if is_container(thing)]
    text = str(kind) if isinstance(kind, GlobalName) else "object"
    if inner and text.startswith(("collections.", "builtins.", "torch.", "numpy.")):
        raise ValueError
    return InertObject(text, tuple(inner))


def numpy_type(arguments: tuple[Any, ...]) -> PickledType:
    """Return what stands for a `numpy.dtype`; its state follows."""
    return PickledType(arguments)


def _empty_array(arguments: tuple[Any, ...]) -> PickledArray:
    """An array that has no numbers yet; its state follows."""
    kind, shape, code = arguments
    if not isinstance(kind, GlobalName) or shape != (0,) or code not in (b"b", "b"):
        raise ValueError
    return PickledArray(_RECONSTRUCT[0], arguments)


def _whole_array(arguments: tuple[Any, ...]) -> PickledArray:
    _, dtype, shape, order = arguments
    sound = isinstance(dtype, PickledType) and isinstance(dtype.state, tuple)
    if not sound or type(shape) is not tuple or order not in ("C", "F"):
        raise UnreadableFile("describes an array in a way that numpy does not write")
    return PickledArray(_FROM_BUFFER[0], arguments)


def _numpy_scalar(arguments: tuple[Any, ...]) -> InertObject:
    """One number of numpy, by the name of its type."""
    dtype = arguments[0].dtype if isinstance(arguments[0], PickledType) else None
    return InertObject(f"numpy.{dtype.type.__name__ if dtype is not None else 'scalar'}", ())


# Whatever makes a tensor, and is no maker of those below, makes one that is not read.
_MAKES_TENSORS = (
    *("torch._utils._rebuild", "torch._tensor._rebuild", "torch.nn.parameter.", "torch.Tensor"),
    *("torch._tensor.Tensor", "torch.FloatTensor", "torch.DoubleTensor", "torch.HalfTensor"),
    *("torch.BFloat16Tensor", "torch.LongTensor", "torch.IntTensor", "torch.ShortTensor"),
    *("torch.CharTensor", "torch.ByteTensor", "torch.BoolTensor"),
)
_BUILDERS: dict[str, Callable[[tuple[Any, ...]], Any]] = {
    "torch._utils._rebuild_tensor": _tensor_1,
    "torch._utils._rebuild_tensor_v2": _tensor_2,
    "torch._utils._rebuild_tensor_v3": _tensor_3,
    "torch._utils._rebuild_parameter": _parameter,
    "torch._utils._rebuild_parameter_with_state": _parameter,
    "torch._utils._rebuild_device_tensor_from_numpy": _of_device,
    "torch._utils._rebuild_device_tensor_from_cpu_tensor": _of_device,
    "torch._utils._rebuild_xla_tensor": _of_device,
    "torch._tensor._rebuild_from_type": _subclass,
    "torch._tensor._rebuild_from_type_v2": _subclass,
    "torch.nn.parameter.Parameter": _variable,
    "torch._utils._rebuild_qtensor": _unsupported("a quantised tensor"),
    "torch._utils._rebuild_sparse_tensor": _unsupported("a sparse tensor"),
    "torch._utils._rebuild_sparse_csr_tensor": _unsupported("a sparse tensor"),
    "torch._utils._rebuild_nested_tensor": _unsupported("a nested tensor"),
    "torch._utils._rebuild_meta_tensor_no_storage": _unsupported("a tensor without numbers"),
    "torch._utils._rebuild_wrapper_subclass": _unsupported("a tensor without numbers"),
    "torch.Size": _sequence,
    "collections.OrderedDict": _dictionary("collections.OrderedDict"),
    "collections.Counter": _dictionary("collections.Counter"),
    "collections.defaultdict": _defaulting,
    "collections.deque": _queue,
    "builtins.dict": _dictionary("dict"),
    "builtins.list": _list,
    "types.SimpleNamespace": _namespace("types.SimpleNamespace"),
    "argparse.Namespace": _namespace("argparse.Namespace"),
    "_codecs.encode": latin_bytes,
    "copyreg._reconstructor": _reconstructed,
    "numpy.dtype": numpy_type,
    **dict.fromkeys(_RECONSTRUCT, _empty_array),
    **dict.fromkeys(_FROM_BUFFER, _whole_array),
    "numpy.core.multiarray.scalar": _numpy_scalar,
    "numpy._core.multiarray.scalar": _numpy_scalar,
}


def read_leaf(leaf: Leaf, records: Records) -> tuple[Array, str] | Unsupported:
    """The array with the name of its type; raises `UnreadableFile` where it cannot be there."""
    if isinstance(leaf, Unsupported):
        return leaf
    if isinstance(leaf, PickledArray):
        return _numpy_array(leaf)
    if reason := _unsupported_reason(leaf):
        return Unsupported(reason)
    array = _array(leaf, records)
    return array if isinstance(array, Unsupported) else (array, leaf.dtype)


def _unsupported_reason(tensor: StridedTensor) -> str:
    """Why a tensor is not read; empty where its record may be opened."""
    shape, strides = tensor.shape, tensor.strides
    if not isinstance(shape, tuple) or not isinstance(strides, tuple):
        return "a tensor without a shape"
    if len(shape) > limits.DIMENSIONS:
        return f"{len(shape)} dimensions"
    places = (tensor.offset, *strides)
    whole = all(type(n) is int and 0 <= n <= limits.EXTENT for n in places)
    if not is_sound(shape) or not whole or len(strides) != len(shape):
        return "declares an impossible shape"
    if tensor.dtype not in LAYOUT:
        return plain(tensor.dtype, 40) or "numbers of an unknown type"
    return ""


def _array(tensor: StridedTensor, records: Records) -> Array | Unsupported:
    """A view on the record, once all its numbers are known to lie inside.

    Stride 0 repeats one number without end, so the record must have as many as the tensor.
    """
    content, order = records(tensor.storage)
    layout = np.dtype(order + LAYOUT[tensor.dtype][1:])
    size = layout.itemsize
    side = width(tensor.storage.dtype)
    content = content[tensor.storage.first * side :]
    if tensor.storage.length is not None:
        content = content[: tensor.storage.length * side]
    first = tensor.offset
    held = len(content) // size
    count = math.prod(tensor.shape)
    if count == 0:
        return np.zeros(tensor.shape, layout)
    reach = sum((side - 1) * s for side, s in zip(tensor.shape, tensor.strides, strict=True))
    if first + reach >= held:
        raise UnreadableFile("declares more numbers for a tensor than its storage holds")
    if count > held:
        return Unsupported("repeats its numbers more often than it has any")
    flat = np.frombuffer(content, layout, count=reach + 1, offset=first * size)
    return as_strided(flat, tensor.shape, [s * size for s in tensor.strides], writeable=False)


def is_array(node: Any) -> bool:
    return isinstance(node, PickledArray)


def _numpy_array(array: PickledArray) -> tuple[Array, str] | Unsupported:
    if array.callee in _RECONSTRUCT:
        if array.state is None:
            return Unsupported("an array that is not all there")
        kind = array.arguments[0]
        if str(kind) != "numpy.ndarray":
            return Unsupported(f"an array of the class {plain(str(kind), 80)}")
        _, shape, dtype, fortran, content = array.state
    else:
        content, dtype, shape, order = array.arguments
        fortran = order == "F"
    if isinstance(content, str):  # Python 2: bytes as text
        content = content.encode("latin-1", "replace")
    name = _array_name(array)
    if not name or not isinstance(content, bytes):
        code = dtype.arguments[0]
        return Unsupported(f"an array of {plain(code, 40) if type(code) is str else 'objects'}")
    if not is_sound(shape):
        raise UnreadableFile("holds an array of an impossible shape")
    if math.prod(shape) * dtype.dtype.itemsize != len(content):
        raise UnreadableFile("declares a shape for an array that its bytes do not fill")
    return np.frombuffer(content, dtype.dtype).reshape(shape, order="F" if fortran else "C"), name


def _array_name(array: PickledArray) -> str:
    """The name of the type of an array's numbers; '' where they are not read."""
    given = array.state[2] if array.callee in _RECONSTRUCT and array.state else array.arguments[1]
    dtype = given.dtype if isinstance(given, PickledType) else None
    return "" if dtype is None else _NAMES.get(dtype.str[1:], "")


def _type_as_written(code: Any, state: Any) -> np.dtype[Any] | None:
    """The type of numpy of which these are the code and the state in a pickle; None if of none."""
    if type(code) is not str or len(code) > _CODE or not isinstance(state, tuple) or len(state) < 8:
        return None
    _, order, _, names, fields = state[:5]
    if order not in ("<", ">", "|") or code[:1] not in tuple("biufcSUOVMm"):
        return None
    try:
        made = [np.dtype(code if order == "|" else order + code)]
        if names is not None:
            if len(names) > _FIELDS or len(fields.pairs) > _FIELDS:  # they may be shared
                return None
            made = [_with_fields(names, fields, state[5], aligned) for aligned in (False, True)]
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    wanted = _comparable(state)
    for dtype in made:
        _, (own, *_), own_state = cast("tuple[Any, Any, Any]", dtype.__reduce__())
        if own == code and _comparable(own_state) == wanted:
            return dtype
    return None


def _with_fields(names: Any, fields: Any, size: Any, aligned: bool) -> np.dtype[Any]:
    """The type of records with these fields, each with its type and its place."""
    places = {name: (inner.dtype, at) for name, (inner, at) in fields.pairs}
    formats, offsets = zip(*(places[name] for name in names), strict=True)
    if None in formats or any(type(n) is not int for n in (*offsets, size)):
        raise TypeError
    given: Any = {"names": [*names], "formats": formats, "offsets": offsets, "itemsize": size}
    made: np.dtype[Any] = np.dtype(given, align=aligned)
    return made


def _comparable(state: tuple[Any, ...]) -> tuple[Any, ...]:
    """The state of a type, of which only plain numbers and text are compared; dates have more."""
    version, order, subarray, names, fields, size, alignment, flags = state[:8]
    pairs = fields.pairs if isinstance(fields, InertDict) else (fields or {}).items()
    placed = {
        name: (inner.dtype if isinstance(inner, PickledType) else inner, at)
        for name, (inner, at) in pairs
    }
    numbers = tuple((type(n), n) for n in (version, size, alignment, flags))
    return (numbers, type(order), order, subarray, names, placed)
