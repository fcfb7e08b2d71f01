"""A run computed slowly, from THEORY.md alone, in float64.

The engine is compared with it, command by command (`test_run_machine`) and in stacks. Nothing of
the engine is imported but configurations and events; weights, gates, losses, optimisers
(`slow_network`), scores and undo are its own.
"""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

from dgn_engine.config import RunConfig
from dgn_engine.protocol.files import FileClosed, WeightsTaken
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.training import (
    Diverged,
    Finished,
    Measured,
    Paused,
    RegimeSwapped,
    Rewired,
    Running,
    SettingChanged,
    UndoChanged,
)
from tests.engine.slow_network import SlowNetwork
from tests.engine.slow_table import Change, File, Refusal, SlowData, State, row_of

VALUE, FEATURE = "value weights", "feature weights"
FROM_VALUE = f"{FEATURE} (from the value network)"
SETTINGS = ("order", "rotation", "learning_rate", "beta", "value_input")


class SlowRun(SlowNetwork):
    """The run itself, its measuring, its undo and redo; `clock()` in seconds."""

    chunk = 32  # test examples measured in one turn
    merged = 1.0  # seconds
    between_tests = 0.5  # seconds

    def __init__(self, config: RunConfig, data: SlowData, clock: Any, gates: File | None) -> None:
        """`gates`: the checkpoint that `gating.gates_from` names."""
        self.build(config, data)
        self._clock = clock
        row = row_of(config.gating.regime)
        first = row.learnt_in if row.learnt_in and gates is None else config.gating.regime
        self.first_regime = first
        if any(config.gating.shift) and not self.convolves:
            raise Refusal("no maps")
        if self.parallel and self.convolves:
            raise Refusal("no parallel layers")
        if self.parallel and self.layers > 1 and gates is not None:
            raise Refusal("gates of a chain")
        if self.unlike and (row.entry == "share" or (row_of(first).own and row.entry == "keep")):
            raise Refusal("neither network can take the other's weights")
        training = config.training
        pretrain = 0
        if first != config.gating.regime:
            pretrain = (config.gating.pretrain_epochs or training.epochs or 10) * self.epoch_steps
        total = training.epochs * self.epoch_steps
        self.state = State(
            first,
            config.gating.wiring or tuple(range(self.layers)),
            config.gating.rotation or (0,) * self.layers,
            config.gating.shift or (0,) * self.layers,
            training.learning_rate,
            config.gating.beta,
            config.gating.value_input,
            pretrain,
            total and total + pretrain,
        )
        self._draw("value")
        self._draw("feature")
        if row_of(first).entry == "share":
            self._copy_to_feature()
        if gates is not None:
            self._put(gates, "feature")
            self.state.source = gates.name
        self.begin()
        self.diverged = False
        self.running = False
        self.stop_at: int | None = None
        self.chunks = 0  # of the pending test pass
        self.epoch_accuracy = math.nan
        self.done: list[Change] = []
        self.undone: list[Change] = []
        self.events: list[Event] = []
        self.saved = copy.deepcopy(self.state)  # what a checkpoint holds
        self.saved_at = (-1, 0)
        self.reopened()

    def reopened(self) -> None:
        """It goes on in another process: what is not in a checkpoint is forgotten."""
        self.done, self.undone, self.may_merge = [], [], False
        self.save_due = False  # after an undo
        self.running, self.stop_at, self.diverged, self.chunks = False, None, False, 0
        self.state, self.saved_at = copy.deepcopy(self.saved), (-1, 0)
        self.changes = 0
        generalises = not row_of(self.first_regime).drawn
        self.test_due = self._clock() if generalises else math.inf

    # Measuring

    def _measure(self) -> bool:
        """Scores are due every 5 steps, after steps 1, 2 and 4, at the end of an epoch, and live
        when a test is due."""
        state = self.state
        ends = state.step % self.epoch_steps == 0
        every = max(5, self.epoch_steps // 20)
        generalises = not self.row.drawn
        due = generalises and self._clock() >= self.test_due
        early = state.step < every and state.step in (1, 2, 4, 8, 16)
        if not (ends or due or early or state.step % every == 0):
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
        measured = Measured(state.step, state.step / self.epoch_steps, loss, accuracy)
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

    def _score(self, measured: Measured) -> None:
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
        if self.running:
            self._go_on()
        if self.save_due:
            self.close()
            self.save_due = False

    def _go_on(self) -> None:
        if self.state.awaited is not None:
            self._measure_on()
        else:
            self._step()
        state = self.state
        if self.diverged:
            self.running = False
        elif self.finished:
            self.running = False
            self.events.append(Finished(state.step))
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
            self.events.append(Diverged(state.step))
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
        self.events.append(Running(self.state.step))

    def pause(self) -> None:
        self.running, self.stop_at = False, None
        self.events.append(Paused(self.state.step))

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

    def _tell_change(self, event: Event) -> None:
        self.changes += 1
        self.events.append(event)

    @property
    def unlike(self) -> bool:
        """Neither network can take the other's weights."""
        return any(k > 1 for k in self.tiles) or (self.parallel and self.layers > 1)

    def _enter(self, name: str, restart: bool) -> tuple[list[str], list[str]]:
        """Groups that were redrawn and groups that were copied."""
        before, after = self.row, row_of(name)
        learns_from_own = before.own and after.entry == "keep"
        if (learns_from_own or after.entry == "share") and self.unlike:
            raise Refusal("unlike")
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
        self.state.source = gates.name if gates is not None else ""
        row = self.row
        kept = [] if VALUE in redrawn else [VALUE]
        if not copied and FEATURE not in redrawn:
            kept.append(f"{FEATURE} (aside)" if row.entry == "aside" else FEATURE)
        self._network_changed()
        self._tell_change(
            RegimeSwapped(
                self.state.step,
                before,
                name,
                tuple(kept),
                self._frozen(),
                tuple(redrawn),
                tuple(copied),
                self.state.source,
                self.count("feature"),
            )
        )

    def _frozen(self) -> tuple[str, ...]:
        row = self.row
        stands = [] if row.trains_feature or row.entry == "aside" else [FEATURE]
        return tuple(stands + ([] if row.trains_value else [VALUE]))

    def swap(self, name: str, restart: bool) -> None:
        with_undo = self._change(f"regime {name}", "swap")
        self._swap(name, restart)
        self._remember(with_undo)

    def take_gates(self, file: File, restart: bool) -> None:
        if self.parallel and self.layers > 1:
            raise Refusal("gates of a chain")
        with_undo = self._change(f"gates of {file.name}", "gates")
        self._swap("FL", restart, file)
        self.events.append(FileClosed(0))
        self._remember(with_undo)

    def take_weights(self, file: File) -> None:
        if file.biases and "value.biases.0" not in self.state.tensors:
            raise Refusal("biases")
        with_undo = self._change(f"weights of {file.name}", "weights")
        self._save()
        self._put(file, "value")
        self._network_changed()
        left = () if file.head else ("output",)
        self._tell_change(
            WeightsTaken(self.state.step, file.name, file.taken, left, bool(file.biases))
        )
        self.events.append(FileClosed(0))
        self._remember(with_undo)

    def rewire(self, order: tuple[int, ...]) -> None:
        if self.row.own:
            raise Refusal("own gates")
        change = self._change("gate order", "order")
        self._rewire(order)
        self._remember(change)

    def _rewire(self, order: tuple[int, ...]) -> None:
        state = self.state
        turns = dict(zip(state.wiring, zip(state.rotation, state.shift, strict=True), strict=True))
        state.rotation = tuple(turns[source][0] for source in order)
        state.shift = tuple(turns[source][1] for source in order)
        state.wiring = order
        self._rewired()

    def rotate(self, rotation: tuple[int, ...], shift: tuple[int, ...] = ()) -> None:
        if self.row.own:
            raise Refusal("own gates")
        if any(shift) and not self.convolves:
            raise Refusal("no maps")
        change = self._change("gate rotation", "rotation")
        self.state.rotation = rotation or (0,) * self.layers
        self.state.shift = shift or (0,) * self.layers
        self._rewired()
        self._remember(change)

    def _rewired(self) -> None:
        self._network_changed()
        state = self.state
        rotation = state.rotation if any(state.rotation) else ()
        shift = state.shift if any(state.shift) else ()
        self._tell_change(Rewired(state.step, state.wiring, rotation, shift))

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
            SettingChanged(
                state.step,
                state.learning_rate,
                state.beta,
                state.value_input,
                0.0,  # type: ignore[arg-type]
            )
        )

    # Undo

    def _change(self, what: str, kind: str) -> Change:
        finite = not self.diverged and self.state.finite
        return Change(what, kind, copy.deepcopy(self.state), finite, self._clock())

    def _remember(self, change: Change, merges: bool = False) -> None:
        last = self.done[-1] if self.done and self.may_merge else None
        same = last is not None and merges and last.kind == change.kind
        if not (same and last is not None and change.at - last.at < self.merged):
            if change.kind in SETTINGS and _settings(change.before) == _settings(self.state):
                return
            if change.finite:
                self.done.append(change)
                self.may_merge = True
        self.undone.clear()
        self._name_changes()

    def _name_changes(self) -> None:
        names = [changes[-1].what if changes else "" for changes in (self.done, self.undone)]
        self.events.append(UndoChanged(*names))

    def undo(self) -> None:
        self._turn_back("Undo", self.done, self.undone)

    def redo(self) -> None:
        self._turn_back("Redo", self.undone, self.done)

    def _turn_back(self, word: str, source: list[Change], target: list[Change]) -> None:
        if not source:
            raise Refusal("nothing to undo")
        last = source[-1]
        change = self._change(last.what, last.kind)
        self._put_back(word, last)
        source.pop()
        self.may_merge = False
        if change.finite:
            target.append(change)
        self._name_changes()

    def _put_back(self, word: str, last: Change) -> None:
        """All as it was then, the batches to come too; the count of steps goes on."""
        now, regime = self.state, self.state.regime
        self._save()
        self._network_changed()
        then = copy.deepcopy(last.before)
        then.awaited = None
        then.total = now.total
        then.step, then.scored = now.step, now.scored
        then.undone = now.step - last.before.step + last.before.undone
        if then.pretrain:
            then.pretrain += now.step - last.before.step
        self.state, self.diverged = then, False
        row = self.row
        frozen = ([] if row.trains_feature else [FEATURE]) + ([] if row.trains_value else [VALUE])
        self._tell_change(
            RegimeSwapped(
                then.step,
                regime,
                then.regime,
                (),
                tuple(frozen),
                (),
                (VALUE, FEATURE),
                then.source,
                self.count("feature"),
                f"{word} {last.what}",
                last.before.step,
                then.undone,
            )
        )
        if _turns(then) != _turns(now):
            rotation = then.rotation if any(then.rotation) else ()
            shift = then.shift if any(then.shift) else ()
            self._tell_change(Rewired(then.step, then.wiring, rotation, shift))
        if _settings(then)[1:] != _settings(now)[1:]:
            self.tell_settings()
        self.save_due = True


def _turns(state: State) -> tuple[object, ...]:
    return state.wiring, state.rotation, state.shift


def _settings(state: State) -> tuple[object, ...]:
    return _turns(state), state.learning_rate, state.beta, state.value_input
