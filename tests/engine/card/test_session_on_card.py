"""A session whose run lies on a card: every probe is watched while it trains and is changed."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from dgn_engine.protocol.files import SaveWeights
from dgn_engine.protocol.messages import Failed, Refused
from dgn_engine.protocol.training import StartRun, SwapRegime
from dgn_engine.protocol.watching import ProbeRequest, Watch
from dgn_engine.training.probes import all_probes
from tests.engine.card.card_runs import small_config
from tests.engine.session.conftest import Desk
from tests.simulated_card import SimulatedCard

WATCH = Watch(tuple(ProbeRequest(name) for name in all_probes()))


@pytest.mark.discovery
def test_a_session_trains_reads_and_changes_a_run_on_a_card(
    card: SimulatedCard, tmp_path: Path
) -> None:
    desk = Desk(str(tmp_path))
    config = replace(small_config("DL", "fc"), device="cuda")
    try:
        desk.handle(WATCH, StartRun(config, paused=True))
        desk.train(12)
        desk.handle(SwapRegime("FR-II"))
        desk.train(12)
        desk.handle(SaveWeights(str(tmp_path / "weights.safetensors")))
        until = time.monotonic() + 150
        while not desk.frames or any(
            probe not in desk.frames[-1].readings for probe in all_probes()
        ):
            assert time.monotonic() < until
            desk.advance(1)
            time.sleep(0.01)
    finally:
        desk.engine.close()
    troubles = Failed | Refused
    assert [event for event in desk.events if isinstance(event, troubles)] == []
    assert (tmp_path / "weights.safetensors").exists()
