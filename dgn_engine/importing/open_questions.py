"""What a file leaves open of its network: the questions, and the refusal that carries them."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Sequence

from dgn_engine.errors import Hint, UserError
from dgn_engine.importing.file_sequence import (
    considered,
    has_doubtful_order,
    sequence_in,
    stands_right_behind,
    unread_tensors,
)
from dgn_engine.importing.foreign_keys import Door, UnnamedNetwork
from dgn_engine.importing.geometry_words import pooling_word
from dgn_engine.importing.sequence_reading import (
    BATCHNORM_QUESTION,
    NORM_EPS_QUESTION,
    activation_question,
    ignored_question,
    open_questions,
    order_question,
)
from dgn_engine.importing.torchvision_nets import (
    known_network,
    left_over_in,
    resembles,
)
from dgn_engine.importing.ways_out import code_options, own_class
from dgn_engine.protocol.file_reading import (
    ACTIVATIONS,
    FileReading,
    OpenQuestion,
    activation_class,
    in_list,
)
from dgn_engine.storage.checkpoints.contents import CheckpointContents, StatedLayer
from dgn_engine.text.printable import plain

TORCHVISION = "torchvision"
RESNET = "resnet"
BY_OPTION = Hint(" (--model)")  # how a command lets code make the network; a window leaves it out


class OpenQuestions(UserError):  # noqa: N818 - a verdict about a file, as `UnreadableFile` is
    """A file leaves open what its network is, and the user has not said it.

    Attributes:
        questions: what is open.
    """

    def __init__(self, sentence: str, questions: Sequence[OpenQuestion]) -> None:
        super().__init__(sentence)
        self.questions = tuple(questions)


def questions_of(listing: CheckpointContents) -> list[OpenQuestion]:
    """Return what a file leaves open that was not said; raises `UserError` where it is no network
    that could be read by saying more."""
    reading = listing.reading
    arrays = considered(listing)
    family = resembles(arrays)
    said = family_named(reading)
    if said and family is None:
        raise UserError(
            f"{listing.file_name} does not have the names and shapes of a {said} network with "
            "weights in its shortcuts: say in --geometry a word for each of its convolutions, or "
            "let your own code make it (--model).",
            kind="not-supported",
        )
    if family and (family == "resnet" or reading.geometry == TORCHVISION):
        return _questions_of_family(listing)
    sequence, children = sequence_in(listing), children_of(listing)
    _check_children(listing)
    named = named_activations(listing)
    return open_questions(listing.file_name, sequence, listing.arrays, reading, children, named)


def named_activations(listing: CheckpointContents) -> tuple[str, ...]:
    """Return the activations that a file names, as `FileReading` has them: among the children of a
    whole saved module, or as text beside the tensors ('hyper_parameters.activation')."""
    names = {kind: name for name, (kind, _, _) in ACTIVATIONS.items()}
    found: list[str] = []
    for child in listing.children:
        if child.kind in names and child.kind != "Identity":
            number = child.numbers.get(ACTIVATIONS[names[child.kind]][1])
            named = names[child.kind] + ("" if number is None else f":{number!r}")
            if activation_class(named)[1] == child.numbers:  # not GELU's approximation, say
                found.append(named)
    for key, text in listing.said:
        word = key.rpartition(".")[2].lower()
        if word in _OF_ACTIVATION:
            with contextlib.suppress(UserError):
                found.append(FileReading(activation=text.rpartition(".")[2]).activation)
    return tuple(dict.fromkeys(found))


_OF_ACTIVATION = ("activation", "act", "act_fn", "activation_fn", "nonlinearity", "hidden_act")
_CONTAINERS = ("Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict")


def other_names(listing: CheckpointContents) -> tuple[str, ...]:
    """Return a sentence where a file names other activations or pooling than were said."""
    reading = listing.reading
    named = named_activations(listing)
    said = activation_class(reading.activation) if reading.activation else None
    known = [activation_class(name) for name in named]
    found = [] if said is None or said in known else list(named)
    words = reading.geometry.replace(" ", ",").split(",")
    pools = [
        pooling_word(child)
        for child in listing.children
        if "output_size" in child.numbers or child.kind in ("MaxPool2d", "AvgPool2d")
    ]
    found = [*found, *dict.fromkeys(word for word in pools if word not in words)]
    if not found:
        return ()
    return (f"The file names {in_list(found)}, which was not said of it.",)


def _check_children(listing: CheckpointContents) -> None:
    """Refuse a whole saved module with a child of torch that cannot be said."""
    start = "torch.nn.modules."
    for child in listing.children:
        kind = child.kind.rpartition(".")[2]
        if child.kind.startswith(start) and kind not in _CONTAINERS:
            raise UnnamedNetwork(
                f"{listing.file_name} holds '{plain(child.name, 60)}', a {plain(kind, 60)}, which "
                "is no layer that is read here.",
                kind="not-supported",
            )


def family_named(reading: FileReading) -> str:
    """Return the family of networks that --geometry names, 'torchvision' or 'resnet'; or ''."""
    first = reading.geometry.replace(" ", ",").partition(",")[0].lower()
    return first if first in (TORCHVISION, RESNET) else ""


def children_of(listing: CheckpointContents) -> dict[str, StatedLayer]:
    """Return the modules within a whole saved module that state their numbers, by their names."""
    return {
        child.name: child for child in listing.children if child.numbers or "." not in child.kind
    }


def questions_of_weights(listing: CheckpointContents) -> list[OpenQuestion]:
    """Return what a file leaves open where its weights are matched layer by layer with a network
    that is known: their order, and its BatchNorms."""
    reading, arrays = listing.reading, considered(listing)
    order = [order_question(sequence_in(listing))] if has_doubtful_order(listing) else []
    if not any(name.endswith(".running_mean") for name in arrays):
        return order
    found = order if reading.norm_eps is not None else [*order, NORM_EPS_QUESTION]
    if not reading.batchnorm and not stands_right_behind(listing):
        found.append(BATCHNORM_QUESTION)
    return found


def unsaid_of_weights(listing: CheckpointContents) -> str:
    """Return what is open of a file whose weights are matched layer by layer, a sentence; '' where
    nothing is."""
    norms = any(name.endswith(".running_mean") for name in considered(listing))
    if norms and listing.reading.batchnorm == "after":
        return "its BatchNorms stand after the activation, so they cannot be folded into a layer."
    try:
        questions = questions_of_weights(listing)
    except UnnamedNetwork as doubt:  # layers that are no chain have no order that could be said
        return str(doubt)
    if not questions:
        return ""
    words = in_list([question.words for question in questions])
    return (
        f"it does not say {words}. A file that says so is taken: a saved nn.Sequential "
        "(torch.save(module))."
    )


def check_alone(listing: CheckpointContents, door: Door) -> None:
    """Refuse a file that holds another network beside the one that was taken, by its name."""
    if listing.part or listing.others:
        return
    mark = " (dict)"
    names = [text.removesuffix(mark) for text in listing.ignored if text.endswith(mark)]
    beside = [n for n in names if _OF_NETWORK.search(n) and not _OF_TRAINING.search(n)]
    if beside:
        how = f" (--part {plain(shlex.quote(beside[0]), 60)}, or the key of the other)"
        raise UserError(
            f"{listing.file_name} holds '{plain(beside[0], 60)}' beside the network that would be "
            f"taken: say which of them{how if door == 'command' else ''}.",
            kind="not-supported",
        )


_OF_NETWORK = re.compile(r"(?i)state_?dict|model|net|weights|params|generator|discriminator|critic")
_OF_TRAINING = re.compile(r"(?i)opt|sched|scaler|rng|args|config|hparam|hyper|loss|metric|callback")


def check_answered(listing: CheckpointContents, door: Door) -> None:
    """Raise `OpenQuestions` where something is left open."""
    if questions := questions_of(listing):
        raise OpenQuestions(in_words(listing, questions, door), questions)


def in_words(listing: CheckpointContents, questions: Sequence[OpenQuestion], door: Door) -> str:
    """Return what is open and how it is said, as sentences."""
    file = listing.file_name
    words = "; ".join(question.words for question in questions)
    colon = ":" * (len(questions) > 1)
    own = own_class(listing)
    if own:
        opening = (
            f"{file} is a whole saved module of the class {plain(own, 80)}. Its code, which is not "
            f"run here, says{colon} {words}."
        )
    else:
        opening = f"{file} does not say{colon} {words}."
    if door == "window":
        return f"{opening} Say it above."
    code = f"let your own code make it ({code_options(listing)})."
    options = " ".join(filter(None, (question.option for question in questions)))
    if not all(question.option for question in questions):
        return f"{opening} {code[0].upper()}{code[1:]}"
    return f"{opening} Say it ({options}), or {code}"


def _questions_of_family(listing: CheckpointContents) -> list[OpenQuestion]:
    reading: FileReading = listing.reading
    arrays = considered(listing)
    found: list[OpenQuestion] = []
    if left := (*left_over_in(arrays), *unread_tensors(listing)):
        found.append(ignored_question(left, arrays))
    if reading.geometry == TORCHVISION:
        return found
    if not reading.activation:
        found.append(activation_question(named_activations(listing)))
    if not reading.geometry:
        exact = known_network({name: array.shape for name, array in arrays.items()})
        option = "--geometry resnet,s1p1"
        if "torchvision" in exact and "first convolution" not in exact:
            option = "--geometry torchvision"
            found = [question for question in found if question.about != "activation"]
        words = (
            "that its blocks are those of He et al. 2015 (stages of stride 1, 2, 2, 2, activations "
            "behind convolutions and additions), and how its first convolution goes"
        )
        found.append(OpenQuestion("geometry", words, option))
        if option.endswith(TORCHVISION):
            return found
    norms = any(name.endswith(".running_mean") for name in arrays)
    if norms and reading.norm_eps is None and stated_eps(listing) is None:
        found.append(NORM_EPS_QUESTION)
    return found


def stated_eps(listing: CheckpointContents) -> float | None:
    """Return the ε of all BatchNorms of a whole saved module; None where it states none. Raises
    `UserError` where they differ."""
    norms = [child for child in listing.children if child.kind.startswith("BatchNorm")]
    found = {child.numbers.get("eps") for child in norms}
    if len(found) > 1 or None in found:
        raise UserError(
            f"{listing.file_name} holds BatchNorms of several ε, or with hooks: let your own code "
            "make it" + BY_OPTION + ".",
            kind="not-supported",
        )
    eps = next(iter(found), None)
    return eps if isinstance(eps, float) else None
