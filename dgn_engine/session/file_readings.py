"""What a listed file leaves open of its network, and the readings of it that fit the data."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dgn_engine.config import DataConfig, NetConfig
from dgn_engine.data import Examples
from dgn_engine.data._preprocessing import Preprocessing
from dgn_engine.data._sizes import shape_shown
from dgn_engine.errors import UserError, with_names
from dgn_engine.importing.file_sequence import considered, sequence_in
from dgn_engine.importing.fitting_readings import fitting_readings
from dgn_engine.importing.fold_batchnorm import EPSILON
from dgn_engine.importing.foreign_keys import check_keys
from dgn_engine.importing.from_file import network_of, says_itself
from dgn_engine.importing.geometry_words import IN_DOCS, parse_geometry
from dgn_engine.importing.open_questions import (
    BY_OPTION,
    RESNET,
    TORCHVISION,
    children_of,
    questions_of,
    questions_of_weights,
)
from dgn_engine.importing.sequence_reading import layers_as_said
from dgn_engine.protocol.file_reading import FileReading, FittingReading, OpenQuestion, Unsaid
from dgn_engine.random_streams import random_stream
from dgn_engine.session.network_fit import DataFacts, data_for
from dgn_engine.storage.checkpoints.contents import CheckpointContents
from dgn_engine.training.steps.losses import correct

MOST_TRIED = 500  # examples on which a reading is tried
_PASS = 50  # of them at once
_FIELDS = {  # what the window calls the options of a command, and what it leaves out
    "--activation": "the activation",
    "--geometry": "the geometry",
    "--batchnorm": "the place of BatchNorm",
    "--norm-eps": "the ε of BatchNorm",
    "--order": "the order",
    "--ignore": "the tensors to ignore",
    IN_DOCS: "",
    BY_OPTION: "",
}


@dataclass(frozen=True)
class LabelledExamples:
    """Test examples on which readings are tried.

    Attributes:
        x: (n, …) as they are stored, or as the run has them.
        y: (n,) their class numbers.
        normalised: whether their pixels are normalised already.
    """

    x: Tensor
    y: Tensor
    normalised: bool = False

    @staticmethod
    def of(examples: Examples) -> LabelledExamples:
        return LabelledExamples(
            torch.from_numpy(examples.test_x), torch.from_numpy(examples.test_y)
        )

    def drawn(self, data: DataConfig, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """Return some of them, as a network that takes `data` has them, and their labels, on the
        CPU; `shape`: of one as it is stored."""
        order = torch.randperm(len(self.y), generator=random_stream("readings", 0))
        rows = order[:MOST_TRIED].to(self.x.device)
        x = self.x[rows].reshape(len(rows), *shape).cpu()
        normalise = "none" if self.normalised else data.normalise
        prepare = Preprocessing(data.image_size, normalise, data.image_channels)
        return prepare(x.float()), self.y[rows].cpu()


def questions_on(listing: CheckpointContents) -> tuple[OpenQuestion, ...]:
    """Return what a file leaves open of its network; nothing where it states it, or is none that
    could be read by saying more."""
    if says_itself(listing):
        return ()
    try:
        check_keys(listing.file_name, considered(listing), "window")
        if listing.reading.net is not None:
            return tuple(questions_of_weights(listing))
        return tuple(questions_of(listing))
    except UserError:
        return ()


def contradiction_in(listing: CheckpointContents) -> tuple[Unsaid, str] | None:
    """Return what of `listing.reading` cannot be, whatever the data are, and why, one sentence."""
    reading = listing.reading
    about: Unsaid = "ignored"
    try:
        considered(listing)
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
    """Return the readings of a file that fit these data, or None where none is needed: the file
    says what it is, or all was said.

    Args:
        listing: the file, with what was said of it already.
        data: the data, and what they give.
        net: the network of the run that goes on, which comes first where the weights fit it.
        examples: what readings are tried on.
    """
    if says_itself(listing):
        return None
    is_open = bool(questions_on(listing))
    if not is_open and listing.reading != FileReading():
        return None
    try:
        fitted = data_for(listing, data, facts.shape)
        shape = shape_shown(fitted, facts.shape)
        x, y = examples.drawn(fitted, facts.shape)
    except UserError:
        return () if is_open else None
    named = [] if net.of_file else _as_named(listing, shape, net, x, y)
    found = (*named, *fitting_readings(listing, shape, x, y)) if is_open else tuple(named)
    return found if found or is_open else None


def _as_named(
    listing: CheckpointContents, shape: tuple[int, ...], net: NetConfig, x: Tensor, y: Tensor
) -> list[FittingReading]:
    """The file as the network of this configuration, where its weights fit it."""
    said = listing.reading
    reading = FileReading(
        batchnorm=said.batchnorm, norm_eps=said.norm_eps, ignored=said.ignored, net=net
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
            right += float(correct(logits, y[start : start + _PASS]))
    return [FittingReading(reading, right / len(y), len(y))]


def _is_family(reading: FileReading) -> bool:
    """Whether the geometry names a family of networks, not how each convolution goes."""
    return reading.geometry.lower().startswith((TORCHVISION, RESNET))


def _check_layers(listing: CheckpointContents) -> None:
    """Raise `UserError` where the file contradicts what was said, as far as that is said."""
    asked = {question.about for question in questions_on(listing)}
    if not asked <= {"activation", "norm_eps"}:
        return
    reading = listing.reading
    if "activation" in asked:
        reading = replace(reading, activation="relu")
    if "norm_eps" in asked:
        reading = replace(reading, norm_eps=EPSILON)
    said = replace(listing, reading=reading)
    layers_as_said(listing.file_name, sequence_in(said), reading, children_of(said))
