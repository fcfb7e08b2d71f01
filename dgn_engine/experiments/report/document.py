"""`results.json`: the complete result of a reproduction, readable without torch.

NaN is stored as null.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import field, fields
from pathlib import Path
from typing import Any, Literal

from dgn_engine.errors import UserError
from dgn_engine.experiments.report.result_layout import REPORT, RESULTS
from dgn_engine.frozen_data import dataclass
from dgn_engine.protocol.experiments import PRINTED_RUNS, Claim, Figure, Outlier, Printed
from dgn_engine.storage.inner_path import inner_folder
from dgn_engine.storage.plain_data import from_plain, to_plain
from dgn_engine.storage.regular_files import read_text
from dgn_engine.sweep.statistics import welch_difference
from dgn_engine.text.printable import printable_tree

FORMAT = "dgn-viewer result 1"
_AS_IT_IS = frozenset(("command", "request", "details"))  # not made printable: used by the program
_FILE = re.compile(r"[\w.()+-]+")  # valid names of figures
# Commands that create results, with the options that they record.
_MAKERS = {
    "reproduce": frozenset(
        f"--{name}"
        for name in (
            "quick",
            "full",
            "protocol",
            "seeds",
            "seed-start",
            "epochs",
            "only",
            "data",
            "data-root",
            "train-limit",
            "test-limit",
            "steps",
            "augmentation",
            "device",
            "out",
        )
    ),
    "sweep": frozenset(("--out",)),
    "gate-information": frozenset(("--seeds", "--value-input", "--out")),
    "report": frozenset(("--config", "--seconds", "--only", "--out")),
}
State = Literal["running", "done", "interrupted", "failed"]


@dataclass(frozen=True)
class Agreement:
    """The agreement of a measured mean with the printed one: a test of equivalence.

    Two one-sided Welch tests at 5 % each (D. J. Schuirmann, J. Pharmacokinet. Biopharm. 15 (1987)
    657). The test set adds no error, since the authors scored their networks on the same images.

    Attributes:
        within: the smallest margin within which the means agree; NaN if unknown.
        margin: the margin declared before the run; NaN if none was.
        verdict: 'agrees' if the means agree within that margin, 'differs' if they are proved to
            differ by more, otherwise 'open'; '' without a margin, or if nothing varies.
    """

    within: float = math.nan
    margin: float = math.nan
    verdict: Literal["agrees", "differs", "open", ""] = ""


@dataclass(frozen=True)
class ReportRow:
    """A row with its statistics.

    Attributes:
        label: its title.
        values: one value per replicate.
        mean: their mean.
        half_width: half-width of the 95 % interval, NaN below two values.
        printed: the paper's number, if any.
        difference: mean minus the printed number, NaN without one.
        unit: '%' or ''.
        epochs: epochs trained, NaN if not applicable.
        seconds: time of all runs and calculations.
        remark: a phrase for the reader.
        of: what the values are: 'seeds', 'draws'.
        place: row and column in the paper's table, if any.
        outlier: the outlier among the values.
    """

    label: str
    values: tuple[float, ...]
    mean: float
    half_width: float
    printed: Printed | None
    difference: float
    unit: str = "%"
    epochs: float = math.nan
    seconds: float = 0.0
    remark: str = ""
    of: str = "seeds"
    place: tuple[str, str] | None = None
    outlier: Outlier | None = None

    @property
    def agreement(self) -> Agreement:
        """Agreement with the printed mean; unknown without a printed ± or below two values."""
        if self.printed is None:
            return Agreement()
        printed, margin = self.printed, self.printed.margin
        test = welch_difference(self.values, printed.value, printed.spread, PRINTED_RUNS)
        low, high = test.interval(0.90)
        within = max(-low, high)
        if not test.error > 0 or math.isnan(margin):
            return Agreement(within, margin)
        differs = low > margin or high < -margin
        return Agreement(
            within, margin, "agrees" if within <= margin else "differs" if differs else "open"
        )


@dataclass(frozen=True)
class ReportUnit:
    """A run or calculation with its state and duration."""

    id: str
    state: str
    seconds: float = math.nan
    trouble: str = ""


@dataclass(frozen=True)
class Document:
    """The content of `results.json`; its texts are made printable, as anybody may have written it.

    Attributes:
        name: the experiment, or the sweep.
        title, paper, about: of the experiment.
        scale: 'quick', 'full', 'reduced' or 'changed' (see `RunScale`); '' if it reproduces no
            paper.
        protocol: 'as-published' or 'as-in-code'; '' if it reproduces no paper.
        request: the options.
        made: date and time, ISO 8601 with time zone.
        state: whether it is complete.
        versions, machine: software and hardware.
        seconds: time of all runs and calculations.
        rows, claims, figures: the results.
        remarks: sentences on the results.
        scaled_down: how it differs from the paper's scale.
        choices: what the paper leaves open.
        units: its runs and calculations.
        answer: sentences above the rows.
        details: further values by name.
        notices: sentences at the top, on data or a scale that are not the paper's.
        command: arguments of `dgn` to resume or repeat it.
        columns: columns of the paper's table in order; empty: in order of appearance.
        estimated: estimated time of all runs and calculations on CPUs, NaN if unknown.
    """

    name: str
    title: str
    paper: str
    about: str
    scale: str
    protocol: str
    request: Mapping[str, Any]
    made: str
    state: State
    versions: Mapping[str, str]
    machine: Mapping[str, Any]
    seconds: float
    rows: tuple[ReportRow, ...] = ()
    claims: tuple[Claim, ...] = ()
    figures: tuple[Figure, ...] = ()
    remarks: tuple[str, ...] = ()
    scaled_down: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    units: tuple[ReportUnit, ...] = ()
    answer: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    estimated: float = math.nan
    format: str = field(default=FORMAT)

    def __post_init__(self) -> None:
        for item in fields(self):
            if item.name not in _AS_IT_IS:
                value = getattr(self, item.name)
                object.__setattr__(self, item.name, printable_tree(value, _AS_IT_IS))


def to_bytes(document: Document) -> bytes:
    tree = to_plain(document, nonfinite="null")
    return (json.dumps(tree, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def can_resume_in(document: Document, folder: Path) -> bool:
    """Return whether it is safe to run a result's command in order to resume it.

    A foreign file could contain any command, so only commands that create results are allowed,
    with the options that this program records, and only in the result's own folder.
    """
    if not document.command or document.name == REPORT:  # a report is written anew, not resumed
        return False
    maker, *arguments = document.command
    options = [word.partition("=")[0] for word in arguments if word.startswith("-")]
    if maker not in _MAKERS or not set(options) <= _MAKERS[maker] or options.count("--out") != 1:
        return False
    index = arguments.index("--out") + 1 if "--out" in arguments else len(arguments)
    return index < len(arguments) and Path(arguments[index]).absolute() == folder.absolute()


def read_document(folder: Path) -> Document:
    """Read a result from its folder or file; raises `UserError`."""
    # Imported late: it is slow, and the window imports this module before it shows any result.
    from dgn_engine.sweep.summary import FORMAT as SWEEP_FORMAT

    path = folder if folder.is_file() else inner_folder(folder) / RESULTS
    try:
        tree = json.loads(read_text(path))
    except FileNotFoundError:
        raise UserError(
            f"{folder} has no result: {RESULTS} is missing.",
            kind="no-file",
            value=str(folder),
        ) from None
    except OSError as error:
        raise UserError(
            f"Cannot read {path}: {error.strerror}.", kind="no-file", value=str(path)
        ) from None
    except (ValueError, RecursionError):
        raise UserError(f"{path} is not valid JSON.", kind="damaged", value=str(path)) from None
    if isinstance(tree, dict) and tree.get("format") == SWEEP_FORMAT:
        tree = tree.get("report")
    if not isinstance(tree, dict) or tree.get("format") != FORMAT:
        raise UserError(
            f"{path} is not a result of dgn reproduce, or was written by another version.",
            kind="wrong-file",
            value=str(path),
        )
    rows = tree.get("rows")
    if isinstance(rows, list):
        for row in rows:
            if isinstance(row, dict):
                row.pop("welch_p", None)  # in results of 0.2 and before; `agreement` replaces it
    try:
        document: Document = from_plain(Document, tree)
    except (TypeError, ValueError, KeyError) as error:
        raise UserError(f"{path} is damaged: {error}.", kind="damaged", value=str(path)) from None
    for figure in document.figures:
        if not _FILE.fullmatch(figure.name) or figure.name.startswith("."):
            raise UserError(
                f"{path} is damaged: '{figure.name}' is not a valid figure name.",
                kind="damaged",
                value=figure.name,
            )
    return document
