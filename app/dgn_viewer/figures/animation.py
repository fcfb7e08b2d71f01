"""Saves pages of panels, one a step, as an animation: GIF, or MP4 where ffmpeg is installed."""

from __future__ import annotations

import io
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from PIL import Image

from dgn_engine.errors import UserError
from dgn_viewer.figures.export_values import write_export
from dgn_viewer.figures.figure_style import FigureStyle
from dgn_viewer.figures.provenance import FigurePanel
from dgn_viewer.figures.save_figure import page_bytes
from dgn_viewer.scene.fixed_axes import with_fixed_axes

FORMATS = (".gif", ".mp4")
MOST_FRAMES = 1000
MOST_PIXELS = 1 << 21  # of one page: more does not move smoothly anywhere
_WAIT = 600.0  # seconds that ffmpeg may take
_REST = 1.5  # seconds for which the last page stands
_COLOURS = 255  # of a GIF; one is kept for what does not change

Page = Sequence[FigurePanel]
Told = Callable[[int, int], object]  # pages done, of how many


def check_format(path: Path) -> None:
    """Raise `UserError` where no animation can be written under this name."""
    ending = path.suffix.lower()
    if ending not in FORMATS:
        raise UserError(f"{path.name} is no animation; end its name in .gif or .mp4.")
    if ending == ".mp4" and shutil.which("ffmpeg") is None:
        raise UserError(
            f"{path.name} needs the program ffmpeg, which is not installed; install it or end the "
            "name in .gif."
        )


def save_animation(
    pages: Sequence[Page],
    path: Path,
    style: FigureStyle,
    per_second: float,
    told: Told = lambda done, of: None,
) -> Path:
    """Draw every page with the same axes and colours, and write them in order.

    `per_second`: pages a second. Raises `UserError` where there are too few or too many pages, or
    where it cannot be written.
    """
    check_format(path)
    if not 2 <= len(pages) <= MOST_FRAMES:
        raise UserError(
            f"{len(pages):,} recorded steps make no animation; choose a range with 2 to "
            f"{MOST_FRAMES:,} of them."
        )
    if not 0.1 <= per_second <= 50.0:
        raise UserError(f"{per_second:g} pages a second cannot be seen; choose 0.1 to 50.")
    style = _moving(style)
    pictures = []
    for page in _fixed(pages):
        pictures.append(_picture(page, style))
        told(len(pictures), len(pages))
    pictures = _of_one_size(pictures)
    milliseconds = [round(1000.0 / per_second)] * len(pictures)
    milliseconds[-1] = max(milliseconds[-1], round(1000.0 * _REST))
    make = _gif if path.suffix.lower() == ".gif" else _mp4
    write_export(path, make(pictures, milliseconds))
    return path


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


def _picture(page: Page, style: FigureStyle) -> Image.Image:
    drawn = Image.open(io.BytesIO(page_bytes(page, "png", style)))
    return drawn.convert("RGB")


def _of_one_size(pictures: Sequence[Image.Image]) -> list[Image.Image]:
    """Captions of other lengths make pages of other heights: white is added below, and numbers of
    pixels made even, as films need."""
    wide = max(picture.width for picture in pictures)
    high = max(picture.height for picture in pictures)
    size = wide + wide % 2, high + high % 2
    found = []
    for picture in pictures:
        whole = Image.new("RGB", size, "white")
        whole.paste(picture, (0, 0))
        found.append(whole)
    return found


def _gif(pictures: Sequence[Image.Image], milliseconds: Sequence[int]) -> bytes:
    """One palette for all, of the first, middle and last page, so that no colour flickers."""
    sample = [pictures[0], pictures[len(pictures) // 2], pictures[-1]]
    strip = Image.new("RGB", (pictures[0].width, pictures[0].height * len(sample)))
    for number, picture in enumerate(sample):
        strip.paste(picture, (0, number * picture.height))
    palette = strip.quantize(_COLOURS)
    drawn = [one.quantize(palette=palette, dither=Image.Dither.NONE) for one in pictures]
    content = io.BytesIO()
    drawn[0].save(
        content, format="GIF", save_all=True, append_images=drawn[1:], loop=0, optimize=False,
        duration=list(milliseconds),
    )  # fmt: skip
    return content.getvalue()


def _mp4(pictures: Sequence[Image.Image], milliseconds: Sequence[int]) -> bytes:
    """H.264 by ffmpeg, which is given the pages as files."""
    with tempfile.TemporaryDirectory() as place:
        listed = []
        for number, (picture, wait) in enumerate(zip(pictures, milliseconds, strict=True)):
            picture.save(Path(place) / f"{number}.png")
            listed += [f"file {number}.png", f"duration {wait / 1000.0}"]
        listed.append(f"file {len(pictures) - 1}.png")  # or the last is not shown for its time
        (Path(place) / "pages.txt").write_text("\n".join(listed), "utf-8")
        command = [
            "ffmpeg", "-loglevel", "error", "-nostdin", "-f", "concat", "-i", "pages.txt",
            "-vf", "fps=25", "-pix_fmt", "yuv420p", "-movflags", "+faststart", "film.mp4",
        ]  # fmt: skip
        try:
            done = subprocess.run(
                command, cwd=place, capture_output=True, text=True, check=False, timeout=_WAIT
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UserError(f"ffmpeg could not write the film: {error}.") from None
        film = Path(place) / "film.mp4"
        if done.returncode or not film.exists():
            said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise UserError(f"ffmpeg could not write the film: {said}.")
        return film.read_bytes()
