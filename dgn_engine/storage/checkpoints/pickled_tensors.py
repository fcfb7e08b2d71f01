"""Rebuilds tensors and arrays from the calls in a pickle that describe them; calls nothing.

Open it when a new torch or numpy pickles its tensors by another function. The names and arguments
are those of `torch/_utils.py`, `torch/_tensor.py` and `torch/serialization.py` of torch 0.4 to
2.13, and of numpy 1 and 2. A tensor becomes a view on the bytes of its record, once every number of
it is known to lie inside.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

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

    `first`: the number at which a view on the record begins. `inner`: the numbers themselves, as
    plain pickles have them, in this `order`.
    """

    type_name: ClassVar[str] = "storage"
    key: str
    dtype: str
    count: int
    where: str = "cpu"
    first: int = 0
    inner: memoryview | None = None
    order: str = "<"


@dataclass(frozen=True, eq=False, slots=True)
class StridedTensor:
    """A dense tensor as the file describes it; not checked yet."""

    type_name: ClassVar[str] = "tensor"
    storage: TensorStorage
    offset: Any
    shape: Any
    strides: Any
    dtype: str


@dataclass(frozen=True, eq=False, slots=True)
class Unsupported:
    """A tensor that is not dense numbers, and why."""

    type_name: ClassVar[str] = "tensor"
    reason: str


Leaf = StridedTensor | Unsupported | InertObject
# The bytes of a storage, and their order: '<' or '>'.
Records = Callable[[TensorStorage], tuple[memoryview, str]]

_RECONSTRUCT = tuple(f"numpy.{core}.multiarray._reconstruct" for core in ("core", "_core"))
_FROM_BUFFER = tuple(f"numpy.{core}.numeric._frombuffer" for core in ("core", "_core"))
_NAMES = {layout[1:]: name for name, layout in LAYOUT.items() if name not in ("bfloat16",)} | {
    "u1": "uint8",
    "u2": "uint16",
}


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
    builder = _BUILDERS.get(str(name))
    if builder is None:
        return InertObject.of(name, arguments)
    try:
        return builder(arguments)
    except (IndexError, ValueError, TypeError):
        raise UnreadableFile("describes a tensor in a way that makes no sense") from None


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
    first = 0
    if view and view[0] is not None:  # (key of the view, its first number, its length)
        first = view[0][1] if isinstance(view[0], tuple) and len(view[0]) == 3 else -1
        if type(first) is not int or first < 0:
            raise UnreadableFile("refers out of its pickle to a storage that makes no sense")
    return TensorStorage(key, _STORAGES.get(kind.name, kind.name), count, where, first)


def _tensor(arguments: tuple[Any, ...]) -> StridedTensor | Unsupported:
    store, offset, shape, strides = arguments[:4]
    notes = arguments[6] if len(arguments) > 6 else None
    return _strided(store, offset, shape, strides, getattr(store, "dtype", ""), notes)


def _typed_tensor(arguments: tuple[Any, ...]) -> StridedTensor | Unsupported:
    store, offset, shape, strides, _, _, dtype = arguments[:7]
    notes = arguments[7] if len(arguments) > 7 else None
    name = dtype.name if isinstance(dtype, GlobalName) and dtype.module == "torch" else ""
    return _strided(store, offset, shape, strides, name, notes)


def _strided(
    store: Any, offset: Any, shape: Any, strides: Any, dtype: str, notes: Any
) -> StridedTensor | Unsupported:
    if not isinstance(store, TensorStorage):
        return Unsupported("a tensor without numbers")
    if isinstance(notes, InertDict) and (notes.get("neg") or notes.get("conj")):
        return Unsupported("a view that turns its numbers")
    if store.where == "meta":
        return Unsupported("a tensor without numbers")
    return StridedTensor(store, offset, shape, strides, dtype)


def _first(arguments: tuple[Any, ...]) -> Any:
    """The tensor of a parameter, or of a wrapper for another device."""
    return arguments[0] if arguments else None


def _subclass(arguments: tuple[Any, ...]) -> Any:
    """A tensor of a subclass, as (function, type, arguments, state): the plain tensor inside."""
    function, kind, inner = arguments[:3]
    if isinstance(function, GlobalName) and isinstance(inner, tuple) and str(function) in _PLAIN:
        return build(function, inner)
    return InertObject(str(kind) if isinstance(kind, GlobalName) else "tensor", inner)


def _unsupported(reason: str) -> Callable[[tuple[Any, ...]], Unsupported]:
    return lambda _arguments: Unsupported(reason)


def _ordered(arguments: tuple[Any, ...]) -> InertDict:
    """A dictionary; Python 2 passed its pairs to the call."""
    table = InertDict()
    for argument in arguments[-1:]:
        if isinstance(argument, InertDict):
            table.pairs.extend(argument.pairs)
        elif isinstance(argument, (list, tuple)):
            table.pairs.extend((key, value) for key, value in argument)
    return table


def _defaulting(arguments: tuple[Any, ...]) -> InertDict:
    return InertDict(_ordered(arguments).pairs, "collections.defaultdict")


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
    return InertObject(str(kind) if isinstance(kind, GlobalName) else "object", tuple(inner))


def _numpy_scalar(arguments: tuple[Any, ...]) -> InertObject:
    """One number of numpy, by the name of its type."""
    return InertObject(f"numpy.{_SCALARS.get(_numpy_type(arguments[0])[0], 'scalar')}", ())


_SCALARS = {
    "f8": "float64",
    "f4": "float32",
    "f2": "float16",
    "i8": "int64",
    "i4": "int32",
    "b1": "bool_",
}
_PLAIN = (
    "torch._utils._rebuild_tensor",
    "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_tensor_v3",
    "torch._utils._rebuild_parameter",
    "torch._utils._rebuild_parameter_with_state",
)
_BUILDERS: dict[str, Callable[[tuple[Any, ...]], Any]] = {
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_tensor_v3": _typed_tensor,
    "torch._utils._rebuild_parameter": _first,
    "torch._utils._rebuild_parameter_with_state": _first,
    "torch._utils._rebuild_device_tensor_from_numpy": _first,
    "torch._utils._rebuild_device_tensor_from_cpu_tensor": _first,
    "torch._utils._rebuild_xla_tensor": _first,
    "torch._tensor._rebuild_from_type": _subclass,
    "torch._tensor._rebuild_from_type_v2": _subclass,
    "torch.nn.parameter.Parameter": _first,
    "torch.nn.parameter.Buffer": _first,
    "torch._utils._rebuild_qtensor": _unsupported("a quantised tensor"),
    "torch._utils._rebuild_sparse_tensor": _unsupported("a sparse tensor"),
    "torch._utils._rebuild_sparse_csr_tensor": _unsupported("a sparse tensor"),
    "torch._utils._rebuild_nested_tensor": _unsupported("a nested tensor"),
    "torch._utils._rebuild_meta_tensor_no_storage": _unsupported("a tensor without numbers"),
    "torch._utils._rebuild_wrapper_subclass": _unsupported("a tensor without numbers"),
    "torch.Size": _sequence,
    "collections.OrderedDict": _ordered,
    "collections.defaultdict": _defaulting,
    "builtins.dict": _ordered,
    "_codecs.encode": latin_bytes,
    "copyreg._reconstructor": _reconstructed,
    "copy_reg._reconstructor": _reconstructed,
    "numpy.core.multiarray.scalar": _numpy_scalar,
    "numpy._core.multiarray.scalar": _numpy_scalar,
}


def read_leaf(leaf: Leaf, records: Records) -> tuple[Array, str] | Unsupported:
    """The array with the name of its type; raises `UnreadableFile` where it cannot be there."""
    if isinstance(leaf, Unsupported):
        return leaf
    if isinstance(leaf, InertObject):
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
    first = tensor.storage.first * width(tensor.storage.dtype) // size + tensor.offset
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
    return isinstance(node, InertObject) and node.callee in _RECONSTRUCT + _FROM_BUFFER


def _numpy_array(call: InertObject) -> tuple[Array, str] | Unsupported:
    match call:
        case InertObject(callee=callee, state=(_, shape, dtype, fortran, content)) if (
            callee in _RECONSTRUCT
        ):
            pass
        case InertObject(callee=callee, arguments=(content, dtype, shape, order)) if (
            callee in _FROM_BUFFER
        ):
            fortran = order == "F"
        case _:
            return Unsupported("an array that is not all there")
    code, byte_order = _numpy_type(dtype)
    if isinstance(content, str):  # Python 2: bytes as text
        content = content.encode("latin-1", "replace")
    if code not in _NAMES or not isinstance(content, bytes):
        return Unsupported(f"an array of {plain(code, 40) or 'Python objects'}")
    layout = np.dtype(byte_order + code)
    if not isinstance(shape, tuple) or not is_sound(shape):
        raise UnreadableFile("holds an array of an impossible shape")
    if math.prod(shape) * layout.itemsize != len(content):
        raise UnreadableFile("declares a shape for an array that its bytes do not fill")
    array = np.frombuffer(content, layout).reshape(shape, order="F" if fortran else "C")
    return array, _NAMES[code]


def _numpy_type(dtype: Any) -> tuple[str, str]:
    """The code of a pickled dtype, such as f4, and its byte order."""
    if not isinstance(dtype, InertObject) or dtype.callee != "numpy.dtype":
        return "", "<"
    code = dtype.arguments[0] if isinstance(dtype.arguments, tuple) and dtype.arguments else ""
    if not isinstance(code, str):
        return "", "<"
    stated = dtype.state[1] if isinstance(dtype.state, tuple) and len(dtype.state) > 1 else "<"
    return code.lstrip("<>|="), ">" if stated == ">" or code.startswith(">") else "<"
