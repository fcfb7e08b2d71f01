"""Several children side by side: one order, one verdict, and none that is left."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dgn_engine.confinement.child_process import ChildProcess
from dgn_engine.errors import UserError
from dgn_engine.storage.images import decoder_pool, image_limits
from dgn_engine.storage.images.decoder_pool import DecoderPool, ImageSize
from dgn_engine.storage.images.image_files import ImageFile
from tests.faults.hostile_images import png

SHAPE = (3, 4, 6)
# A decoder that dies, sleeps or babbles when it is given such an image.
ODD = """
import os, signal, sys, time
from dgn_engine.storage.images import decoder_child
real = decoder_child.answer_images
def answer(task, shape, contents):
    if b"die" in contents:
        os.kill(os.getpid(), signal.SIGSEGV)
    if b"sleep" in contents:
        time.sleep(600)
    if b"babble" in contents:
        return memoryview(b"\\xff" * 4096)
    return real(task, shape, contents)
decoder_child.answer_images = answer
decoder_child.confine_process = lambda seconds, memory: None
decoder_child.main(int(sys.argv[1]), int(sys.argv[2]))
"""


def files(count: int, **odd: bytes) -> Iterator[ImageFile]:
    """Images whose level is their number; `odd`: other contents by number, as 'at7'."""
    for number in range(count):
        content = odd.get(f"at{number}", png(number % 256))
        yield ImageFile(f"a/{number}.png", content, number / count)


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> list[ChildProcess]:
    """All that were started."""
    found: list[ChildProcess] = []
    begin = ChildProcess.__init__

    def began(self: ChildProcess, *given: object, **named: object) -> None:
        begin(self, *given, **named)  # type: ignore[arg-type] # as they were given
        found.append(self)

    monkeypatch.setattr(ChildProcess, "__init__", began)
    return found


@pytest.fixture
def odd_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        decoder_pool,
        "confined_command",
        lambda module, seconds, *words: [
            sys.executable,
            "-s",
            "-P",
            "-c",
            ODD,
            str(seconds),
            *words,
        ],
    )


def ended(children: list[ChildProcess]) -> bool:
    return all(child.exit_code is not None for child in children)


def quiet() -> None:
    pass


@pytest.mark.parametrize("side_by_side", [1, 3])
def test_answers_come_in_the_order_of_files_however_many_decode(
    side_by_side: int, children: list[ChildProcess]
) -> None:
    with DecoderPool(Path("x"), quiet, side_by_side) as pool:
        sizes = [(file.name, size) for file, size in pool.measure_files(files(900))]
        assert sizes == [(f"a/{i}.png", ImageSize(6, 4, False)) for i in range(900)]
        names: list[str] = []
        levels: list[int] = []
        for batch, found in pool.decode_files(files(900), SHAPE, 24):
            assert found.shape == (len(batch), *SHAPE)
            names += [file.name for file in batch]
            levels += found[:, 0, 0, 0].tolist()
    assert names == [f"a/{i}.png" for i in range(900)]
    assert levels == [i % 256 for i in range(900)]
    assert len(children) <= side_by_side
    assert ended(children)


def test_the_first_bad_image_is_named_whichever_was_read_first() -> None:
    bad = {f"at{number}": b"bad" for number in (150, 400, 401, 700)}
    with DecoderPool(Path("x"), quiet, 3) as pool:
        found = pool.measure_files(files(900, **bad))
        with pytest.raises(UserError, match=r"^x: a/150\.png is damaged"):
            list(found)


def test_a_few_images_need_one_child(children: list[ChildProcess]) -> None:
    with DecoderPool(Path("x"), quiet, 8) as pool:
        assert len(list(pool.measure_files(files(100)))) == 100
        list(pool.decode_files(files(100), SHAPE, 24))
    assert len(children) == 1


@pytest.mark.parametrize(
    ("content", "reason"), [(b"die", r"\(signal 11\)"), (b"babble", "an invalid answer|signal")]
)
def test_an_image_that_its_reader_dies_of_is_named(
    content: bytes, reason: str, odd_child: None, children: list[ChildProcess]
) -> None:
    with DecoderPool(Path("x"), quiet, 2) as pool:
        found = pool.measure_files(files(200, at137=content))
        with pytest.raises(UserError, match=rf"^x: a/137\.png .*({reason})"):
            list(found)
    assert ended(children)


def test_an_image_that_takes_for_ever_is_named(
    odd_child: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_limits, "PATIENCE", 0.5)
    with DecoderPool(Path("x"), quiet, 1) as pool:
        found = pool.measure_files(files(1, at0=b"sleep"))
        with pytest.raises(UserError, match=r"a/0\.png .* 0\.5 s"):
            list(found)


def test_a_tick_that_raises_ends_all_of_it_at_once(
    odd_child: None, children: list[ChildProcess]
) -> None:
    def tick() -> None:
        if children:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), DecoderPool(Path("x"), tick, 2) as pool:
        list(pool.measure_files(files(300, at0=b"sleep", at299=b"sleep")))
    assert ended(children)
    assert not [one for one in threading.enumerate() if one.name.startswith("dgn-")]


def test_answers_that_nobody_takes_end_with_the_pool(children: list[ChildProcess]) -> None:
    with DecoderPool(Path("x"), quiet, 2) as pool:
        next(pool.measure_files(files(5000)))
    assert ended(children)
    assert not [one for one in threading.enumerate() if one.name.startswith("dgn-")]


def test_levels_of_a_large_image_are_whole() -> None:
    content = png(9, (1500, 1000))
    with DecoderPool(Path("x"), quiet, 1) as pool:
        ((_, levels),) = pool.decode_files(files(1, at0=content), (3, 1000, 1500), 1_500_000)
    assert np.array_equal(levels[0, 0], np.full((1000, 1500), 9))


def test_an_archive_has_half_a_minute_and_what_its_bytes_take() -> None:
    least = image_limits.unpacked_limit(0) // (20 << 20)
    assert image_limits.unpacking_seconds(0) == 30 + least
