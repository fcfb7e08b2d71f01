"""What is told of a run that has just begun: four dense layers, no step taken."""

from __future__ import annotations

from dgn_engine.config import GatingConfig, RunConfig
from dgn_engine.protocol.training import LayerInfo, RunStarted
from dgn_engine.protocol.watching import ProbeSet

DENSE = tuple(LayerInfo(i, f"dense {i + 1}", "dense", (64,)) for i in range(4))


def make_run_started(
    layers: tuple[LayerInfo, ...] = DENSE, regime: str = "DL", gating: GatingConfig | None = None
) -> RunStarted:
    """A run that has just begun."""
    return RunStarted(
        run=1,
        config=RunConfig(gating=gating or GatingConfig()),
        regime=regime,
        device="cpu",
        layers=layers,
        wiring=tuple(range(len(layers))),
        parameters_value=1,
        parameters_feature=1,
        train_examples=10,
        test_examples=10,
        classes=10,
        steps_per_epoch=5,
        total_steps=50,
        probe_set=ProbeSet((), (), (), ""),
        paused=False,
    )
