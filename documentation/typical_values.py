"""Measures the typical values on the pages about concepts, and writes them there.

    python -m documentation.typical_values [--data-root DIR]    # minutes; MNIST where it is

Each run is trained by `dgn train` with every seed and read from its folder. A page has a row for
each run, known by its first cell; the other cells are ranges over the seeds. `make docs` compares
these ranges with the run that it trains anyway, by order of magnitude and direction of change:
a processor that rounds differently trains other digits, not another network.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dgn_engine.cli import main as dgn
from dgn_engine.protocol.frames import Frame
from dgn_engine.storage.runs.run_reader import RunReader

CONCEPTS = Path(__file__).parents[1] / "docs" / "concepts"
SEEDS = 10
FACTOR = 3.0  # beyond a range by more than this is another order of magnitude
TURN = 0.1  # a change the other way by more than this share is another direction
CLEAR = 3.0  # standard deviations over seeds of a change whose direction is shown
ARROWS = {"↗": 1, "↘": -1, "→": 0}  # it clearly rises, clearly falls, or neither
OF_THE_SITE = "digits, DL"  # the run of sample_run.py
_DIGITS = (
    "--data",
    "digits",
    "--net",
    "fc",
    "--width",
    "32",
    "--depth",
    "5",
    "--lr",
    "0.003",
    "--epochs",
    "20",
    "--record-every",
    "100",
)
_MNIST = (
    "--data", "mnist", "--net", "fc", "--width", "128", "--depth", "6", "--lr", "0.0003",
    "--train-limit", "12000", "--epochs", "10", "--record-every", "750",
)  # fmt: skip
RUNS = {
    "digits, DL": (*_DIGITS, "--regime", "DL"),
    "digits, ReLU": (*_DIGITS, "--regime", "ReLU"),
    "digits, FR-II": (*_DIGITS, "--regime", "FR-II"),
    "MNIST, DL": (*_MNIST, "--regime", "DL"),
    "MNIST, ReLU": (*_MNIST, "--regime", "ReLU"),
}


@dataclass(frozen=True)
class Moment:
    """One end of a run: its frame, and what is known only there."""

    frame: Frame
    churn: float | None = None  # mean share of gates that switched, over the second half
    accuracy: float | None = None


@dataclass(frozen=True)
class Column:
    """What a column shows.

    Attributes:
        read: returns the values at one end of a run: one, several (of layers), or none.
        write: returns a value as the page writes it.
    """

    read: Callable[[Moment], Sequence[float]]
    write: Callable[[float], str]


Values = tuple[Sequence[float], Sequence[float]]  # of a column at the start and at the end
Range = tuple[float, float]


def mean_over_pairs(name: str, same: bool) -> Callable[[Moment], list[float]]:
    """Return a function that computes the mean of an overlap over pairs of two different examples.

    Args:
        name: `active` for Λ, `sensitive` for S.
        same: whether to take the pairs of one class or those of two classes.
    """

    def read(moment: Moment) -> list[float]:
        reading = moment.frame.readings["overlap"]
        kernel, labels = np.asarray(reading.arrays[name], np.float64), reading.arrays["labels"]
        scale = np.sqrt(np.outer(np.diag(kernel), np.diag(kernel)))
        unit = np.divide(kernel, scale, out=np.zeros_like(kernel), where=scale > 0)
        pairs = (labels[:, None] == labels[None, :]) == same
        np.fill_diagonal(pairs, False)
        return [float(unit[pairs].mean())]

    return read


def _open_gates(moment: Moment) -> list[float]:
    scalars = moment.frame.readings["gates"].scalars
    return [value for name, value in scalars.items() if re.fullmatch(r"active_\d+", name)]


def _churn(moment: Moment) -> list[float]:
    return [] if moment.churn is None else [moment.churn]


def _accuracy(moment: Moment) -> list[float]:
    return [] if moment.accuracy is None else [moment.accuracy]


def _scalar(probe: str, name: str) -> Callable[[Moment], list[float]]:
    return lambda moment: [moment.frame.readings[probe].scalars[name]]


def _nu_over_n2(moment: Moment) -> list[float]:
    reading = moment.frame.readings["npk"]
    return [reading.scalars["nu"] / len(reading.arrays["labels"]) ** 2]


def _trace_feature(moment: Moment) -> list[float]:
    return [moment.frame.readings["ntk"].scalars.get("trace_feature", 0.0)]


def _feature_to_value(moment: Moment) -> list[float]:
    (feature,), (value,) = _trace_feature(moment), _scalar("ntk", "trace_value")(moment)
    return [feature / value] if feature else []


def _percent(value: float) -> str:
    return f"{100 * value:.0f}"


def _percent_in_tenths(value: float) -> str:
    return f"{100 * value:.1f}" if value else "0"


def _two_digits(value: float) -> str:
    """Return a value in two significant digits, without an exponent."""
    return f"{float(f'{value:.1e}'):,.0f}"


def _hundredths(value: float) -> str:
    return f"{value:.2f}"


def _tenths(value: float) -> str:
    return f"{value:.1f}"


PAGES: dict[str, tuple[Column, ...]] = {
    "gates.md": (
        Column(_open_gates, _percent),
        Column(_churn, _percent_in_tenths),
        Column(_accuracy, _percent_in_tenths),
    ),
    "overlap.md": tuple(
        Column(mean_over_pairs(name, same), _hundredths)
        for name in ("active", "sensitive")
        for same in (True, False)
    ),
    "path-kernel.md": (
        Column(_scalar("npk", "nu"), _two_digits),
        Column(_nu_over_n2, _hundredths),
        Column(_scalar("npk", "effective_rank"), _tenths),
    ),
    "tangent-kernel.md": (
        Column(_scalar("ntk", "trace_value"), _two_digits),
        Column(_trace_feature, _two_digits),
        Column(_feature_to_value, _tenths),
    ),
}


def measure(run: Path) -> dict[str, list[Values]]:
    """Return for each page the values of its columns in a recorded run."""
    reader = RunReader(run)
    frames = [reader.frame_of_step(step) for step in sorted(frame.step for frame in reader.frames)]
    late = [frame.readings["gates"].scalars for frame in frames[len(frames) // 2 :]]
    last = reader.log.summary.last
    start = Moment(frames[0])
    end = Moment(
        frames[-1],
        float(np.mean([scalars["churn"] for scalars in late])),
        None if last is None else last.accuracy,
    )
    return {
        page: [(column.read(start), column.read(end)) for column in columns]
        for page, columns in PAGES.items()
    }


def write_cell(column: Column, seeds: Sequence[Values]) -> str:
    """Return the ranges of a column over seeds at the start and at the end, an arrow between them.

    The arrow is one of `ARROWS`. Where nothing changes in any seed there is one range.
    """
    ends = [[value for values in seeds for value in values[side]] for side in (0, 1)]
    ranges = [_written_range(column, values) for values in ends if values]
    if not ranges:
        return "–"
    if len(ranges) == 1 or all(tuple(start) == tuple(end) for start, end in seeds):
        return ranges[0]
    changes = [float(np.mean(end) - np.mean(start)) for start, end in seeds]
    mean, deviation = float(np.mean(changes)), float(np.std(changes, ddof=1))
    direction = int(np.sign(mean)) if abs(mean) > CLEAR * deviation else 0
    (arrow,) = (arrow for arrow, sign in ARROWS.items() if sign == direction)
    return f" {arrow} ".join(ranges)


def _written_range(column: Column, values: Sequence[float]) -> str:
    low, high = column.write(min(values)), column.write(max(values))
    return low if low == high else f"{low} to {high}"


def read_cell(cell: str) -> tuple[list[Range], int]:
    """Return the ranges of a cell and the sign of its change; no range for '–', one for no change.

    Words in brackets behind the numbers are passed over.
    """
    numbers = cell.partition(" (")[0]
    if numbers == "–":
        return [], 0
    arrow = next((arrow for arrow in ARROWS if arrow in numbers), "→")
    ranges = []
    for written in numbers.split(f" {arrow} "):
        ends = [float(word.replace(",", "")) for word in written.split(" to ")]
        ranges.append((ends[0], ends[-1]))
    return ranges, ARROWS[arrow]


def disagreement(cell: str, values: Values, unit: float = 1.0) -> str:
    """Return why the values of a run do not fit a cell, or an empty string.

    They do not fit if one is beyond its range by more than `FACTOR`, if there is a value where the
    page has none (or the reverse), or if the run changes the other way by more than `TURN`. Shares
    are compared as odds: 32 % is as far from 60 % as 68 % is from 40 %.

    Args:
        cell: ranges as `write_cell` writes them.
        values: the same column of one run.
        unit: what the numbers of the page are multiples of: 0.01 for percent.
    """
    ranges, direction = read_cell(cell)
    sides = [side for side in values if side]
    if len(ranges) == 1:
        sides = sides[-1:]
    if len(ranges) != len(sides):
        return "there is a number on one side only"
    for (low, high), side in zip(ranges, sides, strict=True):
        for value in side:
            least, most, now = low, high, value / unit
            if unit != 1.0:
                least, most, now = (_odds(percent) for percent in (low, high, value / unit))
            if not least / FACTOR <= now <= most * FACTOR:
                return f"{value / unit:.4g} is of another order of magnitude"
    if direction:
        start, end = (float(np.mean(side)) for side in sides)
        if direction * (end - start) < -TURN * abs(start):
            return f"it goes from {start / unit:.4g} to {end / unit:.4g}"
    return ""


def _odds(percent: float) -> float:
    return percent / max(100.0 - percent, 0.1)


def row_cells(page: str, name: str) -> list[str]:
    """Return the cells of the row of a page on this run.

    Raises:
        ValueError: there is no such row.
    """
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if line.startswith("|") and re.fullmatch(rf"{re.escape(name)}(?: \(.*\))?", cells[0]):
            return cells
    raise ValueError(f"there is no row on {name}")


def with_row(page: str, name: str, cells: Sequence[str]) -> str:
    """Return the text of a page with these cells in its row on this run; words in brackets stay."""
    old = row_cells(page, name)
    new = [old[0]]
    for cell, before in zip(cells, old[1:], strict=True):
        _, bracket, words = before.partition(" (")
        new.append(f"{cell}{bracket}{words}")
    return page.replace(f"| {' | '.join(old)} |\n", f"| {' | '.join(new)} |\n")


def stale(run: Path) -> list[str]:
    """Return a sentence for each cell of the pages that this run, of the site, does not fit."""
    sentences = []
    for page, columns in measure(run).items():
        cells = row_cells((CONCEPTS / page).read_text("utf-8"), OF_THE_SITE)[1:]
        for column, cell, values in zip(PAGES[page], cells, columns, strict=True):
            unit = 0.01 if column.write in (_percent, _percent_in_tenths) else 1.0
            if why := disagreement(cell, values, unit):
                sentences.append(
                    f"docs/concepts/{page}, '{OF_THE_SITE}': {cell} does not fit, {why}: run "
                    "python -m documentation.typical_values"
                )
    return sentences


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m documentation.typical_values")
    parser.add_argument("--data-root", default="")
    given = parser.parse_args()
    for name, options in RUNS.items():
        if "mnist" in options and not given.data_root:
            print(f"{name}: left out; --data-root names the folder with MNIST.")
            continue
        root = ["--data-root", given.data_root] if "mnist" in options else []
        seeds = []
        for seed in range(SEEDS):
            with tempfile.TemporaryDirectory() as folder:
                out = Path(folder) / "run"
                record = ["--record", "gates,overlap,npk,ntk", "--quiet", "--out", str(out)]
                if code := dgn(["train", *options, *root, *record, "--seed", str(seed)]):
                    return code
                seeds.append(measure(out))
        for page, columns in PAGES.items():
            cells = [
                write_cell(column, [measured[page][place] for measured in seeds])
                for place, column in enumerate(columns)
            ]
            path = CONCEPTS / page
            path.write_text(with_row(path.read_text("utf-8"), name, cells), "utf-8")
            print(f"{name}, {page}: {' | '.join(cells)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
