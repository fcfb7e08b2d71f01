"""Measures and decodes images in several confined children; answers come in the order of files."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, TimeoutError
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from dgn_engine.confinement.child import usable_cores
from dgn_engine.errors import UserError
from dgn_engine.storage.images import image_limits as limits
from dgn_engine.storage.images import image_records as records
from dgn_engine.storage.images.confined_children import (
    ChildEnded,
    ConfinedChild,
    ConfinedChildren,
)
from dgn_engine.storage.images.image_files import ImageFile, image_files
from dgn_engine.text.printable import plain

TICK = 0.1  # seconds between two looks at whether to go on
_STARVED = 0.005  # seconds until it is looked for files again where a child has nothing to do
_IMAGES = 64  # of a request, at most
_BYTES = 4 << 20  # of a request or of its answer, unless one image has more
_MOST_CHILDREN = 8
_EACH = 4  # requests before another child is started: a few images need only one
_LARGE = 2 << 30  # bytes that all children may take together where images are large


class ImageSize(NamedTuple):
    width: int
    height: int
    grey: bool


@dataclass(frozen=True)
class _Task:
    kind: bytes
    shape: tuple[int, int, int]  # (C, H, W)

    @property
    def answer(self) -> int:
        return records.answer_size(self.kind, self.shape)


class DecoderPool:
    """Reads one folder or archive. `tick` is called often and may raise, which ends all of it."""

    def __init__(self, path: Path, tick: Callable[[], None], children: int = 0) -> None:
        """`children`: how many decode side by side at most; 0: as many as cores can be used."""
        self._path = path
        self._source = path.name
        self._tick = tick
        self._most = children or min(usable_cores(), _MOST_CHILDREN)
        self._children = ConfinedChildren()
        self._idle: list[ConfinedChild] = []
        self._threads = ThreadPoolExecutor(self._most, thread_name_prefix="dgn-decoder")
        self._ended = threading.Event()
        self._feeders: list[threading.Thread] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _value: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._children.kill()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for feeder in self._feeders:
            feeder.join()
        self._children.close()

    def files(self) -> Iterator[ImageFile]:
        """The images of the source, as `image_files` reads them."""
        return image_files(self._path, self._children)

    def measured(self, files: Iterator[ImageFile]) -> Iterator[tuple[ImageFile, ImageSize]]:
        """Size and colour of each image by its header; raises `UserError` for the first that is
        damaged or too large."""
        for batch, answer in self._answered(files, _Task(records.MEASURE, (0, 0, 0)), self._most):
            for file, size in zip(batch, records.SIZE.iter_unpack(answer), strict=True):
                width, height, grey = size
                if not 0 < width * height <= limits.PIXELS:
                    raise UserError(f"{self._source}: {file.name} has no size that can be.")
                yield file, ImageSize(width, height, bool(grey))

    def decoded(
        self, files: Iterator[ImageFile], shape: tuple[int, int, int], largest: int
    ) -> Iterator[tuple[list[ImageFile], npt.NDArray[np.uint8]]]:
        """Some images at a time and their levels (n, C, H, W), where C, H, W is `shape`.

        `largest`: pixels of the largest of them. Raises `UserError` for the first that is damaged.
        """
        channels, height, width = shape
        together = max(1, _LARGE // (limits.DECODING * largest + 1))
        task = _Task(records.DECODE, shape)
        for batch, answer in self._answered(files, task, min(self._most, together)):
            levels = np.frombuffer(answer, np.uint8).reshape(len(batch), height, width, channels)
            yield batch, levels.transpose(0, 3, 1, 2)

    def _answered(
        self, files: Iterator[ImageFile], task: _Task, children: int
    ) -> Iterator[tuple[list[ImageFile], bytes]]:
        """Requests and their answers in the order of the files, whichever was answered first."""
        requests: queue.Queue[list[ImageFile] | BaseException | None] = queue.Queue(2)
        feeder = threading.Thread(
            target=self._feed, args=(files, task, requests), name="dgn-image-files", daemon=True
        )
        self._feeders.append(feeder)
        feeder.start()
        asked: deque[tuple[list[ImageFile], Future[bytes]]] = deque()
        over: list[ImageFile] | BaseException | None = []
        count, looked = 0, time.monotonic()
        while asked or isinstance(over, list):
            if time.monotonic() - looked >= TICK:
                looked = time.monotonic()
                self._children.kill_late()
                self._tick()
            room = len(asked) < min(children, 1 + count // _EACH)
            if isinstance(over, list) and room:
                try:
                    over = requests.get(timeout=0.0 if asked else TICK)
                except queue.Empty:
                    over = []
                if isinstance(over, list) and over:
                    count += 1
                    asked.append((over, self._threads.submit(self._ask, over, task)))
                    continue
            if asked:
                batch, future = asked[0]
                try:
                    answer = future.result(_STARVED if room and over == [] else TICK)
                except TimeoutError:
                    if future.done():
                        raise
                    continue
                asked.popleft()
                yield batch, answer
        if over is not None:
            raise over

    def _feed(
        self,
        files: Iterator[ImageFile],
        task: _Task,
        requests: queue.Queue[list[ImageFile] | BaseException | None],
    ) -> None:
        """Put the files together to requests, and what ends them: None or an exception."""
        last: BaseException | None = None
        batch: list[ImageFile] = []
        held = 0
        try:
            for file in files:
                size = max(len(file.content), task.answer)
                if batch and (len(batch) == _IMAGES or held + size > _BYTES):
                    self._put(batch, requests)
                    batch, held = [], 0
                batch.append(file)
                held += size
                if self._ended.is_set():
                    return
        except BaseException as error:  # raised where the answers are taken
            last = error
        if batch:
            self._put(batch, requests)
        self._put(last, requests)

    def _put(
        self,
        item: list[ImageFile] | BaseException | None,
        requests: queue.Queue[list[ImageFile] | BaseException | None],
    ) -> None:
        while not self._ended.is_set():
            try:
                requests.put(item, timeout=TICK)
                break
            except queue.Full:
                continue

    def _ask(self, batch: list[ImageFile], task: _Task) -> bytes:
        """The answer to one request; where a child dies of it, the image is found and named."""
        try:
            return self._ask_child(batch, task)
        except ChildEnded as end:
            if len(batch) == 1:
                raise UserError(f"{self._source}: {batch[0].name} was refused: {end}.") from None
        return b"".join(self._ask([file], task) for file in batch)

    def _ask_child(self, batch: list[ImageFile], task: _Task) -> bytes:
        try:
            child = self._idle.pop()
        except IndexError:
            child = self._children.start(
                "decoder_child", limits.DECODER_SECONDS, limits.DECODER_MEMORY
            )
        try:
            child.write(records.request(task.kind, task.shape, [file.content for file in batch]))
            (count,) = records.COUNT.unpack(child.read(records.COUNT.size))
            if count > len(batch):
                raise ChildEnded("its reader gave an answer that makes no sense")
            found = child.read(count * task.answer)
            refused = records.refusal(child.read) if count < len(batch) else ""
        except ChildEnded:
            self._children.end(child)
            raise
        self._idle.append(child)
        if count < len(batch):
            raise UserError(f"{self._source}: {batch[count].name} {plain(refused, 600)}.")
        return found
