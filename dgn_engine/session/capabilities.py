"""Everything that can be chosen here, as the viewer is told of it."""

from __future__ import annotations

from pathlib import Path

from dgn_engine.data import catalogue as data_entries
from dgn_engine.experiments.report.experiment_list import experiment_entries
from dgn_engine.model.nets import net_entries
from dgn_engine.protocol.catalogue import Catalogue
from dgn_engine.regimes import regime_entries
from dgn_engine.training.devices import available_devices
from dgn_engine.training.probes import all_probes


def catalogue(data_root: Path | None) -> Catalogue:
    """`data_root`: where data sets lie; None: in the places of their own."""
    return Catalogue(
        regimes=regime_entries(),
        nets=net_entries(),
        data=data_entries(data_root),
        probes=tuple(all_probes()),
        devices=available_devices(),
        experiments=experiment_entries(),
    )
