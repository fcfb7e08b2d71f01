"""Export panels of a recorded run as figures, data, a script or an animation."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dgn_engine.cli.figure import FORMATS
from dgn_engine.errors import UserError, Where, how_to_install
from dgn_engine.figures.animation_format import check_format
from dgn_engine.figures.figure_style import FigureStyle, curve_names
from dgn_engine.figures.provenance import FigurePanel
from dgn_engine.figures.recorded_pages import pages_of_run
from dgn_engine.figures.recorded_panels import (
    check_steps,
    choose_options,
    find_panels,
    panels_of_run,
    read_at_steps,
    with_charts,
)
from dgn_engine.scene.typeset import strip_markup
from dgn_engine.storage.atomic_write import check_output
from dgn_engine.text.printable import print_line

try:
    from dgn_engine.figures.animation import save_animation
    from dgn_engine.figures.save_figure import save_panels
except ModuleNotFoundError as error:
    raise UserError(
        f"Figures need {error.name}. {how_to_install(error.name or 'matplotlib')}",
        kind="not-available",
        value=error.name,
    ) from None


def draw_figures(arguments: argparse.Namespace) -> int:
    if arguments.out is not None:
        check_output(_named_path(arguments))
    specs = find_panels(arguments.panel)
    steps = () if arguments.step is None else _parse_figure_steps(arguments.step)
    style = _style_from_options(arguments)
    panels = panels_of_run(arguments.run, steps, specs, arguments.choose, arguments.chart)
    style = _with_legend(style, panels, arguments.legend)
    for file in save_panels(panels, _output_path(arguments, panels), style):
        print_line(str(file))
    return 0


def draw_film(arguments: argparse.Namespace) -> int:
    if arguments.step is not None:
        raise UserError(
            Where("--step") + " selects one step, --animate many; remove one of them.",
            kind="contradiction",
            value="--animate",
        )
    if arguments.format is not None:
        raise UserError(
            Where("--format") + " applies to figures; for an animation, end --out in gif or mp4.",
            kind="no-effect",
        )
    if arguments.pages < 2:
        raise UserError(
            Where("--pages") + f" is {arguments.pages}; an animation needs at least 2.",
            kind="out-of-bounds",
            value=arguments.pages,
        )
    step_range = _parse_step_range(arguments.animate)
    specs = find_panels(arguments.panel)
    path = arguments.out or Path(f"{'-'.join(specs)}.gif")
    check_format(path)
    check_output(path)
    style = _style_from_options(arguments)
    with tempfile.TemporaryDirectory() as temp_folder:
        loaded = read_at_steps(arguments.run, (None,), specs, Path(temp_folder))
        views = choose_options(loaded, specs, arguments.choose)
        choices = {name: panel.view.choices for name, panel in views.items()}
        recorded = pages_of_run(loaded[0], specs, choices, step_range, arguments.pages)
    pages = [with_charts(page, arguments.chart) for page in recorded.pages]
    style = _with_legend(style, pages[-1], arguments.legend)
    save_animation(pages, path, style, arguments.per_second)
    hint = " (--pages)" if recorded.thinned else ""
    print_line(f"{path}: {recorded.page_summary}{hint}")
    return 0


def _parse_step_range(wanted: str) -> tuple[int, int | None]:
    """Parse '100:2000', '100:', ':2000' or 'all' into first and last step."""
    if wanted == "all":
        return 0, None
    first, colon, last = wanted.partition(":")
    try:
        bounds = int(first or 0), int(last) if last else None
    except ValueError:
        colon = ""
    if not colon or bounds[0] < 0 or (bounds[1] is not None and bounds[1] <= bounds[0]):
        raise UserError(
            Where("--animate") + f" {wanted} is not a range of steps; use 100:2000, 100: or all.",
            kind="wrong-form",
            value=wanted,
        )
    return bounds


def _parse_figure_steps(text: str) -> tuple[int, ...]:
    """Parse '900' or '0,900' into steps."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and part.isascii() and len(part) < 16 for part in parts):
        raise UserError(
            Where("--step") + f" '{text}' is not a step; use a recorded step (900) or two (0,900).",
            kind="wrong-form",
            value=text,
        )
    return check_steps(tuple(map(int, parts)))


def _style_from_options(arguments: argparse.Namespace) -> FigureStyle:
    given = {
        "width": arguments.width,
        "height": arguments.height,
        "font": arguments.font_size,
        "dpi": arguments.dpi,
        "across": arguments.across,
    }
    for name, value in given.items():
        if value == 0:  # FigureStyle uses 0 for 'automatic'
            option = f"--{name.replace('font', 'font-size')}"
            raise UserError(
                Where(option) + " must be greater than 0.", kind="out-of-bounds", value=value
            )
    style = {name: value for name, value in given.items() if value is not None}
    return FigureStyle(**style, caption=not arguments.no_caption, letters=arguments.letters)


def _with_legend(
    style: FigureStyle, panels: Sequence[FigurePanel], wanted: Sequence[str]
) -> FigureStyle:
    curve_by_name = {
        strip_markup(name): name for name in curve_names([panel.scene for panel in panels])
    }
    legend = []
    for renaming in wanted:
        name, sign, text = renaming.partition("=")
        if not sign or strip_markup(name) not in curve_by_name:
            names = ", ".join(curve_by_name) or "none"
            raise UserError(
                Where("--legend") + f" {renaming} matches no curve. Available: {names}.",
                kind="unknown-name",
                value=renaming,
            )
        legend.append((curve_by_name[strip_markup(name)], text))
    return replace(style, legend=tuple(legend))


def _output_path(arguments: argparse.Namespace, panels: Sequence[FigurePanel]) -> Path:
    ending = arguments.format
    if arguments.out is None:
        names = "-".join(panel.name for panel in panels)
        step = max(panel.context.step for panel in panels)
        both = next((panel.context.steps for panel in panels if panel.context.steps), (step,))
        return Path(f"{names}-step{'-'.join(map(str, both))}.{ending or 'pdf'}")
    return _named_path(arguments)


def _named_path(arguments: argparse.Namespace) -> Path:
    """Return the path of --out with an extension; raises `UserError` for an unknown one."""
    path, ending = arguments.out, arguments.format
    assert isinstance(path, Path)
    if ending and not path.suffix:
        return path.with_name(f"{path.name}.{ending}")
    if ending and path.suffix.lower() != f".{ending}":
        raise UserError(
            Where("--out") + f" {path} and --format {ending} disagree; remove one of them.",
            kind="contradiction",
            value=ending,
        )
    if path.suffix.lower().removeprefix(".") not in FORMATS:
        raise UserError(
            f"Unknown format of {path.name}; use one of the extensions {', '.join(FORMATS)}.",
            kind="no-choice",
            value=path.name,
        )
    return path
