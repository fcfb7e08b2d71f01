"""A loop that is watched ends with the weights, bit for bit, of the same loop that is not."""

from __future__ import annotations

import hashlib
import random
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import dgn_engine as dgn
from dgn_engine.attachment import watcher as watcher_module
from dgn_engine.attachment.watcher import Watcher
from dgn_engine.storage.runs.run_reader import RunReader
from tests.engine.attachment.loops import examples
from tests.engine.attachment.user_loops import LOOPS

STEPS = 6


@pytest.fixture(autouse=True)
def at_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOOK_EVERY", "NOTE_EVERY", "FRAME_EVERY"):
        monkeypatch.setattr(watcher_module, name, 0.0)


def trained(name: str, out: Path | None) -> tuple[str, Watcher | None]:
    """The digest of the weights, of the buffers and of what the generators would draw next."""
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)
    made = LOOPS[name][0]()
    x, y = examples()
    x = x.to(torch.get_default_dtype())
    watcher = None
    with made.around, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if out is not None:
            watcher = dgn.watch(made.module, probe=(x, y), out=out, share=0.9).start()
        for _ in range(STEPS):
            loss = made.step()
            if watcher is not None:
                with made.reporting():
                    watcher.step(loss=loss)
        if watcher is not None:
            watcher.close()
    digest = hashlib.sha256()
    for tensor in (*made.module.parameters(), *made.module.buffers()):
        digest.update(tensor.detach().numpy().tobytes())
    drawn = (torch.rand(2).tolist(), np.random.randn(3).tolist(), random.gauss(0, 1))
    digest.update(b"" if name.startswith("prefetched") else repr(drawn).encode())
    return digest.hexdigest(), watcher


@pytest.mark.parametrize("name", LOOPS)
def test_the_weights_are_those_of_the_loop_alone(name: str, tmp_path: Path) -> None:
    trouble = LOOPS[name][1]
    alone, _ = trained(name, None)
    watched, watcher = trained(name, tmp_path / "run")
    assert watcher is not None
    assert watched == alone
    assert (trouble in watcher.trouble) if trouble else watcher.trouble == ""
    if trouble and (tmp_path / "run").exists():
        assert RunReader(tmp_path / "run").status == "failed"
    assert watcher.steps == STEPS
