"""Read the inputs, labels and network of `dgn kernels`."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dgn_engine.cli._network_options import READING, USUAL
from dgn_engine.cli._option_checks import given_options
from dgn_engine.cli.run.given_network import (
    IF_NOT,
    add_fitting_readings,
    check_expected,
    describe_state,
    network_settings,
    normalised_when_trained,
    own_settings,
    read_listing,
    read_own_examples,
    with_reading,
)
from dgn_engine.data._normalisation import parse_normalisation
from dgn_engine.errors import UserError, Where
from dgn_engine.importing.from_file import ImportedNetwork, architecture_for, gates_for, network_of
from dgn_engine.importing.open_questions import OpenQuestions
from dgn_engine.importing.saved_network import NetworkState, is_ours, our_network, state_of
from dgn_engine.kernels.trained_weights import trained_weights
from dgn_engine.model.gates import Gate
from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.wiring import check_wiring
from dgn_engine.protocol.file_reading import FileReading
from dgn_engine.protocol.frames import Array
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from dgn_engine.storage.checkpoints.contents import CheckpointContents
from dgn_engine.text.written_numbers import format_percent
from dgn_engine.training.own_examples import OwnExamples, with_drawn_gates
from dgn_engine.training.steps.losses import count_correct


def read_inputs(path: Path, labels: Path | None) -> tuple[Array, Array | None]:
    """Read inputs x (n, …) as floats and labels y (n,) as integers; raises `UserError`."""
    x = _read_array(path, "x", "X", "inputs")
    if x.ndim < 2 or x.shape[0] < 1 or x.dtype.kind not in "fiu":
        raise UserError(
            f"{path.name} has shape {x.shape}; inputs must be numbers of shape (n, …).",
            kind="wrong-shape",
            value=x.shape,
        )
    x = x.astype(np.float64) if x.dtype.kind != "f" else x
    if not np.isfinite(x).all():
        raise UserError(
            f"{path.name} contains values that are not finite.", kind="not-finite", value=path.name
        )
    if labels is None:
        return x, None
    y = _read_array(labels, "y", "Y", "labels")
    if y.shape != (len(x),):
        raise UserError(
            f"{labels.name} has shape {y.shape}; labels must be {len(x)} integers, one per input.",
            kind="wrong-shape",
            value=y.shape,
        )
    if y.dtype.kind not in "fiu" or not np.isfinite(y).all() or (y != np.round(y)).any():
        raise UserError(
            f"{labels.name} contains labels that are not integers.",
            kind="wrong-type",
            value=labels.name,
        )
    return x, y.astype(np.int64)


def normalised_inputs(
    arguments: argparse.Namespace, trained: str = "none"
) -> tuple[Array, Array | None]:
    """Read --inputs and --labels; normalise pixels by --normalise, else as in training.

    Raises:
        UserError: a file cannot be read or has the wrong shape.
    """
    x, labels = read_inputs(arguments.inputs, arguments.labels)
    normalise = parse_normalisation(arguments.normalise or trained)
    return x if normalise is None else normalise(x), labels


def check_labels(labels: Array | None, classes: int) -> None:
    """Raise `UserError` for labels outside the classes; a network with one logit has two."""
    if labels is None:
        return
    most = max(classes, 2) - 1
    if int(labels.min()) < 0 or int(labels.max()) > most:
        logits = f"{classes} logit" + ("s" if classes > 1 else "")
        raise UserError(
            f"The labels range from {labels.min()} to {labels.max()}; "
            f"the network has {logits}, so they must be in 0…{most}.",
            kind="out-of-bounds",
            value=(int(labels.min()), int(labels.max())),
        )


@dataclass(frozen=True)
class OpenedNetwork:
    """A network with the inputs and labels on which to compute its kernels.

    Attributes:
        network: the network.
        x, labels: inputs (n, …) and labels (n,).
        notes: sentences for the user.
        state, own: settings of a file written by dgn and the examples of its run, if used.
        folded: whether K is over the folded weights.
        found: how any other file was imported.
        accuracy: accuracy on these inputs, if there are labels.
        normalise: how the pixels were normalised.
    """

    network: GatedNetwork
    x: Array
    labels: Array | None
    notes: list[str]
    state: NetworkState | None = None
    own: OwnExamples | None = None
    folded: bool = False
    found: ImportedNetwork | None = None
    accuracy: float | None = None
    normalise: str | None = None

    def network_on_device(self, device: torch.device, dtype: torch.dtype) -> GatedNetwork:
        network = self.network.to(device, dtype)
        if self.state is None or self.own is None:
            return network
        return with_drawn_gates(network, self.state, self.own)

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of the kernels that are not command-line options."""
        settings = network_settings(self.network, self.folded)
        if self.state is not None:
            settings |= own_settings(self.state) | {"normalise": self.normalise}
        if self.found is not None:
            settings |= {"taken_as": self.found.title, "assuming": self.found.assuming or None}
        if self.accuracy is not None:
            settings |= {"accuracy": self.accuracy}
        if self.own is not None:
            settings |= {"rows": list(self.own.rows), "labels": "of the run"}
        return settings


def open_network(arguments: argparse.Namespace) -> OpenedNetwork:
    """Open the network of the file with its examples; raises `UserError`."""
    listing = with_reading(read_listing(arguments.network, arguments.part or ""), arguments)
    if arguments.gates is not None and not any(n.endswith("running_mean") for n in listing.arrays):
        of_gates = replace(
            listing.reading, batchnorm="", norm_eps=None
        )  # these options apply to --gates
        listing = replace(listing, reading=of_gates)
    own: OwnExamples | None = None
    if arguments.inputs is None:
        own = read_own_examples(listing, arguments)
    x, labels = (
        (own.images, own.labels)
        if own
        else normalised_inputs(arguments, normalised_when_trained(listing))
    )
    if is_ours(listing):
        return _open_ours(listing, arguments, x, labels, own)
    try:
        imported = read_network(listing, arguments, x.shape)
    except OpenQuestions as refusal:
        y = None if labels is None else torch.from_numpy(labels)
        inputs = torch.from_numpy(x).float()
        more = " (add --labels to get their accuracies)"
        raise add_fitting_readings(refusal, listing, x.shape[1:], inputs, y, more) from None
    assumption = [imported.assumption] if imported.assuming else []
    notes = [f"It is {imported.title}.", *imported.remarks, *assumption]
    if listing.others:
        notes.append(f"Use --part {listing.others[0]} to read '{listing.others[0]}' instead.")
    notes.append(trained_weights(imported.network, arguments.folded))
    return OpenedNetwork(
        imported.network, x, labels, notes, folded=arguments.folded, found=imported
    )


def with_accuracy(
    opened: OpenedNetwork, x: Tensor, labels: Tensor | None, arguments: argparse.Namespace
) -> OpenedNetwork:
    """Add the accuracy on the inputs x (n, *input_shape) if there are labels.

    Raises:
        UserError: it is not the expected accuracy.
    """
    if labels is None:
        return opened
    right = 0
    network = opened.network_on_device(x.device, x.dtype)
    batch = (
        100 if network.given_gates is None else len(x)
    )  # fixed gates belong to all inputs at once
    with torch.no_grad():
        for start in range(0, len(x), batch):
            part = slice(start, start + batch)
            right += int(count_correct(network(x[part]), labels[part]))
    share, file = right / len(x), arguments.network.name
    check_expected(file, share, arguments.expect_accuracy, f"the {len(x):,} inputs")
    assuming = opened.found.assuming if opened.found is not None else ""
    sentence = f"Accuracy: {format_percent(share)} on the {len(x):,} inputs"
    sentence += f", assuming {assuming}. {IF_NOT}" if assuming else "."
    return replace(opened, notes=[*opened.notes, sentence], accuracy=share)


def _open_ours(
    listing: CheckpointContents,
    arguments: argparse.Namespace,
    x: Array,
    labels: Array | None,
    own: OwnExamples | None,
) -> OpenedNetwork:
    decided = ("gates", "beta", "permute", "net", *READING, "value_input", "feature_activation")
    for option in given_options(arguments, *decided, usual=USUAL):
        raise UserError(
            f"{arguments.network.name} was written by dgn and includes its gates; remove "
            + Where(option)
            + ".",
            kind="no-effect",
            value=arguments.network.name,
        )
    state = state_of(listing)
    if state.regime.drawn_gates and own is None:
        raise UserError(
            f"In {state.regime.name} the gates of {listing.file_name} were drawn at random for "
            "the training examples of its run and exist for no other inputs: replace --inputs by "
            "--examples probe, or by --examples N for the first N.",
            kind="drawn-gates",
            value=state.regime.name,
        )
    dtype = getattr(torch, arguments.dtype)
    network = our_network(listing, x.shape[1:], dtype, architecture_for)
    over = trained_weights(network, arguments.folded)
    notes = [describe_state(network, state), *state.remarks, over]
    if own is not None and own.remark:
        notes.append(own.remark)
    if state.config.net.is_from_file:
        file = state.config.net.display_name
        notes.append(f"Its layers are read from {file}, from which the run was started.")
    trained = state.config.data.normalise
    pixels = trained if own is not None else arguments.normalise or trained
    if own is None and trained != "none":
        notes.append(_normalised_in_words(pixels, trained))
    return OpenedNetwork(network, x, labels, notes, state, own, arguments.folded, normalise=pixels)


def _normalised_in_words(used: str, trained: str) -> str:
    if used == trained:
        return (
            f"The inputs were normalised as in the run ({used}); if they already were, use "
            "--normalise none."
        )
    return f"The run's pixels were normalised by {trained}; these by {used} (--normalise)."


def read_network(
    listing: CheckpointContents, arguments: argparse.Namespace, shape: tuple[int, ...]
) -> ImportedNetwork:
    """Import the network for inputs of this shape (n, …), with the gates set by the options."""
    dtype: torch.dtype = getattr(torch, arguments.dtype)
    if arguments.gates is None:
        needing = ("permute", "value_input", "feature_activation")
        for option in given_options(arguments, *needing, usual=USUAL):
            raise UserError(
                Where(option) + " needs --gates: without it the network computes its own gates.",
                kind="needs-option",
                value="--gates",
            )
    imported = network_of(listing, shape[1:], dtype)
    network, remarks = imported.network, imported.remarks
    architecture = network.architecture
    if arguments.gates is not None:
        reading = FileReading(batchnorm=arguments.batchnorm or "", norm_eps=arguments.norm_eps)
        other = replace(read_tensors(arguments.gates), reading=reading)
        network.feature, notes = gates_for(other, architecture, dtype)
        network.own_gates = False
        remarks += notes
    soft = arguments.beta is not None
    network.gate = Gate(soft, arguments.beta if soft else 1.0, arguments.eps)
    network.value_input = arguments.value_input
    network.feature_activation = arguments.feature_activation
    if arguments.permute is not None:
        check_wiring(architecture, arguments.permute)
        network.wiring = arguments.permute
    own = not soft and arguments.gates is None
    return replace(imported, remarks=remarks, assuming=imported.assuming if own else "")


def _read_array(path: Path, *names: str) -> Array:
    """Read the only array of a file, or the first one with one of these names."""
    arrays = read_tensors(path).arrays
    if len(arrays) == 1:
        return next(iter(arrays.values()))
    for name in names:
        if name in arrays:
            return arrays[name]
    raise UserError(
        f"{path.name} has {len(arrays)} arrays; it must have only one, or one named {names[0]}.",
        kind="wrong-length",
        value=len(arrays),
    )
