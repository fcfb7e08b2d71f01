"""Saves pages of panels, one a step, as an animation: GIF, or MP4 where ffmpeg is installed."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from PIL import Image

from dgn_engine.confinement.child_process import DEVNULL, ChildProcess
from dgn_engine.confinement.start_folder import find_program
from dgn_engine.confinement.tied_program import tied_command
from dgn_engine.errors import UserError
from dgn_engine.figures.animation_format import check_format, waits
from dgn_engine.figures.export_values import write_export
from dgn_engine.figures.figure_style import FigureStyle
from dgn_engine.figures.provenance import FigurePanel
from dgn_engine.figures.save_figure import page_bytes
from dgn_engine.scene.fixed_axes import with_fixed_axes
from dgn_engine.text.written_numbers import duration

MOST_FRAMES = 1000
MOST_PIXELS = 1 << 21  # of one page: more does not move smoothly anywhere
_WAIT = 600.0  # seconds that ffmpeg may take
_LOOK = 0.1  # seconds between two looks at it
_COLOURS = 255  # of a GIF; one is kept for what does not change

Page = Sequence[FigurePanel]
Told = Callable[[int, int], object]  # pages done, of how many


def save_animation(
    pages: Sequence[Page],
    path: Path,
    style: FigureStyle,
    per_second: float,
    told: Told = lambda done, of: None,
) -> Path:
    """Write `film` of these pages under this name, which ends in .gif or .mp4."""
    check_format(path)
    write_export(path, film(pages, path.suffix, style, per_second, told))
    return path


def film(
    pages: Sequence[Page],
    kind: str,
    style: FigureStyle,
    per_second: float,
    told: Told = lambda done, of: None,
) -> bytes:
    """Draw every page with the same axes and colours, in order, as '.gif' or '.mp4'.

    `per_second`: pages a second. `told`: pages drawn, of how many, again and again until the film
    is made; what it raises ends the work. Raises `UserError` where there are too few or too many
    pages. The film's comment says where the data come from.
    """
    if not 2 <= len(pages) <= MOST_FRAMES:
        raise UserError(
            f"{len(pages):,} recorded steps make no animation; choose a range with 2 to "
            f"{MOST_FRAMES:,} of them.",
            kind="out-of-bounds",
            value=len(pages),
        )
    if not 0.1 <= per_second <= 50.0:
        words = f"{per_second} pages a second cannot be seen; choose 0.1 to 50."
        raise UserError(words, kind="out-of-bounds", value=per_second)
    style = _moving(style)
    drawn = []
    for page in _fixed(pages):
        drawn.append(page_bytes(page, "png", style))  # a fraction of its pixels
        told(len(drawn), len(pages))
    make = _gif if kind.lower() == ".gif" else _mp4
    times = waits(len(drawn), per_second)
    made = make(_Pictures(drawn), times, _about(pages), lambda: told(len(drawn), len(drawn)))
    told(len(drawn), len(drawn))
    return made


def _about(pages: Sequence[Page]) -> dict[str, object]:
    """Where the data come from: the captions of the first page, and the steps of all."""
    panels = [panel.context.as_dict() for panel in pages[0]]
    steps = [max(panel.context.step for panel in page) for page in pages]
    title = "; ".join(panel.context.caption for panel in pages[-1])
    return {"title": title, "panels": panels, "steps": steps, "software": "dgn-viewer"}


def _moving(style: FigureStyle) -> FigureStyle:
    """A screen's resolution, so that a page is no larger than a screen."""
    dots = min(style.dpi, 150)
    height = style.height or style.width
    while dots > 50 and style.width * height * dots**2 > MOST_PIXELS:
        dots -= 10
    return replace(style, dpi=dots)


def _fixed(pages: Sequence[Page]) -> list[list[FigurePanel]]:
    """All pages with the axes of each panel fixed over them."""
    columns = [
        with_fixed_axes([page[place].scene for page in pages]) for place in range(len(pages[0]))
    ]
    return [
        [replace(panel, scene=column[number]) for panel, column in zip(page, columns, strict=True)]
        for number, page in enumerate(pages)
    ]


class _Pictures:
    """Drawn pages as pictures of one size. Captions of other lengths make pages of other heights:
    white is added below, and numbers of pixels are made even, as films need."""

    def __init__(self, drawn: Sequence[bytes]) -> None:
        self._drawn = drawn
        sizes = [Image.open(io.BytesIO(one)).size for one in drawn]
        wide, high = max(width for width, _ in sizes), max(height for _, height in sizes)
        self.size = wide + wide % 2, high + high % 2

    def __len__(self) -> int:
        return len(self._drawn)

    def __getitem__(self, number: int) -> Image.Image:
        whole = Image.new("RGB", self.size, "white")
        whole.paste(Image.open(io.BytesIO(self._drawn[number])).convert("RGB"), (0, 0))
        return whole


def _gif(
    pictures: _Pictures,
    milliseconds: Sequence[int],
    about: Mapping[str, object],
    told: Callable[[], object],
) -> bytes:
    """One palette for all, of the first, middle and last page, so that no colour flickers."""
    sample = (0, len(pictures) // 2, len(pictures) - 1)
    wide, high = pictures.size
    strip = Image.new("RGB", (wide, high * len(sample)))
    for index, place in enumerate(sample):
        strip.paste(pictures[place], (0, index * high))
    palette = strip.quantize(_COLOURS)

    def in_palette() -> Iterator[Image.Image]:
        for index in range(len(pictures)):
            told()
            yield pictures[index].quantize(palette=palette, dither=Image.Dither.NONE)

    drawn = in_palette()
    content = io.BytesIO()
    next(drawn).save(
        content,
        format="GIF",
        save_all=True,
        append_images=drawn,
        loop=0,
        optimize=False,
        duration=list(milliseconds),
        comment=json.dumps(about).encode(),
    )
    return content.getvalue()


def _mp4(
    pictures: _Pictures,
    milliseconds: Sequence[int],
    about: Mapping[str, object],
    told: Callable[[], object],
) -> bytes:
    """H.264 by ffmpeg, which is given the pages as files."""
    with tempfile.TemporaryDirectory() as place:
        listed = []
        try:
            for number, wait in enumerate(milliseconds):
                told()
                pictures[number].save(Path(place) / f"{number}.png")
                listed += [f"file {number}.png", f"duration {wait / 1000.0}"]
            listed.append(f"file {len(pictures) - 1}.png")  # or the last is not shown for its time
            (Path(place) / "pages.txt").write_text("\n".join(listed), "utf-8")
        except OSError as error:
            raise UserError(
                f"The pages of the film cannot be kept in {place}: {error.strerror}; nothing was "
                "exported."
            ) from None
        command = [
            find_program("ffmpeg") or "ffmpeg",
            "-loglevel", "error", "-nostdin", "-f", "concat", "-i", "pages.txt",
            "-t", f"{sum(milliseconds) / 1000.0}", "-vf", "fps=25", "-pix_fmt", "yuv420p",
            "-movflags", "+faststart",
            "-metadata", f"title={about['title']}", "-metadata", f"comment={json.dumps(about)}",
            "film.mp4",
        ]  # fmt: skip
        said = _run_program(tied_command(command), place, told)
        made = Path(place) / "film.mp4"
        if said or not made.exists():
            words = f"ffmpeg could not write the film: {said or 'it wrote nothing'}."
            raise UserError(words, kind="program-failed", value=said)
        return made.read_bytes()


def _run_program(command: Sequence[str], place: str, told: Callable[[], object]) -> str:
    """Return why a program failed, in the last line of its stderr; '' where it did not."""
    try:
        with ChildProcess(
            command,
            folder=Path(place),
            stdout=DEVNULL,
            keep_errors=True,
            own_group=False,  # it ends with the group of whoever draws
        ) as program:
            for _ in range(round(_WAIT / _LOOK)):
                if (code := program.wait(_LOOK)) is not None:
                    said = program.last_error_line() or f"it ended with {code}"
                    return said if code else ""
                told()
    except OSError as error:
        return str(error)
    return f"it took longer than {duration(_WAIT)}"
