"""Names of others, driven through every command: nothing that is printed steers or deceives."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from dgn_engine.cli import main
from dgn_engine.storage.runs.run_notes import RunNotes, write_notes
from dgn_engine.text.printable import printable_name
from tests.hostile_names import HOSTILE, NOT_UNICODE, hidden_characters

SMALL = ("--width", "4", "--depth", "2", "--epochs", "1", "--train-limit", "32", "--test-limit")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs of hostile names."""
    root = tmp_path_factory.mktemp("runs")
    run = root / HOSTILE
    recorded = ("--record", "gates", "--out", str(run))
    assert main(["train", "--data", "digits", *SMALL, "16", "--quiet", *recorded]) == 0
    (root / NOT_UNICODE).mkdir()
    shutil.copy(run / "run.json", root / NOT_UNICODE / "run.json")
    write_notes(run, RunNotes(HOSTILE[:70].replace("\r", ""), HOSTILE))
    return root


def said(capsys: pytest.CaptureFixture[str], command: Sequence[str], code: int) -> list[str]:
    """The lines that a command printed; none of them hides anything."""
    capsys.readouterr()
    try:
        left = main(command)
    except SystemExit as end:
        left = end.code  # type: ignore[assignment]
    printed = capsys.readouterr()
    text = printed.out + printed.err
    assert left == code, text
    assert not hidden_characters(text.replace("\n", ""))
    text.encode()
    return text.splitlines()


def test_a_table_of_runs_has_a_row_for_each_and_no_more(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head, *rows = said(capsys, ["runs", "list", str(runs)], 0)
    assert len(rows) == 2
    assert head.startswith("run  ")
    for name, status in ((HOSTILE, "finished"), (NOT_UNICODE, "damaged")):
        [row] = [row for row in rows if row.startswith(printable_name(name))]
        assert row.removeprefix(printable_name(name)).split()[0] == status
        assert "  " not in printable_name(name)


def test_the_json_of_runs_reads_back_the_true_names(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = said(capsys, ["runs", "list", str(runs), "--json"], 0)
    assert {run["name"] for run in json.loads("\n".join(lines))} == {HOSTILE, NOT_UNICODE}


@pytest.mark.parametrize("verb", ["show", "verify", "keep", "repair"])
def test_a_command_on_a_run_prints_its_name_escaped(
    runs: Path, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = said(capsys, ["runs", verb, str(runs / HOSTILE)], 0)
    assert any(r"\x1b[31mred\x07\n" in line for line in lines)


def test_a_session_of_a_hostile_name_is_written_shown_and_taken(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in ("dgn", "csv"):
        file = str(tmp_path / f"{HOSTILE}.{kind}")
        [line] = said(capsys, ["runs", "export", str(runs / HOSTILE), file], 0)
        assert line.endswith((" files.", " scores."))
    file = str(tmp_path / f"{HOSTILE}.dgn")
    assert len(said(capsys, ["runs", "show", file], 0)) > 5
    monkeypatch.setenv("DGN_RUNS_ROOT", str(tmp_path / "mine"))
    assert len(said(capsys, ["runs", "import", file], 0)) == 1


@pytest.mark.parametrize("kind", ["png", "svg", "pgf", "py", "csv", "npz"])
def test_a_figure_of_a_run_is_written_beside_a_hostile_name(
    runs: Path, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("dgn_engine.cli.figure")
    out = tmp_path / f"{HOSTILE}.{kind}"
    lines = said(
        capsys,
        ["figure", str(runs / HOSTILE), "--panel", "training", "--out", str(out)],
        0,
    )
    assert len(lines) == sum(path.is_file() for path in tmp_path.iterdir())
    if kind == "py":
        compile(out.read_text(encoding="utf-8"), "figure.py", "exec")


def test_a_checkpoint_is_listed_with_a_line_for_each_tensor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / f"{HOSTILE}.safetensors"
    save_file({HOSTILE: np.ones((4, 3)), "second": np.ones((2, 4))}, tmp_path / "plain")
    (tmp_path / "plain").rename(file)
    lines = said(capsys, ["inspect", str(file)], 0)
    assert sum("4×3" in line or "2×4" in line for line in lines) == 2
    tree = json.loads("\n".join(said(capsys, ["inspect", str(file), "--json"], 0)))
    assert len(tree["tensors"]) == 2
    said(capsys, ["kernels", str(file), "--examples", "4", "--data", "digits"], 2)


def test_refusals_quote_names_and_values_on_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quoted = json.dumps(HOSTILE)
    config, sweep = tmp_path / f"{HOSTILE}.toml", tmp_path / f"{HOSTILE}-sweep.toml"
    texts = (
        f"{quoted} = 1\n",
        f"[data]\nname = {quoted}\n",
        f"[training]\nloss = {quoted}\n",
        f"[data]\nname = 'folder:{tmp_path}'\n[net]\nname = {quoted}\n",
        f"[net.options]\n{quoted} = 1\n",
        "[data\n",
    )
    for text in texts:
        config.write_text(text, encoding="utf-8")
        assert len(said(capsys, ["train", str(config), "--no-record", "--quiet"], 2)) == 1
    for text in (f"{quoted} = 1\n", f"[grid]\n{quoted} = [1]\n", f"base = {quoted}\n"):
        sweep.write_text(text, encoding="utf-8")
        assert len(said(capsys, ["sweep", str(sweep)], 2)) == 1
    missing = str(tmp_path / HOSTILE / "none")
    for command in (
        ["runs", "show", missing],
        ["runs", "list", "--nothing", HOSTILE],
        ["train", missing],
        ["inspect", missing],
        ["reproduce", HOSTILE],
        ["kernels", missing, "--data", HOSTILE],
        ["figure", missing, "--panel", HOSTILE],
        [HOSTILE],
        ["gate-information", missing],
        ["train", "--data", f"folder:{missing}"],
        ["reproduce", "npf-table2", "--only", HOSTILE, "--rows"],
    ):
        assert len(said(capsys, command, 2)) == 1


def test_classes_of_a_folder_of_images_are_named_escaped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from PIL import Image

    for part in ("train", "test"):
        for name in (HOSTILE, os.fsdecode(b"caf\xe9")):
            place = tmp_path / part / name
            place.mkdir(parents=True)
            for number in range(2):
                Image.new("L", (4, 4), 40 * number).save(place / f"{number}.png")
    data = ["--data", f"folder:{tmp_path}", "--no-record", *SMALL, "4"]
    said(capsys, ["train", *data], 0)
    (tmp_path / "train" / HOSTILE / "2.png").write_bytes(b"no image")
    assert len(said(capsys, ["train", *data, "--quiet"], 2)) == 1
