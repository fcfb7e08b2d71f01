"""The state of the layer strip, derived from the state of the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dgn_engine.protocol.catalogue import RegimeEntry
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.training import LayerInfo
from dgn_engine.views.past_view import BACK_TO_LIVE

Turn = tuple[int, int]  # of a gate layer: units; rows and columns of a map
Order = tuple[int, ...]  # value layer l uses gate layer order[l], 0-based


def identity_order(count: int) -> Order:
    """Return the order in which every value layer uses its own gate layer."""
    return tuple(range(count))


def swap_layers(order: Order, first: int, second: int) -> Order:
    """Return the order with the gates of value layers `first` and `second` swapped."""
    result = list(order)
    result[first], result[second] = result[second], result[first]
    return tuple(result)


def reason_not_swappable(
    layers: Sequence[LayerInfo], order: Order, origin: int, target: int
) -> str:
    """Return why the gates of two value layers cannot be swapped; '' if they can."""
    moved, target_layer = layers[order[origin]], layers[target]
    if moved.shape == target_layer.shape and layers[order[target]].shape == layers[origin].shape:
        return ""
    has, needs = describe_gate_shape(moved.shape), describe_gate_shape(target_layer.shape)
    if len(moved.shape) == len(target_layer.shape) == 3:
        needs = needs.replace(" channels", "")
    elif len(moved.shape) == len(target_layer.shape):
        needs = needs.replace(" units", "")
    return f"G{moved.index + 1} has {has}, layer {target + 1} needs {needs}"


def describe_gate_shape(shape: tuple[int, ...]) -> str:
    """Return '64 units', or '128 channels of 16×16'."""
    if len(shape) == 1:
        return f"{shape[0]} units"
    return f"{shape[0]} channels of " + "×".join(str(side) for side in shape[1:])


@dataclass(frozen=True)
class StripState:
    """Layers, gates and wiring of the run."""

    regimes: tuple[RegimeEntry, ...] = ()
    layers: tuple[LayerInfo, ...] = ()
    order: Order = ()
    regime: str = ""
    entry: RegimeEntry | None = None  # the regime's entry in the catalogue
    source: str = ""  # the file that the gates come from
    value_input: str = "image"
    turns: tuple[Turn, ...] = ()  # by feature layer; empty: none is turned
    past: int | None = None  # the step looked back at; None: live
    parallel: bool = False  # each feature layer reads the input

    @property
    def own_gates(self) -> bool:
        """The network makes its own gates, so there is nothing to wire."""
        return self.entry is not None and self.entry.own_gates

    @property
    def open_gates(self) -> bool:
        return self.entry is not None and self.entry.open_gates

    @property
    def drawn_gates(self) -> bool:
        """Each gate is a Bernoulli variable: there is no feature network."""
        return self.entry is not None and self.entry.drawn_gates

    @property
    def has_frozen_gates(self) -> bool:
        """There is a feature network, and it does not train."""
        return self.entry is not None and not self.own_gates and not self.entry.trains_feature

    @property
    def value_frozen(self) -> bool:
        """The value network keeps its weights."""
        return self.entry is not None and not self.entry.trains_value

    @property
    def has_wiring(self) -> bool:
        """The gates of another layer can be used, if the step is live."""
        return len(self.layers) > 1 and not self.own_gates

    @property
    def can_rewire(self) -> bool:
        """Gates can be wired to other layers now."""
        return self.has_wiring and self.past is None

    @property
    def is_permuted(self) -> bool:
        return self.order != identity_order(len(self.layers))

    @property
    def is_turned(self) -> bool:
        return any(turn != (0, 0) for turn in self.turns)

    def turn_of(self, feature: int) -> Turn:
        return self.turns[feature] if feature < len(self.turns) else (0, 0)

    def with_turns(self, turns: Mapping[int, Turn]) -> StripState:
        """Return the state with the gates of some feature layers turned."""
        all_turns = [
            turns.get(feature, self.turn_of(feature)) for feature in range(len(self.layers))
        ]
        return replace(self, turns=tuple(all_turns)) if turns else self

    def shortest_turn(self, feature: int, turn: Turn) -> Turn:
        """Return the same turn in the fewest steps: 63 of 64 units forward is one back."""
        shape = self.layers[feature].shape
        side = min(shape[1:]) if len(shape) > 1 else 1
        return _nearest_turn(turn[0], shape[0]), _nearest_turn(turn[1], side)

    def describe_turn(self, feature: int) -> str:
        """Return '↻3' or '↺2 ↘1'; '' if it is not turned."""
        units, pixels = self.turn_of(feature)
        parts = [f"{'↻' if units > 0 else '↺'}{abs(units)}"] if units else []
        parts += [f"{'↘' if pixels > 0 else '↖'}{abs(pixels)}"] if pixels else []
        return " ".join(parts)

    @property
    def input_name(self) -> str:
        """Shortest name of the value network's input."""
        return "x" if self.own_gates or self.value_input == "image" else self.value_input

    def headline(self) -> str:
        """Return the kind of gates in a few words."""
        if not self.layers:
            return ""
        if self.own_gates:
            return f"{self.regime}: {'open gates' if self.open_gates else 'own gates'}"
        if self.drawn_gates:
            return "Random gates"
        if self.source:
            return f"Gates of {self.source}"
        return "Frozen gates" if self.has_frozen_gates else "Trainable gates"

    def describe_actions(self) -> str:
        """Return what can be done, or why nothing can."""
        if not self.layers:
            return ""
        words = self._explain_wiring()
        return words if self.past is None else f"At step {self.past:,}. {words}"

    def _explain_wiring(self) -> str:
        if self.own_gates:
            wirable = [entry.id for entry in self.regimes if not entry.own_gates]
            reason = "All gates are open" if self.open_gates else "Each unit gates itself"
            if self.past is not None:
                return f"{reason}."
            verb = "has" if len(wirable) == 1 else "have"
            return f"{reason}: no gate order. {_list_names(wirable)} {verb} one."
        if not self.has_wiring:
            return "One gate layer: nothing to swap."
        if self.is_permuted or self.is_turned:
            return self._describe_wiring()
        if self.past is not None:
            return BACK_TO_LIVE
        return "Drag a gate onto another layer, or press Ctrl+← or Ctrl+→; right-click rotates it."

    def describe_gates(self, feature: int, column: int) -> str:
        """Return what the gates of a feature layer are, and what can be done with them."""
        if self.own_gates:
            return f"{self.regime}: layer {column + 1} makes its own gates; no gate order."
        name, layer = f"G{feature + 1}", feature + 1
        parts = [f"{name}, the gates of feature layer {layer}, used by layer {column + 1}."]
        if self.parallel and not self.drawn_gates:
            parts.append(f"Feature layer {layer} reads the input, so each gate is a half-space.")
        if self.source:
            parts.append(f"From {self.source}.")
        if turn := self.describe_turn(feature):
            parts.append(f"Rotated {turn}.")
        if self.can_rewire:
            parts.append("Drag it onto another layer, or press Ctrl+← or Ctrl+→; Home resets.")
            parts.append("Rotate it with Ctrl+↑, Ctrl+↓, Ctrl+wheel or a right-click.")
        elif self.past is not None:
            parts.append(BACK_TO_LIVE)
        return " ".join(parts)

    def _describe_wiring(self) -> str:
        parts: list[str] = []
        if self.is_permuted:
            parts.append("Gate order: " + " ".join(str(i + 1) for i in self.order))
        turns = [(feature, self.describe_turn(feature)) for feature in range(len(self.layers))]
        if words := [f"G{feature + 1}\N{NO-BREAK SPACE}{turn}" for feature, turn in turns if turn]:
            parts.append("Rotated: " + ", ".join(words))
        return ". ".join(parts)


def strip_state(state: RunState, past: int | None = None) -> StripState:
    """Return the strip of `state`, empty without a run; `past`: as in `StripState`."""
    if state.run is None or state.settings is None:
        return StripState()
    order = state.wiring or identity_order(len(state.run.layers))
    return StripState(
        regimes=state.catalogue.regimes if state.catalogue is not None else (),
        layers=state.run.layers,
        order=order,
        regime=state.regime,
        entry=state.regime_entry,
        source=state.gates_source,
        value_input=state.settings.value_input,
        turns=_by_feature(order, state.rotation, state.shift),
        past=past,
        parallel=state.run.config.gating.feature_layers == "parallel",
    )


def _by_feature(order: Order, rotation: Sequence[int], shift: Sequence[int]) -> tuple[Turn, ...]:
    """Convert turns from lists by value layer to a tuple by feature layer."""
    if not (rotation or shift):
        return ()
    none = (0,) * len(order)
    pairs = zip(order, rotation or none, shift or none, strict=False)
    turns = {feature: (units, pixels) for feature, units, pixels in pairs}
    return tuple(turns.get(feature, (0, 0)) for feature in range(len(order)))


def _nearest_turn(steps: int, whole: int) -> int:
    """Return the same rotation of a circle of `whole` steps, -whole/2 < result ≤ whole/2."""
    remainder = steps % whole
    return remainder - whole if remainder > whole // 2 else remainder


def _list_names(names: list[str]) -> str:
    """Join a few names, or the first of many and 'others'."""
    if len(names) > 4:
        names = [*names[:3], "others"]
    return " and ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else "".join(names)
