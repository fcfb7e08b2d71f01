"""The playground: a small network on data of the plane, with the panels that show what gates do."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from dgn_engine.config import DataConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.protocol import commands as do
from dgn_engine.protocol.catalogue import Catalogue
from dgn_engine.protocol.run_state import RunState
from dgn_viewer.actions.registry import ActionSpec
from dgn_viewer.docks.panel_docks import PanelDocks

LAYOUT = "teach"
_PACE = 40.0  # steps a second, slow enough to be followed


def playground_run(data: str) -> RunConfig:
    """Three gate layers of eight units: few enough paths to see each, enough to learn every set."""
    return RunConfig(
        data=DataConfig(name=data),
        net=NetConfig(name="fc", options=(("depth", 4), ("width", 8))),
        training=TrainingConfig(learning_rate=1e-2, batch=32, epochs=0, pace=_PACE),
    )


def playground_actions(
    catalogue: Catalogue, docks: PanelDocks, send: Callable[[do.Command], None]
) -> tuple[ActionSpec, ...]:
    """One row for each data set of the plane."""

    def begin(data: str) -> None:
        docks.arrange(LAYOUT)
        send(do.StartRun(playground_run(data)))

    return tuple(
        ActionSpec(
            f"playground.{entry.id}",
            f"Playground: {entry.title}",
            partial(begin, entry.id),
            tip="Train a small network on these points of the plane, with the layout Teach: "
            "regions, paths, gates and the path kernel",
            enabled=_ready,
        )
        for entry in catalogue.data
        if entry.plane
    )


def _ready(now: RunState) -> bool:
    return now.ready
