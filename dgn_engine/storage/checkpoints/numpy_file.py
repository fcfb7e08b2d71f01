"""Read .npy and .npz from bytes: headers first, never a Python object.

The header is a Python literal with three keys and is parsed as one, as in NumPy. Anything that
NumPy would not write is refused first: arithmetic, comments, other number notations, repeated keys.
"""

from __future__ import annotations

import ast
import io
import math
import re
import tokenize
import warnings
from typing import IO, Any

import numpy as np

from dgn_engine.confinement.process import Forbidden
from dgn_engine.storage.checkpoints import limits
from dgn_engine.storage.checkpoints.call_recorder import CallRecorder
from dgn_engine.storage.checkpoints.contents import (
    LAYOUT,
    Array,
    ParsedFile,
    UnreadableFile,
    is_sound,
)
from dgn_engine.storage.checkpoints.file_content import Content, ContentStream
from dgn_engine.storage.checkpoints.zip_archive import ZipArchive
from dgn_engine.text.printable import plain_text

NPY = b"\x93NUMPY"
_LONGEST = 10_000  # characters of a header
_WHOLE = re.compile(r"0|[1-9][0-9]{0,99}")
_NUMBER = re.compile(r"[<>|=]?(f[248]|[iu][1248]|b1)")
# Types as NumPy writes them whose data follow the header as plain bytes.
_PLAIN = re.compile(
    r"[<>|=]?(?:[?fiucbSUaV][0-9]{0,9}|[mM]8(?:\[[0-9A-Za-zμ/]{1,30}\])?)",
)
_SIGNS = frozenset("{}[](),:")
_KEYS = frozenset(("descr", "fortran_order", "shape"))
_DEEPEST = 8  # nested fields


def read_npy(content: Content, calls: CallRecorder) -> ParsedFile:
    array, dtype = _read_array(
        "array", io.BufferedReader(ContentStream(content)), len(content), calls
    )
    if array is None:
        raise UnreadableFile(f"has {dtype}, which are not supported", kind="no-numbers")
    return ParsedFile("", {"array": array}, {"array": dtype}, kind="NumPy array")


def is_npz(archive: ZipArchive) -> bool:
    """Return whether NumPy would find an array in an archive, by its first bytes."""
    return any(_is_array(archive, name) for name in archive.members)


def read_npz(archive: ZipArchive, calls: CallRecorder) -> ParsedFile:
    """Return every array of numbers by name; members with Python objects are ignored."""
    arrays: dict[str, Array] = {}
    dtypes: dict[str, str] = {}
    ignored: list[str] = []
    for file_name, member in archive.members.items():
        name = file_name.removesuffix(".npy")
        if name != file_name and name in archive.members:
            raise UnreadableFile(
                f"has {plain_text(name)} and {plain_text(file_name)}, which share one name "
                "in NumPy",
                kind="named-twice",
            )
        if not _is_array(archive, file_name):
            ignored.append(f"{file_name} (not an array)")
            continue
        try:
            with archive.file.open(member) as stream:
                array, dtype = _read_array(name, stream, member.file_size, calls)
        except (UnreadableFile, Forbidden, MemoryError):
            raise
        except Exception as error:  # a broken archive fails in many types of exception
            raise UnreadableFile(
                f"is damaged in {plain_text(name)} ({plain_text(str(error))})",
                kind="damaged",
                value=name,
            ) from None
        if array is None:
            ignored.append(f"{name} ({dtype})")
        else:
            arrays[name], dtypes[name] = array, dtype
    if not arrays and ignored:
        raise UnreadableFile(
            "has Python objects or other content, but no arrays of numbers", kind="no-numbers"
        )
    return ParsedFile("", arrays, dtypes, tuple(ignored), kind="NumPy arrays")


def _is_array(archive: ZipArchive, name: str) -> bool:
    return name.endswith(".npy") or archive.begins_with(name, NPY)


def _read_array(
    name: str, stream: IO[bytes], size: int, calls: CallRecorder
) -> tuple[Array | None, str]:
    """Return the array, or None if it does not hold real numbers; and a description of its type.

    Python objects are a pickle after the header, which is only scanned for calls. NumPy knows their
    types by many names ('|O', 'object_', 'T', fields of them), so every type that is not known to
    be free of objects is treated as such.
    """
    shape, fortran, kind = _read_header(name, stream)
    code = kind if isinstance(kind, str) else repr(kind)
    if not _is_free_of_objects(kind):
        calls.look_through(stream.read(limits.PICKLE), name)
        return None, "Python objects" if "O" in code else f"numbers of type {plain_text(code, 60)}"
    if not _NUMBER.fullmatch(code) or np.dtype(code).name not in LAYOUT:
        return None, f"numbers of type {plain_text(code, 60)}"
    dtype = np.dtype(code)
    if not is_sound(shape):
        raise UnreadableFile(
            f"declares an impossible shape for {plain_text(name)}", kind="wrong-shape", value=name
        )
    expected = math.prod(shape) * dtype.itemsize
    if expected > size:  # checked before anything is allocated
        raise UnreadableFile(
            f"is cut off, or has a wrong header: {plain_text(name)} is incomplete",
            kind="cut-off",
            value=name,
        )
    content = stream.read(expected)
    if len(content) != expected or stream.read(1):
        raise UnreadableFile(
            f"declares a shape for {plain_text(name)} that does not match its size",
            kind="wrong-length",
            value=name,
        )
    flat = np.frombuffer(content, dtype)
    return flat.reshape(shape, order="F" if fortran else "C"), dtype.name


def _is_free_of_objects(kind: Any, deepest: int = _DEEPEST) -> bool:
    """Return whether NumPy reads no pickle for a type: it is plain, or all its fields are."""
    if isinstance(kind, str):
        return _PLAIN.fullmatch(kind) is not None
    fields = kind if isinstance(kind, list) and deepest else [None]
    return all(
        isinstance(field, tuple)
        and len(field) in (2, 3)
        and isinstance(field[0], (str, tuple))
        and _is_free_of_objects(field[1], deepest - 1)
        and all(map(_is_shape, field[2:]))  # NumPy takes another type there, too
        for field in fields
    )


def _is_shape(sides: Any) -> bool:
    return isinstance(sides, tuple) and all(type(side) is int for side in sides)


def _read_header(name: str, stream: IO[bytes]) -> tuple[tuple[int, ...], bool, Any]:
    """Return the shape, whether the order is Fortran's, and the type: a text or list of fields."""
    start = stream.read(8)
    width = {b"\1\0": 2, b"\2\0": 4, b"\3\0": 4}.get(start[6:8], 0)
    length = int.from_bytes(stream.read(width), "little")
    sound = start.startswith(NPY) and width and length <= _LONGEST
    values = _parse_header_dict(stream.read(length), start[6]) if sound else None
    if values is None or not isinstance(values["fortran_order"], bool):
        raise UnreadableFile(
            f"has a damaged header in {plain_text(name)}", kind="damaged", value=name
        )
    shape, kind = values["shape"], values["descr"]
    if not isinstance(shape, tuple) or not isinstance(kind, (str, list, tuple)):
        raise UnreadableFile(
            f"has a damaged header in {plain_text(name)}", kind="damaged", value=name
        )
    if not _is_shape(shape):
        raise UnreadableFile(
            f"declares an impossible shape for {plain_text(name)}", kind="wrong-shape", value=name
        )
    return shape, values["fortran_order"], kind


def _parse_header_dict(head: bytes, version: int) -> dict[str, Any] | None:
    """Return the three values; None if the header is not exactly their dictionary."""
    try:
        text = head.decode("utf-8" if version == 3 else "latin-1")
        text = text.removesuffix("\n").strip(" ")  # NumPy takes no other white space
        words = _tokenize_header(text, of_python_2=version < 3)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # of texts with a backslash
            header = ast.literal_eval(" ".join(words).strip())
        # No extra brackets, no repeated key.
        same = _signs_in(words) == _signs_in(_tokenize_header(repr(header)))
    except (ValueError, TypeError, SyntaxError, tokenize.TokenError, MemoryError, RecursionError):
        return None
    if not isinstance(header, dict) or header.keys() != _KEYS:
        return None
    coded = isinstance(header["descr"], str) and "\\" in text
    return header if same and not coded else None


def _signs_in(words: list[str]) -> list[str]:
    """Return the signs among words except commas, as a trailing one is optional."""
    return [word for word in words if word in _SIGNS and word != ","]


def _tokenize_header(text: str, *, of_python_2: bool = False) -> list[str]:
    """Split a header into texts, integers, booleans and signs.

    Python 2 wrote an L after its long numbers, which is dropped.

    Raises:
        ValueError: NumPy would not write it.
    """
    if not text.isprintable():
        raise ValueError(text)
    words: list[str] = []
    before = tokenize.ENCODING
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        word = token.string
        match token.type:
            case tokenize.OP:
                sound = word in _SIGNS
            case tokenize.NUMBER:
                sound = _WHOLE.fullmatch(word) is not None
            case tokenize.STRING:
                sound = word[0] in "'\"" and before != tokenize.STRING
            case tokenize.NAME if word == "L" and before == tokenize.NUMBER:
                sound, word = of_python_2, ""
            case tokenize.NAME:
                sound = word in ("True", "False")
            case _:
                sound = not word  # the end
        if not sound:
            raise ValueError(word)
        words.append(word)
        before = token.type
    return words
