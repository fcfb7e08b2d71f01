"""Who launches the steps: one operation after the other, or as CUDA graphs, launched whole.

A dense network of width 128 at batch 32 keeps a card busy for less time than Python needs to name
its hundred kernels; a graph is captured once, then launched by one call. Graphs are proved before
they are trusted: the same two steps are taken eagerly and by the graph, from the same weights, and
what comes out is compared. Where anything of that fails, all steps are eager from then on, and the
reason is said once.
"""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from dgn_engine.text.written_numbers import percent
from dgn_engine.training.out_of_memory import free_memory


class Graph(Protocol):
    """Work that was captured."""

    def replay(self) -> None:
        """Queue all of it again, on the same memory."""


class Card(Protocol):
    """Where steps are captured: a CUDA device, or what stands for one in tests."""

    def aside(self) -> AbstractContextManager[None]:
        """Work in here goes to a side stream, after what came before and before what follows."""

    def captured(self, work: Callable[[], None]) -> Graph:
        """The work as a graph; it is not done yet. Raises what CUDA says where that fails."""

    def wait(self) -> None:
        """Until all that was queued is done; only where graphs come and go."""


class CudaCard:
    """A CUDA device. Graphs are captured on the thread that trains, and by no other."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    @cached_property
    def _side(self) -> torch.cuda.Stream:
        """Made when it is used: torch hands out 32 streams in turns, and networks of a stack,
        which take no steps themselves, would use them up. Those of a higher priority are others
        than that of readings, whose work must not be captured."""
        return torch.cuda.Stream(self._device, priority=-1)  # type: ignore[no-untyped-call]  # torch's stub

    @contextmanager
    def aside(self) -> Iterator[None]:
        here = torch.cuda.current_stream(self._device)
        self._side.wait_stream(here)
        try:
            with torch.cuda.stream(self._side):
                yield
        finally:
            here.wait_stream(self._side)

    def captured(self, work: Callable[[], None]) -> Graph:
        graph, pool = torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle()
        collects = gc.isenabled()
        self.wait()
        free_memory()  # of other streams: a capture cannot ask for it
        gc.disable()  # what it takes away may be CUDA's own, which a capture forbids
        try:
            with self.aside():
                # Other threads, such as one that reads probes, may go on using CUDA meanwhile.
                graph.capture_begin(pool=pool, capture_error_mode="thread_local")
                try:
                    work()
                except BaseException:
                    with contextlib.suppress(RuntimeError):  # it only says that the capture failed
                        self._end(graph, pool)
                    raise
                self._end(graph, pool)
        finally:
            if collects:
                gc.enable()
        return graph

    def _end(self, graph: torch.cuda.CUDAGraph, pool: tuple[int, int]) -> None:
        """End the capture. Where CUDA calls it invalid, torch before 2.12 goes on allocating for it
        and frees nothing from then on (pytorch#180395): that is ended here."""
        try:
            graph.capture_end()
        except RuntimeError:
            index = self._device.index
            device = torch.cuda.current_device() if index is None else index
            with contextlib.suppress(RuntimeError):  # newer ones have done it themselves
                torch._C._cuda_endAllocateToPool(device, pool)
            raise

    def wait(self) -> None:
        torch.cuda.synchronize(self._device)


WARM_UP = 3  # eager steps before a capture, in which libraries find their memory
# Of how far the weights move, in norm. Sums in another order give some 1e-6; a graph that reads
# what is no longer there differs by as much as the step itself.
TOLERANCE = 0.05
# Where rounding grows to more than that within two steps (TF32, a large rate), a graph may differ
# by some times what eager steps do from weights that are rounded once, and never by this much.
ROUNDINGS, AT_MOST = 5.0, 0.5


class Stepped(Protocol):
    """What is trained: one network, or a stack of them. Its runner holds it weakly, so that both
    are freed at once where they are let go."""

    @property
    def on_eager(self) -> Callable[[str], None]:
        """Told why, once, where steps cannot be captured."""

    def take(self, rows: Tensor) -> None:
        """One step on these examples; nothing in it waits for the device."""

    def structure(self) -> Hashable:
        """All that a captured step would not notice: another value needs another graph."""

    def moved(self) -> Sequence[Tensor]:
        """Every tensor that a step changes."""

    def drop_gradients(self) -> None:
        """Forget what a step left that did not end."""

    @property
    def examples(self) -> int:
        """Rows are numbers below this."""

    @property
    def rounding(self) -> float:
        """How far a step rounds what it multiplies, as a share of it."""


class StepRunner(Protocol):
    """Takes steps eagerly or as graphs; whoever trains need not know."""

    def step(self, rows: Tensor) -> None:
        """One step on the training examples `rows`, (m,) or (B, m) of a stack."""

    def forget(self) -> None:
        """Give back what is held for the steps to come."""


class EagerSteps:
    """One operation after the other."""

    def __init__(self, stepped: Stepped) -> None:
        self._stepped: Stepped = weakref.proxy(stepped)

    def step(self, rows: Tensor) -> None:
        self._stepped.take(rows)

    def forget(self) -> None:
        """Nothing is held."""


_Moved = tuple[Tensor, Tensor]
"""A tensor before and after two steps."""


@dataclass
class _Size:
    """Steps of one shape of rows: the last batch of an epoch may be smaller."""

    warmed: int = 0
    rows: Tensor | None = None  # what the graph reads
    graph: Graph | None = None


class GraphSteps:
    """As graphs, one for each size of batch.

    A new structure (a swap, another wiring, a dial that is part of the kernels) is warmed up by
    real steps, then captured anew. `trouble`: why steps are eager for good; '' while they are not.
    """

    def __init__(self, stepped: Stepped, card: Card) -> None:
        self._stepped: Stepped = weakref.proxy(stepped)
        self._card = card
        self._structure: Hashable = None
        self._sizes: dict[torch.Size, _Size] = {}
        self.trouble = ""
        self.captures = 0
        self.exact = True  # every graph so far gave the same bits as eager steps

    def step(self, rows: Tensor) -> None:
        if self.trouble:
            return self._stepped.take(rows)
        structure = self._stepped.structure()
        if structure != self._structure:
            self.forget()
            self._structure = structure
        size = self._sizes.setdefault(rows.shape, _Size())
        if size.graph is None and size.warmed < WARM_UP:
            with self._card.aside():
                self._stepped.take(rows)
            size.warmed += 1
            return None
        if size.graph is None:
            try:
                self._capture(size, rows)
            except Exception as error:
                said = str(error).strip().split("\n")[0].rstrip(".")
                self._fall_back(f"{type(error).__name__}: {said}")
        if self.trouble or size.rows is None or size.graph is None:
            return self._stepped.take(rows)
        size.rows.copy_(rows)
        return size.graph.replay()

    def forget(self) -> None:
        """Give back the memory of all graphs."""
        if any(size.graph is not None for size in self._sizes.values()):
            self._card.wait()  # a graph must not go while it runs
        self._sizes.clear()
        self._structure = None

    def _capture(self, size: _Size, rows: Tensor) -> None:
        """Raises what the capture raises; falls back where the graph is wrong."""
        read = rows.clone()
        graph = self._card.captured(lambda: self._stepped.take(read))
        size.rows, size.graph = read, graph
        self.captures += 1
        if trouble := self._check(size, rows):
            self._fall_back(trouble)

    def _check(self, size: _Size, rows: Tensor) -> str:
        """Return how a graph differs from eager steps, or '' where it does not; the weights are
        what they were."""
        assert size.rows is not None
        assert size.graph is not None
        read, graph = size.rows, size.graph

        def replay(batch: Tensor) -> None:
            read.copy_(batch)
            graph.replay()

        eager = self._two_steps(rows, self._stepped.take)
        captured = self._two_steps(rows, replay)
        shares = [_share(*pair) for pair in zip(eager, captured, strict=True)]
        self.exact = self.exact and not any(shares)
        off = max(shares, default=0.0)
        if off <= TOLERANCE:
            return ""
        rounded = self._two_steps(rows, self._stepped.take, self._stepped.rounding)
        for share, *pair in zip(shares, eager, rounded, strict=True):
            if share > max(TOLERANCE, min(AT_MOST, ROUNDINGS * _share(*pair))):
                way = percent(off, 0)
                return f"two captured steps differ from eager ones by {way} of their way"
        return ""

    def _two_steps(
        self, rows: Tensor, take: Callable[[Tensor], None], rounding: float = 0.0
    ) -> list[_Moved]:
        """Where two steps lead, and from where: the weights as they are, or each of them off by
        about this share of it. They are put back."""
        tensors = self._stepped.moved()
        kept = [tensor.detach().clone() for tensor in tensors]
        try:
            if rounding:
                _perturb(tensors, rounding)
            before = [tensor.detach().clone() for tensor in tensors] if rounding else kept
            for batch in (rows, (rows + 1) % self._stepped.examples):
                take(batch)
            after = [tensor.detach().clone() for tensor in tensors]
        finally:
            _put_back(tensors, kept)
        return list(zip(before, after, strict=True))

    def _fall_back(self, reason: str) -> None:
        self.forget()
        self._stepped.drop_gradients()
        self.trouble = reason
        self._stepped.on_eager(reason)


@torch.no_grad()
def _put_back(tensors: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    for tensor, value in zip(tensors, values, strict=True):
        tensor.copy_(value)


@torch.no_grad()
def _perturb(tensors: Sequence[Tensor], rounding: float) -> None:
    for tensor in tensors:
        if tensor.is_floating_point():
            own = torch.Generator(tensor.device).manual_seed(0)  # nobody else's numbers are drawn
            noise = torch.empty_like(tensor).normal_(generator=own)
            tensor.mul_(noise.mul_(rounding).add_(1.0))


def _share(eager: _Moved, other: _Moved) -> float:
    """How far the ways of two tensors lie apart, as a share of the eager one; 0 for the same bits,
    and where eager steps end in what is no number, which the run will find by itself."""
    before, after = eager
    if torch.equal(after, other[1]) or not bool(torch.isfinite(after).all()):
        return 0.0
    way = after.double() - before.double()
    off = float((other[1].double() - other[0].double() - way).norm())
    length = float(way.norm())
    return off / length if length and off == off else float("inf")
