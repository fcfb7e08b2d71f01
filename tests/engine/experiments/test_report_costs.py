"""What a reproduction is estimated to cost, and how far it says that it is."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from dgn_engine.config import DataConfig, GatingConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.experiments import Experiment, Findings, Plan, Request, all_experiments
from dgn_engine.experiments.report import document
from dgn_engine.experiments.report import reproduction_progress as progress
from dgn_engine.experiments.report.cost import (
    cost_in_words,
    cost_of,
)
from dgn_engine.experiments.report.data_sizes import expected_sizes
from dgn_engine.experiments.report.reproduction_progress import (
    FailedUnit,
    ProgressTally,
    RunningUnit,
    work_of,
)
from dgn_engine.experiments.report.unit_costs import CALCULATIONS, RUN, START, Cost
from dgn_engine.experiments.report.write_report import ReproductionTask
from dgn_engine.importing.from_config import build_architecture
from dgn_engine.sweep.schedule import UnitProgress
from dgn_engine.sweep.unit import Calculation, Training, UnitFile
from dgn_engine.training import step_cost
from dgn_engine.training.step_cost import count_operations, seconds_a_step, time_steps
from dgn_engine.training.trainer import Trainer
from tests.engine.experiments.documents import result
from tests.engine.experiments.made_up import approximately
from tests.plugins import each
from tests.refusals import refused

NET = NetConfig("fc", (("width", 16), ("depth", 3)))
WEIGHTS = 64 * 16 + 16 * 16 + 16 * 10
CONFIG = RunConfig(
    data=DataConfig(train_limit=100, test_limit=50),
    net=NET,
    gating=GatingConfig("ReLU"),
    training=TrainingConfig(epochs=2, batch=32),
    device="cpu",
)


def of(regime: str, unit_id: str = "", config: RunConfig = CONFIG, **gating: Any) -> Training:
    gates = replace(config.gating, regime=regime, **gating)
    return Training(unit_id or regime, replace(config, gating=gates))


def task(*units: Any, **request: Any) -> ReproductionTask:
    made = Experiment("T", "P", "A", lambda _: Plan(units), lambda *_: Findings(), 0.0, 0.0)
    return ReproductionTask("tiny", made, Request(**request), Path("/there"))


@pytest.mark.parametrize(
    ("regime", "passes", "networks"),
    [
        ("ReLU", 3, 1),  # forward, and backward twice as dear
        ("soft-ReLU", 3, 1),
        ("FRG", 3, 1),  # its gates are coins, thrown once
        ("DLN", 3, 1),
        ("FR-II", 4, 2),  # and the feature network forward
        ("DL", 6, 2),  # which is trained as well
    ],
)
def test_seconds_and_bytes_of_one_run(regime: str, passes: int, networks: int) -> None:
    """A fixed time a step and an epoch, a time a layer and pass, and 2 operations a weight."""
    made = cost_of(task(of(regime)))
    steps = 2 * 4  # four batches of at most 32 an epoch, each taken as full
    work = 2 * WEIGHTS * (passes * steps * 32 + networks * 2 * 50)
    by_hand = regime != "FRG"  # its gates belong to examples: autograd
    layers = 3 * (step_cost.LAYER if by_hand else step_cost.NODE) * (steps * passes + 2 * networks)
    tested = 2 * 50 * networks * (16 + 16 + 10) * step_cost.TESTED
    fixed = RUN + steps * step_cost.STEP + 2 * step_cost.EPOCH
    assert made.seconds == approximately(fixed + layers + work / step_cost.DENSE + tested)
    kept = 1 + 2 * (1 + 2)  # the weights; two checkpoints with both moments of Adam
    assert made.storage == approximately(4 * WEIGHTS * networks * kept + 3e4)
    assert (made.runs, made.calculations, made.packed) == (1, 0, approximately(made.seconds))


@pytest.mark.parametrize(("optimiser", "moments"), [("adam", 2), ("rmsprop", 1), ("sgd", 0)])
def test_moments_and_kept_weights_take_their_room(optimiser: Any, moments: int) -> None:
    settings = replace(CONFIG.training, optimiser=optimiser, keep_epochs=(0, 1, 2), keep_best=True)
    made = cost_of(task(of("ReLU", config=replace(CONFIG, training=settings))))
    assert made.storage == approximately(4 * WEIGHTS * (8 + 2 * (1 + moments)) + 3e4)


@pytest.mark.parametrize(
    ("regime", "passes", "networks"), [("ReLU", 3, 1), ("FR-II", 3, 2), ("DL", 6, 2)]
)
def test_a_stack_shares_its_layers_and_computes_frozen_gates_once(
    regime: str, passes: int, networks: int
) -> None:
    eight = [
        replace(of(regime, f"run-s{s}"), config=replace(of(regime).config, seed=s))
        for s in range(8)
    ]
    made = cost_of(task(*eight, Calculation("c", "dgn_engine.x:y")))
    work = 2 * WEIGHTS * (passes * 8 * 32 + networks * 100)
    each = 8 * passes * 3 * step_cost.PACKED_LAYER / 8 + 2 * step_cost.EPOCH / 8
    assert made.packed == approximately(8 * (RUN + each + work / step_cost.PACKED))
    assert made.seconds == approximately(8 * cost_of(task(eight[0])).seconds)
    assert (made.runs, made.calculations, made.unknown, made.jobs) == (8, 1, 1, 2)


def test_maps_are_counted_at_every_position_and_at_their_own_rate() -> None:
    """cnn4 on 8 × 8: a weight of a convolution is used 64 times."""
    net = NetConfig("cnn4", (("channels", 3),))
    once = 2 * (64 * 9 * (1 * 3 + 3 * 3 * 3) + 3 * 10)
    architecture = build_architecture(net, (1, 8, 8), 10)
    assert count_operations(architecture) == once
    made = cost_of(task(of("ReLU", config=replace(CONFIG, net=net))))
    examples, passes = 8 * 3 * 32 + 2 * 50, 8 * 3 + 2
    nodes = passes * len(architecture.nodes) * step_cost.MAP_NODE
    maps = 4 * 3 * 64  # four layers of three maps
    numbers = maps * (8 * 3 * 32 * step_cost.MAP + 2 * 50 * step_cost.TESTED_MAP)
    fixed = RUN + 8 * step_cost.STEP + 2 * step_cost.EPOCH
    assert made.seconds == approximately(fixed + nodes + numbers + once * examples / step_cost.CONV)


def test_a_step_of_parallel_features_multiplies_every_layer_with_the_input() -> None:
    net = NetConfig("fc", (("depth", 4), ("width", 8)))
    network = build_architecture(net, (1, 8, 8), 10)
    chain, parallel = (
        replace(CONFIG, net=net, gating=GatingConfig("DL", feature_layers=how))  # type: ignore[arg-type]
        for how in ("chain", "parallel")
    )
    batch = CONFIG.training.batch
    more = 3 * 2 * batch * 2 * 8 * (64 - 8)  # three passes of two layers of 8 × 64, not 8 × 8
    apart = seconds_a_step(parallel, network, 10**6) - seconds_a_step(chain, network, 10**6)
    assert apart == pytest.approx(more / step_cost.DENSE)


def test_a_batch_has_no_more_examples_than_there_are() -> None:
    large = replace(CONFIG, training=replace(CONFIG.training, batch=50_000))
    network = build_architecture(NET, (1, 8, 8), 10)
    whole = replace(CONFIG, training=replace(CONFIG.training, batch=100))
    assert seconds_a_step(large, network, 100) == seconds_a_step(whole, network, 100)


def test_steps_are_timed_with_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several count as work while they wait for each other: a minute was told as four hours."""
    used = []
    step = Trainer.step

    def noted(trainer: Trainer) -> None:
        used.append(torch.get_num_threads())
        step(trainer)

    monkeypatch.setattr(step_cost, "_TIMED", 0.02)
    monkeypatch.setattr(Trainer, "step", noted)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        time_steps(CONFIG, (1, 8, 8), build_architecture(NET, (1, 8, 8), 10), 100)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert set(used) == {1}


@pytest.mark.wide
@pytest.mark.parametrize("regime", ["ReLU", "FR-II", "DL"])
@pytest.mark.parametrize("name", ["fc", "cnn4", "resnet_fc"])
def test_steps_of_every_kind_of_network_are_timed(
    name: str, regime: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_cost, "_TIMED", 0.02)
    net = NetConfig(name, (("width", 8),) if name != "cnn4" else (("channels", 2),))
    config = of(regime, config=replace(CONFIG, net=net)).config
    for classes in (10, 1):
        shape = (1, 8, 8)
        assert time_steps(config, shape, build_architecture(net, shape, classes), 100) > 0


def test_a_cost_by_timed_steps_is_the_estimate_times_how_slow_this_machine_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The kind that takes longest counts most; the others are taken as so much slower too."""
    wide = replace(CONFIG, net=NetConfig("fc", (("width", 64), ("depth", 3))))
    work = task(of("ReLU"), of("ReLU", "w", wide))
    single = [cost_of(task(of("ReLU"))).seconds, cost_of(task(of("ReLU", "w", wide))).seconds]
    slower = {16: 2.0, 64: 5.0}

    def timed(config: RunConfig, _shape: object, architecture: Any, examples: int) -> float:
        width = dict(config.net.options)["width"]
        return slower[int(width)] * seconds_a_step(config, architecture, examples)

    monkeypatch.setattr("dgn_engine.experiments.report.unit_costs.time_steps", timed)
    estimate, made = cost_of(work), cost_of(work, timed=True)
    pace = (2.0 * single[0] + 5.0 * single[1]) / sum(single)
    assert made.seconds == approximately(pace * estimate.seconds)
    assert (made.timed, estimate.timed) == (True, False)
    assert made.storage == estimate.storage
    monkeypatch.setattr("dgn_engine.experiments.report.unit_costs._LONGEST", 0.0)
    assert cost_of(work, timed=True) == estimate, "nothing was short enough to be timed"


def test_a_pair_of_classes_has_one_logit() -> None:
    config = replace(CONFIG, data=replace(CONFIG.data, binary=(4, 7)))
    made = cost_of(task(of("ReLU", config=config)))
    assert made.storage == approximately(4 * (64 * 16 + 16 * 16 + 16) * 7 + 3e4)


def test_gates_that_are_learnt_first_are_epochs_too() -> None:
    assert work_of(of("ReLU")) == 2
    assert work_of(of("FL")) == 4
    assert work_of(of("FL", pretrain_epochs=5)) == 7
    assert work_of(of("FL", gates_from="x.pt")) == 2
    assert work_of(replace(of("FL"), gates_from=UnitFile("a", "b"))) == 2
    assert work_of(Calculation("c", "dgn_engine.x:y")) == 1
    endless = replace(CONFIG, training=replace(CONFIG.training, epochs=0))
    assert work_of(of("ReLU", config=endless)) == 1


def test_a_cost_is_said_in_a_sentence() -> None:
    words = cost_in_words(task(of("ReLU")))
    assert words.startswith("tiny, quick: 1 run; about ")
    assert "70.3 kB of storage (estimated); epochs: 2 (chosen for --quick)" in words
    long = replace(CONFIG, training=replace(CONFIG.training, epochs=500))
    eight = [of("ReLU", f"s{s}", replace(long, seed=s)) for s in range(8)]
    full = task(*eight, Calculation("c", "dgn_engine.x:y"), scale="full")
    assert cost_in_words(full).startswith("tiny, full: 8 runs, 1 calculation; about ")
    assert " packed" in cost_in_words(full)
    assert "with 2 workers" in cost_in_words(full, workers=2)
    assert "1 calculation of unknown time" in cost_in_words(full)
    few = cost_in_words(task(*eight[:3]))  # too few to be stacked on a CPU
    assert "packed" not in few
    unknown = task(Calculation("c", "dgn_engine.x:y"))
    assert cost_in_words(unknown) == "tiny, quick: 1 calculation; time unknown. Folder: /there."


def test_the_seconds_of_a_calculation_follow_its_function_and_the_scale() -> None:
    name, (quick, full) = next(iter(CALCULATIONS.items()))
    calls = [Calculation(f"c{i}", f"dgn_engine.experiments.{name}") for i in range(3)]
    assert cost_of(task(*calls)).seconds == approximately(3 * quick)
    made = cost_of(task(*calls, scale="full"))
    assert made.seconds == made.packed == approximately(3 * full)
    assert (made.calculations, made.unknown, made.runs) == (3, 0, 0)


def test_workers_share_the_units_but_a_stack_is_one_and_the_start_is_not_shared() -> None:
    cost = Cost(8, 0, seconds=80.0, packed=20.0, storage=0.0, jobs=2)
    assert cost.seconds_with(1) == START + 20.0
    assert cost.seconds_with(2) == cost.seconds_with(16) == START + 10.0
    assert cost.seconds_with(4, packed=False) == START + 20.0
    assert cost.seconds_with(100, packed=False) == START + 10.0


def test_more_workers_than_cores_are_no_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dgn_engine.experiments.report.cost.usable_cores", lambda: 2)
    long = replace(CONFIG, training=replace(CONFIG.training, epochs=500))
    units = [of("DL", f"s{seed}", replace(long, seed=seed)) for seed in range(16)]
    two, many = (cost_in_words(task(*units), workers=count) for count in (2, 16))
    assert many.replace("16 workers", "2 workers") == two


def test_another_device_has_no_time_and_nothing_is_timed_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> float:
        raise AssertionError("timed on a CPU, for runs on a card")

    monkeypatch.setattr("dgn_engine.experiments.report.unit_costs.time_steps", refuse)
    monkeypatch.setattr(
        "dgn_engine.experiments.report.unit_costs.choose_device", lambda _: torch.device("cuda")
    )
    cost = cost_of(task(of("ReLU")), timed=True)
    assert (cost.device, cost.timed) == ("cuda", False)
    words = cost_in_words(task(of("ReLU")), timed=True, workers=2)
    assert "cuda" in words
    assert "workers" not in words


@pytest.mark.parametrize("name", each(all_experiments()))
def test_the_listed_costs_are_those_of_the_computed_estimate(name: str) -> None:
    """Within a factor of 1.5, on two cores, with data sets of their published sizes."""
    experiment = all_experiments()[name]
    listed = {"quick": 60 * experiment.quick_minutes, "full": 3600 * experiment.full_hours}
    for scale, seconds in listed.items():
        request = Request(scale)  # type: ignore[arg-type]  # both are scales
        cost = cost_of(ReproductionTask(name, experiment, request, Path("/there")), expected_sizes)
        assert cost.unknown == 0, "a calculation has no line in CALCULATIONS"
        if seconds:
            assert 1 / 1.5 < seconds / cost.seconds_with(2) < 1.5, (scale, cost.seconds_with(2))


# Progress.


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def tally(clock: Clock) -> ProgressTally:
    """Work of 2, 4 and 1."""
    units = (of("ReLU", "a"), of("FL", "b"), Calculation("c", "dgn_engine.x:y"))
    return ProgressTally("tiny", units, clock)


def test_nothing_has_happened_yet() -> None:
    now = tally(Clock()).progress()
    assert (now.name, now.state, now.total, now.done, now.failed) == ("tiny", "running", 3, 0, 0)
    assert (now.fraction, now.elapsed, now.left, now.best) == (0.0, 0.0, None, None)
    assert (now.running, now.failures) == ((), ())


def test_what_was_done_before_does_not_count_as_fast() -> None:
    """Nor does the time until the first step: processes start and data are read."""
    clock = Clock()
    made = tally(clock)
    made.add(UnitProgress("a", "skipped", 1.0, 0.5))
    made.add(UnitProgress("b", "running", 0.0))
    clock.now = 103.0
    made.add(UnitProgress("b", "running", 0.25))  # begun before: a quarter was there
    assert made.progress().left is None
    clock.now = 113.0
    made.add(UnitProgress("b", "running", 0.75, 0.875))
    now = made.progress()
    assert (now.done, now.elapsed) == (1, 13.0)
    assert now.fraction == approximately((2 + 3) / 7)
    assert now.left == approximately(2 * 10 / 2), "two epochs in ten seconds; two are left"
    assert now.best == RunningUnit("b", 0.75, 0.875)
    assert now.running == (RunningUnit("b", 0.75, 0.875),)
    made.add(UnitProgress("b", "done", 1.0, 0.8))
    made.add(UnitProgress("c", "failed", trouble="why"))
    over = made.progress("failed")
    assert (over.state, over.done, over.failed, over.fraction) == ("failed", 2, 1, 1.0)
    assert (over.best, over.left) == (RunningUnit("b", 0.75, 0.875), approximately(0.0))
    assert over.failures == (FailedUnit("c", "why"),)
    assert made.last["c"].state == "failed"


def test_the_time_left_is_told_once_two_thousandths_are_done() -> None:
    clock = Clock()
    made = tally(clock)
    made.add(UnitProgress("b", "running", 0.1))
    clock.now = 101.0
    made.add(UnitProgress("b", "running", 0.103))
    assert made.progress().left is None
    made.add(UnitProgress("b", "running", 0.104))
    assert made.progress().left == approximately((7 - 4 * 0.104) / (4 * 0.004))


def test_units_that_run_side_by_side_all_count() -> None:
    clock = Clock()
    made = tally(clock)
    made.add(UnitProgress("a", "running", 0.001))
    clock.now = 110.0
    made.add(UnitProgress("a", "running", 0.501))
    made.add(UnitProgress("b", "running", 0.5))
    left = 7 - 2 * 0.501 - 4 * 0.5
    assert made.progress().left == approximately(left * 10 / (2 * 0.5 + 4 * 0.5))
    made.add(UnitProgress("c", "failed", trouble="no"))
    assert made.progress().left == approximately((left - 1) * 10 / 3), "a failure took no steps"


def test_what_is_to_come_is_expected_to_end_as_early_as_what_is_over() -> None:
    clock = Clock()
    units = [of("ReLU", name) for name in ("a", "b", "c")]
    made = ProgressTally("tiny", units, clock)
    made.add(UnitProgress("a", "running", 0.1))
    clock.now = 110.0
    made.add(UnitProgress("a", "done", 1.0, trained=0.6))
    made.add(UnitProgress("b", "running", 0.5))
    now = made.progress()
    assert now.fraction == approximately((1 + 0.5) / 3)
    assert now.left == approximately((0.1 + 0.6) * 10 / (0.5 + 0.5))
    made.add(UnitProgress("b", "running", 0.75))  # goes on for longer than the first
    assert made.progress().left == approximately(0.6 * 10 / (0.5 + 0.75))


def test_what_diverged_is_no_measure_of_how_early_others_end() -> None:
    clock = Clock()
    made = ProgressTally("tiny", [of("ReLU", name) for name in ("a", "b", "c")], clock)
    made.add(UnitProgress("a", "running", 0.1))
    clock.now = 110.0
    made.add(UnitProgress("a", "diverged", 1.0, trained=0.2))
    made.add(UnitProgress("b", "running", 0.5))
    assert made.progress().left == approximately((0.5 + 1) * 10 / (0.1 + 0.5))


def test_calculations_alone_have_a_time_left_too() -> None:
    clock = Clock()
    units = [Calculation(name, "dgn_engine.x:y") for name in ("a", "b", "c")]
    made = ProgressTally("tiny", units, clock)
    made.add(UnitProgress("a", "done", 1.0))
    clock.now = 105.0
    made.add(UnitProgress("b", "done", 1.0))
    assert made.progress().left == approximately(5.0)


@pytest.mark.parametrize(
    ("state", "share"),
    [
        ("running", 0.5),
        ("interrupted", 0.5),
        ("queued", 0.5),
        ("done", 1.0),
        ("diverged", 1.0),
        ("failed", 1.0),
    ],
)
def test_the_share_of_a_unit_follows_its_state(state: Any, share: float) -> None:
    made = tally(Clock())
    made.add(UnitProgress("b", state, 0.5))
    assert made.progress().fraction == approximately(4 * share / 7)


def test_shares_keep_within_their_bounds_and_scores_are_numbers() -> None:
    made = tally(Clock())
    made.add(UnitProgress("b", "running", 2.0, math.nan))
    assert (made.progress().fraction, made.progress().best) == (approximately(4 / 7), None)
    made.add(UnitProgress("b", "running", -1.0, 0.25))
    made.add(UnitProgress("a", "running", 0.5, 0.125))
    assert made.progress().fraction == approximately(1 / 7)
    assert made.progress().best == RunningUnit("b", -1.0, 0.25)


def test_of_equal_scores_the_first_is_the_best() -> None:
    made = tally(Clock())
    made.add(UnitProgress("a", "running", 0.5, 0.25))
    made.add(UnitProgress("b", "running", 0.75, 0.25))
    assert made.progress().best == RunningUnit("a", 0.5, 0.25)
    made.add(UnitProgress("b", "running", 1.0, 0.375))
    assert made.progress().best == RunningUnit("b", 1.0, 0.375)


def test_progress_survives_its_file(tmp_path: Path) -> None:
    made = tally(Clock())
    made.add(UnitProgress("b", "running", 0.5, 0.25))
    progress.write_progress(made.progress(), tmp_path)
    assert progress.read_progress(tmp_path) == made.progress()
    assert [path.name for path in tmp_path.iterdir()] == ["progress.json"]
    progress.write_progress(made.progress(), tmp_path / "nowhere")  # no trouble
    with refused("no-file"):
        progress.read_progress(tmp_path / "nowhere")


def test_the_status_of_a_folder_in_words(tmp_path: Path) -> None:
    assert progress.result_status(tmp_path) == "none"
    made = tally(Clock())
    made.add(UnitProgress("b", "running", 0.7))
    for state, words in (
        ("running", "interrupted, 40 % done"),
        ("failed", "failed, 40 % done"),
        ("done", "damaged"),
    ):
        progress.write_progress(made.progress(state), tmp_path)
        assert progress.result_status(tmp_path) == words
    (tmp_path / "results.json").write_bytes(document.to_bytes(result()))
    assert progress.result_status(tmp_path) == "done 2026-11-22"
