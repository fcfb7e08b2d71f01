"""Compute the kernels of a network, from a file or the user's code, on given inputs."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.table import Table

from dgn_engine.cli.run.kernel_inputs import check_labels, open_network, with_accuracy
from dgn_engine.cli.run.show_inspection import contradiction_in_words, cut_in_words
from dgn_engine.cli.run.user_model import (
    ModelKernels,
    file_kernels,
    kernel_settings,
    model_kernels,
)
from dgn_engine.errors import UserError
from dgn_engine.importing.foreign_keys import UngatedLayers
from dgn_engine.kernels.kernel_report import kernel_arrays
from dgn_engine.protocol.frames import Array
from dgn_engine.storage.atomic_write import make_folders, replace_file
from dgn_engine.text.printable import make_console, print_json
from dgn_engine.text.written_numbers import format_number
from dgn_engine.training.devices import choose_device


def compute_kernels(arguments: argparse.Namespace) -> int:
    """Compute, write and print the kernels; write nothing unless everything succeeds."""
    kernels = model_kernels(arguments) if arguments.model else _kernels_of_file(arguments)
    settings = _collect_settings(arguments) | kernels.settings
    if arguments.out:
        _write_kernels(arguments.out, kernels.arrays, settings | {"notes": kernels.notes})
    _print_kernels(kernels.arrays, arguments.json, settings, kernels.notes)
    return 0


def _kernels_of_file(arguments: argparse.Namespace) -> ModelKernels:
    try:
        opened = open_network(arguments)
    except UngatedLayers as refusal:
        return file_kernels(arguments, refusal)
    network, labels, x = opened.network, opened.labels, opened.x
    check_labels(labels, network.architecture.classes)
    device, dtype = choose_device(arguments.device), getattr(torch, arguments.dtype)
    shape = (len(x), *network.architecture.input_shape)
    images = torch.from_numpy(x).to(device, dtype).reshape(shape)
    classes = None if labels is None else torch.from_numpy(labels).to(device)
    opened = with_accuracy(opened, images, classes, arguments)
    settings, placed_network = kernel_settings(arguments), opened.network_on_device(device, dtype)
    plan = settings.make_plan(placed_network, images, classes)
    arrays = kernel_arrays(placed_network, images, classes, settings, plan)
    return ModelKernels(arrays, opened.settings | plan.settings, [*opened.notes, *plan.notes])


def _collect_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        name: str(value) if isinstance(value, Path) else value
        for name, value in vars(arguments).items()
        if name not in ("command", "json", "out")
    }


def _write_kernels(path: Path, arrays: dict[str, Array], settings: dict[str, Any]) -> None:
    text = np.array(json.dumps(settings, ensure_ascii=False))
    try:
        make_folders(path.parent)
        with replace_file(
            path
        ) as file:  # one array at a time: a second copy of all might not fit in memory
            np.savez(file, allow_pickle=False, settings=text, **arrays)
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror or error}.") from None


def _print_kernels(
    arrays: dict[str, Array], as_json: bool, settings: dict[str, Any], notes: list[str]
) -> None:
    figures = {
        name: _summarise_kernel(array) for name, array in arrays.items() if array.ndim in (2, 4)
    }
    nu = {name: array.item() for name, array in arrays.items() if name.startswith("nu")}
    bound = {name: array.item() for name, array in arrays.items() if name.startswith("bound")}
    of, mark = ("NPK", "") if "nu" in nu else ("K", "_ntk")
    eigenvalues = {name: array for name, array in arrays.items() if name.startswith("eigenvalues")}
    if as_json:
        lists = {name: [float(v) for v in array] for name, array in eigenvalues.items()}
        print_json(
            {"settings": settings, "notes": notes, "kernels": figures, **nu, **bound, **lists}
        )
        return
    table = Table("kernel", "trace", "Frobenius norm", "smallest entry", "largest entry")
    for name, row in figures.items():
        cells = (row[key] for key in ("trace", "norm", "min", "max"))
        table.add_row(name, *("–" if cell is None else format_number(cell, 6) for cell in cells))
    if not figures:
        table = Table("eigenvalues, at trace 1", "number", "smallest", "largest")
        for name, array in eigenvalues.items():
            table.add_row(
                name,
                f"{len(array):,}",
                format_number(array.min(), 6),
                format_number(array.max(), 6),
            )
    out = make_console(sys.stdout, soft_wrap=True)
    if table.row_count:
        out.print(table)
    assuming = f", assuming {settings['assuming']}" if settings.get("assuming") else ""
    if assuming:
        out.print(f"All kernels are those of the imported network{assuming}.")
    if f"nu{mark}" in nu:
        cut = {name.removeprefix("nu_").removesuffix(mark): value for name, value in nu.items()}
        value = format_number(nu[f"nu{mark}"], 6)
        out.print(f"ν = {value} ({of} at trace 1{assuming}; {cut_in_words(cut)})")
        for sentence in contradiction_in_words(cut):
            out.print(sentence)
    if bound:
        cut = {name.removeprefix("bound_"): value for name, value in bound.items()}
        out.print(
            f"Bound of Cao & Gu = {format_number(bound['bound'], 6)}, up to constants and "
            "logarithms (error of a wide ReLU network of this depth, inputs of norm 1; "
            f"{cut_in_words(cut)})"
        )
    for note in notes:
        out.print(note)


def _summarise_kernel(kernel: Array) -> dict[str, float | None]:
    """Return trace, Frobenius norm, minimum and maximum of a kernel, without copying it.

    Args:
        kernel: (n, n), or (n, C, n, C), which is treated as a matrix of n·C rows.

    Returns:
        Minimum and maximum ignore NaN; trace and norm are None if the kernel has any.
    """
    if kernel.ndim == 4:
        kernel = kernel.reshape(kernel.shape[0] * kernel.shape[1], -1)
    least, most = float(np.fmin.reduce(kernel, None)), float(np.fmax.reduce(kernel, None))
    is_empty, is_whole = np.isnan(least), not np.isnan(kernel.min())
    return {
        "trace": float(np.trace(kernel)) if is_whole else None,
        "norm": float(np.linalg.norm(kernel)) if is_whole else None,
        "min": None if is_empty else least,
        "max": None if is_empty else most,
    }
