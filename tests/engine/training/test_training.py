"""Training: pure shuffling, wiring, value inputs, losses, and measuring that changes nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from dgn_engine.config import DataConfig, NetConfig, TrainingConfig
from dgn_engine.errors import UserError
from dgn_engine.protocol.training import Diverged
from dgn_engine.protocol.watching import ProbeRequest
from dgn_engine.training.device_data import epoch_order
from dgn_engine.training.steps.losses import compute_loss, count_correct, sign_targets


def final_weights(run, steps):
    for _ in range(steps):
        run.step()
    return [parameter.detach().clone() for parameter in run.trainer.network.parameters()]


def test_the_order_of_an_epoch_is_a_pure_function_of_seed_and_epoch():
    assert torch.equal(epoch_order(3, 7, 100), epoch_order(3, 7, 100))
    assert not torch.equal(epoch_order(3, 7, 100), epoch_order(3, 8, 100))
    assert not torch.equal(epoch_order(3, 7, 100), epoch_order(4, 7, 100))
    assert sorted(epoch_order(0, 0, 100).tolist()) == list(range(100))


def test_the_same_seed_gives_the_same_weights_whatever_the_global_generator(make_run):
    first = final_weights(make_run("DL"), 20)
    torch.manual_seed(99)
    torch.rand(7)
    second = final_weights(make_run("DL"), 20)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_layers_of_different_shape_cannot_be_exchanged(make_run):
    config = replace(make_run().config, net=NetConfig(name="gconv"), probe_examples=4)
    run = make_run("DL", config)
    with pytest.raises(UserError, match=r"Gate layer 3 \(128 channels of 8×8\)"):
        run.control.rewire_gates((2, 1, 0, 3, 4, 5))
    run.control.rewire_gates((1, 0, 3, 2, 5, 4))


def test_training_lowers_the_loss_in_every_net(make_run):
    for name, options in (
        ("fc", (("width", 16), ("depth", 4))),
        ("cnn4", (("channels", 8),)),
        ("gconv", (("stride", 4),)),
        ("vconv", (("stride", 4),)),
    ):
        base = make_run().config
        config = replace(
            base,
            net=NetConfig(name=name, options=options),
            data=DataConfig(train_limit=200, test_limit=50),
            training=replace(base.training, learning_rate=3e-3),
        )
        run = make_run("ReLU", config)
        before = run.trainer.test_score().loss
        for _ in range(14):
            run.step()
        assert run.trainer.test_score().loss < before, name


def test_the_first_class_of_a_pair_is_minus_one():
    labels = torch.tensor([0, 1])
    assert sign_targets(labels, 1).flatten().tolist() == [-1.0, 1.0]
    assert int(count_correct(torch.tensor([[-0.3], [0.2]]), labels)) == 2


def test_the_logistic_loss_of_one_logit_equals_cross_entropy_of_two():
    logit, labels = torch.tensor([[0.7], [-1.3]]), torch.tensor([1, 1])
    two = torch.cat([torch.zeros(2, 1), logit], dim=1)
    assert torch.allclose(
        compute_loss("cross-entropy", logit, labels), compute_loss("cross-entropy", two, labels)
    )


@pytest.mark.wide
@pytest.mark.parametrize("optimiser", ["adam", "sgd", "rmsprop"])
@pytest.mark.parametrize("kind", ["cross-entropy", "squared"])
def test_a_pair_of_classes_is_learnt_with_one_logit(make_run, optimiser, kind):
    base = make_run().config
    config = replace(
        base,
        data=DataConfig(binary=(4, 7)),
        training=TrainingConfig(
            loss=kind, optimiser=optimiser, learning_rate={"sgd": 3e-2}.get(optimiser, 3e-3)
        ),
    )
    run = make_run("DL", config)
    for _ in range(60):
        run.step()
    assert run.architecture.classes == 1
    assert run.trainer.test_score().accuracy > 0.9


def test_divergence_stops_at_its_step(make_run, events):
    base = make_run().config
    wild = replace(
        base, training=TrainingConfig(optimiser="sgd", learning_rate=1e6, loss="squared")
    )
    run = make_run("ReLU", wild)
    for _ in range(40):
        run.step()
        if run.diverged:
            break
    assert isinstance(events[-1], Diverged)
    assert events[-1].step == run.step_count


def test_every_probe_reads_a_pair_of_classes(make_run):
    base = make_run().config
    run = make_run("DL", replace(base, data=DataConfig(binary=(4, 7))))
    names = ("gates", "overlap", "npk", "ntk")
    run.probe_schedule.watch(tuple(ProbeRequest(name) for name in names))
    run.step()
    run.probe_schedule.read_probes(names, run.probed.probe_context(), run.step_count)
    assert {name: run.probe_schedule.readings[name].absent for name in names} == dict.fromkeys(
        names, ""
    )
    assert run.probe_schedule.readings["npk"].scalars["nu"] > 0
