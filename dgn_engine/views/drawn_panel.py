"""A panel with its settings, drawn from one view after another, and only if it would change."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from dgn_engine.frozen_data import dataclass
from dgn_engine.plugins import OptionValue
from dgn_engine.protocol.runs import TRAINING
from dgn_engine.protocol.watching import ProbeRequest
from dgn_engine.scene.compared import compared_view
from dgn_engine.scene.elements import Scene, Shown
from dgn_engine.scene.panel_spec import PREDICTIONS, PanelSpec, View, chosen_value
from dgn_engine.scene.selection import NOTHING, Selection
from dgn_engine.scene.side_by_side import scene_of_both

_FIELDS = frozenset(one.name for one in dataclasses.fields(View))
_BY_SOURCE = ("readings", "series")


@dataclass(frozen=True)
class TrackedView(View):
    """A view that records which of its fields are read."""

    noted: set[str] = field(default_factory=set)

    def __getattribute__(self, name: str) -> Any:
        if name in _FIELDS:
            object.__getattribute__(self, "noted").add(name)
        return object.__getattribute__(self, name)


def draw_panel(spec: PanelSpec, view: View) -> Shown:
    """Return what a panel shows of a view; in a comparison, of A and of B."""
    view_of_b = None if spec.draws_both else compared_view(view)
    if view_of_b is None or view.compared is None:
        return spec.draw(view)
    ours = spec.draw(dataclasses.replace(view, compared=None))
    return scene_of_both(ours, spec.draw(view_of_b), view.compared)


class DrawnPanel:
    """Draws a panel with its own choices.

    Args:
        spec: The panel.
        choices: Chosen options of its header.
    """

    def __init__(self, spec: PanelSpec, choices: Mapping[str, str] | None = None) -> None:
        self.spec = spec
        self.view = View()  # including the choices
        self.choices: Mapping[str, str] = choices or {}
        self._by_hand: set[str] = set()  # options that the user chose since something was pinned
        self._noted: set[str] = set()  # fields of the view that the picture depends on
        self._made_of = View()
        self._shown: Shown | None = None

    def draw(self, view: View) -> Shown:
        """Return what the panel shows of the view, which becomes `view`.

        If nothing that it read has changed, it is not drawn again, and the previous object is
        returned.
        """
        self.view = view
        if self._shown is None or not self._is_up_to_date(view):
            self._shown, self._made_of, self._noted = None, view, set()
            self._shown = draw_panel(self.spec, TrackedView(**vars(view), noted=self._noted))
        return self._shown

    def draw_with(self, option: str, value: str) -> Scene | None:
        """Return what the panel would draw with another choice; None if that is nothing."""
        view = dataclasses.replace(self.view, choices={**self.view.choices, option: value})
        shown = draw_panel(self.spec, TrackedView(**vars(view), noted=self._noted))
        return shown if isinstance(shown, Scene) else None

    def other_choices(self) -> list[tuple[str, str]]:
        """Return the (option, value) pairs that can be drawn without asking the engine."""
        return [
            (option.id, value)
            for option in self.spec.options
            if not option.engine
            for value, _ in option.values(self.view)
        ]

    def probe_requests(self) -> tuple[ProbeRequest, ...]:
        """Return what the engine has to measure for this panel with its current settings."""
        options: list[tuple[str, OptionValue]] = []
        for option in self.spec.options:
            if option.engine and (value := chosen_value(self.view, option)):
                options.append((option.id, int(value) if value.isdecimal() else value))
        requests = (ProbeRequest(probe, tuple(options)) for probe in self.spec.probes)
        return (*requests, *(ProbeRequest(PREDICTIONS),) * self.spec.shows_examples)

    def choose_value(self, option: str, value: str) -> bool:
        """Set an option for the user; return whether the choice has changed."""
        self._by_hand.add(option)
        if self.choices.get(option, "") == self.view.choices.get(option, "") == value:
            return False
        self.choices = {**self.choices, option: value}
        return True

    def follow_pin(self) -> None:
        """Let pinned items set options again, whatever the user chose."""
        self._by_hand.clear()

    def with_choices(self, view: View, pinned: Selection = NOTHING) -> View:
        """Return the view with this panel's choices.

        A pinned item is chosen if an option follows it, it is offered, and the user has chosen
        nothing else since.
        """
        view = dataclasses.replace(view, choices=dict(self.choices))
        for option in self.spec.options:
            value = "" if option.id in self._by_hand else option.pinned_value(pinned)
            if value and value in dict(option.values(view)):
                view = dataclasses.replace(view, choices={**view.choices, option.id: value})
        return view

    def _is_up_to_date(self, view: View) -> bool:
        """Return whether the current picture was made from the same inputs."""
        return all(
            _is_same(self._read_input(self._made_of, name), self._read_input(view, name))
            for name in self._noted
        )

    def _read_input(self, view: View, name: str) -> object:
        """Return a field of a view; for readings and curves, those that feed the panel."""
        value = getattr(view, name)
        if name not in _BY_SOURCE:
            return value
        sources = self.spec.probes or (TRAINING,)
        return {
            key: one
            for key, one in value.items()
            if (key if isinstance(key, str) else key[0]) in sources
        }


def _is_same(one: object, other: object) -> bool:
    """Return whether two inputs are the same object, or equal plain values or collections.

    Readings and curves are never compared by content: new ones are other objects.
    """
    if one is other:
        return True
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_is_same, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    return isinstance(one, str | int | float) and type(one) is type(other) and one == other
