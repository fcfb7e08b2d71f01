import io
import os
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dgn_engine.config import DataConfig
from dgn_engine.data import Examples, load_examples
from dgn_engine.errors import UserError
from dgn_engine.storage.images import decoder_child, image_files
from dgn_engine.storage.images import image_records as records
from dgn_engine.storage.images.decoder_pool import DecoderPool
from dgn_engine.storage.images.image_files import ImageFile
from tests.daily import nightly
from tests.refusals import assert_one_sentence, refused

Files = dict[str, bytes]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def decoded_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The decoder without its child, which takes a moment to start: that is tested in storage."""

    def ask(pool: DecoderPool, batch: list[ImageFile], task: Any) -> bytes:
        contents = [file.content for file in batch]
        said = io.BytesIO(decoder_child.answer_images(task.kind, task.shape, contents))
        (count,) = records.COUNT.unpack(said.read(records.COUNT.size))
        found = said.read(count * task.reply_size)
        if count < len(batch):
            refusal = records.read_refusal(said.read)
            raise UserError(f"{pool._source}: {batch[count].name} {refusal}.")
        return found

    monkeypatch.setattr(DecoderPool, "_ask_child", ask)


def png(level: int, size: tuple[int, int] = (6, 4), mode: str = "RGB") -> bytes:
    buffer = io.BytesIO()
    colour = level if mode in ("L", "P", "I;16") else (level, 0, 0, 255)[: len(mode)]
    Image.new(mode, size, colour).save(buffer, "PNG")
    return buffer.getvalue()


def classes(*names: str, each: int = 5, prefix: str = "", mode: str = "RGB") -> Files:
    return {
        f"{prefix}{name}/{i}.png": png(10 * place + i, mode=mode)
        for place, name in enumerate(names)
        for i in range(each)
    }


def as_folder(files: Files, path: Path) -> None:
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)


def as_zip(files: Files, path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def as_tar(files: Files, path: Path, mode: str = "w") -> None:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload] # its modes are literals
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def as_tar_gz(files: Files, path: Path) -> None:
    as_tar(files, path, "w:gz")


def load(path: Path) -> Examples:
    return load_examples(DataConfig(name=f"folder:{path}"))


def told(path: Path) -> tuple[Examples, list[str]]:
    """The examples, and what was said; once where it was said again, as where it takes long."""
    said: list[str] = []
    found = load_examples(DataConfig(name=f"folder:{path}"), lambda what, _: said.append(what))
    return found, [what for what, _ in groupby(said)]


def loaded(files: Files, tmp_path: Path) -> Examples:
    as_zip(files, tmp_path / "some.zip")
    return load(tmp_path / "some.zip")


MAKERS = {"images": as_folder, "a.zip": as_zip, "a.tar": as_tar, "a.tgz": as_tar_gz}


@pytest.mark.wide
@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("around", ["", "dataset/"])
def test_a_folder_and_its_archives_hold_the_same_examples(
    name: str, around: str, tmp_path: Path
) -> None:
    files = classes("cat", "dog", "eel", prefix=around)
    MAKERS[name]({**files, f"{around}notes.txt": b"not an image"}, tmp_path / name)
    as_zip(files, tmp_path / "reference.zip")
    examples, reference = load(tmp_path / name), load(tmp_path / "reference.zip")
    assert examples.class_names == ("cat", "dog", "eel")
    assert examples.train_x.shape == (12, 3, 4, 6)
    assert np.bincount(examples.test_y).tolist() == [1, 1, 1]
    assert examples.fingerprint == reference.fingerprint
    for image, label in zip(examples.train_x, examples.train_y, strict=True):
        assert label == round(image[0, 0, 0] * 255) // 10


def test_train_and_test_folders_are_kept_apart(tmp_path: Path) -> None:
    files = classes("a", "b", each=3, prefix="top/Train/")
    files |= classes("a", "b", each=2, prefix="top/test/")
    files |= classes("a", "b", each=7, prefix="top/val/")
    examples = loaded(files, tmp_path)
    assert examples.train_y.tolist() == [0, 0, 0, 1, 1, 1]
    assert examples.test_y.tolist() == [0, 0, 1, 1]


def test_numbered_classes_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    assert loaded(classes("10", "9", "2"), tmp_path).class_names == ("2", "9", "10")


@pytest.mark.parametrize(
    ("mode", "more", "channels"),
    [("L", {}, 1), ("L", {"a/0.png": "RGB"}, 3), ("P", {}, 3), *nightly(("RGBA", {}, 3))],
)
def test_images_have_one_channel_where_all_are_grey(
    mode: str, more: dict[str, str], channels: int, tmp_path: Path
) -> None:
    files = classes("a", "b", mode=mode) | {name: png(7, mode=kind) for name, kind in more.items()}
    assert loaded(files, tmp_path).train_x.shape[1:] == (channels, 4, 6)


def test_sixteen_bits_are_scaled_and_not_clipped(tmp_path: Path) -> None:
    files = {f"{c}/{i}.png": png(32896, mode="I;16") for c in "ab" for i in range(5)}
    examples = loaded(files, tmp_path)
    assert examples.train_x.shape[1] == 1
    assert np.allclose(examples.train_x, 128 / 255)


def test_odd_sizes_are_brought_to_the_most_frequent_one(tmp_path: Path) -> None:
    files = classes("a", "b") | {"a/0.png": png(5, (60, 40)), "b/1.png": png(11, (3, 2))}
    examples = loaded(files, tmp_path)
    assert examples.train_x.shape[2:] == (4, 6)


def test_progress_is_told(tmp_path: Path) -> None:
    as_tar_gz(classes("a", "b"), tmp_path / "a.tar.gz")
    words = ["reading a.tar.gz", "scanning a.tar.gz", "decoding a.tar.gz"]
    assert told(tmp_path / "a.tar.gz")[1] == words


def test_the_second_time_comes_from_the_cache_until_the_source_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each source has a place of its own there, also the second, for which its folder is there."""
    monkeypatch.setattr(image_files, "CLOCK_STEP", 0)
    one, two = tmp_path / "one", tmp_path / "two"
    found: list[tuple[str, bool]] = []
    for path in (one, two, one, two, one):
        if not path.exists():
            as_folder(classes("a", path.name), path)
        elif len(found) == 4:
            (one / "a" / "new.png").write_bytes(png(200))
        examples, words = told(path)
        assert examples.class_names == ("a", path.name)
        found.append((examples.fingerprint, f"decoding {path.name}" in words))
    prints, decoded = zip(*found, strict=True)
    assert decoded == (True, True, False, False, True)
    assert prints[:2] == prints[2:4]
    assert prints[4] != prints[0]


def test_the_test_part_of_a_folder_is_not_named_by_a_file(tmp_path: Path) -> None:
    as_folder(classes("a", "b"), tmp_path / "images")
    np.save(tmp_path / "test.npy", np.array([0, 5]))
    config = DataConfig(
        name=f"folder:{tmp_path / 'images'}", test_indices=str(tmp_path / "test.npy")
    )
    with refused("contradiction"):
        load_examples(config)


def test_a_damaged_cache_is_made_again(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_files, "CLOCK_STEP", 0)
    as_zip(classes("a", "b"), tmp_path / "a.zip")
    first = load(tmp_path / "a.zip")
    (entry,) = (own_cache / "dgn-viewer" / "images").iterdir()
    entry.write_bytes(entry.read_bytes()[:100])
    assert load(tmp_path / "a.zip").fingerprint == first.fingerprint


def test_a_cache_that_cannot_be_written_is_no_trouble(tmp_path: Path, own_cache: Path) -> None:
    own_cache.touch()
    as_zip(classes("a", "b"), tmp_path / "a.zip")
    assert load(tmp_path / "a.zip").class_names == ("a", "b")


# What is not taken.


def test_links_hidden_files_and_pipes_are_passed_over(tmp_path: Path) -> None:
    as_folder(classes("a", "b"), tmp_path / "images")
    folder = tmp_path / "images"
    (tmp_path / "secret.png").write_bytes(png(250))
    (folder / "a" / "link.png").symlink_to(tmp_path / "secret.png")
    (folder / "c").symlink_to(folder / "a")
    (folder / "b" / "._0.png").write_bytes(b"a fork of a Mac")
    os.mkfifo(folder / "b" / "pipe.png")
    examples = load(folder)
    assert examples.class_names == ("a", "b")
    assert len(examples.train_y) + len(examples.test_y) == 10


def test_links_and_devices_in_a_tar_are_passed_over_and_nothing_is_written(
    tmp_path: Path,
) -> None:
    path = tmp_path / "in" / "a.tar"
    path.parent.mkdir()
    as_tar(classes("a", "b") | {"a/../../../climbed.png": png(1)}, path)
    with tarfile.open(path, "a") as archive:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE):
            member = tarfile.TarInfo(f"a/{kind.decode()}.png")
            member.type, member.linkname = kind, "/etc/passwd"
            archive.addfile(member)
    examples = load(path)
    assert len(examples.train_y) + len(examples.test_y) == 10
    assert {p.name for p in tmp_path.iterdir()} <= {"cache", "in"}


def bomb(width: int, height: int) -> bytes:
    """A PNG that declares a giant image in a few bytes."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


def jpeg_cut_off() -> bytes:
    noise = np.random.default_rng(0).integers(0, 256, (40, 60, 3)).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise).save(buffer, "JPEG")
    return buffer.getvalue()[:900]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("bomb.png", bomb(9000, 9000)),
        *nightly(("bomb.png", bomb(12_000, 12_000)), ("bomb.png", bomb(100_000, 100_000))),
        ("cut.jpg", jpeg_cut_off()),
        ("fake.png", b"#!/bin/sh"),
    ],
)
def test_an_image_that_is_none_is_named(name: str, content: bytes, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=re.escape(f"a/{name}")) as refusal:
        loaded(classes("a", "b") | {f"a/{name}": content}, tmp_path)
    assert_one_sentence(str(refusal.value))


def test_images_that_do_not_fit_in_memory_are_refused_before_they_are_decoded(
    tmp_path: Path,
) -> None:
    files = {f"{c}/{i}.png": bomb(8000, 8000) for c in "ab" for i in range(9)}
    with refused("too-large") as refusal:
        loaded(files, tmp_path)
    for counted in ("18", "8000×8000", "12.9 GiB"):
        assert counted in str(refusal.error)


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ({}, "no-file"),
        ({"a/readme.txt": b""}, "no-file"),
        (classes("only"), "empty"),
        ({"1.png": png(1), "2.png": png(2)}, "empty"),
        (classes("a", "b", prefix="train/") | classes("c", prefix="test/"), "missing"),
    ],
)
def test_a_layout_without_two_classes_is_refused(files: Files, kind: str, tmp_path: Path) -> None:
    with refused(kind):
        loaded(files, tmp_path)


@pytest.mark.parametrize("make", [as_zip, as_tar_gz])
def test_an_archive_cut_off_is_one_sentence(
    make: Callable[[Files, Path], None], tmp_path: Path
) -> None:
    make(classes("a", "b", each=40), tmp_path / "whole")
    content = (tmp_path / "whole").read_bytes()
    (tmp_path / "cut").write_bytes(content[: len(content) // 2])
    with pytest.raises(UserError, match="cut is"):
        load(tmp_path / "cut")


def test_an_encrypted_zip_is_one_sentence(tmp_path: Path) -> None:
    as_zip(classes("a", "b"), tmp_path / "a.zip")
    content = bytearray((tmp_path / "a.zip").read_bytes())
    for mark, offset in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        place = content.find(mark)
        while place >= 0:
            content[place + offset] |= 1
            place = content.find(mark, place + 1)
    (tmp_path / "a.zip").write_bytes(content)
    with pytest.raises(UserError, match="is encrypted"):
        load(tmp_path / "a.zip")


@pytest.mark.parametrize("name", ["folder", "folder:", "folder:/no/such/place"])
def test_a_path_that_is_not_there_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=r"folder:PATH|no folder or archive"):
        load_examples(DataConfig(name=name))


def test_a_folder_loaded_again_with_other_options_is_as_if_it_were_the_first(
    tmp_path: Path,
) -> None:
    """Size, channels, a limit, noise, a pair: the cache holds the images as they are decoded."""
    as_folder(classes("a", "b", "c", each=6), tmp_path / "images")
    plain = DataConfig(name=f"folder:{tmp_path / 'images'}")
    others = [
        replace(plain, image_size=3),
        replace(plain, train_limit=6),
        replace(plain, label_noise=1.0),
        replace(plain, binary=(2, 0)),
        replace(plain, normalise="0.5/0.5"),
        replace(plain, pixels="random"),
    ]
    first = [load_examples(config) for config in (plain, *others)]
    first[0].train_x[:] = 7.0  # whoever changes what was loaded changes no other
    for config, before in zip((plain, *others), first, strict=True):
        again = load_examples(config)
        assert again.fingerprint == before.fingerprint
        assert again.train_x.max() <= 3.0 or config.pixels == "random"
    assert len({each.fingerprint for each in first}) == len(first)
