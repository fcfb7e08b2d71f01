"""The network of a run, its optimiser, and what changes them between two steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.model.architecture import Architecture
from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.random_gates import RandomGates
from dgn_engine.model.regime_entry import RegimeChange, enter
from dgn_engine.model.stack import Stack
from dgn_engine.model.tiling import tiled
from dgn_engine.model.wiring import check_shifts, check_wiring, routes
from dgn_engine.random_streams import random_stream
from dgn_engine.regimes import Regime
from dgn_engine.training.device_data import DeviceData
from dgn_engine.training.steps.optimizer import NetworkOptimizer


class NetworkControl:
    """Draws, enters regimes, wires, and takes weights that are given.

    `base`: the architecture of the feature network; of both where nothing is tiled. `seed`: of all
    that is drawn. `draws`: how often weights were drawn.
    """

    def __init__(
        self,
        config: RunConfig,
        architecture: Architecture,
        data: DeviceData,
        regime: Regime,
        device: torch.device,
        before_layer: Callable[[int], None],
    ) -> None:
        self._config = config
        self._before_layer = before_layer
        self._examples = len(data.train_y)
        self._drawn: RandomGates | None = None
        self.seed = config.seed
        self.draws = 0
        self.base = architecture
        gating = config.gating
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
        self.regime = regime
        enter(self.network, None, regime, self._draw)
        self._before_layer = lambda _: None  # an exception in a later draw would leave half of it
        self.optimizer = NetworkOptimizer(config.training, self.network)

    def network_at(self, rows: Tensor) -> GatedNetwork:
        """The network as the training examples `rows` see it: only under FRG does that differ."""
        if not self.regime.drawn_gates:
            return self.network
        like = self.network.get_buffer("random_input")
        if self._drawn is None:
            self._drawn = RandomGates(
                self.base,
                self._examples,
                self._config.gating.gate_probability,
                random_stream("gates", self.seed),
                like.device,
            )
        return self.network.with_gates(self._drawn.at(rows, like.dtype))

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
        turned = routes(len(shapes), rotation, shift, self._config.gating.tiling)
        check_shifts(self.base, turned)
        self.network.routes = turned

    def take_weights(self, weights: list[Tensor], biases: list[Tensor | None]) -> None:
        """Θ^v := imported weights; a layer that is not among them keeps its own."""
        network = self.network
        if not network.value.has_room_for(biases):
            raise UserError(
                "These weights have biases and the value network has none; "
                "begin a run with biases to take them.",
                kind="biases",
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

    def reseed(self, seed: int) -> None:
        self.seed, self._drawn = seed, None

    def tensors(self) -> dict[str, Tensor]:
        """Everything that is learnt or drawn, by name: both networks, optimiser, fixed input."""
        return {**self.network.state_dict(), **self.optimizer.tensors(self.network)}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over what `tensors` gave; the caller sets regime and settings.

        Raises `KeyError` or `RuntimeError` where a tensor is missing or has another shape.
        """
        self._give_feature_biases("feature.biases.0" in tensors)
        for name, target in self.network.state_dict().items():
            if tensors[name].shape != target.shape:
                raise RuntimeError(f"{name} has another shape")
            target.copy_(tensors[name])
        self.optimizer.restore(self.network, tensors)

    def _give_feature_biases(self, biased: bool) -> None:
        """Θ^f with biases (zero) where it has none, or without; its optimiser state is dropped."""
        network = self.network
        if bool(len(network.feature.biases)) == biased:
            return
        like = network.get_buffer("random_input")
        feature = Stack(self.base, bias=biased).to(like.device)
        for theirs, ours in zip(network.feature.weights, feature.weights, strict=True):
            ours.data.copy_(theirs.data)
        network.feature = feature
        self.optimizer.replace_feature(feature)

    def _draw(self, stack: Stack) -> None:
        """Fresh weights; the n-th draw of a run is a function of (seed, n)."""
        net = self._config.net
        generator = random_stream("weights", self.seed, self.draws)
        stack.draw(net.init, generator, net.sigma, self._before_layer)
        self.draws += 1
