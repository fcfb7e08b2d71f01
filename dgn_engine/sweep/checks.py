"""Checks before a sweep starts: folders, configurations, data and memory."""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dgn_engine.config import DataConfig
from dgn_engine.errors import DoesNotFitError, UserError
from dgn_engine.storage.free_memory import free_memory
from dgn_engine.storage.inner_path import inner_folder
from dgn_engine.storage.runs.folder_layout import LOCK, RUN
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.sweep.sweep_file import SweepRun
from dgn_engine.sweep.unit import UNITS, Training, Unit, unit_folder
from dgn_engine.sweep.unit_results import state_of
from dgn_engine.sweep.workers.attempt import LOGS
from dgn_engine.text.byte_counts import bytes_in_words
from dgn_engine.training.ignored_settings import RunFacts, ignored_settings
from dgn_engine.training.trial_starts import (
    TrialStarts,
    check_can_end,
    is_of_other_data,
    usual_architecture,
)


def check_folder(folder: Path, names: Sequence[str] = ()) -> None:
    """Check that a results folder can be used.

    Args:
        folder: the results folder, which need not exist.
        names: other files and folders that will be written in it.

    Raises:
        UserError: the path or a parent is not a folder, or is a run, or it contains links.
    """
    try:
        existing = next(
            candidate for candidate in (folder, *folder.parents) if os.path.lexists(candidate)
        )
        sound = existing.is_dir()
        root = inner_folder(folder)
        paths = [root / name for name in (UNITS, LOGS, LOCK, *names)] if sound else []
        links = [
            path.relative_name
            for path in (*paths, *(root / UNITS / name for name in (root / UNITS).list_entries()))
            if path.is_link()
        ]
        places = (folder.absolute(), *folder.absolute().parents)
        run = next((place for place in places if (place / RUN).is_file()), None)
    except OSError as error:
        raise UserError(
            f"Cannot read {folder}: {error.strerror}.", kind="no-file", value=str(folder)
        ) from None
    if not sound:
        raise UserError(
            f"{existing} is not a folder; choose a folder with --out.",
            kind="wrong-file",
            value=str(existing),
        )
    if run is not None:
        raise UserError(
            f"{run} is the folder of a run; choose another folder with --out.",
            kind="is-a-run",
            value=str(run),
        )
    if links:
        raise UserError(
            f"{folder} contains the link '{links[0]}', which is not followed; choose another "
            "folder with --out, or remove the link.",
            kind="link",
            value=str(links[0]),
        )


@dataclass(frozen=True)
class StartCheck:
    """The result of a successful check.

    Attributes:
        sizes: numbers of training and test examples of the data sets that were loaded.
        at_once: how many of the largest trainings fit in main memory at a time; 0: all of them.
    """

    sizes: Mapping[DataConfig, tuple[int, int]]
    at_once: int


def check_start(
    units: Sequence[Unit], root: Path, local: bool = True, workers: int = 0
) -> StartCheck:
    """Check that all trainings can be run.

    Regime, network, options and epochs are checked and, if the work is done on this machine, also
    device, data, memory, input files and their consistency. Finished runs are not checked, except
    that the data must not have changed since. Calculations are not checked.

    Args:
        units: the units of the sweep.
        root: the folder of the sweep.
        local: whether the units are executed on this machine.
        workers: how many trainings run at a time and must fit in memory; 0: as many as fit.

    Raises:
        UserError: a training is not possible; the message includes its id.
    """
    alike: dict[object, list[Training]] = {}
    for unit in units:
        if isinstance(unit, Training):
            alike.setdefault(_check_key(unit), []).append(unit)
    trials = TrialStarts()
    needs: list[float] = []
    for trainings in alike.values():
        left = [unit for unit in trainings if not _is_done(unit, root)]
        if not left:
            continue
        wanted = left[0]
        try:
            check_can_end(wanted.config)
            if local:
                given = wanted.gates_from is not None
                needs += [trials.begin_trial(wanted.config, gates_given=given)] * len(left)
            elif not wanted.config.net.is_from_file:  # the file is on the other machine
                usual_architecture(wanted.config.net)
        except UserError as refusal:
            raise UserError(
                f"The run {wanted.id} cannot be trained: " + refusal.sentence,
                kind=refusal.kind,
                value=refusal.value,
            ) from None
    if local:
        _check_same_data(list(itertools.chain(*alike.values())), root)
    return StartCheck(trials.sizes, _fitting_at_once(needs, workers))


def _check_same_data(units: Sequence[Training], root: Path) -> None:
    """Raise `UserError` if a data set has changed since some of the runs were trained."""
    done: dict[DataConfig, Training] = {}
    left: set[DataConfig] = set()
    for unit in units:
        if _is_done(unit, root):
            done.setdefault(unit.config.data, unit)
        else:
            left.add(unit.config.data)
    for data, unit in done.items():
        if data not in left:
            continue
        if is_of_other_data(RunReader(unit_folder(root, unit.id)).info, data):
            raise UserError(
                f"{data.name} has changed since the run {unit.id} was trained, so new results "
                "would not be comparable; choose another folder with --out.",
                kind="other-data",
                value=data.name,
            )


def _fitting_at_once(needs: Sequence[float], workers: int) -> int:
    """Return how many of the largest trainings fit in main memory at a time.

    Args:
        needs: bytes per training.
        workers: how many must fit at a time; 0: any number.

    Returns:
        At least 1; 0 if all fit.

    Raises:
        DoesNotFitError: `workers` trainings do not fit.
    """
    free = free_memory()
    totals = list(itertools.accumulate(sorted(needs, reverse=True)))
    fitting = max(1, sum(total <= free for total in totals))
    wanted = min(workers, len(totals))
    if wanted > fitting:
        raise DoesNotFitError(
            f"{wanted} runs at a time need about {bytes_in_words(totals[wanted - 1])}, but only "
            f"{bytes_in_words(free)} are free; use --workers {fitting}."
        )
    return fitting if fitting < len(totals) else 0


def ignored_in(
    runs: Sequence[SweepRun], fields: Collection[str], sizes: Mapping[DataConfig, tuple[int, int]]
) -> list[str]:
    """Return a sentence for each setting that has no effect in some of the runs.

    Args:
        runs: the runs of a sweep.
        fields: the varied fields, which count as set even where they equal the default.
        sizes: numbers of training and test examples, if known.
    """
    ids_by_sentence: dict[str, list[str]] = {}
    for run in runs:
        facts = RunFacts(sizes.get(run.unit.config.data.without_variant()))
        for ignored in ignored_settings(run.unit.config, facts, fields):
            ids_by_sentence.setdefault(ignored.sentence, []).append(run.unit.id)
    return [
        f"In {len(ids):,} of {len(runs):,} runs ({ids[0]}{', …' * (len(ids) > 1)}) {sentence}"
        for sentence, ids in ids_by_sentence.items()
    ]


def _check_key(unit: Training) -> object:
    """Return a key that is equal for runs that need only one check, such as other seeds."""
    config = unit.config
    training = replace(config.training, learning_rate=1.0, momentum=0.0)
    shown = replace(config, seed=0, data=config.data.without_variant(), training=training)
    return shown, unit.gates_from is None


def _is_done(unit: Training, root: Path) -> bool:
    try:
        return state_of(unit, root) in ("done", "diverged")
    except UserError:  # a folder of other work: reported when the unit starts
        return False
