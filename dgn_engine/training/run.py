"""One run from its configuration to its last step: data, trainer, evaluation, probes."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from pathlib import PurePath

import torch

from dgn_engine.config import DataConfig, RunConfig
from dgn_engine.data import DataSizes, Examples, find_data_set, load_examples
from dgn_engine.data._normalisation import normalisation
from dgn_engine.errors import DoesNotFitError
from dgn_engine.importing.from_file import architecture_for
from dgn_engine.importing.match_layers import LayerMatching
from dgn_engine.model.choices import ValueInput
from dgn_engine.model.regime_entry import RegimeChange, check_entry
from dgn_engine.model.wiring import need_wires, turned
from dgn_engine.protocol.files import WeightsSaved
from dgn_engine.protocol.frames import Array
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.probe_choice import ProbeChoice
from dgn_engine.protocol.training import (
    Diverged,
    RegimeSwapped,
    Rewired,
    RunEstimated,
    RunStarted,
    SettingChanged,
    StepsNotCaptured,
)
from dgn_engine.protocol.watching import ProbeSet
from dgn_engine.regimes import find_regime, only_regime
from dgn_engine.storage.inner_path import FilePath
from dgn_engine.storage.runs.run_checkpoints import Snapshot
from dgn_engine.training.device_data import (
    choose_probe_set,
    chosen_on_device,
    drawn_inputs,
    to_device,
)
from dgn_engine.training.devices import choose_device, device_name, set_threads
from dgn_engine.training.evaluation_schedule import EvaluationSchedule
from dgn_engine.training.ignored_settings import (
    IgnoredSetting,
    RunFacts,
    check_contradictions,
    ignored_settings,
)
from dgn_engine.training.initial_weights import (
    InitialWeights,
    read_initial_weights,
    tensors_of,
    weights_taken,
)
from dgn_engine.training.layer_infos import layer_infos
from dgn_engine.training.losses import loss
from dgn_engine.training.memory_needed import NUMBER, RunUse, check_memory
from dgn_engine.training.optimizer import count_moments
from dgn_engine.training.out_of_memory import free_memory, is_out_of_memory, refused_without_memory
from dgn_engine.training.probes import (
    ComparedGates,
    ProbeContext,
    TrainingState,
    no_comparison,
)
from dgn_engine.training.readings.overhead_meter import (
    seconds_of_main_thread,
    seconds_of_other_threads,
)
from dgn_engine.training.readings.probe_schedule import ProbeSchedule
from dgn_engine.training.readings.watch_budget import WatchBudget
from dgn_engine.training.step_cost import seconds_a_step
from dgn_engine.training.trainer import Trainer
from dgn_engine.training.weight_keeper import save_trainer

Report = Callable[[str, float | None], None]
MAKING = "Making the network"
LARGE_LAYER = 1 << 22  # numbers that take long to draw: before them, whoever waits can cancel
ENDLESS_PRETRAINING = 10  # epochs of ReLU before FL, where neither number of epochs is given


class Run:
    """A run that is stepped from outside; all that happens goes to `emit`.

    Raises `UserError` where the configuration cannot be carried out.
    """

    @refused_without_memory("This run")
    def __init__(
        self,
        number: int,
        config: RunConfig,
        emit: Callable[[Event], None],
        report: Report,
        live: bool,
        recorded: bool = False,
        examples: Examples | None = None,
        *,
        checkpoints: bool = True,
        probed: bool = False,
        reclaimed: float = 0.0,
    ) -> None:
        """`recorded`: its state is restored from a checkpoint after this, so read no weights.

        `examples`: those of the configuration, where they have been loaded already. `checkpoints`:
        some are written. `probed`: frames of probes are recorded. `reclaimed`: bytes that are given
        back before its first step.
        """
        self.number = number
        self.recorded = recorded  # there is a folder that holds it
        self.config = config
        self._emit = emit
        check_contradictions(config)
        self.target = find_regime(config.gating.regime)
        self.device = choose_device(config.device)
        examples = examples or load_examples(config.data, report)
        logits = 1 if examples.signed else len(examples.class_names)
        self.architecture = architecture_for(config.net, examples.train_x.shape[1:], logits)
        sizes = DataSizes(
            len(examples.train_y), len(examples.test_y), examples.train_x.shape[1:], logits
        )
        use = RunUse(live=live, recorded=checkpoints, probed=probed)
        parts = (examples.train_x, examples.train_y, examples.test_x, examples.test_y)
        loaded = sum(part.nbytes for part in parts)
        self.memory = check_memory(
            config, self.architecture, sizes, self.device, use, loaded, reclaimed
        )
        set_threads(self.architecture)
        copies = InitialWeights(None, None)
        if not recorded:
            copies = read_initial_weights(config, self.target, self.architecture, report)
        self._weights_given = copies.complete(self.target)
        self.pretrain_steps = 0
        pretrains = self.target.takes_gates and not config.gating.gates_from
        regime = find_regime(self.target.pretrains_as) if pretrains else self.target
        data = to_device(examples, self.architecture, self.device)

        def before_layer(numbers: int) -> None:
            if numbers >= LARGE_LAYER:
                report(MAKING, None)

        self.trainer = Trainer(config, self.architecture, data, regime, self.device, before_layer)
        if pretrains:
            check_entry(self.trainer.network, regime, self.target)
            epochs = config.gating.pretrain_epochs or config.training.epochs
            self.pretrain_steps = (epochs or ENDLESS_PRETRAINING) * self.trainer.steps_per_epoch
        # Weakly: what is replaced is freed at once, not when the garbage collector comes.
        self.trainer.on_eager = partial(Run._on_eager, weakref.proxy(self))
        copies.copy_into(self.trainer)
        self.total_steps = config.training.epochs * self.trainer.steps_per_epoch
        if self.total_steps:
            self.total_steps += self.pretrain_steps
        self.pace = config.training.pace
        self.learning_rate = config.training.learning_rate
        self.gates_source = PurePath(config.gating.gates_from).name  # '' where they are its own
        # A GPU works on while this thread sleeps: there the clock tells what training takes.
        clock = time.thread_time if self.device.type == "cpu" else time.monotonic
        alone = torch.get_num_threads() == 1
        others = seconds_of_other_threads if alone else seconds_of_main_thread
        self.budget = WatchBudget(busy=clock, others=others)
        self.evaluation = EvaluationSchedule(self.trainer, emit, live, self.budget)
        self.probe_schedule = ProbeSchedule(emit, live, self.budget)
        self.image_shape = tuple(examples.train_x.shape[1:])  # also where the network takes rows
        choice = ProbeChoice.parse(config.probe_set)
        self._took_probe_examples(
            choose_probe_set(examples, config.probe_examples, config.seed, choice)
        )
        self._first_probe_set = self.probe_set
        self.diverged = False
        self._overflowed_at: int | None = None  # the step at which it diverged last
        self._last_finite: int | None = None  # … and the last one before with a finite loss
        self.put_backs: tuple[tuple[int, int], ...] = ()  # at a step, to the state of which step
        self._copies: list[weakref.ref[Snapshot]] = []
        self.before_change: Callable[[str], None] = lambda _change: None  # of weights, by a user
        self.snapshot: Snapshot | None = None  # of this moment, while a change is carried out
        self.examples: tuple[int, int] = (len(examples.train_y), len(examples.test_y))
        # For the next run of a window. On a CPU what is trained on is the same memory.
        self._examples = examples if live and self.device.type == "cpu" else None
        self.fingerprint = examples.fingerprint

    def started(self, paused: bool) -> RunStarted:
        """The event that opens the run."""
        trainer = self.trainer
        rotation, shift = turned(trainer.network.routes)
        first = len(self._first_probe_set.indices)
        return RunStarted(
            run=self.number,
            config=self.config,
            regime=trainer.regime.name,
            device=device_name(self.device),
            layers=layer_infos(trainer.network.architecture),
            wiring=trainer.network.wiring,
            parameters_value=_count(trainer.network.value),
            parameters_feature=_count(trainer.network.feature),
            train_examples=self.examples[0],
            test_examples=self.examples[1],
            classes=self.probe_set.classes,
            steps_per_epoch=trainer.steps_per_epoch,
            total_steps=self.total_steps,
            probe_set=self.probe_set,
            paused=paused,
            rotation=rotation,
            shift=shift,
            began_with=0 if first == len(self.probe_set.indices) else first,
        )

    def estimated(self) -> RunEstimated:
        """Return what it takes: weights, memory and, on a CPU, the time of a step."""
        seconds = None
        if self.device.type == "cpu":
            seconds = seconds_a_step(self.config, self.architecture, self.trainer.examples)
        return RunEstimated(self.memory.weights // NUMBER, self.memory.total, seconds)

    def examples_for(self, data: DataConfig) -> Examples | None:
        """Return the examples of this run where loading these data would give the same.

        None where they are not in main memory, and for files of the user's own, which may have
        changed.
        """
        own = find_data_set(data).takes_path or data.test_indices
        return None if own or data != self.config.data else self._examples

    def ignored(
        self, *, live: bool, recorded: bool, named: Collection[str] = ()
    ) -> tuple[IgnoredSetting, ...]:
        """Settings of the configuration that have no effect in this run; see `ignored_settings`."""
        device = self.device.type
        facts = RunFacts(self.examples, self._weights_given, live, recorded, device)
        return ignored_settings(self.config, facts, named)

    @property
    def step_count(self) -> int:
        return self.trainer.step_count

    @property
    def finished(self) -> bool:
        """The last epoch is over and tested (never, where the run trains until stopped)."""
        if not self.total_steps or self.evaluation.pending:
            return False
        return self.step_count >= self.total_steps

    def advance(self) -> bool:
        """Advance a pending test pass by one chunk, or take a step; True if it was a step."""
        overhead = self.budget.overhead
        if self.evaluation.ends_epoch:
            overhead.leave_out(self.evaluation.advance)
            return False
        if self.evaluation.pending:
            overhead.disturb()
            self.evaluation.advance()
            return False
        self._step()
        overhead.steps += 1
        return True

    def step(self) -> None:
        """One training step, and the test pass that follows it where one is due."""
        self._step()
        while self.evaluation.pending:
            self.evaluation.advance()

    def _step(self) -> None:
        """One training step; a loss that is not finite ends the run."""
        if self.pretrain_steps and self.step_count == self.pretrain_steps:
            self.swap(self.target.name, restart_value=True)
        try:
            self._step_with_memory()
        except Exception as error:
            if is_out_of_memory(error):
                raise DoesNotFitError(does_not_fit(self.trainer)) from None
            raise
        if not self.evaluation.after_step():
            self._diverge()
        elif self.step_count % self.trainer.steps_per_epoch == 0:
            self.stop_if_trained(self.evaluation.epoch_accuracy)

    def _step_with_memory(self) -> None:
        """Take a step; where memory runs out, once more without expensive readings beside it."""
        try:
            return self.trainer.step()
        except Exception as error:
            trouble = "training needs the memory of the card"
            if not (is_out_of_memory(error) and self.probe_schedule.refined.end(trouble)):
                raise
        self.trainer.drop_gradients()
        free_memory()
        return self.trainer.step()

    def settle(self) -> None:
        """Have all train scores up to here; only a card is waited for."""
        if not self.diverged and not self.evaluation.settle():
            self._diverge()

    def _diverge(self) -> None:
        # On a CPU each step's loss is looked at, on a card those that scores are of.
        step = self.step_count
        last = step - 1 if self.device.type == "cpu" else self.evaluation.last_finite
        if last is not None and last == self._overflowed_at:  # it went back, and diverges at once
            last = self._last_finite
        self._stop_at_overflow("loss", last)

    def stop_overflowed(self) -> None:
        """End the run as a loss that is not finite does: a reading found such weights."""
        if not self.diverged:
            last = self.step_count if self.device.type == "cpu" else self.evaluation.last_finite
            self._stop_at_overflow("weights", last)

    def _stop_at_overflow(self, what: str, last_finite: int | None) -> None:
        self.diverged = True
        self._overflowed_at, self._last_finite = self.step_count, last_finite
        self._emit(Diverged(self.step_count, what, last_finite))

    def copies(self) -> list[Snapshot]:
        """Return the copies of its state that undo holds, or the recorder until it has written."""
        copies = [copy for known in self._copies if (copy := known()) is not None]
        self._copies = [weakref.ref(copy) for copy in copies]
        return copies

    def note_copy(self, copy: Snapshot) -> None:
        """Keep a weak reference to a copy of its state, for `copies`."""
        self._copies = [weakref.ref(known) for known in (*self.copies(), copy)]

    def stop_if_trained(self, accuracy: float) -> None:
        """End the run after an epoch of this train accuracy (0…1) that reaches `training.until`, or
        for which `training.patience` is over. Epochs of pre-training end nothing."""
        if self.step_count <= self.pretrain_steps:
            return
        until = self.config.training.until
        if self.evaluation.is_flat(accuracy) or (until and accuracy >= until):
            self.total_steps = self.step_count

    def context(self, compared: ComparedGates = no_comparison) -> ProbeContext:
        """The probe set under the network as it is now, and under one that is compared with."""
        trainer, x, y = self.trainer, self._probe_x, self._probe_y
        network = trainer.network_at(self._probe_rows)
        if trainer.regime.drawn_gates:  # there are none for examples of the user's own
            x, y = x[: len(self._probe_rows)], y[: len(self._probe_rows)]
        given = self.config.training
        training = TrainingState(
            step=trainer.step_count,
            loss=given.loss,
            optimiser=given.optimiser,
            learning_rate=self.learning_rate,
            momentum=given.momentum,
            batch=min(given.batch, trainer.examples),
            examples=trainer.examples,
            augmented=given.augmentation != "none",
        )
        return ProbeContext(network, x, y, trainer.regime, compared, training=training)

    def choose_probe_examples(self, wanted: int, choice: str | None = None) -> None:
        """Choose so many probe examples, at least 2, as a run that begins with them does; `choice`:
        which, as `probe_set` has it (None: as before)."""
        text = self.config.probe_set if choice is None else choice
        before, config = self.config, replace(self.config, probe_examples=wanted, probe_set=text)
        if config == before:  # it was validated as it was made
            return
        data, names = self.trainer.data, self.probe_set.class_names[: self.probe_set.classes]
        parsed = ProbeChoice.parse(text)
        chosen = chosen_on_device(data, names, wanted, config.seed, parsed, self.image_shape)
        self.config = config
        self._took_probe_examples(chosen)
        self._begin_readings_anew()

    def invalidate_readings(self) -> None:
        """The network is another one; under FRG there may be no gates for the last examples."""
        if self.probe_set.drawn:
            self._begin_readings_anew()
        else:
            self.probe_schedule.invalidate()

    def _begin_readings_anew(self) -> None:
        """Of the probe set as it is now."""
        first, now = self._first_probe_set, self.probe_set
        count = len(self._probe_rows if self.trainer.regime.drawn_gates else now.indices)
        same = now.digest == first.digest and count == len(first.indices)
        self.probe_schedule.begin_anew(
            0 if count == len(first.indices) else count, "" if same else now.digest[:8]
        )

    def _took_probe_examples(self, chosen: ProbeSet) -> None:
        self.probe_set = chosen
        known = len(chosen.indices) - chosen.drawn
        rows = self._probe_rows = torch.tensor(chosen.indices[:known], device=self.device)
        data = self.trainer.data
        self._probe_x, self._probe_y = data.train_x[rows], data.train_y[rows]
        if chosen.drawn:
            own = self._drawn().reshape(-1, *data.train_x.shape[1:])
            classes = torch.full((len(own),), chosen.classes, device=self.device)
            self._probe_x = torch.cat([self._probe_x, own.to(self._probe_x)])
            self._probe_y = torch.cat([self._probe_y, classes.to(self._probe_y)])

    def _drawn(self) -> torch.Tensor:
        """The user's own examples as the network takes training images."""
        own = drawn_inputs(ProbeChoice.parse(self.config.probe_set), self.image_shape)
        how = normalisation(self.config.data.normalise)
        return torch.from_numpy(own if how is None else how(own))

    @property
    def train_labels(self) -> Array:
        """(n,) of all training examples."""
        labels: Array = self.trainer.data.train_y.cpu().numpy()
        return labels

    def training_images(self, rows: Array) -> Array:
        """(m, *image_shape): these training examples as images, or as vectors."""
        x = self.trainer.data.train_x
        images: Array = x[torch.from_numpy(rows).to(x.device)].cpu().numpy()
        return images.reshape(-1, *self.image_shape)

    @property
    def probe_images(self) -> Array:
        """(n, *image_shape): the probe examples as images, or as vectors."""
        images: Array = self._probe_x.reshape(-1, *self.image_shape).cpu().numpy()
        return images

    def announce_change(self, change: str) -> None:
        """Let the weights be recorded before they are changed: 'FR-II', 'weights of x.pt'."""
        self.before_change(change)
        self.snapshot = None

    def swap(self, name: str, restart_value: bool) -> None:
        after = find_regime(name)
        check_entry(self.trainer.network, self.trainer.regime, after)
        restart = restart_value and after.takes_gates
        self.announce_change(after.name)
        self.pretrain_steps = 0
        before = self.trainer.regime.name
        self._swapped(before, self.trainer.swap(after, restart))

    def take_gates(self, match: LayerMatching, source: str, restart_value: bool) -> None:
        """Θ^f := the weights of a file; the regime becomes the one for copied gates."""
        before, after = self.trainer.regime, only_regime("for_copied_gates")
        check_entry(self.trainer.network, before, after)
        self.announce_change(after.name)
        self.pretrain_steps = 0
        # Entering from own gates would copy Θ^v into Θ^f, only to be overwritten at once.
        change = self.trainer.swap(after, restart_value)
        self.trainer.take_gates(*tensors_of(match))
        kept = tuple(name for name in change.kept if not name.startswith("feature"))
        copied = (f"feature weights (from {source})",)
        self._swapped(before.name, replace(change, kept=kept, copied=copied), source)

    def take_weights(self, match: LayerMatching, source: str) -> None:
        """Θ^v := the weights of a file; regime and gates stay what they are."""
        self.announce_change(f"weights of {source}")
        self.trainer.take_weights(*tensors_of(match))
        self._changed()
        self._emit(weights_taken(match, source, self.step_count))

    def rewire(self, order: tuple[int, ...]) -> None:
        """Another order of the gate layers from the next step on; each keeps its rotation."""
        need_wires(self.trainer.regime, "permute")
        self.trainer.rewire(order)
        self._rewired()

    def rotate(self, rotation: tuple[int, ...], shift: tuple[int, ...] = ()) -> None:
        """Turn each value layer's gates by so many units, maps also by rows and columns."""
        need_wires(self.trainer.regime, "rotate")
        self.trainer.reroute(rotation, shift)
        self._rewired()

    def _rewired(self) -> None:
        self._changed()
        network = self.trainer.network
        self._emit(Rewired(self.step_count, network.wiring, *turned(network.routes)))

    def set_learning_rate(self, rate: float) -> None:
        """Set the learning rate, which must be positive."""
        replace(self.config.training, learning_rate=rate)  # validates
        self.learning_rate = rate
        self.trainer.optimizer.set_learning_rate(rate)
        self.emit_settings()

    def set_beta(self, beta: float) -> None:
        """Set the steepness of the soft gate, which must be positive."""
        gating = replace(self.config.gating, beta=beta)  # validates
        self.trainer.network.set_gate(beta=beta, epsilon=gating.epsilon)
        self._changed()
        self.emit_settings()

    def set_value_input(self, value_input: ValueInput) -> None:
        replace(self.config.gating, value_input=value_input)  # validates
        self.trainer.network.value_input = value_input
        self._changed()
        self.emit_settings()

    def set_pace(self, pace: float) -> None:
        replace(self.config.training, pace=pace)  # validates
        self.pace = pace
        self.emit_settings()

    def emit_settings(self) -> None:
        network = self.trainer.network
        self._emit(
            SettingChanged(
                self.step_count,
                self.learning_rate,
                network.gate.beta,
                network.value_input,
                self.pace,
            )
        )

    def save(self, path: FilePath) -> None:
        save_trainer(path, self.trainer)
        self._emit(WeightsSaved(self.step_count, str(path)))

    def _on_eager(self, reason: str) -> None:
        self._emit(StepsNotCaptured(self.step_count, reason))

    def _changed(self) -> None:
        """Something other than a step changed what the network computes."""
        self.invalidate_readings()
        self.evaluation.restart()

    def _swapped(self, before: str, change: RegimeChange, source: str = "") -> None:
        self._changed()
        self.gates_source = source
        trainer = self.trainer
        self._emit(
            RegimeSwapped(
                step=self.step_count,
                before=before,
                after=trainer.regime.name,
                kept=change.kept,
                frozen=change.frozen,
                redrawn=change.redrawn,
                copied=change.copied,
                source=source,
                parameters_feature=_count(trainer.network.feature),
            )
        )


def _count(network: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def does_not_fit(trainer: Trainer) -> str:
    """One sentence for a run whose step ran out of memory, with a batch that would fit."""
    batch = min(trainer.config.training.batch, len(trainer.data.train_y))
    fitting = batch_that_fits(trainer, batch // 2)
    if fitting:
        return (
            f"Training does not fit in memory with a batch of {batch:,}; "
            f"a batch of about {fitting:,} would fit."
        )
    return (
        "Training does not fit in memory, not even with a batch of 1; "
        "choose a smaller network, smaller images or another device."
    )


def batch_that_fits(trainer: Trainer, most: int) -> int:
    """The first of most, most/2, most/4, … of which a forward and a backward pass succeed; or 0.

    Found by trying; no weight, no gradient and no random number is changed.
    """
    trainer.drop_gradients()  # of the pass that did not end
    trainer.steps.forget()  # graphs hold memory of their own
    size = most
    while size >= 1:
        free_memory()
        try:
            _try_step(trainer, size)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
        else:
            return size
        size //= 2
    return 0


def _try_step(trainer: Trainer, size: int) -> None:
    """As a step of `size` examples, with room for what the optimiser will keep."""
    network, training = trainer.network, trainer.config.training
    trained = [weight for weight in network.parameters() if weight.requires_grad]
    copies = 0 if trainer.optimizer.torch.state else count_moments(training)
    room = [torch.empty_like(weight) for weight in trained for _ in range(copies)]
    rows = torch.arange(size, device=trainer.data.train_x.device)
    logits = trainer.network_at(rows)(trainer.data.train_x[rows])
    value = loss(training.loss, logits, trainer.data.train_y[rows])
    torch.autograd.grad(value, trained, allow_unused=True)
    del room
