"""`dgn inspect FILE`: what a checkpoint holds and what it is understood as; with --data, how its
network looks on examples."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgn_engine.cli import Command
from dgn_engine.cli._inspection import (
    add_inspection_options,
    check_inspection_options,
    inspected,
    print_inspection,
)

if TYPE_CHECKING:
    from dgn_engine.storage.checkpoints.contents import Array, CheckpointContents


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="any checkpoint; none of it is run")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    add_inspection_options(parser)


def _run(arguments: argparse.Namespace) -> int:
    from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors

    check_inspection_options(arguments)
    listing = read_tensors(arguments.file)
    told = listed(listing)
    if arguments.data is None:
        print(json.dumps(told, ensure_ascii=False, indent=1) if arguments.json else _lines(told))
        return 0
    looked = inspected(listing, arguments)
    if arguments.json:
        print(json.dumps(told | {"inspection": looked}, ensure_ascii=False, allow_nan=False))
    else:
        print(_head(told))
        print_inspection(looked)
    return 0


def listed(listing: CheckpointContents) -> dict[str, Any]:
    """The listing as JSON can hold it."""
    from dgn_engine.model.importing.torchvision_nets import understood_as
    from dgn_engine.storage.checkpoints.stated_layers import in_words

    tensors = [
        {
            "name": name,
            "shape": list(array.shape),
            "dtype": listing.dtypes[name],
            "finite": _finite(array),
        }
        for name, array in listing.arrays.items()
    ]
    return {
        "file": listing.file_name,
        "kind": listing.kind,
        "understood_as": understood_as(listing),
        "numbers": sum(array.size for array in listing.arrays.values()),
        "finite": all(tensor["finite"] for tensor in tensors),
        "tensors": tensors,
        "ignored": list(listing.ignored),
        "layers": [{"name": layer.name, "is": in_words(layer)} for layer in listing.layers],
    }


def _finite(array: Array) -> bool:
    import numpy as np

    return bool(np.isfinite(array).all())


def _lines(told: dict[str, Any]) -> str:
    tensors = told["tensors"]
    shapes = ["×".join(str(side) for side in t["shape"]) or "scalar" for t in tensors]
    wide = min(max(len(t["name"]) for t in tensors), 60)
    shaped = max(len(shape) for shape in shapes)
    lines = [
        _head(told),
        f"understood as {told['understood_as']}",
        "",
    ]
    for tensor, shape in zip(tensors, shapes, strict=True):
        finite = "" if tensor["finite"] else "  not finite"
        lines.append(f"  {tensor['name']:{wide}}  {shape:{shaped}}  {tensor['dtype']}{finite}")
    if told["layers"]:
        named = max(len(layer["name"]) for layer in told["layers"])
        lines += ["", "its layers, as it states them"]
        lines += [f"  {layer['name']:{named}}  {layer['is']}" for layer in told["layers"]]
    lines.append("")
    lines.append("all finite" if told["finite"] else "some values are not finite")
    lines.extend(f"ignored: {name}" for name in told["ignored"])
    return "\n".join(lines)


def _head(told: dict[str, Any]) -> str:
    tensors = len(told["tensors"])
    return f"{told['file']}: {told['kind']}, {tensors:,} tensors, {told['numbers']:,} numbers"


COMMAND = Command(
    about="List a checkpoint, whoever wrote it, or show its network on data; none of it is run.",
    add_arguments=_add_arguments,
    run=_run,
)
