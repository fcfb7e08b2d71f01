"""Reads .npy and .npz from bytes: headers first, never a Python object.

The header is a literal of Python with three keys. `np.lib.format` would hand it to Python's
compiler and give fewer reasons for a refusal, so patterns take the values out. Nothing but the
three keys and plain literals may stand there: no arithmetic, no comments, no other key.
"""

from __future__ import annotations

import math
import re
from io import BufferedReader
from typing import IO

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
from dgn_engine.text.printable import plain

NPY = b"\x93NUMPY"
_LONGEST = 10_000  # characters of a header
_ENTRY = re.compile(
    r"""[ ]*(?P<quote>['"])(?:
        shape(?P=quote)[ ]*:[ ]*\((?P<shape>[^(){}]*)\)
        | fortran_order(?P=quote)[ ]*:[ ]*(?P<order>True|False)
        | descr(?P=quote)[ ]*:[ ]*(?P<code>'[^'\\]*'|"[^"\\]*"|\[[^:{}\\]*\])
    )[ ]*(?:,|(?=\}))""",
    re.VERBOSE,
)
_SIDE = re.compile(r"0|[1-9][0-9]{0,14}")
_NUMBER = re.compile(r"[<>|=]?(f[248]|[iu][1248]|b1)")
# Types as NumPy writes them whose numbers, texts, times or bytes lie behind the header as they are.
_PLAIN = r"[<>|=]?(?:[?fiucbSUaV][0-9]{0,9}|[mM]8(?:\[[0-9A-Za-zμ/]{1,30}\])?)"
_TEXT = r"""(?:'[^']*'|"[^"]*")"""
_FIELD = (
    rf"\( *+(?:{_TEXT}|\( *+{_TEXT} *+, *+{_TEXT} *+\)) *+, *+(?:'{_PLAIN}'|\"{_PLAIN}\") *+"
    r"(?:, *+\([0-9, ]*+\) *+)?\) *+"
)
_FIELDS = re.compile(rf"\[ *+{_FIELD}(?:, *+{_FIELD})*+(?:, *+)?\]")
_DEEPEST = 8  # fields within each other


def read_npy(content: Content, calls: CallRecorder) -> ParsedFile:
    array, dtype = _array("array", BufferedReader(ContentStream(content)), len(content), calls)
    if array is None:
        raise UnreadableFile(f"holds {dtype}, which are not read")
    return ParsedFile({"array": array}, {"array": dtype}, kind="NumPy array")


def is_npz(archive: ZipArchive) -> bool:
    """Whether NumPy would find an array in an archive: by its first bytes, whatever its name."""
    return any(_is_array(archive, name) for name in archive.members)


def read_npz(archive: ZipArchive, calls: CallRecorder) -> ParsedFile:
    """Every array of numbers by its name; members that hold Python objects are ignored."""
    arrays: dict[str, Array] = {}
    dtypes: dict[str, str] = {}
    ignored: list[str] = []
    for file_name, member in archive.members.items():
        name = file_name.removesuffix(".npy")
        if name != file_name and name in archive.members:
            raise UnreadableFile(
                f"holds {plain(name)} and {plain(file_name)}, which have one name in NumPy"
            )
        if not _is_array(archive, file_name):
            ignored.append(f"{file_name} (not an array)")
            continue
        try:
            with archive.file.open(member) as stream:
                array, dtype = _array(name, stream, member.file_size, calls)
        except (UnreadableFile, Forbidden, MemoryError):
            raise
        except Exception as error:  # a broken archive fails in many types of exception
            raise UnreadableFile(f"is damaged in {plain(name)} ({plain(str(error))})") from None
        if array is None:
            ignored.append(f"{name} ({dtype})")
        else:
            arrays[name], dtypes[name] = array, dtype
    if not arrays and ignored:
        raise UnreadableFile("holds Python objects or other things, but no arrays of numbers")
    return ParsedFile(arrays, dtypes, tuple(ignored), kind="NumPy arrays")


def _is_array(archive: ZipArchive, name: str) -> bool:
    return name.endswith(".npy") or archive.begins_with(name, NPY)


def _array(
    name: str, stream: IO[bytes], size: int, calls: CallRecorder
) -> tuple[Array | None, str]:
    """The array, or None where it does not hold real numbers; and the type in words.

    Python objects are a pickle behind the header, of which only the calls are looked for. NumPy
    knows their types by many names ('|O', 'object_', 'T', fields of them): so all types but those
    known to have none are taken for such.
    """
    shape, fortran, code = _header(name, stream)
    if not _is_free_of_objects(code):
        calls.look_through(stream.read(limits.PICKLE), name)
        return None, "Python objects" if "O" in code else f"numbers of type {plain(code, 60)}"
    if not _NUMBER.fullmatch(code) or np.dtype(code).name not in LAYOUT:
        return None, f"numbers of type {plain(code, 60)}"
    dtype = np.dtype(code)
    if not is_sound(shape):
        raise UnreadableFile(f"declares an impossible shape for {plain(name)}")
    wanted = math.prod(shape) * dtype.itemsize
    if wanted > size:  # checked before anything is allocated
        raise UnreadableFile(f"is cut off, or its header lies: {plain(name)} is not all there")
    content = stream.read(wanted)
    if len(content) != wanted or stream.read(1):
        raise UnreadableFile(f"declares a shape for {plain(name)} that its bytes do not fill")
    flat = np.frombuffer(content, dtype)
    return flat.reshape(shape, order="F" if fortran else "C"), dtype.name


def _is_free_of_objects(code: str) -> bool:
    """Whether NumPy reads no pickle for a type: it is plain, or all its fields are."""
    for _ in range(_DEEPEST):
        code = _FIELDS.sub("'V'", code)  # the innermost
    return code == "'V'" or re.fullmatch(_PLAIN, code) is not None


def _header(name: str, stream: IO[bytes]) -> tuple[tuple[int, ...], bool, str]:
    """The shape, whether the order is Fortran's, and the code of the type."""
    start = stream.read(8)
    width = {b"\1\0": 2, b"\2\0": 4, b"\3\0": 4}.get(start[6:8], 0)
    length = int.from_bytes(stream.read(width), "little")
    sound = start.startswith(NPY) and width and length <= _LONGEST
    text = stream.read(length).decode("utf-8", "replace") if sound else ""
    text = text.removesuffix("\n").strip(" ")  # NumPy takes no other white space
    values = _literals(text)
    if values is None:
        raise UnreadableFile(f"has a damaged header in {plain(name)}")
    of_python_2 = "L" if start[6] < 3 else ""  # how it wrote its long numbers
    sides = [side.strip(" ").removesuffix(of_python_2) for side in values["shape"].split(",")]
    if not sides[-1]:  # behind the last comma, or of no side at all
        sides.pop()
    elif len(sides) == 1:
        raise UnreadableFile(f"has a damaged header in {plain(name)}")  # a number is no shape
    if not all(_SIDE.fullmatch(side) for side in sides):
        raise UnreadableFile(f"declares an impossible shape for {plain(name)}")
    shape = tuple(int(side) for side in sides)
    code = values["code"]
    return shape, values["order"] == "True", code if code.startswith("[") else code[1:-1]


def _literals(text: str) -> dict[str, str] | None:
    """The text of the three values; None where the header is anything but their dictionary."""
    found: dict[str, str] = {}
    place = 1
    while entry := _ENTRY.match(text, place):
        values = entry.groupdict()
        del values["quote"]
        value = {key: one for key, one in values.items() if one is not None}
        if set(value) & set(found):
            return None
        found |= value
        place = entry.end()
    whole = text[:1] == "{" and text[place:].strip(" ") == "}" and len(found) == 3
    return found if whole else None
