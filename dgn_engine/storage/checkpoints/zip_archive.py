"""Check a zip archive before anything in it is read, and give access to its members' bytes.

torch reads archives with miniz, NumPy with `zipfile`. A file is refused if the two would find
different members in it, or different bytes in a member:

- miniz finds the directory where the end record says, `zipfile` right before that record
- miniz reads as many members as the end record says, `zipfile` the whole directory
- with 64 bits, miniz reads the record named by the locator, `zipfile` the one before the locator
- miniz ignores case
- miniz compares names by bytes, `zipfile` by characters, which are in one of two encodings
- miniz reads nothing of a member whose DOS attributes call it a folder
- a later `zipfile` takes the name from an extra field (Unicode path), if there is one

A local header that disagrees with the directory is refused, too: whoever unpacks a stream has
nothing else.
"""

from __future__ import annotations

import struct
import unicodedata
import zipfile
import zlib
from dataclasses import dataclass
from io import BufferedReader
from pathlib import PurePosixPath

from dgn_engine.storage.checkpoints import limits
from dgn_engine.storage.checkpoints.contents import AGAIN, TAKES_A_PART, UnreadableFile
from dgn_engine.storage.checkpoints.file_content import Content, ContentStream, content_checksum
from dgn_engine.text.printable import plain_text

START = b"PK\x03\x04"
EMPTY = b"PK\x05\x06"
_LOCATOR = b"PK\x06\x07"
_END_64 = b"PK\x06\x06"
_UTF_8, _DESCRIBED_BEHIND = 0x800, 0x8
_FLAGS = 0x6 | _DESCRIBED_BEHIND | _UTF_8  # 0x6: deflate effort; other flags encrypt or patch
_DOS_FOLDER = 0x10
_SIZES_64, _UNICODE_PATH = 0x0001, 0x7075  # extra fields
_FULL = 0xFFFFFFFF  # stands for a number stored elsewhere in 64 bits
_HEADER = struct.Struct("<4s5H3I2H")  # local header, without the name
_LOCAL = _HEADER.size
_END = 22  # bytes of the end record without its comment
_BOTH_64 = 56 + 20  # bytes of the 64-bit record and its locator
_LONGEST_END = _END + 0xFFFF  # with its comment
_ENTRY = 500  # average bytes of a member in the directory, at most


@dataclass(frozen=True)
class ZipArchive:
    """A checked zip archive: its members are few, distinct, disjoint and within the size limits.

    `places`: the position of each member's bytes.
    """

    content: Content
    file: zipfile.ZipFile
    members: dict[str, zipfile.ZipInfo]
    places: dict[str, int]

    def read_member(self, name: str) -> memoryview:
        """Return the bytes of an uncompressed member as they are in the file."""
        begin = self.places[name]
        return memoryview(self.content)[begin : begin + self.members[name].file_size]

    def begins_with(self, name: str, start: bytes) -> bool:
        """Return whether the unpacked bytes of a member begin with `start`."""
        if self.members[name].compress_type == zipfile.ZIP_STORED:
            return self.read_member(name)[: len(start)] == start
        try:
            with self.file.open(name) as stream:
                return stream.read(len(start)) == start
        except (zipfile.BadZipFile, zlib.error, EOFError):
            return False  # any reader would fail likewise

    def require_stored(self, why: str = "torch never does") -> None:
        """Raise `UnreadableFile` if a member is compressed."""
        for member in self.members.values():
            if member.compress_type != zipfile.ZIP_STORED:
                raise UnreadableFile(f"compresses {plain_text(member.filename)}, which {why}")

    def read_checked_member(self, name: str, most: int = limits.LARGE) -> memoryview:
        """Return a member's bytes; raises `UnreadableFile` if damaged or more than `most`."""
        member_bytes = self.read_member(name)
        if len(member_bytes) > most:
            raise UnreadableFile(
                f"has more in {plain_text(name)} than the limit allows; {TAKES_A_PART}"
            )
        if content_checksum(self.content, member_bytes) != self.members[name].CRC:
            raise UnreadableFile(
                f"is damaged: the checksum of {plain_text(name)} is wrong", kind="damaged"
            )
        return member_bytes


def checked_zip(content: Content) -> ZipArchive:
    """Return the archive with nothing unpacked; raises `UnreadableFile`."""
    count, begin = _find_directory(content)
    try:
        file = zipfile.ZipFile(BufferedReader(ContentStream(content)))
    except Exception as error:  # a broken archive fails in many types of exception
        raise UnreadableFile(f"is a damaged zip archive ({plain_text(str(error))})") from None
    listed = file.infolist()
    if len(listed) > limits.MEMBERS:
        raise UnreadableFile(f"is a zip archive with {len(listed):,} members, which is too many")
    if len(listed) != count or file.start_dir != begin:
        raise UnreadableFile(_TWO_LISTS)
    if len({m.flag_bits & _UTF_8 for m in listed if not m.orig_filename.isascii()}) > 1:
        raise UnreadableFile(
            "encodes member names in two ways, so that two programs would read different names in "
            "it"
        )
    names: dict[str, str] = {}
    for member in listed:
        key = _one_name(member)
        if key in names:
            raise UnreadableFile(
                f"has {plain_text(names[key])} and {plain_text(member.filename)}, two "
                "members with the same name: torch and some disks ignore case"
            )
        names[key] = member.filename
        _check_member(member)
    if sum(member.file_size for member in listed) > limits.description_limit(len(content)):
        raise UnreadableFile("unpacks to far more than its size, and was refused")
    members = {member.filename: member for member in listed}
    return ZipArchive(content, file, members, _member_offsets(content, listed))


_TWO_LISTS = (
    "has bytes before its archive, or two directories, so that two programs would read different "
    "files in it"
)


def _one_name(member: zipfile.ZipInfo) -> str:
    """Return a key shared by names that some program or file system treats as equal.

    Arrays of an npz are case-sensitive: NumPy writes `W` beside `w` and tells them apart.
    """
    name = member.filename
    return name if name.endswith(".npy") else unicodedata.normalize("NFC", name).casefold()


def _find_directory(content: Content) -> tuple[int, int]:
    """Return how many members the end record announces, and where their directory begins.

    The record must end the file, the directory must end where the record begins, and there must be
    only one.
    """
    tail = content[-_LONGEST_END:]
    index = tail.rfind(EMPTY)
    if index < 0 or len(tail) < index + _END:
        raise UnreadableFile(f"is a zip archive without an end, as if cut off; {AGAIN}", "cut-off")
    end = len(content) - len(tail) + index
    if len(content) != end + _END or content[end + 20 :] != b"\0\0":
        raise UnreadableFile("has bytes after the end of its archive")
    stated = struct.unpack("<4H2I", content[end + 4 : end + 20])
    if content[max(0, end - 20) : end].startswith(_LOCATOR):
        end, stated = _listed_in_64_bits(content, end, stated)
    disk, first, here, count, size, begin = stated
    if size > limits.MEMBERS * _ENTRY:
        raise UnreadableFile("is a zip archive with too many members")
    if disk or first or here != count or begin + size != end:
        raise UnreadableFile(_TWO_LISTS)
    return count, begin


def _listed_in_64_bits(
    content: Content, end: int, short: tuple[int, ...]
) -> tuple[int, tuple[int, ...]]:
    """Return the position and contents of the 64-bit record that the locator names.

    The end record must agree where it has room.
    """
    at = end - _BOTH_64
    disk, named, disks = struct.unpack("<IQI", content[end - 16 : end])
    if at < 0 or named != at or disk or disks != 1 or content[at : at + 4] != _END_64:
        raise UnreadableFile(_TWO_LISTS)
    wide = struct.unpack("<2I4Q", content[at + 16 : at + 56])
    full = (0xFFFF,) * 4 + (_FULL,) * 2
    if any(s not in (w, most) for s, w, most in zip(short, wide, full, strict=True)):
        raise UnreadableFile(_TWO_LISTS)
    return at, wide


def _check_member(member: zipfile.ZipInfo) -> None:
    name = member.filename
    if member.flag_bits & ~_FLAGS:
        raise UnreadableFile("is an encrypted archive, or has unknown flags")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise UnreadableFile(f"compresses {plain_text(name)} in an unsupported way")
    if member.compress_type == zipfile.ZIP_STORED and member.file_size != member.compress_size:
        raise UnreadableFile(f"declares two sizes for {plain_text(name)}")
    leads_out = ".." in PurePosixPath(name).parts or name.startswith("/") or ":" in name[:3]
    if leads_out or "\\" in member.orig_filename or "\0" in member.orig_filename:
        raise UnreadableFile(f"has a member whose path leads outside ({plain_text(name)})")
    kind = (member.external_attr >> 16) & 0xF000
    if kind == 0xA000:
        raise UnreadableFile(f"has a link as a member ({plain_text(name)})")
    if kind not in (0, 0x8000, 0x4000):
        raise UnreadableFile(f"has a device or pipe as a member ({plain_text(name)})")
    if member.external_attr & _DOS_FOLDER and not name.endswith("/"):
        raise UnreadableFile(f"marks {plain_text(name)} as a folder, but it is named like a file")
    if member.volume:
        raise UnreadableFile(f"has {plain_text(name)} on another disk")
    _check_extra_fields(member)


def _check_extra_fields(member: zipfile.ZipInfo) -> None:
    """Refuse a second name or size: of several, some readers use the first, others the last."""
    position, extra = 0, member.extra
    kinds: list[int] = []
    while position + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, position)
        kinds.append(kind)
        position += 4 + length
    if position != len(extra) or kinds.count(_SIZES_64) > 1 or _UNICODE_PATH in kinds:
        raise UnreadableFile(f"has extra fields that make {plain_text(member.filename)} ambiguous")


def _member_offsets(content: Content, listed: list[zipfile.ZipInfo]) -> dict[str, int]:
    """Return where each member's bytes begin, by its own header; no two members overlap."""
    places: dict[str, int] = {}
    reached = 0
    for member in sorted(listed, key=lambda m: m.header_offset):
        at = member.header_offset
        header = content[at : at + _LOCAL]
        if len(header) < _LOCAL or not header.startswith(START):
            raise UnreadableFile(f"has no {plain_text(member.filename)} where its directory says")
        if at < reached or (not places and at != 0):
            raise UnreadableFile("has members that overlap, or bytes before its archive")
        _, _, flags, method, _, _, crc, packed, size, named, more = _HEADER.unpack(header)
        begin = at + _LOCAL + named + more
        own = content[at + _LOCAL : at + _LOCAL + named]
        coding = "utf-8" if member.flag_bits & _UTF_8 else "cp437"
        if own != member.orig_filename.encode(coding, "replace"):
            raise UnreadableFile(
                f"has a different name for {plain_text(member.filename)} in its directory"
            )
        later = flags & _DESCRIBED_BEHIND and not (crc or packed or size)
        same = (
            crc == member.CRC
            and packed in (member.compress_size, _FULL)
            and size in (member.file_size, _FULL)
        )
        if (flags, method) != (member.flag_bits, member.compress_type) or not (same or later):
            raise UnreadableFile(
                f"describes {plain_text(member.filename)} differently in its directory and "
                "its header"
            )
        reached = begin + member.compress_size
        if reached > len(content):
            raise UnreadableFile(
                f"lacks the end of {plain_text(member.filename)}: it is damaged or cut off; {AGAIN}"
            )
        places[member.filename] = begin
    return places
