"""Options that select a network, complete what its file does not state, and prepare its inputs."""

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
_SCALES = ("trace", "width", "cosine")  # kernel scales, which --normalise of `dgn kernels` once set
READING = ("activation", "geometry", "batchnorm", "norm_eps", "ignore", "order")
PROBE = "probe"
# Defaults of the gate options for an imported network.
USUAL = MappingProxyType({"eps": 0, "value_input": "image", "feature_activation": "relu"})
_GATES = ("gates", "beta", "eps", "permute", "value_input", "feature_activation")
_BESIDE_MODEL = {
    "examples": "it reads the examples of a run; use --inputs",
    "data_root": "it applies to --examples only",
    **dict.fromkeys(_GATES, "the module computes its own gates"),
}


def add_network(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that select a network: a file, run or session, or the user's own code."""
    parser.add_argument(
        "file",
        type=Path,
        nargs="?",
        metavar="FILE",
        help="checkpoint, RUN[@STEP] or session (.dgn); no code in it is executed",
    )
    add_model(parser)
    add_part(parser)


def add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model",
        type=parse_model_name,
        metavar=MODEL,
        help="import an nn.Module, or a function returning one, from your code; executes it",
    )
    parser.add_argument(
        "--weights",
        type=Path,
        metavar="FILE",
        help="state dict to load into --model (default: its initial weights)",
    )


def add_part(parser: Any) -> None:
    parser.add_argument(
        "--part", metavar="KEY", help="which network to read if the file has several: model, ema, …"
    )


def add_normalise(parser: Any) -> None:
    parser.add_argument(
        "--normalise",
        type=_parse_normalisation,
        metavar="HOW",
        help=f"normalise the pixels: {HOW} (default: none)",
    )


def add_reading(parser: Any) -> None:
    """Add the options for what a state dict does not state."""
    parser.add_argument(
        "--activation",
        metavar="NAME",
        help="activation between the layers, if the file does not state it: "
        f"{', '.join(ACTIVATIONS)}; leaky_relu:0.2",
    )
    parser.add_argument(
        "--geometry",
        metavar="WORDS",
        help="stride, padding and pooling of its convolutions, one word each: s2p1,max2,p1; "
        "torchvision; resnet,s1p1",
    )
    parser.add_argument(
        "--batchnorm",
        choices=("before", "after"),
        help="BatchNorm comes before or after the activation",
    )
    parser.add_argument("--norm-eps", type=float, metavar="ε", help="ε of BatchNorm (torch: 1e-5)")
    parser.add_argument(
        "--ignore",
        type=_parse_names,
        metavar="KEY,…",
        help="tensors that are not part of the network",
    )
    parser.add_argument(
        "--order", type=_parse_names, metavar="KEY,…", help="weight names in layer order"
    )


def add_named_net(parser: Any) -> None:
    """Add the options that name the architecture of a file."""
    parser.add_argument("--net", metavar="NAME", help="architecture of the file: fc, cnn4, …")
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="option of --net, such as width=64",
    )


def add_expected(parser: Any) -> None:
    parser.add_argument(
        "--expect-accuracy",
        type=_parse_percent,
        metavar="P",
        help="fail unless the test accuracy is P percent",
    )


def check_network(arguments: argparse.Namespace, path: Path | None) -> None:
    """Check that exactly one network is given, and that --model has no options meant for a file.

    Raises:
        UserError: no network, two networks, or an option that has no effect with --model.
    """
    if arguments.model is None:
        if path is None:
            raise UserError(
                f"No network given: pass a file, run or session, or --model {MODEL}.",
                kind="not-named",
                value="--model",
            )
        if arguments.weights is not None:
            raise UserError(
                Where("--weights") + " needs --model; pass a weights file on its own as FILE.",
                kind="needs-option",
                value="--model",
            )
        return
    if path is not None:
        raise UserError(
            Where("--model")
            + f" already gives the network; remove {path}, or pass it as --weights.",
            kind="contradiction",
            value=str(path),
        )
    for option in given_options(arguments, "net", "option", *READING):
        raise _no_effect(option, "the code defines the network")
    for option in given_options(arguments, "part"):
        raise _no_effect(option, "it selects a network in a file")


def check_model_options(arguments: argparse.Namespace) -> None:
    """Raise `UserError` for options that contradict --model or have no effect with it."""
    check_network(arguments, arguments.network)
    if arguments.model is None:
        return
    for name, why in _BESIDE_MODEL.items():
        for option in given_options(arguments, name, usual=USUAL):
            raise _no_effect(option, why)


def _no_effect(option: str, why: str) -> UserError:
    return UserError(
        Where(option) + f" has no effect with --model: {why}.", kind="no-effect", value="--model"
    )


def reading_from_options(arguments: argparse.Namespace) -> FileReading:
    """Return the options that complete a file's description; raises `UserError`."""
    return FileReading(
        activation=arguments.activation or "",
        geometry=arguments.geometry or "",
        batchnorm=arguments.batchnorm or "",
        norm_eps=arguments.norm_eps,
        ignored=arguments.ignore or (),
        order=arguments.order or (),
    )


def parse_examples_option(text: str) -> str:
    """Parse --examples: 'probe' or a number."""
    if text == PROBE or (text.isdecimal() and int(text) > 0):
        return text
    raise argparse.ArgumentTypeError(f"{text!r} must be 'probe' or a number of examples")


def parse_model_name(text: str) -> str:
    """Parse --model: 'package.module:name'."""
    module, colon, name = text.partition(":")
    dotted = all(part.isidentifier() for part in (*module.split("."), *name.split(".")))
    if dotted and not module.endswith(".py"):
        return text
    parts = [part for part in Path(module.removesuffix(".py")).parts if part.isidentifier()]
    suggestion = ".".join(parts)
    if not colon and Path(module).parts == (module,) and not module.endswith(".py"):
        suggestion, _, name = module.rpartition(".")
    offer = f" Did you mean '{suggestion}:{name or 'make_net'}'?" if suggestion else ""
    raise argparse.ArgumentTypeError(
        f"{text!r} must have the form {MODEL}, with the module as in an import statement.{offer}"
    )


def _parse_normalisation(text: str) -> str:
    from dgn_engine.data._normalisation import parse_normalisation

    if text in _SCALES:
        raise argparse.ArgumentTypeError(
            f"it normalises pixels ({HOW}); to scale kernels, use --scale {text}"
        )
    if not text:
        raise argparse.ArgumentTypeError(f"it is empty; use none, or {HOW}")
    try:
        parse_normalisation(text)
    except UserError as refusal:
        raise argparse.ArgumentTypeError(str(refusal)) from None
    return text


def _parse_names(text: str) -> tuple[str, ...]:
    return tuple(part for part in (part.strip() for part in text.split(",")) if part)


def _parse_percent(text: str) -> float:
    """Parse '92.9' to 0.929; reject 0.929, which would mean less than one percent."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 1 <= value <= 100:
        raise argparse.ArgumentTypeError(
            f"{text!r} must be an accuracy in percent, from 1 to 100 (92.9, not 0.929)"
        )
    return value / 100
