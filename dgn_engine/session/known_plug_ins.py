"""What can be chosen on this machine: plug-ins, data sets that lie here, devices."""

from __future__ import annotations

from pathlib import Path

from dgn_engine.data import catalogue as data_entries
from dgn_engine.experiments.report.experiment_list import experiment_entries
from dgn_engine.model.nets import net_entries
from dgn_engine.protocol.catalogue import Catalogue
from dgn_engine.regimes import regime_entries
from dgn_engine.training.devices import available_devices
from dgn_engine.training.probes import all_probes


def catalogue_here(data_root: str) -> Catalogue:
    """`data_root`: where data sets lie; empty: where they lie by default."""
    return Catalogue(
        regimes=regime_entries(),
        nets=net_entries(),
        data=data_entries(Path(data_root) if data_root else None),
        probes=tuple(all_probes()),
        devices=available_devices(),
        experiments=experiment_entries(),
    )
