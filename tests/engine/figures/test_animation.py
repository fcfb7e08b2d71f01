from __future__ import annotations

import io
import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dgn_engine.figures import animation, animation_format
from dgn_engine.figures.animation import save_animation
from dgn_engine.figures.figure_style import FigureStyle
from dgn_engine.figures.provenance import FigurePanel, Provenance
from dgn_engine.scene.elements import Axis, Chart, Curve, Matrix, Scene
from dgn_engine.scene.fixed_axes import with_fixed_axes
from tests.refusals import ANY, refused

STYLE = FigureStyle(width=3.25, dpi=50)


def scene(step: int, scale: float) -> Scene:
    values = scale * np.array([[1.0, -2.0], [0.5, 3.0]])
    matrix = Matrix("M", values, "sequential", scale * -2.0, scale * 3.0, beyond=(False, True))
    curve = Curve("loss", np.arange(1.0, 5.0) * scale, np.array([1.0, 2.0, 4.0, np.nan]) * scale)
    return Scene(
        (
            Chart("m", "matrix", Axis("x"), Axis("y"), matrix=matrix),
            Chart("c", "curve", Axis("step"), Axis("loss", log=True), curves=(curve,), row=1),
        ),
        step=step,
    )


def pages(count: int) -> list[tuple[FigurePanel, ...]]:
    scenes = [scene(step, 1.0 + step) for step in range(count)]
    about = Provenance("Loss of a very small network", "DL", "digits", "fc 64×5", 0)
    return [(FigurePanel("p", one, replace(about, step=one.step)),) for one in scenes]


def test_axes_and_colours_reach_as_far_as_those_of_all_pages() -> None:
    found = with_fixed_axes([scene(0, 1.0), scene(1, 2.0)])
    matrices = [one.charts[0].matrix for one in found]
    assert [(one.low, one.high) for one in matrices if one is not None] == [(-4.0, 6.0)] * 2
    assert [one.charts[1].x.limits for one in found] == [(1.0, 8.0)] * 2
    low, high = found[0].charts[1].y.limits or (0.0, 0.0)
    assert 0 < low <= 1.0
    assert high >= 8.0
    for before, after in zip((scene(0, 1.0), scene(1, 2.0)), found, strict=True):
        assert before.charts[0].matrix is not None
        assert after.charts[0].matrix is not None
        np.testing.assert_array_equal(before.charts[0].matrix.values, after.charts[0].matrix.values)


def test_what_lies_beyond_the_colours_of_one_page_may_lie_within_those_of_all() -> None:
    found = with_fixed_axes([scene(0, 1.0), scene(1, 2.0)])
    assert [one.charts[0].matrix.beyond for one in found if one.charts[0].matrix] == [
        (False, False)
    ] * 2
    narrow = scene(0, 1.0)
    assert narrow.charts[0].matrix is not None
    cut = replace(narrow.charts[0], matrix=replace(narrow.charts[0].matrix, high=1.0))
    (one,) = with_fixed_axes([replace(narrow, charts=(cut,))])
    assert one.charts[0].matrix is not None
    assert one.charts[0].matrix.beyond == (False, True)


def test_a_gif_has_one_page_a_step_all_of_one_size_and_palette(tmp_path: Path) -> None:
    done = []
    path = save_animation(pages(4), tmp_path / "film.gif", STYLE, 5.0, lambda *n: done.append(n))
    assert done[:4] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert set(done[4:]) == {(4, 4)}  # while the file is made
    film = Image.open(io.BytesIO(path.read_bytes()))
    assert film.n_frames == 4
    about = json.loads(film.info["comment"])
    assert about["steps"] == [0, 1, 2, 3]
    assert about["panels"] == [{**pages(1)[0][0].context.as_dict()}]
    waits, colours, sizes = [], [], set()
    for number in range(4):
        film.seek(number)
        waits.append(film.info["duration"])
        sizes.add(film.size)
        colours.append(film.convert("RGB").tobytes())
    assert waits == [200, 200, 200, 1500]
    assert len(sizes) == 1
    assert len(set(colours)) == 4


@pytest.mark.parametrize(
    ("count", "name", "rate", "kind", "value"),
    [
        (1, "film.gif", 5.0, "out-of-bounds", 1),
        (3, "film.png", 5.0, "unknown-format", "film.png"),
        (3, "film.gif", 0.0, "out-of-bounds", 0.0),
        (3, "film.gif", float("nan"), "out-of-bounds", ANY),
        (3, "film.mp4", 5.0, "no-program", "ffmpeg"),
        (2, "missing/film.gif", 5.0, "no-folder", ANY),
    ],
)
def test_what_makes_no_animation_is_refused(
    count: int,
    name: str,
    rate: float,
    kind: str,
    value: object,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # where there is no ffmpeg
    with refused(kind, value=value):
        save_animation(pages(count), tmp_path / name, STYLE, rate)
    assert list(tmp_path.iterdir()) == []


def test_a_film_is_made_by_ffmpeg_of_pages_with_their_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for ffmpeg writes what it was given: the list of pages."""
    program = tmp_path / "ffmpeg"
    program.write_text("#!/bin/sh\ncp pages.txt film.mp4\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    path = save_animation(pages(2), tmp_path / "film.mp4", STYLE, 4.0)
    lines = path.read_text().splitlines()
    assert lines == [
        "file 0.png",
        "duration 0.25",
        "file 1.png",
        "duration 1.5",
        "file 1.png",
    ]
    program.write_text("#!/bin/sh\necho no encoder >&2\nexit 3\n")
    with refused("program-failed", value="no encoder"):
        save_animation(pages(2), tmp_path / "film.mp4", STYLE, 4.0)


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")
def test_a_film_lasts_as_long_as_its_pages_stand(tmp_path: Path) -> None:
    path = save_animation(pages(5), tmp_path / "film.mp4", STYLE, 10.0)
    told = subprocess.run(["ffmpeg", "-i", str(path)], capture_output=True, text=True, check=False)
    lasts = float(told.stderr.partition("Duration: 00:00:")[2].partition(",")[0])
    assert (
        sum(animation_format.frame_durations(5, 10.0)) == 1900
    )  # milliseconds: four tenths and the rest
    assert lasts == pytest.approx(1.9, abs=0.04)  # one frame of the film


@pytest.mark.parametrize("after", [2, 4])
def test_whoever_is_told_of_a_page_can_end_the_work(after: int, tmp_path: Path) -> None:
    told: list[int] = []

    def end(done: int, _of: int) -> None:
        told.append(done)
        if len(told) > after:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        save_animation(pages(4), tmp_path / "film.gif", STYLE, 5.0, end)
    assert list(tmp_path.iterdir()) == []


def test_the_larger_a_page_is_the_fewer_dots_it_has() -> None:
    sizes = ((3.25, 0.0), (20.0, 4.0), (20.0, 20.0))
    low, wide, large = (
        animation._limit_resolution(FigureStyle(w, h, dpi=600)).dpi for w, h in sizes
    )
    assert 150 == low >= wide > large >= 50
