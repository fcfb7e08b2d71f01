"""Measures the typical values that the pages on concepts quote, and writes them there.

    python -m documentation.typical_values [--data-root DIR]    # minutes; MNIST where it is

Each run is trained by `dgn train` and read from its folder. A page has a row for each run, known by
its first cell; the other cells are what is written. `make docs` compares the row of the run that it
trains anyway with what the page says, so that the pages cannot grow old unnoticed.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from dgn_engine.cli import main as dgn
from dgn_engine.protocol.frames import Frame
from dgn_engine.storage.runs.run_reader import RunReader

CONCEPTS = Path(__file__).parents[1] / "docs" / "concepts"
OF_THE_SITE = "digits, DL"  # the run of sample_run.py
_DIGITS = (
    "--data", "digits", "--net", "fc", "--width", "32", "--depth", "5", "--lr", "0.003",
    "--epochs", "20", "--record-every", "100",
)  # fmt: skip
_MNIST = (
    "--data", "mnist", "--net", "fc", "--width", "128", "--depth", "6", "--lr", "0.0003",
    "--train-limit", "12000", "--epochs", "10", "--record-every", "750",
)  # fmt: skip
RUNS = {
    "digits, DL": (*_DIGITS, "--regime", "DL"),
    "digits, ReLU": (*_DIGITS, "--regime", "ReLU"),
    "digits, FR-II": (*_DIGITS, "--regime", "FR-II"),
    "MNIST, ReLU": (*_MNIST, "--regime", "ReLU"),
    "MNIST, DL": (*_MNIST, "--regime", "DL"),
}
Row = list[str]  # the cells after the first


def overlap_row(start: Frame, end: Frame) -> Row:
    """Means over pairs of two different examples, of one class and of two, unit diagonal."""
    cells = []
    for name in ("active", "sensitive"):
        for same in (True, False):
            cells.append(_from_to(*(f"{_mean(f, name, same):.2f}" for f in (start, end))))
    return cells


def spectrum_row(start: Frame, end: Frame) -> Row:
    found = [frame.readings["npk"] for frame in (start, end)]
    n = len(found[0].arrays["labels"])
    return [
        _from_to(*(f"{one.scalars['nu']:,.0f}" for one in found)),
        _from_to(*(f"{one.scalars['nu'] / n**2:.2f}" for one in found)),
        _from_to(*(f"{one.scalars['effective_rank']:.1f}" for one in found)),
    ]


def tangent_row(start: Frame, end: Frame) -> Row:
    """Traces, and the ratio of the feature part to the value part, where gates have a slope."""
    found = [frame.readings["ntk"].scalars for frame in (start, end)]
    cells = [_from_to(*(_rounded(one["trace_value"]) for one in found))]
    if all(one.get("trace_feature", 0.0) == 0.0 for one in found):
        return [*cells, "0", "–"]
    ratios = (f"{one['trace_feature'] / one['trace_value']:.1f}" for one in found)
    return [*cells, _from_to(*(_rounded(one["trace_feature"]) for one in found)), _from_to(*ratios)]


PAGES: dict[str, Callable[[Frame, Frame], Row]] = {
    "overlap.md": overlap_row, "path-kernel.md": spectrum_row, "tangent-kernel.md": tangent_row,
}  # fmt: skip


def rows_of(run: Path) -> Iterator[tuple[str, Row]]:
    """What each page says of this run: its name, the cells."""
    reader = RunReader(run)
    steps = [frame.step for frame in reader.frames]
    start, end = reader.frame(min(steps)), reader.frame(max(steps))
    first, last = (frame.readings["overlap"].arrays["active"] for frame in (start, end))
    fixed = np.array_equal(first, last)
    for page, row in PAGES.items():
        cells = row(start, end)
        yield page, [_once(cell) if fixed else cell for cell in cells]


def with_row(page: str, name: str, cells: Row) -> str:
    """The text of a page with the numbers of its row on this run; words in brackets stay.

    Raises `ValueError` where there is no such row.
    """
    lines = page.splitlines(keepends=True)
    for place, line in enumerate(lines):
        old = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if line.startswith(f"| {name}") and len(old) == len(cells) + 1:
            kept = [
                old[0],
                *(_with_words(cell, was) for cell, was in zip(cells, old[1:], strict=True)),
            ]
            lines[place] = f"| {' | '.join(kept)} |\n"
            return "".join(lines)
    raise ValueError(f"there is no row on {name}")


def stale(run: Path) -> list[str]:
    """Which pages say something else of the run of the site than it shows, in sentences.

    Another processor rounds otherwise: a twentieth, or two in the last place, is no difference.
    """
    found = []
    for page, cells in rows_of(run):
        text = (CONCEPTS / page).read_text("utf-8")
        said = numbers(text, OF_THE_SITE)
        measured = numbers(with_row(text, OF_THE_SITE, cells), OF_THE_SITE)
        if not np.allclose(said, measured, rtol=0.05, atol=0.02):
            found.append(
                f"docs/concepts/{page} does not say {' | '.join(cells)} of '{OF_THE_SITE}': run "
                "python -m documentation.typical_values"
            )
    return found


def numbers(page: str, name: str) -> list[float]:
    """The numbers in the row of a page on this run."""
    row = next(line for line in page.splitlines() if line.startswith(f"| {name}"))
    return [float(word.replace(",", "")) for word in re.findall(r"\d[\d,.]*", row)]


def _mean(frame: Frame, name: str, same: bool) -> float:
    reading = frame.readings["overlap"]
    kernel, labels = np.asarray(reading.arrays[name], np.float64), reading.arrays["labels"]
    scale = np.sqrt(np.outer(np.diag(kernel), np.diag(kernel)))
    unit = np.divide(kernel, scale, out=np.zeros_like(kernel), where=scale > 0)
    pairs = (labels[:, None] == labels[None, :]) == same
    np.fill_diagonal(pairs, False)
    return float(unit[pairs].mean())


def _from_to(start: str, end: str) -> str:
    return f"{start} → {end}"


def _once(cell: str) -> str:
    """Of gates that never change: a number that is the same at both ends, once."""
    start, _, end = cell.partition(" → ")
    return start if start == end else cell


def _rounded(value: float) -> str:
    """To hundreds, from ten thousand on to thousands."""
    return f"{round(value, -2 if value < 10_000 else -3):,.0f}"


def _with_words(cell: str, was: str) -> str:
    _, bracket, words = was.partition(" (")
    return f"{cell}{bracket}{words}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m documentation.typical_values")
    parser.add_argument("--data-root", default="")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, options in RUNS.items():
            if "mnist" in options and not given.data_root:
                print(f"{name}: left out; --data-root names the folder with MNIST.")
                continue
            out = Path(folder) / name.replace(", ", "-")
            root = ["--data-root", given.data_root] if "mnist" in options else []
            record = ["--record", "gates,overlap,npk,ntk", "--quiet", "--out", str(out)]
            if code := dgn(["train", *options, *root, *record]):
                return code
            for page, cells in rows_of(out):
                path = CONCEPTS / page
                path.write_text(with_row(path.read_text("utf-8"), name, cells), "utf-8")
                print(f"{name}, {page}: {' | '.join(cells)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
