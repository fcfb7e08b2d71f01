"""CIFAR-10 and CIFAR-100 in torchvision's layout, read without running anything in them."""

from __future__ import annotations

import hashlib
import io
import pickle
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dgn_engine.config import DataConfig
from dgn_engine.data._dataset import DataSet, DataSizes, Examples, Report, examples_from_levels
from dgn_engine.data._download import data_root, fetch, missing
from dgn_engine.data._published_files import published_file
from dgn_engine.errors import UserError
from dgn_engine.storage.atomic_write import replace_file

if TYPE_CHECKING:
    from dgn_engine.data._torchvision import CifarSource

Batch = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]
MOST = 1 << 28  # bytes of one file
SHAPE = (-1, 3, 32, 32)


@dataclass(frozen=True)
class CifarSet:
    """`kind`: torchvision's class; `folder`: its folder; `labels`: the key of the labels."""

    name: str
    title: str
    kind: str
    folder: str
    labels: str

    def data_set(self) -> DataSet:
        hint = "Allow the download, or name the data root that holds it."
        classes = {"labels": 10, "fine_labels": 100}[self.labels]
        sizes = DataSizes(50_000, 10_000, SHAPE[1:], classes)
        return DataSet(self.title, self.load, hint, available=self.available, published=sizes)

    def available(self, root: Path | None) -> bool:
        return (data_root(root) / self.folder).is_dir()

    def load(self, config: DataConfig, report: Report) -> Examples:
        from dgn_engine.data._torchvision import cifar_source  # seconds: only when it is wanted

        source, root = cifar_source(self.kind), data_root(config.root)
        if not all((root / source.folder / name).is_file() for name, _ in _files(source)):
            if not config.download:
                raise missing(self.title, root)
            self._download(source, root, report)
        report(f"reading {self.title}", None)
        folder = root / source.folder
        names = _unpickled(folder / source.meta[0], source.meta[1]).get(source.names_key)
        if not isinstance(names, list):
            raise _damaged(folder / source.meta[0])
        train = _joined([self._batch(folder / name, md5) for name, md5 in source.train])
        test = _joined([self._batch(folder / name, md5) for name, md5 in source.test])
        return examples_from_levels(self.name, train, test, tuple(str(name) for name in names))

    def _batch(self, path: Path, md5: str) -> Batch:
        batch = _unpickled(path, md5)
        pixels, labels = batch.get("data"), batch.get(self.labels)
        if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8:
            raise _damaged(path)
        if pixels.shape[1:] != (3072,) or not isinstance(labels, list):
            raise _damaged(path)
        return pixels.reshape(SHAPE), np.array(labels, dtype=np.int64)

    def _download(self, source: CifarSource, root: Path, report: Report) -> None:
        archive = root / source.url.rpartition("/")[2]
        fetch([source.url], archive, published_file(self.kind, archive.name), self.title, report)
        report(f"unpacking {self.title}", None)
        wanted = {f"{source.folder}/{name}": name for name, _ in _files(source)}
        try:
            (root / source.folder).mkdir(exist_ok=True)
            with tarfile.open(archive, "r:gz") as tar:
                for member in tar:
                    # Only the files that we know by name are taken: nothing can climb out.
                    stream = tar.extractfile(member) if member.isreg() else None
                    if member.name in wanted and stream is not None:
                        target = root / source.folder / wanted[member.name]
                        with replace_file(target) as file:
                            file.write(stream.read(MOST))
            archive.unlink()
        except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
            raise UserError(f"Cannot unpack {archive}: {error}.") from None


def _files(source: CifarSource) -> tuple[tuple[str, str], ...]:
    return (*source.train, *source.test, source.meta)


def _joined(batches: list[Batch]) -> Batch:
    return (
        np.concatenate([pixels for pixels, _ in batches]),
        np.concatenate([labels for _, labels in batches]),
    )


def _damaged(path: Path) -> UserError:
    return UserError(f"{path} is damaged; delete it and download it again.")


# torchvision keeps CIFAR as pickles, and users have them in that layout already, so that is what
# is read, in two locks: the very bytes that are read must have the published md5, and even then
# the unpickler knows three builders of arrays and nothing else.
_BUILDERS = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
}


class _ArrayUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _BUILDERS:
            raise pickle.UnpicklingError(f"{module}.{name} is not part of an array")
        # numpy.core is only the former name of numpy._core.
        return super().find_class(module.replace("numpy.core.", "numpy._core."), name)


def _unpickled(path: Path, md5: str) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            content = file.read(MOST)
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}.") from None
    if hashlib.md5(content, usedforsecurity=False).hexdigest() != md5:
        raise _damaged(path)
    try:
        table = _ArrayUnpickler(io.BytesIO(content), encoding="latin1").load()
    except Exception as error:  # a pickle fails in every type of exception
        raise UserError(f"{path} cannot be read: {error}.") from None
    if not isinstance(table, dict):
        raise _damaged(path)
    return table
