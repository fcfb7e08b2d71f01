"""Decoded images are kept for their owner alone, and believed only where they are what was kept."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from dgn_engine.config import DataConfig
from dgn_engine.data import Examples, load_examples
from dgn_engine.data._image_cache import DecodedImages, read_cached_images, store_images
from dgn_engine.storage.images import image_files
from tests.faults.hostile_images import SOUND, png
from tests.refusals import refused

DECODED = DecodedImages(
    np.arange(6 * 24, dtype=np.uint8).reshape(6, 1, 4, 6),
    np.array([0, 0, 0, 1, 1, 1]),
    np.zeros((2, 1, 4, 6), np.uint8),
    np.array([0, 1]),
    ("a", "ü"),
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(image_files, "CLOCK_STEP", 0)
    return tmp_path / "cache" / "dgn-viewer" / "images"


def entry_of(folder: Path) -> Path:
    (entry,) = folder.iterdir()
    return entry


def test_what_was_kept_comes_back() -> None:
    store_images("x", DECODED)
    found = read_cached_images("x")
    assert found is not None
    for name in ("train_x", "train_y", "test_x", "test_y"):
        array, wanted = getattr(found, name), getattr(DECODED, name)
        assert array.dtype == wanted.dtype
        assert np.array_equal(array, wanted)
    assert found.class_names == ("a", "ü")
    assert read_cached_images("y") is None


def test_nobody_else_may_read_or_write_it(folder: Path) -> None:
    folder.mkdir(parents=True, mode=0o777)
    folder.chmod(0o777)
    before = os.umask(0)
    try:
        store_images("x", DECODED)
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert entry_of(folder).stat().st_mode & 0o777 == 0o600


def test_an_entry_with_any_byte_changed_is_not_believed(folder: Path) -> None:
    store_images("x", DECODED)
    entry = entry_of(folder)
    whole = entry.read_bytes()
    for place in range(0, len(whole), 13):
        entry.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert read_cached_images("x") is None, place
    for cut in (0, 1, 40, len(whole) - 32, len(whole) - 1):
        entry.write_bytes(whole[:cut])
        assert read_cached_images("x") is None, cut
    entry.write_bytes(whole + b"\0")
    assert read_cached_images("x") is None
    entry.write_bytes(whole)
    assert read_cached_images("x") is not None


def test_an_entry_of_another_source_is_not_believed(folder: Path) -> None:
    store_images("x", DECODED)
    first = entry_of(folder)
    content = first.read_bytes()
    first.unlink()
    store_images("y", DECODED)
    entry_of(folder).write_bytes(content)
    assert read_cached_images("y") is None


@pytest.mark.parametrize(
    "head",
    [
        b"[]",
        b"{}",
        b'{"key": "KEY", "class_names": ["a"], "shapes": [[1e300], [1], [1], [1]]}',
        b'{"key": "KEY", "class_names": ["a"], "shapes": [[-1, -1, 1, 1], [1], [1, 1, 1, 1], [1]]}',
        b'{"key": "KEY", "class_names": [], "shapes": [[999999999999, 1, 1, 1], [1], [1], [1]]}',
        b"[" * 100_000,
    ],
)
def test_a_planted_entry_with_a_right_checksum_is_checked_before_memory_is_taken(
    head: bytes, folder: Path
) -> None:
    store_images("x", DECODED)
    entry = entry_of(folder)
    head = head.replace(b"KEY", entry.stem.encode()) + b"\n" + bytes(40)
    entry.write_bytes(head + hashlib.sha256(head).digest())
    assert read_cached_images("x") is None


def test_a_link_is_not_followed(folder: Path, tmp_path: Path) -> None:
    store_images("x", DECODED)
    entry = entry_of(folder)
    entry.rename(tmp_path / "elsewhere")
    entry.symlink_to(tmp_path / "elsewhere")
    assert read_cached_images("x") is None
    store_images("x", DECODED)
    assert not entry.is_symlink()
    shutil.move(folder, tmp_path / "moved")
    folder.symlink_to(tmp_path / "moved")
    assert read_cached_images("x") is None


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_what_others_may_write_is_not_believed(mode: int, folder: Path) -> None:
    store_images("x", DECODED)
    entry_of(folder).chmod(mode)
    assert read_cached_images("x") is None
    entry_of(folder).chmod(0o600)
    folder.chmod(mode | 0o100)
    assert read_cached_images("x") is None


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives away")
def test_an_entry_of_another_user_is_not_believed(folder: Path) -> None:
    store_images("x", DECODED)
    os.chown(entry_of(folder), 12345, 12345)
    assert read_cached_images("x") is None


def test_a_pipe_in_its_place_keeps_nobody_waiting(folder: Path) -> None:
    store_images("x", DECODED)
    entry = entry_of(folder)
    entry.unlink()
    os.mkfifo(entry, 0o600)
    assert read_cached_images("x") is None


def test_what_was_not_used_for_longest_is_removed(folder: Path) -> None:
    for place, name in enumerate("abc"):
        store_images(name, DECODED)
        newest = max(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        os.utime(newest, (place, place))
    assert read_cached_images("a") is not None  # which is a use
    store_images("d", DECODED, most=3 * newest.stat().st_size)
    assert [name for name in "abcd" if read_cached_images(name) is not None] == ["a", "c", "d"]
    store_images("e", DECODED, most=newest.stat().st_size - 1)
    assert not list(folder.iterdir())


def test_another_pillow_decodes_anew() -> None:
    store_images("x", DECODED)
    assert read_cached_images("x", by="0.0") is None
    store_images("x", DECODED, by="0.0")
    assert read_cached_images("x", by="0.0") is not None


def written(top: Path) -> Path:
    for name, content in SOUND.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_bytes(content)
    return top


def load(path: Path) -> tuple[Examples, bool]:
    """The examples, and whether they were decoded for it."""
    said: list[str] = []
    found = load_examples(DataConfig(name=f"folder:{path}"), lambda what, _: said.append(what))
    return found, any(what.startswith("decoding") for what in said)


def test_another_content_of_the_same_size_and_time_is_seen(tmp_path: Path) -> None:
    top = written(tmp_path / "images")
    first, _ = load(top)
    path = top / "a" / "1.png"
    status, other = path.stat(), png(200)
    assert len(other) == status.st_size
    path.write_bytes(other)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    second, decoded = load(top)
    assert decoded
    assert second.fingerprint != first.fingerprint


def test_what_was_decoded_is_read_again_without_decoding(tmp_path: Path) -> None:
    top = written(tmp_path / "images")
    first, decoded = load(top)
    assert decoded
    second, decoded = load(top)
    assert not decoded
    assert second.fingerprint == first.fingerprint
    assert second.source == first.source != ""
    assert np.array_equal(second.train_x, first.train_x)


@pytest.mark.parametrize("change", ["added", "removed", "renamed", "touched", "elsewhere"])
def test_any_change_of_the_listing_is_decoded_anew(change: str, tmp_path: Path) -> None:
    top = written(tmp_path / "images")
    first, _ = load(top)
    path = top / "a" / "1.png"
    if change == "added":
        (top / "a" / "new.png").write_bytes(png(3))
    elif change == "removed":
        path.unlink()
    elif change == "renamed":
        path.rename(top / "a" / "other.png")
    elif change == "touched":
        os.utime(path, ns=(1, 1))
    else:
        top = written(tmp_path / "more" / "images")
    second, decoded = load(top)
    assert decoded
    assert second.source != first.source


def test_an_archive_is_known_by_its_size_and_times(tmp_path: Path) -> None:
    top = written(tmp_path / "images")
    archive = Path(shutil.make_archive(str(tmp_path / "images"), "gztar", top))
    assert load(archive)[1]
    assert not load(archive)[1]
    (top / "a" / "1.png").write_bytes(png(9))
    shutil.make_archive(str(tmp_path / "images"), "gztar", top)
    assert load(archive)[1]


def test_what_changed_just_now_is_not_kept(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next change might get the same time."""
    monkeypatch.setattr(image_files, "CLOCK_STEP", 3600 * 10**9)
    top = written(tmp_path / "images")
    examples, decoded = load(top)
    assert decoded
    assert not examples.source
    assert not folder.exists()


def test_a_source_that_changes_while_it_is_read_is_refused_and_not_kept(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = written(tmp_path / "images")
    read = image_files.image_files

    def changing(*given: object) -> object:
        yield from read(*given)  # type: ignore[arg-type] # as they were given
        (top / "a" / "0.png").write_bytes(png(77))

    monkeypatch.setattr("dgn_engine.storage.images.decoder_pool.image_files", changing)
    with refused("changed"):
        load(top)
    assert not folder.exists()
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(image_files, "CLOCK_STEP", 0)
    assert load(top)[1]
