"""The regimes, networks, data sets and experiments that the viewer can offer."""

from __future__ import annotations

from dgn_engine.config.setting import Setting
from dgn_engine.frozen_data import dataclass


@dataclass(frozen=True)
class RegimeEntry:
    """A gating regime, as a selector shows it."""

    id: str  # 'DL', 'FR-II', … as written in a configuration
    title: str
    about: str
    own_gates: bool  # its own gates: no feature network, no wiring
    soft: bool
    trains_feature: bool
    group: str = ""  # its heading under 'More' in a chooser: 'Fixed gates'
    in_sight: bool = False  # offered at once by a chooser; the others are under 'More'
    takes_gates: bool = False  # its gates are copied from a checkpoint, or pre-trained
    for_copied_gates: bool = False  # a run switches to it when gates of a file are copied
    standard: bool = False  # an ordinary network, as from other programs
    drawn_gates: bool = False  # Bernoulli gates: there is no feature network
    open_gates: bool = False  # every gate is open
    trains_value: bool = True

    @property
    def frozen_noise(self) -> bool:
        """True if the gates are those of a random network that is not trained."""
        other = self.own_gates or self.soft or self.takes_gates or self.drawn_gates
        return self.trains_value and not (other or self.trains_feature or self.open_gates)

    @property
    def gates_alone(self) -> bool:
        """True if the gates are trained but the values are not."""
        return self.trains_feature and not self.trains_value


@dataclass(frozen=True)
class NetEntry:
    id: str
    title: str
    options: tuple[Setting, ...]


@dataclass(frozen=True)
class DataEntry:
    """A data set and its options. `available`: it can be loaded without a download."""

    id: str
    title: str
    available: bool
    hint: str  # how to get it, if it is not available
    options: tuple[Setting, ...] = ()
    takes_path: bool = False  # written as name:PATH
    rooted: bool = False  # stored in the data folder
    plane: bool = False  # points in the plane, for teaching
    points: tuple[tuple[float, float, int], ...] = ()  # a few of them (x, y, class), as a picture

    @property
    def missing(self) -> bool:
        return not self.available


@dataclass(frozen=True)
class ExperimentEntry:
    """An experiment of the papers, as a list shows it. Costs are estimates, in words."""

    id: str
    title: str
    paper: str
    about: str
    protocols: tuple[str, ...]
    quick_cost: str
    full_cost: str
    rows: tuple[str, ...] = ()  # that can be computed alone
    asks: tuple[str, ...] = ()  # its own settings: 'steps', 'augmentation'
    question: str = ""  # what it asks, in plain words; empty: the title


@dataclass(frozen=True)
class Catalogue:
    """All choices that menus and forms can offer."""

    regimes: tuple[RegimeEntry, ...]
    nets: tuple[NetEntry, ...]
    data: tuple[DataEntry, ...]
    probes: tuple[str, ...]
    devices: tuple[str, ...]
    experiments: tuple[ExperimentEntry, ...] = ()
