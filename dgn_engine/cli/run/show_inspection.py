"""`dgn inspect FILE --data …`: print and save statistics of a network's gates on examples."""

from __future__ import annotations

import argparse
import io
import json
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich import box
from rich.table import Table
from torch import Tensor

from dgn_engine.cli.inspect import EXAMPLES, INSPECTION_FILE, KERNEL_FILE, SCORED
from dgn_engine.cli.run.given_network import (
    IF_NOT,
    add_fitting_readings,
    check_expected,
    normalised_when_trained,
    read_listing,
    with_reading,
)
from dgn_engine.config import DataConfig
from dgn_engine.data import Examples, load_examples, split_of
from dgn_engine.data._preprocessing import (
    Preprocessing,
    channels_wanted,
    without_preprocessing,
)
from dgn_engine.errors import ArgumentError, UserError, Where
from dgn_engine.importing.from_file import ImportedNetwork, network_of
from dgn_engine.importing.open_questions import OpenQuestions
from dgn_engine.importing.saved_network import is_ours, split_of_own
from dgn_engine.kernels.gate_statistics import (
    GateStatistics,
    GateStatisticsSettings,
    gate_statistics,
)
from dgn_engine.kernels.path_norms import (
    PathWeights,
    have_same_paths,
    path_value_distance,
    path_value_norms,
)
from dgn_engine.model.network import GatedNetwork
from dgn_engine.protocol.watching import ProbeSet
from dgn_engine.storage.atomic_write import save_file
from dgn_engine.storage.checkpoints.contents import CheckpointContents
from dgn_engine.text.printable import make_console
from dgn_engine.text.written_numbers import format_decimals, format_number, format_percent
from dgn_engine.training.device_data import choose_probe_set
from dgn_engine.training.devices import set_threads
from dgn_engine.training.metrics import evenly_spaced, test_accuracy

_TRIED = 500  # test examples used to compare readings of a file
_COLUMNS = (
    "gate layer",
    "shape",
    "open",
    "never",
    "always",
    "τ same",
    "τ other",
    "D same",
    "D other",
)


def inspect_network(listing: CheckpointContents, arguments: argparse.Namespace) -> dict[str, Any]:
    """Analyse the network, write the files of --out, and return the results as plain data."""
    given = open_on_data(listing, arguments, EXAMPLES)
    imported, examples, prepare = given.imported, given.examples, given.prepare
    network, chosen, x = imported.network, given.chosen, given.x
    accuracy = _measure_accuracy(imported, examples, prepare, arguments)
    on = f"{accuracy['examples']:,} test examples of {examples.name}"
    why = accuracy.get("why", "")
    check_expected(listing.file_name, accuracy["test"], arguments.expect_accuracy, on, why)
    paths = _measure_paths(network, given.prepared_shape, arguments)
    settings = _statistics_settings(arguments, len(network.architecture.gated_nodes))
    statistics = gate_statistics(network, x, torch.tensor(chosen.labels), settings)
    inspection = {
        "data": _describe_data(examples, prepare, given.raw_shape, x.shape)
        | {"test": split_of(given.data, examples)},
        "network": _describe_network(imported),
        "kernels": _describe_kernels(statistics),
        "layers": [asdict(layer) for layer in statistics.layers],
        "accuracy": accuracy,
        "paths": paths,
    }
    if arguments.out is not None:
        _write_inspection(arguments.out, inspection, statistics, chosen.indices, chosen.labels)
    return inspection


@dataclass(frozen=True)
class NetworkOnData:
    """A network and the examples that it is analysed on.

    Attributes:
        imported: The network, without gradients.
        examples: The data as they are stored.
        data: Their configuration.
        prepare: Converts stored images to what the network takes.
        chosen: The training examples.
        x: These examples, (n, *input_shape).
        raw_shape: Their shape as they are stored, (n, …).
        prepared_shape: Shape of one of them as prepared, before it is flattened for the network.
    """

    imported: ImportedNetwork
    examples: Examples
    data: DataConfig
    prepare: Preprocessing
    chosen: ProbeSet
    x: Tensor
    raw_shape: tuple[int, ...]
    prepared_shape: tuple[int, ...]


def open_on_data(
    listing: CheckpointContents,
    arguments: argparse.Namespace,
    usual: int,
    data: DataConfig | None = None,
) -> NetworkOnData:
    """Load the data and the network.

    Args:
        listing: the network.
        arguments: the command line, with the options of `cli.inspect.add_data_options`.
        usual: number of examples if none is given.
        data: the data, as the network was trained on them; None for those of --data.

    Raises:
        UserError: the network does not fit the data, or has gates for other examples only.
    """
    size, pixels = arguments.size or 0, arguments.normalise or normalised_when_trained(listing)
    if data is None:
        data = split_of_own(listing, DataConfig(arguments.data, arguments.data_root or ""))
    elif data.pixels == "random":  # drawn with the mean and variance of preprocessed pixels
        size, pixels = 0, "none"
    else:
        size, pixels = size or data.image_size, arguments.normalise or data.normalise
        data = without_preprocessing(data)
    data = _split_as_typed(data, arguments)
    examples = load_examples(data)
    prepare = Preprocessing(size, pixels, channels_wanted(listing))
    chosen = choose_probe_set(examples, arguments.examples or usual, arguments.seed or 0)
    dtype = getattr(torch, arguments.dtype or "float32")
    raw = torch.from_numpy(examples.train_x[list(chosen.indices)]).to(dtype)
    x = prepare(raw)
    shape = tuple(x.shape[1:])
    try:
        imported = network_of(listing, shape, dtype)
    except OpenQuestions as refusal:
        rows = evenly_spaced(min(_TRIED, len(examples.test_y)), len(examples.test_y))
        shown = prepare(torch.from_numpy(examples.test_x[rows]))
        labels = torch.from_numpy(examples.test_y[rows])
        raise add_fitting_readings(refusal, listing, shape, shown, labels) from None
    if imported.regime.drawn_gates:
        raise UserError(
            f"The gates of {listing.file_name} were drawn at random for its training examples "
            f"({imported.regime.name}) and exist for no others.",
            kind="drawn-gates",
            value=imported.regime.name,
        )
    network = imported.network.requires_grad_(False)
    set_threads(network.architecture)
    x = x.reshape(len(x), *network.architecture.input_shape)
    return NetworkOnData(imported, examples, data, prepare, chosen, x, tuple(raw.shape), shape)


def first_examples(arguments: argparse.Namespace) -> Tensor:
    """Return a few preprocessed training examples of --data, (n, C, H, W) or (n, d)."""
    data = _split_as_typed(DataConfig(arguments.data, arguments.data_root or ""), arguments)
    prepare = Preprocessing(arguments.size or 0, arguments.normalise or "none")
    return prepare(torch.from_numpy(load_examples(data).train_x[:2]))


def _statistics_settings(arguments: argparse.Namespace, layers: int) -> GateStatisticsSettings:
    chosen = tuple(number - 1 for number in arguments.layers or ())
    if any(not 0 <= layer < layers for layer in chosen):
        raise UserError(
            Where("--layers") + f" must be in 1…{layers}, the gate layers of this network.",
            kind="out-of-bounds",
            value=list(arguments.layers),
        )
    given = {
        name: getattr(arguments, name)
        for name in ("road", "draws", "seconds", "seed")
        if getattr(arguments, name) is not None
    }
    if arguments.memory is not None:
        given["memory_bytes"] = int(arguments.memory * 2**30)
    return replace(GateStatisticsSettings(layers=chosen), **given)


def _split_as_typed(data: DataConfig, arguments: argparse.Namespace) -> DataConfig:
    """Apply --split-seed or --test-indices; either one alone decides the split."""
    seed, indices = arguments.split_seed, arguments.test_indices
    if seed is None and indices is None:
        return data
    return replace(data, split_seed=seed or 0, test_indices=indices or "")


def _describe_data(
    examples: Examples, prepare: Preprocessing, raw: tuple[int, ...], shape: tuple[int, ...]
) -> dict[str, Any]:
    return {
        "name": examples.name,
        "examples": shape[0],
        "classes": len(examples.class_names),
        "input_shape": list(shape[1:]),
        "preparation": prepare.in_words(tuple(raw[1:])),
    }


def _describe_network(imported: ImportedNetwork) -> dict[str, Any]:
    architecture = imported.network.architecture
    return {
        "understood_as": imported.title,
        "regime": imported.regime.name,
        "gate_layers": len(architecture.gated_nodes),
        "weight_layers": len(architecture.weight_layers),
        "logits": architecture.classes,
        "assuming": imported.assuming or None,
        "remarks": [*imported.remarks, *([imported.assumption] if imported.assuming else [])],
    }


def _describe_kernels(statistics: GateStatistics) -> dict[str, Any]:
    kernels = asdict(statistics)
    del kernels["layers"], kernels["arrays"]
    kernels["road"] = "exact" if statistics.relative is None else "estimated"
    kernels["eigenvalues"] = [float(value) for value in statistics.arrays["eigenvalues"][:10]]
    return kernels


def _measure_paths(
    network: GatedNetwork, shape: tuple[int, ...], arguments: argparse.Namespace
) -> dict[str, Any]:
    """Measure the path norms, and the distance from the network of --against."""
    ours = PathWeights.from_stack(network.value)
    paths: dict[str, Any] = {"l1": None, "l2": None}
    with suppress(ArgumentError):  # a sum over the paths is too large for float64
        norms = path_value_norms(ours)
        paths = {"l1": norms.l1, "l2": norms.l2}
    if arguments.against is None:
        return paths
    listing = read_listing(arguments.against)
    if not is_ours(listing):  # what dgn wrote states its network
        listing = with_reading(listing, arguments)
    other = network_of(listing, shape, getattr(torch, arguments.dtype or "float32"))
    theirs = PathWeights.from_stack(other.network.value)
    if not have_same_paths(ours.architecture, theirs.architecture):
        raise UserError(
            Where("--against")
            + f": {listing.file_name} has other layers, so its paths do not correspond.",
            kind="other-network",
            value=listing.file_name,
        )
    apart: dict[str, Any] = {"file": listing.file_name}
    with suppress(ArgumentError):
        distance = path_value_distance(ours, theirs)
        cosine = distance.cosine if isfinite(distance.cosine) else None
        apart |= {**distance.shares, "cosine": cosine, "same_signs": distance.same_signs}
    return paths | {"against": apart}


def _measure_accuracy(
    imported: ImportedNetwork,
    examples: Examples,
    prepare: Preprocessing,
    arguments: argparse.Namespace,
) -> dict[str, Any]:
    """Measure the accuracy on evenly spaced test examples, on all if one is expected."""
    total = len(examples.test_y)
    usual = SCORED if arguments.expect_accuracy is None else total
    most = usual if arguments.scored is None else arguments.scored
    scored = test_accuracy(imported.network, examples, prepare, most)
    if scored is not None:
        return {"test": scored.share, "examples": scored.examples, "of": scored.total}
    logits, classes = imported.network.architecture.classes, len(examples.class_names)
    why = f"the network has {logits:,} logits but the data {classes:,} classes"
    if logits == classes:
        why = "no test examples requested"
    return {"test": None, "examples": 0, "why": why}


def _write_inspection(
    folder: Path,
    inspection: dict[str, Any],
    statistics: GateStatistics,
    indices: tuple[int, ...],
    labels: tuple[int, ...],
) -> None:
    settings = {name: inspection[name] for name in ("data", "network")}
    content = io.BytesIO()
    np.savez(
        content,
        allow_pickle=False,
        indices=np.array(indices),
        labels=np.array(labels),
        settings=np.array(json.dumps(settings, ensure_ascii=False)),
        **statistics.arrays,
    )
    save_file(folder / KERNEL_FILE, content.getvalue())
    text = json.dumps(inspection, ensure_ascii=False, indent=1, allow_nan=False)
    save_file(folder / INSPECTION_FILE, text.encode())


def print_inspection(inspection: dict[str, Any]) -> None:
    data, network, kernels = inspection["data"], inspection["network"], inspection["kernels"]
    sides = "×".join(str(side) for side in data["input_shape"])
    out = make_console(sys.stdout, soft_wrap=True)
    title, regime = network["understood_as"], network["regime"]
    named = title.endswith(f"regime {regime}")  # the title of a dgn file includes the regime
    assuming = f", assuming {network['assuming']}" if network["assuming"] else ""
    out.print(
        f"It is {title}." if named or title.startswith("taken as") else f"It is {title}, {regime}."
    )
    for remark in network["remarks"]:
        out.print(remark)
    out.print(
        f"On {data['examples']} training examples of {data['name']}, balanced over "
        f"{data['classes']} classes, {sides} ({data['preparation']}); {data['test']}:"
    )
    out.print()
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in _COLUMNS:
        table.add_column(column, no_wrap=True)
    for layer in inspection["layers"]:
        shape = "×".join(str(side) for side in layer["shape"])
        units = [f"{layer[name]:,}" for name in ("never", "always")]
        means = [*_format_pair(layer["overlap"]), *_format_pair(layer["sensitive"])]
        table.add_row(layer["name"], shape, format_percent(layer["open"]), *units, *means)
    out.print(table)
    out.print("τ, D (unit diagonal): means over pairs of the same class and of different classes.")
    out.print(_format_overlaps(kernels, assuming))
    out.print(_format_spectrum(kernels, assuming))
    for sentence in contradiction_in_words(kernels):
        out.print(sentence)
    for sentence in _format_paths(inspection["paths"], assuming):
        out.print(sentence)
    out.print(_format_accuracy(inspection["accuracy"], assuming))


def _format_pair(likeness: dict[str, float | None]) -> list[str]:
    return ["–" if value is None else format_decimals(value, 3) for value in likeness.values()]


def _format_overlaps(kernels: dict[str, Any], assuming: str) -> str:
    same, other = _format_pair(kernels["overlap"])
    sentence = f"Overlap Λ{assuming}: {same} same class, {other} different classes."
    if kernels["sensitive"] is None:
        return f"{sentence} The sensitive overlap S needs the exact kernels and was skipped."
    same, other = _format_pair(kernels["sensitive"])
    kappa = kernels["kappa"]
    definition = "D = ∂γ" if kappa is None else f"|q| below {format_number(kappa)}·rms"
    return f"{sentence} Sensitive overlap S ({definition}): {same} same, {other} different."


def _format_spectrum(kernels: dict[str, Any], assuming: str) -> str:
    method = "exact"
    if kernels["relative"] is not None:
        method = (
            f"estimated from {kernels['draws']} random value networks, "
            f"standard error {format_percent(kernels['relative'])}"
        )
        method += ", weighted by width" if kernels["weighted"] else ""
    alignment = kernels["target_alignment"]
    parts = [
        f"NPK ({method}{assuming}): effective rank {format_number(kernels['effective_rank'], 3)}"
    ]
    parts += (
        [] if alignment is None else [f"alignment with the classes {format_decimals(alignment, 3)}"]
    )
    if kernels["nu"] is not None:
        parts.append(f"ν {format_number(kernels['nu'], 5)} ({cut_in_words(kernels)})")
    else:
        parts.append("ν needs the exact kernel")
    return ", ".join(parts) + "."


def _format_paths(paths: dict[str, Any], assuming: str) -> list[str]:
    if paths["l1"] is None:
        return ["Path norms: the sum over the paths is too large for a floating-point number."]
    norms = [format_number(paths[name], 3) for name in ("l1", "l2")]
    sentences = [f"Path norms{assuming}: L1 {norms[0]}, L2 {norms[1]}."]
    if (other := paths.get("against")) and "l2" in other:
        low, high, l2 = (format_percent(other[name]) for name in ("low", "high", "l2"))
        cosine = "–" if other["cosine"] is None else format_number(other["cosine"], 3)
        sentences.append(
            f"Path values of {other['file']}: {low} to {high} away in L1 (0 %: equal, 100 %: no "
            f"path has the same sign), {l2} in L2, cosine {cosine}; "
            f"{format_percent(other['same_signs'])} of the weights agree in sign."
        )
    elif other:
        sentences.append(
            f"Path values of {other['file']}: no distance, the sums are zero or too large."
        )
    return sentences


def cut_in_words(nu: dict[str, Any]) -> str:
    """Describe the truncation of ν by its `rank`, `cutoff` and `outside` (see `kernels.Nu`)."""
    return (
        f"rank {nu['rank']}, cutoff {format_number(nu['cutoff'], 3)}, "
        f"{format_percent(nu['outside'], 2)} of the targets' energy excluded"
    )


def contradiction_in_words(nu: dict[str, Any]) -> list[str]:
    count = nu["contradictory"]
    if not count:
        return []
    return [
        f"{count:,} examples have the same input as an example with another label: no kernel can "
        "fit them."
    ]


def _format_accuracy(accuracy: dict[str, Any], assuming: str) -> str:
    if accuracy["test"] is None:
        return f"Test accuracy: not measured ({accuracy['why']})."
    doubt = f" {IF_NOT}" if assuming else ""
    return (
        f"Test accuracy{assuming}: {format_percent(accuracy['test'])} on "
        f"{accuracy['examples']:,} of "
        f"{accuracy['of']:,} test examples.{doubt}"
    )
