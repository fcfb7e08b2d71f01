"""The network of a run, its optimiser, and what changes them between two steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.model.architecture import Architecture
from dgn_engine.model.feature_layers import value_and_feature
from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.random_gates import RandomGates
from dgn_engine.model.regime_entry import RegimeChange, enter_regime
from dgn_engine.model.stack import Stack
from dgn_engine.model.wiring import check_shifts, check_wiring, make_routes
from dgn_engine.random_streams import random_stream
from dgn_engine.regimes import Regime
from dgn_engine.training.device_data import DeviceData
from dgn_engine.training.steps.optimizer import NetworkOptimizer


class NetworkControl:
    """The network and optimiser of a run: draws weights, enters regimes, sets wiring.

    Used by the training thread only.

    Attributes:
        network: The network.
        optimizer: Its optimiser.
        regime: Regime in force.
        base: Architecture before tiling; its gate layers are those of the feature network.
        seed: Seed of everything that is drawn.
        draws: How often weights were drawn.
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
        """Draw the network and enter the regime.

        Args:
            config: Configuration of the run.
            architecture: Architecture before tiling.
            data: Examples on the device; they set the dtype of the weights.
            regime: First regime.
            device: Device of the network.
            before_layer: Called with the size of each weight tensor before it is drawn; may raise
                to cancel.
        """
        self._config = config
        self._before_layer = before_layer
        self._examples = len(data.train_y)
        self._drawn: RandomGates | None = None
        self.seed = config.seed
        self.draws = 0
        self.base = architecture
        gating = config.gating
        wide, makers = value_and_feature(architecture, gating.tiling, gating.feature_layers)
        dtype = data.train_x.dtype  # not torch's default, which a notebook may change
        net = config.net
        self.network = GatedNetwork(wide, net.bias, makers, net.feature_bias).to(dtype)
        self._draw_weights(self.network.value)
        self._draw_weights(self.network.feature)
        random_input = torch.rand(
            architecture.input_shape, generator=random_stream("input", self.seed), dtype=dtype
        )
        self.network.get_buffer("random_input").copy_(random_input)
        self.network.set_gate(beta=gating.beta, epsilon=gating.epsilon)
        self.network.value_input = gating.value_input
        if gating.wiring:
            check_wiring(self.base, gating.wiring, "gating.wiring")
        self.set_wiring(gating.wiring or self.network.wiring)
        self.set_routes(gating.rotation, gating.shift)
        self.network.to(device)
        self.regime = regime
        enter_regime(self.network, None, regime, self._draw_weights)
        self._before_layer = lambda _: None  # cancelling a later draw would leave half of it
        self.optimizer = NetworkOptimizer(config.training, self.network)

    def network_at(self, rows: Tensor) -> GatedNetwork:
        """Return the network for a batch: under FRG with the drawn gates of these examples.

        Args:
            rows: Indices of the training examples, (m,).

        Returns:
            The network itself in all other regimes.
        """
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
        return self.network.with_gates(self._drawn.gates_of_rows(rows, like.dtype))

    def enter_regime(self, regime: Regime, restart_value: bool) -> RegimeChange:
        """Enter another regime between two steps; redrawn groups lose their optimiser state.

        Args:
            regime: The regime.
            restart_value: Whether to redraw Θ^v.

        Returns:
            Which groups were kept, frozen, redrawn and copied.
        """
        change = enter_regime(self.network, self.regime, regime, self._draw_weights, restart_value)
        self.regime = regime
        if "value weights" in change.redrawn:
            self.optimizer.forget_state(self.network.value)
        if "feature weights" in change.redrawn or change.copied:
            self.optimizer.forget_state(self.network.feature)
        return change

    def set_wiring(self, order: tuple[int, ...]) -> None:
        """Let value layer l use gate layer order[l]; each gate layer keeps its rotation.

        Args:
            order: A permutation, 0-based.

        Raises:
            UserError: It is not a permutation, or shapes do not fit.
        """
        check_wiring(self.base, order)
        before, turns = self.network.wiring, self.network.routes
        self.network.wiring = order
        carried = [turns[before.index(source)] for source in order]
        self.set_routes(
            tuple(route.rotate for route in carried), tuple(route.shift[0] for route in carried)
        )

    def set_routes(self, rotation: tuple[int, ...], shift: tuple[int, ...]) -> None:
        """Rotate and shift each layer's gates.

        Args:
            rotation: Units (channels) per layer; () for none.
            shift: Rows and columns per layer, for convolutions; () for none.

        Raises:
            UserError: A list has the wrong length, or a shifted layer has no positions.
        """
        shapes = self.base.gated_shapes
        turned = make_routes(len(shapes), rotation, shift, self._config.gating.tiling)
        check_shifts(self.base, turned)
        self.network.routes = turned

    def take_weights(self, weights: list[Tensor], biases: list[Tensor | None]) -> None:
        """Set Θ^v to imported weights; layers without weights keep their own.

        Args:
            weights: Weights of the first layers.
            biases: Their biases, None where there is none.

        Raises:
            UserError: There are biases, and the value network has none.
        """
        network = self.network
        if not network.value.accepts_biases(biases):
            raise UserError(
                "These weights have biases, but the value network has none; "
                "start a run with biases to load them.",
                kind="biases",
            )
        network.value.load_layers(weights, biases)
        self.optimizer.forget_state(network.value)

    def take_gates(self, weights: list[Tensor], biases: list[Tensor | None]) -> None:
        """Set Θ^f to imported weights; biases are allowed and move the gates.

        Args:
            weights: Weights of the gated layers.
            biases: Their biases, None where there is none.
        """
        network = self.network
        if not network.feature.accepts_biases(biases):
            self._give_feature_biases(True)
        network.feature.load_layers(weights, biases)
        self.optimizer.forget_state(network.feature)

    def set_seed(self, seed: int) -> None:
        """Use another seed for everything drawn from now on.

        Args:
            seed: The seed.
        """
        self.seed, self._drawn = seed, None

    def tensors(self) -> dict[str, Tensor]:
        """Return everything that is learnt or drawn.

        Returns:
            Both networks, optimiser state and fixed input, by name; not copied.
        """
        return {**self.network.state_dict(), **self.optimizer.state_tensors(self.network)}

    def restore_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Load tensors returned by `tensors`; the caller sets regime and settings.

        Args:
            tensors: Tensors by name.

        Raises:
            KeyError: A tensor is missing.
            RuntimeError: A tensor has the wrong shape.
        """
        self._give_feature_biases("feature.biases.0" in tensors)
        for name, target in self.network.state_dict().items():
            if tensors[name].shape != target.shape:
                raise RuntimeError(f"{name} has another shape")
            target.copy_(tensors[name])
        self.optimizer.restore_state(self.network, tensors)

    def _give_feature_biases(self, biased: bool) -> None:
        """Add zero biases to Θ^f, or remove them; drops its optimiser state."""
        network = self.network
        if bool(len(network.feature.biases)) == biased:
            return
        like = network.get_buffer("random_input")
        feature = Stack(network.feature.architecture, bias=biased).to(like.device)
        for old, new in zip(network.feature.weights, feature.weights, strict=True):
            new.data.copy_(old.data)
        network.feature = feature
        self.optimizer.replace_feature(feature)

    def _draw_weights(self, stack: Stack) -> None:
        """Draw weights; the n-th draw of a run is a function of (seed, n)."""
        net = self._config.net
        generator = random_stream("weights", self.seed, self.draws)
        stack.init_weights(net.init, generator, net.sigma, self._before_layer)
        self.draws += 1
