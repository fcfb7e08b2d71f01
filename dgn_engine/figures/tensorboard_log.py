"""Runs in TensorBoard: recorded scalars under the names of their sources, panels as images.

The files are written by TensorBoard's own writer, `torch.utils.tensorboard.SummaryWriter`, which
needs the package `tensorboard`. A live run can use any object with its methods `add_scalar` and
`add_image`.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from PIL import Image

from dgn_engine.errors import UserError, how_to_install
from dgn_engine.figures.figure_style import FigureStyle
from dgn_engine.figures.provenance import FigurePanel, make_provenance
from dgn_engine.figures.recorded_pages import pages_of_run
from dgn_engine.figures.save_figure import page_bytes
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.runs import TRAINING, scores_of
from dgn_engine.protocol.training import Measured
from dgn_engine.protocol.watching import ProbeScalars
from dgn_engine.scene.elements import Array, Scene
from dgn_engine.scene.panel_spec import PanelSpec, View, all_panels
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.storage.session_file.loaded_run import read_run
from dgn_engine.views.drawn_panel import DrawnPanel
from dgn_engine.views.recorded_view import recorded_history

MOST_PICTURES = 10  # steps at which each panel is drawn, evenly spread over the recorded ones
_STYLE = FigureStyle(width=7.0, dpi=110)


class SummaryWriter(Protocol):
    """What is used of `torch.utils.tensorboard.SummaryWriter`."""

    def add_scalar(
        self, tag: str, scalar_value: float, global_step: int, walltime: float | None = None
    ) -> object: ...

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int,
        walltime: float | None = None,
        dataformats: str = "HWC",
    ) -> object: ...


def event_scalars(event: Event) -> Mapping[str, float]:
    """Return the scalars of an event by tag: 'training/test_accuracy', 'npk/nu'.

    Values of another sample than the run's own probe examples have tags of their own, because they
    belong to another curve: 'npk/nu, 16 of 64 examples'.
    """
    match event:
        case Measured():
            return {
                f"{TRAINING}/{name}": value
                for name, value in scores_of(event).items()
                if not (name.endswith("accuracy") and math.isnan(value))  # not known
            }
        case ProbeScalars(probe=probe, values=values):
            sample = _describe_sample(event)
            return {f"{probe}/{name}{sample}": value for name, value in values.items()}
    return {}


def _describe_sample(event: ProbeScalars) -> str:
    words = ""
    if event.examples:
        words += f", {event.examples} of {event.of} examples" if event.of else ""
        words += "" if event.of else f", {event.examples} examples"
    return f"{words}, probe set {event.chosen}" if event.chosen else words


def write_event(
    writer: SummaryWriter, event: Event, at: float | None = None, prefix: str = ""
) -> int:
    """Write the scalars of an event; return how many.

    Args:
        writer: Where to.
        event: Any event; most have no scalars.
        at: Seconds since 1970; None is now.
        prefix: Of every tag.
    """
    scalars = event_scalars(event)
    for tag, value in scalars.items():
        step: int = event.step  # type: ignore[attr-defined] # of those with scalars
        writer.add_scalar(f"{prefix}{tag}", value, step, at)
    return len(scalars)


def write_panels(
    writer: SummaryWriter, view: View, specs: Mapping[str, PanelSpec], prefix: str = ""
) -> int:
    """Write a picture of each panel that has something to show; return how many.

    A picture is of the step of the view; its caption says of which step its readings are.
    """
    pictures = 0
    for name, spec in specs.items():
        shown = DrawnPanel(spec).draw(view)
        if isinstance(shown, Scene):
            panel = FigurePanel(name, shown, make_provenance(view, spec, shown))
            _write_picture(writer, panel, view.step, prefix)
            pictures += 1
    return pictures


def _write_picture(writer: SummaryWriter, panel: FigurePanel, step: int, prefix: str = "") -> None:
    pixels = panel_pixels(panel)
    writer.add_image(f"{prefix}panels/{panel.name}", pixels, step, dataformats="HWC")


def panel_pixels(panel: FigurePanel) -> Array:
    """Return the panel as `dgn figure` draws it: (height, width, 3) of uint8."""
    with Image.open(io.BytesIO(page_bytes([panel], "png", _STYLE))) as picture:
        return np.array(picture.convert("RGB"))


def drawable_panels(probes: Iterable[str]) -> dict[str, PanelSpec]:
    """Return the panels that need no other probes than these, by id."""
    known = set(probes)
    return {name: spec for name, spec in all_panels().items() if known.issuperset(spec.probes)}


def export_to_tensorboard(folder: Path, out: Path) -> str:
    """Write a recorded run for TensorBoard; return a sentence on what was written.

    Args:
        folder: A run folder.
        out: A new or empty folder, usually within the log folder that TensorBoard shows.

    Raises:
        UserError: The run cannot be read, `out` cannot be used, or tensorboard is not installed.
    """
    reader = RunReader(folder)
    loaded = read_run(folder, framed=False)
    if out.absolute().is_relative_to(folder.absolute()):
        raise UserError(
            f"{out} is in the folder of the run, which only its recorder writes. Give another.",
            kind="in-run",
            value=str(out),
        )
    writer = new_writer(out)
    try:
        scalars = sum(write_event(writer, event, at) for at, event in reader.log.each_timed_event())
        recorded = loaded.frame.readings if loaded.frame is not None else {}
        pictures = 0
        for name, spec in drawable_panels(recorded).items():
            try:
                pages = pages_of_run(loaded, {name: spec}, {}, (0, None), MOST_PICTURES)
            except UserError as refusal:
                if refusal.kind != "out-of-bounds":
                    raise
                # It can be drawn at one recorded step, if at all: at the last one.
                last = recorded_history(loaded, spec.probes).view({})
                pictures += write_panels(writer, last, {name: spec})
                continue
            for step, (panel,) in zip(pages.steps, pages.pages, strict=True):
                _write_picture(writer, panel, step)
                pictures += 1
        writer.flush()
        writer.close()
    except OSError as error:  # of the disk; what the writer still has cannot be written either
        with suppress(OSError):
            writer.close()
        raise _explain_unwritable(out, error) from None
    except BaseException:
        writer.close()
        raise
    lost = f"; {reader.log.lost_in_words}" if reader.log.lost_in_words else ""
    drawn = f"{pictures:,} picture{'' if pictures == 1 else 's'} of panels"
    return f"{out}: {scalars:,} scalars and {drawn}{lost}."


def new_writer(out: Path) -> Any:
    """Return a `SummaryWriter` for a new or empty folder.

    Raises:
        UserError: The folder cannot be used, or tensorboard is not installed.
    """
    try:
        is_file, is_used = out.exists() and not out.is_dir(), out.is_dir() and any(out.iterdir())
    except (OSError, ValueError) as error:  # too long for a name, not readable, a zero byte
        raise _explain_unwritable(out, error) from None
    if is_file:
        raise UserError(f"{out} is a file; give a folder.", kind="not-a-folder", value=str(out))
    if is_used:
        raise UserError(
            f"{out} is not empty; TensorBoard would mix what is in it. Give a new folder.",
            kind="exists",
            value=str(out),
        )
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise UserError(
            f"tensorboard is not installed. {how_to_install('tensorboard')}",
            kind="not-installed",
            value="tensorboard",
        ) from None
    try:
        return SummaryWriter(str(out))
    except OSError as error:
        raise _explain_unwritable(out, error) from None


def _explain_unwritable(out: Path, error: OSError | ValueError) -> UserError:
    why = error.strerror if isinstance(error, OSError) else str(error)
    return UserError(f"Cannot write to {out}: {why}.", kind="not-writable", value=str(out))
