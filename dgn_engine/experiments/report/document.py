"""`results.json`: the whole result of one reproduction; free of torch, so that the viewer reads it.

Numbers that do not exist (NaN) are null in the file.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from dgn_engine.errors import UserError
from dgn_engine.experiments.report.result_layout import RESULTS
from dgn_engine.protocol.experiments import Claim, Figure, Printed
from dgn_engine.storage.inner_path import inside
from dgn_engine.storage.plain_data import from_plain, to_plain
from dgn_engine.storage.regular_files import read_text
from dgn_engine.text.printable import printable_tree

FORMAT = "dgn-viewer result 1"
_AS_IT_IS = frozenset(("command", "request", "details"))  # for the program; else shown escaped
_FILE = re.compile(r"[\w.()+-]+")  # name of a figure's files
# Commands that make a result, with the options that they write down.
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
    """A row with its mean, the half-width of its 95 % interval (NaN below two values), and the
    difference to what was printed (NaN where nothing was) with its two-sided p after Welch (NaN
    where no ± was printed, or with fewer than two values).
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
    of: str = "seeds"  # what one value stands for
    welch_p: float = math.nan  # of the printed mean
    place: tuple[str, str] | None = None  # row and column in the table of the paper


@dataclass(frozen=True)
class ReportUnit:
    """One run or calculation: its state and how long it took."""

    id: str
    state: str
    seconds: float = math.nan
    trouble: str = ""


@dataclass(frozen=True)
class Document:
    """The content of `results.json`; its texts are made printable, whoever wrote the file.

    `scale`: 'quick', 'full', 'reduced' or 'changed' (`RunScale`); it and `protocol` are '' of what
    reproduces no paper. `notices`: sentences in its head, on data or a scale that are not the
    paper's. `answer`: sentences above the rows;
    `seconds`: of all runs and calculations; `made`: ISO 8601 with its zone; `request`, `machine`
    and `details`: plain values by name.
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
    command: tuple[str, ...] = ()  # what follows `dgn` to go on with it, or to make it again
    columns: tuple[str, ...] = ()  # of the paper's table in its order; empty: as they come
    format: str = field(default=FORMAT)

    def __post_init__(self) -> None:
        for item in fields(self):
            if item.name not in _AS_IT_IS:
                value = getattr(self, item.name)
                object.__setattr__(self, item.name, printable_tree(value, _AS_IT_IS))


def to_bytes(document: Document) -> bytes:
    tree = to_plain(document, nonfinite="null")
    return (json.dumps(tree, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def goes_on_in(document: Document, folder: Path) -> bool:
    """Whether the command of a result may be run to go on with it.

    A file of others could name any command, so that only one which makes a result does, with
    the options that this program writes down, and into the folder of the result itself.
    """
    if not document.command:
        return False
    maker, *words = document.command
    options = [word.partition("=")[0] for word in words if word.startswith("-")]
    if maker not in _MAKERS or not set(options) <= _MAKERS[maker] or options.count("--out") != 1:
        return False
    place = words.index("--out") + 1 if "--out" in words else len(words)
    return place < len(words) and Path(words[place]).absolute() == folder.absolute()


def read(folder: Path) -> Document:
    """Read the result in a folder, or a result's file; raises `UserError`."""
    # What sums up a sweep reads runs; the window, which shows no result yet, waits for this module.
    from dgn_engine.sweep.summary import FORMAT as SWEEP_FORMAT

    path = folder if folder.is_file() else inside(folder) / RESULTS
    try:
        tree = json.loads(read_text(path))
    except FileNotFoundError:
        raise UserError(
            f"{folder} holds no result: there is no {RESULTS} in it.",
            kind="no-file",
            value=str(folder),
        ) from None
    except OSError as error:
        raise UserError(
            f"{path} cannot be read: {error.strerror}.", kind="no-file", value=str(path)
        ) from None
    except (ValueError, RecursionError):
        raise UserError(f"{path} is no sound JSON.", kind="damaged", value=str(path)) from None
    if isinstance(tree, dict) and tree.get("format") == SWEEP_FORMAT:
        tree = tree.get("report")
    if not isinstance(tree, dict) or tree.get("format") != FORMAT:
        raise UserError(
            f"{path} is no result of dgn reproduce, or of another version of it.",
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
                f"{path} is damaged: '{figure.name}' is no name of a figure.",
                kind="damaged",
                value=figure.name,
            )
    return document
