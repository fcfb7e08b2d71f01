"""The devices of a sweep's processes: GPUs in the numbering of CUDA, or the CPU."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from dgn_engine.errors import UserError
from dgn_engine.sweep.unit import Training, Unit

CPU = "cpu"
_CARD = re.compile(r"cuda:(\d{1,4})")
_GPU = ("auto", "cuda")


@dataclass(frozen=True)
class Place:
    """A slot for one process.

    Attributes:
        name: 'cuda:1' or 'cpu'; '' for any core.
        visible: value of CUDA_VISIBLE_DEVICES in the process; None: unchanged.
    """

    name: str = ""
    visible: str | None = None

    @property
    def environment(self) -> dict[str, str]:
        return {} if self.visible is None else {"CUDA_VISIBLE_DEVICES": self.visible}


def parse_devices(text: str) -> tuple[str, ...]:
    """Split 'cuda:0,cuda:1', 'cuda' (all GPUs) or 'cpu,cpu' into device names.

    Raises:
        UserError: a name is invalid, or GPUs and the CPU are mixed.
    """
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in (CPU, "cuda") and not _CARD.fullmatch(name):
            raise UserError(
                f"--devices has '{name}'; use cuda:0, cuda:1, …, cuda for all GPUs, or cpu, "
                "separated by commas.",
                kind="unknown-name",
                value=name,
            )
    if CPU in names and len(set(names)) > 1:
        raise UserError(
            "--devices mixes GPUs and the CPU, whose results differ in the last digits; use only "
            "one kind.",
            kind="contradiction",
            value=names,
        )
    return names


def check_devices(text: str) -> None:
    """Check `--devices` as far as possible without loading torch.

    Raises:
        UserError: see `parse_devices`, or a GPU is given and torch is CPU-only.
    """
    cards = [name for name in parse_devices(text) if name != CPU]
    try:
        alone = bool(cards) and version("torch").endswith("+cpu")
    except PackageNotFoundError:
        return
    if alone:
        raise UserError(
            f"There is no device {cards[0]}: this build of torch is CPU-only.",
            kind="no-device",
            value=cards[0],
        )


def places_on(names: Sequence[str], cards: Sequence[str], units: Sequence[Unit]) -> list[Place]:
    """Return a place for each device name, in order; repeated names get several.

    Args:
        names: see `parse_devices`.
        cards: the visible GPUs by their names in CUDA_VISIBLE_DEVICES; cuda:0 is the first.
        units: the units of the sweep.

    Raises:
        UserError: a GPU does not exist, or the runs may not use these devices.
    """
    wanted = {unit.config.device for unit in units if isinstance(unit, Training)}
    places: list[Place] = []
    for name in names:
        if name == CPU:
            if "cuda" in wanted:
                raise UserError(
                    "--devices is cpu, but some runs need device 'cuda'; change one of them.",
                    kind="contradiction",
                    value=name,
                )
            places.append(Place(CPU, ""))
            continue
        if units and not wanted & {*_GPU}:
            raise UserError(
                f"--devices has {name}, but no run may use a GPU: their device is "
                f"'{min(wanted, default=CPU)}'; set it to 'auto' or 'cuda'.",
                kind="contradiction",
                value=name,
            )
        indices = range(len(cards)) if name == "cuda" else [int(name.removeprefix("cuda:"))]
        if not indices or max(indices) >= len(cards):
            shown = ", ".join(f"cuda:{index}" for index in range(len(cards))) or "none"
            raise UserError(
                f"There is no device {name}. Available GPUs: {shown}.",
                kind="no-device",
                value=name,
            )
        places += [Place(f"cuda:{index}", cards[index]) for index in indices]
    return places


def usable_gpus(units: Sequence[Unit]) -> tuple[str, ...]:
    """Return the GPUs that these units may use, by their names in CUDA_VISIBLE_DEVICES."""
    if not any(isinstance(unit, Training) and unit.config.device in _GPU for unit in units):
        return ()
    import torch

    count = torch.cuda.device_count()
    named = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    named = [name.strip() for name in named if name.strip()]
    return tuple(named[:count]) if named else tuple(str(index) for index in range(count))
