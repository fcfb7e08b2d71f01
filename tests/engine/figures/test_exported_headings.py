"""Names and headings of exported numbers, and what is said where they cannot be written."""

from __future__ import annotations

import errno
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dgn_engine.config import NetConfig, RunConfig
from dgn_engine.figures.export_values import csv_text, save_numbers, scene_arrays, write_export
from dgn_engine.figures.provenance import Provenance, make_provenance
from dgn_engine.figures.save_figure import save_figure
from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.elements import Axis, Chart, Curve, Empty, Fact, Mark, Matrix, Scene
from dgn_engine.scene.panel_spec import ComparedRun, View, all_panels
from tests.engine.panels.pictures import started_run
from tests.refusals import refused
from tests.snapshots import Recorded

NTK = all_panels()["ntk"]
CURVES = Chart(
    "loss",
    "Loss $L$",
    Axis("time", "s"),
    Axis(),
    curves=(
        Curve("train $K^V$", np.array([1, 2]), np.array([0.1 + 0.2, np.nan])),
        Curve("", np.array([3]), np.array([0.1])),
    ),
)
MATRIX = Chart(
    "map",
    "Map",
    Axis(),
    Axis("class"),
    matrix=Matrix(
        "m",
        np.array([[1.5, 2.0, 3.0], [4.0, 5.0, 6.0]]),
        "gates",
        0.0,
        1.0,
        row_name="example",
        column_name="unit",
        row_labels=("first",),
        column_labels=("a", "b"),
    ),
)
TILES = Chart(
    "tiles",
    "",
    Axis(),
    Axis(),
    matrix=Matrix(
        "m",
        np.ones((1, 2)),
        "gates",
        0,
        1,
        row_labels=("first",),
        column_labels=("a",),
        tile=(1, 1),
    ),
)
SCENE = Scene((CURVES, MATRIX, TILES), (Fact("$ρ$ max", "0.5"),), 7)
CONTEXT = Provenance("Panel", "FL", "digits", "fc 64×5", 0, 1200)


def test_a_table_of_curves() -> None:
    assert csv_text(CURVES) == (
        "curve,time (s),Loss L\ntrain K^V,1,0.30000000000000004\ntrain K^V,2,nan\ncurve 1,3,0.1\n"
    )


def test_a_table_of_a_matrix() -> None:
    assert csv_text(MATRIX) == (
        "example \\ unit,a,b,unit 2\nfirst,1.5,2.0,3.0\nexample 1,4.0,5.0,6.0\n"
    )
    assert csv_text(TILES) == "row \\ column,column 0,column 1\nrow 0,1.0,1.0\n"


def test_arrays_are_named_by_chart_and_curve(recorded: Recorded) -> None:
    found = scene_arrays(replace(SCENE, note="A note on $K^F$."), CONTEXT)
    assert found["loss.curve 1.y"] is CURVES.curves[1].y
    assert MATRIX.matrix is not None
    assert found["map.values"] is MATRIX.matrix.values
    about = json.loads(str(found.pop("about")))
    words = {name: one.tolist() for name, one in found.items() if one.dtype.kind != "f"}
    recorded({"about": about, "not numbers": words, "numbers": sorted(found.keys() - words)})


def test_what_is_written_and_under_which_names(tmp_path: Path) -> None:
    files = save_numbers(SCENE, tmp_path / "run.2.CSV", CONTEXT)
    assert [file.name for file in files] == ["run.2.loss.csv", "run.2.map.csv", "run.2.tiles.csv"]
    assert files[1].read_text("utf-8") == csv_text(MATRIX)
    assert save_numbers(SCENE, tmp_path / "run.NPZ", CONTEXT) == (tmp_path / "run.NPZ",)


def test_what_cannot_be_exported_is_said(tmp_path: Path) -> None:
    with refused("empty", value="Not yet."):
        save_numbers(Empty("Not yet."), tmp_path / "a.csv", CONTEXT)
    with refused("empty", value="Not yet."):
        save_figure(Empty("Not yet."), tmp_path / "a.png", CONTEXT)
    for save in (save_numbers, save_figure):
        with refused("unknown-format", value="a.txt"):
            save(SCENE, tmp_path / "a.txt", CONTEXT)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, "disk-full"),
        (errno.EDQUOT, "disk-full"),
        (errno.EACCES, "not-writable"),
        (errno.EPERM, "not-writable"),
        (errno.EROFS, "not-writable"),
        (errno.ENOENT, "no-folder"),
        (errno.ENOTDIR, "no-folder"),
        (errno.EISDIR, "is-a-folder"),
        (errno.EIO, "not-writable"),
    ],
)
def test_a_file_that_cannot_be_written_is_refused_by_what_is_in_its_way(
    tmp_path: Path, number: int, kind: str
) -> None:
    def fails(_path: Path, _content: bytes) -> None:
        raise OSError(number, "Input/output error")

    path = tmp_path / "a.csv"
    with refused(kind, value=str(path)) as refusal:
        write_export(path, b"", fails)
    assert "a.csv" in str(refusal.error)
    with refused("no-folder"):
        write_export(tmp_path / "gone" / "a.csv", b"x")


def test_a_figure_says_where_its_data_come_from() -> None:
    assert CONTEXT.caption == "Panel · step 1,200 · FL · digits · fc 64×5 · seed 0"
    assert Provenance("Panel").caption == "Panel · step 0"
    assert Provenance("Panel").as_dict() == {"title": "Panel", "step": 0}
    config = RunConfig(net=NetConfig("fc"), seed=3)
    view = View(run=started_run((64,), (64,), config=config), regime="DL", step=9)
    assert make_provenance(view, NTK, Scene((), step=7)) == Provenance(
        "NTK", "DL", "digits", "fc 64×3", 3, 7
    )
    assert make_provenance(View(regime="DL"), NTK, Scene((), step=7)) == Provenance(
        "NTK", "DL", step=7
    )


def test_a_figure_says_of_how_many_examples_it_is_how_exact_and_what_came_after_it() -> None:
    ours = Reading("ntk", 7, remark="8 of 64 · ± 5 %")
    view = View(
        run=started_run((64,), (64,)),
        regime="FR-II",
        readings={"ntk": ours, "npk": replace(ours, probe="npk", remark="another")},
        outdated={"ntk": Mark(7.0, "FR-II"), "npk": Mark(9.0, "FL")},
        compared=ComparedRun("b.pt", readings={"ntk": replace(ours, remark="64, exact")}),
    )
    said = make_provenance(view, NTK, Scene((), step=7))
    picture = "NTK · step 7, before FR-II · A: 8 of 64 · ± 5 % · B: 64, exact"
    assert said.panel_caption == picture
    assert said.caption == f"{picture} · FR-II · digits · fc 64×3 · seed 0"
    assert said.as_dict()["examples"] == "A: 8 of 64 · ± 5 % · B: 64, exact"
    both = replace(view, compared=ComparedRun("b.pt", readings={"ntk": ours}))
    assert make_provenance(both, NTK, Scene((), step=7)).examples == "8 of 64 · ± 5 %"


def test_exported_numbers_are_raw_and_say_what_was_shown() -> None:
    x = np.arange(3)
    raw = Curve("train", x, np.array([1.0, 9.0, 1.0]), faint=True)
    line = replace(raw, y=np.array([1.0, 5.0, 4.0]), faint=False, smoothed=0.9)
    chart = Chart("loss", "Loss", Axis("step"), Axis(), curves=(raw, line))
    assert csv_text(chart, "\t").splitlines() == [
        "curve\tstep\tLoss (raw; shown smoothed 0.9)",
        "train\t0\t1.0",
        "train\t1\t9.0",
        "train\t2\t1.0",
    ]
    found = scene_arrays(Scene((chart,)), Provenance("Training"))
    assert found["loss.train.y"].tolist() == [1.0, 9.0, 1.0]
    assert sorted(found) == ["about", "loss.axes", "loss.train.x", "loss.train.y"]
