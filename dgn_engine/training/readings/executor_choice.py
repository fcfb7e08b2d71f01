"""Choose where a session computes expensive readings: in a process, or on the card."""

from __future__ import annotations

import torch

from dgn_engine.config import Device
from dgn_engine.model.architecture import Architecture
from dgn_engine.training.devices import choose_device
from dgn_engine.training.readings.process_readings import ProcessReadings
from dgn_engine.training.readings.reading_sizes import any_heavy
from dgn_engine.training.readings.stream_readings import StreamReadings


class ExecutorChoice:
    """The executor that displayed and compared network share, by the displayed one's device.

    Attributes:
        executor: The current executor.
    """

    def __init__(self) -> None:
        self.executor: ProcessReadings | StreamReadings = ProcessReadings()

    def prepare_executor(self, device: Device) -> None:
        """Start the reading process ahead of time, unless readings will run on a card.

        Args:
            device: Device of the configuration.

        Raises:
            UserError: The device does not exist.
        """
        on_card = choose_device(device).type == "cuda"
        if not on_card and isinstance(self.executor, ProcessReadings):
            self.executor.start()

    def choose_executor(self, device: torch.device, architecture: Architecture) -> None:
        """Select the executor for a network, and start or end the reading process accordingly.

        Args:
            device: Device of the network.
            architecture: Architecture of the network.
        """
        on_card = isinstance(self.executor, StreamReadings)
        if (device.type == "cuda") != on_card:
            self.executor.close()
            self.executor = ProcessReadings() if on_card else StreamReadings(device)
        if isinstance(self.executor, ProcessReadings):
            if any_heavy(architecture):
                self.executor.start()
            else:
                self.executor.end_unless_used()
