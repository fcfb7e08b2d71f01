"""Names what Python would call, look up or import to load a pickle, other than `harmless_names`.

A name that is not on those lists is not known to be harmful, but nobody here can say what it does.
It is named whether the pickle calls it or not: a function that an object has as its `forward`, a
hook or its `__setstate__` is called by whatever uses the object, or by the next instruction.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from types import NoneType
from typing import Any

from dgn_engine.storage.checkpoints import limits
from dgn_engine.storage.checkpoints.contents import UnreadableFile
from dgn_engine.storage.checkpoints.harmless_names import (
    LOADS_BYTES,
    called_arguments,
    may_be_called,
    may_be_kept,
)
from dgn_engine.storage.checkpoints.pickle_file import (
    GlobalName,
    NoCalls,
    Opaque,
    inert_reference,
    read_pickle,
    type_name,
)
from dgn_engine.storage.checkpoints.pickled_arrays import PickledType
from dgn_engine.storage.checkpoints.pickled_tensors import build
from dgn_engine.storage.checkpoints.torch_files import MAGIC
from dgn_engine.storage.checkpoints.zip_archive import START, ZipArchive, checked_zip

_MOST = 200  # names that are kept
_ARGUMENTS = 32  # that are looked at; no maker of values takes as many
_DEEPEST = 4  # pickles within each other
_PICKLES = 8  # one after the other, as a file of torch before 1.6 has five
_STARTS = (b"\x80", START)

_LOADED = ("torch", "numpy", "builtins", "__builtin__")  # imported before a file is loaded
_OF_LEGACY = 5  # pickles of a file of torch before 1.6


class CallRecorder(NoCalls):
    """Records the names of what loading would call, also where the result is unused, the names that
    it would only look up, and which modules it would import, apart from those of torch and numpy.

    What it would hand to a call counts as called; pickles within the arguments are looked through.
    """

    def __init__(self) -> None:
        super().__init__()
        self._called: dict[str, None] = {}
        self._named: dict[str, None] = {}
        self._imported: dict[str, None] = {}
        self._modules_called: set[str] = set()
        self._depth = 0

    @property
    def would_call(self) -> tuple[str, ...]:
        """Each name once, in the order of the pickle."""
        return _few(self._called)

    @property
    def would_look_up(self) -> tuple[str, ...]:
        """Names that the pickle holds, of which no call is recorded."""
        return _few(name for name in self._named if name not in self._called)

    @property
    def would_import(self) -> tuple[str, ...]:
        """Modules of which nothing would be called."""
        return _few(m for m in self._imported if m not in self._modules_called)

    def named(self, name: GlobalName) -> None:
        if may_be_called(name) or may_be_kept(name):
            return
        _record(str(name), self._named)
        if name.module.partition(".")[0] not in _LOADED:
            _record(name.module, self._imported)

    def kept(self, value: GlobalName) -> None:
        if not may_be_kept(value):
            _record(str(value), self._named)

    def called(self, callee: Any, arguments: Any) -> None:
        if isinstance(callee, GlobalName):
            if not may_be_called(callee) or _calls_objects(callee, arguments):
                self._call(callee)
        else:  # what a call gave
            _record(f"{type_name(callee)}(…)", self._called)
        self.handed(arguments)
        if isinstance(callee, GlobalName) and str(callee) == LOADS_BYTES:
            if not self._look_into_storage(arguments):
                self._call(callee)
        elif not isinstance(callee, GlobalName) or not may_be_called(callee):
            for argument in map(_as_bytes, _first(arguments)):
                if isinstance(argument, bytes) and argument.startswith(_STARTS):
                    self._look_through_inner(_pickles_in(argument))

    def called_oddly(self, callee: GlobalName) -> None:
        self._call(callee)

    def handed(self, arguments: Any) -> None:
        """Globals among the arguments of a call, which may call them in its turn."""
        for argument in _first(arguments):
            if isinstance(argument, GlobalName) and not may_be_kept(argument):
                self._call(argument)

    def state_refused(self, target: Any) -> None:
        """numpy.dtype takes one that makes it read the bytes of a file as addresses of objects."""
        if isinstance(target, (PickledType, Opaque)):
            _record(f"{target.callee}.__setstate__", self._called)

    def state_set(self, target: GlobalName) -> None:
        _record(f"{target}.__setstate__", self._called)
        self._named.pop(str(target), None)
        self._modules_called.add(target.module)

    def look_through(self, content: bytes, name: str = "") -> list[Any]:
        """Record the calls of pickles one after the other and return the trees of those that were
        read, before the first that was not.

        `name`: of what holds them. Where they cannot be read to their end, Python may still be able
        to, and "something in" it is recorded as called; where nothing is named, the caller judges
        by what is returned.
        """
        place = 0
        trees: list[Any] = []
        try:
            while len(trees) < _PICKLES:
                tree, place = read_pickle(content, place, build, inert_reference, self)
                trees.append(tree)
                if trees[0] == MAGIC and len(trees) == _OF_LEGACY:  # numbers follow
                    break
                if place >= len(content):
                    break
        except (UnreadableFile, MemoryError, RecursionError):
            if name:
                _record(f"something in {name}, which cannot be read", self._called)
        return trees

    def look_through_members(self, archive: ZipArchive) -> None:
        for name in [name for name in archive.members if name.endswith(".pkl")][:_PICKLES]:
            try:
                with archive.file.open(name) as member:
                    self.look_through(member.read(limits.PICKLE), name)
            except (zipfile.BadZipFile, zlib.error, EOFError):
                continue

    def _call(self, name: GlobalName) -> None:
        _record(str(name), self._called)
        self._modules_called.add(name.module)

    def _look_into_storage(self, arguments: Any) -> bool:
        """Look through the small file of torch that a storage of a plain pickle is; return whether
        it was read to its end. torch writes it in the format before 1.6, and nothing else."""
        content = _as_bytes(arguments[0]) if len(_first(arguments)) == 1 else None
        trees = self._look_through_inner([content]) if isinstance(content, bytes) else None
        if trees is None or len(trees) < _OF_LEGACY or trees[0] != MAGIC:
            if isinstance(content, bytes) and content.startswith(START):
                self._look_through_inner(_pickles_in(content))
            return False
        return True

    def _look_through_inner(self, pickles: list[bytes]) -> list[Any] | None:
        """Look through pickles within an argument; None where they are too deep in each
        other."""
        if self._depth >= _DEEPEST:
            return None
        self._depth += 1
        try:
            return [tree for each in pickles for tree in self.look_through(each)]
        finally:
            self._depth -= 1


def _record(name: str, names: dict[str, None]) -> None:
    if len(names) <= _MOST:
        names[name] = None


def _calls_objects(maker: GlobalName, arguments: Any) -> bool:
    """Whether a maker that calls some of its arguments would be given an object of the file's
    making there: names are judged themselves, and text is not called."""
    given = _first(arguments)
    return any(
        at < len(given) and not isinstance(given[at], (GlobalName, str, NoneType))
        for at in called_arguments(maker)
    )


def _as_bytes(content: Any) -> Any:
    if isinstance(content, str) and content[:1] == "\x80":  # protocol 2: bytes as text
        with suppress(UnicodeEncodeError):  # which no loader would take, either
            return content.encode("latin-1")
    return content


def _first(arguments: Any) -> Sequence[Any]:
    """The arguments that a call can have; a hostile one may have millions, again and again."""
    return arguments[:_ARGUMENTS] if isinstance(arguments, (tuple, list)) else (arguments,)


def _pickles_in(content: bytes) -> list[bytes]:
    """The pickles of a torch zip; or the content itself."""
    if not content.startswith(START):
        return [content]
    try:
        archive = checked_zip(content)
        archive.require_stored()
    except UnreadableFile:
        return []
    return [bytes(archive.stored(name)) for name in archive.members if name.endswith(".pkl")]


def _few(names: Iterable[str]) -> tuple[str, ...]:
    found = list(names)
    more = [f"and more than {_MOST}"] if len(found) > _MOST else []
    return (*found[:_MOST], *more)
