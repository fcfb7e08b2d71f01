"""What a run needs in memory is computed before it is allocated, and refused if it is not free."""

from __future__ import annotations

import gc
import math
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from dgn_engine.config import GatingConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.data import DataSizes, Examples
from dgn_engine.errors import DoesNotFitError, UserError
from dgn_engine.importing.from_file import architecture_for
from dgn_engine.model.nets import all_nets
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.training import RunEstimated, RunStarted
from dgn_engine.regimes import all_regimes, find_regime
from dgn_engine.sweep import checks
from dgn_engine.sweep.checks import check_start
from dgn_engine.sweep.unit import Training
from dgn_engine.training import memory_needed as module
from dgn_engine.training.device_data import to_device
from dgn_engine.training.headless_run import HeadlessRun
from dgn_engine.training.memory_needed import (
    MemoryNeeded,
    RunUse,
    check_memory,
    memory_needed,
)
from dgn_engine.training.run import Run
from dgn_engine.training.run_snapshot import capture_run
from dgn_engine.training.trainer import Trainer
from tests.engine.training.run_watchers import NoWatcher
from tests.plugins import each
from tests.refusals import refused_command

CPU = torch.device("cpu")
SIZES = DataSizes(70, 64, (1, 12, 12), 10)
UNRECORDED = RunUse(recorded=False)
SMALLER = {
    "cnn4": {"channels": 8},
    "davidnet": {"width": 4},
    "resnet18": {"width": 4, "stages": 3},
    "gconv": {"stride": 4},
    "vconv": {"stride": 4},
}
WITHIN = 1.4  # the factor between the estimate and what torch allocates …
ALWAYS = 1 << 16  # … but for the bytes that it takes whatever the network is


def trainer_of(config: RunConfig) -> Trainer:
    architecture = architecture_for(config.net, SIZES.shape, SIZES.classes)
    draw = np.random.default_rng(0)
    examples = Examples(
        draw.random((SIZES.train, *SIZES.shape), dtype=np.float32),
        draw.integers(0, SIZES.classes, SIZES.train),
        draw.random((SIZES.test, *SIZES.shape), dtype=np.float32),
        draw.integers(0, SIZES.classes, SIZES.test),
        tuple(map(str, range(SIZES.classes))),
        "noise",
        "",
    )
    data = to_device(examples, architecture, CPU)
    return Trainer(config, architecture, data, find_regime(config.gating.regime), CPU)


def small(net: str, regime: str, **training: object) -> RunConfig:
    return RunConfig(
        net=NetConfig(net, tuple(SMALLER.get(net, {}).items())),
        gating=GatingConfig(regime=regime),
        training=replace(TrainingConfig(), **training),  # type: ignore[arg-type]
    )


def needed_by(
    config: RunConfig, use: RunUse = UNRECORDED, sizes: DataSizes | None = None
) -> MemoryNeeded:
    sizes = sizes or SIZES
    architecture = architecture_for(config.net, sizes.shape, sizes.classes)
    return memory_needed(config, architecture, sizes, use)


def peak_bytes(work: Callable[[], object]) -> int:
    """The most that torch's allocator gave out at a time, beyond what it had before."""
    gc.disable()  # what was garbage before would count as given back
    try:
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
            kept = work()
    finally:
        gc.enable()
    found = profiled.profiler
    assert found is not None
    assert kept is not None
    changes = [
        (e.start_ns(), e.nbytes()) for e in found.kineto_results.events() if e.name() == "[memory]"
    ]
    return int(np.cumsum([size for _, size in sorted(changes)]).max())


@pytest.mark.wide
@pytest.mark.parametrize("net", each(all_nets()))
@pytest.mark.parametrize("bias", [False, True])
def test_the_bytes_of_the_weights_are_exact(net: str, bias: bool) -> None:
    config = small(net, "DL")
    config = replace(config, net=replace(config.net, bias=bias))
    trainer = trainer_of(config)
    held = [t.nbytes for name, t in trainer.network.state_dict().items() if name != "random_input"]
    assert needed_by(config).weights == sum(held)


@pytest.mark.wide
@pytest.mark.parametrize("regime", each(regime.name for regime in all_regimes()))
@pytest.mark.parametrize("net", each(all_nets()))
def test_the_estimate_is_near_what_torch_allocates(net: str, regime: str) -> None:
    config = small(net, regime)

    def work() -> Trainer:
        trainer = trainer_of(config)
        for _ in range(4):
            trainer.step()
        if trainer.regime.generalises:
            trainer.test_score()
        return trainer

    needed = needed_by(config)
    found = peak_bytes(work)  # data are numpy's, and no probes are read
    estimated = needed.total - needed.data - needed.probes
    assert (found - ALWAYS) / WITHIN < estimated < found * WITHIN


def test_a_second_network_that_is_computed_doubles_what_a_step_keeps_of_maps() -> None:
    both, one = (needed_by(small("davidnet", regime, batch=64)) for regime in ("DL", "ReLU"))
    assert both.activations == 2 * one.activations


@pytest.mark.parametrize("net", ["fc", "cnn4", "davidnet"])
def test_gates_of_many_examples_are_not_counted_beside_their_drawing(
    net: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "SIZES", replace(SIZES, train=1000))
    config = small(net, "FRG")

    def work() -> Trainer:
        trainer = trainer_of(config)
        trainer.step()
        return trainer

    needed = needed_by(config)
    found = peak_bytes(work)
    assert needed.total - needed.data - needed.probes == pytest.approx(found, rel=0.2)


@pytest.mark.parametrize(
    ("training", "moments"),
    [
        ({"optimiser": "adam"}, 2),
        ({"optimiser": "rmsprop"}, 1),
        ({"optimiser": "sgd"}, 0),
        ({"optimiser": "sgd", "momentum": 0.9}, 1),
    ],
)
def test_moments_are_those_of_the_optimiser(training: dict[str, object], moments: int) -> None:
    config = small("fc", "DL", **training)
    trainer = trainer_of(config)
    trainer.step()
    held = sum(
        t.nbytes
        for name, t in trainer.optimizer.state_tensors(trainer.network).items()
        if not name.endswith(".step")
    )
    needed = needed_by(config)
    assert needed.optimiser == moments * needed.weights
    # The output layer of the feature network, which makes no gates, never moves.
    assert held == pytest.approx(needed.optimiser, rel=0.05)


WRITE_CHECKPOINT = """
import sys
from pathlib import Path
from typing import Any
import torch
from dgn_engine.storage.runs import run_checkpoints

def peak():  # of this process alone: what getrusage says, a child inherits
    status = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) * 1024

state = {"step": 1, "lines": 0, "frames": 0, "kept": "", "finished": False}
small = run_checkpoints.Snapshot({"a": torch.ones(10)}, state)
run_checkpoints.write_step_folder(Path(sys.argv[1]), small, 0, {})
before = peak()
tensors = {name: torch.ones(int(sys.argv[2]) // 8) for name in "ab"}
large = run_checkpoints.Snapshot(tensors, state)
run_checkpoints.write_step_folder(Path(sys.argv[1]), large, 1, {})
print(peak() - before)
"""


def test_a_checkpoint_takes_what_is_estimated_while_it_is_written(tmp_path: Path) -> None:
    config = small("fc", "DL")
    run = Run(1, config, lambda _: None, lambda *_: None, live=False)
    run.step()
    snapshot = capture_run(run)
    assert snapshot is not None
    saved = sum(tensor.nbytes for tensor in snapshot.tensors.values())
    # The output layer of the feature network, which makes no gates, has no moments.
    assert saved == pytest.approx(run.memory.weights + run.memory.optimiser, rel=0.05)
    copies = run.memory.checkpoints / (run.memory.weights + run.memory.optimiser)
    size = 100 << 20
    child = [sys.executable, "-c", WRITE_CHECKPOINT, str(tmp_path), str(size)]
    grown = int(subprocess.run(child, check=True, capture_output=True, text=True).stdout)
    assert grown == pytest.approx(copies * size, rel=0.1)


def free(monkeypatch: pytest.MonkeyPatch, size: float) -> None:
    monkeypatch.setattr(module, "free_memory", lambda: size)


def refusal(config: RunConfig) -> str:
    architecture = architecture_for(config.net, SIZES.shape, SIZES.classes)
    with pytest.raises(DoesNotFitError) as caught:
        check_memory(config, architecture, SIZES, CPU, UNRECORDED)
    return str(caught.value)


def offered(sentence: str, place: str) -> int:
    found = re.search(rf"{re.escape(place)} at most ([\d,]+)", sentence)
    assert found is not None, sentence
    return int(found[1].replace(",", ""))


def test_what_a_refusal_offers_fits_and_a_little_more_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    free(monkeypatch, 1e9)

    def wide(width: int) -> RunConfig:
        return replace(small("fc", "DL"), net=NetConfig("fc", (("width", width),)))

    width = offered(refusal(wide(60_000)), "net.options.width")
    for fits in (width, 60_000):
        assert (needed_by(wide(fits)).total <= 1e9) == (fits == width)
    assert offered(refusal(wide(math.ceil(1.1 * width))), "net.options.width") == width


def test_a_card_and_main_memory_are_each_asked_for_what_lies_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = replace(small("fc", "DL"), net=NetConfig("fc", (("width", 2000),)))
    architecture = architecture_for(config.net, SIZES.shape, SIZES.classes)
    needed = memory_needed(config, architecture, SIZES, RunUse(card=True))
    on_card = needed.total - needed.checkpoints
    for host, card, where in (
        (needed.checkpoints, on_card, ""),
        (needed.checkpoints, on_card - 1, "on the card"),
        (needed.checkpoints - 1, on_card, "of main memory"),
    ):
        free(monkeypatch, host)
        monkeypatch.setattr(module, "_free_on_card", lambda _, card=card: card)
        if not where:
            check_memory(config, architecture, SIZES, torch.device("cuda"), RunUse())
            continue
        with pytest.raises(DoesNotFitError, match=where):
            check_memory(config, architecture, SIZES, torch.device("cuda"), RunUse())


def test_a_batch_is_offered_where_activations_take_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    free(monkeypatch, 2e6)
    sizes = replace(SIZES, train=50_000, test=1, shape=(2,))
    config = small("fc", "ReLU", batch=50_000)
    architecture = architecture_for(config.net, sizes.shape, sizes.classes)
    with pytest.raises(DoesNotFitError) as caught:
        check_memory(config, architecture, sizes, CPU, UNRECORDED, loaded=2e6)
    assert 1 <= offered(str(caught.value), "training.batch") < 50_000


@pytest.mark.parametrize("net", each(all_nets()))
def test_every_whole_number_of_a_network_has_a_bound(net: str) -> None:
    """Without one an architecture would be built of as many layers as somebody types."""
    whole = [one for one in all_nets()[net].options if type(one.default) is int]
    assert all(one.most is not None and one.most <= 65_536 for one in whole)


def test_memory_that_the_run_before_gives_back_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    config = small("fc", "DL")
    first = Run(1, config, lambda _: None, lambda *_: None, live=False)
    free(monkeypatch, first.memory.total - first.memory.data - 1)
    with pytest.raises(DoesNotFitError):
        Run(2, config, lambda _: None, lambda *_: None, live=False)
    Run(
        2,
        config,
        lambda _: None,
        lambda *_: None,
        live=False,
        reclaimed=first.memory.reclaimed_at_end,
    )


def test_the_command_refuses_and_leaves_no_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    free(monkeypatch, 1e9)
    out = tmp_path / "run"
    file = tmp_path / "large.toml"
    file.write_text("[net.options]\nwidth = 30000\ndepth = 60\n")
    assert refused_command("train", file, "--out", out).kind == "no-memory"
    assert not out.exists()
    assert "--width at most" in str(refused_command("train", "--width", "30000", "--out", out))


def test_a_sweep_of_more_workers_than_fit_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = replace(small("fc", "DL", epochs=1), device="cpu")
    runs = [Training(f"s{seed}", replace(config, seed=seed)) for seed in range(3)]
    check_start(runs, tmp_path, workers=8)
    one = Run(1, config, lambda _: None, lambda *_: None, live=False).memory.total
    monkeypatch.setattr(checks, "free_memory", lambda: 2.5 * one)
    check_start(runs, tmp_path, workers=2)
    assert check_start(runs[:2], tmp_path, workers=8).at_once == 0  # there are no more to begin
    assert check_start(runs, tmp_path).at_once == 2
    wide = replace(config, net=NetConfig("fc", (("width", 500),)))
    assert check_start([*runs, Training("wide", wide)], tmp_path).at_once == 1
    with pytest.raises(UserError) as refusal:
        check_start(runs, tmp_path, workers=3)
    assert "--workers 2." in str(refusal.value)


def test_a_run_says_what_it_takes_before_it_starts() -> None:
    heard: list[Event] = []

    class Watcher(NoWatcher):
        def on_event(self, event: Any) -> None:
            heard.append(event)

    config = small("fc", "DL", epochs=1)
    HeadlessRun(Watcher(), lambda: False).train(config, None)
    kinds = [type(event) for event in heard]
    assert kinds.index(RunEstimated) < kinds.index(RunStarted)
    said = next(event for event in heard if isinstance(event, RunEstimated))
    started = next(event for event in heard if isinstance(event, RunStarted))
    assert said.weights == started.parameters_value + started.parameters_feature
    assert said.seconds is not None
    assert not said.measured


def test_a_record_a_window_and_probes_need_more() -> None:
    config = replace(small("cnn4", "DL"), probe_examples=64)
    architecture = architecture_for(config.net, SIZES.shape, SIZES.classes)
    gates = sum(math.prod(shape) for shape in architecture.gated_shapes)
    kernels = 64 * len(architecture.gated_shapes)
    bare, unread, read, shown = (
        needed_by(config, use)
        for use in (UNRECORDED, RunUse(), RunUse(probed=True), RunUse(live=True))
    )
    assert (unread.probes, read.probes) == (0, 4 * 64 * (gates + kernels))
    assert shown.probes == read.probes + 2 * shown.weights
    assert bare.checkpoints == 0 < unread.checkpoints < shown.checkpoints
    assert bare.total < unread.total < shown.total
