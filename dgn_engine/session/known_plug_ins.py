"""List what can be chosen on this machine: plug-ins, data sets, devices."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from dgn_engine.config import DataConfig
from dgn_engine.data import data_sets, load_examples
from dgn_engine.experiments.report.experiment_list import experiment_entries
from dgn_engine.importing.from_config import settings_of_net
from dgn_engine.model.nets import all_nets
from dgn_engine.protocol.catalogue import Catalogue, DataEntry, NetEntry, RegimeEntry
from dgn_engine.regimes import all_regimes
from dgn_engine.training.devices import available_devices
from dgn_engine.training.probes import all_probes


def local_catalogue(data_root: str) -> Catalogue:
    """Return the catalogue; `data_root` is the folder of data sets, empty for the default."""
    return Catalogue(
        regimes=regime_entries(),
        nets=net_entries(),
        data=data_entries(Path(data_root) if data_root else None),
        probes=tuple(all_probes()),
        devices=available_devices(),
        experiments=experiment_entries(),
    )


def regime_entries() -> tuple[RegimeEntry, ...]:
    """Return every gating regime."""
    same = [field.name for field in fields(RegimeEntry) if field.name != "id"]
    return tuple(
        RegimeEntry(id=regime.name, **{name: getattr(regime, name) for name in same})
        for regime in all_regimes()
    )


def data_entries(root: Path | None = None) -> tuple[DataEntry, ...]:
    """Return every data set and whether it is available; `root` is the data folder, None for the
    default."""
    own = ("id", "available", "points")
    same = [field.name for field in fields(DataEntry) if field.name not in own]
    return tuple(
        DataEntry(
            id=name,
            available=entry.available(root),
            points=_plane_points(name) if entry.plane else (),
            **{field: getattr(entry, field) for field in same},
        )
        for name, entry in data_sets().items()
    )


def _plane_points(name: str) -> tuple[tuple[float, float, int], ...]:
    """Return a few points of a data set of the plane, with little noise, to show its shape."""
    examples = load_examples(DataConfig(name=name, options=(("n", 120), ("noise", 0.04))))
    points = zip(examples.train_x[:, :2].tolist(), examples.train_y.tolist(), strict=True)
    return tuple((x, y, int(label)) for (x, y), label in points)


def net_entries() -> tuple[NetEntry, ...]:
    """Return every network."""
    return tuple(
        NetEntry(name, net.title, settings_of_net(net)) for name, net in all_nets().items()
    )
