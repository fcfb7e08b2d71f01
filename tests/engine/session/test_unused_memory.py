"""What a run, a file or a comparison held is free when another takes its place."""

from __future__ import annotations

import gc
import platform
import subprocess
import sys
import weakref
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from dgn_engine.config import RunConfig
from dgn_engine.protocol.training import StartRun, SwapRegime
from dgn_engine.protocol.watching import Watch
from dgn_engine.session import unused_memory
from tests.engine.session.conftest import PROBES, Desk, small_config

THREAD = """
import ctypes, threading
from pathlib import Path
from dgn_engine.session.unused_memory import release_free_memory, use_one_heap

libc = ctypes.CDLL(None)
libc.malloc.argtypes, libc.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]

def resident():
    status = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))

def allocate_and_free(count, size):
    blocks = [libc.malloc(size) for _ in range(count)]
    for block in blocks:
        ctypes.memset(block, 1, size)
    for block in blocks:
        libc.free(block)

use_one_heap()
before = resident()
allocate_and_free(1, 30 << 20)  # from now on glibc keeps up to 60 MiB at the end of a heap
thread = threading.Thread(target=allocate_and_free, args=(400, 64 << 10))
thread.start()
thread.join()
release_free_memory()
print(resident() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="heaps of glibc")
def test_what_a_thread_freed_at_the_end_of_its_heap_is_given_back() -> None:
    child = [sys.executable, "-c", THREAD]
    done = subprocess.run(child, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 5_000  # KiB, of 25,600 that the thread had


@pytest.fixture
def no_collector() -> Iterator[None]:
    """In the window it runs in another thread, and seldom."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_a_run_that_was_replaced_is_freed_without_the_collector(
    recording_desk: Desk, no_collector: None
) -> None:
    desk = recording_desk
    desk.handle(Watch(PROBES), StartRun(small_config(seed=1)))
    desk.advance(3)
    gc.collect()  # what torch imported at the first step holds on to its frames
    desk.handle(StartRun(small_config(seed=2)))
    desk.advance(3)
    desk.handle(SwapRegime("FR-II"))
    desk.advance(2)
    run = desk.run
    held = {
        "run": weakref.ref(run),
        "network": weakref.ref(run.trainer.network),
        "readings": weakref.ref(run.probe_schedule),
    }
    del run
    desk.handle(StartRun(small_config(seed=3)))
    assert [name for name, one in held.items() if one() is not None] == []


def test_no_tensor_of_a_run_that_was_replaced_is_left(
    recording_desk: Desk, no_collector: None
) -> None:
    desk = recording_desk
    desk.handle(Watch(PROBES), StartRun(small_config(seed=1)))
    desk.advance(3)
    desk.handle(StartRun(small_config(seed=2)))
    desk.advance(3)
    known = {id(tensor) for tensor in tensors_alive()}
    desk.handle(StartRun(_other_data(seed=1)))
    desk.train(3)
    held = [weakref.ref(tensor) for tensor in tensors_alive() if id(tensor) not in known]
    assert held
    desk.handle(StartRun(small_config(seed=2)))
    desk.advance(3)
    assert [tensor.shape for one in held if (tensor := one()) is not None] == []


def _other_data(seed: int) -> RunConfig:
    config = small_config(seed=seed)
    return replace(config, data=replace(config.data, train_limit=150))


def tensors_alive() -> list[torch.Tensor]:
    return [thing for thing in gc.get_objects() if issubclass(type(thing), torch.Tensor)]


class Releases:
    """A clock to set, and how often memory was given back."""

    now = 100.0
    count = 0

    def release(self) -> None:
        self.count += 1


@pytest.fixture
def releases(recording_desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Releases:
    releases = Releases()
    monkeypatch.setattr(unused_memory, "release_free_memory", releases.release)
    recording_desk.engine.state.unused = unused_memory.UnusedMemory(lambda: releases.now)
    return releases


def test_memory_is_given_back_a_while_after_a_run_was_paused(
    recording_desk: Desk, releases: Releases
) -> None:
    desk = recording_desk
    desk.handle(StartRun(small_config()))
    desk.advance(1)
    releases.now += unused_memory.AGAIN
    desk.advance(1)
    before = releases.count
    for _ in range(2):
        desk.train(2)
        desk.advance(3)
        assert releases.count == before
    releases.now += unused_memory.AGAIN
    desk.advance(3)
    assert releases.count == before + 1


def test_memory_is_given_back_after_a_run_was_replaced_and_once_more_a_while_later(
    recording_desk: Desk, releases: Releases
) -> None:
    desk = recording_desk
    for number in (0, 2):
        desk.handle(StartRun(small_config(seed=number)))
        desk.advance(3)
        assert releases.count == number + 1
        releases.now += unused_memory.AGAIN / 2
        desk.advance(3)
        assert releases.count == number + 1
        releases.now += unused_memory.AGAIN / 2
        desk.advance(3)
        assert releases.count == number + 2


def test_both_are_harmless_where_the_c_library_is_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unused_memory.release_free_memory()

    def unknown(_: object) -> object:
        raise OSError("no such library")

    monkeypatch.setattr(unused_memory.ctypes, "CDLL", unknown)
    unused_memory.release_free_memory()
    unused_memory.use_one_heap()
    monkeypatch.setattr(unused_memory.ctypes, "CDLL", lambda _: object())
    unused_memory.release_free_memory()
    unused_memory.use_one_heap()
