"""The description of a run that another program trains, as a run folder keeps it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from dgn_engine.attachment.watched_module import REGIME, WatchedModule
from dgn_engine.config import DataConfig, GatingConfig, NetConfig, RunConfig
from dgn_engine.errors import ArgumentError, UserError
from dgn_engine.protocol.training import RunStarted
from dgn_engine.protocol.watching import ProbeSet
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.training.devices import device_name
from dgn_engine.training.layer_infos import count_parameters, layer_infos

DATA = "own data"  # in the place of a data set's name
MOST = 4096  # probe examples


def probe_tensors(probe: object) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs (n, ...), labels (n,) and their places in what was given, sorted by class.

    Raises `ArgumentError` where `probe` is no pair of them.
    """
    if not isinstance(probe, (tuple, list)) or len(probe) != 2:
        raise ArgumentError(
            "probe is no pair; probe=(x, y) of examples and labels is needed.",
            kind="wrong-type",
            value=probe,
        )
    x, y = (p.detach().clone() if isinstance(p, Tensor) else torch.tensor(p) for p in probe)
    y = y.cpu()
    if y.dim() != 1 or len(x) != len(y) or x.dim() < 2:
        raise ArgumentError(
            f"probe has inputs of shape {tuple(x.shape)} and labels of shape {tuple(y.shape)}; "
            "(n, …) and (n,) are needed.",
            kind="wrong-shape",
        )
    if not 2 <= len(y) <= MOST:
        raise ArgumentError(
            f"probe has {len(y):,} examples; 2 to {MOST:,} are needed.",
            kind="wrong-length",
            value=len(y),
        )
    if y.is_floating_point() or y.is_complex() or y.dtype == torch.bool or int(y.min()) < 0:
        raise ArgumentError(
            "The labels of the probe must be whole numbers from 0 on.", kind="wrong-labels"
        )
    if x.is_complex():
        raise ArgumentError(
            "The inputs of the probe are complex numbers; real ones are needed.",
            kind="not-supported",
        )
    if x.is_floating_point() and not bool(torch.isfinite(x).all()):
        raise ArgumentError(
            "The inputs of the probe hold NaN or infinity; leave these out.", kind="not-finite"
        )
    order = torch.argsort(y.long(), stable=True)
    return x[order.to(x.device)], y.long()[order], order


def create_folder(out: str | Path, title: str, probe_examples: int) -> RunFolder:
    """A new run folder for a run of ours to look at; raises `UserError`."""
    config = RunConfig(
        data=DataConfig(name=DATA),
        net=NetConfig(name=title),
        gating=GatingConfig(regime=REGIME),
        probe_examples=max(probe_examples, 2),
    )
    try:
        return RunFolder.create(Path(out), config)
    except UserError as refusal:
        raise refusal.renamed(lambda _: ": out=….") from None


def started(
    folder: RunFolder,
    watched: WatchedModule,
    order: Tensor,
    class_names: Sequence[str],
    steps_per_epoch: int,
    by: str,
) -> RunStarted:
    """The event that opens the run; what only its owner knows (batches, optimiser) is 0."""
    network = watched.network
    names = tuple(class_names) or tuple(str(c) for c in range(watched.classes))
    labels = tuple(int(label) for label in watched.labels)
    return RunStarted(
        run=1,
        config=folder.info.config,
        regime=REGIME,
        device=device_name(watched.x.device),
        layers=layer_infos(network.architecture) if network is not None else (),
        wiring=network.wiring if network is not None else (),
        parameters_value=count_parameters(watched.copy),
        parameters_feature=0,
        train_examples=0,
        test_examples=0,
        classes=watched.classes,
        steps_per_epoch=steps_per_epoch,
        total_steps=0,
        probe_set=ProbeSet(
            tuple(int(place) for place in order), labels, names, _digest(watched.x, watched.labels)
        ),
        paused=False,
        watched=by,
    )


def _digest(x: Tensor, labels: Tensor) -> str:
    digest = hashlib.sha256()
    for tensor in (x, labels):
        digest.update(np.ascontiguousarray(tensor.detach().cpu().numpy()).tobytes())
    return digest.hexdigest()
