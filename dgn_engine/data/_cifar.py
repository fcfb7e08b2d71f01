"""CIFAR-10 and CIFAR-100 in torchvision's layout, read without executing anything in them."""

from __future__ import annotations

import os
import tarfile
import threading
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from dgn_engine.config import DataConfig
from dgn_engine.confinement.child_process import TICK, confined_command, usable_cores
from dgn_engine.data._dataset import DataSet, DataSizes, Examples, Report, examples_from_levels
from dgn_engine.data._download import data_root, download_file, missing_data_error
from dgn_engine.data._published_files import published_file
from dgn_engine.errors import UserError
from dgn_engine.storage.atomic_write import replace_file
from dgn_engine.storage.checkpoints import limits, wire
from dgn_engine.storage.checkpoints.batch_child import DATA, LABELS
from dgn_engine.storage.checkpoints.checkpoint_reader import TIMEOUT, ask_child
from dgn_engine.storage.checkpoints.contents import CheckpointContents

Batch = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]
MOST = 1 << 28  # bytes of one file
SHAPE = (-1, 3, 32, 32)
_MOST_CHILDREN = 4
_CHILD = "dgn_engine.storage.checkpoints.batch_child"


@dataclass(frozen=True)
class CifarSet:
    """`kind`: torchvision's class; `folder`: its folder; `labels`: key of the labels."""

    name: str
    title: str
    kind: str
    folder: str
    labels: str

    def data_set(self) -> DataSet:
        hint = "Allow the download, or choose its folder."
        classes = {"labels": 10, "fine_labels": 100}[self.labels]
        sizes = DataSizes(50_000, 10_000, SHAPE[1:], classes)
        return DataSet(self.title, self.load, hint, available=self.available, sizes=lambda _: sizes)

    def available(self, root: Path | None) -> bool:
        return (data_root(root) / self.folder).is_dir()

    def load(self, config: DataConfig, report: Report) -> Examples:
        from dgn_engine.data._torchvision import import_torchvision  # seconds: only here

        source, root = getattr(import_torchvision(), self.kind), data_root(config.root)
        folder, listed = root / source.base_folder, [*source.train_list, *source.test_list]
        wanted = [(folder / name, md5, self.labels) for name, md5 in listed]
        meta = (folder / source.meta["filename"], source.meta["md5"], source.meta["key"])
        paths = [path for path, _, _ in (*wanted, meta)]
        if not all(path.is_file() for path in paths):
            if not config.download:
                raise missing_data_error(self.title, root)
            self._download_batches(source.url, root, paths, report)
        report(f"reading {self.title}", None)
        *batches_read, named = _read_all(
            [*wanted, meta], partial(report, f"reading {self.title}", None)
        )
        names = named.metadata
        if not names:
            raise _damaged_error(meta[0])
        batches = [
            _as_batch(entry[0], read) for entry, read in zip(wanted, batches_read, strict=True)
        ]
        train = _join_batches(batches[: len(source.train_list)])
        test = _join_batches(batches[len(source.train_list) :])
        return examples_from_levels(self.name, train, test, tuple(names.values()))

    def _download_batches(self, url: str, root: Path, paths: list[Path], report: Report) -> None:
        archive = root / url.rpartition("/")[2]
        download_file([url], archive, published_file(self.kind, archive.name), self.title, report)
        report(f"unpacking {self.title}", None)
        wanted = {f"{path.parent.name}/{path.name}": path for path in paths}
        try:
            paths[0].parent.mkdir(exist_ok=True)
            with tarfile.open(archive, "r:gz") as tar:
                for member in tar:
                    # Only known file names are extracted: nothing can escape the folder.
                    stream = tar.extractfile(member) if member.isreg() else None
                    if member.name in wanted and stream is not None:
                        with replace_file(wanted[member.name]) as file:
                            file.write(stream.read(MOST))
            archive.unlink()
        except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
            raise UserError(f"Cannot unpack {archive}: {error}.", kind="damaged") from None


def _as_batch(path: Path, read: CheckpointContents) -> Batch:
    pixels, labels = read.arrays.get(DATA), read.arrays.get(LABELS)
    if pixels is None or labels is None or pixels.dtype != np.uint8 or labels.dtype != np.int64:
        raise _damaged_error(path)
    if pixels.shape != (len(labels), 3072):
        raise _damaged_error(path)
    return pixels.reshape(SHAPE), labels


def _join_batches(batches: list[Batch]) -> Batch:
    return (
        np.concatenate([pixels for pixels, _ in batches]),
        np.concatenate([labels for _, labels in batches]),
    )


def _damaged_error(path: Path) -> UserError:
    return UserError(f"{path} is damaged; delete it and download it again.", kind="damaged")


# torchvision keeps CIFAR as pickles, and users already have them in that layout, so these are read,
# with two safeguards: the bytes must have the published md5, and even then only a confined child
# reads them, which imports and calls nothing.
def _read_all(
    files: Sequence[tuple[Path, str, str]], tick: Callable[[], None]
) -> list[CheckpointContents]:
    """Read all files in parallel; raises what `tick` raises, at once."""
    cancelled = threading.Event()
    children = min(usable_cores(), _MOST_CHILDREN)
    with ThreadPoolExecutor(children, thread_name_prefix="dgn-cifar") as pool:
        futures = [pool.submit(read_batch, *file, cancelled) for file in files]
        try:
            while wait(futures, TICK, FIRST_EXCEPTION).not_done:
                for future in futures:
                    if future.done():
                        future.result()
                tick()
            return [future.result() for future in futures]
        except BaseException:
            cancelled.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def read_batch(
    path: Path, md5: str, key: str, cancelled: threading.Event | None = None
) -> CheckpointContents:
    """Return the images with the labels under `key`, or the names there; raises `UserError`."""
    command = confined_command(_CHILD, TIMEOUT, md5, key)
    try:
        return ask_child(path, command, _receive_batch, TIMEOUT, cancelled, MOST)
    except UserError as refusal:
        raise UserError(
            f"{path.parent}{os.sep}{refusal}", kind=refusal.kind, value=refusal.value
        ) from None


def _receive_batch(pipe: IO[bytes], size: int) -> CheckpointContents:
    return wire.receive_contents(pipe, limits.expansion_limit(size))
