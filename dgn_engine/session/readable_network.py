"""What a session reads, whether it trains or not: a network on probe examples of some data."""

from __future__ import annotations

from typing import Protocol

import torch

from dgn_engine.config import RunConfig
from dgn_engine.model.architecture import Architecture
from dgn_engine.protocol.frames import Array
from dgn_engine.protocol.watching import ProbeSet
from dgn_engine.training.probes import ComparedGates, ProbeContext, no_comparison
from dgn_engine.training.readings.probe_schedule import ProbeSchedule


class ReadableNetwork(Protocol):
    """A run, or a network that is inspected in its place (`training.run.Run` and
    `frozen_network.InspectedNetwork`)."""

    number: int  # of what the session has shown so far
    config: RunConfig
    device: torch.device
    probe_schedule: ProbeSchedule
    probe_set: ProbeSet

    @property
    def architecture(self) -> Architecture: ...

    @property
    def image_shape(self) -> tuple[int, ...]:
        """The shape of one example as it is stored."""

    @property
    def step_count(self) -> int:
        """The training steps that led to its weights."""

    def context(self, compared: ComparedGates = no_comparison) -> ProbeContext:
        """Return the probe examples under the network, beside one that is compared with."""

    def choose_probe_examples(self, wanted: int, choice: str | None = None) -> None:
        """Choose so many probe examples, at least 2; `choice`: which, as `probe_set` of the
        configuration has it (None: as before)."""

    @property
    def probe_images(self) -> Array:
        """(n, *image_shape): the probe examples as images, or as vectors."""

    @property
    def train_labels(self) -> Array:
        """(n,) of all training examples."""

    def training_images(self, rows: Array) -> Array:
        """(m, *image_shape): these training examples as images, or as vectors."""
