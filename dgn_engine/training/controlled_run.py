"""Changes of a run between two steps: regime, weights, wiring and settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import PurePath

from dgn_engine.config import RunConfig
from dgn_engine.importing.match_layers import LayerMatching
from dgn_engine.model.choices import ValueInput
from dgn_engine.model.regime_entry import RegimeChange, check_entry
from dgn_engine.model.wiring import require_feature_gates, rotations_and_shifts
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.training import RegimeSwapped, Rewired, SettingChanged
from dgn_engine.regimes import find_regime, only_regime
from dgn_engine.storage.runs.run_checkpoints import Snapshot
from dgn_engine.training.evaluation_schedule import EvaluationSchedule
from dgn_engine.training.initial_weights import matched_tensors, weights_taken_event
from dgn_engine.training.layer_infos import count_parameters
from dgn_engine.training.probed_examples import ProbedExamples
from dgn_engine.training.trainer import Trainer


class ControlledRun:
    """The changes of a run, each applied between two steps and emitted as an event.

    All methods run in the training thread.

    Attributes:
        before_change: Called with a description before weights are changed.
        snapshot: State of this moment while a change is applied, else None.
        pretrain_steps: Step at which pre-training ends; 0 without pre-training.
        gates_source: File that the gates come from; '' if they are the run's own.
        pace: Target speed in steps per second.
    """

    def __init__(
        self,
        config: RunConfig,
        trainer: Trainer,
        evaluation: EvaluationSchedule,
        probed: ProbedExamples,
        emit: Callable[[Event], None],
    ) -> None:
        """Bind the parts of a run.

        Args:
            config: Configuration of the run.
            trainer: Its trainer.
            evaluation: Restarted when the network changes.
            probed: Its readings are invalidated when the network changes.
            emit: Takes the events.
        """
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
        """Give the recorder a chance to save the weights before they change.

        Args:
            change: Description: 'FR-II', 'weights of x.pt'.
        """
        self.before_change(change)
        self.snapshot = None

    def swap_regime(self, name: str, restart_value: bool) -> None:
        """Switch to another regime.

        Args:
            name: Name of the regime.
            restart_value: Whether to redraw Θ^v, for regimes with copied gates.

        Raises:
            UserError: The network cannot enter this regime.
        """
        after = find_regime(name)
        check_entry(self._trainer.network, self._trainer.regime, after)
        restart = restart_value and after.takes_gates
        self.announce_change(after.name)
        self.pretrain_steps = 0
        before = self._trainer.regime.name
        self._emit_swapped(before, self._trainer.control.enter_regime(after, restart))

    def take_gates(self, match: LayerMatching, source: str, restart_value: bool) -> None:
        """Set Θ^f to the weights of a file, and enter the regime for copied gates.

        Args:
            match: Matched weights.
            source: Name of the file.
            restart_value: Whether to redraw Θ^v.

        Raises:
            UserError: The network cannot enter the regime.
        """
        control = self._trainer.control
        before, after = control.regime, only_regime("for_copied_gates")
        check_entry(control.network, before, after)
        self.announce_change(after.name)
        self.pretrain_steps = 0
        # Entering from own gates would copy Θ^v into Θ^f, only to be overwritten at once.
        change = control.enter_regime(after, restart_value)
        control.take_gates(*matched_tensors(match))
        kept = tuple(name for name in change.kept if not name.startswith("feature"))
        copied = (f"feature weights (from {source})",)
        self._emit_swapped(before.name, replace(change, kept=kept, copied=copied), source)

    def take_weights(self, match: LayerMatching, source: str) -> None:
        """Set Θ^v to the weights of a file; regime and gates stay.

        Args:
            match: Matched weights.
            source: Name of the file.

        Raises:
            UserError: The weights have biases and the network has none.
        """
        self.announce_change(f"weights of {source}")
        self._trainer.control.take_weights(*matched_tensors(match))
        self._invalidate_measurements()
        self._emit(weights_taken_event(match, source, self._trainer.step_count))

    def rewire_gates(self, order: tuple[int, ...]) -> None:
        """Permute the gate layers from the next step on; each keeps its rotation.

        Args:
            order: Gate layer of each value layer, 0-based.

        Raises:
            UserError: The regime has no wiring, or shapes do not fit.
        """
        require_feature_gates(self._trainer.regime, "permute")
        self._trainer.control.set_wiring(order)
        self._emit_rewired()

    def rotate_gates(self, rotation: tuple[int, ...], shift: tuple[int, ...] = ()) -> None:
        """Rotate and shift the gates of each value layer.

        Args:
            rotation: Units (channels) per layer.
            shift: Rows and columns per layer, for convolutions.

        Raises:
            UserError: The regime has no wiring, or a value does not fit its layer.
        """
        require_feature_gates(self._trainer.regime, "rotate")
        self._trainer.control.set_routes(rotation, shift)
        self._emit_rewired()

    def set_learning_rate(self, rate: float) -> None:
        """Set the learning rate from the next step on.

        Args:
            rate: Must be positive.

        Raises:
            UserError: The value is not allowed.
        """
        replace(self._config.training, learning_rate=rate)  # validates
        self._trainer.optimizer.set_learning_rate(rate)
        self.emit_settings()

    def set_beta(self, beta: float) -> None:
        """Set the steepness β of soft gates.

        Args:
            beta: Must be positive.

        Raises:
            UserError: The value is not allowed.
        """
        gating = replace(self._config.gating, beta=beta)  # validates
        self._trainer.network.set_gate(beta=beta, epsilon=gating.epsilon)
        self._invalidate_measurements()
        self.emit_settings()

    def set_value_input(self, value_input: ValueInput) -> None:
        """Set what the value network is fed.

        Args:
            value_input: 'image', 'ones' or 'random'.

        Raises:
            UserError: The value is not allowed.
        """
        replace(self._config.gating, value_input=value_input)  # validates
        self._trainer.network.value_input = value_input
        self._invalidate_measurements()
        self.emit_settings()

    @property
    def wiring_state(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Return order, rotation and shift of the gate layers.

        Returns:
            Three tuples, as `apply_wiring` takes them.
        """
        network = self._trainer.network
        return network.wiring, *rotations_and_shifts(network.routes)

    def apply_wiring(
        self, order: tuple[int, ...], rotation: tuple[int, ...], shift: tuple[int, ...]
    ) -> None:
        """Set order, rotation and shift, where they differ from the current ones.

        Args:
            order: Gate layer of each value layer.
            rotation: Units per layer.
            shift: Rows and columns per layer.
        """
        if self.wiring_state[0] != order:
            self.rewire_gates(order)
        if self.wiring_state[1:] != (rotation, shift):
            self.rotate_gates(rotation, shift)

    @property
    def dials(self) -> tuple[float, float, ValueInput]:
        """Return learning rate, β and value input.

        Returns:
            As `set_dials` takes them.
        """
        network = self._trainer.network
        return self._trainer.optimizer.learning_rate, network.gate.beta, network.value_input

    def set_dials(self, learning_rate: float, beta: float, value_input: ValueInput) -> None:
        """Set learning rate, β and value input, where they differ from the current ones.

        Args:
            learning_rate: Learning rate.
            beta: Steepness of soft gates.
            value_input: 'image', 'ones' or 'random'.
        """
        now = self.dials
        if now[0] != learning_rate:
            self.set_learning_rate(learning_rate)
        if now[1] != beta:
            self.set_beta(beta)
        if now[2] != value_input:
            self.set_value_input(value_input)

    def set_pace(self, pace: float) -> None:
        """Set the target speed.

        Args:
            pace: Steps per second; 0 for no limit.

        Raises:
            UserError: The value is not allowed.
        """
        replace(self._config.training, pace=pace)  # validates
        self.pace = pace
        self.emit_settings()

    def emit_settings(self) -> None:
        """Emit the current settings."""
        self._emit(SettingChanged(self._trainer.step_count, *self.dials, self.pace))

    def _invalidate_measurements(self) -> None:
        """Invalidate readings and scores, since the network changed other than by a step."""
        self._probed.invalidate_readings()
        self._evaluation.restart_test()

    def _emit_rewired(self) -> None:
        self._invalidate_measurements()
        self._emit(Rewired(self._trainer.step_count, *self.wiring_state))

    def _emit_swapped(self, before: str, change: RegimeChange, source: str = "") -> None:
        self._invalidate_measurements()
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
