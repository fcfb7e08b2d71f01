"""The stack, marks and memo of a pickle that is being read, and how it takes its bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from dgn_engine.storage.checkpoints import limits
from dgn_engine.storage.checkpoints.contents import UnreadableFile
from dgn_engine.storage.checkpoints.inert_objects import GlobalName, InertObject, kind

Build = Callable[[GlobalName, tuple[Any, ...]], Any]
Persistent = Callable[[Any], Any]


class PickleMachine:
    """Where the reading of a pickle stands."""

    def __init__(
        self, content: memoryview, start: int, build: Build, persistent: Persistent
    ) -> None:
        self.content, self.at = content, start
        self.build, self.persistent = build, persistent
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.text = 0

    def take(self, length: int) -> memoryview:
        """The next bytes, as they lie in the file."""
        begin, self.at = self.at, self.at + length
        if length < 0 or self.at > len(self.content):
            raise UnreadableFile("is cut off within its pickle")
        return self.content[begin : self.at]

    def number(self, layout: str) -> Any:
        """One number, laid out as `struct` says."""
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def words(self, length: int, coding: str = "utf-8") -> str:
        """Text of so many bytes."""
        self.text += length
        if self.text > limits.PICKLE:
            raise UnreadableFile("has more text in its pickle than any checkpoint")
        return str(self.take(length), coding, "surrogatepass" if coding == "utf-8" else "strict")

    def line(self) -> str:
        """Text up to the end of its line."""
        found = bytes(self.content[self.at : self.at + 4096]).find(b"\n")
        if found < 0:
            raise UnreadableFile("has a damaged pickle")
        text = self.words(found)
        self.at += 1
        return text

    def to_mark(self) -> list[Any]:
        """Everything since the last mark."""
        items, self.stack = self.stack, self.marks.pop()
        return items

    def call(self, maker: Any, arguments: Any) -> Any:
        """What a call stands for; it is not made."""
        if isinstance(maker, GlobalName) and isinstance(arguments, tuple):
            return self.build(maker, arguments)
        return InertObject(kind(maker), arguments)
