"""The network that a session reads, trained or inspected, and its probe examples."""

from __future__ import annotations

from typing import Protocol

import torch

from dgn_engine.config import RunConfig
from dgn_engine.model.architecture import Architecture
from dgn_engine.protocol.frames import Array
from dgn_engine.protocol.watching import ProbeSet
from dgn_engine.training.probes import ComparedGates, ComparedNetwork, ProbeContext, no_comparison
from dgn_engine.training.readings.probe_schedule import ProbeSchedule


class ReadableExamples(Protocol):
    """The examples that a network is read on, and the training examples to choose from."""

    probe_set: ProbeSet
    image_shape: tuple[int, ...]  # of one example as it is stored

    def probe_context(
        self,
        compared: ComparedGates = no_comparison,
        compared_network: ComparedNetwork = no_comparison,
    ) -> ProbeContext:
        """Return what probes read: the probe examples, the network, and the gates and the network
        to compare with."""

    @property
    def probe_images(self) -> Array:
        """(n, *image_shape) The probe examples, as images or vectors."""

    @property
    def train_labels(self) -> Array:
        """(n,) The labels of all training examples."""

    def training_images(self, rows: Array) -> Array:
        """(m, *image_shape) These training examples, as images or vectors."""


class ReadableNetwork(Protocol):
    """A run, or a network inspected in its place (`training.run.Run` and
    `frozen_network.InspectedNetwork`)."""

    number: int  # counts what the session has shown, from 1
    config: RunConfig
    device: torch.device
    probe_schedule: ProbeSchedule

    @property
    def probed(self) -> ReadableExamples: ...

    @property
    def architecture(self) -> Architecture: ...

    @property
    def step_count(self) -> int:
        """The training step of its weights."""

    def choose_probe_examples(self, wanted: int, choice: str | None = None) -> None:
        """Choose this many probe examples, at least 2; `choice` as in the configuration's
        `probe_set` (None: unchanged)."""
