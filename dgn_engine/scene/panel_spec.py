"""What a panel is given and what it declares: `View`, `Option`, `PanelSpec`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from dgn_engine.config import RunConfig
from dgn_engine.plugins import discover
from dgn_engine.protocol.catalogue import RegimeEntry
from dgn_engine.protocol.frames import Array, Reading
from dgn_engine.protocol.messages import Command
from dgn_engine.protocol.training import LayerInfo, Measured, RunStarted
from dgn_engine.protocol.watching import ProbeExamples
from dgn_engine.scene.elements import Dash, Mark, Role, Shown
from dgn_engine.scene.selection import Selection


@dataclass(frozen=True)
class Series:
    """A recorded scalar over steps: `steps` int64, `values` float64, same length.

    `run`: which run measured it (`run_key`, or the folder of another run); '' where nobody asks.
    """

    steps: Array
    values: Array
    run: str = ""

    def until(self, step: int | None) -> Series:
        """Its points up to a step, that one included; all of them where it is None."""
        if step is None or not self.steps.size or self.steps[-1] <= step:
            return self
        count = int(np.searchsorted(self.steps, step, side="right"))
        return Series(self.steps[:count], self.values[:count], self.run)


def run_key(run: RunStarted | None) -> str:
    """Return what the curves of the run on show carry as their `run`."""
    return "" if run is None else f"run {run.run}"


@dataclass(frozen=True)
class ComparedRun:
    """What the run is compared with (B): a network of a file or a recorded run, and its readings.

    Its readings are of the same probe examples as those of the run (A). `own`: it is another step
    of the run itself; their curves are the same ones, and `series` is empty. `labels`: what titles
    and legends call A and B, where that is not 'A' and 'B'.

    `run`: which run it is, as its `series` carry it. `at`: the step that B is to be; None: as it is
    now. `config`: its configuration, where that is known; `config_at`: whether it is that of `at`,
    so that it counts for what can be changed while a run trains, too.
    """

    name: str
    regime: str = ""
    layers: tuple[LayerInfo, ...] = ()
    wiring: tuple[int, ...] = ()
    step: int = 0
    readings: Mapping[str, Reading] = field(default_factory=dict)
    series: Mapping[tuple[str, str], Series] = field(default_factory=dict)
    own: bool = False
    labels: tuple[str, str] = ("", "")
    run: str = ""
    at: int | None = None
    config: RunConfig | None = None
    config_at: bool = True


@dataclass(frozen=True)
class OverlaidRun:
    """A recorded run whose curves are drawn over those of the run, in one colour and dash.

    `examples[probe]`: of how many probe examples its scalars are. `spectrum`: 'eigenvalues' and
    'cumulative' of its path kernel, recorded at `spectrum_step`, of what `spectrum_remark` says.
    """

    name: str
    role: Role
    dash: Dash
    series: Mapping[tuple[str, str], Series] = field(default_factory=dict)
    spectrum: Mapping[str, Array] = field(default_factory=dict)
    spectrum_step: int = 0
    spectrum_remark: str = ""
    examples: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class View:
    """What a panel is given: live, looking back, comparing and exporting use the same.

    `series[(source, name)]`: recorded scalars, source 'training' (train_loss, train_accuracy,
    test_loss, test_accuracy) or a probe's id. `choices`: the panel's options as they are now.
    `outdated[probe or score]`: what changed the network after its newest reading or value was
    measured; that is of another network than the one on show. `gaps[probe]`: from which step to
    which nobody watched it, so that its traces are broken there. `traced[probe]`: of how many
    probe examples its traces are. `left_out[source]`: where a long curve is thinned, how many of
    its points are drawn, and how many there were; of marks that of ''.

    `cursor`: the step that is looked back at; None: live. Readings, regime, wiring and step are
    then those of that step, while series and marks are of the whole run: the newest number of a
    series is the last of `series.until(view.cursor)`.
    """

    run: RunStarted | None = None
    regime: str = ""
    wiring: tuple[int, ...] = ()
    step: int = 0
    readings: Mapping[str, Reading] = field(default_factory=dict)
    series: Mapping[tuple[str, str], Series] = field(default_factory=dict)
    marks: tuple[Mark, ...] = ()
    last: Measured | None = None
    choices: Mapping[str, str] = field(default_factory=dict)
    paused: bool = False
    trains: bool = True  # steps are being made: no run that ended, and the engine answers
    diverged: int | None = None  # the step at which the loss was no longer finite
    compared: ComparedRun | None = None
    overlaid: tuple[OverlaidRun, ...] = ()
    probe_examples: int = 0  # that were asked for; 0 where they cannot be chosen
    outdated: Mapping[str, Mark] = field(default_factory=dict)  # see above
    gaps: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    traced: Mapping[str, int] = field(default_factory=dict)  # see above
    left_out: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # see above
    pictures: ProbeExamples | None = None  # the probe examples, where they are known
    cursor: int | None = None  # see above
    regimes: tuple[RegimeEntry, ...] = ()  # that a run can be put into
    tested: bool = True  # whether the regime has gates for test examples


Values = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Option:
    """A choice in a panel's header. `values(view)` lists (value, label); the first is the default.
    `engine`: the choice is sent with the probe request (a chosen unit costs the engine work).
    An option with fewer than two values is hidden. `follows`: while something of this kind is
    pinned in any panel, the n-th of it (from 0) is what is chosen, where it is offered.
    """

    id: str
    label: str
    values: Callable[[View], Values]
    engine: bool = False
    follows: tuple[str, int] | None = None

    def following(self, pinned: Selection) -> str:
        """The value that what is pinned asks for; '' where it asks for none."""
        kind, place = self.follows or ("", 0)
        ids = pinned.of(kind)
        return str(ids[place]) if place < len(ids) else ""


@dataclass(frozen=True)
class Trial:
    """What to try next: a button that does it, and in a sentence what to watch then.

    `commands(view)`: what the button asks the engine for; nothing where it cannot be tried now.
    """

    label: str
    watch: str
    commands: Callable[[View], tuple[Command, ...]]


@dataclass(frozen=True)
class About:
    """'What am I seeing': a paragraph, formulas in TeX (mathtext), and where they come from.

    `symbols`: what each letter of the formulas means. `computed`: how the numbers are come by here:
    exactly, or estimated and from what.
    """

    text: str
    formulas: tuple[str, ...] = ()
    source: str = ""
    computed: str = ""
    symbols: str = ""
    trials: tuple[Trial, ...] = ()


@dataclass(frozen=True)
class PanelSpec:
    """One panel: its title, the probes that feed it, its options and the function that draws it."""

    title: str
    probes: tuple[str, ...]
    draw: Callable[[View], Shown]
    about: About
    options: tuple[Option, ...] = ()
    area: Literal["left", "right"] = "right"
    order: int = 0  # within its area, from the top
    compares: bool = False  # opened with a comparison and closed with it
    opened: bool = True  # at first; others by View, Panels, or a layout that names them
    prompt: bool = False  # drawn as soon as it changes; others wait their turn where time is short


def always(*values: tuple[str, str]) -> Callable[[View], Values]:
    """The values of an option that offers the same in every view."""
    return lambda view: values


def choice(view: View, option: Option) -> str:
    """The chosen value of an option, or its default where nothing valid is chosen."""
    values = [value for value, _ in option.values(view)]
    wanted = view.choices.get(option.id, "")
    return wanted if wanted in values else (values[0] if values else "")


def all_panels() -> dict[str, PanelSpec]:
    """Every panel by id (its file name), in the order of the menus: those open at first lead."""
    found = discover("dgn_engine.panels", "PANEL", PanelSpec)
    order = ((not one.opened, one.area, one.order) for one in found.values())
    placed = dict(zip(found, order, strict=True))
    return {name: found[name] for name in sorted(found, key=placed.__getitem__)}
