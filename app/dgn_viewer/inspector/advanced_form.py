"""What is asked only by who wants it: spoilt data, tiled and turned gates, when to stop."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from PySide6.QtWidgets import QVBoxLayout, QWidget

from dgn_engine.config import Augmentation, Pixels, RunConfig
from dgn_viewer.style.theme import Theme
from dgn_viewer.widgets.collapsible import Collapsible
from dgn_viewer.widgets.form_fields import ListField, PathField, PickBox
from dgn_viewer.widgets.form_section import Section
from dgn_viewer.widgets.integer_field import IntegerField
from dgn_viewer.widgets.number_field import NumberField

_MANY = 10**9


class AdvancedForm(Collapsible):
    """Folded while everything in it is as usual."""

    def __init__(self) -> None:
        page = QWidget()
        column = QVBoxLayout(page)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(16)
        for section in (self._data(), self._gating(), self._training()):
            column.addWidget(section)
        super().__init__("Advanced", page)
        self.button.toggled.connect(self._tell)

    def fill(self, config: RunConfig) -> None:
        """Show this configuration; it opens where something in it is unusual."""
        data, gating, training = config.data, config.gating, config.training
        self.label_noise.show_value(data.label_noise)
        self.pixels.pick(data.pixels)
        self.variant_seed.setValue(data.variant_seed)
        self.test_limit.setValue(data.test_limit)
        self.tiling.show_numbers(gating.tiling)
        self.rotation.show_numbers(gating.rotation)
        self.shift.show_numbers(gating.shift)
        self.weights_from.show_path(training.weights_from)
        self.until.show_value(training.until)
        self.augmentation.pick(training.augmentation)
        self.open(bool(self._unusual()))

    def put_into(self, config: RunConfig, wired: bool) -> RunConfig:
        """The configuration with what is filled in here; `wired`: there are gates to be turned."""
        data = replace(
            config.data,
            label_noise=self.label_noise.value(),
            pixels=cast(Pixels, self.pixels.value()),
            variant_seed=self.variant_seed.value(),
            test_limit=self.test_limit.value(),
        )
        gating = replace(
            config.gating,
            tiling=self.tiling.numbers() if wired else (),
            rotation=self.rotation.numbers() if wired else (),
            shift=self.shift.numbers() if wired else (),
        )
        training = replace(
            config.training,
            weights_from=self.weights_from.path(),
            until=self.until.value(),
            augmentation=cast(Augmentation, self.augmentation.value()),
        )
        return replace(config, data=data, gating=gating, training=training)

    def show_wires(self, wired: bool) -> None:
        """Whether the regime has gates that can be tiled and turned."""
        self._gates.setVisible(wired)

    def set_theme(self, theme: Theme) -> None:
        """Colour the icons."""
        super().set_theme(theme)
        self.weights_from.set_theme(theme)

    def _unusual(self) -> list[str]:
        """What is not as usual, by its label."""
        changed = {
            "label noise": self.label_noise.value() != 0,
            "random pixels": self.pixels.value() == "random",
            "seed": self.variant_seed.value() != 0,
            "test examples": self.test_limit.value() != 0,
            "tiled gates": bool(self.tiling.text().strip()),
            "rotated gates": bool(self.rotation.text().strip()),
            "shifted gates": bool(self.shift.text().strip()),
            "augmentation": self.augmentation.value() != "none",
            "weights from a file": bool(self.weights_from.path()),
            "stop at an accuracy": self.until.value() != 0,
        }
        return [name for name, is_changed in changed.items() if is_changed]

    def _tell(self) -> None:
        names = self._unusual()
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        self.say(f"{names[0]}{more}" if names else "")

    def _data(self) -> Section:
        self.label_noise = NumberField(0.0, 1.0, rungs=(1, 2, 2.5, 5, 7.5))
        self.pixels = PickBox([("true", "as they are"), ("random", "Gaussian noise")])
        self.variant_seed = IntegerField(0, 2**31 - 1)
        self.test_limit = IntegerField(0, _MANY, zero="all")
        rows = Section("Data")
        rows.add("test examples", self.test_limit, "So many, balanced over the classes")
        rows.add(
            "label noise",
            self.label_noise,
            "The chance of each training label to be drawn anew; 1 makes all labels random. "
            "Test labels stay true",
        )
        rows.add("training pixels", self.pixels, "Noise of the training set's mean and variance")
        rows.add("seed of these", self.variant_seed, "Of false labels, noise and drawn data sets")
        return rows

    def _gating(self) -> Section:
        self.tiling = ListField("Tiling", "1 1 … for each layer")
        self.rotation = ListField("Rotation", "0 0 … for each layer")
        self.shift = ListField("Shift", "0 0 … for each layer")
        rows = self._gates = Section("Gates")
        rows.add("tiled", self.tiling, "So many times the units; each layer's gates are repeated")
        rows.add("rotated", self.rotation, "Each layer's gates, cyclically by so many units")
        rows.add("shifted", self.shift, "Gates of maps, cyclically by so many rows and columns")
        return rows

    def _training(self) -> Section:
        self.weights_from = PathField("Checkpoint for the weights", "drawn by seed", folder=False)
        self.until = NumberField(0.01, 1.0, rungs=(1, 2, 5, 9, 9.5, 9.9), no_limit="never")
        self.augmentation = PickBox([("none", "none"), ("davidnet", "as DavidNet's")])
        rows = Section("Training")
        rows.add(
            "augmentation",
            self.augmentation,
            "Training images are shifted, mirrored and cut out, anew in each epoch; "
            "of images that a convolutional network takes",
        )
        rows.add("weights from", self.weights_from, "What the value network begins with")
        rows.add("stop at", self.until, "After an epoch of at least this train accuracy")
        return rows
