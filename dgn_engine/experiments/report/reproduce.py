"""Reproduce an experiment, from its plan to its report, in a folder where it can be resumed."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dgn_engine.config import DataConfig, GatingConfig, NetConfig, RunConfig
from dgn_engine.errors import UserError
from dgn_engine.experiments import Plan, Request
from dgn_engine.experiments.report import reproduction_progress
from dgn_engine.experiments.report.document import Document, State
from dgn_engine.experiments.report.reproduction_progress import ProgressTally, ReproductionProgress
from dgn_engine.experiments.report.result_layout import PLAN, RESULTS
from dgn_engine.experiments.report.run_scale import scale_of
from dgn_engine.experiments.report.write_report import ReproductionTask, write_report
from dgn_engine.regimes import find_regime
from dgn_engine.storage.atomic_write import make_folders, write_file
from dgn_engine.storage.inner_path import inner_folder
from dgn_engine.storage.plain_data import from_plain
from dgn_engine.storage.regular_files import read_text
from dgn_engine.sweep.schedule import OVER, SOUND, UnitProgress
from dgn_engine.sweep.scheduler import Executor
from dgn_engine.sweep.unit import Training, Unit, check_units, same_unit, unit_to_plain
from dgn_engine.sweep.unit_results import state_of

EVERY = 0.5  # seconds between writes of the progress
OnProgress = Callable[[ReproductionProgress, UnitProgress | None], None]


def plan_of(task: ReproductionTask) -> Plan:
    """Return the checked plan of a task; raises `UserError` if it has no units."""
    plan = task.experiment.plan(task.request)
    if not plan.units:
        raise UserError(no_rows_message(task), kind="no-rows", value=task.request.only)
    check_units(plan.units)
    return replace(
        plan,
        scaled_down=(
            *((*plan.scaled_down, *_describe_limits(task.request)) if task.request.quick else ()),
            *_scale_departures(task),
        ),
        choices=(*plan.choices, *epochs_in_words(task, plan), *_training_notes(plan.units)),
    )


def no_rows_message(task: ReproductionTask) -> str:
    """Return a sentence that no label matches the request's `only`, with the available labels."""
    sentence = f"{task.name} has no rows"
    if not task.request.only:
        return f"{sentence} at this scale."
    sentence += f" whose label contains '{task.request.only}' at this scale"
    available = [row for row in task.experiment.rows if has_rows(task, row)]
    if not available:
        return f"{sentence}."
    return f"{sentence}. Available: {', '.join(repr(row) for row in available)}."


def has_rows(task: ReproductionTask, label: str) -> bool:
    """Return whether there are rows with this label at this scale."""
    return bool(task.experiment.plan(replace(task.request, only=label)).units)


def _scale_departures(task: ReproductionTask) -> tuple[str, ...]:
    reproduces = task.experiment.reproduces
    return scale_of(task.experiment, task.request).departures if reproduces else ()


def _describe_limits(request: Request) -> list[str]:
    """Return phrases on how the data were limited."""
    parts = ((request.train_limit, "training"), (request.test_limit, "test"))
    return [f"at most {n:,} {part} examples, balanced over the classes" for n, part in parts if n]


def reproduce(
    task: ReproductionTask,
    executor: Executor,
    on_progress: OnProgress,
    stopped: Callable[[], bool] = lambda: False,
) -> Document:
    """Execute the plan as far as possible and write a report of the results.

    Args:
        task: the experiment.
        executor: executes the units.
        on_progress: called with the overall progress and the unit that changed.
        stopped: polled; if it returns True, running units are saved and ended.

    Raises:
        UserError: the folder has other work.
    """
    plan = plan_of(task)
    _claim_folder(task.folder, plan.units, task.files)
    tally = ProgressTally(task.name, plan.units)
    written = -math.inf

    def on_update(update: UnitProgress) -> None:
        nonlocal written
        tally.add(update)
        now = tally.progress()
        on_progress(now, update)
        if time.monotonic() - written >= EVERY:
            written = time.monotonic()
            reproduction_progress.write_progress(now, task.folder)

    if not (task.folder / RESULTS).exists():  # so that it can be resumed after a crash
        write_report(task, plan, "running")
    reproduction_progress.write_progress(tally.progress(), task.folder)
    began = time.monotonic()
    try:
        executor.run(plan.units, task.folder, on_update, stopped)
    except BaseException:
        reproduction_progress.write_progress(tally.progress("failed"), task.folder)
        raise
    took = time.monotonic() - began
    state = _final_state(tally, plan)
    document = write_report(task, plan, state, tally.last, took)
    reproduction_progress.write_progress(tally.progress(state), task.folder)
    return document


def report_again(task: ReproductionTask) -> Document:
    """Write the report from existing results; raises `UserError` if a unit is not done."""
    plan = plan_of(task)
    states = [(unit.id, state_of(unit, task.folder)) for unit in plan.units]
    open_ = [name for name, state in states if state not in ("done", "diverged")]
    if open_:
        raise UserError(
            f"{len(open_)} of {len(states)} runs and calculations in {task.folder} are not done "
            f"(first: '{open_[0]}'); run the same command without --report-only to continue.",
            kind="not-done",
            value=len(open_),
        )
    return write_report(task, plan)


def _claim_folder(folder: Path, units: Sequence[Unit], files: Mapping[str, bytes]) -> None:
    """Write plan and files to the folder; raises `UserError` if it has units of other settings."""
    path = inner_folder(folder) / PLAN
    plain = {unit.id: unit_to_plain(unit) for unit in units}
    try:
        stored = json.loads(read_text(path))
    except FileNotFoundError:
        stored = {}
    except (OSError, ValueError, RecursionError):
        raise UserError(
            f"Cannot read {path}; choose another folder with --out.",
            kind="damaged",
            value=str(path),
        ) from None
    if not isinstance(stored, dict):
        raise UserError(
            f"{path} is damaged; choose another folder with --out.", kind="damaged", value=str(path)
        )
    for name, tree in plain.items():
        if not _is_same_unit(stored.get(name, tree), tree):
            raise UserError(
                f"{folder} has '{name}' with other settings; run the command it was started "
                "with, or choose another folder with --out.",
                kind="other-run",
                value=name,
            )
    try:
        make_folders(folder)
        for name, content in {PLAN: json.dumps({**stored, **plain}).encode(), **files}.items():
            write_file(inner_folder(folder) / name, content)
    except OSError as error:
        raise UserError(
            f"Cannot write to {folder}: {error.strerror}.", kind="not-writable", value=str(folder)
        ) from None


def _is_same_unit(stored: object, wanted: dict[str, object]) -> bool:
    """Return whether a stored unit is the wanted one; settings that it lacks are defaults."""
    if stored == wanted:
        return True
    try:
        return same_unit(from_plain(Unit, stored), from_plain(Unit, wanted))
    except (UserError, TypeError, ValueError):
        return False


def _final_state(tally: ProgressTally, plan: Plan) -> State:
    last = [tally.last[unit.id].state if unit.id in tally.last else "queued" for unit in plan.units]
    if all(state in SOUND for state in last):
        return "done"
    over = all(state in OVER for state in last)
    return "failed" if over else "interrupted"


def epochs_in_words(task: ReproductionTask, plan: Plan) -> tuple[str, ...]:
    """Return the number of epochs and its source, such as 'epochs: 100 (as requested)'."""
    runs = [unit for unit in plan.units if isinstance(unit, Training)]
    *most, last = sorted({run.config.training.epochs for run in runs}) or [0]
    if not last or not task.experiment.reproduces:
        return ()
    requested, quick = task.request.epochs, task.request.quick
    source = "as requested" if requested else "chosen for --quick" if quick else plan.epochs_from
    numbers = f"{', '.join(f'{number:,}' for number in most)} or {last:,}" if most else f"{last:,}"
    return (f"epochs: {numbers} ({source})",)


_OPTIMISERS = {"adam": "Adam", "sgd": "SGD", "rmsprop": "RMSprop"}
_STARTS = {"kaiming": "N(0, 2/fan-in)", "glorot": "Glorot initialisation", "bernoulli": "±σ"}


def _training_notes(units: Sequence[Unit]) -> Iterator[str]:
    """Yield a phrase on how runs are trained, for each combination of network, data, optimiser."""
    kinds: dict[tuple[str, ...], list[RunConfig]] = {}
    for unit in units:
        if isinstance(unit, Training):
            kinds.setdefault(_training_kind(unit.config), []).append(unit.config)
    for (network, batch, until, loss, gates), configs in kinds.items():
        steps = {f"{config.training.learning_rate:g}" for config in configs}
        epochs = sorted({config.training.epochs for config in configs})
        soft = any(find_regime(config.gating.regime).soft for config in configs)
        yield (
            f"{network}, "
            f"learning rate {' or '.join(sorted(steps, key=float, reverse=True))}, {batch}, "
            f"{' or '.join(f'{number:,}' for number in epochs)} "
            f"{'epoch' if epochs == [1] else 'epochs'}{until}, {loss}"
            f"{f'; soft gates are {gates}' if soft else ''}"
        )


def _training_kind(config: RunConfig) -> tuple[str, ...]:
    """Describe the training settings of a run, except for learning rate and epochs."""
    training = config.training
    until = f", to a train accuracy of {100 * training.until:g} %" if training.until else ""
    if 0 < training.patience < training.epochs:
        rise = "without a rise in train accuracy"
        until = f" at most{until}, stopping after {training.patience} {rise}"
    return (
        f"{_describe_net(config.net)} on {_describe_data_set(config.data)}: "
        f"{_OPTIMISERS[training.optimiser]}",
        f"batch {training.batch}",
        until,
        training.loss.replace("-", " ").replace("squared", "squared loss"),
        _gate_formula(config.gating),
    )


def _describe_data_set(data: DataConfig) -> str:
    if data.binary is None:
        return data.name
    return f"{data.name} (classes {data.binary[0]} and {data.binary[1]})"


def _describe_net(net: NetConfig) -> str:
    options = ", ".join(f"{name} {value}" for name, value in net.options)
    start = _STARTS[net.init] + (f" with σ = {net.sigma:.4g}" if net.sigma else "")
    biases = "biases" if net.bias else "no biases"
    if net.feature_bias and not net.bias:
        biases = "biases in the feature network alone"
    name = f"the network of {net.display_name}" if net.is_from_file else net.name
    return f"{name} ({', '.join(part for part in (options, biases, start) if part)})"


def _gate_formula(gating: GatingConfig) -> str:
    """Return the formula of the soft gate χ(q) = (1 + ε)/(1 + exp(−βq)) (theory §1)."""
    return f"{1 + gating.epsilon:g}/(1 + exp(−{gating.beta:g}q))"
