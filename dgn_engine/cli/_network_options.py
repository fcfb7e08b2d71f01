"""The options with which commands name a network, say what a file leaves open, and show it data."""

from __future__ import annotations

import argparse
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dgn_engine.cli._option_checks import given_options
from dgn_engine.errors import UserError, Where
from dgn_engine.importing import MODEL
from dgn_engine.protocol.file_reading import ACTIVATIONS, FileReading

HOW = "imagenet, cifar10, cifar100, mnist or m1,m2,m3/s1,s2,s3"
_SCALES = ("trace", "width", "cosine")  # of kernels: what --normalise once meant in `dgn kernels`
READING = ("activation", "geometry", "batchnorm", "norm_eps", "ignore", "order")
PROBE = "probe"
# Of options of gates; a network that is given uses them so unless they say otherwise.
USUAL = MappingProxyType({"eps": 0, "value_input": "image", "feature_activation": "relu"})
_GATES = ("gates", "beta", "eps", "permute", "value_input", "feature_activation")
_BESIDE_MODEL = {
    "examples": "they are those of a run; give --inputs",
    "data_root": "it is for --examples",
    **dict.fromkeys(_GATES, "the module makes its own gates"),
}


def add_network(parser: argparse.ArgumentParser) -> None:
    """Add the network of a command: a file, run or session, or the user's own code."""
    parser.add_argument(
        "file",
        type=Path,
        nargs="?",
        metavar="FILE",
        help="any checkpoint, RUN[@STEP] or a session (.dgn); none of it is run",
    )
    add_model(parser)
    add_part(parser)


def add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model",
        type=model_name,
        metavar=MODEL,
        help="instead of a file: a module of your own code, or what makes it; it is run",
    )
    parser.add_argument(
        "--weights", type=Path, metavar="FILE", help="of --model: its state dict (as it is made)"
    )


def add_part(parser: Any) -> None:
    parser.add_argument(
        "--part", metavar="KEY", help="of several networks in the file: model, ema, …"
    )


def add_normalise(parser: Any) -> None:
    parser.add_argument(
        "--normalise", type=_normalise, metavar="HOW", help=f"of the pixels: {HOW} (none)"
    )


def add_reading(parser: Any) -> None:
    """Add the options that say what a state dict does not."""
    parser.add_argument(
        "--activation",
        metavar="NAME",
        help=f"between the layers, where the file does not say it: {', '.join(ACTIVATIONS)}; "
        "leaky_relu:0.2",
    )
    parser.add_argument(
        "--geometry",
        metavar="WORDS",
        help="of its convolutions, a word for each and for each pooling behind it: s2p1,max2,p1; "
        "torchvision; resnet,s1p1",
    )
    parser.add_argument(
        "--batchnorm", choices=("before", "after"), help="the activation, where BatchNorm stands"
    )
    parser.add_argument("--norm-eps", type=float, metavar="ε", help="of BatchNorm (torch: 1e-5)")
    parser.add_argument(
        "--ignore", type=_names, metavar="KEY,…", help="tensors that are no part of the network"
    )
    parser.add_argument(
        "--order", type=_names, metavar="KEY,…", help="the weights in the order of the layers"
    )


def add_named_net(parser: Any) -> None:
    """Add the name of the network that a file is of."""
    parser.add_argument("--net", metavar="NAME", help="or the network that it is: fc, cnn4, …")
    parser.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE", help="of --net: width=64"
    )


def add_expected(parser: Any) -> None:
    parser.add_argument(
        "--expect-accuracy",
        type=_percent,
        metavar="P",
        help="in percent: refuse a reading whose accuracy is another",
    )


def check_network(arguments: argparse.Namespace, path: Path | None) -> None:
    """Refuse a command without a network, one with two (a file or run, and --model), and options
    that describe the network of a file beside --model, which says all of it."""
    if arguments.model is None:
        if path is None:
            raise UserError(
                f"Name a network: a file, a run, a session, or your own code with --model {MODEL}.",
                kind="not-named",
                value="--model",
            )
        if arguments.weights is not None:
            raise UserError(
                Where("--weights") + " needs --model; a file of weights alone is named as it is.",
                kind="needs-option",
                value="--model",
            )
        return
    if path is not None:
        raise UserError(
            Where("--model")
            + f" makes the network; leave out {path}, or give the file as --weights.",
            kind="contradiction",
            value=str(path),
        )
    for option in given_options(arguments, "net", "option", *READING):
        raise _no_effect(option, "the code says what the network is")
    for option in given_options(arguments, "part"):
        raise _no_effect(option, "it is of a file")


def check_model_options(arguments: argparse.Namespace) -> None:
    """Refuse what contradicts --model or would have no effect beside it."""
    check_network(arguments, arguments.network)
    if arguments.model is None:
        return
    for name, why in _BESIDE_MODEL.items():
        for option in given_options(arguments, name, usual=USUAL):
            raise _no_effect(option, why)


def _no_effect(option: str, why: str) -> UserError:
    return UserError(
        Where(option) + f" has no effect beside --model: {why}.", kind="no-effect", value="--model"
    )


def said_reading(arguments: argparse.Namespace) -> FileReading:
    """Return what the options say of a file; raises `UserError`."""
    return FileReading(
        activation=arguments.activation or "",
        geometry=arguments.geometry or "",
        batchnorm=arguments.batchnorm or "",
        norm_eps=arguments.norm_eps,
        ignored=arguments.ignore or (),
        order=arguments.order or (),
    )


def examples_wanted(text: str) -> str:
    """The type of --examples for argparse: 'probe' or a number."""
    if text == PROBE or (text.isdecimal() and int(text) > 0):
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is neither 'probe' nor a number of examples")


def model_name(text: str) -> str:
    """The type of --model for argparse: 'package.module:name'."""
    module, colon, name = text.partition(":")
    dotted = all(part.isidentifier() for part in (*module.split("."), *name.split(".")))
    if dotted and not module.endswith(".py"):
        return text
    parts = [part for part in Path(module.removesuffix(".py")).parts if part.isidentifier()]
    meant = ".".join(parts)
    if not colon and Path(module).parts == (module,) and not module.endswith(".py"):
        meant, _, name = module.rpartition(".")
    offer = f" Did you mean '{meant}:{name or 'make_net'}'?" if meant else ""
    raise argparse.ArgumentTypeError(
        f"{text!r} is not of the form {MODEL}, with the module as in an import statement.{offer}"
    )


def _normalise(text: str) -> str:
    from dgn_engine.data._normalisation import normalisation

    if text in _SCALES:
        raise argparse.ArgumentTypeError(
            f"this is of the pixels ({HOW}); what scales kernels is --scale {text}"
        )
    if not text:
        raise argparse.ArgumentTypeError(f"it is empty; none, or {HOW}")
    try:
        normalisation(text)
    except UserError as refusal:
        raise argparse.ArgumentTypeError(str(refusal)) from None
    return text


def _names(text: str) -> tuple[str, ...]:
    return tuple(part for part in (part.strip() for part in text.split(",")) if part)


def _percent(text: str) -> float:
    """'92.9' → 0.929. A share such as 0.929 is refused: it would be less than one in a hundred."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 1 <= value <= 100:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no accuracy in percent, from 1 to 100 (92.9, not 0.929)"
        )
    return value / 100
