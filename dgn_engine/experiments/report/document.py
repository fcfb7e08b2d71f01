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
from dgn_engine.experiments.report.result_layout import RESULTS
from dgn_engine.frozen_data import dataclass
from dgn_engine.protocol.experiments import Claim, Figure, Printed
from dgn_engine.storage.inner_path import inner_folder
from dgn_engine.storage.plain_data import from_plain, to_plain
from dgn_engine.storage.regular_files import read_text
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
}
State = Literal["running", "done", "interrupted", "failed"]


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
        welch_p: two-sided p of Welch's test against the printed mean, NaN without a printed ± or
            below two values.
        place: row and column in the paper's table, if any.
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
    welch_p: float = math.nan
    place: tuple[str, str] | None = None


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
    if not document.command:
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
