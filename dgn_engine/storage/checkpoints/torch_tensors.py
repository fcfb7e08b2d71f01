"""From described tensors to arrays on the bytes of the file; each description is checked first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.lib.stride_tricks import as_strided

from dgn_engine.storage.checkpoints import limits
from dgn_engine.storage.checkpoints.contents import (
    Array,
    ParsedFile,
    UnreadableFile,
    is_sound,
    plain,
)
from dgn_engine.storage.checkpoints.dtypes import LAYOUT, sent_as, width
from dgn_engine.storage.checkpoints.flatten_objects import FlattenedObjects, Leaf
from dgn_engine.storage.checkpoints.inert_objects import (
    InertObject,
    StridedTensor,
    TensorStorage,
    Unsupported,
)
from dgn_engine.storage.checkpoints.pickled_arrays import array_of

Records = Callable[[TensorStorage], tuple[memoryview, str]]


def contents_of(
    leaves: FlattenedObjects, records: Records, most: int, kind: str, calls: tuple[str, ...] = ()
) -> ParsedFile:
    """All arrays that are dense numbers, at most `most` bytes of them; the others are named.

    `records(storage)` gives the bytes of a storage and their order, '<' or '>'.
    """
    arrays: dict[str, Array] = {}
    dtypes: dict[str, str] = {}
    odd: list[str] = []
    total = 0
    for name, array, dtype in _arrays(leaves, records, odd):
        if name in arrays:
            raise UnreadableFile("holds tensors whose names cannot be told apart")
        total += array.size * np.dtype(sent_as(dtype)).itemsize
        if len(arrays) >= limits.MEMBERS:
            raise UnreadableFile(f"holds more than {limits.MEMBERS:,} tensors")
        if total > most:
            raise UnreadableFile("holds more numbers than its size allows, and was refused")
        arrays[name], dtypes[name] = array, dtype
    ignored = (*odd, *leaves.ignored)
    return ParsedFile(arrays, dtypes, ignored, kind=kind, calls=calls, layers=leaves.layers)


def _arrays(
    leaves: FlattenedObjects, records: Records, odd: list[str]
) -> Iterator[tuple[str, Array, str]]:
    for name, leaf in leaves.tensors:
        found = _read(leaf, records)
        if isinstance(found, Unsupported):
            odd.append(f"{name} ({found.reason})")
        else:
            yield name, *found


def _read(leaf: Leaf, records: Records) -> tuple[Array, str] | Unsupported:
    if isinstance(leaf, Unsupported):
        return leaf
    if isinstance(leaf, InertObject):
        return array_of(leaf)
    trouble = _trouble(leaf)
    if trouble:
        return Unsupported(trouble)
    array = _array(leaf, records)
    return array if isinstance(array, Unsupported) else (array, leaf.dtype)


def _trouble(tensor: StridedTensor) -> str:
    """Why a tensor is not taken; empty where its numbers may be looked for."""
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
    """A view on the record, after every number was found to lie inside it.

    Stride 0 makes a giant of one number: there must be as many in the record as in the tensor.
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
