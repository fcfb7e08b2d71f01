"""The import options that an opened file leaves open, and the readings that fit the data."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dgn_engine.config import DataConfig, NetConfig
from dgn_engine.data import Examples
from dgn_engine.data._preprocessing import Preprocessing
from dgn_engine.data._sizes import prepared_shape
from dgn_engine.errors import UserError, with_names
from dgn_engine.importing.file_sequence import arrays_to_read, sequence_in
from dgn_engine.importing.fitting_readings import fitting_readings
from dgn_engine.importing.fold_batchnorm import EPSILON
from dgn_engine.importing.foreign_keys import check_keys
from dgn_engine.importing.from_file import network_of, states_its_layers
from dgn_engine.importing.geometry_words import IN_DOCS, parse_geometry
from dgn_engine.importing.open_questions import (
    BY_OPTION,
    RESNET,
    TORCHVISION,
    children_of,
    questions_of,
    questions_of_weights,
)
from dgn_engine.importing.sequence_reading import stated_sequence
from dgn_engine.protocol.file_reading import FileReading, FittingReading, OpenQuestion, Unsaid
from dgn_engine.random_streams import random_stream
from dgn_engine.session.network_fit import DataFacts, data_for
from dgn_engine.storage.checkpoints.contents import CheckpointContents
from dgn_engine.training.steps.losses import count_correct

MOST_TRIED = 500  # examples on which a reading is tried
_PASS = 50  # of them at once
_FIELDS = {  # the window's names for command options, '' for what it leaves out
    "--activation": "the activation",
    "--geometry": "the geometry",
    "--batchnorm": "the position of BatchNorm",
    "--norm-eps": "the ε of BatchNorm",
    "--order": "the order",
    "--ignore": "the tensors to ignore",
    IN_DOCS: "",
    BY_OPTION: "",
}


@dataclass(frozen=True)
class LabelledExamples:
    """The test examples on which readings are tried.

    Attributes:
        x: (n, …) As stored, or as the run has them.
        y: (n,) Class numbers.
        normalised: Whether the pixels are already normalised.
    """

    x: Tensor
    y: Tensor
    normalised: bool = False

    @staticmethod
    def from_examples(examples: Examples) -> LabelledExamples:
        return LabelledExamples(
            torch.from_numpy(examples.test_x), torch.from_numpy(examples.test_y)
        )

    def draw_sample(self, data: DataConfig, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """Return a random sample, prepared for a network that takes `data`, with labels, on the
        CPU.

        `shape` is that of one stored example.
        """
        order = torch.randperm(len(self.y), generator=random_stream("readings", 0))
        rows = order[:MOST_TRIED].to(self.x.device)
        x = self.x[rows].reshape(len(rows), *shape).cpu()
        normalise = "none" if self.normalised else data.normalise
        prepare = Preprocessing(data.image_size, normalise, data.image_channels)
        return prepare(x.float()), self.y[rows].cpu()


def questions_on(listing: CheckpointContents) -> tuple[OpenQuestion, ...]:
    """Return what a file leaves open about its network; empty if it is complete, or cannot be
    completed."""
    if states_its_layers(listing):
        return ()
    try:
        check_keys(listing.file_name, arrays_to_read(listing), "window")
        if listing.reading.net is not None:
            return tuple(questions_of_weights(listing))
        return tuple(questions_of(listing))
    except UserError:
        return ()


def contradiction_in(listing: CheckpointContents) -> tuple[Unsaid, str] | None:
    """Return which answer in `listing.reading` is impossible, whatever the data, and why."""
    reading = listing.reading
    about: Unsaid = "ignored"
    try:
        arrays_to_read(listing)
        if reading.order:
            about = "order"
            sequence_in(listing)
        about = "geometry"
        if reading.geometry and not _is_family(reading):
            parse_geometry(reading.geometry)
            _check_layers(listing)
        if reading.batchnorm and not reading.geometry:
            about = "batchnorm"
            _check_layers(listing)
    except UserError as refusal:
        begins = str(refusal).startswith(refusal.place) and refusal.place in _FIELDS
        words = with_names(refusal.sentence, lambda place: _FIELDS.get(place, place))
        return about, words[:1].upper() + words[1:] if begins else words
    return None


def offered_readings(
    listing: CheckpointContents,
    data: DataConfig,
    facts: DataFacts,
    net: NetConfig,
    examples: LabelledExamples,
) -> tuple[FittingReading, ...] | None:
    """Return the readings of a file that fit the data; None if none are needed.

    Args:
        listing: The file, with the answers so far.
        data: The configuration of the data.
        facts: The shape and classes of the data.
        net: The network of the current run, which comes first if the weights fit it.
        examples: The examples to try readings on.
    """
    if states_its_layers(listing):
        return None
    is_open = bool(questions_on(listing))
    if not is_open and listing.reading != FileReading():
        return None
    try:
        fitted = data_for(listing, data, facts.shape)
        shape = prepared_shape(fitted, facts.shape)
        x, y = examples.draw_sample(fitted, facts.shape)
    except UserError:
        return () if is_open else None
    as_run = [] if net.is_from_file else _as_run_network(listing, shape, net, x, y)
    readings = (*as_run, *fitting_readings(listing, shape, x, y)) if is_open else tuple(as_run)
    return readings if readings or is_open else None


def _as_run_network(
    listing: CheckpointContents, shape: tuple[int, ...], net: NetConfig, x: Tensor, y: Tensor
) -> list[FittingReading]:
    """Return the file as the network of this configuration, if its weights fit it."""
    answers = listing.reading
    reading = FileReading(
        batchnorm=answers.batchnorm, norm_eps=answers.norm_eps, ignored=answers.ignored, net=net
    )
    try:
        network = network_of(replace(listing, reading=reading), shape, torch.float32).network
    except UserError:
        return []
    outputs = network.architecture.classes
    if int(y.max()) >= max(outputs, 2):
        return [FittingReading(reading)]
    right = 0.0
    with torch.no_grad():
        for start in range(0, len(y), _PASS):
            inputs = x[start : start + _PASS]
            logits = network(inputs.reshape(len(inputs), *network.architecture.input_shape))
            right += float(count_correct(logits, y[start : start + _PASS]))
    return [FittingReading(reading, right / len(y), len(y))]


def _is_family(reading: FileReading) -> bool:
    """Return whether the geometry names a family of networks, not the geometry of each
    convolution."""
    return reading.geometry.lower().startswith((TORCHVISION, RESNET))


def _check_layers(listing: CheckpointContents) -> None:
    """Raise `UserError` if the file contradicts the answers given so far."""
    asked = {question.about for question in questions_on(listing)}
    if not asked <= {"activation", "norm_eps"}:
        return
    reading = listing.reading
    if "activation" in asked:
        reading = replace(reading, activation="relu")
    if "norm_eps" in asked:
        reading = replace(reading, norm_eps=EPSILON)
    answered = replace(listing, reading=reading)
    stated_sequence(listing.file_name, sequence_in(answered), reading, children_of(answered))
