"""Rebuild tensors and arrays from the calls in a pickle that describe them; nothing is called.

Edit this module when a new torch or numpy pickles its tensors by another function. Names and
arguments are those of `torch/_utils.py`, `torch/_tensor.py` and `torch/serialization.py` of torch
0.4 to 2.13, and of numpy 1 and 2. Only arguments that these libraries write are accepted, because
others follow their own rules. A tensor becomes a view on the bytes of its record, once all its
numbers are known to lie inside.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import NoneType
from typing import Any, ClassVar

import numpy as np
from numpy.lib.stride_tricks import as_strided

from dgn_engine.storage.checkpoints import limits
from dgn_engine.storage.checkpoints.contents import (
    LAYOUT,
    Array,
    UnreadableFile,
    dtype_width,
    is_sound,
)
from dgn_engine.storage.checkpoints.harmless_names import (
    may_be_called,
    may_be_kept,
    result_of,
    takes_attributes,
)
from dgn_engine.storage.checkpoints.pickle_file import (
    GlobalName,
    InertDict,
    InertObject,
    Opaque,
    is_container,
)
from dgn_engine.storage.checkpoints.pickled_arrays import (
    FROM_BUFFER,
    RECONSTRUCT,
    SCALAR,
    STRING_TYPE,
    PickledArray,
    array_name,
    empty_array,
    numpy_scalar,
    numpy_type,
    read_array,
    string_type,
    whole_array,
)
from dgn_engine.text.printable import plain_text


@dataclass(frozen=True, eq=False, slots=True)
class TensorStorage:
    """Location of a tensor's numbers: a record of the file, or a file inside the pickle.

    Attributes:
        first: Number at which a view on the record begins.
        length: How many numbers it has.
        inner: The numbers themselves, as in plain pickles, in byte order `order`.
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
    """A tensor as a pickle may change it: only by the state of a variable of torch 0.3."""

    __slots__ = ()
    type_name: ClassVar[str] = "tensor"

    def set_state(self, state: Any) -> None:
        """Ignore (requires_grad, volatile, hooks); torch would read any other state as numbers."""
        match state:
            case (bool(), bool() | None, hooks) if _are_hooks(hooks):
                return
        raise UnreadableFile("gives a tensor a state, which torch never writes")


@dataclass(frozen=True, eq=False, slots=True)
class StridedTensor(_Tensor):
    """A dense tensor as the file describes it; not checked yet."""

    storage: TensorStorage
    offset: Any
    shape: Any
    strides: Any
    dtype: str


@dataclass(frozen=True, eq=False, slots=True)
class Unsupported(_Tensor):
    """A tensor that is not dense numbers, with the reason."""

    reason: str


class PickledQueue(InertObject):
    """A deque, which drops items that do not fit."""

    __slots__ = ()

    def check_filling(self) -> None:
        InertObject.check_filling(self)
        if self.pairs or len(self.items) in self.arguments[1:]:
            raise UnreadableFile("puts more into a deque than it can hold, which no program does")

    def extend(self, items: list[Any]) -> None:
        for item in items:
            self.append(item)


Leaf = StridedTensor | Unsupported | PickledArray
# Return the bytes of a storage and their order, '<' or '>'.
Records = Callable[[TensorStorage], tuple[memoryview, str]]

# Attributes that torch reads through methods of a tensor, or sets on it.
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
_ATTRIBUTES = 200  # of a tensor
_NOT_WRITTEN = "describes a tensor in a way that torch never writes"


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


def build_inert(name: GlobalName, arguments: tuple[Any, ...]) -> Any:
    """Return a stand-in for the result of a call: unchecked tensor, container or `InertObject`."""
    text = str(name)
    builder = _BUILDERS.get(text)
    if builder is None:
        if text.startswith(_MAKES_TENSORS):
            return Unsupported("a tensor of an unsupported kind")
        return (result_of if may_be_called(name) else InertObject.from_call)(name, arguments)
    try:
        return builder(arguments)
    except (IndexError, ValueError, TypeError):
        raise UnreadableFile(_NOT_WRITTEN, kind="not-written") from None


def declared_storage(reference: Any) -> Any:
    """Return the storage that a persistent reference names; raises `UnreadableFile`."""
    if not isinstance(reference, tuple) or not reference:
        raise UnreadableFile(
            "has a persistent reference that is not to a storage", kind="no-storage"
        )
    if reference[0] == "module" and len(reference) == 4:  # before 1.6: a class with its source code
        return reference[1]
    if reference[0] != "storage" or len(reference) not in (5, 6):
        raise UnreadableFile(
            "has a persistent reference that is not to a storage", kind="no-storage"
        )
    _, kind, key, where, count, *view = reference
    sound = type(count) is int and count >= 0 and type(key) is str and type(where) is str
    if not sound or not isinstance(kind, GlobalName):
        raise UnreadableFile("has an invalid persistent reference to a storage", kind="no-storage")
    first: Any = 0
    length: Any = None
    if view and view[0] is not None:  # (key of the view, its first number, its length)
        _, first, length = (
            view[0] if isinstance(view[0], tuple) and len(view[0]) == 3 else (None,) * 3
        )
        if any(type(n) is not int or n < 0 for n in (first, length)) or first + length > count:
            raise UnreadableFile(
                "has an invalid persistent reference to a storage", kind="no-storage"
            )
    dtype = _STORAGES.get(kind.name, str(kind))
    return TensorStorage(key, dtype, count, where, first, length)


class DeclaredStorages:
    """The storages that the pickle of a torch file refers to; each key means one of them.

    torch keeps what the first reference to a key describes and reuses it for later ones, whatever
    they describe (`persistent_load` in `torch/serialization.py`). `by_key`: the storages so far.
    """

    def __init__(self) -> None:
        self.by_key: dict[str, TensorStorage] = {}
        self._views: dict[str, tuple[Any, ...]] = {}

    def find_storage(self, reference: Any) -> Any:
        """Return the storage that a persistent reference names.

        Raises:
            UnreadableFile: It is invalid, or its key was described differently before.
        """
        store = declared_storage(reference)
        if not isinstance(store, TensorStorage):
            return store
        known = self.by_key.setdefault(store.key, store)
        described = (known.dtype, known.count, known.where), (store.dtype, store.count, store.where)
        if described[0] != described[1] and (known.count or store.count):
            raise UnreadableFile("describes one storage in two ways")
        view = reference[5] if len(reference) == 6 else None
        if view is not None:
            self._add_view(store, *view)
        return store

    def check_views(self) -> None:
        """Raise `UnreadableFile` if a key names both a storage and a view on one."""
        if self._views.keys() & self.by_key.keys():
            raise UnreadableFile("describes one storage in two ways")

    def _add_view(self, store: TensorStorage, key: Any, first: Any, size: Any) -> None:
        if type(key) is not str or type(size) is not int:
            raise UnreadableFile("has an invalid persistent reference to a view")
        view = store.key, store.dtype, first, size
        if self._views.setdefault(key, view) != view:
            raise UnreadableFile("describes one view of a storage in two ways")


def _tensor_1(arguments: tuple[Any, ...]) -> StridedTensor | Unsupported:
    store, offset, shape, strides = arguments
    return _strided_tensor(store, offset, shape, strides, getattr(store, "dtype", ""))


def _tensor_2(arguments: tuple[Any, ...]) -> Any:
    store, offset, shape, strides, trained, hooks, *notes = arguments
    _check_notes(trained, hooks, *notes)
    dtype = getattr(store, "dtype", "")
    return _check_trained(_strided_tensor(store, offset, shape, strides, dtype, *notes), trained)


def _tensor_3(arguments: tuple[Any, ...]) -> Any:
    """Build a tensor of a type without a storage class: its storage is one of bytes."""
    store, offset, shape, strides, trained, hooks, dtype, *notes = arguments
    _check_notes(trained, hooks, *notes)
    if isinstance(store, TensorStorage) and store.dtype != "uint8":
        raise ValueError
    return _check_trained(
        _strided_tensor(store, offset, shape, strides, _type_of_torch(dtype), *notes), trained
    )


def _check_trained(tensor: Any, trained: bool) -> Any:
    """Return the tensor or array.

    Raises:
        TypeError: It is something else, or requires a gradient although its numbers are integers.
    """
    if not isinstance(tensor, (_Tensor, PickledArray)):
        raise TypeError
    dtype = array_name(tensor) if isinstance(tensor, PickledArray) else getattr(tensor, "dtype", "")
    if trained and dtype in LAYOUT and "float" not in dtype:
        raise TypeError
    return tensor


def _check_notes(trained: Any, hooks: Any, notes: Any = None) -> None:
    """Raise `ValueError` unless `trained` is a bool and the notes are a plain dictionary.

    torch negates or conjugates numbers if a note has that name, whatever its value.
    """
    if type(trained) is not bool or not _are_hooks(hooks):
        raise ValueError
    sound = notes is None or (isinstance(notes, InertDict) and notes.name == "dict")
    if not sound or any(
        key not in ("neg", "conj") or on is not True for key, on in _pairs_of(notes)
    ):
        raise ValueError


def _pairs_of(table: Any) -> list[tuple[Any, Any]]:
    return table.pairs if isinstance(table, InertDict) else []


def _are_hooks(hooks: Any) -> bool:
    """Return whether these are the hooks that a tensor is saved with: none."""
    return hooks is None or (isinstance(hooks, InertDict) and not hooks.pairs)


def _type_of_torch(dtype: Any) -> str:
    return dtype.name if isinstance(dtype, GlobalName) and dtype.module == "torch" else ""


def _strided_tensor(
    store: Any, offset: Any, shape: Any, strides: Any, dtype: str, notes: Any = None
) -> StridedTensor | Unsupported:
    if not isinstance(store, TensorStorage) or store.where == "meta":
        return Unsupported("a tensor without data")
    if _pairs_of(notes):
        return Unsupported("a conjugated or negated view")
    return StridedTensor(store, offset, shape, strides, dtype)


def _build_parameter(arguments: tuple[Any, ...]) -> Any:
    """Return the tensor of a parameter, which may have attributes."""
    tensor, trained, hooks, *attributes = arguments
    _check_notes(trained, hooks)
    if len(attributes) > 1 or any(_changes_numbers(state) for state in attributes):
        raise ValueError
    return _check_trained(_check_tensor(tensor), trained)


def _build_variable(arguments: tuple[Any, ...]) -> Any:
    """Return the tensor of a torch 0.3 parameter; its state follows."""
    tensor, *trained = arguments
    if trained not in ([], [True], [False]):
        raise ValueError
    return _check_trained(_check_tensor(tensor), trained != [False])


def _check_tensor(tensor: Any) -> Any:
    if not isinstance(tensor, _Tensor):
        raise TypeError
    return tensor


def _of_array(arguments: tuple[Any, ...]) -> Any:
    """Return the array of a tensor from another device, if it has the same type."""
    if not isinstance(arguments[0], PickledArray):
        raise TypeError
    return _of_device(arguments, array_name(arguments[0]))


def _of_tensor(arguments: tuple[Any, ...]) -> Any:
    """Return the CPU tensor of a tensor from another device, if it has the same type."""
    return _of_device(arguments, getattr(_check_tensor(arguments[0]), "dtype", ""))


def _of_device(arguments: tuple[Any, ...], own: str) -> Any:
    inner, dtype, where, trained = arguments
    _check_notes(trained, None)
    if type(where) is not str or not own or own != _type_of_torch(dtype):
        return Unsupported("a tensor converted to another type")
    return _check_trained(inner, trained)


def _changes_numbers(state: Any) -> bool:
    """Return whether attributes set on a tensor could change its numbers."""
    parts = state if isinstance(state, tuple) and len(state) == 2 else (state,)
    return any(
        (part is not None and not isinstance(part, InertDict))
        or len(_pairs_of(part)) > _ATTRIBUTES
        or any(type(k) is not str or k in _OF_TENSORS or k[:2] == "__" for k, _ in _pairs_of(part))
        for part in parts
    )


def _build_subclass(arguments: tuple[Any, ...]) -> Any:
    """Return the plain tensor inside a subclass: (function, type, arguments, state)."""
    function, kind, inner, state = arguments
    if not isinstance(kind, GlobalName) or not isinstance(inner, tuple):
        raise TypeError
    known = isinstance(function, GlobalName) and may_be_called(function)
    if not known or not str(function).startswith(_REBUILDS):
        return Opaque(str(kind), (*inner, state), odd=True)
    changed = _changes_numbers(state)
    if str(kind) in _TENSOR_CLASSES and changed:
        raise ValueError
    tensor = build_inert(function, inner)
    if isinstance(tensor, Opaque):
        return tensor
    if changed or (kind.module.startswith("torch.") and str(kind) not in _TENSOR_CLASSES):
        return Unsupported(f"a tensor of the class {plain_text(str(kind), 80)}")
    return _check_tensor(tensor)


def _build_unsupported(reason: str) -> Callable[[tuple[Any, ...]], Unsupported]:
    return lambda _arguments: Unsupported(reason)


def _build_dictionary(name: str, arguments: tuple[Any, ...]) -> InertDict:
    """Build a dictionary; Python 2 passed its pairs to the call."""
    (items,) = arguments or ((),)
    if isinstance(items, InertDict):
        return InertDict(list(items.pairs), name)
    if name == "collections.Counter" and items != ():  # it would count them
        raise TypeError
    if not isinstance(items, (list, tuple)):
        raise TypeError
    return InertDict(name=name).set_pairs((key, value) for key, value in items)


def _build_defaultdict(arguments: tuple[Any, ...]) -> InertDict:
    """Build a defaultdict, whose call has its factory but no pairs."""
    (maker,) = arguments or (None,)
    if not isinstance(maker, (GlobalName, InertObject, NoneType)):
        raise TypeError
    return InertDict(name="collections.defaultdict")


def _build_queue(arguments: tuple[Any, ...]) -> PickledQueue:
    (items, most) = (*arguments, None)[:2] if arguments else ((), None)
    if len(arguments) > 2 or not isinstance(items, (list, tuple)):
        raise TypeError
    if most is not None and (type(most) is not int or not len(items) <= most):
        raise ValueError
    return PickledQueue("collections.deque", ((), most), items=list(items))


def _build_list(arguments: tuple[Any, ...]) -> list[Any]:
    (items,) = arguments or ((),)
    if not isinstance(items, (list, tuple)):
        raise TypeError
    return list(items)


def _build_namespace(name: str, arguments: tuple[Any, ...]) -> InertObject:
    if arguments:
        raise ValueError
    return InertObject(name, ())


def latin_bytes(arguments: tuple[Any, ...]) -> bytes:
    """Return bytes pickled by protocols before 3 as (text, 'latin1'); raises `ValueError`."""
    text, coding = arguments
    if coding not in ("latin1", "latin-1"):
        raise ValueError
    return bytes(text.encode("latin-1"))


def _build_bytes(arguments: tuple[Any, ...]) -> Any:
    """Return empty bytes, as protocols before 3 write them; or a stand-in for others."""
    return result_of(GlobalName("builtins", "bytes"), arguments) if arguments else b""


def _build_size(arguments: tuple[Any, ...]) -> Any:
    (sides,) = arguments or ((),)
    if isinstance(sides, (list, tuple)) and all(type(side) is int for side in sides):
        return tuple(sides)
    return Opaque("torch.Size", arguments, odd=True)


def _build_reconstructed(arguments: tuple[Any, ...]) -> InertObject:
    """Build an object created by copyreg; its state follows."""
    kind, *inner = arguments
    if isinstance(kind, GlobalName) and not may_be_kept(kind):  # it is reported
        return InertObject(str(kind), tuple(thing for thing in inner if is_container(thing)))
    match arguments:
        case (GlobalName(), GlobalName("builtins", "object"), None) if takes_attributes(kind):
            return InertObject.from_call(kind, ())
    return Opaque(str(kind) if isinstance(kind, GlobalName) else "object", arguments, odd=True)


# Any function that makes a tensor, other than the builders below, makes one that is not read.
_MAKES_TENSORS = (
    *("torch._utils._rebuild", "torch._tensor._rebuild", "torch.nn.parameter.", "torch.Tensor"),
    *("torch._tensor.Tensor", "torch.FloatTensor", "torch.DoubleTensor", "torch.HalfTensor"),
    *("torch.BFloat16Tensor", "torch.LongTensor", "torch.IntTensor", "torch.ShortTensor"),
    *("torch.CharTensor", "torch.ByteTensor", "torch.BoolTensor"),
)
_REBUILDS = ("torch._utils._rebuild", "torch._tensor._rebuild", "torch.nn.parameter.Parameter")
_BUILDERS: dict[str, Callable[[tuple[Any, ...]], Any]] = {
    "torch._utils._rebuild_tensor": _tensor_1,
    "torch._utils._rebuild_tensor_v2": _tensor_2,
    "torch._utils._rebuild_tensor_v3": _tensor_3,
    "torch._utils._rebuild_parameter": _build_parameter,
    "torch._utils._rebuild_parameter_with_state": _build_parameter,
    "torch._utils._rebuild_device_tensor_from_numpy": _of_array,
    "torch._utils._rebuild_device_tensor_from_cpu_tensor": _of_tensor,
    "torch._utils._rebuild_xla_tensor": _of_array,
    "torch._tensor._rebuild_from_type": _build_subclass,
    "torch._tensor._rebuild_from_type_v2": _build_subclass,
    "torch.nn.parameter.Parameter": _build_variable,
    "torch._utils._rebuild_qtensor": _build_unsupported("a quantised tensor"),
    "torch._utils._rebuild_sparse_tensor": _build_unsupported("a sparse tensor"),
    "torch._utils._rebuild_sparse_csr_tensor": _build_unsupported("a sparse tensor"),
    "torch._utils._rebuild_nested_tensor": _build_unsupported("a nested tensor"),
    "torch._utils._rebuild_meta_tensor_no_storage": _build_unsupported("a tensor without data"),
    "torch._utils._rebuild_wrapper_subclass": _build_unsupported("a tensor without data"),
    "torch.Size": _build_size,
    "collections.OrderedDict": partial(_build_dictionary, "collections.OrderedDict"),
    "collections.Counter": partial(_build_dictionary, "collections.Counter"),
    "collections.defaultdict": _build_defaultdict,
    "collections.deque": _build_queue,
    "builtins.bytes": _build_bytes,
    "builtins.dict": partial(_build_dictionary, "dict"),
    "builtins.list": _build_list,
    "types.SimpleNamespace": partial(_build_namespace, "types.SimpleNamespace"),
    "argparse.Namespace": partial(_build_namespace, "argparse.Namespace"),
    "_codecs.encode": latin_bytes,
    "copyreg._reconstructor": _build_reconstructed,
    "numpy.dtype": numpy_type,
    STRING_TYPE: string_type,
    **dict.fromkeys(RECONSTRUCT, empty_array),
    **dict.fromkeys(FROM_BUFFER, whole_array),
    **dict.fromkeys(SCALAR, numpy_scalar),
}


def read_leaf(leaf: Leaf, records: Records) -> tuple[Array, str] | Unsupported:
    """Return the array with the name of its type; raises `UnreadableFile` if it is impossible."""
    if isinstance(leaf, Unsupported):
        return leaf
    if isinstance(leaf, PickledArray):
        array = read_array(leaf)
        return Unsupported(array) if isinstance(array, str) else array
    if reason := _unsupported_reason(leaf):
        return Unsupported(reason)
    view = _view_array(leaf, records)
    return view if isinstance(view, Unsupported) else (view, leaf.dtype)


def _unsupported_reason(tensor: StridedTensor) -> str:
    """Return why a tensor is not read; '' if its record may be opened."""
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
        return plain_text(tensor.dtype, 40) or "numbers of an unknown type"
    return ""


def _view_array(tensor: StridedTensor, records: Records) -> Array | Unsupported:
    """Return a view on the record, once all its numbers are known to lie inside.

    Stride 0 repeats one number endlessly, so the record must have as many numbers as the tensor.
    """
    content, order = records(tensor.storage)
    layout = np.dtype(order + LAYOUT[tensor.dtype][1:])
    size = layout.itemsize
    side = dtype_width(tensor.storage.dtype)
    content = content[tensor.storage.first * side :]
    if tensor.storage.length is not None:
        content = content[: tensor.storage.length * side]
    first = tensor.offset
    available = len(content) // size
    count = math.prod(tensor.shape)
    if count == 0:
        return np.zeros(tensor.shape, layout)
    reach = sum((side - 1) * s for side, s in zip(tensor.shape, tensor.strides, strict=True))
    if first + reach >= available:
        raise UnreadableFile(
            "declares more numbers for a tensor than its storage has", kind="cut-off"
        )
    if count > available:
        return Unsupported("a tensor that repeats more numbers than it has")
    flat = np.frombuffer(content, layout, count=reach + 1, offset=first * size)
    return as_strided(flat, tensor.shape, [s * size for s in tensor.strides], writeable=False)
