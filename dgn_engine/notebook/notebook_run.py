"""A recorded run in a notebook: its scores, its frames, its figures; and how one is trained."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from dgn_engine.config import RunConfig
from dgn_engine.errors import ArgumentError, UserError, did_you_mean
from dgn_engine.kernels.html_fields import html_table
from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.training import Measured
from dgn_engine.protocol.watching import ProbeScalars
from dgn_engine.storage.config_file import read_config
from dgn_engine.storage.runs.folder_layout import find_run, runs_root
from dgn_engine.storage.runs.run_folder import RunFolder, create_named
from dgn_engine.storage.runs.run_reader import RunReader, frames_in_words
from dgn_engine.text.printable import complain, printable
from dgn_engine.text.written_numbers import percent
from dgn_engine.training.headless_run import HeadlessRun
from dgn_engine.training.probes import all_probes
from dgn_engine.training.run_progress_bar import TrainProgressBar

SCORES = ("epoch", "train_loss", "train_accuracy", "test_loss", "test_accuracy")


def train(
    config: RunConfig | Mapping[str, Any] | str | Path,
    out: str | Path = "",
    *,
    probes: Sequence[str] = (),
    every: int = 0,
    quiet: bool = False,
) -> NotebookRun:
    """Train one run to its end and return it; a bar, or a line an epoch, says how far it is.

    `config`: a `RunConfig`, the same as nested dictionaries, or the path of a TOML file. `out`: a
    new folder for the run; '' makes one among your runs. `probes`: what is read and recorded as
    frames, every `every` steps, or for 0 at 40 steps spread over the run and more as time allows.
    Interrupting the kernel ends it; the folder keeps what was recorded.

    Raises `UserError` where the run cannot be carried out.
    """
    known = all_probes()
    for name in probes:
        if name not in known:
            raise ArgumentError(
                f"There is no probe '{name}'; there are {', '.join(known)}."
                f"{did_you_mean(name, known)}",
                kind="unknown-name",
            )
    if every < 0:
        raise ArgumentError(
            f"every is {every}; it is a number of steps, 0 or more.", kind="out-of-bounds"
        )
    made = _config(config)
    try:
        folder = RunFolder.create(Path(out), made) if out else create_named(runs_root(), made)
    except UserError as refusal:
        raise refusal.renamed(lambda _: ": out=….") from None
    try:
        with TrainProgressBar(sys.stderr, quiet=quiet, warn=complain) as progress:
            runner = HeadlessRun(progress, lambda: False, probes, record_every=every)
            outcome = runner.train(made, folder)
    except UserError:
        if not folder.info.begun:
            folder.discard()
        raise
    if outcome.unsaved:
        complain(outcome.unsaved)
    return NotebookRun(folder.path)


def open_run(name: str | Path) -> NotebookRun:
    """A run that was recorded: a folder, or the name of one of yours. Raises `UserError`."""
    return NotebookRun(find_run(str(name)))


class NotebookRun:
    """One recorded run, read when it is asked; one that is being written is read anew each time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config: RunConfig = RunReader(path).config

    @cached_property
    def _ended(self) -> RunReader:
        return RunReader(self.path)

    @property
    def reader(self) -> RunReader:
        """All that the folder says, in the words of the engine."""
        reader = RunReader(self.path)
        return reader if reader.status == "running" else self._ended

    @property
    def status(self) -> str:
        """'finished', 'stopped', 'diverged', 'failed', 'interrupted', or 'running' elsewhere."""
        return RunReader(self.path).status

    @property
    def steps(self) -> tuple[int, ...]:
        """The steps of which there is a frame."""
        return tuple(sorted({one.step for one in self.reader.frames}))

    def frame(self, step: int | None = None) -> Frame:
        """What the probes read at a recorded step; None is the last one.

        `frame.readings["npk"].arrays` are numpy arrays. Raises `UserError`, which names the
        nearest recorded steps.
        """
        if step is None:
            step = self.steps[-1] if self.steps else 0
        return self.reader.frame(step)

    def scores(self) -> dict[str, list[float | None]]:
        """Columns 'step' and `SCORES`, one row for each time that scores were measured."""
        rows = self.reader.measured
        columns: dict[str, list[float | None]] = {"step": [row.step for row in rows]}
        return columns | {name: [getattr(row, name) for row in rows] for name in SCORES}

    def to_pandas(self) -> Any:
        """A data frame by step: scores, and what probes traced as 'probe.name'.

        Where several values fall on one step the last counts. Raises `UserError` where pandas is
        not installed.
        """
        try:
            import pandas
        except ModuleNotFoundError:
            raise UserError(
                "to_pandas needs pandas, which is not installed: "
                "pip install 'dgn-viewer[notebook]'.",
                kind="not-installed",
            ) from None
        rows = self._rows()
        table = pandas.DataFrame.from_dict(rows, orient="index").astype(float)
        table.index.name = "step"
        return table.sort_index()

    def _rows(self) -> dict[int, dict[str, float]]:
        """By step: scores and traced scalars, by name."""
        rows: dict[int, dict[str, float]] = {}
        for event in self.reader.log.each_event():
            if isinstance(event, Measured):
                found = {name: getattr(event, name) for name in SCORES}
                known = {name: value for name, value in found.items() if value is not None}
                rows.setdefault(event.step, {}).update(known)
            elif isinstance(event, ProbeScalars):
                named = {f"{event.probe}.{name}": v for name, v in event.values.items()}
                rows.setdefault(event.step, {}).update(named)
        return rows

    def figure(self, panel: str, step: int | Sequence[int] | None = None, **style: Any) -> Any:
        """A panel as a figure of matplotlib; see `dgn.figure`."""
        from dgn_engine.notebook.notebook_figure import figure

        return figure(self, panel, step, **style)

    def facts(self) -> dict[str, str]:
        """What it is and how it went, in words."""
        reader = self.reader
        summary, config = reader.log.summary, self.config
        best = summary.best_of_all.accuracy
        known = best == best
        started = reader.started
        regime = summary.regime or (config.gating.regime if started is None else started.regime)
        by = "" if started is None else started.watched
        return {
            "run": self.path.name,
            "status": f"{reader.status}, step {reader.step:,}",
            "network": config.net.short,
            "data": config.data.name,
            "regime": regime,
            **({"trained by": by} if by else {"seed": str(config.seed)}),
            "best test accuracy": percent(best, 2) if known else "none measured",
            "frames": frames_in_words(reader.frames) or "none",
            **({"log": reader.log.lost_in_words} if reader.log.lost_in_words else {}),
        }

    def __repr__(self) -> str:
        facts = self.facts()
        return f"<run {facts['run']}: {facts['regime']}, {facts['status']}>"

    def _repr_html_(self) -> str:
        """A table of `facts`, in a notebook."""
        return html_table({name: printable(value) for name, value in self.facts().items()})


def _config(given: RunConfig | Mapping[str, Any] | str | Path) -> RunConfig:
    if isinstance(given, RunConfig):
        return given
    if isinstance(given, Mapping):
        return RunConfig.from_dict(dict(given))
    return read_config(Path(given))
