"""Advanced settings of an experiment: learning rates, seeds, data limits, device, executor."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtWidgets import QLineEdit, QWidget

from dgn_engine.config import MOST_SEED
from dgn_engine.errors import UserError
from dgn_engine.experiments.report.reproduce_request import ReproduceRequest
from dgn_engine.protocol.catalogue import Catalogue, ExperimentEntry
from dgn_viewer.widgets.collapsible import Collapsible
from dgn_viewer.widgets.form_fields import PickBox
from dgn_viewer.widgets.form_section import Section
from dgn_viewer.widgets.integer_field import IntegerField
from dgn_viewer.widgets.layouts import make_column

_MANY = 10**9
_EXECUTORS = (
    ("auto", "automatic"),
    ("serial", "one by one"),
    ("processes", "in parallel"),
    ("packed", "packed in stacks"),
)


class ExperimentAdvanced(Collapsible):
    """The advanced settings that an experiment supports, initially folded."""

    def __init__(self, entry: ExperimentEntry, catalogue: Catalogue) -> None:
        self.steps = RatesField("Learning rates")
        self.augmentation = PickBox([("none", "none"), ("davidnet", "as in DavidNet")])
        self.seed_start = IntegerField(0, MOST_SEED)
        self.train_limit = IntegerField(0, _MANY, zero="all")
        self.test_limit = IntegerField(0, _MANY, zero="all")
        self._offered = dict.fromkeys(("auto", *catalogue.devices))
        self.device = PickBox([(name, name) for name in self._offered])
        self.executor = PickBox(list(_EXECUTORS))
        self.devices = QLineEdit()
        self.devices.setPlaceholderText("all GPUs")
        self.devices.setAcceptDrops(False)  # a file dropped on the window is a checkpoint
        page = QWidget()
        make_column(self._make_rows(entry), into=page)
        super().__init__("Advanced", page)
        self.button.toggled.connect(self._show_changed)

    def add_to_request(self, request: ReproduceRequest) -> ReproduceRequest:
        """Return the request with these settings; raise `UserError` for invalid rates."""
        return replace(
            request,
            steps=self.steps.learning_rates(),
            augmentation=self.augmentation.value(),
            seed_start=self.seed_start.value(),
            train_limit=self.train_limit.value(),
            test_limit=self.test_limit.value(),
            device=self.device.value(),
            executor=self.executor.value(),
            devices=self.devices.text().strip(),
        )

    def _make_rows(self, entry: ExperimentEntry) -> Section:
        rows = Section()
        rows.add_field(
            "learning rates",
            self.steps,
            "Rates to try with SGD; the best one counts. Example: 0.1 0.01",
        )
        rows.add_field(
            "augmentation",
            self.augmentation,
            "Shift, flip and cut out training images at random in each epoch",
        )
        rows.add_field("first seed", self.seed_start, "Seeds count up from here")
        rows.add_field(
            "training examples", self.train_limit, "Maximum number, balanced over classes"
        )
        rows.add_field("test examples", self.test_limit, "Maximum number, balanced over classes")
        rows.add_field("device", self.device)
        rows.add_field(
            "execution", self.executor, "Packed: train dense networks together in one stack"
        )
        rows.add_field("devices", self.devices, "Devices, such as cuda:0,cuda:1 or cpu")
        rows.show_row(self.devices, "cuda" in self._offered)
        rows.show_row(self.steps, "steps" in entry.asks)
        rows.show_row(self.augmentation, "augmentation" in entry.asks)
        return rows

    def _show_changed(self) -> None:
        changed = {
            "learning rates": bool(self.steps.text().strip()),
            "augmentation": self.augmentation.value() != "none",
            "first seed": self.seed_start.value() != 0,
            "training examples": self.train_limit.value() != 0,
            "test examples": self.test_limit.value() != 0,
            "device": self.device.value() != "auto",
            "execution": self.executor.value() != "auto",
            "devices": bool(self.devices.text().strip()),
        }
        names = [name for name, is_changed in changed.items() if is_changed]
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        self.set_note(f"{names[0]}{more}" if names else "")


class RatesField(QLineEdit):
    """A field for a list of learning rates; empty for the experiment's defaults."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name
        self.setPlaceholderText("default")
        self.setAcceptDrops(False)  # a file dropped on the window is a checkpoint

    def learning_rates(self) -> tuple[float, ...]:
        """Return the learning rates; raise `UserError` if the text is not a list of them."""
        parts = self.text().replace(",", " ").split()
        try:
            rates = tuple(float(part) for part in parts)
        except ValueError:
            rates = (0.0,)
        if not all(0 < rate < float("inf") for rate in rates):
            raise UserError(
                f"{self._name} '{self.text()}' are not valid: enter positive numbers, "
                "such as 0.1 0.01."
            )
        return rates
