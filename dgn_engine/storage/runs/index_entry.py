"""The entry of one run in the list of runs, read from its folder or from the cache."""

from __future__ import annotations

import json
import math
import os
from datetime import datetime
from pathlib import Path

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.frozen_data import dataclass
from dgn_engine.protocol.runs import ListedFacts
from dgn_engine.protocol.training import RunStarted
from dgn_engine.protocol.trend import is_trend
from dgn_engine.storage.runs import folder_layout
from dgn_engine.storage.runs.run_notes import RunNotes, read_notes
from dgn_engine.storage.runs.run_ranges import is_count, is_time, is_word
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.text.printable import plain_text

_DEEPEST = 8  # nested folders whose files are counted; a run has three
_CREATED = 40  # characters
_TROUBLE = 300
UNKNOWN = "unknown regime"  # of its last scores: the log has lost lines


@dataclass(frozen=True, kw_only=True)
class IndexEntry(ListedFacts):
    """One run in the index; raises `ValueError` if a number is out of range.

    `stamp`: names, sizes and times of the files it was read from.
    """

    stamp: str

    def __post_init__(self) -> None:
        counts = (self.step, self.total_steps, self.seed, self.best_step, self.bytes)
        words = (self.created, self.status, self.regime, self.net, self.data, self.trouble)
        if not all(map(is_count, counts)) or not is_time(self.seconds):
            raise ValueError("a number is out of range")
        if type(self.best) is not float or not (0 <= self.best <= 1 or self.best != self.best):
            raise ValueError(f"an accuracy of {self.best}")
        if not all(map(is_word, (*words, self.name, self.stamp))):
            raise ValueError("a name of unreasonable length")
        if not isinstance(self.given_name, str) or not isinstance(self.notes, str):
            raise ValueError("notes of the wrong type")
        if type(self.resumable) is not bool:
            raise ValueError("`resumable` of the wrong type")
        if not is_trend(self.trend) or not _are_settings(self.settings):
            raise ValueError("settings or a trend of the wrong type")


def read_entry(folder: Path, stamp: str) -> IndexEntry | None:
    """Read one run; None if it was removed a moment ago."""
    try:
        return _read_run(folder, stamp)
    except UserError as refusal:
        trouble = str(refusal)
    except Exception as error:  # one run's problem must not hide the others
        trouble = f"It cannot be read: {type(error).__name__}: {error}"
    if not folder.exists():
        return None
    return _damaged_entry(folder, stamp, trouble)


def _damaged_entry(folder: Path, stamp: str, trouble: str) -> IndexEntry:
    """Return an entry with the `trouble`, without the path of its folder, which is shown anyway."""
    words = plain_text(
        trouble.replace(f"{folder}/", "").replace(str(folder), folder.name), _TROUBLE
    )
    return IndexEntry(
        name=folder.name,
        stamp=stamp,
        status="damaged",
        step=0,
        total_steps=0,
        regime="",
        net="",
        data="",
        seed=0,
        best=math.nan,
        bytes=_folder_bytes(folder),
        resumable=is_resumable(folder),
        trouble=words,
    )


def _read_run(folder: Path, stamp: str) -> IndexEntry:
    reader = RunReader(folder)
    config, started, summary = reader.config, reader.start_event, reader.log.summary
    first = config.gating.regime if started is None else started.regime
    notes = read_notes(folder) if folder_layout.NOTES in stamp else RunNotes()
    return IndexEntry(
        name=folder.name,
        stamp=stamp,
        created=_creation_time(reader.info.get("created")),
        status=reader.outcome,
        step=reader.step,
        total_steps=started.total_steps if started is not None else 0,
        regime=plain_text(summary.regime or first) if summary.regime_known else UNKNOWN,
        net=plain_text(config.net.display_name if started is None else started.network_name),
        data=plain_text(config.data.name),
        seed=config.seed,
        best=summary.best.accuracy,
        best_step=summary.best.step,
        seconds=summary.seconds,
        bytes=_folder_bytes(folder),
        resumable=is_resumable(folder),
        trouble=reader.log.lost_in_words,
        given_name=notes.name,
        notes=notes.notes,
        settings=searched_settings(config, started),
        trend=summary.trend,
    )


def searched_settings(config: RunConfig, started: RunStarted | None) -> dict[str, float | str]:
    """Return the settings that runs are searched by (`run_search.FIELDS`)."""
    training, options = config.training, dict(config.net.options)
    settings: dict[str, float | str] = {
        "lr": training.learning_rate,
        "batch": training.batch,
        "optimiser": training.optimiser,
        "input": config.gating.value_input,
    }
    layers = started.layers if started is not None else ()
    if layers and all(layer.kind == "dense" for layer in layers):
        settings["depth"] = len(layers) + 1  # weight layers
        widths = {layer.shape[0] for layer in layers}
        if len(widths) == 1:
            settings["width"] = widths.pop()
    for name in ("depth", "width"):
        if isinstance(value := options.get(name), int):
            settings.setdefault(name, value)
    return settings


def _are_settings(value: object) -> bool:
    return isinstance(value, dict) and all(
        is_word(name) and (is_word(item) or (type(item) in (int, float) and math.isfinite(item)))
        for name, item in value.items()
    )


def _creation_time(word: object) -> str:
    """Return a valid ISO 8601 time, or ''."""
    if not isinstance(word, str) or len(word) > _CREATED:
        return ""
    try:
        datetime.fromisoformat(word)
    except ValueError:
        return ""
    return word


def _folder_bytes(folder: Path) -> int:
    """Return the bytes of the regular files of a run; links in it are not followed."""
    total, inner = 0, [(str(folder), 1)]
    while inner:
        path, depth = inner.pop()
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        inner += [(entry.path, depth + 1)] if depth < _DEEPEST else []
                    elif entry.is_file(follow_symlinks=False):
                        total += entry.stat(follow_symlinks=False).st_size
        except OSError:  # it was removed, or is not readable
            continue
    return min(total, 1 << 53)


def is_resumable(folder: Path) -> bool:
    try:
        names = os.listdir(folder / folder_layout.CHECKPOINTS)  # noqa: PTH208
    except OSError:
        return False
    return any(folder_layout.checkpoint_key(name) is not None for name in names)


def encode_entry(entry: IndexEntry) -> bytes:
    return json.dumps(vars(entry)).encode()


def decode_entry(name: str, content: bytes, stamp: str) -> IndexEntry | None:
    """Decode an entry; None if it is damaged or of another name or stamp."""
    try:
        entry = IndexEntry(**json.loads(str(content, "ascii")))
    except (TypeError, ValueError, RecursionError):
        return None
    return entry if entry.name == name and entry.stamp == stamp else None
