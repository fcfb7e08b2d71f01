"""What the calls in a torch pickle stand for: tensors, storages and containers; nothing is called.

The names and arguments are those of `torch/_utils.py`, `torch/_tensor.py` and
`torch/serialization.py` of torch 0.4 to 2.13, and of numpy 1 and 2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dgn_engine.storage.checkpoints.contents import UnreadableFile
from dgn_engine.storage.checkpoints.inert_objects import (
    GlobalName,
    InertDict,
    InertObject,
    StridedTensor,
    TensorStorage,
    Unsupported,
    is_container,
)

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
    """What a call gives: a tensor still to be checked, a container, or an inert `InertObject`."""
    builder = _BUILDERS.get(str(name))
    if builder is None:
        return InertObject(str(name), arguments)
    try:
        return builder(arguments)
    except (IndexError, ValueError, TypeError):
        raise UnreadableFile("describes a tensor in a way that makes no sense") from None


class TensorRebuilder:
    """`build`, and the names of the globals that a pickle would have had called, in its order."""

    def __init__(self) -> None:
        self._names: dict[str, None] = {}

    def __call__(self, name: GlobalName, arguments: tuple[Any, ...]) -> Any:
        """As `build`."""
        made = build(name, arguments)
        if isinstance(made, InertObject) and made.maker == str(name):
            self._names[made.maker] = None
        return made

    @property
    def names(self) -> tuple[str, ...]:
        """Each once; also of calls whose result the pickle throws away."""
        return tuple(self._names)


def storage(reference: Any) -> Any:
    """What a reference out of the pickle stands for: the record of a storage."""
    if not isinstance(reference, tuple) or not reference:
        raise UnreadableFile("refers out of its pickle to something that is no storage")
    if reference[0] == "module" and len(reference) == 4:  # old: with the source, for a warning
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
    """A parameter is its tensor; so is what stands for one on another device."""
    return arguments[0] if arguments else None


def _subclass(arguments: tuple[Any, ...]) -> Any:
    """(function, type, arguments, state): the tensor inside counts."""
    function, kind, inner = arguments[:3]
    if isinstance(function, GlobalName) and isinstance(inner, tuple) and str(function) in _PLAIN:
        return build(function, inner)
    return InertObject(str(kind) if isinstance(kind, GlobalName) else "tensor", inner)


def _odd(reason: str) -> Callable[[tuple[Any, ...]], Unsupported]:
    return lambda _arguments: Unsupported(reason)


def _ordered(arguments: tuple[Any, ...]) -> InertDict:
    """A dictionary; Python 2 gave its pairs to the call."""
    table = InertDict()
    for argument in arguments[-1:]:
        if isinstance(argument, InertDict):
            table.pairs.extend(argument.pairs)
        elif isinstance(argument, (list, tuple)):
            table.pairs.extend((key, value) for key, value in argument)
    return table


def _defaulting(arguments: tuple[Any, ...]) -> InertDict:
    return InertDict(_ordered(arguments).pairs, "collections.defaultdict")


def _latin(arguments: tuple[Any, ...]) -> memoryview:
    """Bytes, as protocols before 3 have them."""
    text, coding = arguments
    if coding not in ("latin1", "latin-1"):
        raise ValueError
    return memoryview(text.encode("latin-1"))


def _sequence(arguments: tuple[Any, ...]) -> Any:
    (items,) = arguments if arguments else ((),)
    return tuple(items) if isinstance(items, (list, tuple)) else InertObject("tuple", arguments)


def _reconstructed(arguments: tuple[Any, ...]) -> InertObject:
    """copyreg's way to an object of some class: its state follows."""
    kind, *inner = arguments
    inner = [thing for thing in inner if is_container(thing)]
    return InertObject(str(kind) if isinstance(kind, GlobalName) else "object", tuple(inner))


def _numpy_scalar(arguments: tuple[Any, ...]) -> InertObject:
    """One number of numpy, by the name of its type."""
    return InertObject(f"numpy.{_SCALARS.get(_type_code(arguments[0]), 'scalar')}", ())


def _type_code(dtype: Any) -> str:
    code = dtype.arguments[0] if isinstance(dtype, InertObject) and dtype.arguments else ""
    return code if isinstance(code, str) else ""


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
    "torch._utils._rebuild_qtensor": _odd("a quantised tensor"),
    "torch._utils._rebuild_sparse_tensor": _odd("a sparse tensor"),
    "torch._utils._rebuild_sparse_csr_tensor": _odd("a sparse tensor"),
    "torch._utils._rebuild_nested_tensor": _odd("a nested tensor"),
    "torch._utils._rebuild_meta_tensor_no_storage": _odd("a tensor without numbers"),
    "torch._utils._rebuild_wrapper_subclass": _odd("a tensor without numbers"),
    "torch.Size": _sequence,
    "collections.OrderedDict": _ordered,
    "collections.defaultdict": _defaulting,
    "builtins.dict": _ordered,
    "_codecs.encode": _latin,
    "copyreg._reconstructor": _reconstructed,
    "copy_reg._reconstructor": _reconstructed,
    "numpy.core.multiarray.scalar": _numpy_scalar,
    "numpy._core.multiarray.scalar": _numpy_scalar,
}
