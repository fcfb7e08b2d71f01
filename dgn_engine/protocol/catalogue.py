"""What the engine can do, told to the viewer as data when the engine is ready."""

from __future__ import annotations

from dataclasses import dataclass

from dgn_engine.config import OptionValue


@dataclass(frozen=True)
class OptionField:
    """One question of the form of a network or a data set."""

    name: str
    label: str
    default: OptionValue
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class RegimeEntry:
    """A gating regime as the selector shows it."""

    id: str  # 'DL', 'FR-II', … as written in a configuration
    title: str
    about: str
    own_gates: bool  # the network's own gates: no feature network, nothing to wire
    soft: bool
    trains_feature: bool
    group: str = ""  # what it stands under in a selector: 'Fixed gates'
    takes_gates: bool = False  # its gates are copied from a checkpoint, or learnt first
    for_copied_gates: bool = False  # a run enters it when gates of a file are copied
    standard: bool = False  # what networks of other programs are
    drawn_gates: bool = False  # Bernoulli gates: there is no feature network
    open_gates: bool = False  # every gate stands open
    trains_value: bool = True


@dataclass(frozen=True)
class NetEntry:
    """A network and its form."""

    id: str
    title: str
    options: tuple[OptionField, ...]


@dataclass(frozen=True)
class DataEntry:
    """A data set and its form; `available` says whether it can be loaded now without a download."""

    id: str
    title: str
    available: bool
    hint: str  # how to get it where it is not available
    options: tuple[OptionField, ...] = ()


@dataclass(frozen=True)
class ExperimentEntry:
    """An experiment of the papers as a menu shows it; its costs in words, estimates."""

    id: str
    title: str
    paper: str
    about: str
    protocols: tuple[str, ...]
    quick_cost: str
    full_cost: str
    rows: tuple[str, ...] = ()  # one of which can be asked for alone
    asks: tuple[str, ...] = ()  # settings of its own: 'steps', 'augmentation'


@dataclass(frozen=True)
class Catalogue:
    """Everything that menus and forms can offer."""

    regimes: tuple[RegimeEntry, ...]
    nets: tuple[NetEntry, ...]
    data: tuple[DataEntry, ...]
    probes: tuple[str, ...]
    devices: tuple[str, ...]
    experiments: tuple[ExperimentEntry, ...] = ()
