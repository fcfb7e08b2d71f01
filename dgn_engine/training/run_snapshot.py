"""Copies the whole state of a run between two steps, and puts it back: checkpoint and undo."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from dgn_engine.errors import UserError
from dgn_engine.model.regime_entry import FEATURE, VALUE, configure_for
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.training import Measured, RegimeSwapped, Rewired
from dgn_engine.regimes import find_regime
from dgn_engine.storage.plain_data import from_plain
from dgn_engine.storage.runs.run_checkpoints import FORMAT, Snapshot
from dgn_engine.training.layer_infos import count_parameters
from dgn_engine.training.run import Run


def capture(run: Run) -> Snapshot | None:
    """Copy the state of the run, tensors and all; None once a loss was not finite.

    Returns `Run.snapshot` where a copy of this moment has been made already.
    """
    if run.control.snapshot is not None:
        return run.control.snapshot
    trainer, network = run.trainer, run.trainer.network
    run.settle()
    counters = trainer.counters()
    sums = counters["train_sums"]
    assert isinstance(sums, list)
    if run.diverged or not all(abs(value) < float("inf") for value in sums):
        return None
    awaited = run.evaluation.awaited
    state: dict[str, Any] = {
        "format": FORMAT,
        **counters,
        "epoch": trainer.epoch,
        "regime": trainer.regime.name,
        "gates_source": run.control.gates_source,
        "wiring": list(network.wiring),
        "rotation": [route.rotate for route in network.routes],
        "shift": [route.shift[0] for route in network.routes],
        "dials": {
            "learning_rate": run.trainer.optimizer.learning_rate,
            "beta": network.gate.beta,
            "epsilon": network.gate.epsilon,
            "value_input": network.value_input,
            "pace": run.control.pace,
            "probe_examples": run.config.probe_examples,
            "probe_set": run.config.probe_set,
        },
        "pretrain_steps": run.control.pretrain_steps,
        "total_steps": run.total_steps,
        "epoch_train": list(run.evaluation.epoch_so_far),
        "train_peaks": list(run.evaluation.peaks),
        "awaited": None if awaited is None else dataclasses.asdict(awaited),
        "finished": run.finished,
        "put_backs": [list(pair) for pair in run.put_backs],
        "config": run.config.to_dict(),
    }
    copies = {
        name: tensor.detach().to("cpu", copy=True) for name, tensor in trainer.tensors().items()
    }
    snapshot = Snapshot(copies, state)
    run.note_copy(snapshot)
    return snapshot


def restore(run: Run, snapshot: Snapshot) -> None:
    """Put a fresh run into the state of a recorded one.

    Raises `UserError` where the snapshot does not belong to this configuration.
    """
    state = snapshot.state
    try:
        if state["format"] != FORMAT:
            raise UserError(
                f"The checkpoint has format {state['format']}, which is not read here.",
                kind="other-format",
                value=state["format"],
            )
        _restore(run, snapshot.tensors, state)
    except (
        *(KeyError, TypeError, ValueError, RuntimeError),
        *(AttributeError, IndexError, OverflowError),
    ) as error:
        raise UserError(
            f"The checkpoint does not fit its run: {error}.", kind="other-run"
        ) from None


def go_back(run: Run, snapshot: Snapshot) -> None:
    """Put back networks, optimiser, regime, wiring, settings and the order of the data; steps count
    on, and so does the log.

    The batches that come are those that followed the snapshot. Scores are of the steps that led to
    it, and of those that come. Steps of pre-training that were left then are left again. A run
    that had diverged can go on.
    """
    trainer, then = run.trainer, snapshot.state
    pretraining = int(then["pretrain_steps"])
    state = {
        **then,
        "step": run.step_count,
        "undone_steps": run.step_count - snapshot.step + int(then.get("undone_steps", 0)),
        "put_backs": (*then.get("put_backs", ()), (run.step_count, snapshot.step)),
        "seed": trainer.seed,
        "dials": {
            **then["dials"],
            "pace": run.control.pace,
            "probe_examples": run.config.probe_examples,
            "probe_set": run.config.probe_set,
        },
        "pretrain_steps": pretraining and pretraining + run.step_count - snapshot.step,
        "total_steps": run.total_steps,
        "awaited": None,
        "train_peaks": (),
    }
    _restore(run, snapshot.tensors, state)
    run.diverged = False


BACK_FROM_DIVERGENCE = "Back from divergence"  # `undone` of a run that was put back after it


def put_back(
    run: Run, snapshot: Snapshot, announced: str, undone: str, emit: Callable[[Event], None]
) -> None:
    """Put a run back to this state while it goes on, and emit what changed by it.

    Args:
        run: The run, which may have diverged.
        snapshot: A state that it had at an earlier step.
        announced: What happens, for the checkpoint right before it: 'undo of regime FL'.
        undone: The same as a title, for the record: 'Undo regime FL'.
        emit: Takes the events: of the regime always, of order and settings where they changed.
    """
    trainer = run.trainer
    before, wires, dials = trainer.regime.name, run.control.wires, run.control.dials
    run.control.announce_change(announced)
    run.evaluation.restart()  # it emits the scores that wait for a test pass
    go_back(run, snapshot)
    run.probed.invalidate_readings()
    regime, network = trainer.regime, trainer.network
    trained = ((FEATURE, regime.trains_feature), (VALUE, regime.trains_value))
    emit(
        RegimeSwapped(
            step=run.step_count,
            before=before,
            after=regime.name,
            kept=(),
            frozen=tuple(name for name, trains in trained if not trains),
            redrawn=(),
            copied=(VALUE, FEATURE),
            source=run.control.gates_source,
            parameters_feature=count_parameters(network.feature),
            undone=undone,
            of_step=snapshot.step,
            undone_steps=trainer.undone_steps,
        )
    )
    if run.control.wires != wires:
        emit(Rewired(run.step_count, *run.control.wires))
    if run.control.dials != dials:
        run.control.emit_settings()


def _restore(run: Run, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
    trainer, dials = run.trainer, state["dials"]
    regime = find_regime(state["regime"])
    trainer.restore(tensors, state)
    trainer.control.regime = regime
    run.control.gates_source = str(state.get("gates_source", run.control.gates_source))
    # What `enter` does to a network, without drawing or copying anything.
    network = trainer.network
    configure_for(network, regime)
    network.value_input = dials["value_input"]
    network.set_gate(beta=float(dials["beta"]), epsilon=float(dials["epsilon"]))
    trainer.control.rewire(tuple(int(place) for place in state["wiring"]))
    trainer.control.reroute(
        tuple(int(turn) for turn in state.get("rotation", ())),
        tuple(int(step) for step in state.get("shift", ())),
    )
    trainer.optimizer.set_learning_rate(float(dials["learning_rate"]))
    run.control.pace = float(dials["pace"])
    run.choose_probe_examples(
        int(dials.get("probe_examples", run.config.probe_examples)),
        str(dials.get("probe_set", run.config.probe_set)),
    )
    run.control.pretrain_steps = int(state["pretrain_steps"])
    run.total_steps = int(state["total_steps"])
    run.put_backs = tuple((int(at), int(of)) for at, of in state.get("put_backs", ()))
    awaited = state["awaited"]
    right, seen = state.get("epoch_train", (0.0, 0))
    run.evaluation.peaks = [float(peak) for peak in state.get("train_peaks", ())]
    run.evaluation.resume(
        None if awaited is None else from_plain(Measured, awaited), (float(right), int(seen))
    )
