"""What an experiment is: a plan of units for a request, and the findings read out of them.

An option that would not change the plan is refused, or left out where several experiments share
the request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from dgn_engine.config import MOST_SEED, Augmentation, Device
from dgn_engine.errors import UserError
from dgn_engine.protocol.experiments import Findings
from dgn_engine.sweep.unit import Unit

if TYPE_CHECKING:
    from dgn_engine.sweep.unit_results import UnitResults

Scale = Literal["quick", "full"]
Protocol = Literal["as-published", "as-in-code"]
CHOSEN_HERE, NOTEBOOKS = "chosen here", "authors' notebooks"  # where epochs are from
Question = Literal["steps", "augmentation"]


@dataclass(frozen=True)
class Request:
    """The options of one reproduction. 0 and '' leave the choice to the experiment.

    `quick`: at most three minutes on two CPU cores, with the digits that come with the package
    unless `data` names a data set; `full`: the paper's scale. `only`: rows whose label holds this.
    """

    scale: Scale = "quick"
    protocol: Protocol = "as-published"
    seeds: int = 0
    seed_start: int = 0  # the first seed; so, sittings with other starts add up in one folder
    epochs: int = 0
    only: str = ""
    data: str = ""
    data_root: str = ""
    download: bool = False  # data may be fetched
    steps: tuple[float, ...] = ()  # learning rates to try where the paper takes the best of some
    device: Device = "auto"
    augmentation: Augmentation = "none"  # of the training images
    train_limit: int = 0  # keep only so many training examples, balanced over the classes
    test_limit: int = 0  # likewise of the test set

    @property
    def quick(self) -> bool:
        return self.scale == "quick"

    def seed_range(self, quick: int, full: int) -> range:
        """Return the seeds, from `seed_start` on; raises `UserError` where one cannot be."""
        count = self.seeds or (quick if self.quick else full)
        seeds = range(self.seed_start, self.seed_start + count)
        if seeds.start < 0 or seeds.stop - 1 > MOST_SEED:
            raise UserError(
                f"The seeds are {seeds.start} to {seeds.stop - 1}; they must lie between 0 and "
                f"{MOST_SEED}.",
                kind="out-of-bounds",
                value=seeds,
            )
        return seeds

    def epochs_or(self, quick: int, full: int) -> int:
        return self.epochs or (quick if self.quick else full)


@dataclass(frozen=True)
class Plan:
    """Units in an order in which each comes after its needs, and what a reader must know.

    `scaled_down`: how the quick scale differs from the paper's, a sentence each (reports of the
    full scale leave it out); `choices`: what the paper does not print and was chosen here;
    `epochs_from`: where the epochs of the full scale are from, such as `NOTEBOOKS`.
    """

    units: tuple[Unit, ...]
    scaled_down: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    epochs_from: str = CHOSEN_HERE


@dataclass(frozen=True)
class Experiment:
    """One table, figure or theorem of a paper.

    `plan(request)` says what must be done; `findings(request, results)` reads what came out.
    `quick_minutes` on two CPU cores; `full_hours` of one CPU core, both estimates; 0 where
    nobody has measured. `rows`: the labels that `only` chooses among; `asks`: which of the
    request's special settings it answers to. All fields but the functions are literals: the
    viewer reads them from the source.
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
    reproduces: bool = True  # a paper; else its result has neither scale nor protocol


# Two values of an option that make two plans where it matters.
_PROBES: Mapping[str, tuple[Any, Any]] = {
    "only": ("", "\0"),  # no row's label holds it
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
    """Raise `UserError` for an option that would change nothing, with the others as they are."""
    for option in _ineffective(experiment, request):
        only = Request(scale=request.scale, protocol=experiment.protocols[0])
        only = replace(only, **{option: getattr(request, option)})
        alone = option in _ineffective(experiment, only)
        here = "" if alone else " with what else was asked"
        words = option.replace("_", "-")
        raise UserError(
            f"--{words} means nothing to {name}{here}; leave it out.",
            kind="no-effect",
            value=option,
        )


def effective_request(experiment: Experiment, request: Request) -> Request:
    """Return the request without the options that would change nothing."""
    defaults = {name: getattr(Request(), name) for name in _ineffective(experiment, request)}
    return replace(request, **defaults)


def _ineffective(experiment: Experiment, request: Request) -> Iterator[str]:
    """Yield the options that were asked for and that the plan does not depend on."""
    if not experiment.plan(request).units:
        return  # no row is left: that is another trouble
    for name, probes in _PROBES.items():
        if getattr(request, name) != getattr(Request(), name):
            one, other = (
                experiment.plan(replace(request, **{name: probe})).units for probe in probes
            )
            if one == other:
                yield name
