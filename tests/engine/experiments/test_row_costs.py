"""`dgn reproduce NAME --rows`: what `--only` chooses among, and what it costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dgn_engine.cli import main
from dgn_engine.config import DataConfig
from dgn_engine.data import DataSizes
from dgn_engine.errors import UserError
from dgn_engine.experiments import Request, all_experiments
from dgn_engine.experiments.report.data_sizes import expected_sizes, sizes_of
from dgn_engine.experiments.report.row_costs import LEFT_OUT, row_costs, whole_cost
from dgn_engine.experiments.report.unit_costs import RUN
from dgn_engine.experiments.report.write_report import ReproductionTask
from tests.plugins import each
from tests.refusals import refused_command

EXPERIMENTS = all_experiments()


def task(name: str, **asked: Any) -> ReproductionTask:
    return ReproductionTask(name, EXPERIMENTS[name], Request(**asked), Path("/there"))


@pytest.mark.parametrize(
    "name", each(name for name, experiment in EXPERIMENTS.items() if experiment.rows)
)
def test_each_row_has_units_of_its_own_and_all_rows_have_all_units(name: str) -> None:
    plan, rows = EXPERIMENTS[name].plan, EXPERIMENTS[name].rows
    units = [{unit.id for unit in plan(Request("full", only=row)).units} for row in rows]
    assert all(units)
    assert set.union(*units) == {unit.id for unit in plan(Request("full")).units}
    assert sum(map(len, units)) == len(set.union(*units)), "no row is part of another"


def test_the_costs_of_the_rows_add_up_and_what_is_left_out_is_said() -> None:
    lines = row_costs(task("npf-table2"))
    assert [line.label for line in lines] == list(EXPERIMENTS["npf-table2"].rows)
    known = [line.cost for line in lines if line.cost is not None]
    whole = whole_cost(task("npf-table2")).cost
    assert whole is not None
    assert sum(cost.runs for cost in known) == whole.runs == 30
    assert sum(cost.seconds for cost in known) == pytest.approx(whole.seconds)
    assert {line.remark for line in lines if line.cost is None} == {LEFT_OUT}


def test_costs_follow_scale_protocol_epochs_and_seeds() -> None:
    def runs_and_seconds(**asked: Any) -> tuple[int, float]:
        (line,) = row_costs(task("npf-table2", only="FC(w=128,d=6)/SGD", **asked))
        assert line.cost is not None
        return line.cost.runs, line.cost.seconds

    quick, full = runs_and_seconds(), runs_and_seconds(scale="full")
    code = runs_and_seconds(scale="full", protocol="as-in-code")
    assert quick[0] < full[0]
    assert quick[1] < full[1]
    assert code[0] == full[0] / 3, "one step instead of the best of three"
    few = runs_and_seconds(scale="full", seeds=1)
    assert few == (full[0] / 5, pytest.approx(full[1] / 5))
    one, two, three = (runs_and_seconds(scale="full", epochs=epochs)[1] for epochs in (1, 2, 3))
    assert three - two == pytest.approx(two - one)
    assert two == pytest.approx(2 * one - full[0] * RUN)


def test_a_data_set_that_is_not_here_is_taken_as_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DGN_DATA_ROOT", str(tmp_path))
    assert expected_sizes(DataConfig("cifar10")) == DataSizes(50_000, 10_000, (3, 32, 32), 10)
    few = DataConfig("mnist", train_limit=9, test_limit=10**6, label_noise=0.5, variant_seed=3)
    assert expected_sizes(few) == DataSizes(9, 10_000, (1, 28, 28), 10)
    pair = DataConfig("mnist", binary=(4, 7))
    assert expected_sizes(pair) == DataSizes(12_000, 2000, (1, 28, 28), 1)
    with pytest.raises(UserError, match="MNIST is not in"):
        sizes_of(DataConfig("mnist"))
    assert expected_sizes(DataConfig()) == sizes_of(DataConfig())
    assert all(line.cost is not None for line in row_costs(task("npf-table2", scale="full")))
    two_digits = whole_cost(task("npf-nu", scale="full")).cost
    assert two_digits is not None
    assert two_digits.seconds > 0


def test_the_command_lists_the_rows_and_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DGN_RESULTS_ROOT", str(tmp_path))
    assert main(["reproduce", "npf-table2", "--rows"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("npf-table2, quick, as-published (")
    (adam,) = [line for line in lines if line.startswith("FC(w=128,d=6)/Adam/MNIST")]
    assert adam.split()[1] == "15"
    assert any(line.startswith("all rows ") for line in lines)
    assert main(["reproduce", "npf-table2", "--rows", "--json", "--full", "--epochs", "1"]) == 0
    tree = json.loads(capsys.readouterr().out)
    assert (tree["experiment"], tree["scale"]) == ("npf-table2", "reduced")
    assert [row["label"] for row in tree["rows"]] == list(EXPERIMENTS["npf-table2"].rows)
    assert tree["all"]["cost"]["runs"] == sum(row["cost"]["runs"] for row in tree["rows"])
    assert main(["reproduce", "npf-nu", "--rows"]) == 0
    assert "--only" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_a_label_that_no_row_holds_is_refused_with_those_there_are() -> None:
    for more in ((), ("--full",), ("--rows",)):
        said = str(refused_command("reproduce", "npf-table2", "--only", "ä b", *more))
        assert "'ä b'" in said
        assert "'FC(w=128,d=6)/SGD/MNIST', 'FC(w=128,d=6)/Adam" in said
    assert str(refused_command("reproduce", "npf-tabel2", "--rows")).endswith("'npf-table2'?")
