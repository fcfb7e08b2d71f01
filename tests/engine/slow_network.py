"""A pair of networks computed slowly: one example and one unit at a time, in float64.

A convolution is the matrix that its definition writes down, a gate is sent to its unit by counting.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise

import torch
from torch import Tensor

from dgn_engine.config import RunConfig
from tests.engine.slow_table import File, Row, SlowData, State, row_of, stream

KERNEL = 3  # of a convolution, with zeros around


@cache
def convolution(inputs: int, outputs: int, height: int, width: int) -> Tensor:
    """Which weight stands where in the matrix of a convolution (units out, units in).

    A weight by its place in the flattened (outputs, inputs, 3, 3); the number after the last one
    is that of a zero.
    """
    nothing = outputs * inputs * KERNEL**2
    rows = [
        [
            ((c * inputs + d) * KERNEL + v - y + 1) * KERNEL + u - x + 1
            if 0 <= v - y + 1 < KERNEL and 0 <= u - x + 1 < KERNEL
            else nothing
            for d in range(inputs)
            for v in range(height)
            for u in range(width)
        ]
        for c in range(outputs)
        for y in range(height)
        for x in range(width)
    ]
    return torch.tensor(rows)


class SlowNetwork:
    """Both networks of a run, their weights, gates, outputs, losses and optimiser."""

    config: RunConfig
    data: SlowData
    state: State
    diverged = False

    def build(self, config: RunConfig, data: SlowData) -> None:
        """Sizes, in units or channels. A fully connected network has maps of one position."""
        self.config, self.data = config, data
        options = dict(config.net.options)
        self.shape = tuple(data.train_x.shape[1:])
        self.convolves = config.net.name == "cnn4"
        self.grid = self.shape[1:] if self.convolves else (1, 1)
        self.layers = 4 if self.convolves else int(options["depth"]) - 1
        width = int(options["channels" if self.convolves else "width"])
        self.parallel = config.gating.feature_layers == "parallel"
        self.tiles = config.gating.tiling or (1,) * self.layers
        outputs = 1 if data.signed else data.classes
        self.feature_sizes = (self.shape[0], *[width] * self.layers, outputs)
        self.value_sizes = (self.shape[0], *(width * k for k in self.tiles), outputs)
        self.epoch_steps = -(-len(data.train_y) // config.training.batch)

    def begin(self) -> None:
        """The fixed random input, and gates that are drawn for each example and unit."""
        seed, probability = self.config.seed, self.config.gating.gate_probability
        self.state.tensors["random_input"] = torch.rand(self.shape, generator=stream("input", seed))
        generator, examples = stream("gates", seed), len(self.data.train_y)
        shape = (self.feature_sizes[1], *(self.grid if self.convolves else ()))
        self.drawn = [
            (torch.rand((examples, *shape), generator=generator, dtype=torch.float32) < probability)
            .double()
            .reshape(examples, -1)
            for _ in range(self.layers)
        ]

    def weight_shapes(self, part: str) -> list[tuple[int, ...]]:
        """Of each layer; the last one is fully connected."""
        pairs = list(pairwise(getattr(self, f"{part}_sizes")))
        if part == "feature" and self.parallel:
            pairs = [(self.shape[0], units) for _, units in pairs[:-1]] + pairs[-1:]
        kernel = (KERNEL, KERNEL) if self.convolves else ()
        return [*((b, a, *kernel) for a, b in pairs[:-1]), pairs[-1][::-1]]

    @property
    def row(self) -> Row:
        return row_of(self.state.regime)

    @property
    def blown(self) -> bool:
        """Numbers so large that two orders of computing differ."""
        tensors = self.state.tensors.values()
        return self.diverged or not all(bool((t.abs() < 1e6).all()) for t in tensors)

    # Weights

    def _names(self, part: str) -> list[str]:
        return [name for name in self.state.tensors if name.startswith(f"{part}.")]

    def _draw(self, part: str) -> None:
        """The n-th draw of a run is a function of seed and n."""
        net = self.config.net
        generator = stream("weights", self.config.seed, self.state.draws)
        self.state.draws += 1
        for layer, shape in enumerate(self.weight_shapes(part)):
            field = math.prod(shape[2:])  # 9, or 1 in a fully connected layer
            a, b = shape[1] * field, shape[0] * field
            if net.init == "bernoulli":
                signs = 2.0 * torch.randint(0, 2, shape, generator=generator).double() - 1.0
                weight = (net.sigma or math.sqrt(2 / a)) * signs
            elif net.init == "glorot":
                uniform = torch.rand(shape, generator=generator)
                weight = math.sqrt(6 / (a + b)) * (2 * uniform - 1)
            else:
                scale = net.sigma or math.sqrt(2 / a)
                weight = scale * torch.randn(shape, generator=generator)
            self.state.tensors[f"{part}.weights.{layer}"] = weight
            biased = net.bias or (net.feature_bias and part == "feature")
            if biased or f"{part}.biases.{layer}" in self.state.tensors:
                self.state.tensors[f"{part}.biases.{layer}"] = torch.zeros(shape[0])

    def _copy_to_feature(self) -> None:
        for name in self._names("feature"):
            source = name.replace("feature", "value")
            there = self.state.tensors.get(source)
            old = self.state.tensors[name]
            self.state.tensors[name] = torch.zeros_like(old) if there is None else there.clone()

    def _forget(self, part: str) -> None:
        for name in self._names(part):
            self.state.moments.pop(name, None)

    def _put(self, file: File, part: str) -> None:
        """The layers of the file in the place of the first ones."""
        tensors, shapes = self.state.tensors, self.weight_shapes(part)
        if file.biases and f"{part}.biases.0" not in tensors:
            for layer in range(self.layers + 1):
                tensors[f"{part}.biases.{layer}"] = torch.zeros(shapes[layer][0])
        for layer in range(file.taken):
            tensors[f"{part}.weights.{layer}"] = file.weights[layer].clone()
            if f"{part}.biases.{layer}" in tensors:
                bias = file.biases[layer] if file.biases else torch.zeros(shapes[layer][0])
                tensors[f"{part}.biases.{layer}"] = bias.clone()
        self._forget(part)

    def count(self, part: str) -> int:
        return sum(self.state.tensors[name].numel() for name in self._names(part))

    # What the network computes

    def _gate(self, q: Tensor) -> Tensor:
        if self.row.open:
            return torch.ones(())
        if self.row.soft:
            # Without an overflow on either side: where a gate is saturated, its slope is 0. Not by
            # |q|, whose derivative at 0 would hide the slope (1 + ε)β/4 of the gate there.
            positive = float(q.detach()) > 0.0
            grown = torch.exp(self.state.beta * (-q if positive else q))
            gate = (1.0 if positive else grown) / (1.0 + grown)
            return (1.0 + self.config.gating.epsilon) * gate
        return torch.ones(()) if float(q.detach()) > 0.0 else torch.zeros(())

    def _affine(self, part: str, layer: int, z: Tensor) -> Tensor:
        """`z`: all units in a row, channel by channel and line by line."""
        tensors = self._live
        weight, bias = tensors[f"{part}.weights.{layer}"], tensors.get(f"{part}.biases.{layer}")
        if self.convolves and layer == self.layers:
            z = torch.stack([channel.mean() for channel in z.chunk(weight.shape[1])])
        elif self.convolves:
            places = convolution(weight.shape[1], weight.shape[0], *self.grid)
            bias = None if bias is None else bias.repeat_interleave(math.prod(self.grid))
            weight = torch.cat([weight.flatten(), torch.zeros(1)])[places]
        q = weight @ z
        return q if bias is None else q + bias

    def _source(self, unit: int, channels: int, turn: int, step: int) -> int:
        """The unit of a feature layer whose gate a unit uses that is turned and shifted."""
        height, width = self.grid
        channel, y, x = unit // (height * width), unit // width % height, unit % width
        return ((channel - turn) % channels * height + (y - step) % height) * width + (
            x - step
        ) % width

    def _gates_of_feature(self, x: Tensor) -> list[list[Tensor]]:
        """Of each feature layer and unit."""
        found, z = [], x
        for layer in range(self.layers):
            q = self._affine("feature", layer, x if self.parallel else z)
            found.append([self._gate(unit) for unit in q])
            z = (
                q
                if self.row.linear
                else torch.stack([u if float(u.detach()) > 0 else 0 * u for u in q])
            )
        return found

    def _one(self, x: Tensor, place: int | None) -> tuple[Tensor, list[Tensor]]:
        """Logits and used gates of one example, the training example `place` or a new one."""
        used: list[Tensor] = []
        x = x.flatten()
        z, made = x, None
        if not self.row.own:
            if self.row.drawn:
                assert place is not None
                made = [list(layer[place]) for layer in self.drawn]
            else:
                made = self._gates_of_feature(x)
            if self.state.value_input == "ones":
                z = torch.ones_like(x)
            elif self.state.value_input == "random":
                z = self.state.tensors["random_input"].flatten()
        for layer in range(self.layers):
            q = self._affine("value", layer, z)
            if made is None:
                gates = [self._gate(unit) for unit in q]
            else:
                source = made[self.state.wiring[layer]]
                turn = (self.feature_sizes[1], self.state.rotation[layer], self.state.shift[layer])
                gates = [source[self._source(unit, *turn)] for unit in range(len(source))]
                gates = gates * self.tiles[layer]
            used.append(torch.stack(gates))
            z = q * used[-1]
        return self._affine("value", self.layers, z), used

    _live: dict[str, Tensor]

    def outputs(self, places: list[int]) -> tuple[Tensor, list[Tensor]]:
        """Logits (m, C) and gates (m, w) of each value layer, of these training examples."""
        self._live = self.state.tensors
        with torch.no_grad():
            rows = [self._one(self.data.train_x[place], place) for place in places]
        gates = [torch.stack([row[1][layer] for row in rows]) for layer in range(self.layers)]
        return torch.stack([row[0] for row in rows]), gates

    def _loss(self, logits: Tensor, label: int) -> Tensor:
        """Of one example."""
        classes = len(logits)
        if classes == 1:
            targets = torch.tensor([1.0 if label else -1.0])
        else:
            targets = torch.tensor([1.0 if c == label else -1.0 for c in range(classes)])
        if self.config.training.loss == "squared":
            return 0.5 * ((logits - targets) ** 2).sum()
        if classes == 1:
            return torch.logaddexp(torch.zeros(1), -targets * logits).sum()
        return torch.logsumexp(logits, 0) - logits[label]

    @staticmethod
    def _right(logits: Tensor, label: int) -> bool:
        if len(logits) == 1:
            return bool(logits[0] > 0) == bool(label)
        return int(logits.argmax()) == label

    def test_score(self) -> tuple[float, float]:
        """Mean loss and share of right answers over the whole test set."""
        self._live = self.state.tensors
        total, right = 0.0, 0
        with torch.no_grad():
            for x, y in zip(self.data.test_x, self.data.test_y.tolist(), strict=True):
                logits, _ = self._one(x, None)
                total += float(self._loss(logits, y))
                right += self._right(logits, y)
        return total / len(self.data.test_y), right / len(self.data.test_y)

    # A step

    def _train(self) -> None:
        state, training = self.state, self.config.training
        epoch, batch = divmod(state.step - state.undone, self.epoch_steps)
        examples = len(self.data.train_y)
        order = torch.randperm(examples, generator=stream("order", self.config.seed, epoch))
        places = order[batch * training.batch : (batch + 1) * training.batch].tolist()
        trained = self._names("value") if self.row.trains_value else []
        trained += self._names("feature") if self.row.trains_feature else []
        leaves = {name: state.tensors[name].clone().requires_grad_() for name in trained}
        self._live = {**state.tensors, **leaves}
        losses = []
        for place in places:
            logits, _ = self._one(self.data.train_x[place], place)
            label = int(self.data.train_y[place])
            losses.append(self._loss(logits, label))
            state.right += self._right(logits.detach(), label)
        loss = torch.stack(losses).mean()
        slopes = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
        for name, slope in zip(leaves, slopes, strict=True):
            if slope is not None:
                self._move(name, slope)
        state.loss_sum += float(loss.detach()) * len(places)
        state.seen += len(places)
        state.step += 1

    def _move(self, name: str, slope: Tensor) -> None:
        rate, kind = self.state.learning_rate, self.config.training.optimiser
        kept = self.state.moments.setdefault(name, {})
        move = slope
        if kind == "adam":
            t = float(kept.get("step", torch.tensor(0.0))) + 1.0
            m = 0.9 * kept.get("exp_avg", torch.zeros_like(slope)) + 0.1 * slope
            v = 0.999 * kept.get("exp_avg_sq", torch.zeros_like(slope)) + 0.001 * slope**2
            kept.update(step=torch.tensor(t), exp_avg=m, exp_avg_sq=v)
            move = (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)).sqrt() + 1e-8)
        elif kind == "rmsprop":
            t = float(kept.get("step", torch.tensor(0.0))) + 1.0
            rho = self.config.training.smoothing
            v = rho * kept.get("square_avg", torch.zeros_like(slope)) + (1 - rho) * slope**2
            kept.update(step=torch.tensor(t), square_avg=v)
            move = slope / (v.sqrt() + 1e-8)
        elif self.config.training.momentum:
            before = kept.get("momentum_buffer")
            move = slope
            if before is not None:
                move = self.config.training.momentum * before + slope
            kept.update(momentum_buffer=move)
        self.state.tensors[name] = self.state.tensors[name] - rate * move
