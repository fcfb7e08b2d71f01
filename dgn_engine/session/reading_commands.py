"""Commands about readings: of which probe examples they are, cancelled and resumed."""

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
from dgn_engine.training.probe_pictures import pictures_of
from dgn_engine.training.readings.executor_choice import ExecutorChoice
from dgn_engine.training.readings.probe_schedule import ProbeSchedule
from dgn_engine.training.readings.reading_sizes import any_heavy
from dgn_engine.training.run import Run
from dgn_engine.training.steps.losses import answered_right
from dgn_engine.training.trainer import Trainer

MOST_LISTED = 256
LOOKED_AT = 4096  # training examples that are tried for those that are misclassified
_TOGETHER = 256
USUAL, CLASSES = (3, 32, 32), 10  # images of most data sets, where they are not read yet


def listed_examples(command: ListExamples, shown: ReadableNetwork) -> ExamplesListed:
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
    found = ProbeSet(indices, classes, names, "")
    pictures = pictures_of(found, shown.probed.training_images(rows), shown.config.data.normalise)
    return ExamplesListed(command.label, first, total, pictures)


def misclassified(trainer: Trainer, wanted: int, seed: int) -> tuple[int, ...]:
    """Rows of training examples that the network gets wrong now, the first `wanted` of an order
    drawn by the seed, of which `LOOKED_AT` are tried.

    Raises `UserError` where there are fewer than two.
    """
    generator = random_stream("probe", seed)
    order = torch.randperm(trainer.batches.examples, generator=generator)[:LOOKED_AT]
    found: list[int] = []
    for rows in torch.split(order, _TOGETHER):
        at = rows.to(trainer.data.train_x.device)
        with torch.no_grad():
            logits = trainer.control.network_at(at)(trainer.data.train_x[at])
        right = answered_right(logits, trainer.data.train_y[at])
        found.extend(rows[~right.cpu()].tolist())
        if len(found) >= wanted:
            break
    if len(found) < 2:
        raise UserError(
            f"{len(found)} of {len(order):,} training examples {'is' if len(found) == 1 else 'are'}"
            f" misclassified at step {trainer.step_count:,}; a probe set needs two.",
            kind="empty",
            value=len(found),
        )
    return tuple(found[:wanted])


class ReadingCommands:
    """Commands are about what is shown and about what it is compared with."""

    def __init__(
        self, emit: Callable[[Event], None], choice: ExecutorChoice, comparison: Comparison
    ) -> None:
        self._emit = emit
        self._choice = choice
        self._comparison = comparison

    def expect(self, config: RunConfig) -> None:
        """Start the reading process while the data are still being read, where a network of this
        kind would need it on usual images."""
        try:
            architecture = architecture_for(config.net, USUAL, CLASSES)
            if any_heavy(architecture):
                self._choice.prepare(config.device)
        except UserError:  # the run itself will say so
            return

    def use_executor(self, shown: ReadableNetwork) -> None:
        """Read what is shown from now on where its device and size ask for it."""
        self._choice.choose(shown.device, shown.architecture)
        shown.probe_schedule.use_executor(self._choice.executor)

    def release(self, shown: ReadableNetwork | None) -> None:
        """It is about to be replaced: nobody waits for its readings any more."""
        if shown is not None:
            shown.probe_schedule.release()

    def cancel(self, command: CancelReading, shown: ReadableNetwork) -> None:
        self._each(command.probes, shown, ProbeSchedule.cancel)

    def resume(self, command: GoOnReading, shown: ReadableNetwork) -> None:
        self._each(command.probes, shown, ProbeSchedule.resume)

    def choose_number(self, command: SetProbeExamples, shown: ReadableNetwork) -> None:
        """So many of those that were chosen; what was chosen by hand gives way."""
        choice = replace(ProbeChoice.parse(shown.config.probe_set), rows=())
        self.choose(shown, command.examples, str(choice))

    def choose_set(self, command: ChooseProbeSet, shown: ReadableNetwork) -> None:
        self.choose(shown, shown.config.probe_examples, str(ProbeChoice.parse(command.choice)))

    def choose_misclassified(self, _: ChooseMisclassified, shown: ReadableNetwork) -> None:
        if not isinstance(shown, Run):
            words = "Only a run can say which training examples it gets wrong now."
            raise UserError(words, kind="only-inspected")
        rows = misclassified(shown.trainer, shown.config.probe_examples, shown.config.seed)
        choice = replace(ProbeChoice.parse(shown.config.probe_set), classes=(), rows=rows)
        self.choose(shown, shown.config.probe_examples, str(choice))

    def list_examples(self, command: ListExamples, shown: ReadableNetwork) -> None:
        self._emit(listed_examples(command, shown))

    def choose(self, shown: ReadableNetwork, count: int, choice: str) -> None:
        """Make the probe set of so many examples, and of these; training does not notice."""
        before = shown.config
        if (before.probe_examples, before.probe_set) == (count, choice):
            return
        if ProbeChoice.parse(choice).drawn and shown.probed.context().regime.drawn_gates:
            words = "The gates of this regime are drawn for training examples only."
            raise UserError(words, kind="not-supported")
        shown.choose_probe_examples(count, choice)
        digest = shown.probed.probe_set.digest
        self._emit(ProbeSetChanged(shown.step_count, count, digest, choice))
        self.meet(shown)

    def meet(self, shown: ReadableNetwork) -> None:
        """There are other probe examples: show them, and read what is compared on them, too."""
        normalise = shown.config.data.normalise
        images, one = shown.probed.probe_images, shown.probed.image_shape
        self._emit(pictures_of(shown.probed.probe_set, images, normalise, one))
        self._comparison.renew(probe_inputs_of(shown))

    def _each(
        self,
        probes: tuple[str, ...],
        shown: ReadableNetwork,
        act: Callable[[ProbeSchedule, str], None],
    ) -> None:
        for schedule in (shown.probe_schedule, self._comparison.probe_schedule):
            if schedule is not None:
                for name in probes:
                    act(schedule, name)
