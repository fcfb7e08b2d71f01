"""Files that are something else, and safetensors and NumPy files with headers that lie."""

from __future__ import annotations

import io
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np


def safetensors(head: object, body: bytes = b"") -> bytes:
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    return len(text).to_bytes(8, "little") + text + body


def entry(shape: list[Any], begin: Any, end: Any, dtype: Any = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def npy_header(
    shape: str, dtype: str = "'<f4'", version: bytes = b"\1\0", text: str | None = None
) -> bytes:
    """The beginning of a file of NumPy; `text`: another header than the usual dictionary."""
    usual = f"{{'descr': {dtype}, 'fortran_order': False, 'shape': {shape}, }}"
    head = (usual if text is None else text).encode()
    return b"\x93NUMPY" + version + len(head).to_bytes(2, "little") + head


class Evil:
    """Makes a folder where it is unpickled."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        import os

        return os.mkdir, (str(self.canary),)


OTHERS: dict[str, tuple[bytes, str]] = {
    "text": (b"hello world, this is text", "is not a checkpoint"),
    "a web page": (b"<!DOCTYPE html><html>404</html>", "is a web page"),
    "a pointer of git lfs": (b"version https://git-lfs.github.com/spec/v1\noid", "Git LFS"),
    "an HDF5 file": (b"\x89HDF\r\n\x1a\n" + b"0" * 100, "HDF5"),
    "gzip": (b"\x1f\x8b\x08\0" + b"0" * 50, "gzip"),
    "GGUF": (b"GGUF\3\0\0\0" + b"0" * 50, "GGUF"),
    "a program": (b"\x7fELF\2\1\1" + b"\0" * 100, "is not a checkpoint"),
    "a picture": (b"\x89PNG\r\n\x1a\n" + b"\0" * 100, "is not a checkpoint"),
    "a tar archive": (b"storages" + b"\0" * 1016, "is not a checkpoint"),
    "noise": (np.random.default_rng(5).bytes(5000), "is not a checkpoint"),
    "no bytes": (b"", "is empty"),
    "one byte": (b"P", "is not a checkpoint"),
    "zeros": (b"\0" * 5000, "is not a checkpoint"),
    "JSON": (b'{"weights": [1, 2, 3]}', "is not a checkpoint"),
}


def safetensors_files() -> dict[str, tuple[bytes, str]]:
    """Made anew each time: they take 30 MB."""
    many = {str(i): entry([1], 4 * i, 4 * i + 4) for i in range(100_000)}
    return {
        "header longer than the file": (safetensors(b"{}")[:9], "longer than the file"),
        "header of 2^62": ((2**62).to_bytes(8, "little") + b"{}", "longer than the file"),
        "header not JSON": (safetensors(b"{not json}"), "invalid safetensors header"),
        "header not UTF-8": (safetensors(b'{"\xff\xfe":1}'), "invalid safetensors header"),
        "header of UTF-16": (
            safetensors('{"a":1}'.encode("utf-16-le")),
            "invalid safetensors header",
        ),
        "header too deep": (safetensors(b'{"a":' + b"[" * 100_000), "invalid safetensors header"),
        "header of endless numbers": (
            safetensors(b'{"a":' + b"9" * 100_000 + b"}"),
            "invalid safetensors header",
        ),
        "header of 20 MB": (safetensors(b"{" + b" " * (20 << 20) + b"}"), "unreasonable size"),
        "10^5 tensors": (safetensors(many, b"0" * 400_000), "100,000 tensors, which is too many"),
        "one name twice": (safetensors(b'{"a":1,"a":2}'), "a repeated name"),
        "no tensors": (safetensors({}), "no tensors"),
        "an entry that is a number": (safetensors({"a": 1}), "without the type, shape"),
        "no shape": (safetensors({"a": {"dtype": "F32"}}), "without the type, shape"),
        "huge shape": (
            safetensors({"a": entry([2**40], 0, 4)}, b"0000"),
            "does not match its size|wrong size",
        ),
        "shape that overflows": (
            safetensors({"a": entry([2**32, 2**33], 0, 4)}, b"0000"),
            "impossible",
        ),
        "hundred dimensions": (safetensors({"a": entry([1] * 100, 0, 4)}, b"0000"), "impossible"),
        "outside the file": (safetensors({"a": entry([2], 0, 8)}, b"0000"), "outside the file"),
        "backwards": (safetensors({"a": entry([0], 4, 0)}, b"0000"), "outside the file"),
        "negative side": (safetensors({"a": entry([-1], 0, 4)}, b"0000"), "impossible"),
        "negative place": (safetensors({"a": entry([1], -4, 0)}, b"0000"), "impossible"),
        "sides that are floats": (safetensors({"a": entry([1.0], 0, 4)}, b"0000"), "impossible"),
        "sides that are bools": (safetensors({"a": entry([True], 0, 4)}, b"0000"), "impossible"),
        "a type that is a list": (safetensors({"a": entry([1], 0, 4, [])}, b"0000"), "impossible"),
        "overlapping tensors": (
            safetensors({str(i): entry([25], 0, 100) for i in range(99)}, b"0" * 100),
            "overlap",
        ),
        "a hole between tensors": (
            safetensors({"a": entry([1], 0, 4), "b": entry([1], 8, 12)}, b"0" * 12),
            "belong to none",
        ),
        "bytes behind the tensors": (
            safetensors({"a": entry([1], 0, 4)}, b"0000PK\5\6" + b"\0" * 18),
            "belong to none",
        ),
        "only types of the future": (
            safetensors({"a": entry([2], 0, 1, "F4")}, b"0"),
            r"no tensors .* a \(F4\)",
        ),
    }


# What Python would take for a number, or for a header, and is none of the form that numpy writes.
SIDES = (
    *("10**9", "2*2", "4-0", "+4", "-4", "~4", "--4", "0x4", "4_0", "04", "4e0", "4j"),
    *("'4'", "None", "True"),
    *("4 if 1 else 2", "4 or 2", "[4]", "4;4", "\uff14", "4 # 5", "x", "4.", "not 4", "4 4"),
)
_START = "{'descr': '<f4', 'fortran_order': False, 'shape': "
HEADERS = (
    _START + "4}",
    _START + "(4)}",
    _START + "[4]}",
    _START + "(4,)+(4,)}",
    _START + "(4,)*2}",
    _START + "((4,))}",
    _START + "(4,), 'x': 10**9}",
    _START + "(4,), 'shape': (4,)}",
    _START + "(4,), 'shape': ()}",
    _START + "(4,)} | {}",
    _START + "(4,)}.copy()",
    _START + "(4,)}\n{}",
    _START + "(4,), **{}}",
    _START + "(4,) if 1 else ()}",
    "{'descr': '<' 'f4', 'fortran_order': False, 'shape': (4,)}",
    "{'descr': '<f4'[0:], 'fortran_order': False, 'shape': (4,)}",
    "{'descr': '\\x3cf4', 'fortran_order': False, 'shape': (4,)}",
    "{'descr': f'<f4', 'fortran_order': False, 'shape': (4,)}",
    "{'descr': '<f4', 'fortran_order': not True, 'shape': (4,)}",
    "{'descr': '<f4', 'fortran_order': 0, 'shape': (4,)}",
    "{'descr': '<f4', 'fortran_order': False, 'sha' 'pe': (4,)}",
    "{'descr': '<f4',, 'fortran_order': False, 'shape': (4,)}",
    "{'descr': '<f4' 'fortran_order': False 'shape': (4,)}",
    "dict(descr='<f4', fortran_order=False, shape=(4,))",
    "({'descr': '<f4', 'fortran_order': False, 'shape': (4,)})",
    "# {'descr': '<f4', 'fortran_order': False, 'shape': (4,)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (4,)} # }",
    "{'descr': '<f4', 'shape': (4,)}",
    "{}",
    "",
)


def npy(canary: Path) -> dict[str, tuple[bytes, str]]:
    """NumPy files; the objects in them would make the canary."""
    objects = io.BytesIO()
    np.savez(objects, o=np.array([Evil(canary)], dtype=object))
    return {
        "npy of 2^60 numbers": (npy_header(f"({2**60},)") + b"0000", "impossible"),
        "npy of 2^40 numbers": (npy_header(f"({2**40},)") + b"0000", "incomplete"),
        "npy of a type that is none": (npy_header("(1,)", "'<b4'") + b"0000", "numbers of type"),
        "npy with a negative side": (npy_header("(-1,)") + b"0000", "damaged header"),
        "npy with half a side": (npy_header("(0.5,)") + b"0000", "damaged header"),
        "npy with a side of 10^20": (npy_header(f"({10**20},)") + b"0000", "impossible"),
        "npy with code for a header": (npy_header("__import__('os')"), "damaged header"),
        "npy with code for a side": (npy_header("(exit(),)"), "damaged header"),
        "npy with a header too deep": (npy_header("(" * 5000), "damaged header"),
        "npy with a header too long": (npy_header("(1,)" + " " * 20_000), "damaged header"),
        **{
            f"npy with a side that is no plain number, {i}": (
                npy_header(f"({side},)") + b"0" * 64,
                "damaged header|impossible",
            )
            for i, side in enumerate(SIDES, 1)
        },
        **{
            f"npy with a header of another form, {i}": (
                npy_header("", text=text) + b"0" * 64,
                "damaged header",
            )
            for i, text in enumerate(HEADERS, 1)
        },
        "npy of objects": (npy_header("(1,)", "'|O'") + pickle.dumps(Evil(canary)), "objects"),
        "npy of text": (npy_header("(1,)", "'<U4'") + b"0" * 16, "not supported|unsupported"),
        "npy of records": (
            npy_header("(1,)", "[('a', '<f4')]") + b"0000",
            "not supported|unsupported",
        ),
        "npy of complex numbers": (npy_header("(1,)", "'<c8'") + b"0" * 8, "type <c8, which"),
        "npy of dates": (npy_header("(1,)", "'<M8[s]'") + b"0" * 8, "not supported|unsupported"),
        "npy of no type": (npy_header("(1,)", "'<f3'") + b"000", "damaged|not supported"),
        "npy of the future": (npy_header("(1,)", version=b"\x09\0") + b"0000", "damaged header"),
        "npy cut off": (npy_header("(4,)") + b"0000", "does not match its size|wrong size"),
        "npy with more behind": (
            npy_header("(1,)") + b"00000000",
            "does not match its size|wrong size",
        ),
        "npz of objects": (objects.getvalue(), "Python objects"),
    }
