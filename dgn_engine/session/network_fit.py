"""Check whether the network of a file fits given data, and describe why not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import isqrt

from dgn_engine.config import DataConfig
from dgn_engine.data import Examples
from dgn_engine.data._preprocessing import Preprocessing, channels_wanted
from dgn_engine.data._sizes import prepared_shape
from dgn_engine.errors import UserError
from dgn_engine.importing.from_file import ImportedNetwork, network_of
from dgn_engine.importing.open_questions import OpenQuestions
from dgn_engine.importing.saved_network import is_ours, split_of_own, state_of
from dgn_engine.protocol.files import FileUseCheck
from dgn_engine.storage.checkpoints.contents import CheckpointContents

SIZES = (8, 16, 28, 32, 48, 64, 96, 128, 224)  # tried if images of another size might fit


@dataclass(frozen=True)
class DataFacts:
    """The facts about data that a network must fit: the shape of a stored example, and the number
    of logits (one per class; 1 for two classes as ±1)."""

    shape: tuple[int, ...]
    logits: int

    @staticmethod
    def from_examples(examples: Examples) -> DataFacts:
        logits = 1 if examples.signed else len(examples.class_names)
        return DataFacts(tuple(examples.train_x.shape[1:]), logits)


def data_for(listing: CheckpointContents, data: DataConfig, shape: tuple[int, ...]) -> DataConfig:
    """Return the data, prepared as the network of a file needs them.

    Grey images are repeated over its channels; for one of our own files, pixels and split are those
    of its training. `shape` is that of a stored example.
    """
    if is_ours(listing):
        own = state_of(listing).config.data
        size, channels = own.image_size or data.image_size, own.image_channels
        data = replace(
            data,
            normalise=own.normalise,
            image_size=size,
            image_channels=channels or data.image_channels,
        )
        data = split_of_own(listing, data)
    wanted = channels_wanted(listing)
    if wanted > 1 and len(shape) == 3 and shape[0] == 1 and not data.image_channels:
        data = replace(data, image_channels=wanted)
    return data


def check_fit(
    listing: CheckpointContents, data: DataConfig, facts: DataFacts
) -> tuple[FileUseCheck, DataConfig]:
    """Return the verdict on a file with these data, and the data as its network takes them."""
    try:
        data = data_for(listing, data, facts.shape)
        shape = prepared_shape(data, facts.shape)
        imported = network_of(listing, shape, door="window")
    except OpenQuestions as refusal:
        return FileUseCheck(False, str(refusal)), data
    except UserError as refusal:
        gives = f"These data have {describe_data(facts)}."
        remarks = f"{gives} {_other_size(listing, data, facts)}".rstrip()
        return FileUseCheck(False, str(refusal), remarks=remarks), data
    verdict = (
        f"{_network_in_words(listing.file_name, imported)} {_shown_in_words(imported, data, facts)}"
    )
    assumed = [imported.assumption] if imported.assuming else []
    return FileUseCheck(True, verdict, remarks=" ".join([*imported.remarks, *assumed])), data


def describe_data(facts: DataFacts) -> str:
    """Return '1×8×8 inputs and 10 classes'."""
    classes = "two classes as ±1" if facts.logits == 1 else f"{facts.logits:,} classes"
    return f"{_describe_inputs(facts.shape)} and {classes}"


def _describe_inputs(shape: tuple[int, ...]) -> str:
    return "1 input" if shape == (1,) else f"{format_shape(shape)} inputs"


def format_shape(shape: tuple[int, ...]) -> str:
    return "×".join(str(side) for side in shape)


def reason_no_accuracy(
    imported: ImportedNetwork, listing: CheckpointContents, logits: int, data: DataConfig
) -> str:
    """Return why its accuracy on these data is unknown, the end of 'accuracy n/a: …'; '' if it is
    known."""
    outputs = imported.network.architecture.classes
    if outputs != logits:
        return (
            f"labels of another data set (it has {outputs:,} output{'s' * (outputs > 1)}, these "
            f"need {logits:,})"
        )
    if is_ours(listing):
        own = state_of(listing).config.data
        if not has_same_labels(own, data):
            name = own.name.partition(":")[0]
            return f"labels of another data set (it was trained on {name})"
    return ""


def has_same_labels(first: DataConfig, second: DataConfig) -> bool:
    """Return whether a class number means the same in both data sets."""
    return (first.name, first.binary) == (second.name, second.binary)


def _network_in_words(file: str, imported: ImportedNetwork) -> str:
    layers = len(imported.network.architecture.gated_shapes)
    sentence = f"{file} is a network of {layers} gate layer{'' if layers == 1 else 's'}"
    return sentence + (f", {imported.title}." if imported.title.startswith("taken as") else ".")


def _shown_in_words(imported: ImportedNetwork, data: DataConfig, facts: DataFacts) -> str:
    shape, outputs = prepared_shape(data, facts.shape), imported.network.architecture.classes
    how = Preprocessing(data.image_size, channels=data.image_channels)
    changed = how.in_words(facts.shape).removesuffix("pixels in [0, 1]").rstrip(", ")
    words = f"It takes {_describe_inputs(shape)}" + (f" ({changed})" if changed else "")
    words += (
        f" and has {outputs:,} output{'s' * (outputs > 1)}; these data have {describe_data(facts)}"
    )
    if outputs != facts.logits:
        return f"{words}. It can be shown on them, but has no accuracy on them."
    return f"{words}."


def _other_size(listing: CheckpointContents, data: DataConfig, facts: DataFacts) -> str:
    """Return a sentence with the image size that would fit, or ''."""
    if len(facts.shape) != 3:
        return ""
    for size in _candidate_sizes(listing, data, facts):
        shape = prepared_shape(replace(data, image_size=size), facts.shape)
        try:
            network_of(listing, shape, door="window")
        except UserError:
            continue
        return f"They would fit if resized to {size} pixels."
    return ""


def _candidate_sizes(
    listing: CheckpointContents, data: DataConfig, facts: DataFacts
) -> Iterator[int]:
    """Yield sizes to try: that of its first dense layer, or common ones; none if its channels
    differ."""
    wanted = channels_wanted(listing)
    channels = prepared_shape(data, facts.shape)[0]
    if wanted and wanted != channels:
        return
    if not wanted:
        inputs = next((a.shape[1] for a in listing.arrays.values() if a.ndim == 2), 0)
        side = isqrt(inputs // channels)
        if side and channels * side**2 == inputs:
            yield side
        return
    yield from SIZES
