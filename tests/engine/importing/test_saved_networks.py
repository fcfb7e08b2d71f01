"""A network that we wrote is, read again, the network of the run: bit for bit, in every setting."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch import Tensor

import dgn_engine.kernels as k
from dgn_engine.config import DataConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.errors import UserError
from dgn_engine.importing.saved_network import (
    NetworkState,
    listing_of_checkpoint,
    our_network,
    state_of,
)
from dgn_engine.model.network import GatedNetwork
from dgn_engine.regimes import Regime, all_regimes, find_regime
from dgn_engine.storage.checkpoints.contents import CheckpointContents
from dgn_engine.training.run import Run
from dgn_engine.training.run_snapshot import capture_run
from tests.plugins import each
from tests.refusals import refused

NETS: dict[str, NetConfig] = {
    "fc": NetConfig("fc", (("depth", 4), ("width", 6)), bias=True),
    "cnn4": NetConfig("cnn4", (("channels", 3),)),
    "davidnet": NetConfig("davidnet", (("width", 1),)),
}
WIRED: dict[str, tuple[tuple[str, dict[str, object]], ...]] = {
    "fc": (
        ("turned", {"wiring": (2, 0, 1), "rotation": (1, 0, 2)}),
        ("tiled", {"tiling": (2, 1, 3), "rotation": (0, 1, 2)}),
        ("parallel", {"feature_layers": "parallel", "rotation": (0, 1, 2), "wiring": (1, 2, 0)}),
    ),
    "cnn4": (
        ("turned", {"wiring": (2, 0, 1, 3), "rotation": (1, 0, 2, 0), "shift": (0, 3, 1, 2)}),
    ),
    "davidnet": (("turned", {"rotation": (0, 1, 0, 1, 0, 2, 0, 3)}),),
}


def copies(regime: Regime) -> bool:
    """Whether it copies weights between the two networks, which cannot differ in width then."""
    if regime.takes_gates:
        return find_regime(regime.pretrains_as).own_gates
    return regime.on_entry == "share-redrawn"


Make = Callable[..., Run]


def small(net: str) -> RunConfig:
    return RunConfig(
        data=DataConfig(train_limit=24, test_limit=10),
        net=NETS[net],
        training=TrainingConfig(batch=12, epochs=2, learning_rate=1e-2),
        probe_examples=6,
    )


def read(path: Path) -> CheckpointContents:
    """A file that we have just written, without a child process."""
    with safe_open(path, framework="np") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
        return CheckpointContents(path.name, arrays, {}, metadata=file.metadata())


def parts(network: GatedNetwork, x: Tensor) -> list[Tensor]:
    shared = k.SharedKernels(network, x)
    tangent = shared.tangent
    found = (tangent.value, tangent.feature, tangent.cross, tangent.total_kernel)
    return [shared.npk(), shared.overlap(), *(part for part in found if part is not None)]


def same_kernels(run: Run, listing: CheckpointContents) -> None:
    live, x = run.probed.probe_context().network, run.probed.probe_context().x.double()
    stored = our_network(listing, run.probed.image_shape, torch.float64)
    if live.given_gates is not None:
        stored = stored.with_gates(tuple(gates.double() for gates in live.given_gates))
        live = live.with_gates(stored.given_gates or ())
    ours, theirs = parts(copy.deepcopy(live).double(), x), parts(stored, x)
    assert len(ours) == len(theirs)
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.wide
@pytest.mark.parametrize("regime", each(all_regimes()))
@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("how", ["straight", "turned", "tiled", "parallel"])
def test_a_file_has_the_kernels_of_its_run(
    make_run: Make, tmp_path: Path, regime: Regime, net: str, how: str
) -> None:
    wiring = {} if regime.own_gates else dict(WIRED[net]).get(how, {})
    if how in ("tiled", "parallel") and copies(regime):
        wiring = {}  # the networks have other weights than those that these copy
    value_input = "image" if how == "turned" else "random"
    gating = {"beta": 3.0, "epsilon": 0.1, "value_input": value_input, "gate_probability": 0.7}
    run = make_run(regime.name, small(net), pretrain_epochs=1, **gating, **wiring)
    for _ in range(4):
        run.step()
    run.save_weights(tmp_path / "net.safetensors")
    same_kernels(run, read(tmp_path / "net.safetensors"))
    run.step()  # its file is written anew
    run.save_weights(tmp_path / "net.safetensors")
    same_kernels(run, read(tmp_path / "net.safetensors"))


def test_what_was_changed_while_it_trained_stands_in_the_file(
    make_run: Make, tmp_path: Path
) -> None:
    run = make_run("DL", small("cnn4"))
    run.step()
    run.control.set_beta(2.5)
    run.control.set_value_input("ones")
    run.control.rotate_gates((1, 0, 0, 2), (0, 1, 0, 0))
    run.control.rewire_gates((3, 1, 2, 0))
    run.save_weights(tmp_path / "net.safetensors")
    listing = read(tmp_path / "net.safetensors")
    state = state_of(listing)
    assert (state.beta, state.value_input) == (2.5, "ones")
    assert (state.wiring, state.rotation, state.shift) == (
        (3, 1, 2, 0),
        (2, 0, 0, 1),
        (0, 1, 0, 0),
    )
    assert (state.step, state.data, state.remarks) == (1, run.fingerprint, ())
    same_kernels(run, listing)


def test_gates_of_a_run_with_parallel_features_are_frozen_in_another_one(
    make_run: Make, tmp_path: Path
) -> None:
    """Layers are as wide as the input, so every shape fits a chain as well."""
    square = replace(small("fc"), net=NetConfig("fc", (("depth", 4), ("width", 64))))
    made = {how: make_run("DL", square, feature_layers=how) for how in ("chain", "parallel")}
    for how, run in made.items():
        run.step()
        run.save_weights(tmp_path / f"{how}.safetensors")
    for how, run in made.items():
        file = str(tmp_path / f"{how}.safetensors")
        frozen = make_run("FL", square, feature_layers=how, gates_from=file)
        x = frozen.probed.probe_context().x
        ours, theirs = (one.trainer.network.trace(x).gate_pre for one in (frozen, run))
        assert all(map(torch.equal, ours, theirs))
        other = "chain" if how == "parallel" else "parallel"
        with refused("no-fit"):
            make_run("FL", square, feature_layers=other, gates_from=file)


def test_a_checkpoint_has_the_kernels_of_its_run(make_run: Make) -> None:
    run = make_run("DL", small("fc"), tiling=(2, 1, 2), feature_layers="parallel")
    run.step()
    run.control.set_beta(2.5)
    run.control.rotate_gates((1, 0, 2))
    snapshot = capture_run(run)
    assert snapshot is not None
    state = NetworkState.of_checkpoint(snapshot.state, run.fingerprint)
    same_kernels(run, listing_of_checkpoint("run", snapshot.tensors, state))


def test_bernoulli_gates_exist_for_training_examples_only(make_run: Make, tmp_path: Path) -> None:
    run = make_run("FRG", small("fc"))
    run.save_weights(tmp_path / "net.safetensors")
    network = our_network(read(tmp_path / "net.safetensors"), (1, 8, 8), torch.float32)
    with refused("drawn-gates"):
        network(run.probed.probe_context().x)


def old(listing: CheckpointContents) -> CheckpointContents:
    """As files were before they said what could be changed while a run trained."""
    kept = ("regime", "step", "wiring", "config")
    notes = {name: listing.metadata[name] for name in kept}
    return replace(listing, metadata={"format": "dgn-viewer weights 1", **notes})


def test_an_old_file_is_read_by_its_configuration_and_says_so(
    make_run: Make, tmp_path: Path
) -> None:
    run = make_run("DL", small("fc"), beta=3.0, rotation=(1, 0, 2), value_input="ones")
    run.save_weights(tmp_path / "net.safetensors")
    listing = old(read(tmp_path / "net.safetensors"))
    assert len(state_of(listing).remarks) == 1
    same_kernels(run, listing)


def test_an_old_file_whose_turned_gates_were_wired_anew_is_refused(
    make_run: Make, tmp_path: Path
) -> None:
    run = make_run("DL", small("fc"), rotation=(1, 0, 2))
    run.control.rewire_gates((2, 0, 1))
    run.save_weights(tmp_path / "net.safetensors")
    listing = old(read(tmp_path / "net.safetensors"))
    with refused("not-recorded"):
        our_network(listing, (1, 8, 8), torch.float32)


FOREIGN: list[tuple[str, object, str]] = [
    ("value.weights.1", None, "other-network"),
    ("value.weights.1", np.zeros((5, 6)), "wrong-shape"),
    ("feature.weights.9", np.zeros((6, 6)), "other-network"),
    ("value.weights.٣", np.zeros((6, 6)), "other-network"),
    ("value.weights.01", np.zeros((6, 6)), "other-network"),
    ("value.weights.3", np.zeros(()), "wrong-shape"),
    *((name, math.nan, "not-finite") for name in ("value.weights.0", "feature.biases.1")),
    *((name, math.inf, "not-finite") for name in ("value.biases.2", "random_input")),
]


@pytest.mark.parametrize(("name", "array", "kind"), FOREIGN)
def test_a_file_that_is_not_the_network_of_its_configuration_is_refused(
    make_run: Make, tmp_path: Path, name: str, array: Any, kind: str
) -> None:
    run = make_run("DL", small("fc"))
    run.save_weights(tmp_path / "net.safetensors")
    listing = read(tmp_path / "net.safetensors")
    arrays = {n: a for n, a in listing.arrays.items() if n != name or array is not None}
    if isinstance(array, float):
        arrays[name].reshape(-1)[-1] = array
    elif array is not None:
        arrays[name] = array
    with refused(kind):
        our_network(replace(listing, arrays=arrays), (1, 8, 8), torch.float32)


def test_statistics_that_are_no_numbers_are_refused(make_run: Make, tmp_path: Path) -> None:
    run = make_run("DL", small("davidnet"))
    run.save_weights(tmp_path / "net.safetensors")
    shape = run.probed.image_shape
    for name in ("feature.normalisation.mean_0", "feature.normalisation.scales.1"):
        listing = read(tmp_path / "net.safetensors")
        our_network(listing, shape, torch.float32)
        listing.arrays[name].reshape(-1)[0] = math.nan
        with refused("not-finite", value=name):
            our_network(listing, shape, torch.float32)


NUMBERS = (
    "9" * 5000, "1" + "0" * 400, "9" * 20, "0,1," + "9" * 20, "-1", "1e400", "nan", "0", "x", "1,0",
    "1.5", "٣", "²", "1_0", "\0", "",
)  # fmt: skip


@pytest.mark.parametrize("note", ["step", "wiring", "rotation", "shift", "beta", "epsilon", "seed"])
def test_a_note_with_any_number_is_read_or_refused_and_what_is_read_computes(
    make_run: Make, tmp_path: Path, note: str
) -> None:
    run = make_run("DL", small("fc"))
    run.save_weights(tmp_path / "net.safetensors")
    listing = read(tmp_path / "net.safetensors")
    refused = 0
    for number in NUMBERS:
        changed = replace(listing, metadata={**listing.metadata, note: number})
        try:
            network, state = our_network(changed, (1, 8, 8), torch.float32), state_of(changed)
        except UserError:
            refused += 1
            continue
        assert network(torch.rand(2, 64)).shape == (2, 10)
        assert 0 <= state.step < 2**63
    assert refused or note == "step"


def test_inputs_of_another_size_are_refused(make_run: Make, tmp_path: Path) -> None:
    run = make_run("DL", small("fc"))
    run.save_weights(tmp_path / "net.safetensors")
    with refused("other-inputs"):
        our_network(read(tmp_path / "net.safetensors"), (1, 9, 9), torch.float32)
