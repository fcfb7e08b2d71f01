"""One run from its configuration to its last step: data, trainer, evaluation, probes."""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Callable, Collection
from dataclasses import replace

import torch

from dgn_engine.config import DataConfig, RunConfig
from dgn_engine.data import DataSizes, Examples, find_data_set, load_examples
from dgn_engine.errors import DoesNotFitError
from dgn_engine.importing.from_file import architecture_for
from dgn_engine.model.regime_entry import check_entry
from dgn_engine.model.wiring import rotations_and_shifts
from dgn_engine.protocol.files import WeightsSaved
from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.training import Diverged, RunEstimated, RunStarted, StepsNotCaptured
from dgn_engine.regimes import find_regime
from dgn_engine.storage.inner_path import FilePath
from dgn_engine.storage.runs.run_checkpoints import Snapshot
from dgn_engine.training.controlled_run import ControlledRun
from dgn_engine.training.device_data import to_device
from dgn_engine.training.devices import check_precision, choose_device, device_name, set_threads
from dgn_engine.training.evaluation_schedule import EvaluationSchedule
from dgn_engine.training.ignored_settings import (
    IgnoredSetting,
    RunFacts,
    check_contradictions,
    ignored_settings,
)
from dgn_engine.training.initial_weights import InitialWeights, read_initial_weights
from dgn_engine.training.layer_infos import count_parameters, layer_infos
from dgn_engine.training.memory_needed import NUMBER, RunUse, check_memory
from dgn_engine.training.out_of_memory import free_memory, is_out_of_memory, refused_without_memory
from dgn_engine.training.probed_examples import ProbedExamples
from dgn_engine.training.readings.overhead_meter import (
    seconds_of_main_thread,
    seconds_of_other_threads,
)
from dgn_engine.training.readings.probe_schedule import ProbeSchedule
from dgn_engine.training.readings.watch_budget import WatchBudget
from dgn_engine.training.step_cost import seconds_a_step
from dgn_engine.training.steps.losses import compute_loss
from dgn_engine.training.steps.optimizer import count_moments
from dgn_engine.training.trainer import Trainer
from dgn_engine.training.weight_keeper import save_trainer

Report = Callable[[str, float | None], None]
MAKING = "Creating the network"
LARGE_LAYER = 1 << 22  # numbers that take long to draw: the user can cancel before
ENDLESS_PRETRAINING = 10  # epochs of ReLU before FL, if neither number of epochs is given


class Run:
    """One run, stepped by its caller; emits everything that happens.

    All methods run in the training thread.

    Attributes:
        number: Number of the run in this session.
        config: Its configuration, with the current probe set.
        target: Regime of the configuration; pre-training may precede it.
        device: Device of the network.
        architecture: Architecture before tiling.
        memory: Memory it needs.
        trainer: Network, optimiser and data.
        control: Changes it between two steps.
        evaluation: Schedule of train and test scores.
        probe_schedule: Schedule of probe readings.
        probed: The probe set.
        budget: What watching may cost.
        total_steps: Last step; 0 if it runs until stopped.
        diverged: Whether a loss or weight is not finite.
        recorded: Whether there is a run folder.
        put_backs: Undos: the step of each, and the step it returned to.
        examples: Numbers of training and test examples.
        fingerprint: Fingerprint of its data.
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
        """Load the data and create the network; takes no step.

        Args:
            number: Number of the run in this session.
            config: Its configuration.
            emit: Takes all events.
            report: Called with a description of the progress, and the share done or None; may raise
                to cancel.
            live: Whether a window shows it.
            recorded: Whether its state is restored from a checkpoint next, so that no weights are
                read.
            examples: Examples of the configuration, if they are loaded already.
            checkpoints: Whether checkpoints are written.
            probed: Whether frames of probes are recorded without a window.
            reclaimed: Bytes freed before its first step.

        Raises:
            UserError: The configuration cannot be carried out.
            DoesNotFitError: It needs more memory than is free.
        """
        self.number = number
        self.recorded = recorded
        self.config = config
        self._emit = emit
        check_contradictions(config)
        self.target = find_regime(config.gating.regime)
        self.device = choose_device(config.device)
        check_precision(config.training.precision, self.device)
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
        self._weights_given = copies.is_complete(self.target)
        pretrain_steps = 0
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
            pretrain_steps = (epochs or ENDLESS_PRETRAINING) * self.trainer.steps_per_epoch
        # Weakly, so that a replaced trainer is freed at once and not by the garbage collector.
        counted = weakref.proxy(self.trainer)
        self.trainer.network_step.on_eager = lambda reason: emit(
            StepsNotCaptured(counted.step_count, reason)
        )
        copies.copy_into(self.trainer)
        self.total_steps = config.training.epochs * self.trainer.steps_per_epoch
        if self.total_steps:
            self.total_steps += pretrain_steps
        # A GPU keeps working while this thread sleeps, so training is timed by the wall clock.
        clock = time.thread_time if self.device.type == "cpu" else time.monotonic
        alone = torch.get_num_threads() == 1
        others = seconds_of_other_threads if alone else seconds_of_main_thread
        self.budget = WatchBudget(busy=clock, others=others)
        self.evaluation = EvaluationSchedule(self.trainer, emit, live, self.budget)
        self.probe_schedule = ProbeSchedule(emit, live, self.budget)
        self.probed = ProbedExamples(config, examples, self.trainer, self.probe_schedule)
        self.control = ControlledRun(config, self.trainer, self.evaluation, self.probed, emit)
        self.control.pretrain_steps = pretrain_steps
        self.diverged = False
        self._overflowed_at: int | None = None  # step at which it diverged last
        self._last_finite: int | None = None  # last step before that with a finite loss
        self.put_backs: tuple[tuple[int, int], ...] = ()
        self._copies: list[weakref.ref[Snapshot]] = []
        self.examples: tuple[int, int] = (len(examples.train_y), len(examples.test_y))
        # For the next run of a window. On a CPU the training tensors share this memory.
        self._examples = examples if live and self.device.type == "cpu" else None
        self.fingerprint = examples.fingerprint

    def started_event(self, paused: bool) -> RunStarted:
        """Return the event that describes the run.

        Args:
            paused: Whether it starts paused.

        Returns:
            The event.
        """
        trainer = self.trainer
        rotation, shift = rotations_and_shifts(trainer.network.routes)
        return RunStarted(
            run=self.number,
            config=self.config,
            regime=trainer.regime.name,
            device=device_name(self.device, self.config.training.precision),
            layers=layer_infos(trainer.network.architecture),
            wiring=trainer.network.wiring,
            parameters_value=count_parameters(trainer.network.value),
            parameters_feature=count_parameters(trainer.network.feature),
            train_examples=self.examples[0],
            test_examples=self.examples[1],
            classes=self.probed.probe_set.classes,
            steps_per_epoch=trainer.steps_per_epoch,
            total_steps=self.total_steps,
            probe_set=self.probed.probe_set,
            paused=paused,
            rotation=rotation,
            shift=shift,
            began_with=self.probed.initial_count,
        )

    def make_frame(self) -> Frame:
        """Return a frame with the newest readings.

        Returns:
            A frame without speed and remaining time, which the session adds.
        """
        trainer = self.trainer
        return Frame(
            run=self.number,
            step=self.step_count,
            epoch=trainer.epoch,
            steps_per_second=0.0,
            eta_seconds=None,
            readings=dict(self.probe_schedule.readings),
            regime=trainer.regime.name,
            wiring=trainer.network.wiring,
            probe_digest=self.probed.probe_set.digest,
        )

    def estimated_event(self) -> RunEstimated:
        """Return the estimated cost of the run.

        Returns:
            Number of weights, bytes and, on a CPU, seconds per step.
        """
        seconds = None
        if self.device.type == "cpu":
            seconds = seconds_a_step(self.config, self.architecture, self.trainer.batches.examples)
        return RunEstimated(self.memory.weights // NUMBER, self.memory.total, seconds)

    def examples_for(self, data: DataConfig) -> Examples | None:
        """Return the examples of this run if loading a data set would give the same.

        Args:
            data: The data set.

        Returns:
            None if they are not in main memory, or the user's files have changed.
        """
        examples, state = self._examples, find_data_set(data).source_state
        if examples is None or not self.shares_data(data):
            return None
        return examples if state is None or state(data) == examples.source else None

    def shares_data(self, data: DataConfig) -> bool:
        """Check, without looking at files, whether a run of this data can use the same memory.

        Args:
            data: The data set.

        Returns:
            Whether it can, unless the user's files have changed.
        """
        if self._examples is None or data != self.config.data or data.test_indices:
            return False
        return bool(self._examples.source) or not find_data_set(data).takes_path

    def find_ignored(
        self, *, live: bool, recorded: bool, named: Collection[str] = ()
    ) -> tuple[IgnoredSetting, ...]:
        """Return the settings of the configuration that have no effect in this run.

        Args:
            live: Whether a window shows it.
            recorded: Whether there is a run folder.
            named: Settings that the user wrote.

        Returns:
            As for `ignored_settings`.
        """
        device = self.device.type
        facts = RunFacts(self.examples, self._weights_given, live, recorded, device)
        return ignored_settings(self.config, facts, named)

    @property
    def step_count(self) -> int:
        """Return the number of steps taken.

        Returns:
            Undone steps count as well.
        """
        return self.trainer.step_count

    @property
    def is_finished(self) -> bool:
        """Return whether the last epoch is over and tested.

        Returns:
            Always False for a run that trains until stopped.
        """
        if not self.total_steps or self.evaluation.has_pending_test:
            return False
        return self.step_count >= self.total_steps

    def advance(self) -> bool:
        """Take a step, or advance a pending test pass by one chunk.

        Returns:
            True if it was a step.
        """
        overhead = self.budget.overhead
        if self.evaluation.ends_epoch:
            overhead.exclude_work(self.evaluation.advance_test)
            return False
        if self.evaluation.has_pending_test:
            overhead.interrupt_quiet()
            self.evaluation.advance_test()
            return False
        self._train_step()
        overhead.steps += 1
        return True

    def advance_until(
        self, until: float, is_idle: Callable[[], bool], most: int | None = None
    ) -> int:
        """Take steps until something else is to be done, or advance a pending test pass.

        Args:
            until: Time of the monotonic clock after which no further step is started.
            is_idle: Called after each step; no further step is started unless it returns True.
            most: Number of steps at most; None for no limit.

        Returns:
            Number of steps, at least one; 0 if a test pass was advanced instead.
        """
        if not self.advance():
            return 0
        trainer, evaluation, clock = self.trainer, self.evaluation, time.monotonic
        first = trainer.step_count - 1
        last = math.inf if most is None else first + most
        try:
            while (
                trainer.step_count < last
                and is_idle()
                and clock() < until
                and not (evaluation.has_pending_test or self.diverged or self.is_finished)
            ):
                self._train_step()
        finally:
            self.budget.overhead.steps += trainer.step_count - first - 1
        return trainer.step_count - first

    def step(self) -> None:
        """Take a training step, and the test pass after it if one is due."""
        self._train_step()
        while self.evaluation.has_pending_test:
            self.evaluation.advance_test()

    def _train_step(self) -> None:
        """Take a training step; a loss that is not finite ends the run."""
        if self.control.pretrain_steps and self.step_count == self.control.pretrain_steps:
            self.control.swap_regime(self.target.name, restart_value=True)
        try:
            self._step_with_memory()
        except Exception as error:
            if is_out_of_memory(error):
                raise does_not_fit(self.trainer) from None
            raise
        if not self.evaluation.after_step():
            self._stop_diverged()
        elif self.step_count % self.trainer.steps_per_epoch == 0:
            self.stop_if_trained(self.evaluation.epoch_accuracy)

    def _step_with_memory(self) -> None:
        """Take a step; if memory runs out, end expensive readings on the card and retry."""
        try:
            return self.trainer.step()
        except Exception as error:
            trouble = "training needs the memory of the card"
            if not (is_out_of_memory(error) and self.probe_schedule.refined.end_jobs(trouble)):
                raise
        self.trainer.network_step.drop_gradients()
        free_memory()
        return self.trainer.step()

    def wait_for_scores(self) -> None:
        """Wait for all requested train scores, which only a card delays."""
        if not self.diverged and not self.evaluation.wait_for_scores():
            self._stop_diverged()

    def _stop_diverged(self) -> None:
        # On a CPU every loss is checked, on a card only those of scores.
        step = self.step_count
        last = step - 1 if self.device.type == "cpu" else self.evaluation.last_finite
        if last is not None and last == self._overflowed_at:  # diverged at once after an undo
            last = self._last_finite
        self._stop_at_overflow("loss", last)

    def stop_overflowed(self) -> None:
        """End the run as diverged, since a reading found weights that are not finite."""
        if not self.diverged:
            last = self.step_count if self.device.type == "cpu" else self.evaluation.last_finite
            self._stop_at_overflow("weights", last)

    def _stop_at_overflow(self, what: str, last_finite: int | None) -> None:
        self.diverged = True
        self._overflowed_at, self._last_finite = self.step_count, last_finite
        self._emit(Diverged(self.step_count, what, last_finite))

    def live_copies(self) -> list[Snapshot]:
        """Return the copies of its state still in memory, for undo or in the recorder's queue.

        Returns:
            Oldest first.
        """
        alive = [copy for known in self._copies if (copy := known()) is not None]
        self._copies = [weakref.ref(copy) for copy in alive]
        return alive

    def note_copy(self, copy: Snapshot) -> None:
        """Keep a weak reference to a copy of its state.

        Args:
            copy: The copy.
        """
        self._copies = [weakref.ref(known) for known in (*self.live_copies(), copy)]

    def stop_if_trained(self, accuracy: float) -> None:
        """End the run if an epoch reached `training.until` or exhausted `training.patience`.

        Epochs of pre-training never end a run.

        Args:
            accuracy: Train accuracy of the epoch, in [0, 1].
        """
        if self.step_count <= self.control.pretrain_steps:
            return
        until = self.config.training.until
        if self.evaluation.is_flat(accuracy) or (until and accuracy >= until):
            self.total_steps = self.step_count

    def choose_probe_examples(self, wanted: int, choice: str | None = None) -> None:
        """Choose another probe set, as a run started with it would.

        Args:
            wanted: Number of probe examples, at least 2.
            choice: As the setting `probe_set`; None to keep the current one.

        Raises:
            UserError: The choice does not fit the data.
        """
        text = self.config.probe_set if choice is None else choice
        before, config = self.config, replace(self.config, probe_examples=wanted, probe_set=text)
        if config == before:
            return
        self.probed.choose_examples(config)
        self.config = config

    def save_weights(self, path: FilePath) -> None:
        """Write the weights, and emit `WeightsSaved`.

        Args:
            path: File to write.

        Raises:
            UserError: The file cannot be written.
        """
        save_trainer(path, self.trainer)
        self._emit(WeightsSaved(self.step_count, str(path)))


def does_not_fit(trainer: Trainer) -> DoesNotFitError:
    """Build the error for a run whose step ran out of memory.

    Args:
        trainer: Its trainer.

    Returns:
        Its value is a batch size that would fit, 0 if there is none.
    """
    batch = min(trainer.config.training.batch, len(trainer.data.train_y))
    fitting = batch_that_fits(trainer, batch // 2)
    if fitting:
        return DoesNotFitError(
            f"Training does not fit in memory with a batch of {batch:,}; "
            f"a batch of about {fitting:,} would fit.",
            kind="no-memory",
            value=fitting,
        )
    return DoesNotFitError(
        "Training does not fit in memory, not even with a batch of 1; "
        "choose a smaller network, smaller images or another device.",
        kind="no-memory",
        value=0,
    )


def batch_that_fits(trainer: Trainer, most: int) -> int:
    """Find a batch size by trying forward and backward passes.

    No weight or random number is changed; gradients and captured graphs are dropped.

    Args:
        trainer: The trainer.
        most: Largest batch to try.

    Returns:
        The first of most, most/2, most/4, … that fits; 0 if none does.
    """
    trainer.network_step.drop_gradients()  # of the failed pass
    trainer.steps.drop_graphs()  # graphs hold memory of their own
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
    """Run a step of `size` examples with room for the optimiser's state."""
    network, training = trainer.network, trainer.config.training
    trained = [weight for weight in network.parameters() if weight.requires_grad]
    copies = 0 if trainer.optimizer.torch.state else count_moments(training)
    room = [torch.empty_like(weight) for weight in trained for _ in range(copies)]
    rows = torch.arange(size, device=trainer.data.train_x.device)
    logits = trainer.control.network_at(rows)(trainer.data.train_x[rows])
    value = compute_loss(training.loss, logits, trainer.data.train_y[rows])
    torch.autograd.grad(value, trained, allow_unused=True)
    del room
