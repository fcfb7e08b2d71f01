"""What the layers strip shows, folded from events."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import PurePath

from dgn_engine.config import ValueInput
from dgn_engine.protocol.catalogue import RegimeEntry
from dgn_engine.protocol.events import (
    EngineReady,
    Event,
    LayerInfo,
    RegimeSwapped,
    Rewired,
    RunStarted,
    SettingChanged,
)
from dgn_viewer.strip.wiring import Order, identity


@dataclass(frozen=True)
class StripState:
    """The engine's last word on layers, gates and wiring."""

    regimes: tuple[RegimeEntry, ...] = ()
    layers: tuple[LayerInfo, ...] = ()
    order: Order = ()
    regime: str = ""
    source: str = ""  # the file that the gates came from
    value_input: ValueInput = "image"

    def after(self, event: Event) -> StripState:
        """What the event makes of it."""
        match event:
            case EngineReady(catalogue=catalogue):
                return dataclasses.replace(self, regimes=catalogue.regimes)
            case RunStarted(layers=layers, wiring=wiring):
                gating = event.config.gating
                from_file = event.regime == "FL" and bool(gating.gates_from)
                return dataclasses.replace(
                    self,
                    layers=layers,
                    order=wiring or identity(len(layers)),
                    regime=event.regime,
                    source=PurePath(gating.gates_from).name if from_file else "",
                    value_input=gating.value_input,
                )
            case RegimeSwapped(after=regime, source=source):
                return dataclasses.replace(self, regime=regime, source=source)
            case Rewired(order=order):
                return dataclasses.replace(self, order=order)
            case SettingChanged(value_input=value_input):
                return dataclasses.replace(self, value_input=value_input)
            case _:
                return self

    @property
    def entry(self) -> RegimeEntry | None:
        """The regime as the catalogue describes it."""
        return next((entry for entry in self.regimes if entry.id == self.regime), None)

    @property
    def own_gates(self) -> bool:
        """The network makes its own gates: nothing to wire."""
        return self.entry is not None and self.entry.own_gates

    @property
    def frozen(self) -> bool:
        """There is a feature network, and it stands still."""
        return self.entry is not None and not self.own_gates and not self.entry.trains_feature

    @property
    def movable(self) -> bool:
        """Gates can be wired to other layers now."""
        return len(self.layers) > 1 and not self.own_gates

    @property
    def permuted(self) -> bool:
        """The order is not the natural one."""
        return self.order != identity(len(self.layers))

    @property
    def input_name(self) -> str:
        """What enters the value network, as short as can be."""
        names: dict[ValueInput, str] = {"image": "x", "ones": "ones", "random": "random"}
        return "x" if self.own_gates else names[self.value_input]

    def headline(self) -> str:
        """The gates in a few words."""
        if not self.layers:
            return ""
        if self.own_gates:
            return f"{self.regime}: own gates"
        if self.source:
            return f"Gates of {self.source}"
        return "Frozen gates" if self.frozen else "Gates in training"

    def sentence(self) -> str:
        """What can be done, or why nothing can."""
        if not self.layers:
            return ""
        if self.own_gates:
            others = [entry.id for entry in self.regimes if not entry.own_gates]
            return f"Each unit gates itself: nothing to wire. {_listed(others)} can be wired."
        if not self.movable:
            return "One gate layer: nothing to exchange."
        if self.permuted:
            return "Order of the gates: " + " ".join(str(i + 1) for i in self.order)
        return "Drag a gate onto another layer, or press Ctrl+← or Ctrl+→ on it."


def _listed(names: list[str]) -> str:
    return " and ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else "".join(names)
