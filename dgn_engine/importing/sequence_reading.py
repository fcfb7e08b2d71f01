"""What a state dict leaves open of its network, and the layers that it has once that is said."""

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
from dgn_engine.text.printable import plain

_NAMED = 3  # tensors in a sentence, at most
_ORDERED = 8  # weights in an option, at most
BATCHNORM_QUESTION = OpenQuestion(
    "batchnorm",
    "whether its BatchNorm stands before or after the activation",
    "--batchnorm before",
)
NORM_EPS_QUESTION = OpenQuestion("norm_eps", "the ε of its BatchNorm", "--norm-eps 1e-5")
_FLATTEN = StatedLayer("flatten", "Flatten", {"start_dim": 1, "end_dim": -1})


@dataclass(frozen=True)
class _Segment:
    """A layer, its BatchNorm or None, and the rooms between the two and up to the next layer; None
    where numbers do not say."""

    layer: FileLayer
    norm: FileLayer | None
    to_norm: int | None
    to_next: int | None
    is_last: bool

    @property
    def room(self) -> int | None:
        if self.norm is None:
            return self.to_next
        if self.to_norm is None or self.to_next is None:
            return None
        return self.to_norm + self.to_next

    @property
    def norm_place(self) -> str:
        """Whether the BatchNorm stands before or after the activation, by the numbers; or ''."""
        if self.norm is None:
            return ""
        if self.to_norm == 0:
            return "before"
        return "after" if self.to_norm is not None and self.to_next == 0 else ""


Children = Mapping[str, StatedLayer]  # by their names: what a whole saved module says of them


def open_questions(
    file: str,
    sequence: FileSequence,
    arrays: dict[str, Array],
    reading: FileReading,
    children: Children,
    named: Sequence[str] = (),
) -> list[OpenQuestion]:
    """Return what the file leaves open of its network that was not said; raises `UserError`."""
    geometry = parse_geometry(reading.geometry) if reading.geometry else None
    found: list[OpenQuestion] = []
    if sequence.left_over:
        found.append(ignored_question(sequence.left_over, arrays))
    if sequence.guessed_order:
        found.append(order_question(sequence))
    if not reading.activation:
        found.append(activation_question(named))
    if sequence.convolutions and geometry is None:
        found.append(geometry_question(sequence, children))
    if sequence.unplaced:
        words = "behind which layers its BatchNorms stand"
        example = "p1,bn,act,…,dense" if sequence.convolutions else "dense,bn,act,…,dense"
        found = [question for question in found if question.about != "geometry"]
        found.append(OpenQuestion("geometry", words, f"--geometry {example}"))
        if reading.norm_eps is None:
            found.append(NORM_EPS_QUESTION)
        return found
    segments = _segments(file, sequence)
    if geometry is not None or not sequence.convolutions:
        room = _room_question(file, sequence, segments, geometry or _dense(segments))
        found += [] if room is None else [room]
    unsure = any(s.norm is not None and not s.norm_place and not s.is_last for s in segments)
    if unsure and not reading.batchnorm and not (geometry is not None and geometry.places):
        found.append(BATCHNORM_QUESTION)
    if reading.norm_eps is None and any(
        layer.kind == "BatchNorm" and _stated_eps(layer, children) is None
        for layer in sequence.layers
    ):
        found.append(NORM_EPS_QUESTION)
    return found


def geometry_question(sequence: FileSequence, children: Children) -> OpenQuestion:
    stated = [
        stated_convolution(layer, children) for layer in sequence.weighted if layer.kind == "Conv2d"
    ]
    known = [convolution_word(numbers) for numbers in stated if numbers is not None]
    if len(known) < len(stated):
        words = "the strides, padding and pooling of its convolutions"
        return OpenQuestion("geometry", words, "--geometry s2p1,max2,…")
    words = "what pools between its convolutions"
    return OpenQuestion("geometry", words, f"--geometry {','.join(known)},…")


def ignored_question(left: Sequence[str], arrays: Mapping[str, Array]) -> OpenQuestion:
    names = [
        f"'{plain(name, 60)}'"
        + (f" ({left_over_in_words(name, arrays)})" if name in arrays else " (beside the network)")
        for name in left[:_NAMED]
    ]
    more = len(left) - len(names)
    words = in_list([*names, f"{more:,} more"] if more else names)
    option = _option("--ignore", left[:_NAMED], bool(more))
    if any(is_of_layer(name) for name in left):  # without it the network would be another
        option = ""
    return OpenQuestion("ignored", f"what {words} {'does' if len(left) == 1 else 'do'}", option)


def _option(flag: str, names: Sequence[str], more: bool) -> str:
    """An option with these names of a file, which may be a stranger's; '' where they cannot be
    typed."""
    if any("," in name or plain(name, 80) != name for name in names):
        return ""
    return f"{flag} {shlex.quote(','.join(names))}{',…' if more else ''}"


def is_of_layer(name: str) -> bool:
    """Whether a tensor that is of no layer here is called as those of layers are."""
    return name.rpartition(".")[2] in ("weight", "bias")


def order_question(sequence: FileSequence) -> OpenQuestion:
    names = [layer.tensors["weight"] for layer in sequence.weighted]
    option = _option("--order", names[:_ORDERED], len(names) > _ORDERED)
    return OpenQuestion("order", "the order of its layers, several of which chain", option)


def activation_question(named: Sequence[str] = ()) -> OpenQuestion:
    """`named`: what the file itself names, without its place."""
    words = "what stands behind each of its layers, where they are a plain chain"
    if named:
        words += f" (the file names {in_list(named)}, not where)"
    option = named[0] if named else "relu"
    return OpenQuestion("activation", words, f"--activation {option}")


def layers_as_said(
    file: str, sequence: FileSequence, reading: FileReading, children: Children
) -> tuple[tuple[StatedLayer, ...], tuple[str, ...]]:
    """Return the layers of a file as the user says that they are, and remarks, sentences.

    Raises `UserError` where the file contradicts what was said.
    """
    geometry = parse_geometry(reading.geometry) if reading.geometry else Geometry((), places=False)
    _check_of_norms(file, sequence, reading, geometry)
    segments = _segments(file, sequence)
    words = _words(file, segments, geometry)
    layers = list(_in_front(file, sequence, geometry, reading, children))
    kinds = [segment.layer.kind for segment in segments]
    for place, (segment, said) in enumerate(zip(segments, words, strict=True)):
        flattens = kinds[place] == "Conv2d" and kinds[place + 1 : place + 2] == ["Linear"]
        weighted = _weighted(segment.layer, said)
        _check_stated(file, weighted, children)
        behind = _behind(file, segment, said, geometry.places, reading, flattens)
        norms = [
            _norm(segment.norm, weighted.kind == "Conv2d", reading, children)
            if layer.kind == "BatchNorm" and segment.norm is not None
            else layer
            for layer in behind
        ]
        layers += [weighted, *norms]
    unnumbered = all(gap is None for gap in sequence.gaps)
    pairs = [
        f"'{plain(segment.norm.name, 60)}' behind '{plain(segment.layer.name, 60)}'"
        for segment in segments
        if segment.norm is not None and unnumbered and not geometry.places
    ]
    more = f" and {len(pairs) - _NAMED} more" if len(pairs) > _NAMED else ""
    remark = f"Its BatchNorms stand where their names say: {', '.join(pairs[:_NAMED])}{more}."
    return tuple(layers), (remark,) if pairs else ()


def _check_of_norms(
    file: str, sequence: FileSequence, reading: FileReading, geometry: Geometry
) -> None:
    """Refuse what is said of BatchNorms and has no effect."""
    if geometry.places and reading.batchnorm:
        beside = " has no effect beside " + Where("--geometry") + " with act or bn in it."
        raise UserError(Where("--batchnorm") + beside, kind="not-supported")
    norms = any(layer.kind == "BatchNorm" for layer in sequence.layers)
    if not norms and (reading.batchnorm or reading.norm_eps is not None):
        option = "--batchnorm" if reading.batchnorm else "--norm-eps"
        raise UserError(
            Where(option) + f" has no effect: {file} holds no BatchNorm.", kind="not-supported"
        )


def _in_front(
    file: str,
    sequence: FileSequence,
    geometry: Geometry,
    reading: FileReading,
    children: Children,
) -> Iterator[StatedLayer]:
    """What stands in front of the first layer with weights."""
    first, weighted = sequence.layers[0], sequence.weighted[0]
    norm = first if first.kind == "BatchNorm" else None
    tokens = list(geometry.front)
    if norm is not None and not geometry.places:
        tokens.append("bn")
    if tokens.count("bn") != (norm is not None):
        words = "has no bn" if norm is not None else "has bn"
        file_has = "a BatchNorm" if norm is not None else "none"
        raise UserError(
            Where("--geometry")
            + f" {words} in front of the first layer, and {file} has {file_has} there.",
            kind="bad-words",
        )
    for number, token in enumerate(tokens):
        name = "in front" + (f" ({number + 1})" if number else "")
        if isinstance(token, StatedLayer):
            yield StatedLayer(name, token.kind, token.numbers)
        elif token == "bn" and norm is not None:
            maps = weighted.kind == "Conv2d" or any(isinstance(t, StatedLayer) for t in tokens)
            yield _norm(norm, maps, reading, children)
        elif token == "act":
            kind, numbers = activation_class(reading.activation)
            yield StatedLayer(name, kind, {**numbers})
    if weighted.kind == "Linear" and any(isinstance(token, StatedLayer) for token in tokens):
        yield _FLATTEN


def _dense(segments: Sequence[_Segment]) -> Geometry:
    return Geometry(tuple(LayerWords(None) for _ in segments), places=False)


def _room_question(
    file: str,
    sequence: FileSequence,
    segments: Sequence[_Segment],
    geometry: Geometry,
) -> OpenQuestion | None:
    """What stands where the numbers have room for more layers than were said; None where there is
    no such room."""
    pools = any(isinstance(token, StatedLayer) for token in geometry.front)
    flattened = int(pools and segments[0].layer.kind == "Linear")
    front = sequence.front - sum(token != "bn" for token in geometry.front) - flattened
    said = _words(file, segments, geometry)
    words, behind = ["skip"] * front, []
    words += [_word(token) for token in geometry.front]
    kinds = [segment.layer.kind for segment in segments]
    for place, (segment, each) in enumerate(zip(segments, said, strict=True)):
        tokens = list(each.behind)
        acts = 0 if geometry.places else int(not segment.is_last and segment.room != 0)
        flattens = kinds[place] == "Conv2d" and kinds[place + 1 : place + 2] == ["Linear"]
        taken = sum(token != "bn" for token in tokens) + acts + flattens
        more = 0 if segment.room is None else max(segment.room - taken, 0)
        behind += [f"'{plain(segment.layer.name, 60)}'"] * bool(more)
        layer = "dense" if each.convolution is None else convolution_word(each.convolution)
        words += [layer, *_with_skips(segment, [_word(token) for token in tokens], more)]
    if front <= 0 and not behind:
        return None
    where = (["in front of the first layer"] if front > 0 else []) + (
        [f"behind {in_list(behind[:_NAMED])}{' and others' if len(behind) > _NAMED else ''}"]
        if behind
        else []
    )
    text = f"what else stands {in_list(where)}, where numbers are left"
    return OpenQuestion("geometry", text, f"--geometry {','.join(words)}")


def _with_skips(segment: _Segment, words: list[str], more: int) -> list[str]:
    """The words behind a layer with so many skips, some of them before its BatchNorm."""
    first = 0
    if "bn" in words and segment.to_norm is not None:
        place = words.index("bn")
        first = min(max(segment.to_norm - place, 0), more)
        words = [*words[:place], *["skip"] * first, *words[place:]]
    return [*words, *["skip"] * (more - first)]


def fill_room(file: str, sequence: FileSequence, reading: FileReading) -> FileReading:
    """Return a reading in which layers that numbers have room for, and nobody named, do nothing;
    raises `UserError` where the file contradicts it."""
    segments = _segments(file, sequence)
    geometry = parse_geometry(reading.geometry) if reading.geometry else _dense(segments)
    room = _room_question(file, sequence, segments, geometry)
    return reading if room is None else replace(reading, geometry=room.option.split(" ")[1])


def _word(token: StatedLayer | str) -> str:
    return token if isinstance(token, str) else pooling_word(token)


def _segments(file: str, sequence: FileSequence) -> list[_Segment]:
    """Each weighted layer with what stands behind it."""
    layers, gaps = sequence.layers, sequence.gaps
    places = [place for place, layer in enumerate(layers) if layer.kind != "BatchNorm"]
    if places[0] > 1:
        raise UnnamedNetwork(
            f"{file} holds two BatchNorms before its first layer.", kind="not-supported"
        )
    found = []
    for start, end in pairwise([*places, len(layers)]):
        norms, last = layers[start + 1 : end], end == len(layers)
        if len(norms) > 1:
            raise UnnamedNetwork(
                f"{file} holds two BatchNorms, '{plain(norms[0].name, 60)}' and "
                f"'{plain(norms[1].name, 60)}', behind one layer.",
                kind="not-supported",
            )
        norm = norms[0] if norms else None
        if norm is not None and norm.shape[0] != layers[start].shape[0]:
            raise UnnamedNetwork(
                f"{file} holds the BatchNorm '{plain(norm.name, 60)}' of {norm.shape[0]:,} units "
                f"behind '{plain(layers[start].name, 60)}', which has {layers[start].shape[0]:,}.",
                kind="not-supported",
            )
        to_next = None if last else gaps[end - 1]
        to_norm = gaps[start] if norm is not None else None
        found.append(_Segment(layers[start], norm, to_norm, to_next, last))
    return found


def _words(file: str, segments: Sequence[_Segment], geometry: Geometry) -> list[LayerWords]:
    """The words of each layer: those of --geometry, none for dense layers that it leaves out."""
    said = list(geometry.layers)
    convolutions = [segment for segment in segments if segment.layer.kind == "Conv2d"]
    whole = geometry.places or any(words.convolution is None for words in said)
    whole = bool(said) and (whole or not convolutions)
    wanted = segments if whole else convolutions
    if len(said) != len(wanted):
        what = ("layer" if whole else "convolution") + "s" * (len(said) != 1)
        raise UserError(
            Where("--geometry")
            + f" has words for {len(said)} {what}; {file} has {len(wanted)}, and each "
            "needs one (s1 for a convolution without stride and padding).",
            kind="bad-words",
        )
    for segment, words in zip(wanted, said, strict=True):
        if (segment.layer.kind == "Conv2d") != (words.convolution is not None):
            kinds = {"Conv2d": "a convolution", "Linear": "a dense layer"}
            raise UserError(
                Where("--geometry")
                + f" has another kind of layer for '{plain(segment.layer.name, 60)}', "
                f"which is {kinds[segment.layer.kind]}.",
                kind="bad-words",
            )
    rest = segments[len(convolutions) :] if not whole else []
    return [*said, *(LayerWords(None) for _ in rest)]


def _behind(
    file: str,
    segment: _Segment,
    said: LayerWords,
    places: bool,
    reading: FileReading,
    flattens: bool,
) -> Iterator[StatedLayer]:
    """What stands behind a layer, in its order."""
    name = plain(segment.layer.name, 60)
    tokens = list(said.behind) if places else _usual(file, segment, said, reading)
    norms = tokens.count("bn")
    if norms != (segment.norm is not None):
        has = "a BatchNorm" if segment.norm is not None else "none"
        raise UserError(
            Where("--geometry") + f" has {norms} bn behind '{name}' of {file}, which has {has}.",
            kind="bad-words",
        )
    if segment.norm is not None:
        _check_norm_place(file, segment, tokens)
    silent = len(tokens) - norms + flattens
    if segment.room is not None and silent > segment.room:
        raise UserError(
            f"{file} has numbers for {segment.room} layers without parameters behind '{name}', and "
            f"{silent} are said to stand there.",
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


def _usual(
    file: str, segment: _Segment, said: LayerWords, reading: FileReading
) -> list[StatedLayer | str]:
    """The activation right behind the layer, its BatchNorm where numbers or the user have it, then
    the pooling."""
    pooling = list(said.behind)
    acts: list[StatedLayer | str] = []
    if not segment.is_last and segment.room != 0:
        acts.append("act")
    if segment.norm is None:
        return [*acts, *pooling]
    numbered = segment.norm_place
    if segment.is_last or not acts:
        return ["bn", *acts, *pooling]
    if numbered and reading.batchnorm and reading.batchnorm != numbered:
        raise UserError(
            f"The numbers of {file} have the BatchNorm '{plain(segment.norm.name, 60)}' {numbered} "
            f"the activation, not {reading.batchnorm} it.",
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
            f"'{plain(segment.norm.name, 60)}': say in "
            + Where("--geometry")
            + " where everything stands, with act and bn (p1,act,max2,bn,dense).",
            kind="not-supported",
        )
    return [*acts, "bn", *pooling]


def _check_norm_place(file: str, segment: _Segment, tokens: Sequence[StatedLayer | str]) -> None:
    assert segment.norm is not None
    place = tokens.index("bn")
    behind = len(tokens) - place - 1
    name = plain(segment.norm.name, 60)
    if segment.to_norm is not None and place > segment.to_norm:
        raise UserError(
            f"{file} has numbers for {segment.to_norm} layers between '"
            f"{plain(segment.layer.name, 60)}' and its BatchNorm '{name}', and {place} are said to "
            "stand there.",
            kind="bad-words",
        )
    if segment.to_next is not None and behind > segment.to_next:
        raise UserError(
            f"{file} has numbers for {segment.to_next} layers behind the BatchNorm '{name}', and "
            f"{behind} are said to stand there.",
            kind="bad-words",
        )


def _weighted(layer: FileLayer, said: LayerWords) -> StatedLayer:
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


def _norm(norm: FileLayer, maps: bool, reading: FileReading, children: Children) -> StatedLayer:
    stated = _stated_eps(norm, children)
    if stated is not None and reading.norm_eps not in (None, stated):
        raise UserError(
            f"The file says that ε of '{plain(norm.name, 60)}' is {stated:g}.", kind="contradiction"
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
    """Return how a convolution goes where a whole saved module says it."""
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
    """Refuse a geometry that a whole saved module contradicts."""
    child = children.get(layer.name)
    if child is None or child.kind != layer.kind:
        return
    unpadded = child.numbers.get("padding") == "valid"
    stated = child.numbers | ({"padding": (0, 0)} if unpadded else {})
    if stated == layer.numbers:
        return
    raise UserError(
        f"{file} says that '{plain(layer.name, 60)}' is {layer_in_words(child)}; "
        + Where("--geometry")
        + f" has {layer_in_words(layer)}.",
        kind="contradiction",
    )
