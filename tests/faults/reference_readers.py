"""What torch, NumPy and safetensors read in a file: `ReferenceReaders` asks a child of its own.

The child's standard input: for each file a line, 1 where all names in it are harmless, otherwise 0,
and its path. Its standard output: a line of JSON for each,
reader → names → type, shape and bytes of what it read; a reader that raised is left out. It has
limits of memory and time and is started anew where it dies, for these libraries may crash.
"""

from __future__ import annotations

import collections
import contextlib
import io
import json
import os
import pickle
import resource
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np
import safetensors.torch
import torch

Readings = dict[str, dict[str, tuple[str, list[int], str]]]
PICKLES = "pickles"  # the bytes that a reader would hand to pickle, if it were allowed to
NAMES = "names"  # the first that each unpickler would import, were it given the file
_MAGIC = 0x1950A86A20F9469CFC6C  # behind which torch reads four pickles more
_MEMORY, _SECONDS = 12 << 30, 600


class ReferenceReaders:
    """`deaths`: how often the child had to be started anew."""

    def __init__(self, folder: Path) -> None:
        self.deaths = 0
        self._path = folder / "mutant"
        self._child: subprocess.Popen[str] | None = None

    def __enter__(self) -> ReferenceReaders:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def read(self, content: bytes, harmless: bool = False) -> tuple[Readings, list[str], list[str]]:
        """What each reader makes of a file, the pickles in it, in hexadecimal digits, and the names
        that unpicklers would import; readers that run what a file names read it only where that is
        `harmless`."""
        self._path.write_bytes(content)
        child = self._child = self._child or _started()
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            print(int(harmless), self._path, file=child.stdin, flush=True)
            answer = json.loads(child.stdout.readline())
        except (OSError, ValueError):
            self.deaths += 1
            self._end()
            return {}, [], []
        return answer, answer.pop(PICKLES), answer.pop(NAMES)

    def _end(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.communicate()
            self._child = None


def _started() -> subprocess.Popen[str]:
    root = str(Path(__file__).parents[2])
    return subprocess.Popen(
        [sys.executable, "-s", "-m", "tests.faults.reference_readers"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": root, "OMP_NUM_THREADS": "1"},
    )


def main() -> None:
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries print
    readers: dict[str, Callable[[str], Any]] = {
        "torch": lambda path: torch.load(path, weights_only=True),
        "torch, mapped": lambda path: torch.load(path, weights_only=True, mmap=True),
        "NumPy": _read_by_numpy,
        "safetensors": lambda path: safetensors.torch.load_file(path),
        "archive of torch": _read_all_records,
    }
    running: dict[str, Callable[[str], Any]] = {
        "torch, all names": lambda path: torch.load(path, weights_only=False),
        "pickle": lambda path: pickle.loads(Path(path).read_bytes()),
    }
    for line in sys.stdin:
        harmless, _, path = line.rstrip("\n").partition(" ")
        found: dict[str, Any] = {}
        for name, read in (readers | (running if harmless == "1" else {})).items():
            try:
                tree = read(path)
                found[name] = {key: _described(value) for key, value in _named(tree)}
            except Exception:
                continue
        found[PICKLES] = [content.hex() for content in _pickles(path)]
        found[NAMES] = [
            name
            for unpickler in (_Importing, _ImportingInPython)
            if (name := _first_name(unpickler, path))
        ]
        answers.write(json.dumps(found) + "\n")
        answers.flush()


def _read_all_records(path: str) -> None:
    """Raise an exception where torch does not find all members of an archive."""
    reader = torch._C.PyTorchFileReader(path)
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            reader.get_record(name.partition("/")[2])


def _read_by_numpy(path: str) -> dict[str, Any]:
    loaded = np.load(path, allow_pickle=False)
    if isinstance(loaded, np.ndarray):
        return {"array": loaded}
    found = {}
    for name in loaded.files:
        try:
            found[name] = loaded[name]
        except ValueError:  # Python objects, or damaged
            continue
    return found


def _named(tree: Any, path: str | None = None) -> Iterator[tuple[str, Any]]:
    """The dense tensors and arrays below a tree, by dotted names as the reader gives them."""
    if isinstance(tree, dict):
        pairs = [(str(key), value) for key, value in tree.items()]
    elif isinstance(tree, (list, tuple, collections.deque)):
        pairs = [(str(i), value) for i, value in enumerate(tree)]
    elif isinstance(tree, np.ndarray) or (
        isinstance(tree, torch.Tensor) and tree.layout is torch.strided and not tree.is_meta
    ):
        yield "tensor" if path is None else path, tree
        return
    else:
        return
    for name, value in pairs:
        yield from _named(value, name if path is None else f"{path}.{name}")


def _described(value: Any) -> tuple[str, list[int], str]:
    """The type, the shape and the bytes, the lowest first."""
    if isinstance(value, torch.Tensor):
        flat = value.detach().resolve_conj().resolve_neg().contiguous().view(-1)
        kind = str(value.dtype).removeprefix("torch.")
        content = flat.view(torch.uint8).numpy().tobytes() if value.numel() else b""
        return kind, list(value.shape), content.hex()
    order = value.dtype.newbyteorder("<")
    return value.dtype.name, list(value.shape), np.ascontiguousarray(value, order).tobytes().hex()


def _pickles(path: str) -> Iterator[bytes]:
    """What `torch.load(weights_only=False)` and `np.load(allow_pickle=True)` hand to pickle."""
    content = Path(path).read_bytes()
    if content.startswith(b"PK\3\4"):
        with contextlib.suppress(RuntimeError, UnicodeDecodeError):
            yield torch._C.PyTorchFileReader(path).get_record("data.pkl")
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                parts = [archive.read(name) for name in archive.namelist()]
        except Exception:
            return
    else:
        yield content
        parts = [content]
    for part in parts:
        if part.startswith(b"\x93NUMPY"):
            yield from _behind_header(part)


def _behind_header(content: bytes) -> Iterator[bytes]:
    import io

    file = io.BytesIO(content)
    try:
        version = np.lib.format.read_magic(file)
        one = version == (1, 0)
        read = np.lib.format.read_array_header_1_0 if one else np.lib.format.read_array_header_2_0
        _, _, dtype = read(file)
    except Exception:
        return
    if dtype.hasobject:
        yield file.read()


class _ImportedError(Exception):
    """A name would be imported."""


def _import(_: object, module: str, name: str) -> NoReturn:
    raise _ImportedError(f"{module}.{name}")


class _Importing(pickle.Unpickler):
    find_class = _import


class _ImportingInPython(pickle._Unpickler):
    find_class = _import


def _first_name(unpickler: Callable[[IO[bytes]], Any], path: str) -> str:
    """What an unpickler would import first, in any of the pickles of a file of torch; or ''."""
    with Path(path).open("rb") as file:
        try:
            if unpickler(file).load() == _MAGIC:
                for _ in range(4):
                    unpickler(file).load()
        except _ImportedError as name:
            return str(name)
        except Exception:
            return ""
    return ""


if __name__ == "__main__":
    main()
