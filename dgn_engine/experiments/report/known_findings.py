"""Findings of an unfinished reproduction that do not depend on the missing units.

The findings are read several times with different made-up results for the missing units. Numbers
that are always the same do not depend on them; all others are left out. Thus every experiment is
read by its own code, whatever that does.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dgn_engine.errors import UserError
from dgn_engine.experiments import Experiment, Figure, Findings, Plan, Request, Row
from dgn_engine.sweep.unit import Calculation, unit_folder
from dgn_engine.sweep.unit_results import TrainedRun, UnitResults

_LOSS = 0.1  # minimum training loss of a guess, so that its logarithm is finite
_TROUBLE = (UserError, ValueError, TypeError, LookupError, ArithmeticError)
_SEED = re.compile(r"-s\d+$")


@dataclass(frozen=True)
class KnownFindings:
    """The findings known so far.

    Attributes:
        found: findings that are final.
        missing: labels of rows without any final value.
        partial: labels of rows with some final values.
        claims: number of claims left out.
        why: a sentence, if the findings could not be read.
    """

    found: Findings
    missing: tuple[str, ...] = ()
    partial: tuple[str, ...] = ()
    claims: int = 0
    why: str = ""


def known_findings(
    experiment: Experiment,
    request: Request,
    plan: Plan,
    results: UnitResults,
    missing: Collection[str],
) -> KnownFindings:
    """Read the findings that do not depend on the `missing` units."""
    try:
        guessed = [
            experiment.findings(request, _GuessedResults(results, plan, missing, scores))
            for scores in guess_accuracies(missing)
        ]
    except _TROUBLE as trouble:  # no similar calculation is done yet, or the guesses do not fit
        why = str(trouble) if isinstance(trouble, UserError) else ""
        return replace(_whole_rows(experiment, request, results, missing), why=why)
    return _agreed_findings(guessed)


def guess_accuracies(missing: Collection[str]) -> list[Mapping[str, float]]:
    """Return several guesses of the accuracies (0…1) of the missing units.

    For any two cells, or groups of cells with a common prefix (a learning rate in 'sgd-0.1-ReLU'),
    there is a guess in which the first has accuracy 1 and the second 0, and vice versa. So an open
    choice between them, such as that of the best learning rate, is never taken as known.
    """
    parts_of = {unit_id: _SEED.sub("", unit_id).split("-") for unit_id in missing}
    codes: dict[tuple[float, ...], None] = {}  # an accuracy per unit
    for length in range(1, max(map(len, parts_of.values()), default=0) + 1):
        prefixes = {unit_id: "-".join(parts[:length]) for unit_id, parts in parts_of.items()}
        groups = {name: number for number, name in enumerate(sorted(set(prefixes.values())))}
        for bit in range(len(groups).bit_length()):
            code = tuple(float(groups[name] >> bit & 1) for name in prefixes.values())
            codes[code] = codes[tuple(1.0 - score for score in code)] = None
    codes[(0.0,) * len(parts_of)] = codes[(1.0,) * len(parts_of)] = None
    codes[tuple(random.Random(unit_id).random() for unit_id in parts_of)] = None
    return [dict(zip(parts_of, code, strict=True)) for code in codes]


def _whole_rows(
    experiment: Experiment, request: Request, results: UnitResults, missing: Collection[str]
) -> KnownFindings:
    """Read those rows that can be chosen with --only and whose units are all done."""
    labels = [label for label in experiment.rows if request.only in label]
    complete: list[Findings] = []
    left: list[str] = []
    for label in labels:
        alone = replace(request, only=label)
        units = [unit.id for unit in experiment.plan(alone).units]
        if units and not set(units) & set(missing):
            complete.append(experiment.findings(alone, results))
        elif units:
            left.append(label)
    joined = Findings(
        rows=tuple(row for findings in complete for row in findings.rows),
        claims=tuple(claim for findings in complete for claim in findings.claims),
        remarks=tuple(
            dict.fromkeys(remark for findings in complete for remark in findings.remarks)
        ),
        columns=next((findings.columns for findings in complete), ()),
    )
    return KnownFindings(joined, tuple(left))


class _GuessedResults(UnitResults):
    """The results of a folder, with guesses for missing units."""

    def __init__(
        self,
        known: UnitResults,
        plan: Plan,
        missing: Collection[str],
        scores: Mapping[str, float],
    ) -> None:
        super().__init__(known.root)
        self._known = known
        self._missing = frozenset(missing)
        self._scores = scores
        self._calculations = {u.id: u for u in plan.units if isinstance(u, Calculation)}

    def trained_run(self, unit_id: str) -> TrainedRun:
        if unit_id not in self._missing:
            return self._known.trained_run(unit_id)
        draw = random.Random(f"{unit_id} {self._scores}")
        best = self._scores[unit_id]
        last = best * draw.random()
        return TrainedRun(
            path=unit_folder(self.root, unit_id),
            best=best,
            last=last,
            epochs=(0.3 * draw.random(), 0.5, 0.5 + 0.4 * draw.random()),  # all below 1
            train=(draw.random(), draw.random(), draw.random()),
            train_loss=(draw.random() + _LOSS, draw.random() + _LOSS, draw.random() + _LOSS),
            test=(best * draw.random(), best, last),
            seconds=0.0,
            diverged_at=None,
        )

    def calculation_result(self, unit_id: str) -> Any:
        if unit_id not in self._missing:
            return self._known.calculation_result(unit_id)
        like = self._similar_result(unit_id)
        return _perturb_value(like, random.Random(f"{unit_id} {self._scores}"))

    def seconds_of(self, *unit_ids: str, default: float = float("nan")) -> float:
        return self._known.seconds_of(*unit_ids, default=default)

    def _similar_result(self, unit_id: str) -> Any:
        """Return a result of the same function, preferably of the same cell.

        Raises:
            UserError: none is done.
        """
        wanted = self._calculations[unit_id]
        cell = _SEED.sub("", unit_id)
        done = [
            calculation.id
            for calculation in self._calculations.values()
            if calculation.function == wanted.function and calculation.id not in self._missing
        ]
        if not done:
            raise UserError(
                f"No calculation like '{unit_id}' has finished.", kind="not-done", value=unit_id
            )
        return self._known.calculation_result(
            min(done, key=lambda name: _SEED.sub("", name) != cell)
        )


def _perturb_value(value: Any, draw: random.Random) -> Any:
    """Return a JSON value of the same structure with different numbers."""
    if isinstance(value, Mapping):
        return {key: _perturb_value(item, draw) for key, item in value.items()}
    if isinstance(value, list):
        return [_perturb_value(item, draw) for item in value]
    if isinstance(value, bool):
        return draw.random() < 0.5
    if isinstance(value, int):
        return value + draw.randint(1, 9)
    if isinstance(value, float):
        return value * draw.uniform(0.5, 2.0) + draw.uniform(0.0, 1e-3)
    return value


def _agreed_findings(guessed: Sequence[Findings]) -> KnownFindings:
    first = guessed[0]
    rows = _agreed_rows([findings.rows for findings in guessed])
    claims = _common_items([findings.claims for findings in guessed])
    agreed = Findings(
        rows=tuple(row for row, _ in rows if row.values),
        claims=tuple(claims),
        figures=_agreed_figures([findings.figures for findings in guessed]),
        remarks=tuple(_common_items([findings.remarks for findings in guessed])),
        columns=first.columns,
    )
    return KnownFindings(
        agreed,
        tuple(row.label for row, complete in rows if not complete and not row.values),
        tuple(row.label for row, complete in rows if not complete and row.values),
        len(first.claims) - len(claims),
    )


def _agreed_rows(guessed: Sequence[Sequence[Row]]) -> list[tuple[Row, bool]]:
    """Return each row with the values on which all guesses agree, and whether it is complete."""
    by_name = [_by_name(rows) for rows in guessed]
    result = []
    for name, row in by_name[0].items():
        others = [rows[name].values for rows in by_name if name in rows]
        remarks = {rows[name].remark for rows in by_name if name in rows}
        epochs = {rows[name].epochs for rows in by_name if name in rows}
        known: tuple[float, ...] = ()
        if len(others) == len(guessed) and len(set(map(len, others))) == 1:
            columns = zip(*others, strict=True)
            known = tuple(column[0] for column in columns if len(set(map(repr, column))) == 1)
        complete = len(known) == len(row.values) and len(others) == len(guessed)
        progress = f"{len(known)} of {len(row.values)} {row.of} are done"
        remark = (
            "; ".join(part for part in (*remarks, progress) if part and len(remarks) == 1)
            or progress
        )
        if not complete:
            most = row.epochs if len(epochs) == 1 else math.nan
            row = replace(row, values=known, remark=remark, epochs=most)
        result.append((row, complete))
    return result


def _by_name(rows: Sequence[Row]) -> dict[tuple[str, int], Row]:
    """Return the rows by label and, as labels may repeat, their number among equal ones."""
    counts: Counter[str] = Counter()
    named = {}
    for row in rows:
        named[row.label, counts[row.label]] = row
        counts[row.label] += 1
    return named


def _agreed_figures(guessed: Sequence[Sequence[Figure]]) -> tuple[Figure, ...]:
    agreed = []
    for figure in guessed[0]:
        others = [guess for figures in guessed for guess in figures if guess.name == figure.name]
        lines = tuple(_common_items([guess.lines for guess in others]))
        images = {repr(guess.image) for guess in others}
        if len(others) == len(guessed) and (lines or (figure.image and len(images) == 1)):
            agreed.append(replace(figure, lines=lines))
    return tuple(agreed)


def _common_items(guessed: Sequence[Sequence[Any]]) -> list[Any]:
    """Return the items that occur in all sequences, compared by `repr` so that NaN equals NaN."""
    rest = [set(map(repr, items)) for items in guessed[1:]]
    return [item for item in guessed[0] if all(repr(item) in other for other in rest)]
