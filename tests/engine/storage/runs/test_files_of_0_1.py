"""Files that version 0.1 wrote are opened, drawn and trained on, as docs/run-format.md promises.

Both were written by the code of the first days, by `dgn train --data digits --train-limit 100
--net fc --width 4 --depth 3 --regime DL --epochs 100 --lr 0.003`, interrupted: a run folder of
2026-11-20 (20fcbed) with a frame of the path kernel, and a session file of the next day (89240b3)
with a frame of the gates.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from dgn_engine.cli import main
from dgn_engine.storage.runs import run_info
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.storage.session_file.loaded_run import read_run
from tests.refusals import refused_command

HERE = Path(__file__).parent / "of_0_1"
SESSION = HERE / "session-0.1.dgn"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    with tarfile.open(HERE / "run-0.1.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "run-0.1"


def test_a_run_of_0_1_is_shown_with_its_frame(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs", "show", str(run)]) == 0
    said = capsys.readouterr().out
    assert "stopped, step 127 of 400" in said
    assert "dgn-viewer 0.1.0" in said
    assert main(["runs", "verify", str(run)]) == 0
    reader = RunReader(run)
    config = reader.config
    assert (config.gating.regime, config.net.name, config.data.train_limit) == ("DL", "fc", 100)
    kernel = reader.frame_of_step(1).readings["npk"].arrays["npk"]
    assert kernel.shape == (64, 64)
    assert kernel == pytest.approx(kernel.T)
    assert sorted(c.step for c in reader.checkpoints) == [102, 127]


def test_a_run_of_0_1_goes_on_to_where_0_1_took_it(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same command without an interruption ended at 64.72 % after 400 steps, by that code."""
    assert main(["train", "--resume", str(run), "--quiet"]) == 0
    assert "400 steps" in capsys.readouterr().out
    last = RunReader(run).measured_events[-1]
    assert last.step == 400
    assert last.test_accuracy == pytest.approx(0.6472, abs=0.02)


def test_a_session_of_0_1_is_imported_and_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DGN_RUNS_ROOT", str(tmp_path / "runs"))
    assert main(["runs", "import", str(SESSION)]) == 0
    folder = Path(capsys.readouterr().out.strip())
    assert RunReader(folder).step == 72
    loaded = read_run(folder)
    assert loaded.config.net.options == (("depth", 3), ("width", 4))


def test_a_run_of_a_later_version_is_refused_in_one_sentence(run: Path) -> None:
    later = run_info.read_run_info(run) | {"format": "dgn-viewer run 2"}
    (run / "run.json").write_bytes(run_info.encode_info(later))
    assert refused_command("train", "--resume", run).kind == "later-version"
