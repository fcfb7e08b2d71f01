"""A card whose assertion fails takes the engine's process with it, and not the run."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Literal

import pytest
import torch

from dgn_engine.config import NetConfig, RunConfig, TrainingConfig
from dgn_engine.protocol.messages import EngineRestarted, Event
from dgn_engine.protocol.training import (
    Advance,
    Paused,
    RegimeSwapped,
    Resume,
    StartRun,
    SwapRegime,
)
from dgn_engine.session.process_session import ProcessSession, serve_engine

BREAKS_AT = 60
CONFIG = RunConfig(
    net=NetConfig(options=(("width", 16), ("depth", 4))),
    training=TrainingConfig(learning_rate=1e-3, epochs=0, pace=100.0),
    probe_examples=20,
)


def fail_assertion(device: str) -> None:
    """An index beyond the end: the kernel asserts, and CUDA refuses everything from then on."""
    if device != "cuda":
        raise RuntimeError("CUDA error: device-side assert triggered")
    place = torch.full((1,), 1 << 20, device="cuda")
    torch.zeros(1, device="cuda")[place].sum()
    torch.cuda.synchronize()


def serve_until_the_card_breaks(
    device: str, pipe: Connection, data_root: str, runs_root: str
) -> None:
    """As the real one; a run that was begun here meets a failed assertion at a step."""
    from dgn_engine.training.trainer import Trainer

    step = Trainer.step
    begun: list[bool] = []

    def broken(trainer: Trainer) -> None:
        begun.append(trainer.step_count == 0)
        if begun[0] and trainer.step_count >= BREAKS_AT:
            fail_assertion(device)
        step(trainer)

    Trainer.step = broken  # type: ignore[method-assign]
    serve_engine(pipe, data_root, runs_root)


@pytest.mark.nightly  # processes that import torch; `make gpu` takes it on a card
def test_an_assertion_on_the_card_costs_the_process_and_not_the_run(
    device: torch.device, tmp_path: Path
) -> None:
    kind: Literal["cpu", "cuda"] = "cuda" if device.type == "cuda" else "cpu"
    serve = partial(serve_until_the_card_breaks, kind)
    session = ProcessSession(runs_root=str(tmp_path), serve=serve)
    heard: list[Event] = []

    def wait_for(kind: type[Event], seconds: float = 90.0) -> Event:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            heard.extend(session.drain_events())
            found = [event for event in heard if isinstance(event, kind)]
            if found:
                return found[0]
            time.sleep(0.01)
        raise AssertionError(heard[-5:])

    session.start()
    try:
        session.send(StartRun(replace(CONFIG, device=kind), paused=True))
        session.send(Advance(40))
        wait_for(Paused)
        session.send(SwapRegime("FR-II"))  # before which a checkpoint is written
        wait_for(RegimeSwapped)
        session.send(Resume())
        restarted = wait_for(EngineRestarted)
        assert isinstance(restarted, EngineRestarted)
        assert restarted.how == "a CUDA fault"
        assert restarted.step >= 40
        deadline = time.monotonic() + 90.0
        while (frame := session.take_latest_frame()) is None or frame.step < restarted.step + 20:
            assert time.monotonic() < deadline
            session.drain_events()
            time.sleep(0.01)
    finally:
        assert session.close(30.0)
