"""Where a session makes expensive readings: in a process, or on the card that networks lie on."""

from __future__ import annotations

import torch

from dgn_engine.config import Device
from dgn_engine.model.architecture import Architecture
from dgn_engine.training.devices import choose_device
from dgn_engine.training.readings.process_readings import ProcessReadings
from dgn_engine.training.readings.reading_sizes import any_heavy
from dgn_engine.training.readings.stream_readings import StreamReadings


class ExecutorChoice:
    """The executor of what is shown and of what it is compared with; another one with the device
    of what is shown."""

    def __init__(self) -> None:
        self.executor: ProcessReadings | StreamReadings = ProcessReadings()

    def prepare(self, device: Device) -> None:
        """Start the reading process, unless readings are made on a card. Raises `UserError` where
        there is no such device."""
        on_card = choose_device(device).type == "cuda"
        if not on_card and isinstance(self.executor, ProcessReadings):
            self.executor.start()

    def choose(self, device: torch.device, architecture: Architecture) -> None:
        """Read networks of this kind on this device; a process is there if one will be needed."""
        on_card = isinstance(self.executor, StreamReadings)
        if (device.type == "cuda") != on_card:
            self.executor.close()
            self.executor = ProcessReadings() if on_card else StreamReadings(device)
        if isinstance(self.executor, ProcessReadings):
            if any_heavy(architecture):
                self.executor.start()
            else:
                self.executor.end_unless_used()
