"""The import options that a weights file leaves open about its network, as the user gives them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Literal

from dgn_engine.config import NetConfig
from dgn_engine.errors import UserError, did_you_mean
from dgn_engine.frozen_data import dataclass
from dgn_engine.plugins import OptionValue

BatchNormPlace = Literal["", "before", "after"]
Unsaid = Literal["activation", "geometry", "batchnorm", "norm_eps", "ignored", "order"]

# Names of activations, their classes in torch.nn, and the parameter that may follow a colon.
ACTIVATIONS: Mapping[str, tuple[str, str, float]] = {
    "relu": ("ReLU", "", 0.0),
    "leaky_relu": ("LeakyReLU", "negative_slope", 0.01),
    "elu": ("ELU", "alpha", 1.0),
    "celu": ("CELU", "alpha", 1.0),
    "selu": ("SELU", "", 0.0),
    "gelu": ("GELU", "", 0.0),
    "silu": ("SiLU", "", 0.0),
    "mish": ("Mish", "", 0.0),
    "relu6": ("ReLU6", "", 0.0),
    "tanh": ("Tanh", "", 0.0),
    "sigmoid": ("Sigmoid", "", 0.0),
    "softplus": ("Softplus", "beta", 1.0),
    "softsign": ("Softsign", "", 0.0),
    "hardtanh": ("Hardtanh", "", 0.0),
    "hardswish": ("Hardswish", "", 0.0),
    "none": ("Identity", "", 0.0),
}
_OTHER_NUMBERS: Mapping[str, Mapping[str, float | str]] = {  # torch's defaults
    "GELU": {"approximate": "none"},
    "Softplus": {"threshold": 20.0},
    "Hardtanh": {"min_val": -1.0, "max_val": 1.0},
}
_POSITIVE = ("celu", "softplus")  # whose parameter must be positive
_ALIASES = {"identity": "none", "linear": "none", "swish": "silu", "leakyrelu": "leaky_relu"}
_FLAGS = {"norm_eps": "--norm-eps", "ignored": "--ignore"}


@dataclass(frozen=True)
class FileReading:
    """A user's answers about the network in a file, which the file does not give; '' if none.

    Attributes:
        activation: The activation between its layers: one of `ACTIVATIONS`, with a parameter as in
            'leaky_relu:0.2'.
        geometry: Strides, padding and pooling of its convolutions, a word each: 's2p1,max2,p1'
            (`geometry_words`); 'torchvision'; 'resnet,s1p1'.
        batchnorm: Whether each BatchNorm comes before or after the activation of its layer.
        norm_eps: ε of BatchNorm.
        ignored: Tensors that do not belong to the network.
        order: Its weights, in the order of computation.
        net: One of our networks with its options, instead of activation and geometry.
    """

    activation: str = ""
    geometry: str = ""
    batchnorm: BatchNormPlace = ""
    norm_eps: float | None = None
    ignored: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    net: NetConfig | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "geometry", self.geometry.strip().lower())
        if self.activation:
            object.__setattr__(self, "activation", _checked_activation(self.activation))
        if self.batchnorm not in ("", "before", "after"):
            raise UserError(
                f"batchnorm is '{self.batchnorm}'; it must be 'before' or 'after' the activation."
            )
        if self.net is not None and (self.activation or self.geometry):
            raise UserError(
                f"--net {self.net.name} already defines the network; leave out --activation and "
                "--geometry."
            )
        if self.norm_eps is not None and not 0 < self.norm_eps < float("inf"):
            raise UserError(f"ε of BatchNorm is {self.norm_eps:g}; it must be positive and finite.")

    @property
    def command_options(self) -> str:
        """The equivalent options of a command: '--activation relu --geometry p1,max2'."""
        words: list[str] = []
        for item in fields(self):
            value = getattr(self, item.name)
            if value in ("", (), None):
                continue
            if isinstance(value, NetConfig):
                words += ["--net", value.name]
                for name, option in value.options:
                    words += ["--option", f"{name}={option}"]
                continue
            text = ",".join(value) if isinstance(value, tuple) else value
            text = repr(text) if isinstance(text, float) else text
            words += [_FLAGS.get(item.name, f"--{item.name}"), shlex.quote(text)]
        return " ".join(words)

    def to_options(self) -> tuple[tuple[str, OptionValue], ...]:
        """Return the answers, except `net`, as options of the network 'file:PATH' in a
        configuration."""
        pairs: list[tuple[str, OptionValue]] = []
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name != "net" and value not in ("", (), None):
                pairs.append((item.name, ",".join(value) if isinstance(value, tuple) else value))
        return tuple(sorted(pairs))


NOTHING_SAID = FileReading()


def reading_from_options(net: NetConfig) -> FileReading:
    """Return the answers in the options of a network 'file:PATH'; raises `UserError`."""
    known = {item.name for item in fields(FileReading)} - {"net"}
    given = {"ignored" if name == "ignore" else name: value for name, value in net.options}
    for name in given:
        if name not in known:
            raise UserError(
                f"The network of a file has no option '{name}'.{did_you_mean(name, known)}"
            )
    eps = given.get("norm_eps")
    return FileReading(
        activation=str(given.get("activation", "")),
        geometry=str(given.get("geometry", "")),
        batchnorm=str(given.get("batchnorm", "")),  # type: ignore[arg-type]  # checked by itself
        norm_eps=float(eps) if isinstance(eps, (int, float)) else None,
        ignored=_split_names(given.get("ignored", "")),
        order=_split_names(given.get("order", "")),
    )


@dataclass(frozen=True)
class OpenQuestion:
    """Something that a file leaves open.

    Attributes:
        about: The field of `FileReading` that answers it.
        words: What is missing, the end of 'FILE does not say …'.
        option: The command option that answers it, with an example value.
    """

    about: Unsaid
    words: str
    option: str


@dataclass(frozen=True)
class FittingReading:
    """A reading that fits a file and its inputs, with its accuracy.

    Attributes:
        reading: The answers.
        accuracy: The accuracy on the labelled examples, in [0, 1]; None without labels.
        examples: The number of those examples.
    """

    reading: FileReading
    accuracy: float | None = None
    examples: int = 0


def activation_class(activation: str) -> tuple[str, dict[str, float | str]]:
    """Return the torch.nn class name of an activation, and its parameters; raises `UserError`."""
    name, _, number = _checked_activation(activation).partition(":")
    kind, argument, usual = ACTIVATIONS[name]
    own = {argument: float(number) if number else usual} if argument else {}
    return kind, {**_OTHER_NUMBERS.get(kind, {}), **own}


def activation_in_words(activation: str) -> str:
    """Return 'ReLU', 'LeakyReLU 0.2'; '' for an empty answer."""
    if not activation:
        return ""
    name, _, number = activation.partition(":")
    return f"{ACTIVATIONS[name][0]} {number}".rstrip()


def in_list(words: Sequence[str]) -> str:
    """Return 'a, b and c'."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else list(words))


def _checked_activation(text: str) -> str:
    name, colon, number = text.strip().lower().partition(":")
    name = _ALIASES.get(name, name)
    if name not in ACTIVATIONS:
        raise UserError(
            f"Unknown activation '{text}'. Available: {', '.join(ACTIVATIONS)}."
            f"{did_you_mean(name, ACTIVATIONS)}"
        )
    if not colon:
        return name
    try:
        value = float(number)
    except ValueError:
        value = float("nan")
    sound = abs(value) < float("inf") and (name not in _POSITIVE or value > 0)
    if not ACTIVATIONS[name][1] or not sound:
        raise UserError(f"'{text}' is not an activation: {name} does not take this parameter.")
    return f"{name}:{value!r}"


def _split_names(text: OptionValue) -> tuple[str, ...]:
    return tuple(part for part in str(text).split(",") if part)
