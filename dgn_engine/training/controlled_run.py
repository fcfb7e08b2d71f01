"""What is changed of a run between two steps: its regime, weights, wires and settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import PurePath

from dgn_engine.config import RunConfig
from dgn_engine.importing.match_layers import LayerMatching
from dgn_engine.model.choices import ValueInput
from dgn_engine.model.regime_entry import RegimeChange, check_entry
from dgn_engine.model.wiring import need_wires, turned
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.training import RegimeSwapped, Rewired, SettingChanged
from dgn_engine.regimes import find_regime, only_regime
from dgn_engine.storage.runs.run_checkpoints import Snapshot
from dgn_engine.training.evaluation_schedule import EvaluationSchedule
from dgn_engine.training.initial_weights import tensors_of, weights_taken
from dgn_engine.training.layer_infos import count_parameters
from dgn_engine.training.probed_examples import ProbedExamples
from dgn_engine.training.trainer import Trainer


class ControlledRun:
    """The changes of a run: each is carried out and emitted.

    Attributes:
        before_change: Told of a change of the weights before it is carried out.
        snapshot: Of this moment, while a change is carried out.
        pretrain_steps: After which the regime changes by itself; 0: no more.
        gates_source: The file that the gates are from, '' where they are the run's own.
        pace: Steps a second that are wanted.
    """

    def __init__(
        self,
        config: RunConfig,
        trainer: Trainer,
        evaluation: EvaluationSchedule,
        probed: ProbedExamples,
        emit: Callable[[Event], None],
    ) -> None:
        self._config = config
        self._trainer = trainer
        self._evaluation = evaluation
        self._probed = probed
        self._emit = emit
        self.before_change: Callable[[str], None] = lambda _change: None
        self.snapshot: Snapshot | None = None
        self.pretrain_steps = 0
        self.gates_source = PurePath(config.gating.gates_from).name
        self.pace = config.training.pace

    def announce_change(self, change: str) -> None:
        """Let the weights be recorded before they are changed: 'FR-II', 'weights of x.pt'."""
        self.before_change(change)
        self.snapshot = None

    def swap(self, name: str, restart_value: bool) -> None:
        after = find_regime(name)
        check_entry(self._trainer.network, self._trainer.regime, after)
        restart = restart_value and after.takes_gates
        self.announce_change(after.name)
        self.pretrain_steps = 0
        before = self._trainer.regime.name
        self._swapped(before, self._trainer.control.swap(after, restart))

    def take_gates(self, match: LayerMatching, source: str, restart_value: bool) -> None:
        """Θ^f := the weights of a file; the regime becomes the one for copied gates."""
        control = self._trainer.control
        before, after = control.regime, only_regime("for_copied_gates")
        check_entry(control.network, before, after)
        self.announce_change(after.name)
        self.pretrain_steps = 0
        # Entering from own gates would copy Θ^v into Θ^f, only to be overwritten at once.
        change = control.swap(after, restart_value)
        control.take_gates(*tensors_of(match))
        kept = tuple(name for name in change.kept if not name.startswith("feature"))
        copied = (f"feature weights (from {source})",)
        self._swapped(before.name, replace(change, kept=kept, copied=copied), source)

    def take_weights(self, match: LayerMatching, source: str) -> None:
        """Θ^v := the weights of a file; regime and gates stay what they are."""
        self.announce_change(f"weights of {source}")
        self._trainer.control.take_weights(*tensors_of(match))
        self._changed()
        self._emit(weights_taken(match, source, self._trainer.step_count))

    def rewire(self, order: tuple[int, ...]) -> None:
        """Another order of the gate layers from the next step on; each keeps its rotation."""
        need_wires(self._trainer.regime, "permute")
        self._trainer.control.rewire(order)
        self._rewired()

    def rotate(self, rotation: tuple[int, ...], shift: tuple[int, ...] = ()) -> None:
        """Turn each value layer's gates by so many units, maps also by rows and columns."""
        need_wires(self._trainer.regime, "rotate")
        self._trainer.control.reroute(rotation, shift)
        self._rewired()

    def set_learning_rate(self, rate: float) -> None:
        replace(self._config.training, learning_rate=rate)  # validates
        self._trainer.optimizer.set_learning_rate(rate)
        self.emit_settings()

    def set_beta(self, beta: float) -> None:
        """Set the steepness of the soft gate, which must be positive."""
        gating = replace(self._config.gating, beta=beta)  # validates
        self._trainer.network.set_gate(beta=beta, epsilon=gating.epsilon)
        self._changed()
        self.emit_settings()

    def set_value_input(self, value_input: ValueInput) -> None:
        replace(self._config.gating, value_input=value_input)  # validates
        self._trainer.network.value_input = value_input
        self._changed()
        self.emit_settings()

    @property
    def wires(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Order, rotation and shift of the gate layers."""
        network = self._trainer.network
        return network.wiring, *turned(network.routes)

    def wire(
        self, order: tuple[int, ...], rotation: tuple[int, ...], shift: tuple[int, ...]
    ) -> None:
        """Set what of them is different now."""
        if self.wires[0] != order:
            self.rewire(order)
        if self.wires[1:] != (rotation, shift):
            self.rotate(rotation, shift)

    @property
    def dials(self) -> tuple[float, float, ValueInput]:
        """Learning rate, β and value input."""
        network = self._trainer.network
        return self._trainer.optimizer.learning_rate, network.gate.beta, network.value_input

    def set_dials(self, learning_rate: float, beta: float, value_input: ValueInput) -> None:
        """Set what of them is different now."""
        now = self.dials
        if now[0] != learning_rate:
            self.set_learning_rate(learning_rate)
        if now[1] != beta:
            self.set_beta(beta)
        if now[2] != value_input:
            self.set_value_input(value_input)

    def set_pace(self, pace: float) -> None:
        replace(self._config.training, pace=pace)  # validates
        self.pace = pace
        self.emit_settings()

    def emit_settings(self) -> None:
        self._emit(SettingChanged(self._trainer.step_count, *self.dials, self.pace))

    def _changed(self) -> None:
        """Something other than a step changed what the network computes."""
        self._probed.invalidate_readings()
        self._evaluation.restart()

    def _rewired(self) -> None:
        self._changed()
        self._emit(Rewired(self._trainer.step_count, *self.wires))

    def _swapped(self, before: str, change: RegimeChange, source: str = "") -> None:
        self._changed()
        self.gates_source = source
        trainer = self._trainer
        self._emit(
            RegimeSwapped(
                step=trainer.step_count,
                before=before,
                after=trainer.regime.name,
                kept=change.kept,
                frozen=change.frozen,
                redrawn=change.redrawn,
                copied=change.copied,
                source=source,
                parameters_feature=count_parameters(trainer.network.feature),
            )
        )
