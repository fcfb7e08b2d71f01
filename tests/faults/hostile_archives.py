"""Zip archives that lie, hide, lead elsewhere, unpack to too much, or hold programs."""

from __future__ import annotations

import io
import warnings
import zipfile

import numpy as np

from tests.faults.honest_files import npz
from tests.faults.pickle_assembly import ONES, make_pickle, tensor, torch_zip

SOUND = torch_zip({"w": tensor()})


def zipped(
    members: dict[str, bytes] | list[tuple[str | zipfile.ZipInfo, bytes]],
    compression: int = zipfile.ZIP_STORED,
    comment: bytes = b"",
) -> bytes:
    content = io.BytesIO()
    pairs = members.items() if isinstance(members, dict) else members
    with warnings.catch_warnings(), zipfile.ZipFile(content, "w", compression) as archive:
        warnings.simplefilter("ignore")  # of names that are there twice
        for name, text in pairs:
            archive.writestr(name, text)
        archive.comment = comment
    return content.getvalue()


def changed(content: bytes, before: bytes, after: bytes, which: int = 0) -> bytes:
    """One place replaced by as many bytes; `which`: 0 the first, -1 the last."""
    assert len(before) == len(after)
    place = content.find(before) if which == 0 else content.rfind(before)
    assert place >= 0
    return content[:place] + after + content[place + len(before) :]


def in_list(content: bytes, member: bytes, offset: int, value: bytes) -> bytes:
    """A field of a member in the archive's list replaced; `offset` from its signature."""
    place = content.rfind(member) - 46
    assert content[place : place + 4] == b"PK\1\2"
    return content[: place + offset] + value + content[place + offset + len(value) :]


def _link() -> bytes:
    info = zipfile.ZipInfo("archive/data/0")
    info.create_system, info.external_attr = 3, 0xA1FF << 16
    return zipped([("archive/data.pkl", make_pickle({"w": tensor()})), (info, b"/etc/passwd")])


def _named(name: str) -> bytes:
    return zipped([("archive/data.pkl", make_pickle({"w": tensor()})), (name, ONES)])


def _overlapping() -> bytes:
    """Two entries of the list lead to one member, as bombs of a few kilobytes do."""
    other = SOUND.index(b"archive/data/0") - 30
    return in_list(SOUND, b"archive/version", 42, other.to_bytes(4, "little"))


def _counted(value: int) -> bytes:
    end = SOUND.rfind(b"PK\5\6")
    return SOUND[: end + 12] + value.to_bytes(4, "little") + SOUND[end + 16 :]


def archives() -> dict[str, tuple[bytes, str]]:
    tree = {"w": tensor()}
    bomb = np.zeros(9_000_000)
    return {
        "zip of nothing": (zipped({}), "does not have"),
        "a document": (zipped({"word/document.xml": b"<a/>"}), "does not have"),
        "a deflated torch file": (torch_zip(tree, None, zipfile.ZIP_DEFLATED), "compresses"),
        "a torch file packed with bzip2": (
            torch_zip(tree, None, zipfile.ZIP_BZIP2),
            "not supported|unsupported",
        ),
        "a torch file packed with lzma": (
            torch_zip(tree, None, zipfile.ZIP_LZMA),
            "not supported|unsupported",
        ),
        "an npz bomb": (npz(True, a=bomb), "far more than its size"),
        "an npz of many bombs": (
            npz(True, **{f"a{i}": bomb[:1_000_000] for i in range(9)}),
            "far more",
        ),
        "a torch file that is a bomb": (
            torch_zip(tree, {"0": bytes(90 << 20)}, zipfile.ZIP_DEFLATED),
            "far more than its size",
        ),
        "an encrypted archive": (in_list(SOUND, b"archive/data/0", 8, b"\1\0"), "encrypted"),
        "a wrong checksum": (changed(SOUND, ONES, b"\1" + ONES[1:]), "checksum"),
        "a wrong checksum in an npz": (
            changed(npz(False, a=np.ones(4)), np.ones(4).tobytes(), np.zeros(4).tobytes()),
            "damaged",
        ),
        "bytes before the archive": (b"PK\3\4 not one" + SOUND, "before its archive|no .* where"),
        "a program before the archive": (b"#!/bin/sh\nreboot\n" + SOUND, "is not a checkpoint"),
        "bytes behind the archive": (SOUND + b"<script>", "after the end"),
        "an archive behind an archive": (SOUND + SOUND, "before its archive|no .* where"),
        "a comment": (
            zipped({"a/data.pkl": b""}, comment=b"PK\5\6" + b"\0" * 18),
            "two directories",
        ),
        "one name twice in a zip": (
            zipped([("a/data.pkl", make_pickle({})), ("a/data.pkl", make_pickle(tree))]),
            "two members with the same name",
        ),
        "a path that leads up": (_named("../../etc/passwd"), "leads outside"),
        "a path that leads up within": (_named("archive/../../x"), "leads outside"),
        "a path from the root": (_named("/etc/passwd"), "leads outside"),
        "a path of Windows": (_named("C:/x"), "leads outside"),
        "a path with backslashes": (_named("..\\x"), "leads outside"),
        "a link in an archive": (_link(), "a link as a member"),
        "members that overlap": (_overlapping(), "overlap|another name"),
        "another name in the list": (
            changed(SOUND, b"archive/version", b"archive/versiom", -1),
            "different name",
        ),
        "a member that is elsewhere": (
            in_list(SOUND, b"archive/version", 42, b"\xff\xff\0\0"),
            "no .* where its directory says",
        ),
        "a size that lies": (in_list(SOUND, b"archive/data/0", 24, b"\xff\0\0\0"), "two sizes"),
        "two sizes that lie": (
            in_list(SOUND, b"archive/data/0", 20, b"\0\0\0\x10" * 2),
            "far more|cut off",
        ),
        "too long a list": (_counted(2**31), "too many members"),
        "a list of 64 bits that is not there": (_counted(2**32 - 1), "members|damaged|cut off"),
        "20,001 members": (zipped({f"a/{i}": b"" for i in range(20_001)}), "which is too many"),
        "an archive without its end": (SOUND[:-10], "cut off"),
        "a TorchScript program": (torch_zip(tree, **{"constants.pkl": b""}), "TorchScript"),
        "TorchScript code": (torch_zip(tree, **{"code/__torch__.py": b"x"}), "TorchScript"),
        "a torch.package": (torch_zip(tree, **{".data/extern_modules": b""}), "torch.package"),
        "an exported program": (torch_zip(tree, archive_format=b"pt2"), "exported program"),
        "two pickles": (
            torch_zip(tree, **{"other.pkl": make_pickle(1)}),
            "does not have exactly one",
        ),
        "a pickle without a folder": (
            zipped({"data.pkl": make_pickle(tree)}),
            "does not have exactly one",
        ),
        "two folders": (_named("elsewhere/0"), "more than one folder"),
        "a pickle of 40 MB": (torch_zip(b"N" * (40 << 20)), "does not have exactly one small"),
        "a byte order of the moon": (torch_zip(tree, byteorder=b"middle"), "byte order"),
        "an npz of damaged arrays": (zipped({"a.npy": b"\x93NUMPY\1\0"}), "damaged header"),
        "an npz without arrays": (zipped({"a.npy": b"", "b": b""}), "damaged header"),
    }
