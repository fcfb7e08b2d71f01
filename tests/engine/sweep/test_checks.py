"""What is found out before the first run of many begins."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dgn_engine import cli
from dgn_engine.config import DataConfig
from dgn_engine.errors import UserError
from dgn_engine.storage.runs.folder_layout import WEIGHTS
from dgn_engine.sweep.checks import check_start
from dgn_engine.sweep.unit import Training, Unit, unit_folder
from dgn_engine.sweep.workers.serial import SerialExecutor
from dgn_engine.training.devices import available_devices
from tests.engine.sweep.small import relu_and_fl_units, run_units, small_training
from tests.refusals import refused


def test_what_can_be_carried_out_is_not_refused(tmp_path: Path) -> None:
    check_start(
        [
            *relu_and_fl_units(0),
            small_training(1),
            small_training(2, "DL"),
            small_training(3, "FL"),
        ],
        tmp_path,
    )


def test_a_checkpoint_that_fits_only_other_data_is_refused(tmp_path: Path) -> None:
    taught = small_training(0)
    run_units(SerialExecutor(), [taught], tmp_path)
    file = str(unit_folder(tmp_path, taught.id) / WEIGHTS)
    held = small_training(1, "FL")
    held = replace(
        held, config=replace(held.config, gating=replace(held.config.gating, gates_from=file))
    )
    check_start([held], tmp_path)
    other = replace(held, config=replace(held.config, data=DataConfig("correlated")))
    with pytest.raises(UserError, match=f"The run {other.id} cannot be trained: .*256"):
        check_start([other], tmp_path)


def test_a_device_that_is_not_here_is_refused_and_no_folder_is_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = next(device for device in ("mps", "cuda") if device not in available_devices())
    path = tmp_path / "sweep.toml"
    path.write_text(f"[grid]\ndevice = ['cpu', '{absent}']\n")
    assert cli.main(["sweep", str(path), "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert f"The run device={absent} cannot be trained: Device '{absent}' is not available" in said
    assert not (tmp_path / "out").exists()


def test_what_lies_on_another_machine_is_not_looked_for_here(tmp_path: Path) -> None:
    unit = small_training(0)
    config = replace(unit.config, data=DataConfig("mnist", root="/nowhere"))
    far: list[Unit] = [Training("far", config)]
    check_start(far, tmp_path, local=False)
    with pytest.raises(UserError, match="is not in /nowhere"):
        check_start(far, tmp_path)


def test_runs_on_data_that_changed_under_the_same_name_do_not_join_those_that_are_done(
    tmp_path: Path,
) -> None:
    indices = tmp_path / "test.txt"
    indices.write_text(" ".join(map(str, range(50))))

    def of_seed(seed: int) -> Training:
        unit = small_training(seed)
        data = replace(unit.config.data, test_indices=str(indices))
        return replace(unit, config=replace(unit.config, data=data))

    run_units(SerialExecutor(), [of_seed(0)], tmp_path / "out")
    both = [of_seed(0), of_seed(1)]
    check_start(both, tmp_path / "out")
    indices.write_text(" ".join(map(str, range(50, 100))))
    with refused("other-data", value="digits"):
        check_start(both, tmp_path / "out")
    check_start(both[1:], tmp_path / "out")


def test_a_run_that_is_done_needs_its_file_no_more(tmp_path: Path) -> None:
    (tmp_path / "gates").mkdir()
    taught, held = small_training(0), small_training(1, "FL")
    run_units(SerialExecutor(), [taught], tmp_path / "gates")
    file = unit_folder(tmp_path / "gates", taught.id) / WEIGHTS
    gating = replace(held.config.gating, gates_from=str(file))
    held = replace(held, config=replace(held.config, gating=gating))
    run_units(SerialExecutor(), [held], tmp_path / "out")
    file.unlink()
    check_start([held], tmp_path / "out")
    with pytest.raises(UserError, match="cannot be opened"):
        check_start([held], tmp_path / "elsewhere")
