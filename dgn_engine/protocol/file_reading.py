"""What a file of weights does not say of its network, and what a user says of it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal

from dgn_engine.config import NetConfig
from dgn_engine.errors import UserError, did_you_mean
from dgn_engine.plugins import OptionValue

BatchNormPlace = Literal["", "before", "after"]
Unsaid = Literal["activation", "geometry", "batchnorm", "norm_eps", "ignored", "order"]

# What may stand for an activation, its class in torch.nn, and the number that may follow a colon.
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
_OTHER_NUMBERS: Mapping[str, Mapping[str, float | str]] = {  # torch's own
    "GELU": {"approximate": "none"},
    "Softplus": {"threshold": 20.0},
    "Hardtanh": {"min_val": -1.0, "max_val": 1.0},
}
_POSITIVE = ("celu", "softplus")  # whose number may not be 0
_ALIASES = {"identity": "none", "linear": "none", "swish": "silu", "leakyrelu": "leaky_relu"}
_FLAGS = {"norm_eps": "--norm-eps", "ignored": "--ignore"}


@dataclass(frozen=True)
class FileReading:
    """What a user says of the network in a file that does not say it itself; '' where nothing.

    Attributes:
        activation: what stands between its layers, with nothing else that counts in evaluation:
            one of `ACTIVATIONS`, 'leaky_relu:0.2' with its number.
        geometry: how its convolutions go and what pools between them, a word each: 's2p1,max2,p1'
            (`geometry_words`); 'torchvision'; 'resnet,s1p1'.
        batchnorm: whether each BatchNorm stands before or after the activation of its layer.
        norm_eps: ε of BatchNorm.
        ignored: tensors that are no part of the network.
        order: its weights in the order in which they compute.
        net: a network of ours by name and options, in the place of activation and geometry.
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
                f"BatchNorm stands before or after the activation, not '{self.batchnorm}'."
            )
        if self.net is not None and (self.activation or self.geometry):
            raise UserError(
                f"--net {self.net.name} says what the network is; leave out --activation and "
                "--geometry."
            )
        if self.norm_eps is not None and not 0 < self.norm_eps < float("inf"):
            raise UserError(
                f"ε of BatchNorm is {self.norm_eps:g}; it must be greater than 0 and finite."
            )

    @property
    def options(self) -> str:
        """The options of a command that say it: '--activation relu --geometry p1,max2'."""
        words: list[str] = []
        for each in fields(self):
            value = getattr(self, each.name)
            if value in ("", (), None):
                continue
            if isinstance(value, NetConfig):
                words += ["--net", value.name]
                for name, option in value.options:
                    words += ["--option", f"{name}={option}"]
                continue
            text = ",".join(value) if isinstance(value, tuple) else value
            text = repr(text) if isinstance(text, float) else text
            words += [_FLAGS.get(each.name, f"--{each.name}"), shlex.quote(text)]
        return " ".join(words)

    def to_options(self) -> tuple[tuple[str, OptionValue], ...]:
        """Return it as the options of the network 'file:PATH' in a configuration; without `net`."""
        pairs: list[tuple[str, OptionValue]] = []
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name != "net" and value not in ("", (), None):
                pairs.append((each.name, ",".join(value) if isinstance(value, tuple) else value))
        return tuple(sorted(pairs))


NOTHING_SAID = FileReading()


def reading_of(net: NetConfig) -> FileReading:
    """Return what the options of a network 'file:PATH' say of the file; raises `UserError`."""
    known = {each.name for each in fields(FileReading)} - {"net"}
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
        ignored=_names(given.get("ignored", "")),
        order=_names(given.get("order", "")),
    )


@dataclass(frozen=True)
class OpenQuestion:
    """Something that a file leaves open.

    Attributes:
        about: the field of `FileReading` that answers it.
        words: what it is, as the end of 'FILE does not say …'.
        option: the option of a command that says it, with a value as an example.
    """

    about: Unsaid
    words: str
    option: str


@dataclass(frozen=True)
class FittingReading:
    """One of many readings that fit a file and its inputs, with how often it is right.

    Attributes:
        reading: what would have to be said.
        accuracy: the share of the labelled examples that it classifies right, in [0, 1]; None
            where there are no labels.
        examples: how many examples those were.
    """

    reading: FileReading
    accuracy: float | None = None
    examples: int = 0


def activation_class(activation: str) -> tuple[str, dict[str, float | str]]:
    """Return the class in torch.nn of an activation, and its numbers by name; raises
    `UserError`."""
    name, _, number = _checked_activation(activation).partition(":")
    kind, argument, usual = ACTIVATIONS[name]
    own = {argument: float(number) if number else usual} if argument else {}
    return kind, {**_OTHER_NUMBERS.get(kind, {}), **own}


def activation_in_words(activation: str) -> str:
    """Return 'ReLU', 'LeakyReLU 0.2'; '' where nothing was said."""
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
            f"There is no activation '{text}'; known are {', '.join(ACTIVATIONS)}."
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
        raise UserError(f"'{text}' is no activation: {name} takes no such number.")
    return f"{name}:{value!r}"


def _names(text: OptionValue) -> tuple[str, ...]:
    return tuple(part for part in str(text).split(",") if part)
