"""Export of the numbers behind a scene, bit for bit: NPZ, or a CSV per chart."""

from __future__ import annotations

import csv
import errno
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dgn_engine.errors import UserError
from dgn_engine.figures.provenance import Provenance
from dgn_engine.scene.elements import Array, Chart, Curve, Empty, Matrix, Scene, Shown
from dgn_engine.scene.ticks import axis_label
from dgn_engine.scene.typeset import strip_markup
from dgn_engine.storage.atomic_write import write_file
from dgn_engine.text.printable import csv_cell, printable
from dgn_engine.text.written_numbers import format_number

FORMATS = (".npz", ".csv")
MOST_COPIED = 1 << 19  # numbers that are copied as text


def save_numbers(shown: Shown, path: Path, context: Provenance) -> tuple[Path, ...]:
    """Write one NPZ, or one CSV per chart (`NAME.CHART.csv`); return the files."""
    if isinstance(shown, Empty):
        message = f"{context.title} has nothing to export: {shown.reason}"
        raise UserError(message, kind="empty", value=shown.reason)
    match path.suffix.lower():
        case ".npz":
            write_export(path, npz_bytes(scene_arrays(shown, context)))
            return (path,)
        case ".csv":
            written = []
            for chart in shown.charts:
                file = path.with_name(f"{path.stem}.{chart.key}.csv")
                write_export(file, csv_text(chart).encode("utf-8"))
                written.append(file)
            return tuple(written)
    message = f"{path.name} is not a data file; use a name ending in {' or '.join(FORMATS)}."
    raise UserError(message, kind="unknown-format", value=path.name)


def npz_bytes(named: dict[str, Array]) -> bytes:
    """Return arrays as a compressed NPZ that loads without pickle."""
    content = io.BytesIO()
    np.savez_compressed(content, allow_pickle=False, **named)
    return content.getvalue()


def scene_arrays(scene: Scene, context: Provenance) -> dict[str, Array]:
    """Return every array of the scene under its chart's name.

    Curves are `CHART.CURVE.x` and `.y`. A matrix is `CHART.values` with its headings `CHART.rows`
    and `CHART.columns`, and for an estimate `CHART.values_error`. `CHART.axes` has the names of x
    and y; `about` is JSON.
    """
    about = context.as_dict() | {
        "facts": {strip_markup(fact.name): fact.value for fact in scene.facts}
    }
    if scene.note:
        about |= {"note": scene.note.replace("$", "")}  # 'K = K^F, over Θ^f.'
    arrays_by_name: dict[str, Array] = {"about": np.array(json.dumps(about, ensure_ascii=False))}
    for chart in scene.charts:
        arrays_by_name[f"{chart.key}.axes"] = np.array(
            [_axis_name(chart, "x"), _axis_name(chart, "y")]
        )
        for index, curve in enumerate(raw_curves(chart)):
            name = _curve_name(curve, index)
            arrays_by_name[f"{chart.key}.{name}.x"] = curve.x
            arrays_by_name[f"{chart.key}.{name}.y"] = curve.y
        if chart.matrix is not None:
            rows, columns = _matrix_headings(chart.matrix)
            arrays_by_name[f"{chart.key}.values"] = chart.matrix.values
            if chart.matrix.error is not None:
                arrays_by_name[f"{chart.key}.values_error"] = chart.matrix.error
            arrays_by_name[f"{chart.key}.rows"] = np.array(rows)
            arrays_by_name[f"{chart.key}.columns"] = np.array(columns)
    return arrays_by_name


def can_copy_code(chart: Chart) -> bool:
    """Return whether the arrays of a chart are small enough for `numpy_code`."""
    matrix = 0 if chart.matrix is None else chart.matrix.values.size
    return matrix + sum(curve.x.size for curve in raw_curves(chart)) <= MOST_COPIED


def numpy_code(scene: Scene, chart: str, context: Provenance) -> str:
    """Return Python code that makes the arrays of a chart, bit for bit, named as in the NPZ."""
    about = " ".join(context.caption.split())  # one line: it may name a stranger's run
    lines = [f"# {printable(about)}", "import numpy as np", "from numpy import inf, nan", ""]
    lines.append(f"{chart if chart.isidentifier() else 'chart'} = {{")
    for name, array in scene_arrays(scene, context).items():
        if name.startswith(f"{chart}."):
            dtype = "str" if array.dtype.kind == "U" else repr(array.dtype.name)
            key = name.removeprefix(f"{chart}.")
            lines.append(f"    {key!r}: np.array({array.tolist()!r}, dtype={dtype}),")
    return "\n".join([*lines, "}", ""])


def raw_curves(chart: Chart) -> tuple[Curve, ...]:
    """Return the curves to export; smoothed lines are for the eye only."""
    return tuple(curve for curve in chart.curves if not curve.smoothed)


def csv_text(chart: Chart, between: str = ",") -> str:
    """Return a matrix with its headings, or curves one after another: name, x, y."""
    text = io.StringIO()
    table = csv.writer(text, delimiter=between, lineterminator="\n")
    if chart.matrix is not None:
        rows, columns = _matrix_headings(chart.matrix)
        corner = f"{chart.matrix.row_name} \\ {chart.matrix.column_name}"
        _write_matrix(table, rows, [corner, *columns], chart.matrix.values)
        if chart.matrix.error is not None:
            _write_row(table, [])
            _write_matrix(table, rows, ["standard error", *columns], chart.matrix.error)
        return text.getvalue()
    weights = sorted({curve.smoothed for curve in chart.curves if curve.smoothed})
    smoothed_note = (
        f" (raw; shown smoothed {', '.join(f'{format_number(weight)}' for weight in weights)})"
        if weights
        else ""
    )
    _write_row(table, ["curve", _axis_name(chart, "x"), f"{_axis_name(chart, 'y')}{smoothed_note}"])
    for index, curve in enumerate(raw_curves(chart)):
        name = _curve_name(curve, index)
        for x, y in zip(curve.x.tolist(), curve.y.tolist(), strict=True):
            _write_row(table, [name, x, y])
    return text.getvalue()


def _write_matrix(table: Any, headings: list[str], first: list[str], values: Array) -> None:
    _write_row(table, first)
    for heading, values_of_row in zip(headings, values.tolist(), strict=True):
        _write_row(table, [heading, *values_of_row])


def _write_row(table: Any, cells: Sequence[object]) -> None:
    table.writerow([csv_cell(cell) for cell in cells])


def _matrix_headings(matrix: Matrix) -> tuple[list[str], list[str]]:
    rows, columns = matrix.values.shape
    tiled = matrix.tile is not None
    return (
        _fill_headings(matrix.row_name, rows, () if tiled else matrix.row_labels),
        _fill_headings(matrix.column_name, columns, () if tiled else matrix.column_labels),
    )


def _fill_headings(name: str, count: int, labels: tuple[str, ...]) -> list[str]:
    return [labels[i] if i < len(labels) else f"{name} {i}" for i in range(count)]


def _curve_name(curve: Curve, index: int) -> str:
    return strip_markup(curve.name) or f"curve {index}"


def _axis_name(chart: Chart, which: str) -> str:
    if which == "x":
        return strip_markup(axis_label(chart.x)) or "x"
    return strip_markup(axis_label(chart.y)) or strip_markup(chart.title) or "y"


def write_export(
    path: Path, content: bytes, write: Callable[[Path, bytes], None] = write_file
) -> None:
    """Write a file completely or not at all.

    Raises:
        UserError: The file could not be written, with the reason.
    """
    try:
        write(path, content)
    except OSError as error:
        raise _explain_os_error(path, error) from None


def _explain_os_error(path: Path, error: OSError) -> UserError:
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            kind, why, advice = (
                "disk-full",
                "the disk is full",
                "Free some space or choose another folder",
            )
        case errno.EACCES | errno.EPERM | errno.EROFS:
            kind, advice = "not-writable", "Choose another folder"
            why = f"the folder {path.parent} is not writable"
        case errno.ENOENT | errno.ENOTDIR:
            kind, advice = "no-folder", "Choose another folder"
            why = f"the folder {path.parent} does not exist"
        case errno.EISDIR:
            kind, why, advice = "is-a-folder", "it is a folder", "Choose another name"
        case _:
            kind, why, advice = (
                "not-writable",
                error.strerror or str(error),
                "Choose another folder",
            )
    message = f"Cannot write {path.name}: {why}. {advice}; nothing was exported."
    return UserError(message, kind=kind, value=str(path))
