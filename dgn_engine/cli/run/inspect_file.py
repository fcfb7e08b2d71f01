"""List a checkpoint, or analyse its network on data."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from dgn_engine.cli.run.given_network import part_in_words, read_listing, with_reading
from dgn_engine.cli.run.show_inspection import first_examples, inspect_network, print_inspection
from dgn_engine.cli.run.user_model import follow_model
from dgn_engine.confinement.trial import confinement_here
from dgn_engine.errors import UserError, Where
from dgn_engine.importing.from_file import verdict_on
from dgn_engine.storage.checkpoints.contents import CheckpointContents
from dgn_engine.storage.checkpoints.stated_entries import reading_hints
from dgn_engine.storage.checkpoints.stated_layers import in_words
from dgn_engine.text.printable import print_json, print_line, printable_name


def inspect_file(arguments: argparse.Namespace) -> int:
    """Print the contents of a file; with --data, an analysis of its network."""
    if arguments.model is not None:
        model = follow_model(arguments, first_examples(arguments))
        listing, notes = model.listing, model.notes
    else:
        listing, notes = read_listing(arguments.file, arguments.part or ""), []
        listing = with_reading(listing, arguments)
    tree = contents_of(listing)
    if arguments.data is None:
        if arguments.json:
            print_json(tree, indent=1)
        else:
            for line in _format_contents(tree, part_in_words(listing)):
                print_line(line)
        return 0
    inspection = inspect_network(listing, arguments)
    if arguments.json:
        print_json(tree | {"inspection": inspection, "notes": notes})
    else:
        print_line(_format_heading(tree))
        for line in (*filter(None, [part_in_words(listing)]), *notes):
            print_line(line)
        print_inspection(inspection)
    return 0


def print_confinement(arguments: argparse.Namespace) -> int:
    """Print how the reading process is confined; exit with 1 if an attempt was not blocked."""
    if any(given is not None for given in (arguments.file, arguments.data, arguments.model)):
        raise UserError(
            Where("--confinement") + " takes no file and no --data; remove them.",
            kind="contradiction",
        )
    report = confinement_here()
    if arguments.json:
        print_json(report, indent=1)
    else:
        print_line(f"{report['system']}: confinement of the process that reads files")
        for name, layer in report["layers"].items():
            print_line(
                f"  {name:10}  {'active' if layer['holds'] else 'missing':7}  {layer['about']}"
            )
        print_line("forbidden operations attempted there, in C")
        for name, attempt in report["attempts"].items():
            refused = f"blocked ({attempt['error']})" if attempt["refused"] else "NOT blocked"
            print_line(f"  {name:23}  {refused}")
    return 0 if all(attempt["refused"] for attempt in report["attempts"].values()) else 1


def contents_of(listing: CheckpointContents) -> dict[str, Any]:
    """Return the contents of a checkpoint as plain data for JSON."""
    tensors = [
        {
            "name": name,
            "shape": list(array.shape),
            "dtype": listing.dtypes[name],
            "finite": bool(np.isfinite(array).all()),
        }
        for name, array in listing.arrays.items()
    ]
    verdict = verdict_on(listing)
    return {
        "file": listing.file_name,
        "kind": listing.kind,
        "understood_as": verdict.title,
        "not_read_because": verdict.reason or None,
        "sequential": verdict.code or None,
        "numbers": sum(array.size for array in listing.arrays.values()),
        "finite": all(tensor["finite"] for tensor in tensors),
        "tensors": tensors,
        "ignored": list(listing.ignored),
        "would_call": list(listing.would_call),
        "would_look_up": list(listing.would_look_up),
        "would_import": list(listing.would_import),
        "part": listing.part or None,
        "beside": list(listing.others),
        "layers": [{"name": layer.name, "is": in_words(layer)} for layer in listing.layers],
        "modules": [{"name": child.name, "is": in_words(child)} for child in listing.children],
        "hints": list(reading_hints(listing)),
        "asks": [question.about for question in verdict.questions],
    }


def _format_contents(tree: dict[str, Any], part: str) -> list[str]:
    tensors = tree["tensors"]
    names = [printable_name(tensor["name"]) for tensor in tensors]
    shapes = ["×".join(str(side) for side in t["shape"]) or "scalar" for t in tensors]
    wide = min(max(map(len, names)), 60)
    shaped = max(len(shape) for shape in shapes)
    title = tree["understood_as"]
    plain_title = title.startswith("taken as") or tree["not_read_because"]
    lines = [_format_heading(tree), title if plain_title else f"understood as {title}"]
    lines += [*filter(None, [part]), ""]
    for name, tensor, shape in zip(names, tensors, shapes, strict=True):
        finite = "" if tensor["finite"] else "  not finite"
        lines.append(f"  {name:{wide}}  {shape:{shaped}}  {tensor['dtype']}{finite}")
    if tree["layers"]:
        width = max(len(layer["name"]) for layer in tree["layers"])
        lines += ["", "layers stated in the file"]
        lines += [f"  {layer['name']:{width}}  {layer['is']}" for layer in tree["layers"]]
    elif tree["modules"]:
        width = max(len(module["name"]) for module in tree["modules"])
        lines += [
            "",
            "modules in order of creation; their order in the network is only in the code",
        ]
        lines += [f"  {module['name']:{width}}  {module['is']}" for module in tree["modules"]]
    lines.append("")
    lines.extend(tree["hints"])
    lines.append("all finite" if tree["finite"] else "some values are not finite")
    lines.extend(f"ignored: {name}" for name in tree["ignored"])
    if reason := tree["not_read_because"]:
        lines += ["", reason]
        if tree["asks"] and tree["sequential"]:
            lines.append(f"Or save it with its architecture: {tree['sequential']}")
    return lines


def _format_heading(tree: dict[str, Any]) -> str:
    tensors = len(tree["tensors"])
    return f"{tree['file']}: {tree['kind']}, {tensors:,} tensors, {tree['numbers']:,} numbers"
