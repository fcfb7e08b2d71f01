"""Where processes of a sweep compute: on which cards, as CUDA shows them here, or on the CPU."""

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
    """Room for one process. `name`: 'cuda:1' or 'cpu', '' where any core will do; `visible`: what
    CUDA_VISIBLE_DEVICES is there, None: as it is here."""

    name: str = ""
    visible: str | None = None

    @property
    def environment(self) -> dict[str, str]:
        return {} if self.visible is None else {"CUDA_VISIBLE_DEVICES": self.visible}


def parse_devices(text: str) -> tuple[str, ...]:
    """Return the names in 'cuda:0,cuda:1', 'cuda' (every card) or 'cpu,cpu', as they stand there.

    Raises:
        UserError: a name is none of a device, or cards and the CPU are mixed.
    """
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in (CPU, "cuda") and not _CARD.fullmatch(name):
            raise UserError(
                f"--devices names '{name}'; it takes cuda:0, cuda:1 and so on, cuda for every "
                "card, or cpu, with commas between them.",
                kind="unknown-name",
                value=name,
            )
    if CPU in names and len(set(names)) > 1:
        raise UserError(
            "--devices mixes cards and the CPU, whose results differ in their last digits; name "
            "one kind.",
            kind="contradiction",
            value=names,
        )
    return names


def check_devices(text: str) -> None:
    """Refuse what `--devices` names at once where that can be told without loading torch.

    Raises:
        UserError: as `parse_devices`, or a card is named and torch was built for the CPU alone.
    """
    cards = [name for name in parse_devices(text) if name != CPU]
    try:
        alone = bool(cards) and version("torch").endswith("+cpu")
    except PackageNotFoundError:
        return
    if alone:
        raise UserError(
            f"There is no device {cards[0]} here: this build of torch is for the CPU alone.",
            kind="no-device",
            value=cards[0],
        )


def places_on(names: Sequence[str], cards: Sequence[str], units: Sequence[Unit]) -> list[Place]:
    """Return a place for each named device, in order; a name that occurs twice has two.

    `cards`: what CUDA_VISIBLE_DEVICES calls those that may be seen, cuda:0 the first of them.

    Raises:
        UserError: a card is not there, or no run (or not every run) may use these devices.
    """
    wanted = {unit.config.device for unit in units if isinstance(unit, Training)}
    places: list[Place] = []
    for name in names:
        if name == CPU:
            if "cuda" in wanted:
                raise UserError(
                    "--devices names the CPU, and runs here ask for device 'cuda'; leave one out.",
                    kind="contradiction",
                    value=name,
                )
            places.append(Place(CPU, ""))
            continue
        if units and not wanted & {*_GPU}:
            raise UserError(
                f"--devices names {name}, and no run here may use a card: their device is "
                f"'{min(wanted, default=CPU)}'; choose 'auto' or 'cuda' there.",
                kind="contradiction",
                value=name,
            )
        found = range(len(cards)) if name == "cuda" else [int(name.removeprefix("cuda:"))]
        if not found or max(found) >= len(cards):
            shown = ", ".join(f"cuda:{index}" for index in range(len(cards))) or "none"
            raise UserError(
                f"There is no device {name} here; cards that CUDA shows: {shown}.",
                kind="no-device",
                value=name,
            )
        places += [Place(f"cuda:{index}", cards[index]) for index in found]
    return places


def gpus(units: Sequence[Unit]) -> tuple[str, ...]:
    """Return the GPUs that these units would use, as CUDA_VISIBLE_DEVICES names them."""
    if not any(isinstance(one, Training) and one.config.device in _GPU for one in units):
        return ()
    import torch

    count = torch.cuda.device_count()
    named = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    named = [name.strip() for name in named if name.strip()]
    return tuple(named[:count]) if named else tuple(str(index) for index in range(count))
