"""Rebuild NumPy arrays from the calls in a pickle that describe them; nothing is called.

Edit this module when a new NumPy pickles its arrays by another function. A dtype is accepted only
with the state that NumPy itself would write for it: its last number says whether the bytes of an
array are numbers or addresses of objects.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from dgn_engine.storage.checkpoints.contents import LAYOUT, Array, UnreadableFile, is_sound
from dgn_engine.storage.checkpoints.harmless_names import may_be_kept
from dgn_engine.storage.checkpoints.pickle_file import GlobalName, InertDict, InertObject, Opaque
from dgn_engine.text.printable import plain_text

RECONSTRUCT = tuple(f"numpy.{core}.multiarray._reconstruct" for core in ("core", "_core"))
FROM_BUFFER = tuple(f"numpy.{core}.numeric._frombuffer" for core in ("core", "_core"))
SCALAR = tuple(f"numpy.{core}.multiarray.scalar" for core in ("core", "_core"))
STRING_TYPE = "numpy._core._internal._convert_to_stringdtype_kwargs"
_RECORD = "numpy.record"
_NAMES = {layout[1:]: name for name, layout in LAYOUT.items() if name not in ("bfloat16",)} | {
    "u1": "uint8",
    "u2": "uint16",
}
_CODE = 16  # characters of a type code
_FIELDS = 200  # of a record
_ALIGNED = 0x80  # in the flags of a record
_NOT_WRITTEN = "describes an array in a way that numpy never writes"


class PickledType(InertObject):
    """A `numpy.dtype`; `dtype` is None for text and for types of other libraries."""

    __slots__ = ("dtype",)

    def __init__(self, arguments: Any) -> None:
        super().__init__("numpy.dtype", arguments)
        self.dtype: np.dtype[Any] | None = None

    def set_state(self, state: Any) -> None:
        """Set the state that numpy writes for this type, and no other."""
        InertObject.set_state(self, state)
        code = self.arguments[0]
        if isinstance(code, GlobalName) and not may_be_kept(code):
            return  # a type of another library, such as bfloat16, which is reported
        dtype = _type_as_written(code, state)
        if dtype is None:
            raise UnreadableFile("describes a number type in a way that numpy never writes")
        self.dtype = dtype

    @property
    def holds_objects(self) -> bool:
        """True if its values are pickled as a list instead of bytes."""
        return self.arguments[0] == "T" if self.dtype is None else self.dtype.hasobject


class PickledArray(InertObject):
    """A numpy array whose shape, type and numbers are in its state or its arguments."""

    __slots__ = ()

    def set_state(self, state: Any) -> None:
        """Set the state numpy writes: (1, shape, type, whether in Fortran order, bytes)."""
        match state:
            case (int(version), tuple(), PickledType(state=tuple()), bool(), _) if version == 1:
                if self.callee in RECONSTRUCT:
                    InertObject.set_state(self, state)
                    return
        raise UnreadableFile(_NOT_WRITTEN, kind="not-written")


def numpy_type(arguments: tuple[Any, ...]) -> InertObject:
    """Return a stand-in for a `numpy.dtype` called as numpy pickles it.

    Arguments: (code or class, not aligned, copied). Its state follows, which an uncopied type
    shares with others.
    """
    match arguments:
        case (str() | GlobalName(), 0, 1):
            return PickledType(arguments)
    return Opaque("numpy.dtype", arguments, odd=True)


def string_type(arguments: tuple[Any, ...]) -> InertObject:
    """Return a stand-in for a `StringDType`: (whether it converts, its missing value)."""
    match arguments:
        case (bool() | 0 | 1,) | (bool() | 0 | 1, None | str() | float()):
            string = PickledType(("T", False, True))
            string.state = ()
            return string
    return Opaque(STRING_TYPE, arguments, odd=True)


def empty_array(arguments: tuple[Any, ...]) -> PickledArray:
    """Return an array without numbers; its state follows."""
    kind, shape, code = arguments
    if not isinstance(kind, GlobalName) or shape != (0,) or code not in (b"b", "b"):
        raise ValueError
    return PickledArray(RECONSTRUCT[0], arguments)


def whole_array(arguments: tuple[Any, ...]) -> PickledArray:
    """Return an array of the bytes that protocol 5 stores with its type, shape and order."""
    content, dtype, shape, order = arguments
    sound = isinstance(dtype, PickledType) and isinstance(dtype.state, tuple)
    if not sound or dtype.holds_objects or not isinstance(content, bytes):
        raise UnreadableFile(_NOT_WRITTEN, kind="not-written")
    if type(shape) is not tuple or order not in ("C", "F"):
        raise UnreadableFile(_NOT_WRITTEN, kind="not-written")
    return PickledArray(FROM_BUFFER[0], arguments)


def numpy_scalar(arguments: tuple[Any, ...]) -> Opaque:
    """Return one numpy number, named by its type: (type, its bytes).

    A record with objects is (type, an array).
    """
    match arguments:
        case (PickledType(state=tuple()) as kind, held) if isinstance(
            held, PickledArray if kind.holds_objects else (bytes, str)
        ):
            name = "scalar" if kind.dtype is None else kind.dtype.type.__name__
            return Opaque(f"numpy.{name}", ())
    return Opaque(SCALAR[0], arguments, odd=True)


def array_name(array: PickledArray) -> str:
    """Return the name of an array's number type; '' if it is not supported."""
    source = array.state[2] if array.callee in RECONSTRUCT and array.state else array.arguments[1]
    dtype = source.dtype if isinstance(source, PickledType) else None
    return "" if dtype is None else _NAMES.get(dtype.str[1:], "")


def read_array(array: PickledArray) -> tuple[Array, str] | str:
    """Return an array and the name of its type, or why it is not read.

    Raises:
        UnreadableFile: It is impossible.
    """
    if array.callee in RECONSTRUCT:
        if array.state is None:
            return "an incomplete array"
        kind = array.arguments[0]
        if str(kind) != "numpy.ndarray":
            return f"an array of the class {plain_text(str(kind), 80)}"
        _, shape, dtype, fortran, content = array.state
    else:
        content, dtype, shape, order = array.arguments
        fortran = order == "F"
    if isinstance(content, str):  # Python 2: bytes as text
        try:
            content = content.encode("latin-1")
        except UnicodeEncodeError:
            raise UnreadableFile("has an array whose bytes are invalid text") from None
    name = array_name(array)
    if not name or not isinstance(content, bytes):
        return f"an array of {_in_words(dtype)}"
    if not is_sound(shape):
        raise UnreadableFile("has an array of an impossible shape", kind="wrong-shape")
    if math.prod(shape) * dtype.dtype.itemsize != len(content):
        raise UnreadableFile(
            "declares a shape for an array that does not match its size", kind="wrong-length"
        )
    return np.frombuffer(content, dtype.dtype).reshape(shape, order="F" if fortran else "C"), name


def _in_words(dtype: PickledType) -> str:
    if dtype.dtype is not None and dtype.dtype.names is not None:
        return "records"
    code = dtype.arguments[0]
    return ("text" if code == "T" else plain_text(code, 40)) if type(code) is str else "objects"


def _type_as_written(code: Any, state: Any) -> np.dtype[Any] | None:
    """Return the numpy type with this code and state in a pickle; None if there is none."""
    record = isinstance(code, GlobalName) and str(code) == _RECORD
    if not record and (type(code) is not str or len(code) > _CODE):
        return None
    if not isinstance(state, tuple) or len(state) not in (8, 9):
        return None
    _, order, subarray, names, fields, size, _, flags, *notes = state
    if order not in ("<", ">", "|") or (not record and code[:1] not in tuple("biufcSUOVMm")):
        return None
    try:
        if not record and code[0] in "Mm":
            notes = notes[0][:1]  # and the unit, which numpy itself checks
        if names is not None:
            result = _with_fields(names, fields, size, _check_integer(flags) & _ALIGNED != 0)
            result = np.dtype((np.record, result)) if record else result
        elif subarray is not None:
            base, sides = subarray
            result = np.dtype((_type_of(base), tuple(map(_check_integer, sides))))
        else:
            result = np.dtype(code if order == "|" else order + code)
        noted = _with_notes(result, *notes)
        _, (own, *_), own_state = cast("tuple[Any, Any, Any]", noted.__reduce__())
        same = own is np.record if record else own == code
        same = same and len(own_state) == len(state)
        return result if same and _plain_state(own_state) == _plain_state(state) else None
    except (LookupError, ValueError, TypeError, AttributeError, OverflowError):
        return None


def _with_notes(dtype: np.dtype[Any], notes: Any = None) -> np.dtype[Any]:
    """Return the type with some metadata, if it is pickled with a metadata dictionary."""
    if notes is None:
        return dtype
    if not isinstance(notes, InertDict):
        raise TypeError
    arguments: Any = {"dtype": dtype, "metadata": {"": None}}
    noted: np.dtype[Any] = np.dtype(**arguments)
    return noted


def _type_of(inner: Any) -> np.dtype[Any]:
    if not isinstance(inner, PickledType) or inner.dtype is None:
        raise TypeError
    return inner.dtype


def _check_integer(number: Any) -> int:
    if type(number) is not int:
        raise TypeError
    return number


def _with_fields(names: Any, fields: Any, size: Any, aligned: bool) -> np.dtype[Any]:
    """Return the record type with these fields, each with its type, offset and title."""
    if type(names) is not tuple or max(len(names), len(fields.pairs)) > 2 * _FIELDS:
        raise TypeError  # they may be shared
    entries = dict(fields.pairs)
    chosen = [entries[name] for name in names]
    arguments: Any = {
        "names": [*names],
        "formats": [_type_of(inner) for inner, *_ in chosen],
        "offsets": [_check_integer(at) for _, at, *_ in chosen],
        "itemsize": _check_integer(size),
    }
    if any(title for _, _, *title in chosen):
        arguments["titles"] = [title[0] if title else None for _, _, *title in chosen]
    record: np.dtype[Any] = np.dtype(arguments, align=aligned)
    return record


def _plain_state(state: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a type's state with only plain numbers and text, for comparison; dates have more."""
    version, order, subarray, names, fields, size, alignment, flags = state[:8]
    pairs = fields.pairs if isinstance(fields, InertDict) else (fields or {}).items()
    placed = {name: (_dtype_or_value(inner), *rest) for name, (inner, *rest) in pairs}
    if subarray is not None:
        base, sides = subarray
        subarray = _dtype_or_value(base), sides
    numbers = tuple((type(n), n) for n in (version, size, alignment, flags))
    return (numbers, type(order), order, subarray, names, placed)


def _dtype_or_value(inner: Any) -> Any:
    return inner.dtype if isinstance(inner, PickledType) else inner
