"""The network of a file: read by the probes, never trained."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dgn_engine.config import OF_FILE, DataConfig, GatingConfig, NetConfig, RunConfig
from dgn_engine.data import Examples, load_examples
from dgn_engine.data._normalisation import parse_normalisation
from dgn_engine.data._preprocessing import Preprocessing, preprocessing_of, without_preprocessing
from dgn_engine.errors import UserError
from dgn_engine.importing.fold_batchnorm import FOLDED
from dgn_engine.importing.from_file import ImportedNetwork, network_of
from dgn_engine.importing.saved_network import is_ours, state_of
from dgn_engine.model.architecture import Architecture
from dgn_engine.model.network import GatedNetwork
from dgn_engine.protocol.files import FileScored, TrainedOn, TrainingOffered
from dgn_engine.protocol.frames import Array, Frame, Reading
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.probe_choice import ProbeChoice
from dgn_engine.protocol.training import RunStarted
from dgn_engine.protocol.watching import ProbeScalars
from dgn_engine.random_streams import random_stream
from dgn_engine.regimes import only_regime
from dgn_engine.session.file_readings import LabelledExamples
from dgn_engine.session.network_fit import (
    DataFacts,
    data_for,
    format_shape,
    has_same_labels,
    reason_no_accuracy,
)
from dgn_engine.session.readable_network import ReadableNetwork
from dgn_engine.storage.checkpoints.contents import CheckpointContents
from dgn_engine.training.device_data import choose_probe_set, drawn_inputs
from dgn_engine.training.devices import choose_device, device_name, set_threads
from dgn_engine.training.layer_infos import count_parameters, layer_infos
from dgn_engine.training.out_of_memory import is_out_of_memory, refused_without_memory
from dgn_engine.training.probes import (
    ComparedGates,
    ComparedNetwork,
    InputGeometry,
    ProbeContext,
    no_comparison,
)
from dgn_engine.training.readings.probe_schedule import ProbeSchedule
from dgn_engine.training.run import Report, Run
from dgn_engine.training.steps.losses import count_correct

TELL_EVERY = 0.5  # seconds between two reports of the accuracy so far
FEWEST = 20  # examples before the first report
SLICE = 0.1  # seconds of scoring between two commands
MOST = 100  # test examples in one batch
COMPARED = 2  # examples whose logits show whether the file has changed


@dataclass(frozen=True)
class ProbeInputs:
    """The examples that frozen networks are read on.

    `x` (n, *image shape): the probe examples; `labels` (n,): their classes, of `classes`. `data`:
    what they are examples of. `cuts`: hyperplanes at which the true labels change, if known.
    """

    x: Tensor
    labels: Tensor
    classes: int
    data: DataConfig = field(default_factory=DataConfig)
    cuts: Tensor | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.x.shape[1:])

    def in_channels(self, wanted: int) -> ProbeInputs:
        """Repeat grey images over `wanted` channels; other images, and all for 0 or 1, are
        unchanged."""
        if wanted < 2 or self.x.dim() != 4 or self.x.shape[1] != 1:
            return self
        return replace(self, x=self.x.expand(-1, wanted, -1, -1).contiguous())


def probe_inputs_of(shown: ReadableNetwork) -> ProbeInputs:
    """Return the examples on which another network is compared with this one."""
    if isinstance(shown, InspectedNetwork):
        return shown.inputs
    probed = shown.probed
    context = probed.probe_context()
    images = context.x.reshape(len(context.x), *probed.image_shape)
    return ProbeInputs(
        *(images, context.labels, probed.probe_set.classes, shown.config.data),
        cuts=context.geometry.cuts,
    )


class FrozenNetwork:
    """A network that is not trained, and its readings: one for each requested probe.

    The examples are reshaped to the network's input shape.
    """

    def __init__(
        self,
        imported: ImportedNetwork,
        inputs: ProbeInputs,
        emit: Callable[[Event], None],
        traced: bool = False,
    ) -> None:
        """`traced`: emit its scalars; otherwise they belong to no run, and stay in the readings."""
        if imported.regime.drawn_gates:
            raise UserError(
                f"Its gates were drawn at random for other examples ({imported.regime.name}), so "
                "they cannot be read here.",
                kind="not-supported",
                value=imported.regime.name,
            )
        self.regime = imported.regime
        self.step_count = imported.step
        self.moves = False  # True: its weights come from a run that trains elsewhere
        self._config = imported.config
        self.network = imported.network.to(inputs.x.device).requires_grad_(False)
        self._set_inputs(inputs)
        self.probe_schedule = ProbeSchedule(
            lambda event: None if isinstance(event, ProbeScalars) and not traced else emit(event),
            fewer=True,
        )

    def _set_inputs(self, inputs: ProbeInputs) -> None:
        shape = self.network.architecture.input_shape
        x = inputs.in_channels(shape[0] if len(shape) == 3 else 0).x
        if math.prod(shape) != math.prod(x.shape[1:]):
            raise UserError(
                f"It takes {format_shape(shape)} inputs, but these examples are "
                f"{format_shape(inputs.shape)}.",
                kind="wrong-shape",
                value=format_shape(inputs.shape),
            )
        self.x, self._labels = x.reshape(len(x), *shape), inputs.labels
        self._classes = inputs.classes
        self._data = inputs.data
        self._geometry = InputGeometry(inputs.shape, inputs.cuts)
        self._gates: tuple[Tensor, ...] | None = None

    def update_network(self, imported: ImportedNetwork) -> None:
        """Replace the network by another state of it, to be read when there is time.

        Existing readings are kept until then. Raises `UserError` if it cannot be read on these
        examples.
        """
        same = imported.network.architecture == self.network.architecture
        if imported.regime.drawn_gates or not same:
            raise UserError("It is a different network now.", kind="other-network")
        self.regime, self.step_count, self.moves = imported.regime, imported.step, True
        self.network = imported.network.to(self.x.device).requires_grad_(False)
        self._gates = None

    def use_inputs(self, inputs: ProbeInputs) -> None:
        """Read the network on other examples from now on."""
        self._set_inputs(inputs)
        self.probe_schedule.reset_for_examples(len(inputs.x))

    def read_next(
        self,
        compared: ComparedGates = no_comparison,
        compared_network: ComparedNetwork = no_comparison,
    ) -> bool:
        """Compute one requested probe that is due; return whether there was one.

        Each has a first reading, on a few examples, before any is sharpened.

        `compared` returns the gates of the network that it is compared with, `compared_network` the
        network.
        """
        schedule = self.probe_schedule
        due = schedule.due_probes(self.step_count, catch_up=not self.moves)
        unread = tuple(name for name in due if name not in schedule.readings)
        if due:
            context = self.probe_context(compared, compared_network)
            schedule.read_probes((unread or due)[:1], context, self.step_count, while_paused=True)
        return bool(due)

    def probe_context(
        self,
        compared: ComparedGates = no_comparison,
        compared_network: ComparedNetwork = no_comparison,
    ) -> ProbeContext:
        """Return the examples and the network in the form that probes read."""
        config = self._config
        return ProbeContext(
            *(self.network, self.x, self._labels, self.regime, compared, self._classes),
            loss=None if config is None else config.training.loss,
            own_labels=config is None or has_same_labels(config.data, self._data),
            geometry=self._geometry,
            compared_network=compared_network,
        )

    @property
    def architecture(self) -> Architecture:
        return self.network.architecture

    @property
    def gates(self) -> tuple[Tensor, ...]:
        """The gates G_l on the probe examples, cached; hard gates as bytes."""
        if self._gates is None:
            with torch.no_grad():
                gates = self.network.trace(self.x).value.gates
            soft = self.network.gate.soft
            self._gates = tuple(gate if soft else gate.to(torch.uint8) for gate in gates)
        return self._gates

    @property
    def total_weights(self) -> int:
        """The number of parameters that it computes with."""
        parts = [self.network.value] if self.regime.own_gates else [self.network]
        return sum(map(count_parameters, parts))


class FileScore:
    """The number of correct answers over the test examples so far, in an order drawn from `seed`.

    The examples of a folder are sorted by class, but any part of them should represent the whole.
    """

    def __init__(
        self, network: GatedNetwork, examples: Examples, prepare: Preprocessing, seed: int
    ) -> None:
        self._network, self._test, self._prepare = network, examples, prepare
        self.total = len(examples.test_y)
        self._order = torch.randperm(self.total, generator=random_stream("score", seed)).numpy()
        self.examples = self.right = 0
        self._at_once = 1

    @property
    def pending(self) -> bool:
        return self.examples < self.total

    @torch.no_grad()
    def score_slice(self) -> None:
        """Classify further examples for about `SLICE` seconds."""
        began, took = time.monotonic(), 0.0
        while self.pending and took < SLICE:
            rows = self._order[self.examples : self.examples + self._at_once]
            try:
                self.right += self._count_right(rows)
            except Exception as error:
                if self._at_once == 1 or not is_out_of_memory(error):
                    raise
                self._at_once //= 2  # try the same examples in a smaller batch
                continue
            self.examples += len(rows)
            took = time.monotonic() - began
            if took < SLICE / 4:
                self._at_once = min(2 * self._at_once, MOST)

    def _count_right(self, rows: npt.NDArray[np.int64]) -> int:
        like = next(self._network.parameters())
        images = torch.from_numpy(self._test.test_x[rows]).to(like.dtype)
        x = self._prepare(images).to(like.device)
        labels = torch.from_numpy(self._test.test_y[rows]).to(like.device)
        logits = self._network(x.reshape(len(x), *self._network.architecture.input_shape))
        return int(count_correct(logits, labels))


@dataclass(frozen=True)
class TrainingOffer:
    """The `regimes` in which a network can be trained from its weights, and its configuration
    `net`.

    `remark`: how it differs from the network of the file; without a regime, why not.
    """

    regimes: tuple[str, ...]
    remark: str
    net: NetConfig = field(default_factory=NetConfig)
    gating: GatingConfig = field(default_factory=GatingConfig)

    def run_config(self, shown: RunConfig, path: Path, regime: str) -> RunConfig:
        """Return the configuration of the run; `shown` is that of the inspected network, with its
        data.

        Raises `UserError` if it cannot be trained in this regime.
        """
        if regime not in self.regimes:
            words = f"It can be trained in {' or '.join(self.regimes)}, not in {regime}."
            raise UserError(words if self.regimes else self.remark, kind="no-choice", value=regime)
        copies = regime == only_regime("for_copied_gates").name
        gates = str(path) if copies else ""
        return replace(
            shown,
            net=self.net,
            gating=replace(self.gating, regime=regime, gates_from=gates),
            training=replace(shown.training, weights_from=str(path), augmentation="none"),
        )


def make_training_offer(
    listing: CheckpointContents, path: Path, imported: ImportedNetwork, logits: int
) -> TrainingOffer:
    """Return how the network of a file can be trained, on data that need this many logits."""
    outputs, name = imported.network.architecture.classes, listing.file_name
    if outputs != logits:
        return TrainingOffer(
            (), f"{name} has {outputs:,} output{'s' * (outputs > 1)}; these data need {logits:,}."
        )
    if listing.picked:
        return TrainingOffer((), "Its tensors were picked manually, which a run cannot reproduce.")
    if is_ours(listing):
        return _offer_of_own(listing, imported)
    biases = imported.network.value.folded_tensors()[1]
    biased = [bias is not None for bias in biases]
    answers = listing.reading
    if answers.net is not None and (answers.batchnorm or answers.norm_eps or answers.ignored):
        return TrainingOffer(
            (),
            f"The import options chosen for {name} cannot be reproduced by a run of "
            f"{answers.net.display_name}.",
        )
    net = answers.net or NetConfig(f"{OF_FILE}{path}", answers.to_options())
    remarks = []
    if any(FOLDED in remark for remark in imported.remarks):
        remarks.append(
            "Its BatchNorm is folded into weights and biases, which are trained as such: batches "
            "are no longer normalised."
        )
    if any(biased) and not all(biased):
        remarks.append("Layers without a bias get a trainable one, initially zero.")
    regimes = (only_regime("standard").name, only_regime("for_copied_gates").name)
    return TrainingOffer(regimes, " ".join(remarks), replace(net, bias=any(biased)))


def check_unchanged(run: Run, network: torch.nn.Module, x: Tensor, name: str) -> None:
    """Raise `UserError` if the run's logits on x (n, *shape) are not those of the inspected
    network.

    Then the file has changed since it was opened.
    """
    with torch.no_grad():
        wanted, logits = network(x[:COMPARED]), run.trainer.network(x[:COMPARED])
    scale = float(wanted.abs().max()) + 1e-30
    if wanted.shape != logits.shape or float((wanted - logits).abs().max()) > 1e-3 * scale:
        words = f"{name} has changed on disk since it was opened: open it again."
        raise UserError(words, kind="changed", value=name)


def _offer_of_own(listing: CheckpointContents, imported: ImportedNetwork) -> TrainingOffer:
    state, regime = state_of(listing), imported.regime
    gating = replace(
        state.config.gating,
        beta=state.beta,
        epsilon=state.epsilon,
        value_input=state.value_input,
        wiring=state.wiring,
        rotation=state.rotation,
        shift=state.shift,
        pretrain_epochs=0,
    )
    copied = only_regime("for_copied_gates")
    if regime.own_gates:
        gating = replace(gating, wiring=(), rotation=(), shift=(), feature_layers="chain")
        also = (copied.name,) if regime.standard else ()
        return TrainingOffer((regime.name, *also), "", state.config.net, gating)
    if regime.name == copied.name and not gating.tiling:
        return TrainingOffer((regime.name,), "", state.config.net, gating)
    return TrainingOffer(
        (),
        f"Its gates come from a second network ({regime.name}), which only its own run has: "
        "resume that run (File ▸ Recorded runs…).",
    )


@dataclass(frozen=True)
class InspectionRequest:
    """A request to open a listed file as a network, on these data.

    `shown` is the configuration of what it replaces; `examples` are the data as stored, if they
    have been read already.
    """

    path: Path
    listing: CheckpointContents
    shown: RunConfig
    data: DataConfig
    examples: Examples | None = None


class InspectedNetwork(FrozenNetwork):
    """The network of a file in place of a run: all panels show it, nothing trains it.

    Raises `UserError` if the data are not available, or the file is not a network for them.
    """

    @refused_without_memory("This network")
    def __init__(
        self, number: int, opened: InspectionRequest, emit: Callable[[Event], None], report: Report
    ) -> None:
        self.number = number
        listing, config = opened.listing, opened.shown
        self.name = listing.file_name
        self._path, self._emit = opened.path, emit
        self.device = choose_device(config.device)
        examples, data, prepare = _prepare_data(opened, report)
        config = replace(config, data=data)
        self.asked = opened.data  # as requested: another file may take grey images as they are
        self.facts = DataFacts.from_examples(examples)
        self.image_shape = self.facts.shape
        self.train_labels: Array = examples.train_y
        self.labelled_examples = LabelledExamples.from_examples(
            examples
        )  # to try readings of other files on
        self._stored, self._prepare = examples, prepare
        self.inputs = self._choose_inputs(config)
        imported = network_of(listing, self.inputs.shape, door="window")
        set_threads(imported.network.architecture)
        super().__init__(imported, self.inputs, emit, traced=True)
        self.assuming = imported.assuming
        gating = replace(
            config.gating,
            regime=imported.regime.name,
            wiring=imported.network.wiring,
            feature_layers=imported.network.feature_layers,
        )
        self.config = replace(config, gating=gating)
        logits = self.facts.logits
        self._told = time.monotonic()
        self._unknown = reason_no_accuracy(imported, listing, logits, data)
        self._score = FileScore(imported.network, examples, prepare, config.seed)
        self._training = make_training_offer(listing, opened.path, imported, logits)

    def choose_probe_examples(self, wanted: int, choice: str | None = None) -> None:
        text = self.config.probe_set if choice is None else choice
        config = replace(self.config, probe_examples=wanted, probe_set=text)  # validates
        self.inputs = self._choose_inputs(config)
        self.config = config
        self.use_inputs(self.inputs)

    def _choose_inputs(self, config: RunConfig) -> ProbeInputs:
        examples, choice = self._stored, ProbeChoice.parse(config.probe_set)
        chosen = choose_probe_set(examples, config.probe_examples, config.seed, choice)
        rows = list(chosen.indices[: len(chosen.indices) - chosen.drawn])
        own = drawn_inputs(choice, self.image_shape)
        raw = np.concatenate([examples.train_x[rows], own]) if len(own) else examples.train_x[rows]
        x = self._prepare(torch.from_numpy(raw)).to(self.device)
        labels = torch.tensor(chosen.labels, dtype=torch.int64, device=self.device)
        self.probe_set = chosen
        cuts = examples.cuts
        if cuts is not None and parse_normalisation(self._prepare.normalise) is not None:
            cuts = None  # they are in the coordinates of before
        return ProbeInputs(
            *(x, labels, len(examples.class_names), config.data),
            cuts=None if cuts is None else torch.from_numpy(cuts),
        )

    def training_images(self, rows: Array) -> Array:
        images: Array = self._prepare(torch.from_numpy(self._stored.train_x[rows])).numpy()
        return images

    @property
    def probed(self) -> InspectedNetwork:
        """This network, which holds the probe examples it is read on."""
        return self

    @property
    def probe_images(self) -> Array:
        images: Array = self.inputs.x.cpu().numpy()
        return images

    @property
    def is_scoring(self) -> bool:
        return not self._unknown and self._score.pending

    def score_next(self) -> None:
        """Classify test examples for one slice of time, and report the accuracy now and then."""
        if self.is_scoring:
            self._score.score_slice()
            now, enough = time.monotonic(), self._score.examples >= FEWEST
            if not self.is_scoring or (enough and now - self._told >= TELL_EVERY):
                self._told = now
                self._emit(self.scored_event())

    def scored_event(self) -> FileScored:
        """Return the accuracy of this file on these data, as far as it is known."""
        data, score = self.config.data, self._score
        return FileScored(
            *(self.number, self.name, data, score.right, score.examples, score.total),
            unknown=self._unknown,
        )

    def offered_event(self) -> TrainingOffered:
        return TrainingOffered(self.number, self._training.regimes, self._training.remark)

    def start_training_run(self, number: int, regime: str, report: Report) -> tuple[Run, TrainedOn]:
        """Return a run that starts from these weights, and the event that announces it.

        Raises `UserError` if it cannot be trained in this regime, or the file has changed.
        """
        config = self._training.run_config(self.config, self._path, regime)
        run = Run(number, config, self._emit, report, live=True)
        check_unchanged(run, self.network, self.x, self.name)
        return run, TrainedOn(run.step_count, self.name, regime, self._training.remark)

    def make_frame(self, compared: Mapping[str, Reading], comparison: int) -> Frame:
        """Return the frame of the network; `compared` and `comparison` are as in `Frame`."""
        return Frame(
            run=self.number,
            step=self.step_count,
            epoch=0.0,
            steps_per_second=0.0,
            eta_seconds=None,
            readings=dict(self.probe_schedule.readings),
            compared=compared,
            comparison=comparison,
            probe_digest=self.probe_set.digest,
        )

    def started_event(self) -> RunStarted:
        network = self.network
        return RunStarted(
            run=self.number,
            config=self.config,
            regime=self.regime.name,
            device=device_name(self.device),
            layers=layer_infos(network.architecture),
            wiring=network.wiring,
            parameters_value=count_parameters(network.value),
            parameters_feature=0 if self.regime.own_gates else count_parameters(network.feature),
            train_examples=len(self._stored.train_y),
            test_examples=len(self._stored.test_y),
            classes=self.probe_set.classes,
            steps_per_epoch=0,
            total_steps=0,
            probe_set=self.probe_set,
            paused=True,
            inspected=self.name,
            assuming=self.assuming,
        )


def _prepare_data(
    request: InspectionRequest, report: Report
) -> tuple[Examples, DataConfig, Preprocessing]:
    """Return the examples as stored, their configuration, and the preprocessing for the network.

    Only the examples that are shown are resized.
    """
    requested = request.data
    stored = without_preprocessing(requested)
    examples = request.examples or load_examples(stored, report)
    data = data_for(request.listing, requested, examples.train_x.shape[1:])
    if without_preprocessing(data) != stored:  # the file is one of ours, with its own split
        examples = load_examples(without_preprocessing(data), report)
    if data.pixels == "random":  # drawn with the mean and variance of preprocessed pixels
        return load_examples(data, report), data, Preprocessing()
    return examples, data, preprocessing_of(data)
