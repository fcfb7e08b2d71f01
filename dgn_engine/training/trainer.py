"""The training loop of one run, readable from top to bottom; it knows no clock and no viewer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from dgn_engine.config import RunConfig
from dgn_engine.data._augmentation import Augmentation
from dgn_engine.errors import UserError
from dgn_engine.kernels.precision import use_full_products
from dgn_engine.model.architecture import Architecture
from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.random_gates import RandomGates
from dgn_engine.model.regime_entry import RegimeChange, enter
from dgn_engine.model.stack import Stack
from dgn_engine.model.tiling import tiled
from dgn_engine.model.wiring import check_shifts, check_wiring, routes
from dgn_engine.random_streams import random_stream, send_to_device
from dgn_engine.regimes import Regime
from dgn_engine.training.conv_step import ConvStep, is_chain_of_convolutions
from dgn_engine.training.cuda.graph import Card, CudaCard
from dgn_engine.training.cuda.host_copies import Courier
from dgn_engine.training.cuda.step_precision import ROUNDING, step_precision
from dgn_engine.training.cuda.step_runner import EagerSteps, GraphSteps, StepRunner
from dgn_engine.training.dense_step import DenseStep, is_dense_chain
from dgn_engine.training.device_data import BatchBuffer, DeviceData, epoch_order
from dgn_engine.training.losses import correct, loss
from dgn_engine.training.metrics import PendingScore, Score, TestPass
from dgn_engine.training.optimizer import NetworkOptimizer


class Trainer:
    """Network, optimiser and data of one run; `step` takes one batch."""

    def __init__(
        self,
        config: RunConfig,
        architecture: Architecture,
        data: DeviceData,
        regime: Regime,
        device: torch.device,
        before_layer: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`before_layer`: told the numbers of each layer that is drawn; what it raises ends it."""
        self.config = config
        self._before_layer = before_layer
        self.seed = config.seed  # of the order of batches and of all that is drawn
        self.data = data
        self.step_count = 0
        self.undone_steps = 0  # of these: their batches come again
        self._draws = 0
        gating = config.gating
        self.base = architecture  # of the feature network; of both where nothing is tiled
        wide = tiled(architecture, gating.tiling) if gating.tiling else architecture
        dtype = data.train_x.dtype  # not torch's default, which a notebook may have changed
        self.network = GatedNetwork(wide, config.net.bias, architecture).to(dtype)
        self._draw(self.network.value)
        self._draw(self.network.feature)
        random_input = torch.rand(
            architecture.input_shape, generator=random_stream("input", self.seed), dtype=dtype
        )
        self.network.get_buffer("random_input").copy_(random_input)
        self.network.set_gate(beta=gating.beta, epsilon=gating.epsilon)
        self.network.value_input = gating.value_input
        if gating.wiring:
            check_wiring(self.base, gating.wiring, "gating.wiring")
        self.rewire(gating.wiring or self.network.wiring)
        self.reroute(gating.rotation, gating.shift)
        self.network.to(device)
        self._drawn: RandomGates | None = None
        self._by_hand: DenseStep | ConvStep | None = None
        self._may_by_hand = True
        self.regime = regime
        enter(self.network, None, regime, self._draw)
        self._before_layer = lambda _: None  # an exception in a later draw would leave half of it
        self._choose_step()
        self.optimizer = NetworkOptimizer(config.training, self.network)
        self._sums = torch.zeros(2, dtype=torch.float64 if device.type != "mps" else torch.float32)
        self._sums = self._sums.to(device)
        self._courier = Courier(device)
        self._loss_sum, self._right_sum = self._sums.unbind()
        self._seen = 0
        self._batch = BatchBuffer()
        self._order: tuple[int, Tensor] = (-1, torch.empty(0))
        augmented = config.training.augmentation != "none"
        self._augmentation = Augmentation(data.train_x, self.seed) if augmented else None
        self.on_eager: Callable[[str], None] = lambda _: None  # told why steps are not captured
        self.steps: StepRunner = EagerSteps(self)
        if device.type == "cuda":
            use_full_products()
            self.capture_steps(CudaCard(device))

    @property
    def steps_per_epoch(self) -> int:
        """Batches in an epoch; the last one may be smaller."""
        return math.ceil(self.examples / self.config.training.batch)

    @property
    def epoch(self) -> float:
        """Steps done over steps in an epoch."""
        return self.step_count / self.steps_per_epoch

    @property
    def data_step(self) -> int:
        """Steps that count for the order of the data: all but those that an undo took back."""
        return self.step_count - self.undone_steps

    def step(self) -> None:
        epoch, place = divmod(self.data_step, self.steps_per_epoch)
        batch = self.config.training.batch
        rows = self._epoch_order(epoch)[place * batch : (place + 1) * batch]
        if self._augmentation is not None:
            self._augmentation.begin(epoch)
        self.steps.step(rows)
        self._seen += len(rows)
        self.step_count += 1

    def capture_steps(self, card: Card) -> None:
        """From now on, take steps as graphs of this card where that works."""
        self.optimizer.make_capturable()
        self.steps = GraphSteps(self, card)

    def take(self, rows: Tensor) -> None:
        """Train on these examples (m,) and add up their losses: work of the device alone, for
        which nothing here waits."""
        with step_precision(self.config.training.precision, self._sums.device):
            self._take(rows)

    def _take(self, rows: Tensor) -> None:
        x, y = self._batch.take(self.data, rows)
        if self._augmentation is not None:
            x = self._augmentation.show(x, rows, self.data_step // self.steps_per_epoch)
        if self._by_hand is not None and not self.regime.drawn_gates:
            value, logits = self._by_hand(x, y)
            self.optimizer.update(self._by_hand.trained)
        else:
            value, logits = self._autograd_step(x, y, rows)
        self._loss_sum.add_(value, alpha=len(y))
        self._right_sum.add_(correct(logits, y))

    def structure(self) -> tuple[object, ...]:
        network = self.network
        if self._by_hand is not None:
            self._by_hand.settle()
        return (
            self.regime.name,
            self.seed,  # of gates that are drawn
            *network.settings,
            network.value.weights[0].data_ptr(),
            network.feature.weights[0].data_ptr(),
            id(self.data),
            self.optimizer.layout,
            self._by_hand is None,
        )

    def moved(self) -> list[Tensor]:
        return [*self.tensors().values(), self._sums]

    def drop_gradients(self) -> None:
        self.optimizer.torch.zero_grad(set_to_none=True)

    @property
    def examples(self) -> int:
        return len(self.data.train_y)

    @property
    def rounding(self) -> float:
        return ROUNDING[self.config.training.precision]

    def _autograd_step(self, x: Tensor, y: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Mean loss and logits of the batch; the weights have moved."""
        if self.config.training.precision == "bf16" and x.dim() == 4:
            # What multiplies bf16 takes maps in this order, and would rearrange others. A copy: of
            # images of one channel `contiguous` would keep the strides, and so the order.
            x = x.clone(memory_format=torch.channels_last)
        self.network.gather(True)
        logits = self.network_at(rows)(x)
        self.network.gather(False)
        value = loss(self.config.training.loss, logits, y)
        value.backward()  # type: ignore[no-untyped-call]  # torch leaves it unannotated
        self.optimizer.step()
        return value.detach(), logits.detach()

    def use_autograd(self) -> None:
        """Take every step by autograd from now on: the slow road, for whoever compares."""
        self._may_by_hand = False
        self._by_hand = None

    def _choose_step(self) -> None:
        """By hand where both networks are chains of dense layers, or of convolutions."""
        network, kind = self.network, self.config.training.loss
        autocast = self.config.training.precision == "bf16"  # which only autograd follows
        may = self._may_by_hand and not autocast
        self._by_hand = None
        if may and is_dense_chain(network):
            self._by_hand = DenseStep(network, kind)
        elif may and is_chain_of_convolutions(network):
            self._by_hand = ConvStep(network, kind)

    def network_at(self, rows: Tensor) -> GatedNetwork:
        """The network as the training examples `rows` see it: only under FRG does that differ."""
        if not self.regime.drawn_gates:
            return self.network
        if self._drawn is None:
            self._drawn = RandomGates(
                self.base,
                len(self.data.train_y),
                self.config.gating.gate_probability,
                random_stream("gates", self.seed),
                self.data.train_x.device,
            )
        return self.network.with_gates(self._drawn.at(rows, self.data.train_x.dtype))

    @property
    def finite(self) -> bool:
        """Whether each loss since the last score was finite; always True on a GPU, which is not
        waited for: there the next score says it.
        """
        return self._sums.device.type != "cpu" or math.isfinite(float(self._sums[0]))

    def train_score(self) -> Score:
        """Mean over the batches since the last call; NaN where there was none."""
        return self.ask_score().score

    def ask_score(self) -> PendingScore:
        """The same, for which a card is not waited for."""
        asked = PendingScore(self._courier.fetch(self._sums), self._seen)
        self._sums.zero_()
        self._seen = 0
        return asked

    def test_score(self) -> Score:
        """Loss and accuracy on the whole test set; no randomness, no gradient."""
        whole = TestPass(self.network, self.data, self.config.training.loss)
        while (score := whole.advance()) is None:
            pass
        return score

    def swap(self, regime: Regime, restart_value: bool) -> RegimeChange:
        """Enter another regime between two steps; redrawn groups lose their optimiser state."""
        change = enter(self.network, self.regime, regime, self._draw, restart_value)
        self.regime = regime
        if "value weights" in change.redrawn:
            self.optimizer.forget(self.network.value)
        if "feature weights" in change.redrawn or change.copied:
            self.optimizer.forget(self.network.feature)
        return change

    def rewire(self, order: tuple[int, ...]) -> None:
        """Value layer l uses gate layer order[l]; each gate layer stays turned as it is.

        Raises `UserError` where shapes do not fit.
        """
        check_wiring(self.base, order)
        before, turns = self.network.wiring, self.network.routes
        self.network.wiring = order
        carried = [turns[before.index(source)] for source in order]
        self.reroute(
            tuple(route.rotate for route in carried), tuple(route.shift[0] for route in carried)
        )

    def reroute(self, rotation: tuple[int, ...], shift: tuple[int, ...]) -> None:
        """Turn each layer's gates by so many units, and in maps by so many rows and columns.

        Raises `UserError` where a list has another length or a layer is no map.
        """
        shapes = self.base.gated_shapes
        found = routes(len(shapes), rotation, shift, self.config.gating.tiling)
        check_shifts(self.base, found)
        self.network.routes = found

    def take_weights(self, weights: list[Tensor], biases: list[Tensor | None]) -> None:
        """Θ^v := imported weights; a layer that is not among them keeps its own."""
        network = self.network
        if not network.value.has_room_for(biases):
            raise UserError(
                "These weights have biases and the value network has none; "
                "begin a run with biases to take them."
            )
        network.value.take(weights, biases)
        self.optimizer.forget(network.value)

    def take_gates(self, weights: list[Tensor], biases: list[Tensor | None]) -> None:
        """Θ^f := imported weights of its gated layers; biases are allowed (and move the gates)."""
        network = self.network
        if not network.feature.has_room_for(biases):
            self._give_feature_biases(True)
        network.feature.take(weights, biases)
        self.optimizer.forget(network.feature)

    def tensors(self) -> dict[str, Tensor]:
        """Everything that is learnt or drawn, by name: both networks, optimiser, fixed input."""
        network = self.network
        return {**network.state_dict(), **self.optimizer.tensors(network)}

    def counters(self) -> dict[str, object]:
        """Steps, draws, and the sums of the train score that is being gathered."""
        return {
            "step": self.step_count,
            "undone_steps": self.undone_steps,
            "draws": self._draws,
            "seed": self.seed,
            "train_sums": self._sums.tolist(),
            "train_seen": self._seen,
        }

    def set_progress(self, step: int, sums: Tensor, seen: int) -> None:
        """Take over steps from a stack: (2,) sums of loss and right answers over `seen` examples
        since the last score."""
        self.step_count, self._seen = step, seen
        self._sums.copy_(sums)

    def restore(self, tensors: Mapping[str, Tensor], counters: Mapping[str, Any]) -> None:
        """Take over the state of another trainer; the caller sets the regime and the settings.

        Raises `KeyError` or `RuntimeError` where a tensor is missing or has another shape, and
        `ValueError` where more steps were undone than were taken.
        """
        step, undone = int(counters["step"]), int(counters.get("undone_steps", 0))
        if not 0 <= undone <= step:
            raise ValueError(f"{undone} of {step} steps are undone")
        self._give_feature_biases("feature.biases.0" in tensors)
        own = self.network.state_dict()
        for name, target in own.items():
            if tensors[name].shape != target.shape:
                raise RuntimeError(f"{name} has another shape")
            target.copy_(tensors[name])
        self.optimizer.restore(self.network, tensors)
        self.step_count, self.undone_steps = step, undone
        self._draws = int(counters["draws"])
        self.reseed(int(counters.get("seed", self.seed)))
        self._sums.copy_(torch.tensor(counters["train_sums"], dtype=self._sums.dtype))
        self._seen = int(counters["train_seen"])

    def reseed(self, seed: int) -> None:
        """From the next step on, order the batches and draw by another seed: what is left of this
        epoch is what is left in the order of that seed, so that it may repeat examples."""
        if seed == self.seed:
            return
        self.seed = seed
        self._order, self._drawn = (-1, torch.empty(0)), None
        if self._augmentation is not None:
            self._augmentation.reseed(seed)

    def _give_feature_biases(self, biased: bool) -> None:
        """Θ^f with biases (zero) where it has none, or without; its optimiser state is dropped."""
        network = self.network
        if bool(len(network.feature.biases)) == biased:
            return
        feature = Stack(self.base, bias=biased).to(self.data.train_x.device)
        for theirs, ours in zip(network.feature.weights, feature.weights, strict=True):
            ours.data.copy_(theirs.data)
        network.feature = feature
        self.optimizer.replace_feature(feature)
        self._choose_step()

    def _draw(self, stack: Stack) -> None:
        """Fresh weights; the n-th draw of a run is a function of (seed, n)."""
        net = self.config.net
        generator = random_stream("weights", self.seed, self._draws)
        stack.draw(net.init, generator, net.sigma, self._before_layer)
        self._draws += 1

    def _epoch_order(self, epoch: int) -> Tensor:
        if self._order[0] != epoch:
            order = epoch_order(self.seed, epoch, len(self.data.train_y))
            self._order = (epoch, send_to_device(order, self.data.train_x.device))
        return self._order[1]
