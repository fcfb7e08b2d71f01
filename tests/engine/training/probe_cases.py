"""Runs of small networks of three kinds, for the probes of one step."""

from __future__ import annotations

from typing import Any

from dgn_engine.config import DataConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.training.probes import ProbeContext
from dgn_engine.training.run import Run

NETS = {
    "fc": NetConfig("fc", (("depth", 3), ("width", 4))),
    "cnn4": NetConfig("cnn4", (("channels", 2),)),
    "resnet_fc": NetConfig("resnet_fc", (("width", 6),)),
}


def probed_config(net: str, examples: int = 10, train: int = 60, **training: Any) -> RunConfig:
    return RunConfig(
        data=DataConfig(train_limit=train),
        net=NETS[net],
        training=TrainingConfig(**{"learning_rate": 1e-3, **training}),
        probe_examples=examples,
    )


def in_float64(run: Run) -> ProbeContext:
    found = run.probed.probe_context()
    run.trainer.network.double()
    return ProbeContext(
        found.network, found.x.double(), found.labels, found.regime, training=found.training
    )
