"""Reading .npy and .npz from bytes: headers first, never a Python object."""

from __future__ import annotations

import io
import math
import warnings
from typing import IO, Any

import numpy as np

from dgn_engine.checkpoints.contents import Array, Contents, Unreadable, is_sound, plain
from dgn_engine.checkpoints.number_types import LAYOUT
from dgn_engine.checkpoints.zips import Archive

NPY = b"\x93NUMPY"


def read_npy(content: bytes) -> Contents:
    """One array under the name 'array'."""
    array, dtype = _array("array", io.BytesIO(content), len(content))
    if array is None:
        raise Unreadable(f"holds {dtype}, not numbers, and was refused")
    return Contents({"array": array}, {"array": dtype}, kind="NumPy array")


def read_npz(archive: Archive) -> Contents:
    """Every array of numbers by its name; members that hold Python objects are left aside."""
    arrays: dict[str, Array] = {}
    dtypes: dict[str, str] = {}
    ignored: list[str] = []
    for file_name, member in archive.members.items():
        name = file_name.removesuffix(".npy")
        if not file_name.endswith(".npy"):
            ignored.append(f"{file_name} (not an array)")
            continue
        try:
            with archive.file.open(member) as stream:
                array, dtype = _array(name, stream, member.file_size)
        except (Unreadable, MemoryError):
            raise
        except Exception as error:  # a broken archive fails in many types of exception
            raise Unreadable(f"is damaged in {plain(name)} ({plain(str(error))})") from None
        if array is None:
            ignored.append(f"{name} ({dtype})")
        else:
            arrays[name], dtypes[name] = array, dtype
    if not arrays and ignored:
        raise Unreadable("holds Python objects or other things, but no arrays of numbers")
    return Contents(arrays, dtypes, tuple(ignored), kind="NumPy arrays")


def _array(name: str, stream: IO[bytes], size: int) -> tuple[Array | None, str]:
    """The array, or None where it is not of real numbers; and the type in words."""
    shape, fortran, dtype = _header(name, stream)
    if dtype.hasobject:
        return None, "Python objects"
    if dtype.name not in LAYOUT or dtype.subdtype is not None:
        return None, plain(str(dtype), 60)
    if not is_sound(shape):
        raise Unreadable(f"declares an impossible shape for {plain(name)}")
    wanted = math.prod(shape) * dtype.itemsize
    if wanted > size:  # before a byte is asked for: a header can declare any size
        raise Unreadable(f"is cut off, or its header lies: {plain(name)} is not all there")
    content = stream.read(wanted)
    if len(content) != wanted or stream.read(1):
        raise Unreadable(f"declares a shape for {plain(name)} that its bytes do not fill")
    flat = np.frombuffer(content, dtype)
    return flat.reshape(shape, order="F" if fortran else "C"), dtype.name


def _header(name: str, stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and type; numpy bounds the header and takes no more than literals from it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            version = np.lib.format.read_magic(stream)
            if version == (1, 0):
                return np.lib.format.read_array_header_1_0(stream)
            return np.lib.format.read_array_header_2_0(stream)
    except MemoryError:
        raise Unreadable(f"has a damaged header in {plain(name)} (too deep)") from None
    except Exception as error:  # the header is parsed as Python: it fails in many types
        raise Unreadable(f"has a damaged header in {plain(name)} ({plain(str(error))})") from None
