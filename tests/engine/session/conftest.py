"""Shared by the tests of sessions: an engine without its thread, and files to open in it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
import torch
from torch import nn

from dgn_engine.config import DataConfig, GatingConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.protocol.file_reading import FileReading
from dgn_engine.protocol.files import FileListed, OpenFile, Purpose, SaveWeights, SayReading
from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.messages import Command, Event, Failed, Refused
from dgn_engine.protocol.training import Advance, StartRun
from dgn_engine.protocol.watching import ProbeRequest
from dgn_engine.session.engine import Engine
from dgn_engine.session.live_branch import Branches
from dgn_engine.session.process_session import ProcessSession
from dgn_engine.session.session_state import SessionState
from dgn_engine.session.thread_session import ThreadSession
from dgn_engine.session.training_loop import MOMENT, TrainingLoop
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.training.recording import Recording
from dgn_engine.training.replay import recorded_run_at
from dgn_engine.training.run import Run
from tests.engine.views.begun_run import make_run_started

RELU = FileReading(activation="relu")
RESNET = FileReading(geometry="torchvision")
Kind = TypeVar("Kind", bound=Event)
PATIENT = 500.0  # seconds: a hang, not a slow machine
PROBES = tuple(ProbeRequest(name) for name in ("gates", "npk", "agreement"))


STARTED = make_run_started(layers=())


def small_config(
    regime: str = "DL", seed: int = 0, bias: bool = False, epochs: int = 0
) -> RunConfig:
    return RunConfig(
        data=DataConfig("digits", train_limit=200),
        net=NetConfig("fc", (("depth", 4), ("width", 16)), bias=bias),
        gating=GatingConfig(regime),
        training=TrainingConfig(learning_rate=1e-3, epochs=epochs),
        seed=seed,
        device="cpu",
        probe_examples=20,
    )


class Desk:
    """An engine without its thread, what it said and what it showed.

    However quick the machine is, it looks at what is due between two steps; however slow the disk,
    it waits for it. `moment`, `branches`: as `TrainingLoop` and `Engine` have them.
    """

    def __init__(
        self,
        runs: str = "",
        moment: float = MOMENT,
        branches: Callable[[SessionState], Branches] = Branches,
    ) -> None:
        self.events: list[Event] = []
        self.frames: list[Frame] = []
        self.engine = Engine(
            self.events.append,
            self.frames.append,
            runs_root=runs,
            look_every=0.0,
            loop=lambda state: TrainingLoop(state, moment, patience=60.0),
            branches=branches,
        )

    def handle(self, *commands: Command) -> None:
        for command in commands:
            self.engine.handle_command(command)

    def advance(self, times: int) -> None:
        for _ in range(times):
            self.engine.advance()

    def train(self, steps: int) -> None:
        self.handle(Advance(steps))
        while self.engine.running:
            self.engine.advance()

    def open(
        self, path: Path, purpose: Purpose = "", reading: FileReading | None = None
    ) -> FileListed:
        """The listing of a file, once it is read as is said."""
        listed = self._listed(OpenFile(str(path), purpose))
        return listed if reading is None else self.send_reading(listed.ticket, reading)

    def send_reading(self, ticket: int, reading: FileReading) -> FileListed:
        return self._listed(SayReading(ticket, reading))

    def _listed(self, command: Command) -> FileListed:
        told = len(self.events)
        self.handle(command)
        until = time.monotonic() + PATIENT
        while time.monotonic() < until:
            for event in self.events[told:]:
                if isinstance(event, FileListed):
                    return event
                assert not isinstance(event, Refused | Failed), event
            time.sleep(0.01)
        raise AssertionError("the file was not listed")

    def events_of(self, kind: type[Kind]) -> list[Kind]:
        return [event for event in self.events if isinstance(event, kind)]

    def last_event(self, kind: type[Kind]) -> Kind:
        return self.events_of(kind)[-1]

    @property
    def run(self) -> Run:
        assert self.engine.run is not None
        return self.engine.run

    @property
    def recording(self) -> Recording:
        assert self.engine.state.recording is not None
        return self.engine.state.recording

    def advance_until(self, met: Callable[[], object], seconds: float = PATIENT) -> None:
        """Turn on until this is so."""
        limit = time.monotonic() + seconds
        while not met():
            assert time.monotonic() < limit, self.events[-5:]
            self.advance(1)
            time.sleep(0.005)

    def wait_for(self, kind: type[Kind], after: int = 0) -> Kind:
        """The newest event of a kind behind so many others, once there is one."""
        self.advance_until(lambda: any(isinstance(event, kind) for event in self.events[after:]))
        return self.last_event(kind)

    @property
    def refusal(self) -> tuple[str, str]:
        """Kind and value of what was refused last, which nothing has followed."""
        refused = self.events[-1]
        assert isinstance(refused, Refused), refused
        return refused.kind, refused.value

    def copy_value_weights(self) -> list[torch.Tensor]:
        return [w.detach().clone() for w in self.run.trainer.network.value.weights]


class SessionClient:
    """A session that is started, everything it has said, and its newest frame."""

    def __init__(self, session: ThreadSession | ProcessSession) -> None:
        self.session = session
        self.events: list[Event] = []
        self.frame: Any = None
        session.start()

    def wait_until(self, condition: Callable[[], bool], seconds: float = PATIENT) -> None:
        deadline = time.monotonic() + seconds
        while True:
            self.events += self.session.drain_events()
            self.frame = self.session.take_latest_frame() or self.frame
            if condition():
                return
            assert time.monotonic() < deadline, f"never happened; heard {self.events[-5:]}"
            time.sleep(0.01)

    def events_of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def wait_for(self, kind: type[Event], count: int = 1) -> Any:
        """The count-th event of a kind; fails the test if it does not come."""
        self.wait_until(lambda: len(self.events_of(kind)) >= count)
        return self.events_of(kind)[count - 1]

    def step(self) -> int:
        return 0 if self.frame is None else int(self.frame.step)


@pytest.fixture(autouse=True)
def _read_here(no_reader_child: None) -> None:
    """Sessions read small files over and over."""


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.engine.close()


@pytest.fixture
def paused_desk(desk: Desk) -> Desk:
    desk.handle(StartRun(small_config(), paused=True))
    return desk


@pytest.fixture
def recording_desk(tmp_path: Path) -> Iterator[Desk]:
    """Its runs are recorded in `runs`."""
    made = Desk(str(tmp_path / "runs"))
    yield made
    made.engine.close()


def train_alone(config: RunConfig, steps: int) -> Run:
    """A run that nobody watches, records or changes, after so many steps."""
    run = Run(1, config, lambda _: None, lambda *_: None, live=False)
    for _ in range(steps):
        run.step()
    return run


def recompute_step(folder: Path, step: int, **how: bool) -> Run:
    """A step of a recorded run, computed from its checkpoints."""
    return recorded_run_at(RunReader(folder), step, lambda _: None, lambda *_: None, **how).run


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Weights of a ReLU network of 16 units and three gate layers, as we save them."""
    path = tmp_path_factory.mktemp("files") / "trained.safetensors"
    desk = Desk()
    desk.handle(StartRun(small_config("ReLU", seed=7), paused=True))
    desk.train(30)
    desk.handle(SaveWeights(str(path)))
    desk.engine.close()
    return path


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrusted network of other widths, with biases."""
    torch.manual_seed(1)
    layers = nn.Sequential(
        nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 10)
    )
    path = tmp_path_factory.mktemp("files") / "chain.pt"
    torch.save(layers.state_dict(), path)
    return path
