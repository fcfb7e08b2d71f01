"""The questions a file leaves open about its network, and the refusal that carries them."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Sequence

from dgn_engine.errors import Hint, UserError
from dgn_engine.importing.file_sequence import (
    arrays_to_read,
    has_doubtful_order,
    norms_follow_layers,
    sequence_in,
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
    resembling_family,
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
from dgn_engine.text.printable import plain_text

TORCHVISION = "torchvision"
RESNET = "resnet"
BY_OPTION = Hint(" (--model)")  # how a command lets code build the network; the window omits it


class OpenQuestions(UserError):  # noqa: N818 - a verdict about a file, as `UnreadableFile` is
    """The file leaves open what its network is, and the user has not specified it.

    Attributes:
        questions: The open questions.
    """

    def __init__(self, sentence: str, questions: Sequence[OpenQuestion]) -> None:
        super().__init__(sentence)
        self.questions = tuple(questions)


def questions_of(listing: CheckpointContents) -> list[OpenQuestion]:
    """Return what a file leaves open and the user has not specified.

    Raises:
        UserError: No further information could make the file readable.
    """
    reading = listing.reading
    arrays = arrays_to_read(listing)
    family = resembling_family(arrays)
    said = family_named(reading)
    if said and family is None:
        raise UserError(
            f"{listing.file_name} does not have the names and shapes of a {said} network with "
            "weights in its shortcuts: give --geometry a word for each of its convolutions, or "
            "build it with your own code (--model).",
            kind="not-supported",
        )
    if family and (family == "resnet" or reading.geometry == TORCHVISION):
        return _questions_of_family(listing)
    sequence, children = sequence_in(listing), children_of(listing)
    _check_children(listing)
    named = named_activations(listing)
    return open_questions(listing.file_name, sequence, listing.arrays, reading, children, named)


def named_activations(listing: CheckpointContents) -> tuple[str, ...]:
    """Return the activations that a file mentions, in the notation of `FileReading`.

    They come from the children of a saved module, or from text stored beside the tensors
    ('hyper_parameters.activation').
    """
    names = {kind: name for name, (kind, _, _) in ACTIVATIONS.items()}
    activations: list[str] = []
    for child in listing.children:
        if child.kind in names and child.kind != "Identity":
            number = child.numbers.get(ACTIVATIONS[names[child.kind]][1])
            named = names[child.kind] + ("" if number is None else f":{number!r}")
            if activation_class(named)[1] == child.numbers:  # not GELU's approximation, say
                activations.append(named)
    for key, text in listing.said:
        word = key.rpartition(".")[2].lower()
        if word in _OF_ACTIVATION:
            with contextlib.suppress(UserError):
                activations.append(FileReading(activation=text.rpartition(".")[2]).activation)
    return tuple(dict.fromkeys(activations))


_OF_ACTIVATION = ("activation", "act", "act_fn", "activation_fn", "nonlinearity", "hidden_act")
_CONTAINERS = ("Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict")


def other_names(listing: CheckpointContents) -> tuple[str, ...]:
    """Return a sentence if a file mentions activations or pooling other than those specified."""
    reading = listing.reading
    named = named_activations(listing)
    own_class_name = activation_class(reading.activation) if reading.activation else None
    known = [activation_class(name) for name in named]
    unspecified = [] if own_class_name is None or own_class_name in known else list(named)
    words = reading.geometry.replace(" ", ",").split(",")
    pools = [
        pooling_word(child)
        for child in listing.children
        if "output_size" in child.numbers or child.kind in ("MaxPool2d", "AvgPool2d")
    ]
    unspecified = [*unspecified, *dict.fromkeys(word for word in pools if word not in words)]
    if not unspecified:
        return ()
    return (f"The file mentions {in_list(unspecified)}, which you did not specify.",)


def _check_children(listing: CheckpointContents) -> None:
    """Refuse a saved module with a torch layer that cannot be specified."""
    start = "torch.nn.modules."
    for child in listing.children:
        kind = child.kind.rpartition(".")[2]
        if child.kind.startswith(start) and kind not in _CONTAINERS:
            raise UnnamedNetwork(
                f"{listing.file_name} has '{plain_text(child.name, 60)}', a "
                f"{plain_text(kind, 60)}, which "
                "is not a supported layer.",
                kind="not-supported",
            )


def family_named(reading: FileReading) -> str:
    """Return the network family in --geometry, 'torchvision' or 'resnet'; or ''."""
    first = reading.geometry.replace(" ", ",").partition(",")[0].lower()
    return first if first in (TORCHVISION, RESNET) else ""


def children_of(listing: CheckpointContents) -> dict[str, StatedLayer]:
    """Return the modules inside a saved module that state their numbers, by name."""
    return {
        child.name: child for child in listing.children if child.numbers or "." not in child.kind
    }


def questions_of_weights(listing: CheckpointContents) -> list[OpenQuestion]:
    """Return what is open if weights are matched layer by layer: their order and BatchNorms."""
    reading, arrays = listing.reading, arrays_to_read(listing)
    order = [order_question(sequence_in(listing))] if has_doubtful_order(listing) else []
    if not any(name.endswith(".running_mean") for name in arrays):
        return order
    questions = order if reading.norm_eps is not None else [*order, NORM_EPS_QUESTION]
    if not reading.batchnorm and not norms_follow_layers(listing):
        questions.append(BATCHNORM_QUESTION)
    return questions


def unsaid_of_weights(listing: CheckpointContents) -> str:
    """Describe what is open if weights are matched layer by layer, one sentence; or ''."""
    norms = any(name.endswith(".running_mean") for name in arrays_to_read(listing))
    if norms and listing.reading.batchnorm == "after":
        return "its BatchNorms come after the activation, so they cannot be folded into a layer."
    try:
        questions = questions_of_weights(listing)
    except UnnamedNetwork as doubt:  # only a chain has an order that an option could give
        return str(doubt)
    if not questions:
        return ""
    words = in_list([question.words for question in questions])
    return (
        f"it does not say {words}. Use a file that does, such as a saved nn.Sequential "
        "(torch.save(module))."
    )


def check_alone(listing: CheckpointContents, door: Door) -> None:
    """Refuse a file that, by name, contains another network beside the one to be read."""
    if listing.part or listing.others:
        return
    mark = " (dict)"
    names = [text.removesuffix(mark) for text in listing.ignored if text.endswith(mark)]
    beside = [n for n in names if _OF_NETWORK.search(n) and not _OF_TRAINING.search(n)]
    if beside:
        how = f" (--part {plain_text(shlex.quote(beside[0]), 60)}, or the key of the other)"
        raise UserError(
            f"{listing.file_name} has '{plain_text(beside[0], 60)}' besides the network to be "
            f"read: choose one of them{how if door == 'command' else ''}.",
            kind="not-supported",
        )


_OF_NETWORK = re.compile(r"(?i)state_?dict|model|net|weights|params|generator|discriminator|critic")
_OF_TRAINING = re.compile(r"(?i)opt|sched|scaler|rng|args|config|hparam|hyper|loss|metric|callback")


def check_answered(listing: CheckpointContents, door: Door) -> None:
    """Raise `OpenQuestions` if anything is left open."""
    if questions := questions_of(listing):
        raise OpenQuestions(in_words(listing, questions, door), questions)


def in_words(listing: CheckpointContents, questions: Sequence[OpenQuestion], door: Door) -> str:
    """Return sentences on what is open and how to specify it."""
    file = listing.file_name
    words = "; ".join(question.words for question in questions)
    colon = ":" * (len(questions) > 1)
    own = own_class(listing)
    if own:
        opening = (
            f"{file} is a whole saved module of the class {plain_text(own, 80)}. Only its "
            "code, which "
            f"is not run here, says{colon} {words}."
        )
    else:
        opening = f"{file} does not say{colon} {words}."
    if door == "window":
        return f"{opening} Specify it above."
    code = f"build it with your own code ({code_options(listing)})."
    options = " ".join(filter(None, (question.option for question in questions)))
    if not all(question.option for question in questions):
        return f"{opening} {code[0].upper()}{code[1:]}"
    return f"{opening} Specify it ({options}), or {code}"


def _questions_of_family(listing: CheckpointContents) -> list[OpenQuestion]:
    reading: FileReading = listing.reading
    arrays = arrays_to_read(listing)
    questions: list[OpenQuestion] = []
    if leftover := (*left_over_in(arrays), *unread_tensors(listing)):
        questions.append(ignored_question(leftover, arrays))
    if reading.geometry == TORCHVISION:
        return questions
    if not reading.activation:
        questions.append(activation_question(named_activations(listing)))
    if not reading.geometry:
        exact = known_network({name: array.shape for name, array in arrays.items()})
        option = "--geometry resnet,s1p1"
        if "torchvision" in exact and "first convolution" not in exact:
            option = "--geometry torchvision"
            questions = [question for question in questions if question.about != "activation"]
        words = (
            "that its blocks are those of He et al. 2015 (stages of stride 1, 2, 2, 2, activations "
            "after convolutions and additions), and the stride and padding of its first convolution"
        )
        questions.append(OpenQuestion("geometry", words, option))
        if option.endswith(TORCHVISION):
            return questions
    norms = any(name.endswith(".running_mean") for name in arrays)
    if norms and reading.norm_eps is None and stated_eps(listing) is None:
        questions.append(NORM_EPS_QUESTION)
    return questions


def stated_eps(listing: CheckpointContents) -> float | None:
    """Return the ε of all BatchNorms of a saved module; None if it states none.

    Raises:
        UserError: They differ.
    """
    norms = [child for child in listing.children if child.kind.startswith("BatchNorm")]
    epsilons = {child.numbers.get("eps") for child in norms}
    if len(epsilons) > 1 or None in epsilons:
        raise UserError(
            f"{listing.file_name} has BatchNorms with different ε, or with hooks: build it with "
            "your own code" + BY_OPTION + ".",
            kind="not-supported",
        )
    eps = next(iter(epsilons), None)
    return eps if isinstance(eps, float) else None
