"""Arrays of numpy inside pickles: found by how numpy pickles them, made from their bytes alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dgn_engine.storage.checkpoints.contents import Array, UnreadableFile, is_sound, plain
from dgn_engine.storage.checkpoints.dtypes import LAYOUT
from dgn_engine.storage.checkpoints.inert_objects import InertObject, Unsupported

_RECONSTRUCT = tuple(f"numpy.{core}.multiarray._reconstruct" for core in ("core", "_core"))
_FROM_BUFFER = tuple(f"numpy.{core}.numeric._frombuffer" for core in ("core", "_core"))
_NAMES = {layout[1:]: name for name, layout in LAYOUT.items() if name not in ("bfloat16",)} | {
    "u1": "uint8",
    "u2": "uint16",
}


def is_array(node: Any) -> bool:
    """Whether this is an array of numpy, of whatever type."""
    return isinstance(node, InertObject) and node.maker in _RECONSTRUCT + _FROM_BUFFER


def array_of(made: InertObject) -> tuple[Array, str] | Unsupported:
    """The array with the name of its type. Raises `UnreadableFile` where its description lies."""
    if made.maker in _RECONSTRUCT:  # state: version, shape, type, whether in Fortran's order, bytes
        told = made.state if isinstance(made.state, tuple) else ()
        if len(told) != 5:
            return Unsupported("an array that is not all there")
        _, shape, dtype, fortran, content = told
    else:  # bytes, type, shape, order
        if not isinstance(made.arguments, tuple) or len(made.arguments) != 4:
            return Unsupported("an array that is not all there")
        content, dtype, shape, order = made.arguments
        fortran = order == "F"
    code, byte_order = _type_of(dtype)
    if isinstance(content, str):  # Python 2: bytes as text
        content = memoryview(content.encode("latin-1", "replace"))
    if code not in _NAMES or not isinstance(content, memoryview):
        return Unsupported(f"an array of {plain(code, 40) or 'Python objects'}")
    layout = np.dtype(byte_order + code)
    if not isinstance(shape, tuple) or not is_sound(shape):
        raise UnreadableFile("holds an array of an impossible shape")
    if math.prod(shape) * layout.itemsize != len(content):
        raise UnreadableFile("declares a shape for an array that its bytes do not fill")
    array = np.frombuffer(content, layout).reshape(shape, order="F" if fortran else "C")
    return array, _NAMES[code]


def _type_of(dtype: Any) -> tuple[str, str]:
    """The code of a pickled dtype, such as f4, and its byte order."""
    if not isinstance(dtype, InertObject) or dtype.maker != "numpy.dtype":
        return "", "<"
    code = dtype.arguments[0] if isinstance(dtype.arguments, tuple) and dtype.arguments else ""
    told = dtype.state[1] if isinstance(dtype.state, tuple) and len(dtype.state) > 1 else "<"
    order = ">" if told == ">" or (isinstance(code, str) and code.startswith(">")) else "<"
    return (code.lstrip("<>|=") if isinstance(code, str) else ""), order
