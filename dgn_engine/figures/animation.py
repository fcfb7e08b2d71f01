"""Pages of panels, one per step, as an animation: GIF, or MP4 if ffmpeg is installed."""

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
from dgn_engine.figures.animation_format import check_format, frame_durations
from dgn_engine.figures.export_values import write_export
from dgn_engine.figures.figure_style import FigureStyle
from dgn_engine.figures.provenance import FigurePanel
from dgn_engine.figures.save_figure import page_bytes
from dgn_engine.scene.fixed_axes import with_fixed_axes
from dgn_engine.text.written_numbers import format_duration

MOST_FRAMES = 1000
MOST_PIXELS = 1 << 21  # of one page: more does not play smoothly anywhere
_WAIT = 600.0  # time limit of ffmpeg in seconds
_LOOK = 0.1  # seconds between two checks of it
_COLOURS = 255  # of a GIF; one is reserved for unchanged pixels

Page = Sequence[FigurePanel]
Told = Callable[[int, int], object]  # pages done, of how many


def save_animation(
    pages: Sequence[Page],
    path: Path,
    style: FigureStyle,
    per_second: float,
    on_progress: Told = lambda done, of: None,
) -> Path:
    """Write the animation of these pages to a file that ends in .gif or .mp4."""
    check_format(path)
    write_export(path, render_animation(pages, path.suffix, style, per_second, on_progress))
    return path


def render_animation(
    pages: Sequence[Page],
    kind: str,
    style: FigureStyle,
    per_second: float,
    on_progress: Told = lambda done, of: None,
) -> bytes:
    """Draw every page with the same axes and colours, in order, as '.gif' or '.mp4'.

    Args:
        pages: The panels of each page.
        kind: '.gif' or '.mp4'.
        style: Look of each page.
        per_second: Pages per second.
        on_progress: Called with (pages drawn, all pages) until the animation is done; an
            exception from it stops the work.

    Returns:
        The bytes of the file, whose comment has the origin of the data.

    Raises:
        UserError: There are too few or too many pages.
    """
    if not 2 <= len(pages) <= MOST_FRAMES:
        raise UserError(
            f"An animation needs 2 to {MOST_FRAMES:,} recorded steps, not {len(pages):,}; choose "
            "another range.",
            kind="out-of-bounds",
            value=len(pages),
        )
    if not 0.1 <= per_second <= 50.0:
        message = f"{per_second} frames per second is out of range; choose 0.1 to 50."
        raise UserError(message, kind="out-of-bounds", value=per_second)
    style = _limit_resolution(style)
    drawn_pages = []
    for page in _fix_page_axes(pages):
        drawn_pages.append(page_bytes(page, "png", style))  # compressed, a fraction of its pixels
        on_progress(len(drawn_pages), len(pages))
    make = _encode_gif if kind.lower() == ".gif" else _encode_mp4
    times = frame_durations(len(drawn_pages), per_second)
    encoded = make(
        _Pictures(drawn_pages),
        times,
        _describe_pages(pages),
        lambda: on_progress(len(drawn_pages), len(drawn_pages)),
    )
    on_progress(len(drawn_pages), len(drawn_pages))
    return encoded


def _describe_pages(pages: Sequence[Page]) -> dict[str, object]:
    """Return the origin of the data: the captions of the first page, and all steps."""
    panels = [panel.context.as_dict() for panel in pages[0]]
    steps = [max(panel.context.step for panel in page) for page in pages]
    title = "; ".join(panel.context.caption for panel in pages[-1])
    return {"title": title, "panels": panels, "steps": steps, "software": "dgn-viewer"}


def _limit_resolution(style: FigureStyle) -> FigureStyle:
    """Limit the resolution, so that a page is no larger than a screen."""
    dots = min(style.dpi, 150)
    height = style.height or style.width
    while dots > 50 and style.width * height * dots**2 > MOST_PIXELS:
        dots -= 10
    return replace(style, dpi=dots)


def _fix_page_axes(pages: Sequence[Page]) -> list[list[FigurePanel]]:
    """Fix the axes of each panel over all pages."""
    columns = [
        with_fixed_axes([page[index].scene for page in pages]) for index in range(len(pages[0]))
    ]
    return [
        [replace(panel, scene=column[number]) for panel, column in zip(page, columns, strict=True)]
        for number, page in enumerate(pages)
    ]


class _Pictures:
    """Drawn pages as pictures of the same, even size.

    Captions of different length make pages of different height: white is added below. Videos need
    even numbers of pixels.
    """

    def __init__(self, drawn: Sequence[bytes]) -> None:
        self._drawn = drawn
        sizes = [Image.open(io.BytesIO(picture)).size for picture in drawn]
        wide, high = max(width for width, _ in sizes), max(height for _, height in sizes)
        self.size = wide + wide % 2, high + high % 2

    def __len__(self) -> int:
        return len(self._drawn)

    def __getitem__(self, number: int) -> Image.Image:
        canvas = Image.new("RGB", self.size, "white")
        canvas.paste(Image.open(io.BytesIO(self._drawn[number])).convert("RGB"), (0, 0))
        return canvas


def _encode_gif(
    pictures: _Pictures,
    milliseconds: Sequence[int],
    about: Mapping[str, object],
    on_progress: Callable[[], object],
) -> bytes:
    """Encode with one palette of the first, middle and last page, so that no colour flickers."""
    sample = (0, len(pictures) // 2, len(pictures) - 1)
    wide, high = pictures.size
    strip = Image.new("RGB", (wide, high * len(sample)))
    for index, page in enumerate(sample):
        strip.paste(pictures[page], (0, index * high))
    palette = strip.quantize(_COLOURS)

    def in_palette() -> Iterator[Image.Image]:
        for index in range(len(pictures)):
            on_progress()
            yield pictures[index].quantize(palette=palette, dither=Image.Dither.NONE)

    frames = in_palette()
    content = io.BytesIO()
    next(frames).save(
        content,
        format="GIF",
        save_all=True,
        append_images=frames,
        loop=0,
        optimize=False,
        duration=list(milliseconds),
        comment=json.dumps(about).encode(),
    )
    return content.getvalue()


def _encode_mp4(
    pictures: _Pictures,
    milliseconds: Sequence[int],
    about: Mapping[str, object],
    on_progress: Callable[[], object],
) -> bytes:
    """Encode as H.264 by ffmpeg, which is given the pages as files."""
    with tempfile.TemporaryDirectory() as folder:
        listed = []
        try:
            for number, wait in enumerate(milliseconds):
                on_progress()
                pictures[number].save(Path(folder) / f"{number}.png")
                listed += [f"file {number}.png", f"duration {wait / 1000.0}"]
            # The last file is listed twice, or its duration is ignored.
            listed.append(f"file {len(pictures) - 1}.png")
            (Path(folder) / "pages.txt").write_text("\n".join(listed), "utf-8")
        except OSError as error:
            raise UserError(
                f"Cannot write the animation's frames to {folder}: {error.strerror}; nothing was "
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
        error_text = _run_program(tied_command(command), folder, on_progress)
        written = Path(folder) / "film.mp4"
        if error_text or not written.exists():
            message = f"ffmpeg could not write the animation: {error_text or 'it wrote nothing'}."
            raise UserError(message, kind="program-failed", value=error_text)
        return written.read_bytes()


def _run_program(command: Sequence[str], place: str, on_progress: Callable[[], object]) -> str:
    """Return why a program failed, from the last line of its stderr; '' if it did not."""
    try:
        with ChildProcess(
            command,
            folder=Path(place),
            stdout=DEVNULL,
            keep_errors=True,
            own_group=False,  # it ends with the process group that draws
        ) as program:
            for _ in range(round(_WAIT / _LOOK)):
                if (code := program.wait(_LOOK)) is not None:
                    reason = program.last_error_line() or f"exit code {code}"
                    return reason if code else ""
                on_progress()
    except OSError as error:
        return str(error)
    return f"it took longer than {format_duration(_WAIT)}"
