"""The short-lived process that reads an untrusted session file.

`python -m dgn_engine.storage.session_file.unpack_child`

As in `checkpoints.reader_child` it reads the file from standard input, answers on standard output
and may open nothing. It checks every member, and passes on their bytes if all are valid. torch is
not imported here.
"""

from __future__ import annotations

import json
import sys
from typing import IO, Any

from dgn_engine.storage.checkpoints import limits, wire
from dgn_engine.storage.checkpoints.contents import UnreadableFile
from dgn_engine.storage.checkpoints.file_content import Content
from dgn_engine.storage.checkpoints.reader_child import serve_request
from dgn_engine.storage.checkpoints.safetensors_file import looks_like_safetensors, read_safetensors
from dgn_engine.storage.checkpoints.zip_archive import START, ZipArchive, checked_zip
from dgn_engine.storage.plain_data import parse_json, to_plain
from dgn_engine.storage.regular_files import content_digest
from dgn_engine.storage.runs import folder_layout
from dgn_engine.storage.session_file import archive_format
from dgn_engine.text.printable import plain_text


def answer_session(content: Content, pipe: IO[bytes]) -> None:
    with wire.refusals_to(pipe):
        archive = checked_session(content)
        names = [name for name in archive.members if name != archive_format.MANIFEST]
        head = {"files": [[name, archive.members[name].file_size] for name in names]}
        pipe.write(json.dumps(head).encode() + b"\n")
        for name in names:
            pipe.write(archive.read_member(name))
        pipe.flush()


def checked_session(content: Content) -> ZipArchive:
    """Return the archive with every member checked; raises `UnreadableFile`."""
    if len(content) > limits.FILE:
        raise UnreadableFile("is larger than 2 GiB")
    if content[: len(START)] != START:
        raise UnreadableFile("is not a session file")
    archive = checked_zip(content)
    for name in archive.members:
        if archive_format.kind_of(name) is None:
            raise UnreadableFile(f"has {plain_text(name)}, which is not part of a session")
    for name in (
        archive_format.ABOUT,
        archive_format.MANIFEST,
        archive_format.FOLDER + folder_layout.RUN,
    ):
        if name not in archive.members:
            raise UnreadableFile(f"is not a session file: it has no {name}")
    archive.require_stored("sessions never do")
    for name in archive.members:
        archive.read_checked_member(name)
    about = _read_json(archive, archive_format.ABOUT)
    version = about.get("format") if isinstance(about, dict) else None
    if not str(version).startswith(archive_format.FORMAT.rpartition(" ")[0]):
        raise UnreadableFile("is not a session file: its session.json states no version")
    if version != archive_format.FORMAT:
        raise UnreadableFile(
            "was written by a later version of dgn-viewer; install that one to open it"
        )
    _check_manifest(archive)
    for name in archive.members:
        _check_member(archive, name)
    return archive


def _check_manifest(archive: ZipArchive) -> None:
    manifest = _read_json(archive, archive_format.MANIFEST)
    others = set(archive.members) - {archive_format.MANIFEST}
    if not isinstance(manifest, dict) or set(manifest) != others:
        raise UnreadableFile("has a manifest that does not match its files")
    for name, written in manifest.items():
        content = archive.read_member(name)
        if written != to_plain(content_digest(content)):
            raise UnreadableFile(f"is damaged: {name} does not match its manifest")


def _check_member(archive: ZipArchive, name: str) -> None:
    content = archive.read_member(name)
    match archive_format.kind_of(name):
        case "json":
            _read_json(archive, name)
        case "tensors":
            if not looks_like_safetensors(bytes(content[:16])):
                raise UnreadableFile(f"has no safetensors in {name}")
            try:
                read_safetensors(bytes(content))
            except UnreadableFile as verdict:
                raise UnreadableFile(f"was refused: {name} {verdict}") from None
        case "log":
            _check_log(content, name)
        case "text":
            if len(content) > archive_format.JSON:
                raise UnreadableFile(f"has {name} of unreasonable size")
        case _:
            if len(content):
                raise UnreadableFile(f"has content in {name}, which must be empty")


def _check_log(content: memoryview, name: str) -> None:
    if len(content) > archive_format.LOG:
        raise UnreadableFile(f"has {name} of unreasonable size")
    if any(len(line) > archive_format.LINE for line in bytes(content).split(b"\n")):
        raise UnreadableFile(f"has a line of unreasonable length in {name}")


def _read_json(archive: ZipArchive, name: str) -> Any:
    content = archive.read_member(name)
    if len(content) > archive_format.JSON:
        raise UnreadableFile(f"has {name} of unreasonable size")
    try:
        return parse_json(bytes(content))
    except ValueError as error:
        raise UnreadableFile(
            f"has {name} that is not valid JSON ({plain_text(str(error), 80)})"
        ) from None


if __name__ == "__main__":
    serve_request(answer_session, int(sys.argv[1]))
