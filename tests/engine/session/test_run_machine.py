"""Two changes in a row: an engine driven through random commands, compared with `slow_run`.

After each command everything that the engine computes is held against the slow run: weights,
fixed input and optimiser state by name, the gates of each value layer, logits, the events in
their order with their fields, and what a checkpoint holds.
"""

from __future__ import annotations

import dataclasses
import math
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from torch import Tensor

from dgn_engine.config import RunConfig
from dgn_engine.protocol.files import (
    FileClosed,
    FileListed,
    OpenFile,
    ReadingsFound,
    TakeGates,
    TakeWeights,
)
from dgn_engine.protocol.messages import Command, Event, Refused, Working
from dgn_engine.protocol.runs import ContinueRun, FramesRecorded, HistoryReplayed, RunContinued
from dgn_engine.protocol.training import (
    Advance,
    ChangesListed,
    Diverged,
    Measured,
    Redo,
    Resume,
    Rewire,
    Rotate,
    RunStarted,
    SetBeta,
    SetLearningRate,
    SettingChanged,
    SettingsIgnored,
    SetValueInput,
    StartRun,
    SwapRegime,
    Undo,
)
from dgn_engine.protocol.watching import ProbeExamples
from dgn_engine.session import opened_files
from dgn_engine.session.engine import Engine
from dgn_engine.training import evaluation_schedule, initial_weights, metrics
from dgn_engine.training import run as run_module
from tests.daily import nightly
from tests.engine.session.drawn_runs import (
    IMAGE,
    INPUTS,
    REGIMES,
    TEST,
    TRAIN,
    configs,
    contents_of,
    data_of,
    draw_file,
    examples_of,
)
from tests.engine.slow_network import SlowNetwork
from tests.engine.slow_run import SlowRun
from tests.engine.slow_table import TABLE, File, Refusal

CLOSE = {"rtol": 1e-7, "atol": 1e-9}  # both compute in float64, in another order
MEMORY = Path("/dev/shm")  # nothing here is about waiting for a disk
TURNS = st.integers(0, 5)
UNSEEN = (
    Working,
    FileListed,
    ReadingsFound,
    RunStarted,
    HistoryReplayed,
    RunContinued,
    SettingsIgnored,  # test_ignored_settings
    ChangesListed,  # test_undo_history
    FramesRecorded,  # test_recorded_steps
    ProbeExamples,  # test_chosen_probe_set
)


class RunMachine(RuleBasedStateMachine):
    """An engine and a slow run that are told the same."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0
        self.patch = pytest.MonkeyPatch()
        clock = SimpleNamespace(monotonic=lambda: self.now, thread_time=lambda: self.now)
        for module in (evaluation_schedule, run_module):  # nothing costs time by these
            self.patch.setattr(module, "time", clock)
        self.patch.setattr(metrics, "CHUNK_VALUES", 1)  # so that chunks are of 32 examples
        self.place = Path(
            tempfile.mkdtemp(prefix="dgn-machine-", dir=MEMORY if MEMORY.is_dir() else None)
        )
        self.file: File | None = None
        for module in (opened_files, initial_weights):
            self.patch.setattr(module, "read_tensors", lambda *_, **__: contents_of(self.file))
        self.dtype = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        self.events: list[Event] = []
        self.engine: Engine | None = None
        self.slow: SlowRun | None = None
        self.tickets = self.copies = 0

    # Set up and down

    @initialize(config=configs(), signed=st.booleans(), biased=st.booleans())
    def start(self, config: RunConfig, signed: bool, biased: bool) -> None:
        shape = IMAGE if config.net.name == "cnn4" else (INPUTS,)
        self.config, data = config, data_of(signed, shape)
        self.patch.setattr(run_module, "load_examples", lambda *_: examples_of(data))
        network = SlowNetwork()
        network.build(config, data)
        self.file = draw_file("gates.pt", network.weight_shapes("feature"), biased, True, 3)
        gates = self.file if config.gating.gates_from else None
        self._open()
        self.engine.handle_command(StartRun(config, paused=True))
        try:
            self.slow = SlowRun(config, data, lambda: self.now, gates)
        except Refusal:
            assert isinstance(self.events[-1], Refused), self.events[-1]
            self.engine.close()
            self.events.clear()
            untiled = replace(
                config, gating=replace(config.gating, tiling=(), feature_layers="chain")
            )
            self.start(untiled, signed, biased)
            return
        self._check_started()
        self.slow.tell_settings()
        self.slow.changes = 0
        self._compare()

    def _open(self) -> None:
        self.engine = Engine(self.events.append, lambda _: None, runs_root=str(self.place / "runs"))
        self.engine._undo._clock = lambda: self.now

    def teardown(self) -> None:
        if self.engine is not None:
            self.engine.close()
        torch.set_default_dtype(self.dtype)
        torch.set_flush_denormal(False)
        self.patch.undo()
        shutil.rmtree(self.place, ignore_errors=True)

    # Comparing

    @property
    def run(self) -> run_module.Run:
        assert self.engine is not None
        assert self.engine.run is not None
        return self.engine.run

    def _check_started(self) -> None:
        (told,) = [event for event in self.events if isinstance(event, RunStarted)]
        slow, gating = self.slow, self.config.gating
        assert told.regime == slow.first_regime
        assert told.wiring == (gating.wiring or tuple(range(slow.layers)))
        assert told.rotation == gating.rotation
        assert told.shift == gating.shift
        assert told.parameters_value == sum(
            math.prod(shape) + self.config.net.bias * shape[0]
            for shape in slow.weight_shapes("value")
        )
        assert told.steps_per_epoch == slow.epoch_steps
        maps = slow.grid if slow.convolves else ()
        shapes = [(units, *maps) for units in slow.value_sizes[1:-1]]
        assert [layer.shape for layer in told.layers] == shapes
        assert (told.train_examples, told.test_examples) == (TRAIN, TEST)
        self.engine.state.recording._every = math.inf  # checkpoints by events, not by the clock

    def _obey(self, command: Command, slowly: object) -> None:
        """Where the slow run refuses the command, the engine has to, and change nothing."""
        slow = self.slow
        try:
            slowly(slow)  # type: ignore[operator]
        except Refusal:
            slow.events.append(Refused(command.in_words(), ""))
        self.engine.handle_command(command)
        self._compare()

    def _compare(self) -> None:
        told = [event for event in self.events if not isinstance(event, UNSEEN)]
        self.events.clear()
        expected, self.slow.events = self.slow.events, []
        if self.slow.blown:  # which sum overflows first depends on its order
            ends = [any(isinstance(e, Diverged) for e in these) for these in (told, expected)]
            assume(ends[0] == ends[1])
        assert [type(e).__name__ for e in told] == [type(e).__name__ for e in expected], (
            told,
            expected,
        )
        for ours, theirs in zip(told, expected, strict=True):
            self._same_event(ours, theirs)
        self._same_state()

    def _same_event(self, ours: Event, theirs: Event) -> None:
        for field in dataclasses.fields(theirs):
            a, b = getattr(ours, field.name), getattr(theirs, field.name)
            if isinstance(theirs, Diverged) and field.name != "step":  # test_going_back
                continue
            if (type(theirs), field.name) in (
                *((Refused, name) for name in ("reason", "kind", "place", "value")),
                (FileClosed, "ticket"),
            ):
                continue
            if isinstance(b, float):
                close = math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9)
                assert close or self.slow.blown or not b < 1e6, (field.name, ours, theirs)
            else:
                assert a == b, (field.name, ours, theirs)

    def _same_state(self) -> None:
        run, slow = self.run, self.slow
        trainer, state = run.trainer, slow.state
        assert (run.step_count, run.is_finished, run.diverged) == (
            state.step,
            slow.finished,
            slow.diverged,
        )
        assert self.engine.running == slow.running
        assert trainer.regime.name == state.regime
        expected = dict(state.tensors)
        for name, moments in state.moments.items():
            expected |= {f"optimiser.{name}.{key}": value for key, value in moments.items()}
        tensors = trainer.tensors()
        assert set(tensors) == set(expected)
        if slow.blown:
            return
        for name, tensor in expected.items():
            close = CLOSE if name.startswith("optimiser.") else self._close_weights()
            assert torch.allclose(tensors[name].double(), tensor.double(), **close), name
        self._forget_rounding(tensors)
        assert trainer.counters()["train_seen"] == state.seen
        assert np.allclose(trainer.counters()["train_sums"], (state.loss_sum, state.right), **CLOSE)
        context = run.probed.probe_context()
        with torch.no_grad():
            logits = context.network(context.x)
        slowly, gates = slow.outputs(list(run.probed.probe_set.indices))
        assert torch.allclose(logits, slowly, **CLOSE)
        for ours, theirs in zip(context.gates, gates, strict=True):
            assert torch.allclose(ours.flatten(1), theirs, **CLOSE)

    def _close_weights(self) -> dict[str, float]:
        """Adam and RMSprop divide a gradient by its size + 1e-8, so that the rounding of a sum that
        should be 0, up to 1e-13, becomes a step of up to 1e-5 of the rate."""
        if self.config.training.optimiser == "sgd":
            return CLOSE
        return {**CLOSE, "atol": max(CLOSE["atol"], 1e-5 * self.slow.state.learning_rate)}

    def _forget_rounding(self, tensors: Mapping[str, Tensor]) -> None:
        """What was found equal goes on from the same bits: RMSprop and steep gates make differences
        of 1e-16 grow without end."""
        state = self.slow.state
        for name in state.tensors:
            state.tensors[name] = tensors[name].double().clone()
        for name, moments in state.moments.items():
            for key in moments:
                moments[key] = tensors[f"optimiser.{name}.{key}"].double().clone()

    # Rules. Each but the last trains a little afterwards: a turn is a step, or a part of a test.

    def _train(self, turns: int) -> None:
        if turns and not self.slow.running:
            self._obey(Resume(), lambda slow: slow.resume())
        for _ in range(turns):
            self.engine.advance()
            self.slow.turn()
            self._compare()

    @rule(steps=st.integers(1, 6), turns=TURNS, seconds=st.sampled_from([0.0, 0.3, 0.8]))
    def advance(self, steps: int, turns: int, seconds: float) -> None:
        self.now += seconds
        self._obey(Advance(steps), lambda slow: slow.resume(steps))
        self._train(2 * turns)

    @rule(
        swaps=st.lists(
            st.tuples(st.sampled_from(REGIMES), st.booleans(), TURNS), min_size=1, max_size=3
        )
    )
    def swap(self, swaps: list[tuple[str, bool, int]]) -> None:
        for regime, restart, turns in swaps:
            self._swap(regime, restart)
            self._train(turns)

    def _swap(self, regime: str, restart: bool) -> None:
        self._obey(SwapRegime(regime, restart), lambda slow: slow.swap(regime, restart))

    @rule(
        data=st.data(),
        turned=st.lists(st.integers(-2, 7), min_size=4, max_size=4),
        shifted=st.lists(st.integers(-2, 3), min_size=4, max_size=4),
        turns=TURNS,
    )
    def wire(self, data: st.DataObject, turned: list[int], shifted: list[int], turns: int) -> None:
        """Layers that are no maps refuse to be shifted."""
        layers = self.slow.layers
        rotation = data.draw(st.sampled_from([(), tuple(turned[:layers])]), "rotation")
        shifts = (
            [(), tuple(shifted[:layers])]
            if self.slow.convolves
            else [(), (), (0, 1, 0, 0)[:layers]]
        )
        shift = data.draw(st.sampled_from(shifts), "shift")
        order = tuple(data.draw(st.permutations(range(layers)), "order"))
        which = data.draw(st.sampled_from(["order", "rotation", "both"]), "which")
        if which != "rotation":
            self._obey(Rewire(order), lambda slow: slow.rewire(order))
        if which != "order":
            self._obey(Rotate(rotation, shift), lambda slow: slow.rotate(rotation, shift))
        self._train(turns)

    @rule(
        change=st.sampled_from(
            [
                ("learning_rate", 0.001),
                ("learning_rate", 0.03),
                ("beta", 0.5),
                ("beta", 8.0),
                ("value_input", "image"),
                ("value_input", "ones"),
                ("value_input", "random"),
            ]
        ),
        seconds=st.sampled_from([0.0, 0.8, 1.2]),
        turns=TURNS,
    )
    def set(self, change: tuple[str, object], seconds: float, turns: int) -> None:
        self._set(*change)
        self.now += seconds
        self._train(turns)

    def _set(self, name: str, value: object) -> None:
        kinds = {
            "learning_rate": SetLearningRate,
            "beta": SetBeta,
            "value_input": SetValueInput,
        }
        self._obey(kinds[name](value), lambda slow: getattr(slow, f"set_{name}")(value))

    @rule(
        gates=st.booleans(),
        biased=st.booleans(),
        head=st.booleans(),
        restart=st.booleans(),
        turns=TURNS,
    )
    def take(self, gates: bool, biased: bool, head: bool, restart: bool, turns: int) -> None:
        shapes = self.slow.weight_shapes("feature" if gates else "value")
        file = draw_file("taken.pt", shapes, biased, head, self.slow.state.step)
        ticket = self._open_file(file)
        if gates:
            self._obey(TakeGates(ticket, restart), lambda slow: slow.take_gates(file, restart))
        else:
            self._obey(TakeWeights(ticket), lambda slow: slow.take_weights(file))
        self._train(turns)

    def _open_file(self, file: File) -> int:
        self.file = file
        self.engine.handle_command(OpenFile(file.name))
        self.tickets += 1
        until = time.monotonic() + 60
        while not any(isinstance(event, FileListed) for event in self.events):
            assert time.monotonic() < until, self.events
            time.sleep(0.001)
        return self.tickets

    @rule(back=st.lists(st.booleans(), min_size=1, max_size=3), turns=TURNS)
    def undo_and_redo(self, back: list[bool], turns: int) -> None:
        for undoes in back:
            if undoes:
                self._obey(Undo(), lambda slow: slow.undo())
            else:
                self._obey(Redo(), lambda slow: slow.redo())
        self._train(turns)

    @rule(killed=st.booleans(), turns=TURNS)
    def reopen(self, killed: bool, turns: int) -> None:
        """Another program goes on with the run's folder, after a kill from its last checkpoint."""
        folder = self.engine.state.recording.path
        if killed:
            assert self.engine.state.recording._recorder.flush()
            self.copies += 1
            folder = Path(shutil.copytree(folder, self.place / f"copy-{self.copies}"))
        else:
            self.slow.close()
        self.engine.close()
        self.events.clear()
        self.slow.events.clear()
        self.tickets = 0
        self._open()
        self.engine.handle_command(ContinueRun(str(folder), paused=True))
        self.slow.reopened()
        self._check_continued()
        self.slow.tell_settings()
        self.slow.changes = 0
        self._compare()
        self._train(turns)

    def _check_continued(self) -> None:
        told = [
            event
            for event in self.events
            if not isinstance(event, (Working, FramesRecorded, ProbeExamples))
        ]
        kinds = [RunStarted, HistoryReplayed, RunContinued, SettingChanged]
        assert [type(event) for event in told] == kinds
        _, history, continued, _ = told
        assert (continued.step, continued.remark) == (self.slow.state.step, "")
        scores = [event for event in history.events if isinstance(event, Measured)]
        assert tuple(score.step for score in scores) == self.slow.state.scored
        self.engine.state.recording._every = math.inf

    @precondition(lambda self: self.slow.state.step > 4 and not self.slow.diverged)
    @rule(turns=TURNS)
    def blow_up(self, turns: int) -> None:
        """A learning rate with which the loss is soon no number, or every gate saturated."""
        self._set("learning_rate", 1e200)
        self._train(turns)


def run_machine(examples: int, steps: int, *more: Phase) -> None:
    run_state_machine_as_test(
        RunMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=True,
            database=None,
            phases=(Phase.generate, *more),
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.discovery
@pytest.mark.timeout(900)  # seconds of work, minutes on a machine that does much else
@pytest.mark.parametrize("examples", [8, *nightly(30)])
def test_random_changes_in_a_row_do_what_the_theory_says(examples: int) -> None:
    run_machine(examples, 12)


@pytest.mark.faults
@pytest.mark.timeout(7200)  # a quarter of an hour of work
def test_many_random_changes_in_a_row_do_what_the_theory_says() -> None:
    run_machine(600, 30, Phase.shrink)


@pytest.mark.discovery
def test_the_slow_run_knows_the_table_of_the_theory() -> None:
    assert set(TABLE) <= set(REGIMES)
