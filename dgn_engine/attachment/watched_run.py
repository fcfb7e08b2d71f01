"""The run folder and the opening event of a run that another program trains."""

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

DATA = "own data"  # instead of a data set's name
MOST = 4096  # probe examples


def probe_tensors(probe: object) -> tuple[Tensor, Tensor, Tensor]:
    """Check a probe set and sort it by class.

    Args:
        probe: A pair of examples (n, …) and integer labels (n,), 2 ≤ n ≤ `MOST`.

    Returns:
        The examples (n, …), their labels (n,) as int64 on the CPU, and their positions (n,) in
            `probe`.

    Raises:
        ArgumentError: `probe` is not such a pair.
    """
    if not isinstance(probe, (tuple, list)) or len(probe) != 2:
        raise ArgumentError(
            "probe must be a pair of examples and labels; pass probe=(x, y).",
            kind="wrong-type",
            value=probe,
        )
    x, y = (p.detach().clone() if isinstance(p, Tensor) else torch.tensor(p) for p in probe)
    y = y.cpu()
    if y.dim() != 1 or len(x) != len(y) or x.dim() < 2:
        raise ArgumentError(
            f"probe has inputs of shape {tuple(x.shape)} and labels of shape {tuple(y.shape)}; "
            "pass shapes (n, …) and (n,).",
            kind="wrong-shape",
        )
    if not 2 <= len(y) <= MOST:
        raise ArgumentError(
            f"probe has {len(y):,} examples; pass 2 to {MOST:,}.",
            kind="wrong-length",
            value=len(y),
        )
    if y.is_floating_point() or y.is_complex() or y.dtype == torch.bool or int(y.min()) < 0:
        raise ArgumentError(
            "The labels of the probe must be integers, 0 or more.", kind="wrong-labels"
        )
    if x.is_complex():
        raise ArgumentError(
            "The inputs of the probe are complex; pass real numbers.",
            kind="not-supported",
        )
    if x.is_floating_point() and not bool(torch.isfinite(x).all()):
        raise ArgumentError(
            "The inputs of the probe contain NaN or infinity; remove them.", kind="not-finite"
        )
    order = torch.argsort(y.long(), stable=True)
    return x[order.to(x.device)], y.long()[order], order


def create_folder(out: str | Path, title: str, probe_examples: int) -> RunFolder:
    """Create the run folder of a watched run.

    Args:
        out: A path that does not exist yet.
        title: The name of the module's class.
        probe_examples: The number of probe examples.

    Returns:
        The folder, locked for writing.

    Raises:
        UserError: The folder cannot be created.
    """
    config = RunConfig(
        data=DataConfig(name=DATA),
        net=NetConfig(name=title),
        gating=GatingConfig(regime=REGIME),
        probe_examples=max(probe_examples, 2),
    )
    try:
        return RunFolder.create(Path(out), config)
    except UserError as refusal:
        raise refusal.rename_places(lambda _: ": out=….") from None


def run_started_event(
    folder: RunFolder,
    watched: WatchedModule,
    order: Tensor,
    class_names: Sequence[str],
    steps_per_epoch: int,
    by: str,
) -> RunStarted:
    """Return the event that opens the run; what only its owner knows (batches, optimiser) is 0.

    Args:
        folder: The run folder.
        watched: The watched module.
        order: (n,) The positions of the sorted probe examples in what the user passed.
        class_names: The names of the classes; empty: their numbers.
        steps_per_epoch: Steps in an epoch; 0 if unknown.
        by: The module and the script that trains it: 'ResNet of train.py'.

    Returns:
        The `RunStarted` event, with the probe set and the layers of the gated network.
    """
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
            tuple(int(position) for position in order),
            labels,
            names,
            _hash_probe_set(watched.x, watched.labels),
        ),
        paused=False,
        watched=by,
    )


def _hash_probe_set(x: Tensor, labels: Tensor) -> str:
    digest = hashlib.sha256()
    for tensor in (x, labels):
        digest.update(np.ascontiguousarray(tensor.detach().cpu().numpy()).tobytes())
    return digest.hexdigest()
