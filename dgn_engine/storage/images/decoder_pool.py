"""Measure and decode images in several confined children; answers come in file order."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from dgn_engine.confinement.child_process import (
    NO_SENSE,
    PIPE,
    ChildEnded,
    ChildProcess,
    confined_command,
    start_confined,
    usable_cores,
)
from dgn_engine.errors import UserError
from dgn_engine.storage.images import image_limits as limits
from dgn_engine.storage.images import image_records as records
from dgn_engine.storage.images.image_files import ImageFile, image_files
from dgn_engine.text.printable import plain_text
from dgn_engine.text.written_numbers import format_duration

TICK = 0.1  # seconds between calls of `tick`
_IMAGES = 64  # per request, at most
_BYTES = 4 << 20  # per request or answer, unless one image is larger
_MOST_CHILDREN = 8
_EACH = 4  # requests before another child is started: a few images need only one
_LARGE = 2 << 30  # bytes that all children may take together if images are large


class ImageSize(NamedTuple):
    width: int
    height: int
    grey: bool


@dataclass(frozen=True)
class _Task:
    kind: bytes
    shape: tuple[int, int, int]  # (C, H, W)

    @property
    def reply_size(self) -> int:
        return records.answer_size(self.kind, self.shape)


class DecoderPool:
    """Reads one folder or archive; `tick` is called often and may raise to stop everything."""

    def __init__(self, path: Path, tick: Callable[[], None], children: int = 0) -> None:
        """`children`: maximum number that decode in parallel; 0: one per usable core."""
        self._path = path
        self._source = path.name
        self._tick = tick
        self._most = children or min(usable_cores(), _MOST_CHILDREN)
        self._starting = threading.Lock()
        self._children: list[ChildProcess] = []
        self._idle: list[ChildProcess] = []
        self._threads = ThreadPoolExecutor(self._most + 1, thread_name_prefix="dgn-decoder")
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._starting:
            self._ended.set()
        for child in self._children:  # whoever waits for an answer is released at once
            child.kill()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for child in self._children:
            child.close()

    def read_files(self) -> Iterator[ImageFile]:
        """Yield the images of the source, as `image_files` does."""
        return image_files(self._path, self._start_child)

    def measure_files(self, files: Iterator[ImageFile]) -> Iterator[tuple[ImageFile, ImageSize]]:
        """Yield size and colour of each image from its header.

        Raises:
            UserError: An image is damaged or too large.
        """
        for batch, answer in self._run_requests(
            files, _Task(records.MEASURE, (0, 0, 0)), self._most
        ):
            for file, size in zip(batch, records.SIZE.iter_unpack(answer), strict=True):
                width, height, grey = size
                if not 0 < width * height <= limits.PIXELS:
                    raise UserError(f"{self._source}: {file.name} has an impossible size.")
                yield file, ImageSize(width, height, bool(grey))

    def decode_files(
        self, files: Iterator[ImageFile], shape: tuple[int, int, int], largest: int
    ) -> Iterator[tuple[list[ImageFile], npt.NDArray[np.uint8]]]:
        """Yield batches of images and their levels (n, C, H, W), where C, H, W is `shape`.

        `largest`: pixels of the largest of them.

        Raises:
            UserError: An image is damaged.
        """
        channels, height, width = shape
        together = max(1, _LARGE // (limits.DECODING * largest + 1))
        task = _Task(records.DECODE, shape)
        for batch, answer in self._run_requests(files, task, min(self._most, together)):
            levels = np.frombuffer(answer, np.uint8).reshape(len(batch), height, width, channels)
            yield batch, levels.transpose(0, 3, 1, 2)

    def _run_requests(
        self, files: Iterator[ImageFile], task: _Task, children: int
    ) -> Iterator[tuple[list[ImageFile], bytes]]:
        """Yield requests and answers in file order, whichever was answered first."""
        batches = self._group_files(files, task)
        reading = self._threads.submit(next, batches, None)  # one request is read ahead
        pending: deque[tuple[list[ImageFile], Future[bytes]]] = deque()
        count, ticked, over = 0, time.monotonic(), False
        while pending or not over:
            if time.monotonic() - ticked >= TICK:
                ticked = time.monotonic()
                self._kill_overdue()
                self._tick()
            room = not over and len(pending) < min(children, 1 + count // _EACH)
            awaited: list[Future[Any]] = [pending[0][1]] if pending else []
            wait([*awaited, reading] if room else awaited, TICK, FIRST_COMPLETED)
            if room and reading.done():
                batch = None if reading.exception() else reading.result()
                if batch is None:
                    over = True
                    continue
                count += 1
                pending.append((batch, self._threads.submit(self._request_answer, batch, task)))
                reading = self._threads.submit(next, batches, None)
            elif pending and pending[0][1].done():
                answered, answer = pending.popleft()
                yield answered, answer.result()
        reading.result()  # raises if reading failed

    def _start_child(
        self, module: str, seconds: int, memory: int, stdin: IO[bytes] | int
    ) -> ChildProcess:
        """Run a module of this folder, confined; raises `UserError`, also if the pool is closed."""
        command = confined_command(f"dgn_engine.storage.images.{module}", seconds, str(memory))
        with self._starting:
            if self._ended.is_set():
                raise UserError("Reading images was cancelled.")
            try:
                child = start_confined(command, stdin)
            except OSError as error:
                raise UserError(f"No process could be started to read images ({error}).") from None
            self._children.append(child)
        return child

    def _kill_overdue(self) -> None:
        """Kill children that take longer than `PATIENCE` to answer."""
        for child in list(self._children):
            if child.seconds_blocked > limits.PATIENCE:
                child.kill(f"it took longer than {format_duration(limits.PATIENCE)} to read")

    def _group_files(self, files: Iterator[ImageFile], task: _Task) -> Iterator[list[ImageFile]]:
        batch: list[ImageFile] = []
        size = 0
        try:
            for file in files:
                if self._ended.is_set():
                    return
                more = max(len(file.content), task.reply_size)
                if batch and (len(batch) == _IMAGES or size + more > _BYTES):
                    yield batch
                    batch, size = [], 0
                batch.append(file)
                size += more
        except Exception:  # raised once what came before it was answered
            if batch:
                yield batch
            raise
        if batch:
            yield batch

    def _request_answer(self, batch: list[ImageFile], task: _Task) -> bytes:
        """Return the answer to one request; if a child dies of it, find and name the image."""
        try:
            return self._ask_child(batch, task)
        except ChildEnded as end:
            if len(batch) == 1:
                raise UserError(f"{self._source}: {batch[0].name} was refused: {end}.") from None
        return b"".join(self._request_answer([file], task) for file in batch)

    def _ask_child(self, batch: list[ImageFile], task: _Task) -> bytes:
        try:
            child = self._idle.pop()
        except IndexError:
            child = self._start_child(
                "decoder_child", limits.DECODER_SECONDS, limits.DECODER_MEMORY, PIPE
            )
        try:
            child.write(
                records.pack_request(task.kind, task.shape, [file.content for file in batch])
            )
            (count,) = records.COUNT.unpack(child.read(records.COUNT.size))
            if count > len(batch):
                raise ChildEnded(NO_SENSE)
            answers = child.read(count * task.reply_size)
            refused = records.read_refusal(child.read) if count < len(batch) else ""
        except ChildEnded:
            child.close()
            raise
        self._idle.append(child)
        if count < len(batch):
            raise UserError(f"{self._source}: {batch[count].name} {plain_text(refused, 600)}.")
        return answers
