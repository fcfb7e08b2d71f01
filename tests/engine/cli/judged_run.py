"""A random run, what `dgn kernels` writes of it, and whether that is true.

Held against the network and the probes of the live run, and against `SlowKernels`.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

import dgn_engine.kernels as k
from dgn_engine.cli import main
from dgn_engine.config import RunConfig
from dgn_engine.protocol.frames import Array
from dgn_engine.protocol.messages import Event
from dgn_engine.regimes import find_regime
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.training.probes import ProbeContext, all_probes
from dgn_engine.training.recording import begin_recording
from dgn_engine.training.run import Run
from tests.engine.any_run import Arrangement, SlowKernels, any_config, changed
from tests.engine.cli.typed import read_arrays


def judge(place: Path, regime: str, net: str, seed: int) -> None:
    """Assert that the file of kernels is of this run; `place`: an empty folder."""
    run, arranged = recorded(regime, net, seed, place / "run")
    found, settings = kernels_of(place / "run", place / "k.npz")
    context = in_double(run)
    held_against_the_network(found, context)
    held_against_the_probes(found, settings, context)
    slow = SlowKernels(
        run.config,
        arranged,
        run.trainer.network.state_dict(),
        len(run.trainer.data.train_y),
        run.architecture.classes,
    )
    rows = run.probed.probe_set.indices
    tied = slow.tied(context.x, rows).numpy()
    for name, kernel in slow.tangent(context.x, rows).items():
        equal_but_for_a_tie(found[name], kernel.numpy(), tied, name)
    if any(getattr(node, "normal", False) for node in run.architecture.nodes):
        folded, said = kernels_of(place / "run", place / "f.npz", "--folded")
        for name, kernel in slow.folded().tangent(context.x, rows).items():
            equal_but_for_a_tie(folded[name], kernel.numpy(), tied, name)
        assert said["tangent_kernel"] != settings["tangent_kernel"]
        assert not np.allclose(folded["ntk"], found["ntk"])
    assert settings["step"] == run.step_count
    assert settings["rows"] == list(run.probed.probe_set.indices)
    every_arrangement_is_said(settings, run.config, arranged)


def equal_but_for_a_tie(found: Array, kernel: Array, tied: Array, name: str) -> None:
    """`tied`: which examples have a tie in a max pooling; of one such example K has no one value,
    where the two largest are not equal bit for bit in both computations."""
    differs = ~np.isclose(found, kernel, rtol=1e-9, atol=1e-10)
    others = ~(tied & differs.diagonal())
    assert others.sum() >= len(tied) - 1, name
    assert not differs[np.ix_(others, others)].any(), name


def recorded(regime: str, net: str, seed: int, folder: Path) -> tuple[Run, Arrangement]:
    """A run of a few steps, changed on its way, whose last checkpoint lies in the folder."""
    config = any_config(regime, net, seed)
    heard: list[Event] = []
    run = Run(1, config, heard.append, lambda *_: None, live=False)
    recording = begin_recording(RunFolder.create(folder, config), run, heard.append)
    while run.trainer.regime.name != regime or not run.step_count:
        run.step()
    arranged = changed(run, seed)
    if not run.is_finished:
        run.step()
    for event in heard:
        recording.on_event(event)
    assert recording.close()
    return run, arranged


def kernels_of(folder: Path, out: Path, *options: str) -> tuple[dict[str, Array], dict[str, Any]]:
    arguments = ["--examples", "probe", "--out", str(out), *options]
    assert main(["kernels", str(folder), *arguments]) == 0
    found = read_arrays(out)
    return found, json.loads(str(found.pop("settings")))


def in_double(run: Run) -> ProbeContext:
    """The probe set under the network of the run, in float64."""
    context = run.probed.probe_context()
    network = copy.deepcopy(context.network).double()
    if network.given_gates is not None:
        network = network.with_gates(tuple(gates.double() for gates in network.given_gates))
    return ProbeContext(
        network, context.x.double(), context.labels, context.regime, classes=context.classes
    )


def held_against_the_network(found: dict[str, Array], context: ProbeContext) -> None:
    """Bit for bit."""
    shared = context.kernels
    expected = {
        "gram": shared.gram,
        "overlap": shared.overlap(),
        "sensitive": shared.sensitive_overlap(),
    }
    expected |= {"npk": shared.npk(), "ntk": shared.tangent.total_kernel}
    for part in ("value", "feature", "cross"):
        kernel = getattr(shared.tangent, part)
        assert (kernel is None) == (f"ntk_{part}" not in found)
        expected |= {} if kernel is None else {f"ntk_{part}": kernel}
    for layer, gates in enumerate(shared.gates):
        expected[f"tau_{layer + 1}"] = k.layer_overlap(gates)
    for name, kernel in expected.items():
        assert np.array_equal(found[name], kernel.numpy()), name


def held_against_the_probes(
    found: dict[str, Array], settings: dict[str, Any], context: ProbeContext
) -> None:
    """What the panels of the window show."""
    read = {name: all_probes()[name].read(context, {}, None) for name in ("ntk", "npk", "overlap")}
    for part in ("value", "feature", "cross"):
        assert (part in read["ntk"].arrays) == (f"ntk_{part}" in found)
        if part in read["ntk"].arrays:
            assert np.array_equal(read["ntk"].arrays[part], found[f"ntk_{part}"])
    assert read["ntk"].facts["trains"] == settings["tangent_kernel"]
    close = {"rtol": 1e-9, "atol": 1e-12}
    for name, word in (("active", "overlap"), ("sensitive", "sensitive")):
        cosines = k.unit_diagonal(torch.from_numpy(found[word])).numpy()
        np.testing.assert_allclose(read["overlap"].arrays[name], cosines, **close)
    if not found["npk"].any():  # a network may be dead
        assert read["npk"].absent
        return
    npk = found["npk"] / found["npk"].trace()
    np.testing.assert_allclose(read["npk"].arrays["npk"], npk, **close)
    np.testing.assert_allclose(read["npk"].arrays["eigenvalues"], found["eigenvalues"], **close)
    if "nu" in found:
        assert read["npk"].scalars["rank"] == found["nu_rank"]
        np.testing.assert_allclose(read["npk"].scalars["nu"], found["nu"], rtol=1e-4, atol=1e-12)


def every_arrangement_is_said(
    settings: dict[str, Any], config: RunConfig, arranged: Arrangement
) -> None:
    """In the settings of the file, null only where the run has no such thing."""
    regime = find_regime(arranged.regime)
    wired = not regime.own_gates
    kind = "own" if regime.own_gates else "drawn" if regime.drawn_gates else "feature network"
    tiled = wired or bool(config.gating.tiling)
    said = {
        "regime": arranged.regime,
        "own_gates": regime.own_gates,
        "gates": kind,
        "gate_probability": arranged.gate_probability if regime.drawn_gates else None,
        "trains": list(regime.trains),
        "beta": arranged.beta if regime.soft else None,
        "eps": arranged.epsilon if regime.soft else None,
        "permute": list(arranged.permute) if wired else None,
        "rotation": list(arranged.rotation) if wired else None,
        "shift": list(arranged.shift) if wired else None,
        "tiling": list(arranged.tiling) if tiled else None,
        "value_input": arranged.value_input if wired else "image",
        "net": config.net.name,
        "option": [f"{name}={value}" for name, value in config.net.options],
        "bias": config.net.bias,
        "feature_bias": config.net.feature_bias,
        "seed": config.seed,
        "data": config.data.name,
        "normalise": config.data.normalise,
        "labels": "of the run",
    }
    if wired and not regime.drawn_gates:
        said["feature_layers"] = config.gating.feature_layers
        activation = "linear" if regime.linear_features else "relu"
        parallel = config.gating.feature_layers == "parallel"
        said["feature_activation"] = None if parallel else activation
    assert {name: settings[name] for name in said} == said
    assert RunConfig.from_dict(settings["config"]) == config
