"""MNIST and data sets in its format: four IDX files in torchvision's layout, ROOT/NAME/raw."""

from __future__ import annotations

import gzip
import math
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dgn_engine.config import DataConfig
from dgn_engine.data._dataset import DataSet, DataSizes, Examples, Report, examples_from_levels
from dgn_engine.data._download import data_root, download_file, missing_data_error
from dgn_engine.data._published_files import published_file
from dgn_engine.errors import UserError
from dgn_engine.storage.atomic_write import replace_file

MOST = 1 << 30  # bytes of one unpacked file
FILES = (
    ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
)


@dataclass(frozen=True)
class IdxSet:
    """`name` in a configuration, `kind` as torchvision names the class and folder."""

    name: str
    title: str
    kind: str
    class_names: tuple[str, ...]

    def data_set(self) -> DataSet:
        hint = "Allow the download, or choose its folder."
        sizes = DataSizes(60_000, 10_000, (1, 28, 28), len(self.class_names))
        return DataSet(self.title, self.load, hint, available=self.available, sizes=lambda _: sizes)

    def raw_folder(self, root: str | Path | None) -> Path:
        return data_root(root) / self.kind / "raw"

    def available(self, root: Path | None) -> bool:
        folder = self.raw_folder(root)
        return all((folder / name).is_file() for pair in FILES for name in pair)

    def load(self, config: DataConfig, report: Report) -> Examples:
        if not self.available(Path(config.root) if config.root else None):
            if not config.download:
                raise missing_data_error(self.title, data_root(config.root))
            self._download_files(self.raw_folder(config.root), report)
        report(f"reading {self.title}", None)
        folder = self.raw_folder(config.root)
        train, test = (
            (read_idx(folder / images, 3)[:, None], read_idx(folder / labels, 1))
            for images, labels in FILES
        )
        return examples_from_levels(self.name, train, test, self.class_names)

    def _download_files(self, folder: Path, report: Report) -> None:
        from dgn_engine.data._torchvision import import_torchvision  # seconds: only here

        source = getattr(import_torchvision(), self.kind)
        for name, _ in source.resources:
            packed, plain = folder / name, folder / name.removesuffix(".gz")
            if plain.is_file():
                continue
            urls = [mirror + name for mirror in source.mirrors]
            published = published_file(self.kind, name)
            download_file(urls, packed, published, f"{self.title} ({name})", report)
            try:
                with gzip.open(packed) as stream, replace_file(plain) as file:
                    file.write(stream.read(MOST))
                packed.unlink()
            except (OSError, EOFError, zlib.error) as error:
                raise UserError(f"Cannot unpack {packed}: {error}.", kind="damaged") from None


def read_idx(path: Path, axes: int) -> npt.NDArray[np.uint8]:
    """Read an IDX file as an array with this many axes; raises `UserError` if it is damaged."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST)
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}.", kind="no-file") from None
    start = 4 + 4 * axes
    shape = tuple(int.from_bytes(content[i : i + 4], "big") for i in range(4, start, 4))
    # The magic number: two zeros, 8 for unsigned bytes, the number of axes.
    if content[:4] != bytes((0, 0, 8, axes)) or len(content) - start != math.prod(shape):
        raise UserError(f"{path} is damaged; delete it and download it again.", kind="damaged")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
