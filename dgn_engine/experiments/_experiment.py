"""An experiment: a plan of units for a request, and the findings read from their results.

An option that would not change the plan is an error, or is ignored if several experiments share
the request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Literal

from dgn_engine.config import MOST_SEED, Augmentation, Device
from dgn_engine.errors import UserError
from dgn_engine.frozen_data import dataclass
from dgn_engine.protocol.experiments import Findings
from dgn_engine.sweep.unit import Unit

if TYPE_CHECKING:
    from dgn_engine.sweep.unit_results import UnitResults

Scale = Literal["quick", "full"]
Protocol = Literal["as-published", "as-in-code"]
CHOSEN_HERE, NOTEBOOKS = "chosen here", "authors' notebooks"  # source of the number of epochs
Question = Literal["steps", "augmentation"]


@dataclass(frozen=True)
class Request:
    """The options of a reproduction; 0 and '' leave the choice to the experiment.

    Attributes:
        scale: 'quick' (at most three minutes on two CPU cores, on the digits that come with the
            package unless `data` is set) or 'full' (the paper's scale).
        protocol: follow the paper, or the authors' code.
        seeds: number of seeds.
        seed_start: first seed, so that several sessions can add seeds to one folder.
        epochs: number of epochs.
        only: run only rows whose label contains this.
        data, data_root: data set and where to find it.
        download: whether to download missing data.
        steps: learning rates to try where the paper takes the best of several.
        device: device to train on.
        augmentation: augmentation of the training images.
        train_limit, test_limit: maximum number of examples, balanced over the classes.
    """

    scale: Scale = "quick"
    protocol: Protocol = "as-published"
    seeds: int = 0
    seed_start: int = 0
    epochs: int = 0
    only: str = ""
    data: str = ""
    data_root: str = ""
    download: bool = False
    steps: tuple[float, ...] = ()
    device: Device = "auto"
    augmentation: Augmentation = "none"
    train_limit: int = 0
    test_limit: int = 0

    @property
    def quick(self) -> bool:
        return self.scale == "quick"

    def seed_range(self, quick: int, full: int) -> range:
        """Return the seeds from `seed_start` on; raises `UserError` for an invalid seed."""
        count = self.seeds or (quick if self.quick else full)
        seeds = range(self.seed_start, self.seed_start + count)
        if seeds.start < 0 or seeds.stop - 1 > MOST_SEED:
            raise UserError(
                f"The seeds are {seeds.start} to {seeds.stop - 1}; they must be between 0 and "
                f"{MOST_SEED}.",
                kind="out-of-bounds",
                value=seeds,
            )
        return seeds

    def epochs_or(self, quick: int, full: int) -> int:
        return self.epochs or (quick if self.quick else full)


@dataclass(frozen=True)
class Plan:
    """The units of an experiment, and notes for the reader.

    Attributes:
        units: ordered so that each comes after its needs.
        scaled_down: phrases on how the quick scale differs; not shown at full scale.
        choices: phrases on what the paper leaves open and was chosen here.
        epochs_from: source of the number of epochs at full scale, such as `NOTEBOOKS`.
    """

    units: tuple[Unit, ...]
    scaled_down: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    epochs_from: str = CHOSEN_HERE


@dataclass(frozen=True)
class Experiment:
    """A table, figure or theorem of a paper.

    All fields except the functions must be literals, because the viewer reads them from the source.

    Attributes:
        title, paper, about: shown in lists and reports.
        plan: returns the units for a request.
        findings: reads the results of the units.
        quick_minutes: estimated time at quick scale on two CPU cores; 0 if unknown.
        full_hours: the same at full scale.
        claims: ids of the claims that it tests.
        protocols: supported protocols.
        rows: labels that the request's `only` can choose.
        asks: special options that it supports.
        reproduces: whether it reproduces a paper; if not, its result has no scale or protocol.
        question: what it asks, in words that need no paper; shown in the window. Empty: the title.
    """

    title: str
    paper: str
    about: str
    plan: Callable[[Request], Plan]
    findings: Callable[[Request, UnitResults], Findings]
    quick_minutes: float
    full_hours: float
    claims: tuple[str, ...] = ()
    protocols: tuple[Protocol, ...] = field(default=("as-published",))
    rows: tuple[str, ...] = ()
    asks: tuple[Question, ...] = ()
    reproduces: bool = True
    question: str = ""


# Pairs of values that give different plans if an option has an effect.
_PROBES: Mapping[str, tuple[Any, Any]] = {
    "only": ("", "\0"),  # contained in no label
    "steps": ((0.123,), (0.321,)),
    "augmentation": ("none", "davidnet"),
    "data": ("digits", "mnist"),
    "data_root": ("", "elsewhere"),
    "download": (False, True),
    "epochs": (1, 2),
    "seeds": (1, 2),
    "seed_start": (0, 1),
    "train_limit": (1, 2),
    "test_limit": (1, 2),
    "device": ("auto", "cpu"),
}


def check_options(name: str, experiment: Experiment, request: Request) -> None:
    """Raise `UserError` for an option that has no effect in combination with the others."""
    for option in _ineffective_options(experiment, request):
        only = Request(scale=request.scale, protocol=experiment.protocols[0])
        only = replace(only, **{option: getattr(request, option)})
        alone = option in _ineffective_options(experiment, only)
        context = "" if alone else " with the other options"
        text = option.replace("_", "-")
        raise UserError(
            f"--{text} has no effect on {name}{context}; remove it.",
            kind="no-effect",
            value=option,
        )


def effective_request(experiment: Experiment, request: Request) -> Request:
    """Return the request without options that have no effect."""
    defaults = {
        name: getattr(Request(), name) for name in _ineffective_options(experiment, request)
    }
    return replace(request, **defaults)


def _ineffective_options(experiment: Experiment, request: Request) -> Iterator[str]:
    """Yield the options of the request on which the plan does not depend."""
    if not experiment.plan(request).units:
        return  # no rows are left, which is reported elsewhere
    for name, probes in _PROBES.items():
        if getattr(request, name) != getattr(Request(), name):
            units, other_units = (
                experiment.plan(replace(request, **{name: probe})).units for probe in probes
            )
            if units == other_units:
                yield name
