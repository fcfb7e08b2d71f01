"""Looking at a zip archive before anything in it is read."""

from __future__ import annotations

import io
import zipfile

from dgn_engine.checkpoints import limits
from dgn_engine.checkpoints.contents import Unreadable, plain

_ENCRYPTED = 0x1


def checked_zip(content: bytes) -> zipfile.ZipFile:
    """The archive, with members that are few, distinct, plain and no larger than allowed.

    Raises `Unreadable`.
    """
    # The count stands in the last record; it is read before the list that it announces.
    end = content.rfind(b"PK\x05\x06")
    if end < 0 or len(content) < end + 22:
        raise Unreadable("is a zip archive that was cut off")
    if int.from_bytes(content[end + 12 : end + 16], "little") > limits.MEMBERS * 400:
        raise Unreadable("is a zip archive with too many members")
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
    except Exception as error:  # a broken archive fails in many types of exception
        raise Unreadable(f"is a damaged zip archive ({error})") from None
    members = archive.infolist()
    if len(members) > limits.MEMBERS:
        raise Unreadable(f"is a zip archive with {len(members):,} members, which is too many")
    if len({member.filename for member in members}) != len(members):
        raise Unreadable("is a zip archive that holds two members of one name")
    for member in members:
        if member.flag_bits & _ENCRYPTED:
            raise Unreadable("is an encrypted archive")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise Unreadable(f"packs {plain(member.filename)} in a way that is not read")
    if sum(member.file_size for member in members) > limits.expanded(len(content)):
        raise Unreadable("unpacks to far more than its size, and was refused")
    return archive


def require_stored(archive: zipfile.ZipFile) -> None:
    """torch never compresses: an archive that does was made to expand."""
    for member in archive.infolist():
        stored = member.compress_type == zipfile.ZIP_STORED
        if not stored or member.file_size != member.compress_size:
            raise Unreadable(f"compresses {plain(member.filename)}, which torch never does")
