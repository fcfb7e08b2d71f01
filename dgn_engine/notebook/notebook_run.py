"""Train a run in a notebook, and read recorded runs: scores, frames and figures."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from dgn_engine.config import RunConfig
from dgn_engine.errors import ArgumentError, UserError, did_you_mean, how_to_install
from dgn_engine.kernels.html_fields import html_table
from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.training import Measured
from dgn_engine.protocol.watching import ProbeScalars
from dgn_engine.storage.config_file import read_config
from dgn_engine.storage.runs.folder_layout import find_run, runs_root
from dgn_engine.storage.runs.run_folder import RunFolder, create_named
from dgn_engine.storage.runs.run_reader import RunReader, frames_in_words
from dgn_engine.text.printable import print_error, printable
from dgn_engine.text.written_numbers import format_percent
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
    """Train one run to its end. A progress bar, or a line per epoch, shows how far it is.

    Interrupting the kernel stops the run; its folder keeps what was recorded.

    Args:
        config: A `RunConfig`, the same as nested dictionaries, or the path of a TOML file.
        out: A new folder for the run; '' creates one among your runs.
        probes: The probes to compute and record as frames; none by default.
        every: Steps between two frames; 0 spreads 40 over the run, and more as time allows.
        quiet: Whether to show no progress.

    Returns:
        The recorded run.

    Raises:
        UserError: The run cannot be started.
    """
    known = all_probes()
    for name in probes:
        if name not in known:
            raise ArgumentError(
                f"Unknown probe '{name}'. Available: {', '.join(known)}."
                f"{did_you_mean(name, known)}",
                kind="unknown-name",
            )
    if every < 0:
        raise ArgumentError(
            f"every is {every}; pass a number of steps, 0 or more.", kind="out-of-bounds"
        )
    run_config = _as_run_config(config)
    try:
        folder = (
            RunFolder.create(Path(out), run_config)
            if out
            else create_named(runs_root(), run_config)
        )
    except UserError as refusal:
        raise refusal.rename_places(lambda _: ": out=….") from None
    try:
        with TrainProgressBar(sys.stderr, quiet=quiet, warn=print_error) as progress:
            runner = HeadlessRun(progress, lambda: False, probes, record_every=every)
            outcome = runner.train(run_config, folder)
    except UserError:
        if not folder.info.was_built:
            folder.discard_folder()
        raise
    if outcome.unsaved:
        print_error(outcome.unsaved)
    return NotebookRun(folder.path)


def open_run(name: str | Path) -> NotebookRun:
    """Open a recorded run.

    Args:
        name: Its folder, or its name among your runs.

    Returns:
        The run.

    Raises:
        UserError: There is no such run.
    """
    return NotebookRun(find_run(str(name)))


class NotebookRun:
    """One recorded run, read on access; a run that is still being written is read again each time.

    Args:
        path: The run folder.

    Attributes:
        path: The same.
        config: The run's configuration.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config: RunConfig = RunReader(path).config

    @cached_property
    def _ended_reader(self) -> RunReader:
        return RunReader(self.path)

    @property
    def reader(self) -> RunReader:
        """Everything in the folder, as the engine reads it.

        Returns:
            The reader; a new one on each access while the run is being written.
        """
        reader = RunReader(self.path)
        return reader if reader.status == "running" else self._ended_reader

    @property
    def status(self) -> str:
        """The state of the run.

        Returns:
            'finished', 'stopped', 'diverged', 'failed', 'interrupted', or 'running' in another
                process.
        """
        return RunReader(self.path).status

    @property
    def steps(self) -> tuple[int, ...]:
        """The steps with a recorded frame.

        Returns:
            The steps, in increasing order.
        """
        return tuple(sorted({frame.step for frame in self.reader.frames}))

    def frame(self, step: int | None = None) -> Frame:
        """Return the readings of all probes at a recorded step.

        Args:
            step: A recorded step; None is the last one.

        Returns:
            The frame; `frame.readings["npk"].arrays` are numpy arrays.

        Raises:
            UserError: Nothing was recorded at this step; the nearest recorded steps are listed.
        """
        if step is None:
            step = self.steps[-1] if self.steps else 0
        return self.reader.frame_of_step(step)

    def scores(self) -> dict[str, list[float | None]]:
        """Return losses and accuracies as columns.

        Returns:
            'step' and each of `SCORES`, one entry per measurement; None where a score was not
                measured.
        """
        rows = self.reader.measured_events
        columns: dict[str, list[float | None]] = {"step": [row.step for row in rows]}
        return columns | {name: [getattr(row, name) for row in rows] for name in SCORES}

    def to_pandas(self) -> Any:
        """Return scores and traced scalars as a data frame, indexed by step.

        Returns:
            One column for each of `SCORES` and for each 'probe.name'. If a step has several values,
                the last is used.

        Raises:
            UserError: pandas is not installed.
        """
        try:
            import pandas
        except ModuleNotFoundError:
            raise UserError(
                f"to_pandas needs pandas. {how_to_install('pandas')}",
                kind="not-installed",
            ) from None
        rows = self._rows_by_step()
        table = pandas.DataFrame.from_dict(rows, orient="index").astype(float)
        table.index.name = "step"
        return table.sort_index()

    def _rows_by_step(self) -> dict[int, dict[str, float]]:
        """Return scores and traced scalars, by step and name."""
        rows: dict[int, dict[str, float]] = {}
        for event in self.reader.log.each_event():
            if isinstance(event, Measured):
                scores = {name: getattr(event, name) for name in SCORES}
                measured = {name: value for name, value in scores.items() if value is not None}
                rows.setdefault(event.step, {}).update(measured)
            elif isinstance(event, ProbeScalars):
                scalars = {f"{event.probe}.{name}": v for name, v in event.values.items()}
                rows.setdefault(event.step, {}).update(scalars)
        return rows

    def figure(self, panel: str, step: int | Sequence[int] | None = None, **style: Any) -> Any:
        """Draw a panel as a matplotlib figure; see `dgn.figure`.

        Args:
            panel: A panel, such as 'spectrum', or several on one page: 'ntk,overlap'.
            step: A recorded step, or two; None is the last.
            style: Further arguments of `dgn.figure`.

        Returns:
            The figure.
        """
        from dgn_engine.notebook.notebook_figure import figure

        return figure(self, panel, step, **style)

    def facts(self) -> dict[str, str]:
        """Summarise the run.

        Returns:
            Text by heading: status, network, data, regime, best test accuracy, ….
        """
        reader = self.reader
        summary, config = reader.log.summary, self.config
        best = summary.best_of_all.accuracy
        is_measured = best == best
        started = reader.start_event
        regime = summary.regime or (config.gating.regime if started is None else started.regime)
        owner = "" if started is None else started.watched
        return {
            "run": self.path.name,
            "status": f"{reader.status}, step {reader.step:,}",
            "network": config.net.display_name,
            "data": config.data.name,
            "regime": regime,
            **({"trained by": owner} if owner else {"seed": str(config.seed)}),
            "best test accuracy": format_percent(best, 2) if is_measured else "none measured",
            "frames": frames_in_words(reader.frames) or "none",
            **({"log": reader.log.lost_in_words} if reader.log.lost_in_words else {}),
        }

    def __repr__(self) -> str:
        facts = self.facts()
        return f"<run {facts['run']}: {facts['regime']}, {facts['status']}>"

    def _repr_html_(self) -> str:
        """Return `facts` as an HTML table."""
        return html_table({name: printable(value) for name, value in self.facts().items()})


def _as_run_config(given: RunConfig | Mapping[str, Any] | str | Path) -> RunConfig:
    if isinstance(given, RunConfig):
        return given
    if isinstance(given, Mapping):
        return RunConfig.from_dict(dict(given))
    return read_config(Path(given))
