"""Build a network from a checkpoint: recognise its architecture and load its weights.

All commands and the window read files through this module, so they accept the same files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import torch

from dgn_engine.config import OF_FILE, NetConfig, RunConfig
from dgn_engine.errors import UserError
from dgn_engine.importing.adapted_network import (
    AdaptedNetwork,
    as_listing,
    is_adapted,
    read_adapted,
)
from dgn_engine.importing.file_sequence import arrays_to_read, in_stated_order, sequence_in
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
from dgn_engine.importing.sequence_reading import stated_sequence
from dgn_engine.importing.torchvision_nets import RecognisedNet, describe_file, recognise_network
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
    reading_from_options,
)
from dgn_engine.regimes import Regime, only_regime
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from dgn_engine.storage.checkpoints.contents import CheckpointContents, StatedLayer
from dgn_engine.storage.checkpoints.networks_beside import numbered_copies
from dgn_engine.storage.checkpoints.stated_entries import reading_hints
from dgn_engine.text.printable import plain_text

OF_FOLDED = "Its tangent kernel is that of the folded weights."


@dataclass(frozen=True)
class ImportedNetwork:
    """A network from a file, with the regime it is shown in and the step it belongs to.

    Attributes:
        title: Description that completes 'It is …'.
        remarks: What was folded in or left out.
        assuming: The activation if the user states it and the file does not ('ReLU'); else ''.
        said: Everything the user states about the file, as options.
        config: Configuration of the run that trained it, if it is one of ours.
    """

    network: GatedNetwork
    regime: Regime
    step: int = 0
    title: str = ""
    remarks: tuple[str, ...] = ()
    assuming: str = ""
    said: str = ""
    config: RunConfig | None = None

    @property
    def assumption(self) -> str:
        """One sentence on what the reading assumes; '' if the file states everything."""
        if not self.assuming:
            return ""
        if not self.said:
            return (
                f"The file does not say what it computes: {self.assuming} was chosen by the user."
            )
        how = f"The file does not say what it computes: it is read with your options ({self.said})"
        plain_chain = "--net" not in self.said and not any(
            word in self.said for word in (TORCHVISION, RESNET)
        )
        chain = ", as a plain chain: nothing scaled, skipped or reused" * plain_chain
        return f"{how}{chain}."


@dataclass(frozen=True)
class _Found:
    """Weights loaded into their architecture; fields as in `ImportedNetwork`."""

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
    """Return the network in a file, for inputs of shape (C, H, W) or (d,).

    Our own files and a saved `nn.Sequential` define their network. A state dict does not: the user
    has to complete it (`listing.reading`), and nothing is assumed because it is common.

    Args:
        listing: The file's contents.
        input_shape: Shape of one example.
        dtype: Precision of the weights; torch's default if None.
        door: Where the request came from; refusals are worded for it.

    Raises:
        OpenQuestions: The file leaves something open that the user has not specified.
        UnknownGates: Its layers have no gates that are supported.
        UserError: The file is not a supported network, or takes other inputs.
    """
    dtype = torch.get_default_dtype() if dtype is None else dtype
    if is_ours(listing):
        _check_nothing_said(listing)
        state, title = state_of(listing), describe_file(listing)
        network = our_network(listing, input_shape, dtype, architecture_for)
        return ImportedNetwork(
            *(network, state.regime, state.step, title, state.remarks), config=state.config
        )
    if is_adapted(listing):
        _check_nothing_said(listing)
        return _import_adapted(listing, input_shape, dtype)
    try:
        result = _find_network(listing, input_shape, dtype, door)
    except UnknownGates as verdict:
        raise _add_way_out(verdict, door) from None
    title, remarks = result.title or describe_reading(result.stack.architecture), result.remarks
    if result.assuming:
        remarks = (*reading_hints(listing), *other_names(listing), *remarks)
    if listing.others:
        remarks = (beside_in_words(listing), *remarks)
    if listing.layout:
        remarks = (listing.layout, *remarks)
    if any(FOLDED in remark for remark in remarks):
        remarks = (*remarks, OF_FOLDED)
    network, options = _relu_network(result.stack), listing.reading.command_options
    check_in_dtype(listing.file_name, result.stack)
    regime = only_regime("standard")
    return ImportedNetwork(network, regime, 0, title, remarks, result.assuming, options)


def _add_way_out(verdict: UnknownGates, door: Door) -> UnknownGates:
    if not isinstance(verdict, UngatedLayers):
        return UnknownGates(
            f"{verdict} {OWN_CODE[door]}".rstrip(), kind=verdict.kind, value=verdict.value
        )
    return UngatedLayers(
        f"{verdict} dgn kernels computes K only.", kind=verdict.kind, value=verdict.value
    )


def module_in(listing: CheckpointContents, input_shape: tuple[int, ...]) -> SequentialModule:
    """Return the module of a file's layers, as stated by the file or the user.

    Any activation is accepted, and BatchNorm is folded in. Arguments and errors as for
    `network_of`.
    """
    check_keys(listing.file_name, arrays_to_read(listing))
    stated: tuple[str, ...] = ()
    if listing.layers:
        _check_nothing_said(listing)
        sequential = module_of_layers(listing, listing.layers, input_shape)
    else:
        check_answered(listing, "command")
        renamed, layers, stated = _stated_layers(listing)
        sequential = module_of_layers(renamed, layers, input_shape)
    module, folded = fold_norms(sequential.module)
    of_folded = (OF_FOLDED,) if folded else ()
    named = other_names(listing) if not listing.layers else ()
    remarks = (*reading_hints(listing), *named, *stated, *sequential.remarks, *folded, *of_folded)
    return replace(sequential, module=module, remarks=remarks)


def _import_adapted(
    listing: CheckpointContents, input_shape: tuple[int, ...], dtype: torch.dtype
) -> ImportedNetwork:
    adapted = read_adapted(listing, input_shape, dtype)
    remarks = (f"{FOLDED}.", OF_FOLDED) if adapted.folded else ()
    network = _relu_network(adapted.stack)
    check_in_dtype(listing.file_name, adapted.stack)
    return ImportedNetwork(
        network, only_regime("standard"), 0, adapted.title, remarks, adapted.assuming
    )


def check_in_dtype(file: str, stack: Stack) -> None:
    """Raise `UserError` if numbers of a file overflow the precision it is read in."""
    tensors = [tensor for part in stack.folded_tensors() for tensor in part if tensor is not None]
    if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors):
        precision = str(tensors[0].dtype).removeprefix("torch.")
        raise UserError(f"{file} has values too large for {precision}.", kind="overflow")


def states_its_layers(listing: CheckpointContents) -> bool:
    """Return whether a file states the layers of its network."""
    return bool(listing.layers) or is_ours(listing) or is_adapted(listing)


def self_contained(listing: CheckpointContents, input_shape: tuple[int, ...]) -> CheckpointContents:
    """Return the network of a file in the format that also states its layers.

    Arguments and `UserError` as for `network_of`.
    """
    if is_ours(listing) or is_adapted(listing):
        return listing
    imported = network_of(listing, input_shape)
    folded = any(FOLDED in remark for remark in imported.remarks)
    network = AdaptedNetwork(imported.network.value, imported.title, folded, imported.assuming)
    return as_listing(network, listing.file_name)


def _find_network(
    listing: CheckpointContents, input_shape: tuple[int, ...], dtype: torch.dtype, door: Door
) -> _Found:
    if listing.layers:
        _check_nothing_said(listing)
        check_keys(listing.file_name, listing.arrays, door)
        stack, remarks = stack_of_layers(listing, listing.layers, input_shape, dtype)
        return _Found(stack, remarks, describe_file(listing), assuming="")
    check_keys(listing.file_name, arrays_to_read(listing), door)
    check_alone(listing, door)
    try:
        if listing.reading.net is not None:
            return _build_named_net(listing, input_shape, listing.reading.net, dtype, door)
        check_answered(listing, door)
        if family_named(listing.reading):
            return _of_family(listing, input_shape, dtype)
        renamed, layers, remarks = _stated_layers(listing)
        stack, more = stack_of_layers(renamed, layers, input_shape, dtype)
        return _Found(stack, (*remarks, *more), assuming="ReLU")
    except UnnamedNetwork as doubt:
        raise _add_ways_out(doubt, listing, door) from None


def _add_ways_out(doubt: UnnamedNetwork, listing: CheckpointContents, door: Door) -> UserError:
    if copies := numbered_copies(arrays_to_read(listing)):
        return UserError(copies_in_words(listing.file_name, copies, door), kind="not-supported")
    return UserError(f"{doubt} {way_out(listing, door)}", kind=doubt.kind, value=doubt.value)


def _stated_layers(
    listing: CheckpointContents,
) -> tuple[CheckpointContents, tuple[StatedLayer, ...], tuple[str, ...]]:
    """Return the layers as the user specifies them, and the file with torch's tensor names."""
    sequence = sequence_in(listing)
    children = children_of(listing)
    layers, remarks = stated_sequence(listing.file_name, sequence, listing.reading, children)
    return replace(listing, arrays=sequence.torch_named_arrays(listing.arrays)), layers, remarks


def _of_family(
    listing: CheckpointContents, input_shape: tuple[int, ...], dtype: torch.dtype
) -> _Found:
    """Build the ResNet, VGG or AlexNet that the user says the file is."""
    reading = listing.reading
    if reading.activation not in ("", "relu") or reading.batchnorm == "after":
        raise UserError(
            f"{listing.file_name}: --geometry {reading.geometry.partition(',')[0]} implies ReLU "
            "after its BatchNorms; for any other network use --model.",
            kind="contradiction",
        )
    filtered = replace(listing, arrays=arrays_to_read(listing))
    stated, own = stated_eps(listing), reading.geometry.lower() == TORCHVISION
    eps = reading.norm_eps if stated is None else stated
    if stated is not None and reading.norm_eps not in (None, stated):
        raise UserError(
            f"{listing.file_name} states ε = {stated:g} for its BatchNorms.",
            kind="contradiction",
        )
    known = recognise_network(
        filtered, input_shape, eps or EPSILON, () if own else _stem_nodes(filtered)
    )
    assert known is not None  # `questions_of` has checked this
    _check_family_stated(listing, known)
    stack, _ = imported_stack(known.listing, known.architecture, dtype)
    return _Found(stack, known.remarks, known.title)


def _check_family_stated(listing: CheckpointContents, known: RecognisedNet) -> None:
    """Refuse a file whose saved module states other strides or paddings."""
    names = [name for name in known.listing.arrays if name.endswith("weight")]
    for name, layer in zip(names, known.architecture.weight_layers, strict=False):
        ends = f".{name.removesuffix('.weight')}"
        if not isinstance(layer, arch.Conv):
            continue
        called = [
            child
            for child in listing.children
            if child.kind == "Conv2d" and f".{child.name}".endswith(ends)
        ]
        # Blocks match this suffix too: prefer the shortest, 'conv1' over 'layer1.0.conv1'.
        for child in sorted(called, key=lambda child: len(child.name))[:1]:
            specified = ((layer.stride,) * 2, (layer.padding,) * 2)
            if (child.numbers["stride"], child.numbers["padding"]) != specified:
                raise UserError(
                    f"{listing.file_name} states another stride or padding for "
                    f"'{plain_text(child.name, 60)}' than --geometry; use --model instead.",
                    kind="contradiction",
                )


def _square_side(sides: object) -> int | None:
    return sides[0] if isinstance(sides, tuple) and sides[0] == sides[1] else None


def _stem_nodes(listing: CheckpointContents) -> tuple[arch.Node, ...]:
    """Return the first convolution and pooling of a ResNet, as the user specifies them."""
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
            sides = [
                _square_side(n[key]) for key in ("kernel_size", "stride", "padding", "dilation")
            ]
            if None not in sides and sides[3] == 1 and not n["ceil_mode"]:
                kernel, stride, padding = (side or 0 for side in sides[:3])
                nodes.append(arch.MaxPool(kernel, stride, padding=padding))
    if len(nodes) != 1 + len(pools):
        raise UserError(
            f"--geometry {listing.reading.geometry}: 'resnet' takes the words of its first "
            "convolution and of max pooling, as in resnet,s2p3,max3s2p1 or resnet,s1p1.",
            kind="bad-words",
        )
    return tuple(nodes)


def beside_in_words(listing: CheckpointContents) -> str:
    """Return one sentence on which weights were used, if the file also has averaged ones."""
    others = ", ".join(f"'{name}'" for name in listing.others)
    return f"The weights under '{listing.part}' were used, not those under {others}."


@dataclass(frozen=True)
class FileVerdict:
    """The kind of a file, and the network that it can be read as, if any.

    Attributes:
        title: Description of the file, or of the network it is read as.
        reason: Why the file cannot be read as a network as it is, and what to do; '' if it can.
        code: A line of code that saves it in a format that states its layers, or ''.
        questions: What the file leaves open, if it can be read once that is specified.
    """

    title: str
    reason: str = ""
    code: str = ""
    questions: tuple[OpenQuestion, ...] = ()


def verdict_on(listing: CheckpointContents) -> FileVerdict:
    """Return what a file is before any inputs are known.

    The actual reader is tried, with inputs that fit the first layer.
    """
    title, reason = describe_file(listing), ""
    if states_its_layers(listing):
        _check_nothing_said(listing)
    if is_ours(listing) or is_adapted(listing):
        return FileVerdict(title)
    try:
        if listing.layers and any(layer.kind == "Conv2d" for layer in listing.layers):
            check_keys(listing.file_name, listing.arrays)
            check_kinds(listing.file_name, listing.layers)
            return FileVerdict(title)
        if listing.reading != NOTHING_SAID and not states_its_layers(listing):
            return FileVerdict(f"{_said_in_words(listing)}, as specified")
    except OpenQuestions as refusal:
        return FileVerdict(title, str(refusal), sequential_line(listing), refusal.questions)
    except UnknownGates as verdict:
        return FileVerdict(title, str(_add_way_out(verdict, "command")))
    except UnnamedNetwork as doubt:
        return FileVerdict(title, str(_add_ways_out(doubt, listing, "command")))
    except UserError as refusal:
        return FileVerdict(title, str(refusal))
    for shape in _shapes_that_fit(listing):
        try:
            imported = network_of(listing, shape)
        except UserError as refusal:
            reason = reason or str(refusal)
            if isinstance(refusal, OpenQuestions):
                return FileVerdict(title, reason, sequential_line(listing), refusal.questions)
        else:
            return FileVerdict(imported.title)
    return FileVerdict(title, reason, "" if listing.layers else sequential_line(listing))


def _said_in_words(listing: CheckpointContents) -> str:
    """Describe a file as the user specifies it, before any inputs are known; raises `UserError`."""
    check_keys(listing.file_name, arrays_to_read(listing))
    check_alone(listing, "command")
    if listing.reading.net is not None:
        return f"taken as {listing.reading.net.name}"
    check_answered(listing, "command")
    if family_named(listing.reading):
        return describe_file(listing)
    _, layers, _ = _stated_layers(listing)
    check_kinds(listing.file_name, layers)
    dense = [layer.numbers for layer in layers if layer.kind == "Linear"]
    convolutions = sum(layer.kind == "Conv2d" for layer in layers)
    sizes = [dense[0]["in_features"], *(n["out_features"] for n in dense)] if dense else []
    between = activation_in_words(listing.reading.activation).replace("Identity", "nothing")
    return f"taken as {_layers_in_words(convolutions, sizes)} with {between} between layers"


def _shapes_that_fit(listing: CheckpointContents) -> list[tuple[int, ...]]:
    """Return input shapes that fit the first layer; for images several sizes."""
    first = next((a.shape for a in listing.arrays.values() if a.ndim in (2, 4)), (1, 1))
    if len(first) == 2:
        return [(first[1],)]
    return [(first[1], side, side) for side in (224, 32, 64)]


def describe_reading(architecture: Architecture) -> str:
    """Describe what a file was read as: 'taken as 64-8-8-3 with ReLU between layers'."""
    weighted = architecture.weight_layers
    dense = [layer for layer in weighted if isinstance(layer, Dense)]
    sizes = [dense[0].inputs, *(d.outputs for d in dense)] if dense else []
    what = _layers_in_words(len(weighted) - len(dense), sizes)
    bare = [str(n) for n, layer in enumerate(weighted[:-1], start=1) if not is_gated(layer)]
    but = f" except after layer {', '.join(bare)}" if bare and not architecture.is_residual else ""
    return f"taken as {what} with ReLU between layers{but}"


def _layers_in_words(convolutions: int, sizes: Sequence[object]) -> str:
    """Return '64-8-3' for dense layers of these sizes, or '2 convolutions and 1 dense layer'."""
    if not convolutions:
        return "-".join(str(size) for size in sizes)
    dense = len(sizes) - 1
    words = f"{convolutions} convolution{'s' * (convolutions > 1)}"
    return f"{words} and {dense} dense layer{'s' * (dense > 1)}" if dense > 0 else words


def architecture_for(net: NetConfig, input_shape: tuple[int, ...], classes: int) -> Architecture:
    """Return the architecture of a configuration, including 'file:PATH' for a checkpoint's network.

    Raises:
        UserError: There is no such network, or the file's network has other outputs.
    """
    if not net.is_from_file:
        return build_architecture(net, input_shape, classes)
    path = Path(net.name.removeprefix(OF_FILE))
    try:
        changed = path.stat().st_mtime_ns
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.", kind="no-file") from None
    architecture = _architecture_of_file(path, changed, reading_from_options(net), input_shape)
    if architecture.classes != classes:
        raise UserError(
            f"{path.name} has {architecture.classes} outputs, but these data need {classes}.",
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
        options = " ".join(
            f"--option {question.about}={question.option.partition(' ')[2] or '…'}"
            for question in refusal.questions
        )
        raise UserError(
            f"{path.name} does not say {words}. Add to --net file:{path.name}: {options}.",
            kind="not-supported",
        ) from None


def match_file(
    listing: CheckpointContents, architecture: Architecture, part: Part = "gates"
) -> LayerMatching:
    """Return the weights of a file that match an architecture.

    If the reader finds exactly this network in the file, its weights are used; otherwise layers are
    matched in the order of the file. The reader knows more than the order: which tensors are a
    ResNet's shortcuts, and the ε of a saved module's BatchNorm.
    """
    if not is_ours(listing):
        try:
            imported = network_of(listing, architecture.input_shape).network
        except UserError:
            return match_layers(listing, architecture, part)
        if imported.architecture.nodes[:-1] == architecture.nodes[:-1]:
            return matching_of(imported.value, architecture, listing.file_name)
    return match_layers(listing, architecture, part)


def gates_for(
    listing: CheckpointContents, architecture: Architecture, dtype: torch.dtype
) -> tuple[Stack, tuple[str, ...]]:
    """Return the network of another file that makes this architecture's gates, with remarks."""
    if listing.layers or is_adapted(listing):
        imported = network_of(listing, architecture.input_shape, dtype)
        listing = _as_listing(imported.network.value, listing)
    ordered = in_order(listing)
    check_keys(listing.file_name, listing.arrays)
    return imported_gates(ordered, architecture, dtype)


def _as_listing(stack: Stack, listing: CheckpointContents) -> CheckpointContents:
    arrays = arrays_of(stack)
    dtypes = {name: array.dtype.name for name, array in arrays.items()}
    return replace(listing, arrays=arrays, dtypes=dtypes, metadata={}, layers=())


def _check_nothing_said(listing: CheckpointContents) -> None:
    options = listing.reading.command_options
    if options:
        raise UserError(
            f"{listing.file_name} already states its network; leave out {options}.",
            kind="contradiction",
        )


def _build_named_net(
    listing: CheckpointContents,
    input_shape: tuple[int, ...],
    net: NetConfig,
    dtype: torch.dtype,
    door: Door,
) -> _Found:
    """Build the network that the user names; a `UserError` lists the shapes it needs."""
    if questions := questions_of_weights(listing):
        raise OpenQuestions(in_words(listing, questions, door), questions)
    if unsaid := unsaid_of_weights(listing):
        raise UserError(
            f"{listing.file_name} is not a network of this kind: {unsaid}", kind="not-supported"
        )
    ordered = in_order(replace(listing, arrays=in_stated_order(listing)))
    architecture = named_architecture(ordered, net, input_shape)
    try:
        stack, notes = imported_stack(ordered, architecture, dtype)
    except UserError as refusal:
        came = [a.shape for a in listing.arrays.values() if a.ndim in (2, 4)]
        wanted = [weight_shape(layer) for layer in architecture.weight_layers]
        raise UserError(
            f"{refusal} {net.name} on these examples needs {_list_shapes(wanted)}; "
            f"the file has {_list_shapes(came)}.",
            kind=refusal.kind,
            value=refusal.value,
        ) from None
    return _Found(stack, notes)


def _list_shapes(shapes: list[tuple[int, ...]]) -> str:
    """Return '16×8, 16×16, …', at most ten shapes."""
    words = ["×".join(str(side) for side in shape) for shape in shapes]
    return ", ".join(words[:10]) + (", …" if len(words) > 10 else "") if words else "none"


def _relu_network(stack: Stack) -> GatedNetwork:
    """Return a standard network with these weights.

    `feature` and `value` are the same stack: a separate feature network would only cost memory.
    """
    with torch.device("meta"):
        network = GatedNetwork(stack.architecture)
    network.value = network.feature = stack
    like = stack.folded_tensors()[0][0]
    network.random_input = torch.zeros(stack.architecture.input_shape, dtype=like.dtype)
    return network
