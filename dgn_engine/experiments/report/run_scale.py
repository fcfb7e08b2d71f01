"""The scale of a reproduction: quick, the paper's own, or how it differs from that.

Plans are compared rather than options, since an option may equal the experiment's own setting.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dgn_engine.config import DataConfig
from dgn_engine.data import data_sets
from dgn_engine.errors import UserError
from dgn_engine.experiments import Experiment, Request
from dgn_engine.experiments.report.data_sizes import expected_sizes
from dgn_engine.sweep.unit import Training

_SEED = re.compile(r"-s\d+$")


@dataclass(frozen=True)
class RunScale:
    """The scale of a reproduction.

    Attributes:
        word: 'quick', 'full', 'reduced' if something is less than in the paper, or 'changed' if
            something differs but is not known to be less.
        departures: differences from the paper, one phrase each.
    """

    word: str
    departures: tuple[str, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        if not self.departures:
            return ()
        return (f"{self.word.capitalize()} scale: {', '.join(self.departures)}.",)


@dataclass(frozen=True)
class _Departure:
    words: str
    less: bool


def scale_of(experiment: Experiment, request: Request) -> RunScale:
    """Return the scale of a request. More seeds than in the paper do not count as a difference."""
    if request.quick:
        return RunScale("quick")
    departures = [
        *_epoch_departures(experiment, request),
        *_seed_departures(experiment, request),
        *_data_departures(experiment, request),
        *_limit_departures(experiment, request),
        *_step_departures(experiment, request),
    ]
    if not departures:
        return RunScale("full")
    word = "reduced" if any(departure.less for departure in departures) else "changed"
    return RunScale(word, tuple(dict.fromkeys(departure.words for departure in departures)))


def describe_substitution(experiment: Experiment, request: Request) -> tuple[str, ...]:
    """Return a sentence if networks are trained on other data than in the paper."""
    paper = {
        run.id: run.config.data.name
        for run in _planned_trainings(experiment, replace(request, scale="full", data="", steps=()))
    }
    used: dict[str, None] = {}  # in the order of the plan
    published: dict[str, None] = {}
    for run in _planned_trainings(experiment, request):
        name = run.config.data.name
        others = [paper[run.id]] if run.id in paper else list(paper.values())
        if others and name not in others:
            used[_data_title(name)] = None
            published.update(dict.fromkeys(map(_data_title, others)))
    if not used:
        return ()
    return (f"Trained on {' and '.join(used)}, not on {' or '.join(published)}.",)


def _data_title(name: str) -> str:
    if name == "digits":
        return "the digits that come with the package"
    entry = data_sets().get(name)
    return f"'{name}'" if entry is None else entry.title


def _planned_trainings(experiment: Experiment, request: Request) -> list[Training]:
    return [unit for unit in experiment.plan(request).units if isinstance(unit, Training)]


def _paired_trainings(
    experiment: Experiment, request: Request, option: str
) -> list[tuple[Training, ...]]:
    """Return the requested runs, each paired with the run without the option."""
    own = replace(request, **{option: getattr(Request(), option)})
    usual = {run.id: run for run in _planned_trainings(experiment, own)}
    requested = _planned_trainings(experiment, request)
    return [(run, usual[run.id]) for run in requested if run.id in usual]


def _epoch_departures(experiment: Experiment, request: Request) -> Iterator[_Departure]:
    if not request.epochs:
        return
    pairs = {
        (requested.config.training.epochs, own.config.training.epochs)
        for requested, own in _paired_trainings(experiment, request, "epochs")
    }
    yield from _shortfall_departures(pairs, "epochs")
    for requested in sorted({requested for requested, own in pairs if requested > own}):
        owns = _join_alternatives(own for number, own in pairs if number == requested > own)
        yield _Departure(f"{requested:,} instead of {owns} epochs", less=False)


def _seed_departures(experiment: Experiment, request: Request) -> Iterator[_Departure]:
    if not request.seeds:
        return
    usual = _seed_counts(experiment, replace(request, seeds=0))
    requested = _seed_counts(experiment, request)
    yield from _shortfall_departures(
        {(requested[cell], n) for cell, n in usual.items() if cell in requested}, "seeds"
    )


def _seed_counts(experiment: Experiment, request: Request) -> Counter[str]:
    return Counter(_SEED.sub("", unit.id) for unit in experiment.plan(request).units)


def _data_departures(experiment: Experiment, request: Request) -> Iterator[_Departure]:
    if not request.data:
        return
    plain = {"train_limit": 0, "test_limit": 0}
    pairs = {
        tuple(replace(run.config.data, **plain) for run in pair)  # type: ignore[arg-type]
        for pair in _paired_trainings(experiment, request, "data")
    }
    for requested, own in sorted(pairs, key=str):
        if requested.name == own.name:
            continue
        sizes = [_train_size(data) for data in (requested, own)]
        less, note = requested.name == "digits", ""
        if sizes[0] is not None and sizes[1] is not None:
            less = sizes[0] < sizes[1]
            note = f" ({sizes[0]:,} training examples instead of {sizes[1]:,})"
        yield _Departure(f"{requested.name} instead of {own.name}{note}", less)


def _train_size(data: DataConfig) -> int | None:
    try:
        return expected_sizes(data).train
    except UserError:
        return None  # the paper's data may be missing when training on other data


def _limit_departures(experiment: Experiment, request: Request) -> Iterator[_Departure]:
    for part, limit in (("train", request.train_limit), ("test", request.test_limit)):
        if not limit:
            continue
        word = "training" if part == "train" else "test"
        pairs = set()
        for run in _planned_trainings(experiment, request):
            unlimited = replace(run.config.data, **{f"{part}_limit": 0})  # type: ignore[arg-type]
            try:
                pairs.add((limit, getattr(expected_sizes(unlimited), part)))
            except UserError:
                yield _Departure(f"at most {limit:,} {word} examples", less=True)
        yield from _shortfall_departures(pairs, f"{word} examples")


def _step_departures(experiment: Experiment, request: Request) -> Iterator[_Departure]:
    if not request.steps:
        return
    own = _learning_rates(_planned_trainings(experiment, replace(request, steps=())))
    requested = _learning_rates(_planned_trainings(experiment, request))
    if requested >= own:
        return
    rates = ", ".join(f"{step:g}" for step in sorted(request.steps, reverse=True))
    usual = ", ".join(f"{step:g}" for step in sorted(own, reverse=True))
    step = "step" if len(request.steps) == 1 else "steps"
    yield (
        _Departure(f"SGD's {step} {rates} of {usual}", less=True)
        if requested <= own
        else _Departure(f"SGD's {step} {rates} instead of {usual}", less=len(requested) < len(own))
    )


def _learning_rates(runs: Sequence[Training]) -> set[float]:
    settings = (run.config.training for run in runs)
    return {training.learning_rate for training in settings if training.optimiser == "sgd"}


def _shortfall_departures(found: set[tuple[int, int]], noun: str) -> Iterator[_Departure]:
    """Yield departures such as '3 of 60 epochs' for pairs of requested and published numbers."""
    for requested in sorted({requested for requested, own in found if requested < own}):
        owns = _join_alternatives(own for number, own in found if number == requested < own)
        yield _Departure(f"{requested:,} of {owns} {noun}", less=True)


def _join_alternatives(numbers: Iterator[int]) -> str:
    *most, last = (f"{number:,}" for number in sorted(set(numbers)))
    return f"{', '.join(most)} or {last}" if most else last
