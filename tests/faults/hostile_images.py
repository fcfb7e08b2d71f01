"""Archives and folders of images that lie, lead elsewhere, or unpack to too much."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from tests.faults import hostile_pixels
from tests.faults.hostile_archives import zipped

BLOCK = 512
GIB = 1 << 30
Maker = Callable[[Path], Path]


@dataclass(frozen=True)
class HostileImages:
    """Made in a folder by `place`. `refused`: a pattern of the sentence; '': `images` are taken."""

    place: Maker
    refused: str = ""
    images: int = 8
    content: bytes = b""  # of an archive


def png(level: int = 0, size: tuple[int, int] = (6, 4)) -> bytes:
    content = io.BytesIO()
    Image.new("RGB", size, (level, 0, 0)).save(content, "PNG")
    return content.getvalue()


SOUND = {f"{name}/{i}.png": png(9 * i) for name in "ab" for i in range(4)}


def header(name: str, size: int, kind: bytes = b"0", **fields: str) -> bytes:
    """512 bytes of a tar as they are, whatever they say."""
    member = tarfile.TarInfo(name)
    member.type, member.size = kind, size
    for field, value in fields.items():
        setattr(member, field, value)
    return member.tobuf(tarfile.GNU_FORMAT)


def blocks(content: bytes) -> bytes:
    return content + bytes(-len(content) % BLOCK)


def tarred(files: dict[str, bytes] = SOUND) -> bytes:
    """A tar without its end, so that something may follow."""
    return b"".join(header(name, len(text)) + blocks(text) for name, text in files.items())


END = bytes(2 * BLOCK)


def attributes(**said: str | int) -> bytes:
    """A pax header of what is said of the next member."""
    lines = b""
    for key, value in said.items():
        line = f" {key.replace('__', '.')}={value}\n".encode()
        length = len(line) + len(str(len(line) + len(str(len(line)))))
        lines += str(length).encode() + line
    return header("pax", len(lines), b"x") + blocks(lines)


def repeated(pack: Callable[[bytes], bytes], before: bytes, count: int) -> bytes:
    """Streams behind each other: `before`, then so many MiB of zeros."""
    return pack(before) + pack(bytes(1 << 22)) * (count >> 2)


def packed(content: bytes) -> bytes:
    return gzip.compress(content, 6, mtime=0)


def wide_xz(dictionary: int) -> bytes:
    """A tar in an xz whose header asks for 2^dictionary bytes of memory."""
    content = bytearray(lzma.compress(tarred() + END))
    length = (content[12] + 1) * 4  # of the header of the first block, with its checksum
    content[12 + 4] = 2 * (dictionary - 12)
    block = content[12 : 12 + length - 4]
    content[12 + length - 4 : 12 + length] = zlib.crc32(block).to_bytes(4, "little")
    return bytes(content)


def _sparse_map(entries: int) -> bytes:
    """A file whose list of holes is as long as this, in millions."""
    first, part = f"{10**6 * entries}\n".encode(), packed(b"0\n0\n" * 100_000)
    length = len(first) + 4 * 10**6 * entries
    said = {"GNU__sparse__major": 1, "GNU__sparse__minor": 0, "GNU__sparse__realsize": 12 * GIB}
    start = attributes(**said, GNU__sparse__name="a/9.png") + header("a/9.png", length) + first
    return packed(tarred() + start) + part * 10 * entries


def _odd_tars() -> dict[str, tuple[bytes, str]]:
    sound, long = tarred(), "more than 64 kB"
    twice = header("a/9.png", len(png()), b"0")
    negative = bytearray(header("a/9.png", 0))
    negative[124:136] = b"\xff" * 12
    negative[148:156] = b" " * 8
    negative[148:156] = b"%06o\0 " % sum(negative)
    digits = b"1" * 60_000
    return {
        "a tar": (sound + END, ""),
        "a long name of 256 MB": (
            repeated(packed, header("././@LongLink", 1 << 28, b"L"), 256) + packed(sound + END),
            long,
        ),
        "a long link of 256 MB": (repeated(packed, header("x", 1 << 28, b"K"), 256), long),
        "attributes of 256 MB": (repeated(packed, header("x", 1 << 28, b"x"), 256), long),
        "global attributes of 256 MB": (repeated(packed, header("x", 1 << 28, b"g"), 256), long),
        "attributes of Solaris of 256 MB": (packed(header("x", 1 << 28, b"X")), long),
        "attributes of 8 exabytes": (header("x", 1 << 63, b"x"), long),
        "a thousand long names for one": (
            (header("x", 3, b"L") + blocks(b"a/b")) * 5000 + sound + END,
            "cannot be read|damaged",
        ),
        "a name of 60,000 characters": (
            header("x", 60_000, b"L") + blocks(b"a/" + b"b" * 59_998) + twice + blocks(png()),
            "name of more than",
        ),
        "attributes of 60,000 digits": (
            header("x", len(digits), b"x") + blocks(digits) + sound + END,
            "damaged|^taken$",
        ),
        "a file of holes": (
            header("a/9.png", 0, b"S") + sound + END,
            "a sparse file",
        ),
        "a file of holes with a map of 40 MB": (
            _sparse_map(10),
            "a sparse file|needs more memory|far more",
        ),
        "a file of 12 GB of holes": (
            attributes(GNU__sparse__size=12 * GIB, GNU__sparse__numblocks=1)
            + header("a/9.png", 0)
            + END,
            "a sparse file|damaged|far more",
        ),
        "a map of holes that is no list": (
            attributes(GNU__sparse__map="0,1,x," * 9) + header("a/9.png", 0) + END,
            "a sparse file|damaged",
        ),
        "a size in attributes that lies": (
            sound + attributes(size=99 * GIB) + twice + blocks(png()),
            "far more|damaged",
        ),
        "a negative size in attributes": (
            sound + attributes(size=-5) + twice + blocks(png()) + END,
            "damaged",
        ),
        "a negative size": (sound + bytes(negative) + END, "damaged|^taken$"),
        "a size that is no number": (
            sound + attributes(size="x") + twice + blocks(png()) + END,
            "damaged|^taken$",
        ),
        "a path of attributes that leads up": (
            sound + attributes(path="../../../a/9.png") + twice + blocks(png()) + END,
            "",
        ),
        "a member cut off": (sound + header("a/9.png", 9999) + b"PNG", "damaged"),
        "links, devices and pipes": (
            sound
            + b"".join(
                header(f"a/{kind.decode()}.png", 0, kind, linkname="/etc/passwd")
                for kind in (b"1", b"2", b"3", b"4", b"6")
            )
            + END,
            "",
        ),
        "paths that lead up or to the root": (
            sound + tarred({"../../a/9.png": png(), "a/../../9.png": png()}) + END,
            "",
        ),
        "200,000 empty members": (
            packed(header("a/n.txt", 0) * 20_000) * 10 + packed(sound + END),
            "",
        ),
    }


def _odd_streams() -> dict[str, tuple[bytes, str]]:
    sound = tarred() + END
    endless, far = header("a/z.txt", 600 * GIB, b"0")[:0] + header("a/z.txt", 7 * GIB), "far more"
    half = len(sound) // 2
    two = zipped({"inner.zip": zipped(SOUND), "inner.tar.gz": packed(sound)})
    return {
        "a tar in bzip2": (bz2.compress(sound), ""),
        "a tar in xz": (lzma.compress(sound), ""),
        "a tar in two streams of gzip": (packed(sound[:half]) + packed(sound[half:]), ""),
        "a gzip without its end": (packed(sound)[:-40], "damaged"),
        "a gzip with a wrong checksum": (packed(sound)[:-8] + bytes(8), "damaged|^taken$"),
        "7 GB of zeros in gzip": (repeated(packed, endless, 7 << 10), far),
        "7 GB of zeros in bzip2": (repeated(bz2.compress, endless, 7 << 10), far),
        "7 GB of zeros in xz": (repeated(lzma.compress, endless, 7 << 10), far),
        "7 GB of zeros before a tar": (repeated(packed, b"", 1 << 10), "has no images"),
        "an xz that asks for 2 GB": (wide_xz(31), "more memory"),
        "a gzip in a gzip": (packed(packed(sound)), "damaged"),
        "zstandard": (b"\x28\xb5\x2f\xfd" + bytes(600), "damaged"),
        "7-Zip": (b"7z\xbc\xaf\x27\x1c" + bytes(600), "damaged"),
        "rar": (b"Rar!\x1a\7\0" + bytes(600), "damaged"),
        "archives in an archive": (two, "has no images"),
        "text": (b"no archive", "damaged"),
        "a file of zeros": (bytes(4096), "has no images|damaged"),
    }


def _listed_often(content: bytes, count: int) -> bytes:
    """A zip whose list names its last member so many times, each at the same place."""
    end = content.rfind(b"PK\5\6")
    start = int.from_bytes(content[end + 16 : end + 20], "little")
    last = content.rfind(b"PK\1\2")
    listed = content[start:end] + content[last:end] * count
    fields = struct.unpack("<IHHHHIIH", content[end:])
    entries = fields[3] + count
    new = struct.pack("<IHHHHIIH", fields[0], 0, 0, entries, entries, len(listed), start, 0)
    return content[:start] + listed + new


def _link() -> bytes:
    info = zipfile.ZipInfo("a/l.png")
    info.create_system, info.external_attr = 3, 0xA1FF << 16
    return zipped([*SOUND.items(), (info, b"/etc/passwd")])


def _odd_zips() -> dict[str, tuple[bytes, str]]:
    deflated = zipfile.ZIP_DEFLATED
    sound = zipped(SOUND, deflated)
    large = {**SOUND, "a/z.png": bytes(30 << 20)}
    lying = bytearray(sound)
    place = lying.rfind(b"PK\1\2") + 24
    lying[place : place + 4] = b"\xff\xff\xff\x7f"
    far = bytearray(sound)
    far[far.rfind(b"PK\5\6") + 16 :][:4] = b"\xff\xff\xff\xff"
    far[far.rfind(b"PK\5\6") + 12 : far.rfind(b"PK\5\6") + 20] = b"\xff" * 8
    return {
        "a zip": (sound, ""),
        "a zip packed with bzip2": (zipped(SOUND, zipfile.ZIP_BZIP2), ""),
        "a zip packed with lzma": (zipped(SOUND, zipfile.ZIP_LZMA), ""),
        "a zip of one name twice": (zipped([*SOUND.items(), *SOUND.items()]), ""),
        "a zip of paths that lead up": (
            zipped([*SOUND.items(), ("../../a/9.png", png()), ("C:\\..\\9.png", png())]),
            "",
        ),
        "a zip with a link": (_link(), ""),
        "an image of 80 MB of zeros in a zip": (
            zipped({**SOUND, "a/z.png": bytes(80 << 20)}, deflated),
            "larger than 64 MiB",
        ),
        "40 members in one place, 1.2 GB": (
            _listed_often(zipped(large, deflated), 40),
            "far more|damaged|Overlapped|not supported",
        ),
        "a zip whose sizes lie": (bytes(lying), "damaged|^taken$"),
        "a zip with a list of 64 bits that is not there": (bytes(far), "damaged"),
        "a zip that was cut off": (sound[: len(sound) // 2], "damaged"),
        "30,000 members in a zip": (
            zipped([*((f"n/{i}.txt", b"") for i in range(30_000)), *SOUND.items()]),
            "",
        ),
    }


def archives() -> dict[str, tuple[bytes, str]]:
    """Bytes of each and a pattern of the sentence; '' where its eight sound images are taken."""
    return {**_odd_tars(), **_odd_streams(), **_odd_zips()}


def kinds() -> dict[str, HostileImages]:
    """All of them: archives, images within an archive, and folders."""
    found = {
        name: HostileImages(_archive(content), refused, 8, content)
        for name, (content, refused) in archives().items()
    }
    for name, (ending, content, refused) in hostile_pixels.images().items():
        whole = zipped({**SOUND, f"a/odd.{ending}": content}, zipfile.ZIP_DEFLATED)
        found[name] = HostileImages(_archive(whole), refused, 9, whole)
    for name, (files, refused) in hostile_pixels.together(SOUND).items():
        whole = zipped(files, zipfile.ZIP_DEFLATED)
        found[name] = HostileImages(_archive(whole), refused, len(files), whole)
    return {**found, **FOLDERS}


def _archive(content: bytes) -> Maker:
    def write(folder: Path) -> Path:
        path = folder / "images.bin"
        path.write_bytes(content)
        return path

    return write


def _folder(add: Callable[[Path], object]) -> Maker:
    def write(folder: Path) -> Path:
        top = folder / "top"
        for name, content in SOUND.items():
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            (top / name).write_bytes(content)
        add(top)
        return top

    return write


def _deep(top: Path) -> None:
    before = os.open(".", os.O_RDONLY)
    os.chdir(top)
    try:
        for _ in range(300):
            os.mkdir("d")  # noqa: PTH102 - relative to where we are
            os.chdir("d")
    finally:
        os.fchdir(before)
        os.close(before)


def _holes(top: Path) -> None:
    with (top / "a" / "z.png").open("wb") as file:
        file.truncate(40 * GIB)


def _device(folder: Path) -> Path:
    (folder / "link.zip").symlink_to("/dev/zero")
    return folder / "link.zip"


def _fifo(folder: Path) -> Path:
    os.mkfifo(folder / "fifo.zip")
    return folder / "fifo.zip"


def _archive_of_holes(folder: Path) -> Path:
    with (folder / "holes.tar").open("wb") as file:
        file.truncate(3 << 40)
    return folder / "holes.tar"


FOLDERS = {
    "a folder with links and a pipe": HostileImages(
        _folder(
            lambda top: (
                (top / "a" / "l.png").symlink_to("/etc/passwd"),
                (top / "c").symlink_to(top / "a"),
                os.mkfifo(top / "a" / "p.png"),
            )
        )
    ),
    "300 folders in each other": HostileImages(_folder(_deep), "more than 64 folders"),
    "40 GB of holes in a folder": HostileImages(_folder(_holes), "larger than 64 MiB"),
    "a name of control characters": HostileImages(
        _folder(lambda top: (top / "a" / "\x1b[2J\n.png").write_bytes(b"x")), r"\\x1b\[2J\\n"
    ),
    "a device for an archive": HostileImages(_device, "not a regular file"),
    "a pipe for an archive": HostileImages(_fifo, "not a regular file"),
    "3 TB of holes for an archive": HostileImages(_archive_of_holes, "larger than"),
}
