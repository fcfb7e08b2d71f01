"""Input and declaration of a panel: `View`, `Option`, `PanelSpec`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Literal

import numpy as np

from dgn_engine.config import RunConfig
from dgn_engine.frozen_data import dataclass
from dgn_engine.plugins import discover_plugins
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

    `run`: the run that measured it (`run_key`, or the folder of another run); '' if irrelevant.
    """

    steps: Array
    values: Array
    run: str = ""

    def until(self, step: int | None) -> Series:
        """Return its points up to and including a step; all of them if it is None."""
        if step is None or not self.steps.size or self.steps[-1] <= step:
            return self
        count = int(np.searchsorted(self.steps, step, side="right"))
        return Series(self.steps[:count], self.values[:count], self.run)


def run_key(run: RunStarted | None) -> str:
    """Return the `run` of curves that belong to the run on show."""
    return "" if run is None else f"run {run.run}"


@dataclass(frozen=True)
class ComparedRun:
    """What the run is compared with (B): a network from a file or a recorded run.

    Its readings use the same probe examples as those of the run (A). `own`: B is another step of
    the run itself; the curves are the same, and `series` is empty. `labels`: what titles and
    legends call A and B, if not 'A' and 'B'.

    `run`: which run it is, as in its `series`. `at`: the step of B; None: its current state.
    `config`: its configuration, if known; `config_at`: whether that is the configuration at `at`,
    so that it also covers what can be changed while a run trains.
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

    `examples[probe]`: number of probe examples of its scalars. `spectrum`: 'eigenvalues' and
    'cumulative' of its path kernel, recorded at `spectrum_step`; see `spectrum_remark`.
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
    """Everything a panel draws from, whether live, looking back, comparing or exporting.

    `series[(source, name)]`: recorded scalars; the source is 'training' (train_loss,
    train_accuracy, test_loss, test_accuracy) or a probe's id. `choices`: the panel's options as
    they are set. `outdated[probe or score]`: the change of the network since its newest reading or
    value, which is thus of an earlier network. `gaps[probe]`: intervals of steps in which nobody
    watched it, so its traces are broken there. `traced[probe]`: number of probe examples of its
    traces. `left_out[source]`: for a thinned curve, points drawn and points recorded; '' is for
    marks.

    `cursor`: the step looked back at; None: live. Readings, regime, wiring and step are then those
    of that step, while series and marks cover the whole run: the newest number of a series is the
    last of `series.until(view.cursor)`.
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
    trains: bool = True  # steps are being taken: the run has not ended, the engine responds
    diverged: int | None = None  # the step at which the loss was no longer finite
    compared: ComparedRun | None = None
    overlaid: tuple[OverlaidRun, ...] = ()
    probe_examples: int = 0  # number requested; 0 if it cannot be chosen
    outdated: Mapping[str, Mark] = field(default_factory=dict)  # see above
    gaps: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    traced: Mapping[str, int] = field(default_factory=dict)  # see above
    left_out: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # see above
    pictures: ProbeExamples | None = None  # the probe examples, if known
    cursor: int | None = None  # see above
    regimes: tuple[RegimeEntry, ...] = ()  # that a run can be swapped to
    tested: bool = True  # the regime has gates for test examples


PREDICTIONS = "predictions"  # the probe of what the network answers for each example
Values = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Option:
    """A choice in a panel's header.

    `values(view)` lists (value, label), the default first; with fewer than two it is hidden.
    `engine`: sent with the probe request (another unit costs the engine work). `follows`: while
    something of this kind is pinned in any panel, its n-th item (from 0) is chosen, if offered.
    """

    id: str
    label: str
    values: Callable[[View], Values]
    engine: bool = False
    follows: tuple[str, int] | None = None

    def pinned_value(self, pinned: Selection) -> str:
        """Return the value that the pinned items ask for; '' if they ask for none."""
        kind, index = self.follows or ("", 0)
        ids = pinned.ids_of_kind(kind)
        return str(ids[index]) if index < len(ids) else ""


@dataclass(frozen=True)
class Trial:
    """A thing to try next: a button that does it, and a sentence on what to watch.

    `commands(view)`: the commands that the button sends; none if it cannot be tried now.
    """

    label: str
    watch: str
    commands: Callable[[View], tuple[Command, ...]]


@dataclass(frozen=True)
class About:
    """The text of 'About this panel': a paragraph, formulas in TeX (mathtext), their source.

    `symbols`: the meaning of each letter in the formulas. `computed`: how the numbers are obtained,
    exactly or by an estimate.
    """

    text: str
    formulas: tuple[str, ...] = ()
    source: str = ""
    computed: str = ""
    symbols: str = ""
    trials: tuple[Trial, ...] = ()


@dataclass(frozen=True)
class PanelSpec:
    """A panel: its title, the probes that feed it, its options and its drawing function."""

    title: str
    probes: tuple[str, ...]
    draw: Callable[[View], Shown]
    about: About
    options: tuple[Option, ...] = ()
    area: Literal["left", "right"] = "right"
    order: int = 0  # within its area, from the top
    compares: bool = False  # opens and closes with a comparison
    draws_both: bool = False  # draws A and B itself; of others, both pictures are drawn
    opened: bool = True  # by default; others via View, Panels, or a layout
    prompt: bool = False  # drawn as soon as it changes; others wait if time is short
    shows_examples: bool = False  # its rows are examples: what the network answers is read too


def always(*values: tuple[str, str]) -> Callable[[View], Values]:
    """Return the values of an option that offers the same in every view."""
    return lambda view: values


def chosen_value(view: View, option: Option) -> str:
    """Return the chosen value of an option, or its default if that is not valid."""
    values = [value for value, _ in option.values(view)]
    selected = view.choices.get(option.id, "")
    return selected if selected in values else (values[0] if values else "")


def all_panels() -> dict[str, PanelSpec]:
    """Return every panel by id (its file name) in menu order: open by default first."""
    panels = discover_plugins("dgn_engine.panels", "PANEL", PanelSpec)
    order = ((not panel.opened, panel.area, panel.order) for panel in panels.values())
    order_by_name = dict(zip(panels, order, strict=True))
    return {name: panels[name] for name in sorted(panels, key=order_by_name.__getitem__)}
