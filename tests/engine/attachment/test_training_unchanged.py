"""A loop that is watched ends with the weights, bit for bit, of the same loop that is not."""

from __future__ import annotations

import hashlib
import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dgn_engine as dgn
from dgn_engine.storage.runs.run_reader import RunReader
from tests.engine.attachment.loops import (
    AT_EVERY_STEP,
    HuggingFaceTrainer,
    LightningTrainer,
    examples,
    stand_in_packages,
    watch_closely,
)
from tests.engine.attachment.user_loops import LOOPS, UserLoop

STEPS = 4


def digest_of(name: str, made: UserLoop) -> str:
    """Of the weights, of the buffers and of what the generators would draw next."""
    digest = hashlib.sha256()
    for tensor in (*made.module.parameters(), *made.module.buffers()):
        digest.update(tensor.detach().numpy().tobytes())
    drawn = (torch.rand(2).tolist(), np.random.randn(3).tolist(), random.gauss(0, 1))
    digest.update(b"" if name.startswith("prefetched") else repr(drawn).encode())
    return digest.hexdigest()


def begun(name: str) -> tuple[UserLoop, dict[str, Any]]:
    """The loop, and what a watcher of it is given."""
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)
    made = LOOPS[name][0]()
    x, y = examples()
    probe = (x.to(torch.get_default_dtype()), y)
    return made, {"probe": probe, "share": 0.9, "pace": AT_EVERY_STEP}


def trained_alone(name: str) -> str:
    made, _ = begun(name)
    with made.around, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(STEPS):
            made.step()
    return digest_of(name, made)


@pytest.mark.parametrize("name", LOOPS)
def test_the_weights_are_those_of_the_loop_alone(name: str, tmp_path: Path) -> None:
    alone, trouble = trained_alone(name), LOOPS[name][1]
    made, given = begun(name)
    with made.around, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with watch_closely(made.module, tmp_path / "run", **given) as watcher:
            for _ in range(STEPS):
                loss = made.step()
                with made.reporting():
                    watcher.step(loss=loss)
    assert digest_of(name, made) == alone
    assert (trouble in watcher.trouble) if trouble else watcher.trouble == ""
    if trouble and (tmp_path / "run").exists():
        assert RunReader(tmp_path / "run").status == "failed"
    assert watcher.steps == STEPS


DRIVEN = ("batchnorm", "dropout", "without_gates", "hooks_of_the_module", "draws_of_torch")


@pytest.mark.wide
@pytest.mark.parametrize("name", [*DRIVEN, "closure_that_counts"])
@pytest.mark.parametrize("package", ["lightning", "hugging_face"])
def test_a_loop_that_a_callback_watches_is_the_loop_alone_also_where_it_goes_on(
    name: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the steps, then the other half with a trainer and a callback of their own, whose
    folder begins at the step that the trainer has reached."""
    stand_in_packages(monkeypatch)
    alone = trained_alone(name)
    made, given = begun(name)
    half = STEPS // 2
    losses: list[float] = []

    def step() -> torch.Tensor:
        losses.append(float(loss := made.step()))
        return loss

    kind: Any = LightningTrainer if package == "lightning" else HuggingFaceTrainer
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for part, taken in (("one", 0), ("two", half)):
            callback = getattr(dgn, f"{package}_callback")(out=tmp_path / part, **given)
            trainer = kind(callback)
            counting = trainer if package == "lightning" else trainer.state
            counting.global_step = taken
            trainer.fit(made.module, step, half)
    assert digest_of(name, made) == alone
    for part, taken in (("one", 0), ("two", half)) if not LOOPS[name][1] else ():
        reader = RunReader(tmp_path / part)
        assert reader.status == "finished"
        scores = [one for one in reader.measured_events if not np.isnan(one.train_loss)]
        assert [one.train_loss for one in scores] == pytest.approx(losses[taken : taken + half])
        assert (scores[-1].step, reader.step) == (taken + half,) * 2
        assert reader.measured_events[-1].test_loss == 0.5
