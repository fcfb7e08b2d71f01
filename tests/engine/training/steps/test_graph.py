"""How a graph is captured: in which order, on which stream, and what a failure leaves behind.

CUDA is a stand-in that writes down what it is asked.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from dgn_engine.training.steps.graphs import CudaCard

POOL = (0, 7)
CARD = torch.device("cuda", 0)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What CUDA was asked, in order; 'end fails' in it makes the end of a capture fail."""
    words: list[str] = []

    class Stream:
        def __init__(self, name: str | torch.device, priority: int = 0) -> None:
            self.name = name if isinstance(name, str) else "side"

        def wait_stream(self, other: Stream) -> None:
            words.append(f"{self.name} waits for {other.name}")

    class Graph:
        def capture_begin(self, **how: Any) -> None:
            words.append(f"begin {how['capture_error_mode']} {how['pool']}")

        def capture_end(self) -> None:
            words.append("end")
            if "end fails" in words:
                raise RuntimeError("CUDA error: operation failed due to a previous error")

    @contextmanager
    def stream(one: Stream) -> Iterator[None]:
        words.append(f"on {one.name}")
        yield
        words.append(f"off {one.name}")

    cuda = torch.cuda
    monkeypatch.setattr(cuda, "Stream", Stream)
    monkeypatch.setattr(cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(cuda, "stream", stream)
    monkeypatch.setattr(cuda, "current_stream", lambda _: Stream("main"))
    monkeypatch.setattr(cuda, "synchronize", lambda _: words.append("wait"))
    monkeypatch.setattr(cuda, "graph_pool_handle", lambda: POOL)
    monkeypatch.setattr(
        torch._C,
        "_cuda_endAllocateToPool",
        lambda device, pool: words.append(f"no more for {device} {pool}"),
        raising=False,
    )
    return words


def test_a_capture_is_on_a_side_stream_of_this_thread_with_memory_of_its_own(
    asked: list[str],
) -> None:
    def work() -> None:
        assert not gc.isenabled()
        asked.append("work")

    CudaCard(CARD).capture_graph(work)
    assert gc.isenabled()
    assert asked == [
        "wait",
        "side waits for main",
        "on side",
        f"begin thread_local {POOL}",
        "work",
        "end",
        "off side",
        "main waits for side",
    ]


def test_work_that_fails_ends_the_capture_and_is_what_is_said(asked: list[str]) -> None:
    def work() -> None:
        asked.append("end fails")
        raise torch.OutOfMemoryError("CUDA out of memory.")

    with pytest.raises(torch.OutOfMemoryError):
        CudaCard(CARD).capture_graph(work)
    assert gc.isenabled()
    assert asked[-3:] == ["end", f"no more for 0 {POOL}", "main waits for side"]


def test_a_capture_that_cuda_calls_invalid_leaves_the_allocator_free(asked: list[str]) -> None:
    with pytest.raises(RuntimeError, match="previous error"):
        CudaCard(CARD).capture_graph(lambda: asked.append("end fails"))
    assert f"no more for 0 {POOL}" in asked


def test_a_card_that_takes_no_step_uses_no_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(torch.cuda, "Stream", refuse)
    CudaCard(CARD)
