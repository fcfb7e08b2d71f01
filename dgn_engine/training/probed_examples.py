"""The probe set of a run on its device, and the network on it."""

from __future__ import annotations

import torch

from dgn_engine.config import RunConfig
from dgn_engine.data import Examples
from dgn_engine.data._normalisation import parse_normalisation
from dgn_engine.protocol.frames import Array
from dgn_engine.protocol.probe_choice import ProbeChoice
from dgn_engine.protocol.watching import ProbeSet
from dgn_engine.training.device_data import (
    choose_probe_set,
    choose_probe_set_on_device,
    drawn_inputs,
)
from dgn_engine.training.probes import (
    ComparedGates,
    ComparedNetwork,
    InputGeometry,
    ProbeContext,
    TrainingState,
    no_comparison,
)
from dgn_engine.training.readings.probe_schedule import ProbeSchedule
from dgn_engine.training.trainer import Trainer


class ProbedExamples:
    """The probe set of a run, on the device of its trainer.

    Attributes:
        probe_set: Indices, labels and digest of the examples.
        image_shape: Shape of an example in the data, even if the network takes vectors.
    """

    def __init__(
        self, config: RunConfig, examples: Examples, trainer: Trainer, schedule: ProbeSchedule
    ) -> None:
        """Choose the probe set of the configuration.

        Args:
            config: Configuration of the run.
            examples: Examples in main memory.
            trainer: The trainer; its data are on the device.
            schedule: Reset when the examples change.

        Raises:
            UserError: The configuration's choice does not fit the data.
        """
        self._config = config
        self._trainer = trainer
        self._schedule = schedule
        self.image_shape = tuple(examples.train_x.shape[1:])
        cuts = None if examples.cuts is None else torch.from_numpy(examples.cuts)
        self._geometry = InputGeometry(self.image_shape, cuts)
        choice = ProbeChoice.parse(config.probe_set)
        self._use_probe_set(choose_probe_set(examples, config.probe_examples, config.seed, choice))
        self._first = self.probe_set

    @property
    def initial_count(self) -> int:
        """Return the size of the probe set at the start of the run.

        Returns:
            0 if it has not changed.
        """
        first = len(self._first.indices)
        return 0 if first == len(self.probe_set.indices) else first

    def probe_context(
        self,
        compared: ComparedGates = no_comparison,
        compared_network: ComparedNetwork = no_comparison,
    ) -> ProbeContext:
        """Return the probe set under the current network.

        Args:
            compared: Returns the gates of a compared network on the same examples.
            compared_network: Returns that network.

        Returns:
            A context for probes; under FRG without drawn examples, which have no gates.
        """
        trainer, x, y = self._trainer, self._x, self._y
        network = trainer.control.network_at(self._rows)
        if trainer.regime.drawn_gates:  # drawn examples have no gates
            x, y = x[: len(self._rows)], y[: len(self._rows)]
        given = self._config.training
        training = TrainingState(
            step=trainer.step_count,
            loss=given.loss,
            optimiser=given.optimiser,
            learning_rate=trainer.optimizer.learning_rate,
            momentum=given.momentum,
            batch=min(given.batch, trainer.batches.examples),
            examples=trainer.batches.examples,
            augmented=given.augmentation != "none",
        )
        return ProbeContext(
            *(network, x, y, trainer.regime, compared),
            training=training,
            geometry=self._geometry,
            compared_network=compared_network,
        )

    def choose_examples(self, config: RunConfig) -> None:
        """Choose the probe set of another configuration, as a run started with it would.

        Args:
            config: The configuration.

        Raises:
            UserError: Its choice does not fit the data.
        """
        data, names = self._trainer.data, self.probe_set.class_names[: self.probe_set.classes]
        choice, wanted = ProbeChoice.parse(config.probe_set), config.probe_examples
        chosen = choose_probe_set_on_device(
            data, names, wanted, config.seed, choice, self.image_shape
        )
        self._config = config
        self._use_probe_set(chosen)
        self._restart_readings()

    def invalidate_readings(self) -> None:
        """Make all probes due, since the network changed.

        With drawn examples, which have no gates under FRG, all readings are reset.
        """
        if self.probe_set.drawn:
            self._restart_readings()
        else:
            self._schedule.invalidate_all()

    @property
    def train_labels(self) -> Array:
        """Return the labels of all training examples.

        Returns:
            (n,) int, on the CPU.
        """
        labels: Array = self._trainer.data.train_y.cpu().numpy()
        return labels

    def training_images(self, rows: Array) -> Array:
        """Return training examples in the shape of the data.

        Args:
            rows: Their rows, (m,) int.

        Returns:
            (m, *image_shape), on the CPU.
        """
        x = self._trainer.data.train_x
        images: Array = x[torch.from_numpy(rows).to(x.device)].cpu().numpy()
        return images.reshape(-1, *self.image_shape)

    @property
    def probe_images(self) -> Array:
        """Return the probe examples in the shape of the data.

        Returns:
            (n, *image_shape), on the CPU.
        """
        images: Array = self._x.reshape(-1, *self.image_shape).cpu().numpy()
        return images

    def _restart_readings(self) -> None:
        """Reset the schedule for the current probe set."""
        first, now = self._first, self.probe_set
        count = len(self._rows if self._trainer.regime.drawn_gates else now.indices)
        same = now.digest == first.digest and count == len(first.indices)
        self._schedule.reset_for_examples(
            0 if count == len(first.indices) else count, "" if same else now.digest[:8]
        )

    def _use_probe_set(self, chosen: ProbeSet) -> None:
        self.probe_set = chosen
        known, data = len(chosen.indices) - chosen.drawn, self._trainer.data
        self._rows = torch.tensor(chosen.indices[:known], device=data.train_x.device)
        self._x, self._y = data.train_x[self._rows], data.train_y[self._rows]
        if chosen.drawn:
            own = self._drawn_examples().reshape(-1, *data.train_x.shape[1:])
            classes = torch.full((len(own),), chosen.classes, device=self._y.device)
            self._x = torch.cat([self._x, own.to(self._x)])
            self._y = torch.cat([self._y, classes.to(self._y)])

    def _drawn_examples(self) -> torch.Tensor:
        """Return the user's drawn examples, normalised like training images."""
        own = drawn_inputs(ProbeChoice.parse(self._config.probe_set), self.image_shape)
        how = parse_normalisation(self._config.data.normalise)
        return torch.from_numpy(own if how is None else how(own))
