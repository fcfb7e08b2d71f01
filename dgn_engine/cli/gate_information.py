"""`dgn gate-information FILE`: what the gates of a checkpoint know ([NPF] Definition 5.1)."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dgn_engine.cli._carrying import add_carrying_options, carry, exit_code
from dgn_engine.cli._command import Command
from dgn_engine.cli._options import add_run_options, run_config
from dgn_engine.refusal import Refusal

if TYPE_CHECKING:
    from dgn_engine.config import RunConfig

SEEDS = 3
_OURS = ("regime", "gates_from", "weights_from", "seed", "wiring", "rotation", "shift", "tiling")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The file, how value networks are trained, and how many."""
    parser.add_argument("file", type=Path, metavar="FILE", help="any checkpoint; none of it is run")
    add_run_options(parser)
    parser.add_argument("--seeds", type=int, default=SEEDS, metavar="K", help="of each kind")
    add_carrying_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Exit 0 when done, 3 when a run failed for good, 130 after Ctrl-C (gone on with next time)."""
    for name in _OURS:
        if getattr(arguments, name) is not None:
            raise Refusal(f"Leave out --{name.replace('_', '-')}: it follows from the measure.")
    if arguments.seeds < 1:
        raise Refusal(f"--seeds is {arguments.seeds}; it must be at least 1.")

    from dgn_engine.experiments import Request
    from dgn_engine.gate_information import gate_information
    from dgn_engine.reporting.conducting import Task
    from dgn_engine.runs.places import results_root

    file: Path = arguments.file.absolute()
    config = _config(arguments, file)
    experiment = gate_information(file, config, arguments.seeds)
    data = "".join(c if c.isalnum() else "_" for c in config.data.name)
    folder = arguments.out or results_root() / f"gate-information-{file.stem}-{data}"
    request = Request(
        scale="full",
        seeds=arguments.seeds,
        epochs=config.training.epochs,
        data=config.data.name,
        data_root=config.data.root,
        device=config.device,
    )
    return exit_code(
        carry(arguments, Task("gate-information", experiment, request, folder.absolute()))
    )


def _config(arguments: argparse.Namespace, file: Path) -> RunConfig:
    """The options; the network of the file where none is named."""
    from dgn_engine.gate_information import net_of

    config = run_config(arguments)
    named = config.net if arguments.net or arguments.config else None
    net = net_of(file, named)
    if named is None:
        net = replace(net, bias=config.net.bias, init=config.net.init, sigma=config.net.sigma)
    return replace(config, net=net)


COMMAND = Command(
    "Train value networks with the gates of a checkpoint, and with random ones.",
    add_arguments,
    run,
)
