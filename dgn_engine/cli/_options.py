"""The options of a run on the command line, laid over a configuration file."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from dgn_engine.config import (
    Augmentation,
    Device,
    Initialisation,
    Loss,
    Optimiser,
    Pixels,
    RunConfig,
    ValueInput,
)
from dgn_engine.errors import UserError

# option → place in the configuration; argparse gives None where it was not said
PLACES: dict[str, tuple[str, str]] = {
    "data": ("data", "name"),
    "data_root": ("data", "root"),
    "download": ("data", "download"),
    "binary": ("data", "binary"),
    "train_limit": ("data", "train_limit"),
    "test_limit": ("data", "test_limit"),
    "label_noise": ("data", "label_noise"),
    "pixels": ("data", "pixels"),
    "variant_seed": ("data", "variant_seed"),
    "net": ("net", "name"),
    "bias": ("net", "bias"),
    "init": ("net", "init"),
    "sigma": ("net", "sigma"),
    "regime": ("gating", "regime"),
    "beta": ("gating", "beta"),
    "epsilon": ("gating", "epsilon"),
    "value_input": ("gating", "value_input"),
    "wiring": ("gating", "wiring"),
    "rotation": ("gating", "rotation"),
    "shift": ("gating", "shift"),
    "tiling": ("gating", "tiling"),
    "gate_probability": ("gating", "gate_probability"),
    "gates_from": ("gating", "gates_from"),
    "pretrain_epochs": ("gating", "pretrain_epochs"),
    "loss": ("training", "loss"),
    "optimiser": ("training", "optimiser"),
    "lr": ("training", "learning_rate"),
    "momentum": ("training", "momentum"),
    "batch": ("training", "batch"),
    "weights_from": ("training", "weights_from"),
    "keep_epochs": ("training", "keep_epochs"),
    "keep_best": ("training", "keep_best"),
    "until": ("training", "until"),
    "epochs": ("training", "epochs"),
    "augmentation": ("training", "augmentation"),
    "seed": ("", "seed"),
    "device": ("", "device"),
}


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """CONFIG.toml and every option that overrides it."""
    parser.add_argument("config", nargs="?", type=Path, metavar="CONFIG.toml")
    data = parser.add_argument_group("data")
    data.add_argument("--data", help="digits, mnist, fashion-mnist, cifar10, …, folder:PATH")
    data.add_argument("--data-root", metavar="DIR", help="where data sets lie")
    data.add_argument("--download", action="store_true", default=None, help="fetch if missing")
    data.add_argument("--binary", type=numbers, metavar="A,B", help="two classes as -1 and +1")
    data.add_argument("--train-limit", type=int, metavar="N", help="use N training examples")
    data.add_argument("--test-limit", type=int, metavar="N", help="use N test examples")
    data.add_argument("--label-noise", type=float, metavar="P", help="share of labels drawn anew")
    data.add_argument("--pixels", choices=get_args(Pixels), help="true, or Gaussian noise")
    data.add_argument("--variant-seed", type=int, help="of false labels and random pixels")
    data.add_argument(
        "--data-option", action="append", default=[], metavar="NAME=VALUE", help="of the data set"
    )
    net = parser.add_argument_group("network")
    net.add_argument("--net", help="fc, cnn4, resnet18, …: docs/guide.md lists them")
    net.add_argument("--width", type=int, help="short for --option width=…")
    net.add_argument("--depth", type=int, help="short for --option depth=…")
    net.add_argument("--channels", type=int, help="short for --option channels=…")
    net.add_argument("--stride", type=int, help="short for --option stride=…")
    net.add_argument("--option", action="append", default=[], metavar="NAME=VALUE")
    net.add_argument("--bias", action="store_true", default=None)
    net.add_argument("--init", choices=get_args(Initialisation))
    net.add_argument("--sigma", type=float, help="of the ±σ initialisation")
    gating = parser.add_argument_group("gating")
    gating.add_argument(
        "--regime", help="ReLU, soft-ReLU, FR-II, FR-DI, FL, DL, gates-only, FRG, …"
    )
    gating.add_argument("--beta", type=float)
    gating.add_argument("--epsilon", type=float)
    gating.add_argument("--value-input", choices=get_args(ValueInput))
    gating.add_argument("--wiring", type=numbers, metavar="2,0,1", help="0-based permutation")
    gating.add_argument("--rotation", type=numbers, metavar="0,1,2", help="units, for each layer")
    gating.add_argument("--shift", type=numbers, metavar="0,1,2", help="rows and columns of maps")
    gating.add_argument("--tiling", type=numbers, metavar="2,2,2", help="units repeated so often")
    gating.add_argument("--gate-probability", type=float, metavar="P", help="FRG: p of each gate")
    gating.add_argument("--gates-from", metavar="FILE", help="FL: copy the gates of a checkpoint")
    gating.add_argument("--pretrain-epochs", type=int, help="FL: epochs of ReLU before")
    training = parser.add_argument_group("training")
    training.add_argument("--loss", choices=get_args(Loss))
    training.add_argument("--optimiser", choices=get_args(Optimiser))
    training.add_argument("--lr", type=float)
    training.add_argument("--momentum", type=float)
    training.add_argument("--batch", type=int)
    training.add_argument("--epochs", type=int)
    training.add_argument(
        "--augmentation", choices=get_args(Augmentation), help="of training images, as DavidNet's"
    )
    training.add_argument("--weights-from", metavar="FILE", help="what Θ^v begins with")
    training.add_argument(
        "--keep-epochs", type=numbers, metavar="0,10", help="keep the weights after these epochs"
    )
    training.add_argument("--keep-best", action="store_true", default=None, help="and the best")
    training.add_argument("--until", type=float, help="stop at this train accuracy of an epoch")
    training.add_argument("--seed", type=int)
    training.add_argument("--device", choices=get_args(Device))


def run_config(arguments: argparse.Namespace) -> RunConfig:
    """The configuration that file and options make together; raises `UserError`."""
    base = RunConfig.from_file(arguments.config) if arguments.config else RunConfig()
    tree = base.to_dict()
    for option, (part, key) in PLACES.items():
        value = getattr(arguments, option)
        if value is not None:
            (tree[part] if part else tree)[key] = value
    if arguments.data not in (None, base.data.name):
        tree["data"]["options"] = {}
    tree["data"]["options"].update(value_of(o, "--data-option") for o in arguments.data_option)
    if arguments.net not in (None, base.net.name):
        tree["net"]["options"] = {}
    tree["net"]["options"].update(_net_options(arguments))
    return RunConfig.from_dict(tree)


def _net_options(arguments: argparse.Namespace) -> Iterator[tuple[str, int | float | str | bool]]:
    for name in ("width", "depth", "channels", "stride"):
        value = getattr(arguments, name)
        if value is not None:
            yield name, value
    for text in arguments.option:
        yield value_of(text)


def value_of(text: str, option: str = "--option") -> tuple[str, int | float | str | bool]:
    """An --option 'NAME=VALUE' as its name and its value."""
    name, equals, value = text.partition("=")
    if not equals:
        raise UserError(f"{option} {text!r} must be of the form NAME=VALUE.")
    return name, _value(value)


def _value(text: str) -> int | float | str | bool:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def numbers(text: str) -> tuple[int, ...]:
    """'2,0,1' as whole numbers, for argparse."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of whole numbers such as 2,0,1"
        ) from None
