"""Records every change of files below a folder, in order, as the operating system is asked for it.

`RecordedDisk` stands between the code and the system: each function of `os`, and each file object
that can write, does what it always does and is written down. What `Operation` says is enough to
replay it (`crashed_disk`); a test holds the replay against the folder, so that nothing that went
another way stays unseen. An operation can be made to fail.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

Kind = Literal[
    "create",
    "mkdir",
    "write",
    "truncate",
    "fsync",
    "link",
    "rename",
    "unlink",
    "rmdir",
    "promise",
    "unsynced",
]
DATA = ("write", "truncate")
NAMES = ("create", "mkdir", "link", "rename", "unlink", "rmdir")
Tree = Mapping[str, bytes | None]  # files by their paths; None: a folder
_ROOT = 0  # the number of the folder itself


@dataclass(frozen=True)
class Operation:
    """One change. `path`: below the recorded folder, as it was named then; `to`: its new name.

    `inode`: the file or folder by a number that it keeps when it is renamed. `unsynced` is a sync
    that failed: what was written before may be gone, whatever is synced later. `promise`: what the
    code had finished at that place, put there by a test.
    """

    kind: Kind
    path: str = ""
    inode: int = -1
    folder: int = -1
    to: str = ""
    to_folder: int = -1
    place: int = 0
    content: bytes = b""
    promise: Any = None

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def new_name(self) -> str:
        return self.to.rpartition("/")[2]


@dataclass
class Names:
    """Numbers of files and folders by their paths, and what the folder held at the beginning."""

    inodes: dict[str, int] = field(default_factory=lambda: {"": _ROOT})
    next: int = 1

    def add(self, path: str) -> int:
        self.inodes[path] = self.next
        self.next += 1
        return self.inodes[path]

    def move(self, path: str, to: str) -> None:
        for old in [one for one in self.inodes if one == to or one.startswith(f"{to}/")]:
            del self.inodes[old]
        for old in [one for one in self.inodes if one == path or one.startswith(f"{path}/")]:
            self.inodes[to + old[len(path) :]] = self.inodes.pop(old)

    def folder(self, path: str) -> int:
        return self.inodes[path.rpartition("/")[0]]


class RecordedDisk:
    """`operations` of what is below `root`, as long as it is entered.

    `fails`: asked before each operation with its number and kind; an error code makes it fail
    with nothing done, or, where `torn`, with half of what it would write done.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.operations: list[Operation] = []
        self.fails: Callable[[int, Kind], int] = lambda _number, _kind: 0
        self.torn = False
        self.asked = 0
        self._names = Names()
        self.before: list[Operation] = []
        self._handles: dict[int, str] = {}
        self._remember_what_is_there()
        self._real = {
            name: getattr(os, name)
            for name in (
                *("open", "close", "write", "pwrite", "ftruncate", "truncate", "fsync"),
                *("rename", "replace", "unlink", "remove", "mkdir", "rmdir", "link", "symlink"),
                "sendfile",
            )
            if hasattr(os, name)
        }
        self._patch = pytest.MonkeyPatch()

    def __enter__(self) -> RecordedDisk:
        self._wrap(self._patch)
        return self

    def __exit__(self, *error: object) -> None:
        self._patch.undo()
        if error == (None, None, None):
            there = {
                path.relative_to(self.root).as_posix(): None if path.is_dir() else path.read_bytes()
                for path in self.root.rglob("*")
            }
            assert self.tree() == there, "something was written that was not recorded"

    def tree(self) -> Tree:
        """The folder as the operations have made it."""
        return replay([*self.before, *self.operations])

    def promise(self, what: object) -> None:
        self.operations.append(Operation("promise", promise=what))

    def inode(self, path: Path) -> int:
        return self._names.inodes[self._below(path) or ""]

    # What is wrapped

    def _wrap(self, patch: pytest.MonkeyPatch) -> None:
        real = self._real
        for name in ("open", "close", "write", "pwrite", "ftruncate", "fsync", "mkdir"):
            patch.setattr(os, name, getattr(self, f"_{name}"))
        for name in ("unlink", "remove"):
            patch.setattr(os, name, self._unlink)
        patch.setattr(os, "rmdir", self._rmdir)
        for name in ("rename", "replace"):
            patch.setattr(os, name, self._renamer(real[name]))
        patch.setattr(os, "sendfile", self._sendfile, raising=False)
        patch.setattr(os, "link", self._link)
        for name in ("truncate", "symlink"):
            patch.setattr(os, name, self._refused(name))
        opened = io.open
        kind = self._file_kind()

        def open_file(
            file: Any, mode: str = "r", buffering: int = -1, *more: Any, **named: Any
        ) -> Any:
            if not set(mode) & set("wax+") or self._below(file) is None:
                return opened(file, mode, buffering, *more, **named)
            raw = kind(file, mode.replace("b", "").replace("t", ""))
            if buffering == 0:
                return raw
            buffered: Any = (io.BufferedRandom if "+" in mode else io.BufferedWriter)(raw)
            return buffered if "b" in mode else io.TextIOWrapper(buffered, *more, **named)

        patch.setattr(io, "open", open_file)
        patch.setattr(builtins, "open", open_file)
        patch.setattr(io, "FileIO", kind)

    def _file_kind(self) -> type[io.FileIO]:
        disk = self

        class RecordedFile(io.FileIO):
            def __init__(self, file: Any, mode: str = "r", *more: Any, **named: Any) -> None:
                path, new = disk._below(file), not isinstance(file, int)
                self._path = path if set(mode) & set("wax+") else None
                if self._path is not None and new:
                    disk._before_opening(self._path, create="r" not in mode, empty="w" in mode)
                super().__init__(file, mode, *more, **named)
                if self._path is not None:
                    if new:
                        disk._after_opening(self._path, empty="w" in mode)
                    disk._handles[self.fileno()] = self._path
                    self._appends = "a" in mode

            def write(self, content: Any) -> int:
                if self._path is None:
                    return super().write(content)
                whole = bytes(content)
                place = os.fstat(self.fileno()).st_size if self._appends else self.tell()
                return disk._written(self._path, place, whole, super().write)

            def truncate(self, size: int | None = None) -> int:
                size = self.tell() if size is None else size
                if self._path is None:
                    return super().truncate(size)
                disk._ask("truncate")
                super().truncate(size)
                disk._truncated(self._path, size)
                return size

            def close(self) -> None:
                if not self.closed and self._path is not None:
                    disk._handles.pop(self.fileno(), None)
                super().close()

        return RecordedFile

    # Functions of `os`

    def _open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        inner = self._below(path, dir_fd)
        writes = bool(flags & (os.O_WRONLY | os.O_RDWR))
        if inner is not None and writes:
            self._before_opening(inner, bool(flags & os.O_CREAT), bool(flags & os.O_TRUNC))
        handle: int = self._real["open"](path, flags, mode, dir_fd=dir_fd)
        self._handles.pop(handle, None)  # of a file that was closed unseen
        if inner is not None:
            self._handles[handle] = inner
            if writes:
                self._after_opening(inner, bool(flags & os.O_TRUNC))
        return handle

    def _close(self, handle: int) -> None:
        self._handles.pop(handle, None)
        self._real["close"](handle)

    def _write(self, handle: int, content: Any) -> int:
        place = os.lseek(handle, 0, os.SEEK_CUR) if handle in self._handles else 0
        return self._pwrite(handle, content, place, lambda b: self._real["write"](handle, b))

    def _pwrite(self, handle: int, content: Any, place: int, write: Any = None) -> int:
        write = write or (lambda b: self._real["pwrite"](handle, b, place))
        if handle not in self._handles:
            return int(write(content))
        return self._written(self._handles[handle], place, bytes(content), write)

    def _ftruncate(self, handle: int, size: int) -> None:
        if handle in self._handles:
            self._ask("truncate")
        self._real["ftruncate"](handle, size)
        if handle in self._handles:
            self._truncated(self._handles[handle], size)

    def _sendfile(self, target: int, *more: Any, **named: Any) -> int:
        if target in self._handles:  # whoever copies then writes
            raise OSError(errno.ENOTSOCK, os.strerror(errno.ENOTSOCK))
        return int(self._real["sendfile"](target, *more, **named))

    def _fsync(self, handle: int) -> None:
        path = self._handles.get(handle)
        if path is None:
            self._real["fsync"](handle)
            return
        inode = self._names.inodes[path]
        try:
            self._ask("fsync")
            self._real["fsync"](handle)
        except OSError:
            self.operations.append(Operation("unsynced", path, inode))
            raise
        self.operations.append(Operation("fsync", path, inode))

    def _mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        inner = self._below(path, dir_fd)
        if inner is not None and not os.path.lexists(self.root / inner):
            self._ask("mkdir")
        self._real["mkdir"](path, mode, dir_fd=dir_fd)
        if inner is not None:
            folder = self._names.folder(inner)
            self.operations.append(Operation("mkdir", inner, self._names.add(inner), folder))

    def _unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        self._remove("unlink", path, dir_fd)

    def _rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        self._remove("rmdir", path, dir_fd)

    def _remove(self, kind: Literal["unlink", "rmdir"], path: Any, dir_fd: int | None) -> None:
        inner = self._below(path, dir_fd)
        if inner is not None and inner in self._names.inodes:
            self._ask(kind)
        self._real[kind](path, dir_fd=dir_fd)
        if inner is not None:
            folder, inode = self._names.folder(inner), self._names.inodes.pop(inner)
            self.operations.append(Operation(kind, inner, inode, folder))

    def _link(self, source: Any, target: Any, **named: Any) -> None:
        path, to = self._below_both(source, target, named)
        if path is None or to is None:
            assert to is None, f"{target} is linked to what lies elsewhere"
            self._real["link"](source, target, **named)
            return
        self._ask("link")
        self._real["link"](source, target, **named)
        inode, folder = self._names.inodes[path], self._names.folder(to)
        self._names.inodes[to] = inode
        self.operations.append(Operation("link", to, inode, folder))

    def _renamer(self, rename: Callable[..., None]) -> Callable[..., None]:
        def renamed(source: Any, target: Any, **named: Any) -> None:
            path, to = self._below_both(source, target, named)
            if path is None and to is None:
                rename(source, target, **named)
                return
            assert path is not None, f"{source} comes from elsewhere"
            assert to is not None, f"{target} lies elsewhere"
            self._ask("rename")
            rename(source, target, **named)
            folders = self._names.folder(path), self._names.folder(to)
            inode = self._names.inodes[path]
            self.operations.append(Operation("rename", path, inode, folders[0], to, folders[1]))
            self._names.move(path, to)

        return renamed

    def _refused(self, name: str) -> Callable[..., Any]:
        def refused(path: Any, *more: Any, **named: Any) -> Any:
            assert self._below(path) is None, f"os.{name} is not recorded"
            return self._real[name](path, *more, **named)

        return refused

    # Writing down

    def _below(self, path: Any, dir_fd: int | None = None) -> str | None:
        """The path below the root, '' for the root; None for what lies elsewhere."""
        if isinstance(path, int):
            return self._handles.get(path)
        text = os.fsdecode(path)
        if dir_fd is not None:
            if dir_fd in self._handles:
                return f"{self._handles[dir_fd]}/{text}".lstrip("/")
            # It was opened before anything was recorded.
            text = os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), text)  # noqa: PTH115, PTH118
        whole, root = os.path.abspath(text), str(self.root)  # noqa: PTH100 - follows no link
        if whole == root:
            return ""
        return whole[len(root) + 1 :] if whole.startswith(root + os.sep) else None

    def _below_both(
        self, source: Any, target: Any, named: Mapping[str, Any]
    ) -> tuple[str | None, str | None]:
        return (
            self._below(source, named.get("src_dir_fd")),
            self._below(target, named.get("dst_dir_fd")),
        )

    def _ask(self, kind: Kind) -> None:
        number, self.asked = self.asked, self.asked + 1
        if code := self.fails(number, kind):
            raise OSError(code, os.strerror(code))

    def _before_opening(self, path: str, create: bool, empty: bool) -> None:
        known = path in self._names.inodes
        if not known and create:
            self._ask("create")
        elif known and empty:
            self._ask("truncate")

    def _after_opening(self, path: str, empty: bool) -> None:
        if path not in self._names.inodes:
            folder = self._names.folder(path)
            self.operations.append(Operation("create", path, self._names.add(path), folder))
        elif empty:
            self._truncated(path, 0)

    def _truncated(self, path: str, size: int) -> None:
        inode = self._names.inodes[path]
        self.operations.append(Operation("truncate", path, inode, place=size))

    def _written(
        self, path: str, place: int, content: bytes, write: Callable[[bytes], int | None]
    ) -> int:
        inode = self._names.inodes.get(path)
        assert inode is not None, f"{path} is written to after it was removed"
        try:
            self._ask("write")
        except OSError:
            half = content[: len(content) // 2] if self.torn else b""
            if half:
                write(half)
                self.operations.append(Operation("write", path, inode, place=place, content=half))
            raise
        count = write(content) or 0
        self.operations.append(
            Operation("write", path, inode, place=place, content=content[:count])
        )
        return count

    def _remember_what_is_there(self) -> None:
        for path in sorted(self.root.rglob("*")):
            inner = path.relative_to(self.root).as_posix()
            folder, inode = self._names.folder(inner), self._names.add(inner)
            kind: Kind = "mkdir" if path.is_dir() else "create"
            self.before.append(Operation(kind, inner, inode, folder))
            if kind == "create":
                content = path.read_bytes()
                self.before.append(Operation("write", inner, inode, content=content))


def replay(done: Sequence[Operation], dropped: frozenset[int] = frozenset()) -> Tree:
    contents: dict[int, bytearray] = {}
    folders: dict[int, dict[str, int]] = {0: {}}
    for number, one in enumerate(done):
        if one.kind == "mkdir":
            folders[one.inode] = {}
        if number in dropped:
            continue
        if one.kind in ("mkdir", "create", "link"):
            folders[one.folder][one.name] = one.inode
        elif one.kind in ("unlink", "rmdir"):
            folders[one.folder].pop(one.name, None)
        elif one.kind == "rename":
            folders[one.folder].pop(one.name, None)
            folders[one.to_folder][one.new_name] = one.inode
        elif one.kind == "write":
            _put(contents.setdefault(one.inode, bytearray()), one.place, one.content)
        elif one.kind == "truncate":
            content = contents.setdefault(one.inode, bytearray())
            _put(content, one.place, b"")
            del content[one.place :]
    tree: dict[str, bytes | None] = {}
    _walk(0, "", folders, contents, tree)
    return tree


def _put(content: bytearray, place: int, piece: bytes) -> None:
    content.extend(bytes(max(0, place - len(content))))
    content[place : place + len(piece)] = piece


def _walk(
    folder: int,
    path: str,
    folders: Mapping[int, Mapping[str, int]],
    contents: Mapping[int, bytearray],
    tree: dict[str, bytes | None],
) -> None:
    for name, inode in folders[folder].items():
        inner = f"{path}{name}"
        if inode in folders:
            tree[inner] = None
            _walk(inode, f"{inner}/", folders, contents, tree)
        else:
            tree[inner] = bytes(contents.get(inode, b""))


def full_at(*numbers: int) -> Callable[[int, Kind], int]:
    """The disk is full for the operations of these numbers."""
    chosen = frozenset(numbers)
    return lambda number, _kind: errno.ENOSPC if number in chosen else 0
