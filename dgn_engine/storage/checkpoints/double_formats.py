"""Refuse files of one format that torch or pickle would read as another.

torch looks for a zip archive, then a tar archive (written before 0.1.10), then pickles; it does not
recognise safetensors by content. The length at the start of a safetensors file may be the first
instructions of a pickle that continues in the header and ends among the numbers. No other format
read here is a pickle from its first byte on: `\\x93` of .npy pops two texts from an empty stack,
and `P` of a zip archive is a persistent reference that nothing resolves.
"""

from __future__ import annotations

import pickletools
import re
import sys
import tarfile
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from dgn_engine.storage.checkpoints import limits
from dgn_engine.storage.checkpoints.contents import UnreadableFile
from dgn_engine.storage.checkpoints.file_content import Content
from dgn_engine.storage.checkpoints.pickle_file import (
    InertObject,
    NoCalls,
    inert_reference,
    read_pickle,
)
from dgn_engine.storage.checkpoints.torch_files import MAGIC

_AT_ONCE = "is both safetensors and a pickle, and was refused"
_WITHOUT_END = "is both safetensors and an unterminated pickle, and was refused"
_LONGEST_NAME = 4096  # bytes; no file system has longer ones
_MAGIC = MAGIC.to_bytes(10, "little")
# Characters of a number in any notation. Readers differ in these, and C's stops at a NUL.
_NUMBER = re.compile(rb"[_+\-. \t\r\v\f]*+[0-9A-Za-z][0-9A-Za-z_+\-. \t\r\v\f]*+")
_TEXT, _PLAIN, _EMPTY, _ANY = range(4)  # kinds of values
_SORTS = {
    **dict.fromkeys(("str", "bytes_or_str"), _TEXT),
    **dict.fromkeys(("int", "int_or_bool", "bool", "float", "None", "bytes"), _PLAIN),
    **dict.fromkeys(("list", "dict", "tuple", "set", "frozenset", "bytearray"), _EMPTY),
}
_IMPORTING = ("GLOBAL", "INST", "STACK_GLOBAL")
# Instructions that fail in every reader: they call although nothing callable was imported, or need
# extensions, references or buffers that no reader of a file has.
_FAILING = frozenset(
    (
        *("REDUCE", "OBJ", "NEWOBJ", "NEWOBJ_EX", "EXT1", "EXT2", "EXT4"),
        *("PERSID", "BINPERSID", "NEXT_BUFFER"),
    )
)
_FILLING = frozenset(("APPEND", "APPENDS", "SETITEM", "SETITEMS", "ADDITEMS"))
_COLLECTING = frozenset(("TUPLE1", "TUPLE2", "TUPLE3", "TUPLE", "LIST", "DICT", "FROZENSET"))
_PUTTING = frozenset(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"))
_GETTING = frozenset(("GET", "BINGET", "LONG_BINGET"))


def check_not_tar(content: Content) -> None:
    """Raise `UnreadableFile` if a file begins like a tar archive."""
    try:
        tarfile.TarInfo.frombuf(bytes(content[: tarfile.BLOCKSIZE]), "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return
    raise UnreadableFile("is a tar archive, as torch wrote before 0.1.10, which is not supported")


def check_not_pickle(content: Content, calls: NoCalls) -> None:
    """Raise `UnreadableFile` if a safetensors file can also be read as a pickle.

    Such a pickle imports a name, holds values other than texts, or begins a torch file before 1.6.
    `calls` is notified of what loading it would call, as far as it can be read.
    """
    try:
        sort = _Outline(content).load()
    except _NoPickleError:
        return
    except _ImportsError as reached:
        with suppress(UnreadableFile):
            read_pickle(content, reached.args[0], InertObject.from_call, inert_reference, calls)
        raise UnreadableFile(_AT_ONCE, kind="two-readings") from None
    if sort == _ANY:  # others occur by chance: 11,912 bytes are True, one of 3,160 may be a text
        raise UnreadableFile(_AT_ONCE, kind="two-readings")


class _NoPickleError(Exception):
    """Every reader of pickles fails here, and nothing was imported before."""


class _ImportsError(Exception):
    """A reader of pickles imports a name. Argument: where to start reading the instructions."""


@dataclass(frozen=True, slots=True)
class _Instruction:
    """An instruction.

    Attributes:
        length: Length of its argument, or how that is stated, as in `pickletools`.
        takes: Number of values popped, below those after the last mark if it is `marked`.
        gives: Kinds of the values it pushes.
    """

    name: str
    length: int
    takes: int
    marked: bool
    gives: bytes

    @staticmethod
    def from_opcode(known: Any) -> _Instruction:
        before = [item.name for item in known.stack_before]
        marked = "mark" in before
        return _Instruction(
            known.name,
            known.arg.n if known.arg else 0,
            before.index("mark") if marked else len(before),
            marked,
            bytes(_SORTS.get(item.name, _ANY) for item in known.stack_after),
        )


_STEPS = {ord(known.code): _Instruction.from_opcode(known) for known in pickletools.opcodes}
_STATED = {  # bytes of the length before an argument
    pickletools.TAKEN_FROM_ARGUMENT1: 1,
    pickletools.TAKEN_FROM_ARGUMENT4: 4,
    pickletools.TAKEN_FROM_ARGUMENT4U: 4,
    pickletools.TAKEN_FROM_ARGUMENT8U: 8,
}


class _Outline:
    """The instructions of a pickle without values: positions, stack depth and kinds of values.

    Readers of pickles agree on these, whatever numbers and texts they accept. What only some of
    them refuse is passed over, so no name that any of them would import is missed.
    """

    def __init__(self, content: Content) -> None:
        self.content, self.at = content, 0
        self.stack = bytearray()  # of kinds
        self.marks: list[int] = []  # depths of the stack
        self.keeps = False  # whether the memo has values
        self.starts = (0, 0)  # of the instructions that pushed the last two values

    def load(self) -> int:
        """Return the kind of the pickle's value."""
        for _ in range(limits.OPERATIONS):
            start = self.at
            step = _STEPS.get(self.content[start]) if start < len(self.content) else None
            if step is None or step.name in _FAILING:
                raise _NoPickleError
            self.at += 1
            if step.name == "STOP":
                return self._pop_values(1)[0]
            if step.name in _IMPORTING:
                self._check_import(step, start)
            self._apply_step(step)
            if step.gives and not step.takes:
                self.starts = (self.starts[1], start)
        raise UnreadableFile(_WITHOUT_END, kind="too-long")

    def _apply_step(self, step: _Instruction) -> None:
        if step.name == "MARK":
            self.marks.append(len(self.stack))
            return
        if step.name in _PUTTING or step.name == "DUP":
            if self._top_kind() == _EMPTY:  # it can be changed from elsewhere from now on
                self.stack[-1] = _ANY
            self.keeps = self.keeps or step.name != "DUP"
        if step.name in _GETTING and not self.keeps:
            raise _NoPickleError
        gives = self._skip_argument(step)
        if step.name in (*_PUTTING, "READONLY_BUFFER"):
            self._top_kind()
        elif step.name == "DUP":
            self.stack.append(self._top_kind())
        elif step.name == "POP" and self.marks and self.marks[-1] == len(self.stack):
            self.marks.pop()
        elif step.name in _FILLING:
            items = self._pop_operands(step, kept=1)
            if items and self.stack[-1] in (_TEXT, _PLAIN):
                raise _NoPickleError  # nothing can be put into it
            if any(items):
                self.stack[-1] = _ANY
        elif step.name in _COLLECTING:
            self.stack.append(_ANY if any(self._pop_operands(step)) else _EMPTY)
        else:
            self._pop_operands(step)
            self.stack += gives

    def _pop_operands(self, step: _Instruction, kept: int = 0) -> bytearray:
        """Pop the values that an instruction takes, except the first `kept`."""
        if not step.marked:
            taken = self._pop_values(step.takes - kept)
        elif self.marks:
            taken = self._pop_values(len(self.stack) - self.marks.pop(), behind_mark=True)
        else:
            raise _NoPickleError
        if kept:
            self._top_kind()
        return taken

    def _pop_values(self, count: int, *, behind_mark: bool = False) -> bytearray:
        at = len(self.stack) - count
        if not behind_mark and at < (self.marks[-1] if self.marks else 0):
            raise _NoPickleError
        taken = self.stack[at:]
        del self.stack[at:]
        return taken

    def _top_kind(self) -> int:
        if len(self.stack) <= (self.marks[-1] if self.marks else 0):
            raise _NoPickleError
        return self.stack[-1]

    def _skip_argument(self, step: _Instruction) -> bytes:
        """Skip the argument of an instruction; return the kinds of the values it pushes."""
        if step.length == pickletools.UP_TO_NEWLINE:
            return self._skip_line(step)
        length = step.length
        if size := _STATED.get(length):
            head = self.content[self.at : self.at + size]
            signed = length == pickletools.TAKEN_FROM_ARGUMENT4
            length = int.from_bytes(head, "little", signed=signed)
            self.at += size
        start = self.at
        self.at += length
        if length < 0 or self.at > len(self.content):
            raise _NoPickleError
        of_torch = step.name in ("LONG1", "LONG4") and (
            self.content[start : min(self.at, start + len(_MAGIC))] == _MAGIC
        )
        return bytes((_ANY,)) if of_torch else step.gives

    def _skip_line(self, step: _Instruction) -> bytes:
        begin, end = self._line_ends()
        if step.name == "UNICODE":
            return step.gives
        text = self.content[begin : min(end, begin + limits.HEADER)].partition(b"\0")[0]
        if step.name == "STRING":
            sound = text[:1] in (b"'", b'"')
        else:
            sound = _NUMBER.fullmatch(text) is not None
        if not sound:
            raise _NoPickleError
        return bytes((_ANY,)) if len(text) >= 2 * len(_MAGIC) else step.gives

    def _line_ends(self, *, at_end: bool = False) -> tuple[int, int]:
        """Return where a line begins and ends; the last may end with the file if `at_end`."""
        begin, end = self.at, self.content.find(b"\n", self.at)
        if end < 0 and not at_end:
            raise _NoPickleError
        end = len(self.content) if end < 0 else end
        self.at = end + 1
        return begin, end

    def _check_import(self, step: _Instruction, start: int) -> None:
        """Raise `_ImportsError`, or `_NoPickleError` if no reader imports anything."""
        if step.name == "STACK_GLOBAL":
            if _PLAIN in (names := self._pop_values(2)) or _EMPTY in names:
                raise _NoPickleError
            raise _ImportsError(self.starts[0])
        module = self._line_ends()
        name = self._line_ends(at_end=True)
        if self._can_be_imported(*module) and all(self._is_utf_8(*part) for part in (module, name)):
            raise _ImportsError(start)
        raise _NoPickleError

    def _can_be_imported(self, begin: int, end: int) -> bool:
        """Return whether a module of this name, or one of its packages, may exist.

        No module has a quotation mark in its name, but every name that begins in a header has. The
        packages before it are tensor names by chance, so only Python's own count.
        """
        start = self.content[begin : min(end, begin + _LONGEST_NAME)]
        package, dot, _ = start.partition(b".")
        if not package or b'"' in package or (not dot and end - begin > _LONGEST_NAME):
            return False
        quoted = self.content.find(b'"', begin, end) >= 0
        return not quoted or package.decode("utf-8", "replace") in sys.stdlib_module_names

    def _is_utf_8(self, begin: int, end: int) -> bool:
        if end - begin > limits.HEADER:
            return True  # or nearly: a name this long is intentional
        try:
            str(self.content[begin:end], "utf-8")
        except UnicodeDecodeError:
            return False
        return True
