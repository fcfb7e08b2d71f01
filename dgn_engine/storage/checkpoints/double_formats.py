"""Refuses files of one format that torch or pickle would read as another.

torch looks for a zip archive, then for a tar archive (as it wrote before 0.1.10), then for pickles;
it does not know safetensors by their content. The length with which a safetensors file begins may
be the first instructions of a pickle that goes on in the header and ends among the numbers.
"""

from __future__ import annotations

import pickle
import pickletools
import struct
import tarfile
from typing import Any

from dgn_engine.storage.checkpoints import limits
from dgn_engine.storage.checkpoints.contents import UnreadableFile
from dgn_engine.storage.checkpoints.file_content import Content
from dgn_engine.storage.checkpoints.pickle_file import (
    GlobalName,
    InertDict,
    InertObject,
    InertUnpickler,
    NoCalls,
)
from dgn_engine.storage.checkpoints.torch_legacy import MAGIC

_AT_ONCE = "is safetensors and a pickle at once, and was refused"
_LENGTH = 8  # bytes of the length with which safetensors begin
_LONG = 4096  # bytes of an argument that is passed over
_PLAIN = (str, bytes, bytearray, int, float, bool, type(None))  # no reading of a network
# Instructions that end with an error where no extension, buffer or reference is known.
_NEEDING_MORE = ("EXT1", "EXT2", "EXT4", "PERSID", "NEXT_BUFFER", "READONLY_BUFFER")
_CODES = frozenset(
    known.code.encode("latin-1")
    for known in pickletools.opcodes
    if known.proto <= pickle.HIGHEST_PROTOCOL and known.name not in _NEEDING_MORE
)


def check_not_tar(content: Content) -> None:
    """Raise `UnreadableFile` where a file begins as a tar archive does."""
    try:
        tarfile.TarInfo.frombuf(bytes(content[: tarfile.BLOCKSIZE]), "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return
    raise UnreadableFile("is a tar archive, as torch wrote before 0.1.10, which is not read here")


def check_not_pickle(content: Content, calls: NoCalls) -> None:
    """Raise `UnreadableFile` where a safetensors file can be read as a pickle, too.

    `calls` is told of what loading that would call, as far as it can be read.
    """
    machine = _PassingOver(content, 0, InertObject.of, _refer, calls)
    try:
        tree = machine.load()
    except (
        *(pickle.UnpicklingError, struct.error, EOFError, LookupError, ValueError, TypeError),
        AttributeError,
    ) as error:
        if isinstance(error, (TypeError, AttributeError)) and machine.at > _LENGTH:
            raise UnreadableFile(_AT_ONCE) from None  # where bytes stand for a bytearray, say
        return
    empty = tree.pairs if isinstance(tree, InertDict) else tree
    plain = isinstance(tree, _PLAIN) or (not isinstance(tree, InertObject) and empty in ((), []))
    if plain and tree != MAGIC and not machine.names:
        return  # by chance: a header of 11,912 bytes is True, one of 3,160 may be a text
    raise UnreadableFile(_AT_ONCE)


class _PassingOver(InertUnpickler):
    """Goes on behind arguments of any length without a copy of them. What is no pickle ends in an
    error of `pickle`, and only a limit in an `UnreadableFile`."""

    names = False  # whether it looked one up

    def load(self) -> Any:
        self.stack, self.metastack = [], []
        self.append = self.stack.append
        for _ in range(limits.OPERATIONS):
            code = self.read(1)
            if code == pickle.STOP:
                return self.stack.pop()
            if code not in _CODES:
                raise pickle.UnpicklingError
            self.dispatch[code[0]](self)
        raise UnreadableFile("is safetensors and a pickle without end at once, and was refused")

    def read(self, length: int) -> bytes:
        begin, self.at = self.at, self.at + length
        if self.at > len(self.content):
            raise EOFError
        return b"" if length > _LONG else self.content[begin : self.at]

    def readline(self) -> bytes:
        end = self.content.find(b"\n", self.at) + 1
        if not end:
            raise EOFError
        if end - self.at > limits.HEADER:
            raise UnreadableFile(_AT_ONCE)
        begin, self.at = self.at, end
        return self.content[begin:end]  # a number may follow thousands of spaces

    def find_class(self, module: str, name: str) -> GlobalName:
        self.names = True
        if len(module) + len(name) > _LONG:
            raise pickle.UnpicklingError  # no file has such a name
        return super().find_class(module, name)


def _refer(reference: Any) -> Any:
    return InertObject("a reference", reference if isinstance(reference, tuple) else ())
