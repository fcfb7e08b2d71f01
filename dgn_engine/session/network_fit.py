"""Whether a file is a network of these data: what it needs, what they give, why not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import isqrt

from dgn_engine.config import DataConfig
from dgn_engine.data import Examples
from dgn_engine.data._preprocessing import Preprocessing, channels_wanted
from dgn_engine.data._sizes import shape_shown
from dgn_engine.errors import UserError
from dgn_engine.importing.from_file import ImportedNetwork, network_of
from dgn_engine.importing.open_questions import OpenQuestions
from dgn_engine.importing.saved_network import is_ours, split_of_own, state_of
from dgn_engine.protocol.files import FileUseCheck
from dgn_engine.storage.checkpoints.contents import CheckpointContents

SIZES = (8, 16, 28, 32, 48, 64, 96, 128, 224)  # that are tried where images of another side fit


@dataclass(frozen=True)
class DataFacts:
    """What data give: the shape of one example as it is stored, and how many logits they want
    (one for each class; 1 for two classes as ±1)."""

    shape: tuple[int, ...]
    logits: int

    @staticmethod
    def of(examples: Examples) -> DataFacts:
        logits = 1 if examples.signed else len(examples.class_names)
        return DataFacts(tuple(examples.train_x.shape[1:]), logits)


def data_for(listing: CheckpointContents, data: DataConfig, shape: tuple[int, ...]) -> DataConfig:
    """The data as the network of a file takes them: grey images in as many channels as it has; of a
    file of ours, pixels and split as they were when it was trained. `shape`: as they are stored."""
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


def fit_of(
    listing: CheckpointContents, data: DataConfig, facts: DataFacts
) -> tuple[FileUseCheck, DataConfig]:
    """The verdict on a file and these data, and the data as its network takes them."""
    try:
        data = data_for(listing, data, facts.shape)
        shape = shape_shown(data, facts.shape)
        found = network_of(listing, shape, door="window")
    except OpenQuestions as refusal:
        return FileUseCheck(False, str(refusal)), data
    except UserError as refusal:
        gives = f"These data give {in_words(facts)}."
        remarks = f"{gives} {_other_size(listing, data, facts)}".rstrip()
        return FileUseCheck(False, str(refusal), remarks=remarks), data
    verdict = f"{_network_in_words(listing.file_name, found)} {_shown_in_words(found, data, facts)}"
    assumed = [found.assumption] if found.assuming else []
    return FileUseCheck(True, verdict, remarks=" ".join([*found.remarks, *assumed])), data


def in_words(facts: DataFacts) -> str:
    """'1×8×8 and 10 classes'."""
    classes = "two classes as ±1" if facts.logits == 1 else f"{facts.logits:,} classes"
    return f"{sides(facts.shape)} and {classes}"


def sides(shape: tuple[int, ...]) -> str:
    return "×".join(str(side) for side in shape)


def no_accuracy(
    found: ImportedNetwork, listing: CheckpointContents, logits: int, data: DataConfig
) -> str:
    """Why its accuracy on these data is not known, the end of 'no accuracy: …'; '' where it is."""
    outputs = found.network.architecture.classes
    if outputs != logits:
        return (
            f"labels of another data set (it has {outputs:,} output{'s' * (outputs > 1)}, these "
            f"need {logits:,})"
        )
    if is_ours(listing):
        own = state_of(listing).config.data
        if (own.name, own.binary) != (data.name, data.binary):
            name = own.name.partition(":")[0]
            return f"labels of another data set (it learnt {name})"
    return ""


def _network_in_words(file: str, found: ImportedNetwork) -> str:
    layers = len(found.network.architecture.gated_shapes)
    said = f"{file} is a network of {layers} gate layer{'' if layers == 1 else 's'}"
    return said + (f", {found.title}." if found.title.startswith("taken as") else ".")


def _shown_in_words(found: ImportedNetwork, data: DataConfig, facts: DataFacts) -> str:
    shape, outputs = shape_shown(data, facts.shape), found.network.architecture.classes
    how = Preprocessing(data.image_size, channels=data.image_channels)
    changed = how.in_words(facts.shape).removesuffix("pixels in [0, 1]").rstrip(", ")
    words = f"It takes {sides(shape)}" + (f" ({changed})" if changed else "")
    words += f" and has {outputs:,} output{'s' * (outputs > 1)}; these data give {in_words(facts)}"
    if outputs != facts.logits:
        return f"{words}: it is shown on them, its accuracy on them is not known."
    return f"{words}."


def _other_size(listing: CheckpointContents, data: DataConfig, facts: DataFacts) -> str:
    """The side of images that it would take, a sentence; or ''."""
    if len(facts.shape) != 3:
        return ""
    for size in _sizes(listing, data, facts):
        shape = shape_shown(replace(data, image_size=size), facts.shape)
        try:
            network_of(listing, shape, door="window")
        except UserError:
            continue
        return f"Resized to {size} pixels they would fit."
    return ""


def _sizes(listing: CheckpointContents, data: DataConfig, facts: DataFacts) -> Iterator[int]:
    """Sides to be tried: of its first dense layer, then common ones; none where its channels are
    others."""
    wanted = channels_wanted(listing)
    channels = shape_shown(data, facts.shape)[0]
    if wanted and wanted != channels:
        return
    if not wanted:
        inputs = next((a.shape[1] for a in listing.arrays.values() if a.ndim == 2), 0)
        side = isqrt(inputs // channels)
        if side and channels * side**2 == inputs:
            yield side
        return
    yield from SIZES
