"""Your own images: folders named after classes, as a directory or an archive."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from dgn_engine.config import DataConfig
from dgn_engine.data._dataset import DataSet, Examples, Report, examples_from_levels
from dgn_engine.data._image_cache import DecodedImages, read_cached_images, store_images
from dgn_engine.data._image_layout import ImageLayout, layout_of_images
from dgn_engine.errors import UserError
from dgn_engine.storage.images import image_limits
from dgn_engine.storage.images.decoder_pool import DecoderPool, ImageSize
from dgn_engine.storage.images.image_files import ImageFile, source_state
from dgn_engine.text.byte_counts import binary_size_in_words
from dgn_engine.text.written_numbers import format_decimals

VALUES = 1 << 30  # limit for all images together; four bytes each as floats
HELD = 256 << 20  # bytes of stored images kept from the first pass for the second
REPORT_EVERY = 0.2  # seconds


def common_shape(measures: Iterable[ImageSize], source: str) -> tuple[int, int, int]:
    """Return the (C, H, W) of all images: the most frequent size, 1 channel if all are grey.

    Raises:
        UserError: They would not fit in memory together, or would take long to decode.
    """
    counts = Counter(measures)
    sizes: Counter[tuple[int, int]] = Counter()
    for measure, count in counts.items():
        sizes[measure.height, measure.width] += count
    height, width = max(sizes, key=lambda s: (sizes[s], s[0] * s[1], s))
    channels = 1 if all(measure.grey for measure in counts) else 3
    total = counts.total() * channels * height * width
    if total > VALUES:
        raise UserError(
            f"{source}: {counts.total():,} images of {width}×{height} pixels need "
            f"{binary_size_in_words(4 * total)} of memory; scale them down first.",
            kind="too-large",
        )
    pixels = sum(count * height * width for (height, width), count in sizes.items())
    if pixels > image_limits.PIXELS_TOGETHER:
        raise UserError(
            f"{source}: {counts.total():,} images have "
            f"{format_decimals(pixels / 1e6, 0)} million pixels in total, more than "
            f"{format_decimals(image_limits.PIXELS_TOGETHER / 1e6, 0)} million; scale them "
            "down first.",
            kind="too-large",
        )
    return channels, height, width


class _Progress:
    """Reports progress a few times a second; a report that raises stops the work."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._what, self._told = "", 0.0
        self._fraction: float | None = None

    def begin_stage(self, what: str, fraction: float | None = 0.0) -> None:
        self._what, self._fraction = what, fraction
        self._told = time.monotonic()
        self._report(what, fraction)

    def report_if_due(self) -> None:
        if time.monotonic() - self._told >= REPORT_EVERY:
            self.begin_stage(self._what, self._fraction)

    def set_fraction(self, fraction: float) -> None:
        self._fraction = fraction
        self.report_if_due()


def _path_of_source(config: DataConfig) -> Path:
    source = config.name.removeprefix("folder").removeprefix(":").strip()
    if not source:
        raise UserError("Specify the folder or archive of images: folder:PATH.", kind="no-choice")
    return Path(source).expanduser()


def _source_state(config: DataConfig) -> str:
    return source_state(_path_of_source(config), lambda: None).digest


def _load_images(config: DataConfig, report: Report) -> Examples:
    path = _path_of_source(config)
    progress = _Progress(report)
    progress.begin_stage(f"reading {path.name}", None)
    state = source_state(path, progress.report_if_due)
    decoded = read_cached_images(state.digest) if state.settled else None
    if decoded is None:
        decoded = _decode_folder(path, progress)
        if source_state(path, progress.report_if_due).digest != state.digest:
            raise _changed_error(path.name)
        if state.settled:
            store_images(state.digest, decoded)
    train = (decoded.train_x, decoded.train_y)
    test = (decoded.test_x, decoded.test_y)
    examples = examples_from_levels(f"folder:{path.name}", train, test, decoded.class_names)
    return replace(examples, source=state.digest if state.settled else "")


def _changed_error(source: str) -> UserError:
    return UserError(f"{source} changed while being read; try again.", kind="changed")


def _decode_folder(path: Path, progress: _Progress) -> DecodedImages:
    """Decode in two passes: sizes and names first, so that the memory is known in advance."""
    source = path.name
    with DecoderPool(path, progress.report_if_due) as pool:
        progress.begin_stage(f"scanning {source}")
        measures, stored = _measure_images(pool, progress)
        layout = layout_of_images(list(measures), source)
        positions = _index_by_name(layout)
        wanted = {name: measures[name] for name in positions}
        shape = common_shape(wanted.values(), source)
        largest = max(size.width * size.height for size in wanted.values())
        parts = [np.zeros((len(part), *shape), np.uint8) for part in (layout.train, layout.test)]
        missing = set(positions)
        progress.begin_stage(f"decoding {source}")
        files = (file for file in stored or pool.read_files() if file.name in positions)
        for batch, levels in pool.decode_files(files, shape, largest):
            for file, image in zip(batch, levels, strict=True):
                part, row = positions[file.name]
                parts[part][row] = image
                missing.discard(file.name)
            progress.set_fraction(batch[-1].fraction)
    if missing:
        raise _changed_error(source)
    train_y, test_y = (
        np.array([number for _, number in part], dtype=np.int64)
        for part in (layout.train, layout.test)
    )
    return DecodedImages(parts[0], train_y, parts[1], test_y, layout.class_names)


def _measure_images(
    pool: DecoderPool, progress: _Progress
) -> tuple[dict[str, ImageSize], list[ImageFile]]:
    """Return the size of each image, and all stored images, or none if they are too large."""
    measures: dict[str, ImageSize] = {}
    stored: list[ImageFile] = []
    size = 0
    for file, measure in pool.measure_files(pool.read_files()):
        measures[file.name] = measure
        progress.set_fraction(file.fraction)
        size += len(file.content)
        if size <= HELD:
            stored.append(file)
        else:
            stored.clear()
    count = len(stored)
    return measures, [replace(file_, fraction=index / count) for index, file_ in enumerate(stored)]


def _index_by_name(layout: ImageLayout) -> dict[str, tuple[int, int]]:
    """Map each name to (0 training or 1 test, row)."""
    return {
        name: (part, row)
        for part, members in enumerate((layout.train, layout.test))
        for row, (name, _) in enumerate(members)
    }


DATA = DataSet(
    "Folder of images",
    _load_images,
    "Use folder:PATH, a directory, .zip or .tar(.gz) with one folder of images per class.",
    takes_path=True,
    source_state=_source_state,
)
