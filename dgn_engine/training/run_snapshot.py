"""Copy the whole state of a run between two steps, and restore it: checkpoints and undo."""

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


def capture_run(run: Run) -> Snapshot | None:
    """Copy the state of a run.

    Args:
        run: The run, between two steps.

    Returns:
        Tensors on the CPU, and counters and settings; None once a loss was not finite. Reuses the
        copy of this moment if there is one.
    """
    if run.control.snapshot is not None:
        return run.control.snapshot
    trainer, network = run.trainer, run.trainer.network
    run.wait_for_scores()
    counters = trainer.counters()
    sums = counters["train_sums"]
    assert isinstance(sums, list)
    if run.diverged or not all(abs(value) < float("inf") for value in sums):
        return None
    awaited = run.evaluation.pending_scores
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
        "finished": run.is_finished,
        "put_backs": [list(pair) for pair in run.put_backs],
        "config": run.config.to_dict(),
    }
    copies = {
        name: tensor.detach().to("cpu", copy=True) for name, tensor in trainer.tensors().items()
    }
    snapshot = Snapshot(copies, state)
    run.note_copy(snapshot)
    return snapshot


def restore_run(run: Run, snapshot: Snapshot) -> None:
    """Restore a new run to a recorded state.

    Args:
        run: The run, before its first step.
        snapshot: The state.

    Raises:
        UserError: The snapshot does not belong to this configuration.
    """
    state = snapshot.state
    try:
        if state["format"] != FORMAT:
            raise UserError(
                f"The checkpoint has format {state['format']}, which this version cannot read.",
                kind="other-format",
                value=state["format"],
            )
        _restore_state(run, snapshot.tensors, state)
    except (
        *(KeyError, TypeError, ValueError, RuntimeError),
        *(AttributeError, IndexError, OverflowError),
    ) as error:
        raise UserError(
            f"The checkpoint does not fit its run: {error}.", kind="other-run"
        ) from None


def load_earlier_state(run: Run, snapshot: Snapshot) -> None:
    """Restore an earlier state: networks, optimiser, regime, wiring, settings, data order.

    Step counter and log continue. The next batches are those that followed the snapshot; scores
    cover the steps before and after it. Pre-training steps that remained then remain again. A
    diverged run can continue.

    Args:
        run: The run.
        snapshot: A state it had at an earlier step.
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
    _restore_state(run, snapshot.tensors, state)
    run.diverged = False


BACK_FROM_DIVERGENCE = "Back from divergence"  # `undone` of a run that returned from it


def revert_run(
    run: Run, snapshot: Snapshot, announced: str, undone: str, emit: Callable[[Event], None]
) -> None:
    """Revert a running run to an earlier state, and emit what changed.

    Args:
        run: The run, which may have diverged.
        snapshot: A state it had at an earlier step.
        announced: Description for the checkpoint right before it: 'undo of regime FL'.
        undone: Title for the record: 'Undo regime FL'.
        emit: Takes the events: the regime always, wiring and settings if they changed.
    """
    trainer = run.trainer
    before, wires, dials = trainer.regime.name, run.control.wiring_state, run.control.dials
    run.control.announce_change(announced)
    run.evaluation.restart_test()  # it emits the scores that wait for a test pass
    load_earlier_state(run, snapshot)
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
    if run.control.wiring_state != wires:
        emit(Rewired(run.step_count, *run.control.wiring_state))
    if run.control.dials != dials:
        run.control.emit_settings()


def _restore_state(run: Run, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
    trainer, dials = run.trainer, state["dials"]
    regime = find_regime(state["regime"])
    trainer.restore_state(tensors, state)
    trainer.control.regime = regime
    run.control.gates_source = str(state.get("gates_source", run.control.gates_source))
    # Like `enter`, but without drawing or copying weights.
    network = trainer.network
    configure_for(network, regime)
    network.value_input = dials["value_input"]
    network.set_gate(beta=float(dials["beta"]), epsilon=float(dials["epsilon"]))
    trainer.control.set_wiring(tuple(int(source) for source in state["wiring"]))
    trainer.control.set_routes(
        tuple(int(units) for units in state.get("rotation", ())),
        tuple(int(shift) for shift in state.get("shift", ())),
    )
    trainer.optimizer.set_learning_rate(float(dials["learning_rate"]))
    run.control.pace = float(dials["pace"])
    run.choose_probe_examples(
        int(dials.get("probe_examples", run.config.probe_examples)),
        str(dials.get("probe_set", run.config.probe_set)),
    )
    run.control.pretrain_steps = int(state["pretrain_steps"])
    run.total_steps = int(state["total_steps"])
    run.put_backs = tuple(
        (int(at), int(source_step)) for at, source_step in state.get("put_backs", ())
    )
    awaited = state["awaited"]
    right, count = state.get("epoch_train", (0.0, 0))
    run.evaluation.peaks = [float(peak) for peak in state.get("train_peaks", ())]
    run.evaluation.resume_test(
        None if awaited is None else from_plain(Measured, awaited), (float(right), int(count))
    )
