"""Your own images: class-named folders of them, as a directory, a .zip or a .tar(.gz)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dgn_engine.config import DataConfig
from dgn_engine.data._dataset import DataSet, Examples, Report, examples_from_levels
from dgn_engine.data._image_cache import DecodedImages, cached, keep
from dgn_engine.data._image_files import ImageFile, image_files, signature
from dgn_engine.data._image_layout import ImageLayout, lay_out
from dgn_engine.errors import UserError

REPORT_EVERY = 500  # images


def _load(config: DataConfig, report: Report) -> Examples:
    place = config.name.removeprefix("folder").removeprefix(":").strip()
    if not place:
        raise UserError("Name the folder or archive of images: folder:PATH.")
    path = Path(place).expanduser()
    report(f"reading {path.name}", None)
    seen = signature(path) if path.exists() else ""
    decoded = cached(seen) if seen else None
    if decoded is None:
        decoded = _decoded(path, report)
        keep(seen, decoded)
    train = (decoded.train_x, decoded.train_y)
    test = (decoded.test_x, decoded.test_y)
    return examples_from_levels(f"folder:{path.name}", train, test, decoded.class_names)


def _decoded(path: Path, report: Report) -> DecodedImages:
    """Two passes: sizes and names first, so that memory is known before a pixel is decoded."""
    from dgn_engine.data import _image_decoder as decoder  # Pillow: only when it is wanted

    source = path.name
    files = _told(image_files(path), f"looking through {source}", report)
    measures = {file.name: decoder.measured(file, source) for file in files}
    layout = lay_out(list(measures), source)
    places = _places(layout)
    shape = decoder.common_shape((measures[name] for name in places), source)
    parts = [np.zeros((len(part), *shape), np.uint8) for part in (layout.train, layout.test)]
    missing = set(places)
    for file in _told(image_files(path), f"decoding {source}", report):
        if file.name in places:
            part, row = places[file.name]
            parts[part][row] = decoder.decoded(file, shape, source)
            missing.discard(file.name)
    if missing:
        raise UserError(f"{source} changed while it was read; try again.")
    train_y, test_y = (
        np.array([number for _, number in part], dtype=np.int64)
        for part in (layout.train, layout.test)
    )
    return DecodedImages(parts[0], train_y, parts[1], test_y, layout.class_names)


def _places(layout: ImageLayout) -> dict[str, tuple[int, int]]:
    """Name → (0 training or 1 test, row)."""
    return {
        name: (part, row)
        for part, members in enumerate((layout.train, layout.test))
        for row, (name, _) in enumerate(members)
    }


def _told(files: Iterator[ImageFile], what: str, report: Report) -> Iterator[ImageFile]:
    for count, file in enumerate(files):
        if count % REPORT_EVERY == 0:
            report(what, file.fraction)
        yield file


DATA = DataSet(
    "Folder of images",
    _load,
    "Write folder:PATH, a directory, .zip or .tar.gz of class-named folders of images.",
    takes_path=True,
)
