"""Commands about readings: their probe examples, cancelling and resuming."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.importing.from_file import architecture_for
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.probe_choice import ProbeChoice
from dgn_engine.protocol.watching import (
    CancelReading,
    ChooseMisclassified,
    ChooseProbeSet,
    ExamplesListed,
    GoOnReading,
    ListExamples,
    ProbeSet,
    ProbeSetChanged,
    SetProbeExamples,
)
from dgn_engine.random_streams import random_stream
from dgn_engine.session.comparison import Comparison
from dgn_engine.session.frozen_network import probe_inputs_of
from dgn_engine.session.readable_network import ReadableNetwork
from dgn_engine.training.probe_pictures import make_pictures
from dgn_engine.training.readings.executor_choice import ExecutorChoice
from dgn_engine.training.readings.probe_schedule import ProbeSchedule
from dgn_engine.training.readings.reading_sizes import any_heavy
from dgn_engine.training.run import Run
from dgn_engine.training.steps.losses import correct_mask
from dgn_engine.training.trainer import Trainer

MOST_LISTED = 256
LOOKED_AT = 4096  # training examples searched for misclassified ones
_TOGETHER = 256
USUAL, CLASSES = (3, 32, 32), 10  # of most data sets, until the data have been read


def listed_examples(command: ListExamples, shown: ReadableNetwork) -> ExamplesListed:
    """Return the requested training examples with their pictures."""
    labels, names = (
        shown.probed.train_labels,
        shown.probed.probe_set.class_names[: shown.probed.probe_set.classes],
    )
    rows = np.arange(len(labels))
    if command.label >= 0:
        rows = rows[labels == command.label]
    total, first = len(rows), max(command.first, 0)
    rows = rows[first : first + min(command.count, MOST_LISTED)]
    indices, classes = tuple(map(int, rows)), tuple(map(int, labels[rows]))
    probe_set = ProbeSet(indices, classes, names, "")
    pictures = make_pictures(
        probe_set, shown.probed.training_images(rows), shown.config.data.normalise
    )
    return ExamplesListed(command.label, first, total, pictures)


def find_misclassified(trainer: Trainer, wanted: int, seed: int) -> tuple[int, ...]:
    """Return up to `wanted` training examples that the network currently misclassifies.

    At most `LOOKED_AT` are tried, in an order drawn from the seed. Raises `UserError` if fewer than
    two are misclassified.
    """
    generator = random_stream("probe", seed)
    order = torch.randperm(trainer.batches.examples, generator=generator)[:LOOKED_AT]
    wrong: list[int] = []
    for rows in torch.split(order, _TOGETHER):
        on_device = rows.to(trainer.data.train_x.device)
        with torch.no_grad():
            logits = trainer.control.network_at(on_device)(trainer.data.train_x[on_device])
        right = correct_mask(logits, trainer.data.train_y[on_device])
        wrong.extend(rows[~right.cpu()].tolist())
        if len(wrong) >= wanted:
            break
    if len(wrong) < 2:
        raise UserError(
            f"{len(wrong)} of {len(order):,} training examples {'is' if len(wrong) == 1 else 'are'}"
            f" misclassified at step {trainer.step_count:,}; a probe set needs at least two.",
            kind="empty",
            value=len(wrong),
        )
    return tuple(wrong[:wanted])


class ReadingCommands:
    """Carries out commands about what is shown and what it is compared with."""

    def __init__(
        self, emit: Callable[[Event], None], choice: ExecutorChoice, comparison: Comparison
    ) -> None:
        self._emit = emit
        self._choice = choice
        self._comparison = comparison

    def prepare_executor(self, config: RunConfig) -> None:
        """Start the reading process while the data are still being read, if a network of this kind
        would need it on images of the usual size."""
        try:
            architecture = architecture_for(config.net, USUAL, CLASSES)
            if any_heavy(architecture):
                self._choice.prepare_executor(config.device)
        except UserError:  # the run itself will report it
            return

    def use_executor(self, shown: ReadableNetwork) -> None:
        """Compute readings of what is shown where its device and size require."""
        self._choice.choose_executor(shown.device, shown.architecture)
        shown.probe_schedule.use_executor(self._choice.executor)

    def release_readings(self, shown: ReadableNetwork | None) -> None:
        """Drop readings in progress: what is shown is about to be replaced."""
        if shown is not None:
            shown.probe_schedule.release()

    def cancel_readings(self, command: CancelReading, shown: ReadableNetwork) -> None:
        self._for_each_schedule(command.probes, shown, ProbeSchedule.cancel)

    def resume_readings(self, command: GoOnReading, shown: ReadableNetwork) -> None:
        self._for_each_schedule(command.probes, shown, ProbeSchedule.resume)

    def choose_number(self, command: SetProbeExamples, shown: ReadableNetwork) -> None:
        """Choose this many probe examples in the same way; manually chosen ones are dropped."""
        choice = replace(ProbeChoice.parse(shown.config.probe_set), rows=())
        self.apply_probe_choice(shown, command.examples, str(choice))

    def choose_set(self, command: ChooseProbeSet, shown: ReadableNetwork) -> None:
        self.apply_probe_choice(
            shown, shown.config.probe_examples, str(ProbeChoice.parse(command.choice))
        )

    def choose_misclassified(self, _: ChooseMisclassified, shown: ReadableNetwork) -> None:
        if not isinstance(shown, Run):
            words = "Only a run has misclassified training examples; this network is inspected."
            raise UserError(words, kind="only-inspected")
        rows = find_misclassified(shown.trainer, shown.config.probe_examples, shown.config.seed)
        choice = replace(ProbeChoice.parse(shown.config.probe_set), classes=(), rows=rows)
        self.apply_probe_choice(shown, shown.config.probe_examples, str(choice))

    def list_examples(self, command: ListExamples, shown: ReadableNetwork) -> None:
        self._emit(listed_examples(command, shown))

    def apply_probe_choice(self, shown: ReadableNetwork, count: int, choice: str) -> None:
        """Change the number and choice of the probe examples; training is not affected."""
        before = shown.config
        if (before.probe_examples, before.probe_set) == (count, choice):
            return
        if ProbeChoice.parse(choice).drawn and shown.probed.probe_context().regime.drawn_gates:
            words = "The gates of this regime exist for training examples only."
            raise UserError(words, kind="not-supported")
        shown.choose_probe_examples(count, choice)
        digest = shown.probed.probe_set.digest
        self._emit(ProbeSetChanged(shown.step_count, count, digest, choice))
        self.emit_probe_examples(shown)

    def emit_probe_examples(self, shown: ReadableNetwork) -> None:
        """Emit the pictures of new probe examples, and read the compared network on them too."""
        normalise = shown.config.data.normalise
        images, shape = shown.probed.probe_images, shown.probed.image_shape
        self._emit(make_pictures(shown.probed.probe_set, images, normalise, shape))
        self._comparison.reopen_for(probe_inputs_of(shown))

    def _for_each_schedule(
        self,
        probes: tuple[str, ...],
        shown: ReadableNetwork,
        act: Callable[[ProbeSchedule, str], None],
    ) -> None:
        """Apply `act` to each of these probes, in the schedules of the network and the
        comparison."""
        for schedule in (shown.probe_schedule, self._comparison.probe_schedule):
            if schedule is not None:
                for name in probes:
                    act(schedule, name)
