"""What an experiment is: a plan of units for a request, and the findings read out of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from dgn_engine.config import Augmentation, Device
from dgn_engine.protocol.results import Findings
from dgn_engine.sweep.unit import Unit
from dgn_engine.sweep.unit_results import UnitResults

Scale = Literal["quick", "full"]
Protocol = Literal["as-published", "as-in-code"]
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
        """Whether the experiment is scaled down."""
        return self.scale == "quick"

    def seed_range(self, quick: int, full: int) -> range:
        """Return the seeds 0, 1, …: as many as were asked for, else the experiment's own number."""
        return range(self.seeds or (quick if self.quick else full))

    def epochs_or(self, quick: int, full: int) -> int:
        """Return the number of epochs that was asked for, else the experiment's own."""
        return self.epochs or (quick if self.quick else full)


@dataclass(frozen=True)
class Plan:
    """Units in an order in which each comes after its needs, and what a reader must know.

    `scaled_down`: how the quick scale differs from the paper's, a sentence each (reports of the
    full scale leave it out); `choices`: what the paper does not print and was chosen here.
    """

    units: tuple[Unit, ...]
    scaled_down: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()


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
