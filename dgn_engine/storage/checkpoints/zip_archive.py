"""Checks a zip archive before anything in it is read, and gives the bytes of its members."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from io import BufferedReader
from pathlib import PurePosixPath

from dgn_engine.storage.checkpoints import limits
from dgn_engine.storage.checkpoints.contents import AGAIN, TAKES_A_PART, UnreadableFile
from dgn_engine.storage.checkpoints.file_content import Content, ContentStream, checksum
from dgn_engine.text.printable import plain

START = b"PK\x03\x04"
EMPTY = b"PK\x05\x06"
_ENCRYPTED = 0x1 | 0x40
_LOCAL = 30  # bytes of a member's header without its name
_END = 22  # bytes of the last record without its comment
_LONGEST_END = _END + 0xFFFF  # with its comment
_ENTRY = 500  # bytes that a member takes in the list on the average, at most


@dataclass(frozen=True)
class ZipArchive:
    """A checked zip archive: its members are few, distinct, disjoint and no larger than allowed.

    `places`: where the bytes of each begin.
    """

    content: Content
    file: zipfile.ZipFile
    members: dict[str, zipfile.ZipInfo]
    places: dict[str, int]

    def stored(self, name: str) -> memoryview:
        """The bytes of a member that is not compressed, as they lie in the file."""
        begin = self.places[name]
        return memoryview(self.content)[begin : begin + self.members[name].file_size]

    def require_stored(self, why: str = "torch never does") -> None:
        """Raise `UnreadableFile` where a member is compressed."""
        for member in self.members.values():
            if member.compress_type != zipfile.ZIP_STORED:
                raise UnreadableFile(f"compresses {plain(member.filename)}, which {why}")

    def checked(self, name: str, most: int = limits.LARGE) -> memoryview:
        """As `stored`; raises `UnreadableFile` where the bytes are damaged or more than `most`."""
        found = self.stored(name)
        if len(found) > most:
            raise UnreadableFile(
                f"holds more in {plain(name)} than is taken of a file; {TAKES_A_PART}"
            )
        if checksum(self.content, found) != self.members[name].CRC:
            raise UnreadableFile(f"is damaged: the checksum of {plain(name)} is wrong")
        return found

    def check_sums(self) -> None:
        """Raise `UnreadableFile` where a member of an uncompressed archive is damaged."""
        for name in self.members:
            self.checked(name)


def checked_zip(content: Content) -> ZipArchive:
    """The archive, with nothing unpacked; raises `UnreadableFile`."""
    _check_end(content)
    try:
        file = zipfile.ZipFile(BufferedReader(ContentStream(content)))
    except Exception as error:  # a broken archive fails in many types of exception
        raise UnreadableFile(f"is a damaged zip archive ({plain(str(error))})") from None
    listed = file.infolist()
    if len(listed) > limits.MEMBERS:
        raise UnreadableFile(f"is a zip archive with {len(listed):,} members, which is too many")
    members = {member.filename: member for member in listed}
    if len(members) != len(listed):
        raise UnreadableFile("is a zip archive that holds two members of one name")
    for member in listed:
        _check_member(member)
    if sum(member.file_size for member in listed) > limits.described(len(content)):
        raise UnreadableFile("unpacks to far more than its size, and was refused")
    return ZipArchive(content, file, members, _places(content, listed))


def _check_end(content: Content) -> None:
    """The last record ends the file, and the list of members that it announces is not too long."""
    tail = content[-_LONGEST_END:]
    found = tail.rfind(EMPTY)
    if found < 0 or len(tail) < found + _END:
        raise UnreadableFile(f"is a zip archive without its end, as one that was cut off; {AGAIN}")
    end = len(content) - len(tail) + found
    if len(content) != end + _END or content[end + 20 :] != b"\0\0":
        raise UnreadableFile("has bytes behind the end of its archive")
    size = int.from_bytes(content[end + 12 : end + 16], "little")
    if size == 0xFFFFFFFF:  # then a 64-bit record has it, whose place is given before the end
        far = int.from_bytes(content[end - 12 : end - 4], "little")
        size = int.from_bytes(content[far + 40 : far + 48], "little")
    if size > limits.MEMBERS * _ENTRY:
        raise UnreadableFile("is a zip archive with too many members")


def _check_member(member: zipfile.ZipInfo) -> None:
    name = member.filename
    if member.flag_bits & _ENCRYPTED:
        raise UnreadableFile("is an encrypted archive")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise UnreadableFile(f"packs {plain(name)} in a way that is not read")
    if member.compress_type == zipfile.ZIP_STORED and member.file_size != member.compress_size:
        raise UnreadableFile(f"declares two sizes for {plain(name)}")
    leads_out = ".." in PurePosixPath(name).parts or name.startswith("/") or ":" in name[:3]
    if leads_out or "\\" in member.orig_filename or "\0" in member.orig_filename:
        raise UnreadableFile(f"has a member whose path leads elsewhere ({plain(name)})")
    kind = (member.external_attr >> 16) & 0xF000
    if kind == 0xA000:
        raise UnreadableFile(f"has a link for a member ({plain(name)})")
    if kind not in (0, 0x8000, 0x4000):
        raise UnreadableFile(f"has a device or a pipe for a member ({plain(name)})")


def _places(content: Content, listed: list[zipfile.ZipInfo]) -> dict[str, int]:
    """Where each member's bytes begin, as its own header says; no two members overlap."""
    places: dict[str, int] = {}
    reached = 0
    for member in sorted(listed, key=lambda m: m.header_offset):
        at = member.header_offset
        header = content[at : at + _LOCAL]
        if len(header) < _LOCAL or not header.startswith(START):
            raise UnreadableFile(f"has no {plain(member.filename)} where its list says")
        if at < reached or (not places and at != 0):
            raise UnreadableFile("has members that overlap, or bytes before its archive")
        named = int.from_bytes(header[26:28], "little")
        begin = at + _LOCAL + named + int.from_bytes(header[28:30], "little")
        own = content[at + _LOCAL : at + _LOCAL + named]
        coding = "utf-8" if member.flag_bits & 0x800 else "cp437"
        if own != member.orig_filename.encode(coding, "replace"):
            raise UnreadableFile(f"has another name for {plain(member.filename)} in its list")
        reached = begin + member.compress_size
        if reached > len(content):
            raise UnreadableFile(
                f"has no end of {plain(member.filename)}: it is damaged or was cut off; {AGAIN}"
            )
        places[member.filename] = begin
    return places
