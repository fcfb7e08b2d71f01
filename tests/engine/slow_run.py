"""A run computed slowly, from THEORY.md alone: one example and one unit at a time, in float64.

The engine is compared with it, command by command (`test_run_machine`) and in stacks. Nothing of
the engine is imported but configurations and events; weights, gates, losses, optimisers, scores and
undo are its own.
"""

from __future__ import annotations

import copy
import hashlib
import math
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from dgn_engine.config import RunConfig
from dgn_engine.protocol import events as said
from dgn_engine.regimes import find_regime

VALUE, FEATURE = "value weights", "feature weights"
FROM_VALUE = f"{FEATURE} (from the value network)"


@dataclass(frozen=True)
class Row:
    """One row of the table in THEORY §1. `entry`: what becomes of the weights when it begins."""

    entry: str
    own: bool = False
    soft: bool = False
    trains_feature: bool = False
    trains_value: bool = True
    linear: bool = False
    open: bool = False
    drawn: bool = False
    learnt_in: str = ""  # the regime before it, where gates are learnt first


TABLE = {
    "ReLU": Row("aside", own=True),
    "soft-ReLU": Row("aside", own=True, soft=True),
    "DLN": Row("aside", own=True, open=True),
    "FR-II": Row("redraw"),
    "FR-DI": Row("share"),
    "FL": Row("keep", learnt_in="ReLU"),
    "DL": Row("keep", soft=True, trains_feature=True),
    "gates-only": Row("redraw both", soft=True, trains_feature=True, trains_value=False),
    "FRG": Row("aside", drawn=True),
    "DL-linear": Row("keep", soft=True, trains_feature=True, linear=True),
    "FL-linear": Row("keep", linear=True, learnt_in="DL-linear"),
    "FR-linear": Row("redraw", linear=True),
}
_ENTRIES = {"share-redrawn": "share", "redraw-both": "redraw both"}


def row_of(name: str) -> Row:
    """The row of the table; of a regime that was plugged in, what its file says."""
    if name in TABLE:
        return TABLE[name]
    r = find_regime(name)
    return Row(
        _ENTRIES.get(r.on_entry, r.on_entry), r.own_gates, r.soft, r.trains_feature,
        r.trains_value, r.linear_features, r.open_gates, r.drawn_gates, r.pretrains_as,
    )  # fmt: skip


class Refusal(Exception):  # noqa: N818 - nothing was changed
    """The engine has to refuse this."""


@dataclass(frozen=True)
class File:
    """A checkpoint: weights of every layer and, perhaps, biases; `head`: the last one fits."""

    name: str
    weights: tuple[Tensor, ...]
    biases: tuple[Tensor, ...] = ()
    head: bool = True

    @property
    def taken(self) -> int:
        return len(self.weights) if self.head else len(self.weights) - 1


@dataclass(frozen=True)
class SlowData:
    train_x: Tensor
    train_y: Tensor
    test_x: Tensor
    test_y: Tensor
    classes: int
    signed: bool


@dataclass
class State:
    """What a checkpoint has to hold."""

    regime: str
    wiring: tuple[int, ...]
    rotation: tuple[int, ...]
    learning_rate: float
    beta: float
    value_input: str
    pretrain: int
    total: int
    tensors: dict[str, Tensor] = field(default_factory=dict)
    moments: dict[str, dict[str, Tensor]] = field(default_factory=dict)
    draws: int = 0
    step: int = 0
    loss_sum: float = 0.0
    right: float = 0.0
    seen: int = 0
    epoch_right: float = 0.0
    epoch_seen: int = 0
    awaited: said.Measured | None = None
    scored: tuple[int, ...] = ()  # the steps of all scores that were told

    @property
    def finite(self) -> bool:
        return math.isfinite(self.loss_sum)

    @property
    def finite_weights(self) -> bool:
        return all(bool(torch.isfinite(t).all()) for t in self.tensors.values())


@dataclass(frozen=True)
class Change:
    """A change that can be undone: the whole state before it, or only the settings of it."""

    what: str
    kind: str
    before: State
    weights: bool
    at: float


def stream(*key: object) -> torch.Generator:
    digest = hashlib.sha256(repr(key).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))


class SlowRun:
    """The run itself, its measuring, its undo and redo; `clock()` in seconds."""

    chunk = 32  # test examples measured in one turn
    merged = 1.0  # seconds
    between_tests = 0.5  # seconds

    def __init__(self, config: RunConfig, data: SlowData, clock: Any, gates: File | None) -> None:
        """`gates`: the checkpoint that `gating.gates_from` names."""
        self.config, self.data, self._clock = config, data, clock
        options = dict(config.net.options)
        self.layers = int(options["depth"]) - 1
        width, inputs = int(options["width"]), data.train_x.shape[1]
        self.tiles = config.gating.tiling or (1,) * self.layers
        outputs = 1 if data.signed else data.classes
        self.feature_sizes = (inputs, *[width] * self.layers, outputs)
        self.value_sizes = (inputs, *(width * k for k in self.tiles), outputs)
        self.epoch_steps = -(-len(data.train_y) // config.training.batch)
        row = row_of(config.gating.regime)
        first = row.learnt_in if row.learnt_in and gates is None else config.gating.regime
        self.first_regime = first
        tiled = any(k > 1 for k in self.tiles)
        if tiled and (row.entry == "share" or (row_of(first).own and row.entry == "keep")):
            raise Refusal("neither network can take the other's weights")
        training = config.training
        pretrain = 0
        if first != config.gating.regime:
            pretrain = (config.gating.pretrain_epochs or training.epochs or 10) * self.epoch_steps
        total = training.epochs * self.epoch_steps
        self.state = State(
            first, config.gating.wiring or tuple(range(self.layers)),
            config.gating.rotation or (0,) * self.layers, training.learning_rate,
            config.gating.beta, config.gating.value_input, pretrain, total and total + pretrain,
        )  # fmt: skip
        self._draw("value")
        self._draw("feature")
        if row_of(first).entry == "share":
            self._copy_to_feature()
        if gates is not None:
            self._put(gates, "feature")
        self.state.tensors["random_input"] = torch.rand(
            (inputs,), generator=stream("input", config.seed)
        )
        probability = config.gating.gate_probability
        generator = stream("gates", config.seed)
        shape = (len(data.train_y), width)
        self.drawn = [
            (torch.rand(shape, generator=generator) < probability).double()
            for _ in range(self.layers)
        ]
        self.diverged = False
        self.running = False
        self.stop_at: int | None = None
        self.chunks = 0  # of the pending test pass
        self.epoch_accuracy = math.nan
        self.done: list[Change] = []
        self.undone: list[Change] = []
        self.events: list[said.Event] = []
        self.saved = copy.deepcopy(self.state)  # what a checkpoint holds
        self.saved_at = (-1, 0)
        self.reopened()

    @property
    def row(self) -> Row:
        return row_of(self.state.regime)

    @property
    def blown(self) -> bool:
        """Numbers so large that two orders of computing differ."""
        tensors = self.state.tensors.values()
        return self.diverged or not all(bool((t.abs() < 1e6).all()) for t in tensors)

    def reopened(self) -> None:
        """It goes on in another process: what is not in a checkpoint is forgotten."""
        self.done, self.undone = [], []
        self.running, self.stop_at, self.diverged, self.chunks = False, None, False, 0
        self.state, self.saved_at = copy.deepcopy(self.saved), (-1, 0)
        self.changes = 0
        generalises = not row_of(self.first_regime).drawn
        self.test_due = self._clock() if generalises else math.inf

    # Weights

    def _names(self, part: str) -> list[str]:
        return [name for name in self.state.tensors if name.startswith(f"{part}.")]

    def _draw(self, part: str) -> None:
        """The n-th draw of a run is a function of seed and n."""
        net, sizes = self.config.net, getattr(self, f"{part}_sizes")
        generator = stream("weights", self.config.seed, self.state.draws)
        self.state.draws += 1
        for layer in range(self.layers + 1):
            a, b = sizes[layer], sizes[layer + 1]
            if net.init == "bernoulli":
                signs = 2.0 * torch.randint(0, 2, (b, a), generator=generator).double() - 1.0
                weight = (net.sigma or math.sqrt(2 / a)) * signs
            elif net.init == "glorot":
                uniform = torch.rand((b, a), generator=generator)
                weight = math.sqrt(6 / (a + b)) * (2 * uniform - 1)
            else:
                scale = net.sigma or math.sqrt(2 / a)
                weight = scale * torch.randn((b, a), generator=generator)
            self.state.tensors[f"{part}.weights.{layer}"] = weight
            if self.config.net.bias or f"{part}.biases.{layer}" in self.state.tensors:
                self.state.tensors[f"{part}.biases.{layer}"] = torch.zeros(b)

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
        tensors, sizes = self.state.tensors, getattr(self, f"{part}_sizes")
        if file.biases and f"{part}.biases.0" not in tensors:
            for layer in range(self.layers + 1):
                tensors[f"{part}.biases.{layer}"] = torch.zeros(sizes[layer + 1])
        for layer in range(file.taken):
            tensors[f"{part}.weights.{layer}"] = file.weights[layer].clone()
            if f"{part}.biases.{layer}" in tensors:
                bias = file.biases[layer] if file.biases else torch.zeros(sizes[layer + 1])
                tensors[f"{part}.biases.{layer}"] = bias.clone()
        self._forget(part)

    def count(self, part: str) -> int:
        return sum(self.state.tensors[name].numel() for name in self._names(part))

    # What the network computes

    def _gate(self, q: Tensor) -> Tensor:
        if self.row.open:
            return torch.ones(())
        if self.row.soft:
            gate = 1.0 / (1.0 + torch.exp(-self.state.beta * q))
            return (1.0 + self.config.gating.epsilon) * gate
        return torch.ones(()) if float(q.detach()) > 0.0 else torch.zeros(())

    def _affine(self, part: str, layer: int, z: Tensor) -> Tensor:
        tensors = self._live
        q = tensors[f"{part}.weights.{layer}"] @ z
        bias = tensors.get(f"{part}.biases.{layer}")
        return q if bias is None else q + bias

    def _gates_of_feature(self, x: Tensor) -> list[list[Tensor]]:
        """Of each feature layer and unit."""
        found, z = [], x
        for layer in range(self.layers):
            q = self._affine("feature", layer, z)
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
                z = self.state.tensors["random_input"]
        for layer in range(self.layers):
            q = self._affine("value", layer, z)
            if made is None:
                gates = [self._gate(unit) for unit in q]
            else:
                source, turn = made[self.state.wiring[layer]], self.state.rotation[layer]
                width = len(source)
                gates = [source[(unit - turn) % width] for unit in range(width)]
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
        epoch, batch = divmod(state.step, self.epoch_steps)
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
            v = 0.99 * kept.get("square_avg", torch.zeros_like(slope)) + 0.01 * slope**2
            kept.update(step=torch.tensor(t), square_avg=v)
            move = slope / (v.sqrt() + 1e-8)
        elif self.config.training.momentum:
            before = kept.get("momentum_buffer")
            move = slope
            if before is not None:
                move = self.config.training.momentum * before + slope
            kept.update(momentum_buffer=move)
        self.state.tensors[name] = self.state.tensors[name] - rate * move

    # Measuring

    def _measure(self) -> bool:
        """Scores are due every 5 steps, at the end of an epoch, and live when a test is due."""
        state = self.state
        ends = state.step % self.epoch_steps == 0
        every = max(5, self.epoch_steps // 20)
        generalises = not self.row.drawn
        due = generalises and self._clock() >= self.test_due
        if not (ends or due or state.step % every == 0):
            return state.finite
        loss = state.loss_sum / state.seen if state.seen else math.nan
        accuracy = state.right / state.seen if state.seen else math.nan
        state.epoch_right += state.right
        state.epoch_seen += state.seen
        state.loss_sum = state.right = 0.0
        state.seen = 0
        if ends:
            seen = state.epoch_seen
            self.epoch_accuracy = state.epoch_right / seen if seen else math.nan
            state.epoch_right, state.epoch_seen = 0.0, 0
        measured = said.Measured(state.step, state.step / self.epoch_steps, loss, accuracy)
        if (ends or due) and generalises:
            state.awaited, self.chunks = measured, 0
        else:
            self._score(measured)
        return math.isfinite(loss)

    def _measure_on(self) -> None:
        """One more chunk of the test examples."""
        self.chunks += 1
        if self.chunks * self.chunk < len(self.data.test_y):
            return
        awaited, self.state.awaited = self.state.awaited, None
        assert awaited is not None
        loss, accuracy = self.test_score()
        self.test_due = self._clock() + self.between_tests
        self._score(replace(awaited, test_loss=loss, test_accuracy=accuracy))

    def _score(self, measured: said.Measured) -> None:
        self.state.scored = (*self.state.scored, measured.step)
        self.events.append(measured)

    def _network_changed(self) -> None:
        """A score that waits for its test is told without it; another test is due at once."""
        if self.state.awaited is not None:
            self._score(self.state.awaited)
            self.state.awaited = None
            self.test_due = 0.0

    # One turn of the engine

    @property
    def finished(self) -> bool:
        state = self.state
        return bool(state.total) and state.awaited is None and state.step >= state.total

    def turn(self) -> None:
        if not self.running:
            return
        if self.state.awaited is not None:
            self._measure_on()
        else:
            self._step()
        state = self.state
        if self.diverged:
            self.running = False
        elif self.finished:
            self.running = False
            self.events.append(said.Finished(state.step))
            self._save()
        elif state.awaited is None and self.stop_at is not None and state.step >= self.stop_at:
            self.pause()

    def _step(self) -> None:
        state = self.state
        if state.pretrain and state.step == state.pretrain:
            self._swap(self.config.gating.regime, True)
        self._train()
        if not self._measure():
            self.diverged = True
            self.events.append(said.Diverged(state.step))
            return
        until = self.config.training.until
        ends = state.step % self.epoch_steps == 0
        if until and ends and state.step > state.pretrain and self.epoch_accuracy >= until:
            state.total = state.step

    def resume(self, steps: int | None = None) -> None:
        if self.diverged:
            raise Refusal("diverged")
        if self.finished:
            self.state.total = 0
        self.stop_at = None if steps is None else self.state.step + steps
        self.running = True
        self.events.append(said.Running(self.state.step))

    def pause(self) -> None:
        self.running, self.stop_at = False, None
        self.events.append(said.Paused(self.state.step))

    # Changes

    def _save(self) -> None:
        """A checkpoint, of a run whose numbers are finite."""
        if self.diverged or not self.state.finite:
            return
        self.saved_at = (self.state.step, self.changes)
        if self.state.finite_weights:
            self.saved = copy.deepcopy(self.state)

    def close(self) -> None:
        """The last checkpoint, where something has happened since the one before."""
        if self.saved_at != (self.state.step, self.changes):
            self._save()

    def _tell_change(self, event: said.Event) -> None:
        self.changes += 1
        self.events.append(event)

    def _enter(self, name: str, restart: bool) -> tuple[list[str], list[str]]:
        """Groups that were redrawn and groups that were copied."""
        before, after = self.row, row_of(name)
        learns_from_own = before.own and after.entry == "keep"
        if (learns_from_own or after.entry == "share") and any(k > 1 for k in self.tiles):
            raise Refusal("tiled")
        self._save()
        redrawn, copied = [], []
        if learns_from_own:
            self._copy_to_feature()
            copied.append(FROM_VALUE)
        if after.entry in ("redraw", "redraw both"):
            self._draw("feature")
            redrawn.append(FEATURE)
        if after.entry in ("share", "redraw both") or (after.learnt_in and restart):
            self._draw("value")
            self._forget("value")
            redrawn.append(VALUE)
        if after.entry == "share":
            self._copy_to_feature()
            copied.append(FROM_VALUE)
        if FEATURE in redrawn or copied:
            self._forget("feature")
        self.state.regime = name
        self.state.pretrain = 0
        return redrawn, copied

    def _swap(self, name: str, restart: bool, gates: File | None = None) -> None:
        before = self.state.regime
        redrawn, copied = self._enter(name, restart)
        if gates is not None:
            self._put(gates, "feature")
            copied = [f"{FEATURE} (from {gates.name})"]
        row = self.row
        kept = [] if VALUE in redrawn else [VALUE]
        if not copied and FEATURE not in redrawn:
            kept.append(f"{FEATURE} (aside)" if row.entry == "aside" else FEATURE)
        self._network_changed()
        self._tell_change(
            said.RegimeSwapped(
                self.state.step, before, name, tuple(kept), self._frozen(), tuple(redrawn),
                tuple(copied), gates.name if gates is not None else "", self.count("feature"),
            )
        )  # fmt: skip

    def _frozen(self) -> tuple[str, ...]:
        row = self.row
        stands = [] if row.trains_feature or row.entry == "aside" else [FEATURE]
        return tuple(stands + ([] if row.trains_value else [VALUE]))

    def swap(self, name: str, restart: bool) -> None:
        with_undo = self._change(f"regime {name}", "swap", weights=True)
        self._swap(name, restart)
        self._remember(with_undo)

    def take_gates(self, file: File, restart: bool) -> None:
        with_undo = self._change(f"gates of {file.name}", "gates", weights=True)
        self._swap("FL", restart, file)
        self.events.append(said.FileClosed(0))
        self._remember(with_undo)

    def take_weights(self, file: File) -> None:
        if file.biases and "value.biases.0" not in self.state.tensors:
            raise Refusal("biases")
        with_undo = self._change(f"weights of {file.name}", "weights", weights=True)
        self._save()
        self._put(file, "value")
        self._network_changed()
        left = () if file.head else ("output",)
        self._tell_change(
            said.WeightsTaken(self.state.step, file.name, file.taken, left, bool(file.biases))
        )
        self.events.append(said.FileClosed(0))
        self._remember(with_undo)

    def rewire(self, order: tuple[int, ...]) -> None:
        if self.row.own:
            raise Refusal("own gates")
        change = self._change("order of the gate layers", "order")
        self._rewire(order)
        self._remember(change)

    def _rewire(self, order: tuple[int, ...]) -> None:
        turns = dict(zip(self.state.wiring, self.state.rotation, strict=True))
        self.state.rotation = tuple(turns[source] for source in order)
        self.state.wiring = order
        self._rewired()

    def rotate(self, rotation: tuple[int, ...]) -> None:
        if self.row.own:
            raise Refusal("own gates")
        change = self._change("rotation of the gates", "rotation")
        self.state.rotation = rotation or (0,) * self.layers
        self._rewired()
        self._remember(change)

    def _rewired(self) -> None:
        self._network_changed()
        rotation = self.state.rotation if any(self.state.rotation) else ()
        self._tell_change(said.Rewired(self.state.step, self.state.wiring, rotation, ()))

    def set_learning_rate(self, rate: float) -> None:
        self._set("learning rate", "learning_rate", rate)

    def set_beta(self, beta: float) -> None:
        self._set("β", "beta", beta)

    def set_value_input(self, value_input: str) -> None:
        self._set("value input", "value_input", value_input)

    def _set(self, what: str, name: str, value: object) -> None:
        change = self._change(what, name)
        self._setting(name, value)
        self._remember(change, merges=True)

    def _setting(self, name: str, value: object) -> None:
        setattr(self.state, name, value)
        if name != "learning_rate":
            self._network_changed()
        self.tell_settings()

    def tell_settings(self) -> None:
        state = self.state
        self._tell_change(
            said.SettingChanged(
                state.step,
                state.learning_rate,
                state.beta,
                state.value_input,
                0.0,  # type: ignore[arg-type]
            )
        )

    # Undo

    def _change(self, what: str, kind: str, weights: bool = False) -> Change | None:
        if weights and (self.diverged or not self.state.finite):
            return None
        return Change(what, kind, copy.deepcopy(self.state), weights, self._clock())

    def _remember(self, change: Change | None, merges: bool = False) -> None:
        self.undone.clear()
        if change is None:
            self.done.clear()
        else:
            last = self.done[-1] if self.done else None
            same = last is not None and merges and last.kind == change.kind
            if not (same and last is not None and change.at - last.at < self.merged):
                self.done.append(change)
        self._name_changes()

    def _name_changes(self) -> None:
        names = [changes[-1].what if changes else "" for changes in (self.done, self.undone)]
        self.events.append(said.UndoChanged(*names))

    def undo(self) -> None:
        self._turn_back("Undo", self.done, self.undone)

    def redo(self) -> None:
        self._turn_back("Redo", self.undone, self.done)

    def _turn_back(self, word: str, source: list[Change], target: list[Change]) -> None:
        if not source:
            raise Refusal("nothing to undo")
        last = source[-1]
        change = self._change(last.what, last.kind, last.weights)
        if last.weights:
            self._put_back(word, last)
        else:
            self._set_back(last.before)
        source.pop()
        if change is not None:
            target.append(change)
        self._name_changes()

    def _put_back(self, word: str, last: Change) -> None:
        """Networks, optimiser, regime and settings of then; steps and scores go on."""
        now, regime = self.state, self.state.regime
        self._save()
        self._network_changed()
        then = copy.deepcopy(last.before)
        then.awaited = None
        then.total = now.total
        for name in ("step", "loss_sum", "right", "seen", "epoch_right", "epoch_seen", "scored"):
            setattr(then, name, getattr(now, name))
        if then.pretrain:
            then.pretrain += now.step - last.before.step
        if self.diverged:
            then.loss_sum, then.right, then.seen = 0.0, 0.0, 0
        self.state, self.diverged = then, False
        row = self.row
        frozen = ([] if row.trains_feature else [FEATURE]) + ([] if row.trains_value else [VALUE])
        self._tell_change(
            said.RegimeSwapped(
                then.step, regime, then.regime, (), tuple(frozen), (), (VALUE, FEATURE), "",
                self.count("feature"), f"{word} {last.what}", last.before.step,
            )
        )  # fmt: skip

    def _set_back(self, to: State) -> None:
        if self.state.wiring != to.wiring:
            self._rewire(to.wiring)
        if self.state.rotation != to.rotation:
            self.state.rotation = to.rotation
            self._rewired()
        for name in ("learning_rate", "beta", "value_input"):
            if getattr(self.state, name) != getattr(to, name):
                self._setting(name, getattr(to, name))
