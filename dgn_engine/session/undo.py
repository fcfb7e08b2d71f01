"""Undo and redo of what a user changed in a run: as it was before, put back between two steps.

What replaced weights (a regime, gates or weights of a file) is undone by the networks, their
optimiser state, the regime and the dials as they stood right before, copied out at that moment as
the checkpoint beside the event is; so it works for a run that is not recorded, too. An order, a
rotation or a dial is only turned back: the weights are left alone. Steps are never taken back: the
run goes on from the step that it has reached, and its record stays whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from dgn_engine.config import ValueInput
from dgn_engine.errors import UserError
from dgn_engine.model.regime_entry import FEATURE, VALUE
from dgn_engine.model.routing import turned
from dgn_engine.protocol import commands as do
from dgn_engine.protocol.events import Event, RegimeSwapped, UndoChanged
from dgn_engine.storage.runs.snapshot import Snapshot
from dgn_engine.training.run import Run
from dgn_engine.training.run_snapshot import capture, go_back

MOST = 50  # changes that are kept
MOST_BYTES = 512 << 20  # of their weights; the newest change is always kept
MERGED = 1.0  # seconds between two turns of one dial that count as one
_REPLACES = (do.SwapRegime, do.TakeGates, do.TakeWeights)
_TURNS = (do.Rewire, do.Rotate, do.SetLearningRate, do.SetBeta, do.SetValueInput)


@dataclass(frozen=True)
class _Turned:
    """Where order, rotation and dials stood."""

    order: tuple[int, ...]
    rotation: tuple[int, ...]
    shift: tuple[int, ...]
    learning_rate: float
    beta: float
    value_input: ValueInput


@dataclass(frozen=True)
class _Before:
    """How the run stood before a change. `what` it was, in words: 'gates of x.pt'."""

    what: str
    stood: Snapshot | _Turned
    kind: type[object]
    at: float

    @property
    def size(self) -> int:
        """Bytes."""
        tensors = self.stood.tensors.values() if isinstance(self.stood, Snapshot) else ()
        return sum(tensor.nbytes for tensor in tensors)


class UndoHistory:
    """The changes of the run in progress, the newest last; another run begins without any."""

    def __init__(
        self,
        emit: Callable[[Event], None],
        run: Callable[[], Run | None],
        file_name: Callable[[int], str],
    ) -> None:
        """`file_name(ticket)`: of a listed file."""
        self._emit = emit
        self._run = run
        self._file_name = file_name
        self._of = 0  # the number of the run that was changed
        self._done: list[_Before] = []
        self._undone: list[_Before] = []

    def around(self, command: do.Command, act: Callable[[do.Command], None]) -> None:
        """Carry out a command and remember how the run stood, or undo or redo one.

        Raises what `act` raises, and then nothing is remembered.
        """
        run = self._run()
        number = 0 if run is None else run.number
        if number != self._of:
            self._of, self._done, self._undone = number, [], []
        if isinstance(command, (do.Undo, do.Redo)):
            self._back(run, isinstance(command, do.Redo))
        elif run is None or not isinstance(command, (*_REPLACES, *_TURNS)):
            act(command)
            return
        else:
            before = self._before(run, self._in_words(command), type(command))
            act(command)
            self._undone.clear()
            self._remember(before)
        self._tell()

    def _remember(self, before: _Before | None) -> None:
        if before is None:  # the run had diverged: this change cannot be undone, nor those before
            self._done.clear()
            return
        last = self._done[-1] if self._done else None
        dial = before.kind in _TURNS[2:] and last is not None and last.kind is before.kind
        if dial and last is not None and before.at - last.at < MERGED:
            return
        self._done.append(before)
        self._trim(self._done)

    def _back(self, run: Run | None, again: bool) -> None:
        source, target = (self._undone, self._done) if again else (self._done, self._undone)
        word = "redo" if again else "undo"
        if run is None or not source:
            raise UserError(f"There is nothing to {word}.")
        last = source[-1]
        now = self._before(run, last.what, last.kind)
        if isinstance(last.stood, Snapshot):
            _put_back(run, last.stood, (word, last.what), self._emit)
        else:
            _turn_back(run, last.stood)
        source.pop()
        if now is not None:
            target.append(now)
            self._trim(target)

    def _before(self, run: Run, what: str, kind: type[object]) -> _Before | None:
        """None where the run has diverged: then there is nothing worth having back."""
        network = run.trainer.network
        stood: Snapshot | _Turned | None
        if kind in _REPLACES:
            stood = capture(run)
        else:
            beta, value_input = network.gate.beta, network.value_input
            turns = turned(network.routes)
            stood = _Turned(network.wiring, *turns, run.learning_rate, beta, value_input)
        return None if stood is None else _Before(what, stood, kind, time.monotonic())

    def _trim(self, changes: list[_Before]) -> None:
        del changes[:-MOST]
        while len(changes) > 1 and sum(one.size for one in changes) > MOST_BYTES:
            del changes[0]

    def _tell(self) -> None:
        names = [changes[-1].what if changes else "" for changes in (self._done, self._undone)]
        self._emit(UndoChanged(*names))

    def _in_words(self, command: do.Command) -> str:
        match command:
            case do.TakeGates():
                return f"gates of {self._file_name(command.ticket)}"
            case do.TakeWeights():
                return f"weights of {self._file_name(command.ticket)}"
            case do.SwapRegime():
                return f"regime {command.regime}"
            case do.Rewire():
                return "order of the gate layers"
            case do.Rotate():
                return "rotation of the gates"
            case do.SetLearningRate():
                return "learning rate"
            case do.SetBeta():
                return "β"
        return "value input"


def _put_back(
    run: Run, snapshot: Snapshot, what: tuple[str, str], emit: Callable[[Event], None]
) -> None:
    before = run.trainer.regime.name
    run.before_swap(" of ".join(what))
    run.measuring.restart()  # it tells the scores that it waits with
    go_back(run, snapshot)
    run.observation.invalidate()
    trainer = run.trainer
    regime, feature = trainer.regime, trainer.network.feature
    frozen = [
        name
        for name, trains in ((FEATURE, regime.trains_feature), (VALUE, regime.trains_value))
        if not trains
    ]
    emit(
        RegimeSwapped(
            step=run.step_count,
            before=before,
            after=regime.name,
            kept=(),
            frozen=tuple(frozen),
            redrawn=(),
            copied=(VALUE, FEATURE),
            parameters_feature=sum(parameter.numel() for parameter in feature.parameters()),
            undone=f"{what[0].capitalize()} {what[1]}",
            of_step=snapshot.step,
        )
    )


def _turn_back(run: Run, stood: _Turned) -> None:
    """Only what is different now."""
    network = run.trainer.network
    if network.wiring != stood.order:
        run.rewire(stood.order)
    if turned(network.routes) != (stood.rotation, stood.shift):
        run.rotate(stood.rotation, stood.shift)
    if run.learning_rate != stood.learning_rate:
        run.set_learning_rate(stood.learning_rate)
    if network.gate.beta != stood.beta:
        run.set_beta(stood.beta)
    if network.value_input != stood.value_input:
        run.set_value_input(stood.value_input)
