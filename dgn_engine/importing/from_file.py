"""Make a network of a checkpoint: recognise its architecture and put its weights in place.

The one reader of every command and of the window: what one of them opens, all of them open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import torch

from dgn_engine.config import OF_FILE, NetConfig
from dgn_engine.errors import UserError
from dgn_engine.importing.adapted_network import (
    AdaptedNetwork,
    as_listing,
    is_adapted,
    read_adapted,
)
from dgn_engine.importing.file_sequence import considered, in_said_order, sequence_in
from dgn_engine.importing.fold_batchnorm import EPSILON, FOLDED
from dgn_engine.importing.foreign_keys import (
    OWN_CODE,
    Door,
    UngatedLayers,
    UnknownGates,
    UnnamedNetwork,
    check_keys,
    copies_in_words,
)
from dgn_engine.importing.from_config import build_architecture
from dgn_engine.importing.from_sequential import (
    SequentialModule,
    check_kinds,
    fold_norms,
    module_of_layers,
    stack_of_layers,
)
from dgn_engine.importing.from_tensors import (
    imported_gates,
    imported_stack,
    in_order,
    named_architecture,
)
from dgn_engine.importing.geometry_words import parse_geometry
from dgn_engine.importing.match_layers import (
    LayerMatching,
    Part,
    arrays_of,
    match_layers,
    matching_of,
)
from dgn_engine.importing.open_questions import (
    RESNET,
    TORCHVISION,
    OpenQuestions,
    check_alone,
    check_answered,
    children_of,
    family_named,
    in_words,
    other_names,
    questions_of_weights,
    stated_eps,
    unsaid_of_weights,
)
from dgn_engine.importing.saved_network import is_ours, our_network, state_of
from dgn_engine.importing.sequence_reading import layers_as_said
from dgn_engine.importing.torchvision_nets import RecognisedNet, recognise, understood_as
from dgn_engine.importing.ways_out import sequential_line, way_out
from dgn_engine.model import architecture as arch
from dgn_engine.model.architecture import Architecture, Dense, is_gated, weight_shape
from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.stack import Stack
from dgn_engine.protocol.file_reading import (
    NOTHING_SAID,
    FileReading,
    OpenQuestion,
    activation_in_words,
    in_list,
    reading_of,
)
from dgn_engine.regimes import Regime, only_regime
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from dgn_engine.storage.checkpoints.contents import CheckpointContents, StatedLayer
from dgn_engine.storage.checkpoints.networks_beside import numbered_copies
from dgn_engine.storage.checkpoints.stated_entries import hints
from dgn_engine.text.printable import plain

OF_FOLDED = "Its tangent kernel is that of the folded weights."


@dataclass(frozen=True)
class ImportedNetwork:
    """A network from a file, the regime that it is shown in and the step that it belongs to.

    `title`: what it is, as the end of 'It is …'; `remarks`: what was folded or left out;
    `assuming`: the activation where the user says it and the file does not ('ReLU'), or '';
    `said`: all that the user says of it, as options.
    """

    network: GatedNetwork
    regime: Regime
    step: int = 0
    title: str = ""
    remarks: tuple[str, ...] = ()
    assuming: str = ""
    said: str = ""

    @property
    def assumption(self) -> str:
        """On whose word the reading rests, one sentence; '' where the file says it."""
        if not self.assuming:
            return ""
        if not self.said:
            return f"The file does not say what it computes: {self.assuming} is as its user said."
        how = f"The file does not say what it computes: it is read as you said ({self.said})"
        plain_chain = "--net" not in self.said and not any(
            word in self.said for word in (TORCHVISION, RESNET)
        )
        chain = ", a chain in which nothing is scaled, skipped or used twice" * plain_chain
        return f"{how}{chain}."


@dataclass(frozen=True)
class _Found:
    """The weights in their architecture; fields as in `ImportedNetwork`."""

    stack: Stack
    remarks: tuple[str, ...] = ()
    title: str = ""
    assuming: str = "ReLU"


def network_of(
    listing: CheckpointContents,
    input_shape: tuple[int, ...],
    dtype: torch.dtype | None = None,
    *,
    door: Door = "command",
) -> ImportedNetwork:
    """The network that a file holds, for inputs of this shape (C, H, W) or (d,).

    A file of ours knows what it is, and so does a saved `nn.Sequential`. A state dict does not: it
    is what the user says of it (`listing.reading`), and nothing is taken because it is usual.
    `door`: for whom refusals are worded.

    Raises:
        OpenQuestions: the file leaves something open that was not said.
        UnknownGates: there are no gates in it that are known here.
        UserError: it is no network that is read here, or takes other inputs.
    """
    dtype = torch.get_default_dtype() if dtype is None else dtype
    if is_ours(listing):
        _check_nothing_said(listing)
        state, title = state_of(listing), understood_as(listing)
        network = our_network(listing, input_shape, dtype, architecture_for)
        return ImportedNetwork(network, state.regime, state.step, title, state.remarks)
    if is_adapted(listing):
        _check_nothing_said(listing)
        return _adapted(listing, input_shape, dtype)
    try:
        found = _found_in(listing, input_shape, dtype, door)
    except UnknownGates as verdict:
        raise _with_way_out(verdict, door) from None
    title, remarks = found.title or taken_as(found.stack.architecture), found.remarks
    if found.assuming:
        remarks = (*hints(listing), *other_names(listing), *remarks)
    if listing.others:
        remarks = (beside_in_words(listing), *remarks)
    if listing.layout:
        remarks = (listing.layout, *remarks)
    if any(FOLDED in remark for remark in remarks):
        remarks = (*remarks, OF_FOLDED)
    network, said = _relu_network(found.stack), listing.reading.options
    check_in_dtype(listing.file_name, found.stack)
    regime = only_regime("standard")
    return ImportedNetwork(network, regime, 0, title, remarks, found.assuming, said)


def _with_way_out(verdict: UnknownGates, door: Door) -> UnknownGates:
    if not isinstance(verdict, UngatedLayers):
        return UnknownGates(
            f"{verdict} {OWN_CODE[door]}".rstrip(), kind=verdict.kind, value=verdict.value
        )
    return UngatedLayers(
        f"{verdict} K alone is computed by dgn kernels.", kind=verdict.kind, value=verdict.value
    )


def module_in(listing: CheckpointContents, input_shape: tuple[int, ...]) -> SequentialModule:
    """Return the module that the layers of a file make as it states them or the user says them,
    whatever its activations are, BatchNorm folded in; arguments and errors as of `network_of`."""
    check_keys(listing.file_name, considered(listing))
    said: tuple[str, ...] = ()
    if listing.layers:
        _check_nothing_said(listing)
        made = module_of_layers(listing, listing.layers, input_shape)
    else:
        check_answered(listing, "command")
        renamed, layers, said = _said_layers(listing)
        made = module_of_layers(renamed, layers, input_shape)
    module, folded = fold_norms(made.module)
    of_folded = (OF_FOLDED,) if folded else ()
    named = other_names(listing) if not listing.layers else ()
    remarks = (*hints(listing), *named, *said, *made.remarks, *folded, *of_folded)
    return replace(made, module=module, remarks=remarks)


def _adapted(
    listing: CheckpointContents, input_shape: tuple[int, ...], dtype: torch.dtype
) -> ImportedNetwork:
    found = read_adapted(listing, input_shape, dtype)
    remarks = (f"{FOLDED}.", OF_FOLDED) if found.folded else ()
    network = _relu_network(found.stack)
    check_in_dtype(listing.file_name, found.stack)
    return ImportedNetwork(
        network, only_regime("standard"), 0, found.title, remarks, found.assuming
    )


def check_in_dtype(file: str, stack: Stack) -> None:
    """Raise `UserError` where numbers of a file are infinite in the precision it is read in."""
    tensors = [one for part in stack.tensors() for one in part if one is not None]
    if not all(bool(torch.isfinite(one).all()) for one in tensors):
        precision = str(tensors[0].dtype).removeprefix("torch.")
        raise UserError(f"{file} holds numbers that {precision} does not hold.", kind="overflow")


def says_itself(listing: CheckpointContents) -> bool:
    """Return whether a file states the layers of its network."""
    return bool(listing.layers) or is_ours(listing) or is_adapted(listing)


def self_contained(listing: CheckpointContents, input_shape: tuple[int, ...]) -> CheckpointContents:
    """Return the network of a file as a file of its own holds it, which says what its layers are.

    Arguments and `UserError` as of `network_of`.
    """
    if is_ours(listing) or is_adapted(listing):
        return listing
    found = network_of(listing, input_shape)
    folded = any(FOLDED in remark for remark in found.remarks)
    network = AdaptedNetwork(found.network.value, found.title, folded, found.assuming)
    return as_listing(network, listing.file_name)


def _found_in(
    listing: CheckpointContents, input_shape: tuple[int, ...], dtype: torch.dtype, door: Door
) -> _Found:
    if listing.layers:
        _check_nothing_said(listing)
        check_keys(listing.file_name, listing.arrays, door)
        stack, remarks = stack_of_layers(listing, listing.layers, input_shape, dtype)
        return _Found(stack, remarks, understood_as(listing), assuming="")
    check_keys(listing.file_name, considered(listing), door)
    check_alone(listing, door)
    try:
        if listing.reading.net is not None:
            return _named(listing, input_shape, listing.reading.net, dtype, door)
        check_answered(listing, door)
        if family_named(listing.reading):
            return _of_family(listing, input_shape, dtype)
        renamed, layers, remarks = _said_layers(listing)
        stack, more = stack_of_layers(renamed, layers, input_shape, dtype)
        return _Found(stack, (*remarks, *more), assuming="ReLU")
    except UnnamedNetwork as doubt:
        raise _with_ways_out(doubt, listing, door) from None


def _with_ways_out(doubt: UnnamedNetwork, listing: CheckpointContents, door: Door) -> UserError:
    if copies := numbered_copies(considered(listing)):
        return UserError(copies_in_words(listing.file_name, copies, door), kind="not-supported")
    return UserError(f"{doubt} {way_out(listing, door)}", kind=doubt.kind, value=doubt.value)


def _said_layers(
    listing: CheckpointContents,
) -> tuple[CheckpointContents, tuple[StatedLayer, ...], tuple[str, ...]]:
    """The layers of a file as the user says them, with its tensors by their names."""
    sequence = sequence_in(listing)
    children = children_of(listing)
    layers, remarks = layers_as_said(listing.file_name, sequence, listing.reading, children)
    return replace(listing, arrays=sequence.arrays(listing.arrays)), layers, remarks


def _of_family(
    listing: CheckpointContents, input_shape: tuple[int, ...], dtype: torch.dtype
) -> _Found:
    """The ResNet, VGG or AlexNet that the user says it is."""
    reading = listing.reading
    if reading.activation not in ("", "relu") or reading.batchnorm == "after":
        raise UserError(
            f"{listing.file_name}: --geometry {reading.geometry.partition(',')[0]} means ReLU "
            "behind its BatchNorms; let your own code make another network (--model).",
            kind="contradiction",
        )
    kept = replace(listing, arrays=considered(listing))
    stated, own = stated_eps(listing), reading.geometry.lower() == TORCHVISION
    eps = reading.norm_eps if stated is None else stated
    if stated is not None and reading.norm_eps not in (None, stated):
        raise UserError(
            f"{listing.file_name} says that ε of its BatchNorms is {stated:g}.",
            kind="contradiction",
        )
    known = recognise(kept, input_shape, eps or EPSILON, () if own else _stem(kept))
    assert known is not None  # `questions_of` has seen that it is one
    _check_family_stated(listing, known)
    stack, _ = imported_stack(known.listing, known.architecture, dtype)
    return _Found(stack, known.remarks, known.title)


def _check_family_stated(listing: CheckpointContents, known: RecognisedNet) -> None:
    """Refuse strides and paddings that a whole saved module says are others."""
    names = [name for name in known.listing.arrays if name.endswith("weight")]
    for name, layer in zip(names, known.architecture.weighted, strict=False):
        ends = f".{name.removesuffix('.weight')}"
        if not isinstance(layer, arch.Conv):
            continue
        called = [
            child
            for child in listing.children
            if child.kind == "Conv2d" and f".{child.name}".endswith(ends)
        ]
        # Those of the blocks end so too: 'layer1.0.conv1' is not 'conv1', which is shorter.
        for child in sorted(called, key=lambda child: len(child.name))[:1]:
            said = ((layer.stride,) * 2, (layer.padding,) * 2)
            if (child.numbers["stride"], child.numbers["padding"]) != said:
                raise UserError(
                    f"{listing.file_name} says that '{plain(child.name, 60)}' goes otherwise "
                    "than --geometry has it; let your own code make it (--model).",
                    kind="contradiction",
                )


def _square(sides: object) -> int | None:
    return sides[0] if isinstance(sides, tuple) and sides[0] == sides[1] else None


def _stem(listing: CheckpointContents) -> tuple[arch.Node, ...]:
    """The first convolution and pooling of a ResNet, as the user says them."""
    _, _, words = listing.reading.geometry.replace(" ", ",").partition(",")
    geometry = parse_geometry(words)
    weight = next(a for name, a in listing.arrays.items() if name.endswith("conv1.weight"))
    sound = len(geometry.layers) == 1 and not geometry.places
    numbers = geometry.layers[0].convolution if sound else None
    pools = geometry.layers[0].behind if sound else []
    nodes: list[arch.Node] = []
    if numbers is not None and isinstance(numbers.padding, tuple):
        plain_ = (numbers.dilation, numbers.groups, numbers.padding_mode) == ((1, 1), 1, "zeros")
        square = len(set(numbers.stride)) == len(set(numbers.padding)) == 1
        if plain_ and square:
            outputs, inputs, kernel, _ = weight.shape
            nodes = [arch.Conv(inputs, outputs, kernel, numbers.stride[0], numbers.padding[0])]
    for pool in pools:
        if isinstance(pool, StatedLayer) and pool.kind == "MaxPool2d":
            n = pool.numbers
            sides = [_square(n[key]) for key in ("kernel_size", "stride", "padding", "dilation")]
            if None not in sides and sides[3] == 1 and not n["ceil_mode"]:
                kernel, stride, padding = (side or 0 for side in sides[:3])
                nodes.append(arch.MaxPool(kernel, stride, padding=padding))
    if len(nodes) != 1 + len(pools):
        raise UserError(
            f"--geometry {listing.reading.geometry}: behind 'resnet' stand the words of its first "
            "convolution and of max pooling: resnet,s2p3,max3s2p1 or resnet,s1p1.",
            kind="bad-words",
        )
    return tuple(nodes)


def beside_in_words(listing: CheckpointContents) -> str:
    """Which weights of a file with averaged ones were taken, one sentence."""
    others = ", ".join(f"'{name}'" for name in listing.others)
    return f"Its weights are those under '{listing.part}', not those under {others}."


@dataclass(frozen=True)
class FileVerdict:
    """What a file is, and whether a network is made of it.

    Attributes:
        title: what it is; of what is taken for a network, that it is so.
        reason: why no network is made of it as it is, and what to do, sentences; '' where one is.
        code: the line of code that saves it as a file which says what it is, or ''.
        questions: what it leaves open, where a network would be made of it once that is said.
    """

    title: str
    reason: str = ""
    code: str = ""
    questions: tuple[OpenQuestion, ...] = ()


def verdict_on(listing: CheckpointContents) -> FileVerdict:
    """Return what a file is before there are inputs: the reader itself is asked, with such as fit
    the first layer."""
    title, reason = understood_as(listing), ""
    if says_itself(listing):
        _check_nothing_said(listing)
    if is_ours(listing) or is_adapted(listing):
        return FileVerdict(title)
    try:
        if listing.layers and any(layer.kind == "Conv2d" for layer in listing.layers):
            check_keys(listing.file_name, listing.arrays)
            check_kinds(listing.file_name, listing.layers)
            return FileVerdict(title)
        if listing.reading != NOTHING_SAID and not says_itself(listing):
            return FileVerdict(f"{_said_in_words(listing)}, as said")
    except OpenQuestions as refusal:
        return FileVerdict(title, str(refusal), sequential_line(listing), refusal.questions)
    except UnknownGates as verdict:
        return FileVerdict(title, str(_with_way_out(verdict, "command")))
    except UnnamedNetwork as doubt:
        return FileVerdict(title, str(_with_ways_out(doubt, listing, "command")))
    except UserError as refusal:
        return FileVerdict(title, str(refusal))
    for shape in _shapes_that_fit(listing):
        try:
            found = network_of(listing, shape)
        except UserError as refusal:
            reason = reason or str(refusal)
            if isinstance(refusal, OpenQuestions):
                return FileVerdict(title, reason, sequential_line(listing), refusal.questions)
        else:
            return FileVerdict(found.title)
    return FileVerdict(title, reason, "" if listing.layers else sequential_line(listing))


def _said_in_words(listing: CheckpointContents) -> str:
    """What a file is as the user says it, before there are inputs; raises `UserError`."""
    check_keys(listing.file_name, considered(listing))
    check_alone(listing, "command")
    if listing.reading.net is not None:
        return f"taken as {listing.reading.net.name}"
    check_answered(listing, "command")
    if family_named(listing.reading):
        return understood_as(listing)
    _, layers, _ = _said_layers(listing)
    check_kinds(listing.file_name, layers)
    dense = [layer.numbers for layer in layers if layer.kind == "Linear"]
    convolutions = sum(layer.kind == "Conv2d" for layer in layers)
    sizes = [dense[0]["in_features"], *(n["out_features"] for n in dense)] if dense else []
    between = activation_in_words(listing.reading.activation).replace("Identity", "nothing")
    return f"taken as {_layers_in_words(convolutions, sizes)} with {between} between"


def _shapes_that_fit(listing: CheckpointContents) -> list[tuple[int, ...]]:
    """Shapes of inputs for the first layer of a file; images of several sizes."""
    first = next((a.shape for a in listing.arrays.values() if a.ndim in (2, 4)), (1, 1))
    if len(first) == 2:
        return [(first[1],)]
    return [(first[1], side, side) for side in (224, 32, 64)]


def taken_as(architecture: Architecture) -> str:
    """What was made of a file that does not say it: 'taken as 64-8-8-3 with ReLU between'."""
    weighted = architecture.weighted
    dense = [layer for layer in weighted if isinstance(layer, Dense)]
    sizes = [dense[0].inputs, *(d.outputs for d in dense)] if dense else []
    what = _layers_in_words(len(weighted) - len(dense), sizes)
    bare = [str(n) for n, layer in enumerate(weighted[:-1], start=1) if not is_gated(layer)]
    but = f" but not behind layer {', '.join(bare)}" if bare and not architecture.residual else ""
    return f"taken as {what} with ReLU between{but}"


def _layers_in_words(convolutions: int, sizes: Sequence[object]) -> str:
    """Return '64-8-3' of dense layers of these sizes, or '2 convolutions and 1 dense layer'."""
    if not convolutions:
        return "-".join(str(size) for size in sizes)
    dense = len(sizes) - 1
    words = f"{convolutions} convolution{'s' * (convolutions > 1)}"
    return f"{words} and {dense} dense layer{'s' * (dense > 1)}" if dense > 0 else words


def architecture_for(net: NetConfig, input_shape: tuple[int, ...], classes: int) -> Architecture:
    """The architecture of a configuration, also of 'file:PATH': that of a checkpoint's network.

    Raises `UserError` where there is no such network, or the file's has other outputs.
    """
    if not net.of_file:
        return build_architecture(net, input_shape, classes)
    path = Path(net.name.removeprefix(OF_FILE))
    try:
        changed = path.stat().st_mtime_ns
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.", kind="no-file") from None
    architecture = _architecture_of_file(path, changed, reading_of(net), input_shape)
    if architecture.classes != classes:
        raise UserError(
            f"{path.name} has {architecture.classes} outputs; these data need {classes}.",
            kind="other-inputs",
        )
    return architecture


@lru_cache(maxsize=8)
def _architecture_of_file(
    path: Path, _changed: int, reading: FileReading, input_shape: tuple[int, ...]
) -> Architecture:
    listing = replace(read_tensors(path), reading=reading)
    try:
        return network_of(listing, input_shape).network.architecture
    except OpenQuestions as refusal:
        words = in_list([question.words for question in refusal.questions])
        said = " ".join(
            f"--option {question.about}={question.option.partition(' ')[2] or '…'}"
            for question in refusal.questions
        )
        raise UserError(
            f"{path.name} does not say {words}: say it beside --net file:{path.name} ({said}).",
            kind="not-supported",
        ) from None


def matched(
    listing: CheckpointContents, architecture: Architecture, part: Part = "gates"
) -> LayerMatching:
    """The weights of a file for a network of this architecture: as the reader has them where it
    finds that very network in the file, else layer by layer in the order of the file.

    The reader knows what the order does not: which tensors a ResNet's shortcuts are, and the ε of
    a saved module's BatchNorm.
    """
    if not is_ours(listing):
        try:
            found = network_of(listing, architecture.input_shape).network
        except UserError:
            return match_layers(listing, architecture, part)
        if found.architecture.nodes[:-1] == architecture.nodes[:-1]:
            return matching_of(found.value, architecture, listing.file_name)
    return match_layers(listing, architecture, part)


def gates_for(
    listing: CheckpointContents, architecture: Architecture, dtype: torch.dtype
) -> tuple[Stack, tuple[str, ...]]:
    """The network of another file that makes the gates of this architecture, and notes on it."""
    if listing.layers or is_adapted(listing):
        found = network_of(listing, architecture.input_shape, dtype)
        listing = _as_listing(found.network.value, listing)
    ordered = in_order(listing)
    check_keys(listing.file_name, listing.arrays)
    return imported_gates(ordered, architecture, dtype)


def _as_listing(stack: Stack, listing: CheckpointContents) -> CheckpointContents:
    arrays = arrays_of(stack)
    dtypes = {name: array.dtype.name for name, array in arrays.items()}
    return replace(listing, arrays=arrays, dtypes=dtypes, metadata={}, layers=())


def _check_nothing_said(listing: CheckpointContents) -> None:
    said = listing.reading.options
    if said:
        raise UserError(
            f"{listing.file_name} says itself what its network is; leave out {said}.",
            kind="contradiction",
        )


def _named(
    listing: CheckpointContents,
    input_shape: tuple[int, ...],
    net: NetConfig,
    dtype: torch.dtype,
    door: Door,
) -> _Found:
    """The network that the user named; raises `UserError` with the shapes that it wants."""
    if questions := questions_of_weights(listing):
        raise OpenQuestions(in_words(listing, questions, door), questions)
    if unsaid := unsaid_of_weights(listing):
        raise UserError(
            f"{listing.file_name} is no network of this kind: {unsaid}", kind="not-supported"
        )
    ordered = in_order(replace(listing, arrays=in_said_order(listing)))
    architecture = named_architecture(ordered, net, input_shape)
    try:
        stack, notes = imported_stack(ordered, architecture, dtype)
    except UserError as refusal:
        came = [a.shape for a in listing.arrays.values() if a.ndim in (2, 4)]
        wanted = [weight_shape(layer) for layer in architecture.weighted]
        raise UserError(
            f"{refusal} {net.name} on these examples wants {_shapes(wanted)}; "
            f"the file has {_shapes(came)}.",
            kind=refusal.kind,
            value=refusal.value,
        ) from None
    return _Found(stack, notes)


def _shapes(shapes: list[tuple[int, ...]]) -> str:
    """'16×8, 16×16 …', the first ten of them."""
    words = ["×".join(str(side) for side in shape) for shape in shapes]
    return ", ".join(words[:10]) + (", …" if len(words) > 10 else "") if words else "none"


def _relu_network(stack: Stack) -> GatedNetwork:
    """A standard network of these weights. `feature` and `value` are the same stack: a feature
    network of its own would only take memory."""
    with torch.device("meta"):
        network = GatedNetwork(stack.architecture)
    network.value = network.feature = stack
    like = stack.tensors()[0][0]
    network.random_input = torch.zeros(stack.architecture.input_shape, dtype=like.dtype)
    return network
