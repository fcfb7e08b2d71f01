"""Gates rotated while the run goes on: what the value network sees, what is told and restored."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from dgn_engine.config import NetConfig
from dgn_engine.protocol.training import Rewired
from dgn_engine.storage.plain_data import to_plain
from dgn_engine.storage.runs.log import LogLine, decode_line, encode_line, event_of
from dgn_engine.training.run_snapshot import capture_run, restore_run
from tests.refusals import refused


def seen(run):
    """Hard gates as the value network uses them, and as the feature network makes them."""
    trace = run.trainer.network.trace(run.probed.probe_context().x)
    return trace.value.gates, [(q > 0).float() for q in trace.feature.pre]


def test_gates_rotated_in_mid_run_are_shifted_from_the_next_step_on(make_run, events):
    run = make_run("FR-II")
    run.step()
    run.control.rotate_gates((0, 3, 0))
    used, made = seen(run)
    assert torch.equal(used[0], made[0])
    assert torch.equal(used[1], torch.roll(made[1], 3, dims=1))
    assert events[-1] == Rewired(1, (0, 1, 2), (0, 3, 0))
    run.step()


def test_a_full_turn_is_no_turn(make_run):
    run = make_run("FR-II")
    run.control.rotate_gates((16, -16, 0))
    used, made = seen(run)
    assert all(torch.equal(a, b) for a, b in zip(used, made, strict=True))


def test_a_gate_layer_keeps_its_rotation_when_the_order_changes(make_run, events):
    run = make_run("FR-II", rotation=(0, 3, 1))
    run.control.rewire_gates((1, 0, 2))
    assert events[-1] == Rewired(0, (1, 0, 2), (3, 0, 1))
    used, made = seen(run)
    assert torch.equal(used[0], torch.roll(made[1], 3, dims=1))
    assert torch.equal(used[1], made[0])


def test_maps_are_shifted_in_space_too(make_run):
    small = NetConfig("cnn4", (("channels", 4),))
    run = make_run("FR-II", replace(make_run().config, net=small))
    run.control.rotate_gates((0,) * 4, (0, 2, 0, 0))
    used, made = seen(run)
    assert torch.equal(used[1], torch.roll(made[1], (2, 2), dims=(2, 3)))


def test_own_gates_cannot_be_rotated_or_exchanged(make_run, events):
    run = make_run("ReLU")
    for change in (run.control.rotate_gates, run.control.rewire_gates):
        with refused("own-gates"):
            change((1, 0, 2))
    assert not any(isinstance(event, Rewired) for event in events)


@pytest.mark.parametrize(
    ("turns", "kind"), [(((1, 0), ()), "wrong-length"), (((), (1, 0, 0)), "other-inputs")]
)
def test_a_rotation_that_does_not_fit_is_refused_and_changes_nothing(make_run, turns, kind):
    run = make_run("FR-II", rotation=(0, 3, 0))
    with refused(kind):
        run.control.rotate_gates(*turns)
    assert [route.rotate for route in run.trainer.network.routes] == [0, 3, 0]


def test_a_run_that_is_put_back_says_how_its_gates_are_turned(make_run):
    run = make_run("FR-II")
    run.control.rotate_gates((0, 3, 0))
    run.step()
    again = make_run("FR-II")
    restore_run(again, capture_run(run))
    started = again.started_event(paused=True)
    assert (started.rotation, started.shift) == ((0, 3, 0), ())


def test_a_rotation_survives_the_log():
    event = Rewired(7, (1, 0, 2), (0, 3, 0), (0, 0, 1))
    line = decode_line(encode_line(LogLine(1, 0.0, "Rewired", to_plain(event))).rstrip(b"\n"))
    assert line is not None
    assert event_of(line) == event
