"""The form of a run: a `RunConfig` in fields, offered from what the engine can do."""

from __future__ import annotations

from typing import cast, get_args

from PySide6.QtWidgets import QCheckBox, QVBoxLayout, QWidget

from dgn_engine.config import (
    Device,
    GatingConfig,
    Initialisation,
    Loss,
    NetConfig,
    Optimiser,
    RunConfig,
    TrainingConfig,
    ValueInput,
)
from dgn_engine.protocol.catalogue import Catalogue, NetEntry, RegimeEntry
from dgn_viewer.inspector.advanced_form import AdvancedForm
from dgn_viewer.inspector.data_form import DataForm
from dgn_viewer.style.theme import Theme
from dgn_viewer.widgets.form_fields import PathField, PickBox
from dgn_viewer.widgets.form_section import OptionsForm, Section
from dgn_viewer.widgets.integer_field import IntegerField
from dgn_viewer.widgets.number_field import NumberField

_MANY = 10**9


def _pick(words: object) -> PickBox:
    return PickBox([(word, word) for word in get_args(words)])


class RunForm(QWidget):
    """Fields for what decides a run. Rows that do not matter are not shown, and what few ask for
    is folded away."""

    def __init__(self) -> None:
        super().__init__()
        self._catalogue = Catalogue((), (), (), (), ())
        self._wiring: tuple[int, ...] = ()
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 4, 16, 12)
        column.setSpacing(16)
        self.data, self.advanced = DataForm(), AdvancedForm()
        sections = (self._network(), self._gating(), self._training(), self._run())
        for section in (self.data, *sections, self.advanced):
            column.addWidget(section)
        column.addStretch(1)
        for box in (self.init, self.regime, self.optimiser):
            box.currentIndexChanged.connect(self._show_rows)
        self.net.currentIndexChanged.connect(self._show_options)
        self.gates_from.line.textChanged.connect(self._show_rows)
        self._show_rows()

    def offer(self, catalogue: Catalogue) -> None:
        """What can be chosen."""
        self._catalogue = catalogue
        self.data.offer(catalogue.data)
        self.net.offer([(entry.id, entry.title) for entry in catalogue.nets])
        regimes = catalogue.regimes
        self.regime.offer([(e.id, e.title) for e in regimes], [e.group for e in regimes])
        devices = dict.fromkeys(("auto", *catalogue.devices))
        self.device.offer([(name, name) for name in devices])
        self._show_options()
        self._show_rows()

    def set_theme(self, theme: Theme) -> None:
        """Colour the icons."""
        for field in (self.data, self.gates_from, self.advanced):
            field.set_theme(theme)

    # RunConfig ⇄ fields

    def fill(self, config: RunConfig) -> None:
        """Show this configuration."""
        data, net, gating, training = config.data, config.net, config.gating, config.training
        self.data.fill(data)
        self.net.pick(net.name)
        self._show_options()
        self.options.show_values(dict(net.options))
        self.bias.setChecked(net.bias)
        self.init.pick(net.init)
        self.sigma.show_value(net.sigma)
        self.regime.pick(gating.regime)
        self.beta.show_value(gating.beta)
        self.epsilon.show_value(gating.epsilon)
        self.gate_probability.show_value(gating.gate_probability)
        self.value_input.pick(gating.value_input)
        self.gates_from.show_path(gating.gates_from)
        self.pretrain_epochs.setValue(gating.pretrain_epochs)
        self._show_wiring(gating.wiring)
        self.loss.pick(training.loss)
        self.optimiser.pick(training.optimiser)
        self.learning_rate.show_value(training.learning_rate)
        self.momentum.show_value(training.momentum)
        self.batch.setValue(training.batch)
        self.epochs.setValue(training.epochs)
        self.pace.show_value(training.pace)
        self.seed.setValue(config.seed)
        self.device.pick(config.device)
        self.probe_examples.setValue(config.probe_examples)
        self.advanced.fill(config)
        self._show_rows()

    def config(self) -> RunConfig:
        """What is filled in; raises `Refusal` with what is wrong and where."""
        regime = self._entry_of_regime()
        config = RunConfig(
            data=self.data.config(),
            net=NetConfig(
                name=self.net.value(),
                options=self.options.values(),
                bias=self.bias.isChecked(),
                init=cast(Initialisation, self.init.value()),
                sigma=self.sigma.value() if self.init.value() == "bernoulli" else 0.0,
            ),
            gating=self._gating_config(),
            training=TrainingConfig(
                loss=cast(Loss, self.loss.value()),
                optimiser=cast(Optimiser, self.optimiser.value()),
                learning_rate=self.learning_rate.value(),
                momentum=self.momentum.value() if self.optimiser.value() == "sgd" else 0.0,
                batch=self.batch.value(),
                epochs=self.epochs.value(),
                pace=self.pace.value(),
            ),
            seed=self.seed.value(),
            device=cast(Device, self.device.value()),
            probe_examples=self.probe_examples.value(),
        )
        return self.advanced.put_into(config, regime is None or not regime.own_gates)

    def _gating_config(self) -> GatingConfig:
        regime = self._entry_of_regime()
        fixed = regime is not None and regime.takes_gates
        drawn = regime is not None and regime.drawn_gates
        return GatingConfig(
            regime=self.regime.value(),
            beta=self.beta.value(),
            epsilon=self.epsilon.value(),
            value_input=cast(ValueInput, self.value_input.value()),
            wiring=self._wiring if self.keep_wiring.isChecked() else (),
            gates_from=self.gates_from.path() if fixed else "",
            pretrain_epochs=self.pretrain_epochs.value() if fixed else 0,
            gate_probability=self.gate_probability.value() if drawn else 0.5,
        )

    # which rows are shown

    def _show_rows(self) -> None:
        self._net_rows.show_row(self.sigma, self.init.value() == "bernoulli")
        regime = self._entry_of_regime()
        soft, own = regime is not None and regime.soft, regime is not None and regime.own_gates
        fixed = regime is not None and regime.takes_gates
        rows = self._gating_rows
        rows.show_row(self.beta, soft)
        rows.show_row(self.epsilon, soft)
        rows.show_row(self.gate_probability, regime is not None and regime.drawn_gates)
        rows.show_row(self.value_input, not own)
        self.advanced.show_wires(not own)
        rows.show_row(self.gates_from, fixed)
        rows.show_row(self.pretrain_epochs, fixed and not self.gates_from.path())
        rows.show_row(self.keep_wiring, bool(self._wiring) and not own)
        self._training_rows.show_row(self.momentum, self.optimiser.value() == "sgd")

    def _show_options(self) -> None:
        entry = self._entry_of_net()
        self.options.offer(entry.options if entry else ())

    def _show_wiring(self, wiring: tuple[int, ...]) -> None:
        natural = wiring == tuple(range(len(wiring)))
        self._wiring = () if natural else wiring
        self.keep_wiring.setChecked(not natural)
        order = " ".join(str(place + 1) for place in wiring)
        self.keep_wiring.setText(f"keep the gate order {order}")

    def _entry_of_net(self) -> NetEntry | None:
        return next((e for e in self._catalogue.nets if e.id == self.net.value()), None)

    def _entry_of_regime(self) -> RegimeEntry | None:
        return next((e for e in self._catalogue.regimes if e.id == self.regime.value()), None)

    # the fields, section by section

    def _network(self) -> Section:
        self.net = PickBox()
        self.options = OptionsForm()
        self.bias = QCheckBox("with biases")
        self.init = _pick(Initialisation)
        self.sigma = NumberField(1e-6, 1000, no_limit="√(2/fan-in)")
        top = Section("Network")
        top.add("network", self.net)
        rows = self._net_rows = Section()
        rows.add("initial weights", self.init)
        rows.add("σ", self.sigma, "Of the symmetric ±σ initialisation")
        rows.add("", self.bias, "A bias breaks the homogeneity that path features rest on")
        top.append(self.options)
        top.append(rows)
        return top

    def _gating(self) -> Section:
        self.regime = PickBox()
        self.gates_from = PathField("Checkpoint for the gates", "pre-train instead", folder=False)
        self.pretrain_epochs = IntegerField(0, _MANY, zero="as many as epochs")
        self.beta = NumberField(0.1, 1000, rungs=(1, 2, 3, 4, 5, 6, 8))
        self.epsilon = NumberField(0.0, 1.0)
        self.gate_probability = NumberField(0.0, 1.0, rungs=(1, 2, 3, 4, 5, 6, 7, 8, 9))
        self.value_input = _pick(ValueInput)
        self.keep_wiring = QCheckBox()
        rows = self._gating_rows = Section("Gating")
        rows.add("regime", self.regime)
        rows.add("gates from", self.gates_from)
        rows.add("ReLU epochs first", self.pretrain_epochs)
        rows.add("steepness β", self.beta)
        rows.add("ε", self.epsilon, "Soft gates are (1+ε)/(1+exp(-βq))")
        rows.add("open with p", self.gate_probability, "The chance of each coin to open its gate")
        rows.add("value input", self.value_input, "What the value network is fed")
        rows.add("", self.keep_wiring)
        return rows

    def _training(self) -> Section:
        self.loss, self.optimiser = _pick(Loss), _pick(Optimiser)
        self.learning_rate = NumberField(1e-9, 100)
        self.momentum = NumberField(0.0, 1.0, rungs=(1, 2, 3, 4, 5, 6, 7, 8, 9))
        self.batch = IntegerField(1, 10**6)
        self.epochs = IntegerField(0, _MANY, zero="until stopped")
        self.pace = NumberField(1, 5000, rungs=(1, 2, 5), unit="steps/s", no_limit="full speed")
        rows = self._training_rows = Section("Training")
        rows.add("loss", self.loss)
        rows.add("optimiser", self.optimiser)
        rows.add("learning rate", self.learning_rate)
        rows.add("momentum", self.momentum)
        rows.add("batch", self.batch)
        rows.add("epochs", self.epochs)
        rows.add("pace", self.pace, "At most this many steps a second, to watch")
        return rows

    def _run(self) -> Section:
        self.seed = IntegerField(0, 2**31 - 1)
        self.device = PickBox()
        self.probe_examples = IntegerField(2, 4096)
        rows = Section("Run")
        rows.add("seed", self.seed)
        rows.add("device", self.device)
        rows.add("probe examples", self.probe_examples, "They feed every kernel panel")
        return rows
