"""Record what Python would call, look up or import to load a pickle, except `harmless_names`.

A name that is not on those lists is not known to be harmful, but nobody here can say what it does.
It is reported whether the pickle calls it or not: a function that an object has as its `forward`, a
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
from dgn_engine.storage.checkpoints.pickled_tensors import build_inert
from dgn_engine.storage.checkpoints.torch_files import MAGIC
from dgn_engine.storage.checkpoints.zip_archive import START, ZipArchive, checked_zip

_MOST = 200  # recorded names
_ARGUMENTS = 32  # scanned arguments; no function that creates values takes as many
_DEEPEST = 4  # nested pickles
_PICKLES = 8  # in succession; a torch file before 1.6 has five
_STARTS = (b"\x80", START)

_LOADED = ("torch", "numpy", "builtins", "__builtin__")  # imported before a file is loaded
_OF_LEGACY = 5  # pickles in a torch file before 1.6


class CallRecorder(NoCalls):
    """Records the names that loading would call or only look up, and the modules it would import.

    Modules of torch and numpy are left out. What would be passed to a call counts as called, and so
    does a call whose result is unused; pickles within arguments are scanned, too.
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
        """Names to be called, each once, in the order of the pickle."""
        return _shorten_names(self._called)

    @property
    def would_look_up(self) -> tuple[str, ...]:
        """Names in the pickle without a recorded call."""
        return _shorten_names(name for name in self._named if name not in self._called)

    @property
    def would_import(self) -> tuple[str, ...]:
        """Modules of which nothing would be called."""
        return _shorten_names(m for m in self._imported if m not in self._modules_called)

    def note_global(self, name: GlobalName) -> None:
        if may_be_called(name) or may_be_kept(name):
            return
        _add_name(str(name), self._named)
        if name.module.partition(".")[0] not in _LOADED:
            _add_name(name.module, self._imported)

    def note_stored(self, value: GlobalName) -> None:
        if not may_be_kept(value):
            _add_name(str(value), self._named)

    def note_call(self, callee: Any, arguments: Any) -> None:
        if isinstance(callee, GlobalName):
            if not may_be_called(callee) or _calls_objects(callee, arguments):
                self._record_call(callee)
        else:  # the result of a call
            _add_name(f"{type_name(callee)}(…)", self._called)
        self.note_passed(arguments)
        if isinstance(callee, GlobalName) and str(callee) == LOADS_BYTES:
            if not self._look_into_storage(arguments):
                self._record_call(callee)
        elif not isinstance(callee, GlobalName) or not may_be_called(callee):
            for argument in map(_as_bytes, _first_arguments(arguments)):
                if isinstance(argument, bytes) and argument.startswith(_STARTS):
                    self._look_through_inner(_pickles_in(argument))

    def note_odd_call(self, callee: GlobalName) -> None:
        self._record_call(callee)

    def note_passed(self, arguments: Any) -> None:
        """Note globals among the arguments of a call, which may in turn call them."""
        for argument in _first_arguments(arguments):
            if isinstance(argument, GlobalName) and not may_be_kept(argument):
                self._record_call(argument)

    def note_state_refused(self, target: Any) -> None:
        """Note a refused state: one of numpy.dtype could turn bytes into object addresses."""
        if isinstance(target, (PickledType, Opaque)):
            _add_name(f"{target.callee}.__setstate__", self._called)

    def note_state_set(self, target: GlobalName) -> None:
        _add_name(f"{target}.__setstate__", self._called)
        self._named.pop(str(target), None)
        self._modules_called.add(target.module)

    def look_through(self, content: bytes, name: str = "") -> list[Any]:
        """Record the calls of consecutive pickles; return the trees read before a failure.

        `name`: what contains them. If they cannot be read to the end, Python may still be able to,
        so "something in" it is recorded as called; without a name, the caller decides from the
        result.
        """
        position = 0
        trees: list[Any] = []
        try:
            while len(trees) < _PICKLES:
                tree, position = read_pickle(content, position, build_inert, inert_reference, self)
                trees.append(tree)
                if trees[0] == MAGIC and len(trees) == _OF_LEGACY:  # numbers follow
                    break
                if position >= len(content):
                    break
        except (UnreadableFile, MemoryError, RecursionError):
            if name:
                _add_name(f"something in {name}, which cannot be read", self._called)
        return trees

    def look_through_members(self, archive: ZipArchive) -> None:
        for name in [name for name in archive.members if name.endswith(".pkl")][:_PICKLES]:
            try:
                with archive.file.open(name) as member:
                    self.look_through(member.read(limits.PICKLE), name)
            except (zipfile.BadZipFile, zlib.error, EOFError):
                continue

    def _record_call(self, name: GlobalName) -> None:
        _add_name(str(name), self._called)
        self._modules_called.add(name.module)

    def _look_into_storage(self, arguments: Any) -> bool:
        """Scan the embedded torch file of a plain pickle's storage; return whether it was complete.

        torch writes it only in the format before 1.6.
        """
        content = _as_bytes(arguments[0]) if len(_first_arguments(arguments)) == 1 else None
        trees = self._look_through_inner([content]) if isinstance(content, bytes) else None
        if trees is None or len(trees) < _OF_LEGACY or trees[0] != MAGIC:
            if isinstance(content, bytes) and content.startswith(START):
                self._look_through_inner(_pickles_in(content))
            return False
        return True

    def _look_through_inner(self, pickles: list[bytes]) -> list[Any] | None:
        """Scan pickles within an argument; None if they are nested too deeply."""
        if self._depth >= _DEEPEST:
            return None
        self._depth += 1
        try:
            return [tree for content in pickles for tree in self.look_through(content)]
        finally:
            self._depth -= 1


def _add_name(name: str, names: dict[str, None]) -> None:
    if len(names) <= _MOST:
        names[name] = None


def _calls_objects(maker: GlobalName, arguments: Any) -> bool:
    """Return whether a function would be given an object created by the file and call it.

    Names are judged themselves, and text is not called.
    """
    given = _first_arguments(arguments)
    return any(
        at < len(given) and not isinstance(given[at], (GlobalName, str, NoneType))
        for at in called_arguments(maker)
    )


def _as_bytes(content: Any) -> Any:
    if isinstance(content, str) and content[:1] == "\x80":  # protocol 2: bytes as text
        with suppress(UnicodeEncodeError):  # no loader would accept it, either
            return content.encode("latin-1")
    return content


def _first_arguments(arguments: Any) -> Sequence[Any]:
    """Return the arguments that a call can have; a hostile one may have millions, repeatedly."""
    return arguments[:_ARGUMENTS] if isinstance(arguments, (tuple, list)) else (arguments,)


def _pickles_in(content: bytes) -> list[bytes]:
    """Return the pickles of a torch zip, or the content itself."""
    if not content.startswith(START):
        return [content]
    try:
        archive = checked_zip(content)
        archive.require_stored()
    except UnreadableFile:
        return []
    return [bytes(archive.read_member(name)) for name in archive.members if name.endswith(".pkl")]


def _shorten_names(names: Iterable[str]) -> tuple[str, ...]:
    listed = list(names)
    more = [f"and more than {_MOST}"] if len(listed) > _MOST else []
    return (*listed[:_MOST], *more)
