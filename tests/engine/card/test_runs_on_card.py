"""A run on a card does what it does on the CPU, and nothing in a step waits for the card."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from safetensors.numpy import load_file

from dgn_engine.model.nets import all_nets
from dgn_engine.regimes import all_regimes
from dgn_engine.storage.checkpoints import checkpoint_reader
from dgn_engine.storage.inner_path import InnerPath
from dgn_engine.storage.runs import run_checkpoints
from dgn_engine.training.run import Run
from dgn_engine.training.run_snapshot import capture_run, load_earlier_state, restore_run
from tests.engine.card.card_runs import UNTIL_CAPTURED, assert_same_on_card, small_config
from tests.plugins import each

NETS = list(all_nets())
REGIMES = [regime.name for regime in all_regimes()]
MARKS = {"kept": "", "lines": 0, "frames": 0}  # as a folder of a run gives them


@pytest.fixture
def no_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint that was just written is read without a child process."""

    def read(path: InnerPath) -> SimpleNamespace:
        return SimpleNamespace(arrays=load_file(path.full_path))

    monkeypatch.setattr(checkpoint_reader, "read_tensors", read)


def take_steps(run: Run, steps: int) -> None:
    for _ in range(steps):
        run.step()


@pytest.mark.slow  # all of them together
@pytest.mark.wide
@pytest.mark.parametrize("regime", each(REGIMES))
@pytest.mark.parametrize("net", each(NETS))
def test_a_run_on_a_card_gives_the_bits_of_one_on_the_cpu(
    net: str, regime: str, tmp_path: Path, no_child: None
) -> None:
    after = "DL" if regime == "FR-II" else "FR-II"

    def script(run: Run) -> None:
        take_steps(run, run.control.pretrain_steps + UNTIL_CAPTURED)
        first = capture_run(run)
        assert first is not None
        folder = tmp_path / run.device.type
        folder.mkdir()
        stored = run_checkpoints.load_checkpoint(
            run_checkpoints.write_step_folder(folder, first, 0, MARKS)
        )
        run.control.swap_regime(after, restart_value=False)
        take_steps(run, 1)
        load_earlier_state(run, first)
        take_steps(run, 1)
        restore_run(run, stored)
        take_steps(run, 1)
        run.save_weights(folder / "weights.safetensors")

    assert_same_on_card(small_config(regime, net), script)
