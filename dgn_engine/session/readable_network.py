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


class ReadableExamples(Protocol):
    """The examples that a network is read on, and those that they are chosen from."""

    probe_set: ProbeSet
    image_shape: tuple[int, ...]  # of one example as it is stored

    def context(self, compared: ComparedGates = no_comparison) -> ProbeContext:
        """Return the probe examples under the network, beside one that is compared with."""

    @property
    def probe_images(self) -> Array:
        """(n, *image_shape): the probe examples as images, or as vectors."""

    @property
    def train_labels(self) -> Array:
        """(n,) of all training examples."""

    def training_images(self, rows: Array) -> Array:
        """(m, *image_shape): these training examples as images, or as vectors."""


class ReadableNetwork(Protocol):
    """A run, or a network that is inspected in its place (`training.run.Run` and
    `frozen_network.InspectedNetwork`)."""

    number: int  # of what the session has shown so far
    config: RunConfig
    device: torch.device
    probe_schedule: ProbeSchedule

    @property
    def probed(self) -> ReadableExamples: ...

    @property
    def architecture(self) -> Architecture: ...

    @property
    def step_count(self) -> int:
        """The training steps that led to its weights."""

    def choose_probe_examples(self, wanted: int, choice: str | None = None) -> None:
        """Choose so many probe examples, at least 2; `choice`: which, as `probe_set` of the
        configuration has it (None: as before)."""
