"""A sweep's file: names of runs, what is varied over what, and the checks before the first run."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dgn_engine.config import DataConfig, NetConfig, RunConfig
from dgn_engine.errors import UserError
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.sweep.checks import StartCheck, check_folder, check_start, ignored_in
from dgn_engine.sweep.cluster_tls import ClusterTls
from dgn_engine.sweep.sweep_file import Sweep, read_sweep, sweep_of
from dgn_engine.sweep.unit import Training
from dgn_engine.sweep.workers import find_executor, runs_on_this_machine
from dgn_engine.sweep.workers.serial import SerialExecutor
from dgn_engine.training import trial_starts
from tests.engine.sweep.small import SMALL, run_units, small_training
from tests.refusals import refused
from tests.snapshots import Recorded


def swept(tree: dict[str, Any]) -> Sweep:
    return sweep_of(tree, Path("/"))


def names(tree: dict[str, Any]) -> list[str]:
    return [one.unit.id for one in swept(tree).runs]


def test_a_run_is_named_by_the_last_parts_of_its_fields_where_they_tell_them_apart() -> None:
    tree = {"grid": {"gating.regime": ["DL"], "net.bias": [True], "seed": [3]}}
    assert names(tree) == ["regime=DL+bias=True+seed=3"]
    twins = {"grid": {"data.name": ["digits"], "net.name": ["fc"], "seed": [1]}}
    assert names(twins) == ["data.name=digits+net.name=fc+seed=1"]


def test_values_are_words_of_a_folder_name() -> None:
    rates = {"grid": {"training.learning_rate": [0.001, 1e-5, 0.5]}}
    assert names(rates) == ["learning_rate=0.001", "learning_rate=1e-05", "learning_rate=0.5"]
    orders = {"grid": {"gating.wiring": [[], [1, 0]]}}
    assert names(orders) == ["wiring=none", "wiring=1.0"]
    places = names({"grid": {"data.root": ["/a b", "/a_b", "/a/b"]}})
    assert all(name.startswith("root=_a_b-") for name in places)
    assert len(set(places)) == 3  # what is written alike is told apart
    assert [len(name) for name in places] == [len("root=_a_b-") + 6] * 3
    (long,) = names({"grid": {"data.root": ["/" + "é" + "x" * 300]}})
    assert len(long) == len("root=") + 40 + 1 + 6


def test_a_long_name_is_cut_and_still_its_own() -> None:
    grid = {
        "data.root": ["r" * 60],
        "data.test_indices": ["t" * 60, "t" * 59 + "u"],
    }
    first, second = names({"grid": grid})
    assert len(first) == len(second) == 120 + 1 + 8
    assert first[:121] == second[:121]
    assert first != second


def test_a_grid_varies_under_each_entry_of_a_list_in_the_order_of_the_file(
    recorded: Recorded,
) -> None:
    tree = {
        "base": {"seed": 5, "net": {"options": {"width": 8}}},
        "list": [{"gating": {"regime": "DL"}}, {"gating.regime": "FR-II", "net.bias": True}],
        "grid": {"training.batch": [10, 20], "net.options.depth": [3]},
    }
    sweep = swept(tree)
    configs = [one.unit.config for one in sweep.runs]
    recorded(
        {
            "fields": sweep.fields,
            "settings": {one.unit.id: one.settings for one in sweep.runs},
            "set": [
                (c.gating.regime, c.net.bias, c.training.batch, c.seed, dict(c.net.options))
                for c in configs
            ],
        }
    )


MANY = list(range(317))


@pytest.mark.parametrize(
    ("tree", "kind", "value"),
    [
        ({"grid": {}}, "empty", None),
        ({"list": [{}]}, "empty", None),
        ({"grid": 3}, "wrong-type", 3),
        ({"list": [3]}, "wrong-type", [3]),
        ({"list": []}, "wrong-type", []),
        ({"base": 3, "grid": {"seed": [1]}}, "wrong-type", 3),
        ({"gird": {}}, "unknown-key", "gird"),
        ({"grid": {"seed": [1, 1]}}, "named-twice", "seed=1"),
        (
            {"list": [{"seed": 1}, {"seed": 1, "net.bias": False}]},
            "named-twice",
            "seed=1+bias=False",
        ),
        (
            {"grid": {"seed": [1]}, "list": [{"net.bias": True}, {"seed": 2}]},
            "contradiction",
            "seed",
        ),
        ({"grid": {"seed": MANY, "probe_examples": MANY}}, "too-large", 100_489),
        ({"list": [{"net.bias": True}] * 317, "grid": {"seed": MANY}}, "too-large", 100_489),
        ({"grid": {"gating.regime.x": [1]}}, "unknown-key", "gating.regime.x"),
        ({"grid": {"seed": ["x"]}}, "wrong-type", "x"),
        ({"grid": {"seed": 3}}, "wrong-type", 3),
    ],
)
def test_what_a_sweep_cannot_be_is_refused(tree: dict[str, Any], kind: str, value: object) -> None:
    with refused(kind, value=value):
        swept(tree)


def test_a_file_of_a_sweep_is_refused_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    for content in (b"[grid", b"\xff", b"x = 1", b"x = " + b"[" * 100_000):
        path.write_bytes(content)
        with pytest.raises(UserError, match=re.escape(str(path))):
            read_sweep(path)
    path.write_text('base = "base.toml"\n[grid]\n"gating.wiring" = [[0, 1], [1, 0]]\n')
    (tmp_path / "base.toml").write_text("seed = 3\n")
    assert [one.unit.config.seed for one in read_sweep(path).runs] == [3, 3]


# before the first run


def trained(unit_id: str, **changes: Any) -> Training:
    return Training(unit_id, replace(SMALL, **changes))


def not_possible(*units: Any, root: Path = Path("/nowhere"), here: bool = True) -> str:
    """What is said of the only run that cannot be."""
    with pytest.raises(UserError) as found:
        check_start(units, root, here)
    return str(found.value)


def test_each_training_that_is_not_possible_is_named_with_the_reason() -> None:
    endless = trained("a", training=replace(SMALL.training, epochs=0))
    with pytest.raises(UserError, match=r"\ba\b.*training\.epochs") as found:
        check_start([small_training(0), endless], Path("/nowhere"))
    assert "0" in str(found.value)
    assert "[1, 0, 2]" in not_possible(trained("a", gating=replace(SMALL.gating, wiring=(1, 0, 2))))
    for here in (True, False):
        said = not_possible(trained("a", data=DataConfig("digts")), here=here)
        assert said.count("'digts'") == 1
        assert said.endswith("'digits'?")
        net = NetConfig("fc", (("width", 8), ("depth", 1)))
        assert "net.options.depth" in not_possible(trained("a", net=net), here=here)
        odd = DataConfig("digits", options=(("size", 3),))
        assert "'size'" in not_possible(trained("a", data=odd), here=here)


def test_data_are_loaded_once_and_their_sizes_told(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[DataConfig] = []
    load = trial_starts.load_examples

    def counted(data: DataConfig) -> Any:
        loaded.append(data)
        return load(data)

    monkeypatch.setattr(trial_starts, "load_examples", counted)
    noisy = replace(SMALL.data, label_noise=0.5, pixels="random", variant_seed=3)
    fewer = replace(SMALL.data, train_limit=50)
    units = [
        small_training(0),
        small_training(1),
        trained("n", data=noisy),
        trained("f", data=fewer),
    ]
    sizes = check_start(units, Path("/nowhere")).sizes
    assert sizes == {SMALL.data: (200, 100), fewer: (50, 100)}
    assert loaded == [SMALL.data, fewer]
    assert check_start(units, Path("/nowhere"), local=False) == StartCheck({}, 0)


def test_a_network_of_a_file_on_another_machine_is_not_looked_for() -> None:
    far = trained("far", net=NetConfig("file:/elsewhere/x.pt"))
    check_start([far], Path("/nowhere"), local=False)
    assert "/elsewhere/x.pt" in not_possible(far)


def test_what_is_done_is_not_checked_and_what_is_left_of_its_kind_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, left = small_training(0), small_training(1)
    run_units(SerialExecutor(), [done], tmp_path)

    def absent(_: str) -> None:
        raise UserError("Its device is gone.")

    monkeypatch.setattr(trial_starts, "choose_device", absent)
    assert check_start([done], tmp_path) == StartCheck({}, 0)
    said = not_possible(done, left, root=tmp_path)
    assert left.id in said
    assert said.endswith("Its device is gone.")


def test_a_folder_may_be_new_but_not_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    check_folder(tmp_path)
    check_folder(tmp_path / "a" / "b")
    for place in (tmp_path / "f", tmp_path / "f" / "g" / "h"):
        with refused("wrong-file", value=str(tmp_path / "f")):
            check_folder(place)


def test_a_folder_may_not_be_a_run_or_in_one(tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "run", RunConfig()).close()
    for place in (tmp_path / "run", tmp_path / "run" / "sweep"):
        with refused("is-a-run", value=str(tmp_path / "run")):
            check_folder(place)
    check_folder(tmp_path)


def test_settings_without_effect_are_told_with_the_runs_they_are_in() -> None:
    tree = {
        "base": {"gating": {"regime": "FR-II"}},
        "grid": {"gating.beta": [4.0, 6.0], "training.batch": [20, 500]},
    }
    sweep = swept(tree)
    said = ignored_in(sweep.runs, sweep.fields, {})
    (beta,) = [line for line in said if "gating.beta" in line]
    assert beta.startswith("In 4 of 4 runs (beta=4+batch=20, …)")
    assert not [line for line in said if "training.batch" in line]  # nobody knows the data
    data = sweep.runs[0].unit.config.data
    said = ignored_in(sweep.runs, sweep.fields, {data: (300, 100)})
    (batch,) = [line for line in said if "training.batch" in line]
    assert batch.startswith("In 2 of 4 runs (beta=4+batch=500, …)")
    assert "500" in batch
    one = swept({"base": {"gating": {"regime": "FR-II"}}, "grid": {"gating.beta": [4.0]}})
    (alone,) = ignored_in(one.runs, one.fields, {})
    assert alone.startswith("In 1 of 1 runs (beta=4)")
    assert ignored_in(swept({"grid": {"seed": [1]}}).runs, ("seed",), {}) == []


# where it is carried out


def test_work_is_done_here_unless_a_cluster_is_named() -> None:
    assert [runs_on_this_machine(name) for name in ("", "local", "slurm", "tcp://h:1")] == [
        True,
        True,
        False,
        False,
    ]


def test_every_executor_has_its_name_and_its_limit() -> None:
    found = {
        name: find_executor(name, workers=3) for name in ("serial", "processes", "packed", "dask")
    }
    assert {name: type(one).__name__ for name, one in found.items()} == {
        "serial": "SerialExecutor",
        "processes": "ProcessExecutor",
        "packed": "BatchedExecutor",
        "dask": "DaskExecutor",
    }
    assert [vars(one).get("limit") for one in found.values()] == [None, 3, 3, 3]
    assert vars(found["dask"])["cluster"] == "local"
    for name in ("auto", "dask"):
        assert vars(find_executor(name, cluster="slurm", workers=2)) == {
            "cluster": "slurm",
            "limit": 2,
            "tls": ClusterTls(),
        }
    auto = find_executor("auto", [small_training(seed) for seed in range(8)], workers=4)
    assert (type(auto).__name__, vars(auto)["limit"]) == ("BatchedExecutor", 4)
    gpu = [
        replace(small_training(n), config=replace(small_training(n).config, device="auto"))
        for n in (0, 1)
    ]
    assert type(find_executor("auto", gpu)).__name__ in ("BatchedExecutor", "ProcessExecutor")
    with refused("unknown-name", value="serail"):
        find_executor("serail")
    with refused("contradiction", value="serial"):
        find_executor("serial", cluster="local")
    with refused("out-of-bounds", value=-1):
        find_executor("processes", workers=-1)
