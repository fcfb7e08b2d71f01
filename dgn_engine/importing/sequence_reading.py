"""Questions that a state dict leaves open, and its layers once the user answers them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from dgn_engine.errors import UserError, Where
from dgn_engine.importing.file_sequence import FileLayer, FileSequence
from dgn_engine.importing.foreign_keys import UnnamedNetwork, left_over_in_words
from dgn_engine.importing.geometry_words import (
    ConvolutionNumbers,
    Geometry,
    LayerWords,
    convolution_word,
    parse_geometry,
    pooling_word,
)
from dgn_engine.protocol.file_reading import (
    FileReading,
    OpenQuestion,
    activation_class,
    in_list,
)
from dgn_engine.storage.checkpoints.contents import Array, StatedLayer
from dgn_engine.storage.checkpoints.stated_layers import in_words as layer_in_words
from dgn_engine.text.printable import plain_text

_NAMED = 3  # tensors in a sentence, at most
_ORDERED = 8  # weights in an option, at most
BATCHNORM_QUESTION = OpenQuestion(
    "batchnorm",
    "whether BatchNorm comes before or after the activation",
    "--batchnorm before",
)
NORM_EPS_QUESTION = OpenQuestion("norm_eps", "the ε of its BatchNorm", "--norm-eps 1e-5")
_FLATTEN = StatedLayer("flatten", "Flatten", {"start_dim": 1, "end_dim": -1})


@dataclass(frozen=True)
class _Segment:
    """A layer, its BatchNorm or None, and the number of parameter-free layers after each of them.

    `to_norm` and `to_next` are None where the layer numbers do not tell.
    """

    layer: FileLayer
    norm: FileLayer | None
    to_norm: int | None
    to_next: int | None
    is_last: bool

    @property
    def silent_layer_count(self) -> int | None:
        if self.norm is None:
            return self.to_next
        if self.to_norm is None or self.to_next is None:
            return None
        return self.to_norm + self.to_next

    @property
    def norm_place(self) -> str:
        """'before' or 'after' the activation, by the layer numbers; '' if they do not tell."""
        if self.norm is None:
            return ""
        if self.to_norm == 0:
            return "before"
        return "after" if self.to_norm is not None and self.to_next == 0 else ""


Children = Mapping[str, StatedLayer]  # by name: the layers that a whole saved module states


def open_questions(
    file: str,
    sequence: FileSequence,
    arrays: dict[str, Array],
    reading: FileReading,
    children: Children,
    named: Sequence[str] = (),
) -> list[OpenQuestion]:
    """Return what the file leaves open and the user has not specified; raises `UserError`."""
    geometry = parse_geometry(reading.geometry) if reading.geometry else None
    questions: list[OpenQuestion] = []
    if sequence.left_over:
        questions.append(ignored_question(sequence.left_over, arrays))
    if sequence.guessed_order:
        questions.append(order_question(sequence))
    if not reading.activation:
        questions.append(activation_question(named))
    if sequence.convolution_count and geometry is None:
        questions.append(geometry_question(sequence, children))
    if sequence.unplaced:
        words = "which layers its BatchNorms follow"
        example = "p1,bn,act,…,dense" if sequence.convolution_count else "dense,bn,act,…,dense"
        questions = [question for question in questions if question.about != "geometry"]
        questions.append(OpenQuestion("geometry", words, f"--geometry {example}"))
        if reading.norm_eps is None:
            questions.append(NORM_EPS_QUESTION)
        return questions
    segments = _split_segments(file, sequence)
    if geometry is not None or not sequence.convolution_count:
        room = _room_question(file, sequence, segments, geometry or _dense_geometry(segments))
        questions += [] if room is None else [room]
    unsure = any(s.norm is not None and not s.norm_place and not s.is_last for s in segments)
    if unsure and not reading.batchnorm and not (geometry is not None and geometry.places):
        questions.append(BATCHNORM_QUESTION)
    if reading.norm_eps is None and any(
        layer.kind == "BatchNorm" and _stated_eps(layer, children) is None
        for layer in sequence.layers
    ):
        questions.append(NORM_EPS_QUESTION)
    return questions


def geometry_question(sequence: FileSequence, children: Children) -> OpenQuestion:
    stated = [
        stated_convolution(layer, children)
        for layer in sequence.weighted_layers
        if layer.kind == "Conv2d"
    ]
    known = [convolution_word(numbers) for numbers in stated if numbers is not None]
    if len(known) < len(stated):
        words = "the strides, padding and pooling of its convolutions"
        return OpenQuestion("geometry", words, "--geometry s2p1,max2,…")
    words = "the pooling between its convolutions"
    return OpenQuestion("geometry", words, f"--geometry {','.join(known)},…")


def ignored_question(left: Sequence[str], arrays: Mapping[str, Array]) -> OpenQuestion:
    names = [
        f"'{plain_text(name, 60)}'"
        + (f" ({left_over_in_words(name, arrays)})" if name in arrays else " (outside the network)")
        for name in left[:_NAMED]
    ]
    more = len(left) - len(names)
    words = in_list([*names, f"{more:,} more"] if more else names)
    option = _ignore_option("--ignore", left[:_NAMED], bool(more))
    if any(is_of_layer(name) for name in left):  # ignoring it would change the network
        option = ""
    return OpenQuestion("ignored", f"what {words} {'does' if len(left) == 1 else 'do'}", option)


def _ignore_option(flag: str, names: Sequence[str], more: bool) -> str:
    """Return an option with these tensor names; '' if they cannot be typed safely."""
    if any("," in name or plain_text(name, 80) != name for name in names):
        return ""
    return f"{flag} {shlex.quote(','.join(names))}{',…' if more else ''}"


def is_of_layer(name: str) -> bool:
    """Return whether a tensor that belongs to no layer is named like a layer's."""
    return name.rpartition(".")[2] in ("weight", "bias")


def order_question(sequence: FileSequence) -> OpenQuestion:
    names = [layer.tensors["weight"] for layer in sequence.weighted_layers]
    option = _ignore_option("--order", names[:_ORDERED], len(names) > _ORDERED)
    return OpenQuestion("order", "the order of its layers, as several orders fit", option)


def activation_question(named: Sequence[str] = ()) -> OpenQuestion:
    """Ask for the activation; `named`: activations that the file mentions without a position."""
    words = "the activation after each of its layers, if they are a plain chain"
    if named:
        words += f" (the file mentions {in_list(named)}, but not where)"
    option = named[0] if named else "relu"
    return OpenQuestion("activation", words, f"--activation {option}")


def stated_sequence(
    file: str, sequence: FileSequence, reading: FileReading, children: Children
) -> tuple[tuple[StatedLayer, ...], tuple[str, ...]]:
    """Return the layers of a file as the user specifies them, and remarks in sentences.

    Raises:
        UserError: The file contradicts the specification.
    """
    geometry = parse_geometry(reading.geometry) if reading.geometry else Geometry((), places=False)
    _check_of_norms(file, sequence, reading, geometry)
    segments = _split_segments(file, sequence)
    words = _layer_words(file, segments, geometry)
    layers = list(_layers_in_front(file, sequence, geometry, reading, children))
    kinds = [segment.layer.kind for segment in segments]
    for index, (segment, layer_words) in enumerate(zip(segments, words, strict=True)):
        flattens = kinds[index] == "Conv2d" and kinds[index + 1 : index + 2] == ["Linear"]
        weighted = _weighted_layer(segment.layer, layer_words)
        _check_stated(file, weighted, children)
        behind = _layers_behind(file, segment, layer_words, geometry.places, reading, flattens)
        norms = [
            _norm_layer(segment.norm, weighted.kind == "Conv2d", reading, children)
            if layer.kind == "BatchNorm" and segment.norm is not None
            else layer
            for layer in behind
        ]
        layers += [weighted, *norms]
    unnumbered = all(gap is None for gap in sequence.gaps)
    pairs = [
        f"'{plain_text(segment.norm.name, 60)}' after '{plain_text(segment.layer.name, 60)}'"
        for segment in segments
        if segment.norm is not None and unnumbered and not geometry.places
    ]
    more = f" and {len(pairs) - _NAMED} more" if len(pairs) > _NAMED else ""
    remark = f"BatchNorms are placed by name: {', '.join(pairs[:_NAMED])}{more}."
    return tuple(layers), (remark,) if pairs else ()


def _check_of_norms(
    file: str, sequence: FileSequence, reading: FileReading, geometry: Geometry
) -> None:
    """Refuse BatchNorm options that have no effect."""
    if geometry.places and reading.batchnorm:
        beside = " has no effect if " + Where("--geometry") + " contains act or bn."
        raise UserError(Where("--batchnorm") + beside, kind="not-supported")
    norms = any(layer.kind == "BatchNorm" for layer in sequence.layers)
    if not norms and (reading.batchnorm or reading.norm_eps is not None):
        option = "--batchnorm" if reading.batchnorm else "--norm-eps"
        raise UserError(
            Where(option) + f" has no effect: {file} has no BatchNorm.", kind="not-supported"
        )


def _layers_in_front(
    file: str,
    sequence: FileSequence,
    geometry: Geometry,
    reading: FileReading,
    children: Children,
) -> Iterator[StatedLayer]:
    """Yield the layers before the first layer with weights."""
    first, weighted = sequence.layers[0], sequence.weighted_layers[0]
    norm = first if first.kind == "BatchNorm" else None
    tokens = list(geometry.front)
    if norm is not None and not geometry.places:
        tokens.append("bn")
    if tokens.count("bn") != (norm is not None):
        words = "has no bn" if norm is not None else "has bn"
        file_has = "a BatchNorm" if norm is not None else "none"
        raise UserError(
            Where("--geometry")
            + f" {words} before the first layer, but {file} has {file_has} there.",
            kind="bad-words",
        )
    for number, token in enumerate(tokens):
        name = "in front" + (f" ({number + 1})" if number else "")
        if isinstance(token, StatedLayer):
            yield StatedLayer(name, token.kind, token.numbers)
        elif token == "bn" and norm is not None:
            maps = weighted.kind == "Conv2d" or any(isinstance(t, StatedLayer) for t in tokens)
            yield _norm_layer(norm, maps, reading, children)
        elif token == "act":
            kind, numbers = activation_class(reading.activation)
            yield StatedLayer(name, kind, {**numbers})
    if weighted.kind == "Linear" and any(isinstance(token, StatedLayer) for token in tokens):
        yield _FLATTEN


def _dense_geometry(segments: Sequence[_Segment]) -> Geometry:
    return Geometry(tuple(LayerWords(None) for _ in segments), places=False)


def _room_question(
    file: str,
    sequence: FileSequence,
    segments: Sequence[_Segment],
    geometry: Geometry,
) -> OpenQuestion | None:
    """Ask for the layers that the numbering leaves room for; None if no room is left."""
    pools = any(isinstance(token, StatedLayer) for token in geometry.front)
    flattened = int(pools and segments[0].layer.kind == "Linear")
    front = sequence.front - sum(token != "bn" for token in geometry.front) - flattened
    all_words = _layer_words(file, segments, geometry)
    words, behind = ["skip"] * front, []
    words += [_token_word(token) for token in geometry.front]
    kinds = [segment.layer.kind for segment in segments]
    for index, (segment, layer_words) in enumerate(zip(segments, all_words, strict=True)):
        tokens = list(layer_words.behind)
        acts = (
            0 if geometry.places else int(not segment.is_last and segment.silent_layer_count != 0)
        )
        flattens = kinds[index] == "Conv2d" and kinds[index + 1 : index + 2] == ["Linear"]
        used_count = sum(token != "bn" for token in tokens) + acts + flattens
        more = (
            0
            if segment.silent_layer_count is None
            else max(segment.silent_layer_count - used_count, 0)
        )
        behind += [f"'{plain_text(segment.layer.name, 60)}'"] * bool(more)
        layer = (
            "dense"
            if layer_words.convolution is None
            else convolution_word(layer_words.convolution)
        )
        words += [layer, *_with_skips(segment, [_token_word(token) for token in tokens], more)]
    if front <= 0 and not behind:
        return None
    where = (["before the first layer"] if front > 0 else []) + (
        [f"after {in_list(behind[:_NAMED])}{' and others' if len(behind) > _NAMED else ''}"]
        if behind
        else []
    )
    text = f"which layers fill the gaps in the numbering {in_list(where)}"
    return OpenQuestion("geometry", text, f"--geometry {','.join(words)}")


def _with_skips(segment: _Segment, words: list[str], more: int) -> list[str]:
    """Return the words after a layer with this many skips, some of them before its BatchNorm."""
    first = 0
    if "bn" in words and segment.to_norm is not None:
        index = words.index("bn")
        first = min(max(segment.to_norm - index, 0), more)
        words = [*words[:index], *["skip"] * first, *words[index:]]
    return [*words, *["skip"] * (more - first)]


def fill_room(file: str, sequence: FileSequence, reading: FileReading) -> FileReading:
    """Return a reading in which every unnamed layer in the numbering gaps does nothing.

    Raises:
        UserError: The file contradicts the reading.
    """
    segments = _split_segments(file, sequence)
    geometry = parse_geometry(reading.geometry) if reading.geometry else _dense_geometry(segments)
    room = _room_question(file, sequence, segments, geometry)
    return reading if room is None else replace(reading, geometry=room.option.split(" ")[1])


def _token_word(token: StatedLayer | str) -> str:
    return token if isinstance(token, str) else pooling_word(token)


def _split_segments(file: str, sequence: FileSequence) -> list[_Segment]:
    """Return each weighted layer with the layers after it."""
    layers, gaps = sequence.layers, sequence.gaps
    indices = [index for index, layer in enumerate(layers) if layer.kind != "BatchNorm"]
    if indices[0] > 1:
        raise UnnamedNetwork(
            f"{file} has two BatchNorms before its first layer.", kind="not-supported"
        )
    segments = []
    for start, end in pairwise([*indices, len(layers)]):
        norms, last = layers[start + 1 : end], end == len(layers)
        if len(norms) > 1:
            raise UnnamedNetwork(
                f"{file} has two BatchNorms, '{plain_text(norms[0].name, 60)}' and "
                f"'{plain_text(norms[1].name, 60)}', after one layer.",
                kind="not-supported",
            )
        norm = norms[0] if norms else None
        if norm is not None and norm.shape[0] != layers[start].shape[0]:
            raise UnnamedNetwork(
                f"{file} has the BatchNorm '{plain_text(norm.name, 60)}' of "
                f"{norm.shape[0]:,} units "
                f"after '{plain_text(layers[start].name, 60)}', which has "
                f"{layers[start].shape[0]:,}.",
                kind="not-supported",
            )
        to_next = None if last else gaps[end - 1]
        to_norm = gaps[start] if norm is not None else None
        segments.append(_Segment(layers[start], norm, to_norm, to_next, last))
    return segments


def _layer_words(file: str, segments: Sequence[_Segment], geometry: Geometry) -> list[LayerWords]:
    """Return the words of each layer in --geometry; none for dense layers that it leaves out."""
    all_words = list(geometry.layers)
    convolutions = [segment for segment in segments if segment.layer.kind == "Conv2d"]
    whole = geometry.places or any(words.convolution is None for words in all_words)
    whole = bool(all_words) and (whole or not convolutions)
    wanted = segments if whole else convolutions
    if len(all_words) != len(wanted):
        what = ("layer" if whole else "convolution") + "s" * (len(all_words) != 1)
        raise UserError(
            Where("--geometry")
            + f" has words for {len(all_words)} {what}, but {file} has {len(wanted)}, and each "
            "needs one (s1 for a convolution without stride or padding).",
            kind="bad-words",
        )
    for segment, words in zip(wanted, all_words, strict=True):
        if (segment.layer.kind == "Conv2d") != (words.convolution is not None):
            kinds = {"Conv2d": "a convolution", "Linear": "a dense layer"}
            raise UserError(
                Where("--geometry")
                + f" has the wrong kind of layer for '{plain_text(segment.layer.name, 60)}', "
                f"which is {kinds[segment.layer.kind]}.",
                kind="bad-words",
            )
    rest = segments[len(convolutions) :] if not whole else []
    return [*all_words, *(LayerWords(None) for _ in rest)]


def _layers_behind(
    file: str,
    segment: _Segment,
    said: LayerWords,
    places: bool,
    reading: FileReading,
    flattens: bool,
) -> Iterator[StatedLayer]:
    """Yield the layers after a weighted layer, in order."""
    name = plain_text(segment.layer.name, 60)
    tokens = list(said.behind) if places else _usual_layers(file, segment, said, reading)
    norms = tokens.count("bn")
    if norms != (segment.norm is not None):
        has = "a BatchNorm" if segment.norm is not None else "none"
        raise UserError(
            Where("--geometry") + f" has {norms} bn after '{name}' of {file}, which has {has}.",
            kind="bad-words",
        )
    if segment.norm is not None:
        _check_norm_place(file, segment, tokens)
    silent = len(tokens) - norms + flattens
    if segment.silent_layer_count is not None and silent > segment.silent_layer_count:
        raise UserError(
            f"The numbering of {file} has room for {segment.silent_layer_count} layers "
            f"without parameters after '{name}', but {silent} are specified.",
            kind="bad-words",
        )
    for number, token in enumerate(tokens):
        called = f"behind {name}" + (f" ({number + 1})" if number else "")
        if isinstance(token, StatedLayer):
            yield StatedLayer(called, token.kind, token.numbers)
        elif token == "bn" and segment.norm is not None:
            yield StatedLayer(segment.norm.name, "BatchNorm")  # its numbers follow
        elif token == "act":
            kind, numbers = activation_class(reading.activation)
            yield StatedLayer(called, kind, {**numbers})
    if flattens:
        yield _FLATTEN


def _usual_layers(
    file: str, segment: _Segment, said: LayerWords, reading: FileReading
) -> list[StatedLayer | str]:
    """Return the default order: activation, BatchNorm where numbers or user put it, pooling."""
    pooling = list(said.behind)
    acts: list[StatedLayer | str] = []
    if not segment.is_last and segment.silent_layer_count != 0:
        acts.append("act")
    if segment.norm is None:
        return [*acts, *pooling]
    numbered = segment.norm_place
    if segment.is_last or not acts:
        return ["bn", *acts, *pooling]
    if numbered and reading.batchnorm and reading.batchnorm != numbered:
        raise UserError(
            f"The numbering of {file} puts the BatchNorm '{plain_text(segment.norm.name, 60)}' "
            f"{numbered} the activation, not {reading.batchnorm} it.",
            kind="contradiction",
        )
    if (numbered or reading.batchnorm) == "before":
        return ["bn", *acts, *pooling]
    silent = [*acts, *pooling]
    pools = any(isinstance(token, StatedLayer) for token in pooling)
    if not pools and segment.to_norm is not None:
        return [*silent[: segment.to_norm], "bn", *silent[segment.to_norm :]]
    if pools and segment.to_norm is not None and segment.to_norm > 1:
        raise UserError(
            f"{file} has room for pooling on both sides of the BatchNorm "
            f"'{plain_text(segment.norm.name, 60)}': give the full order in "
            + Where("--geometry")
            + ", with act and bn (p1,act,max2,bn,dense).",
            kind="not-supported",
        )
    return [*acts, "bn", *pooling]


def _check_norm_place(file: str, segment: _Segment, tokens: Sequence[StatedLayer | str]) -> None:
    assert segment.norm is not None
    index = tokens.index("bn")
    behind = len(tokens) - index - 1
    name = plain_text(segment.norm.name, 60)
    if segment.to_norm is not None and index > segment.to_norm:
        raise UserError(
            f"The numbering of {file} has room for {segment.to_norm} layers between "
            f"'{plain_text(segment.layer.name, 60)}' and its BatchNorm '{name}', but {index} are "
            "specified.",
            kind="bad-words",
        )
    if segment.to_next is not None and behind > segment.to_next:
        raise UserError(
            f"The numbering of {file} has room for {segment.to_next} layers after the "
            f"BatchNorm '{name}', but {behind} are specified.",
            kind="bad-words",
        )


def _weighted_layer(layer: FileLayer, said: LayerWords) -> StatedLayer:
    if layer.kind == "Linear":
        outputs, inputs = layer.shape
        return StatedLayer(layer.name, "Linear", {"in_features": inputs, "out_features": outputs})
    numbers = said.convolution or ConvolutionNumbers()
    outputs, inputs, high, wide = layer.shape
    return StatedLayer(
        layer.name,
        "Conv2d",
        {
            "in_channels": inputs * numbers.groups,
            "out_channels": outputs,
            "kernel_size": (high, wide),
            "stride": numbers.stride,
            "padding": numbers.padding,
            "dilation": numbers.dilation,
            "groups": numbers.groups,
            "padding_mode": numbers.padding_mode,
        },
    )


def _norm_layer(
    norm: FileLayer, maps: bool, reading: FileReading, children: Children
) -> StatedLayer:
    stated = _stated_eps(norm, children)
    if stated is not None and reading.norm_eps not in (None, stated):
        raise UserError(
            f"The file states ε = {stated:g} for '{plain_text(norm.name, 60)}'.",
            kind="contradiction",
        )
    eps = reading.norm_eps if stated is None else stated
    assert eps is not None  # asked before
    kind = "BatchNorm2d" if maps else "BatchNorm1d"
    return StatedLayer(norm.name, kind, {"num_features": norm.shape[0], "eps": eps})


def _stated_eps(norm: FileLayer, children: Children) -> float | None:
    child = children.get(norm.name)
    eps = None if child is None else child.numbers.get("eps")
    return eps if isinstance(eps, float) else None


def stated_convolution(layer: FileLayer, children: Children) -> ConvolutionNumbers | None:
    """Return a convolution's stride, padding and so on, if a whole saved module states them."""
    child = children.get(layer.name)
    if child is None or child.kind != "Conv2d":
        return None
    n = child.numbers
    padding = (0, 0) if n["padding"] == "valid" else n["padding"]
    return ConvolutionNumbers(
        *(n["stride"], padding, n["dilation"], n["groups"]),  # type: ignore[arg-type]
        padding_mode=str(n["padding_mode"]),
    )


def _check_stated(file: str, layer: StatedLayer, children: Children) -> None:
    """Refuse a geometry that contradicts a whole saved module."""
    child = children.get(layer.name)
    if child is None or child.kind != layer.kind:
        return
    unpadded = child.numbers.get("padding") == "valid"
    stated = child.numbers | ({"padding": (0, 0)} if unpadded else {})
    if stated == layer.numbers:
        return
    raise UserError(
        f"{file} states that '{plain_text(layer.name, 60)}' is {layer_in_words(child)}, but "
        + Where("--geometry")
        + f" has {layer_in_words(layer)}.",
        kind="contradiction",
    )
