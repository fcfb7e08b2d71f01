"""A sweep's file: names of runs, what is varied over what, and the checks before the first run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dgn_engine.config import DataConfig, NetConfig
from dgn_engine.errors import UserError
from dgn_engine.sweep.checks import StartCheck, check_folder, check_start, ignored_in
from dgn_engine.sweep.cluster_tls import ClusterTls
from dgn_engine.sweep.sweep_file import Sweep, read_sweep, sweep_of
from dgn_engine.sweep.unit import Training
from dgn_engine.sweep.workers import find_executor, works_here
from dgn_engine.sweep.workers.serial import SerialExecutor
from dgn_engine.training import trial_starts
from tests.engine.sweep.small import SMALL, learnt, run, small


def swept(tree: dict[str, Any]) -> Sweep:
    return sweep_of(tree, Path("/"))


def sentence(tree: dict[str, Any]) -> str:
    with pytest.raises(UserError) as refused:
        swept(tree)
    return str(refused.value)


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


def test_a_grid_varies_under_each_entry_of_a_list_in_the_order_of_the_file() -> None:
    tree = {
        "base": {"seed": 5, "net": {"options": {"width": 8}}},
        "list": [{"gating": {"regime": "DL"}}, {"gating.regime": "FR-II", "net.bias": True}],
        "grid": {"training.batch": [10, 20], "net.options.depth": [3]},
    }
    sweep = swept(tree)
    assert sweep.fields == ("gating.regime", "net.bias", "training.batch", "net.options.depth")
    assert [one.unit.id for one in sweep.runs] == [
        "regime=DL+batch=10+depth=3",
        "regime=DL+batch=20+depth=3",
        "regime=FR-II+bias=True+batch=10+depth=3",
        "regime=FR-II+bias=True+batch=20+depth=3",
    ]
    assert sweep.runs[2].settings == {
        "gating.regime": "FR-II",
        "net.bias": True,
        "training.batch": 10,
        "net.options.depth": 3,
    }
    configs = [one.unit.config for one in sweep.runs]
    assert [(c.gating.regime, c.net.bias, c.training.batch) for c in configs] == [
        ("DL", False, 10),
        ("DL", False, 20),
        ("FR-II", True, 10),
        ("FR-II", True, 20),
    ]
    assert {c.seed for c in configs} == {5}
    assert all(dict(c.net.options) == {"width": 8, "depth": 3} for c in configs)


def test_what_a_sweep_cannot_be_is_one_sentence() -> None:
    assert sentence({"grid": {}}) == "Nothing is varied; give a [grid] or some [[list]]."
    assert sentence({"list": [{}]}) == "Nothing is varied; give a [grid] or some [[list]]."
    assert sentence({"grid": 3}) == "[grid] must be a table of fields and lists of values."
    assert sentence({"list": [3]}) == "[[list]] must be tables of fields and values."
    assert sentence({"list": []}) == "[[list]] must be tables of fields and values."
    assert sentence({"base": 3, "grid": {"seed": [1]}}) == (
        "base must be the name of a configuration file or a table."
    )
    assert sentence({"gird": {}}) == (
        "Unknown key 'gird'; a sweep has base, [grid] and [[list]]. Did you mean 'grid'?"
    )
    assert sentence({"grid": {"seed": [1, 1]}}) == "Two runs are the same: 'seed=1' and 'seed=1'."
    twice = {"list": [{"seed": 1}, {"seed": 1, "net.bias": False}]}
    assert sentence(twice) == "Two runs are the same: 'seed=1' and 'seed=1+bias=False'."
    both = {"grid": {"seed": [1]}, "list": [{"net.bias": True}, {"seed": 2}]}
    assert sentence(both) == "'seed' is both in [grid] and in [[list]]; leave one out."
    many = list(range(317))
    assert sentence({"grid": {"seed": many, "probe_examples": many}}) == (
        "These are 100,489 runs; at most 100,000 are allowed."
    )
    listed = {"list": [{"net.bias": True}] * 317, "grid": {"seed": many}}
    assert "100,489 runs" in sentence(listed)
    assert sentence({"grid": {"gating.regime.x": [1]}}) == (
        "There is no field 'gating.regime.x' in a configuration."
    )
    assert sentence({"grid": {"seed": ["x"]}}).startswith("The run seed=x is not possible: ")


def test_a_file_of_a_sweep_is_refused_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    for content, words in (
        (b"[grid", f"{path} is not valid TOML: "),
        (b"\xff", f"Cannot read the sweep {path}: "),
        (b"x = 1", f"{path}: Unknown key 'x'"),
        (b"x = " + b"[" * 100_000, f"{path} is nested deeper than 16 levels"),
    ):
        path.write_bytes(content)
        with pytest.raises(UserError) as refused:
            read_sweep(path)
        assert str(refused.value).startswith(words)


# before the first run


def trained(unit_id: str, **changes: Any) -> Training:
    return Training(unit_id, replace(SMALL, **changes))


def refused(*units: Any, root: Path = Path("/nowhere"), here: bool = True) -> str:
    with pytest.raises(UserError) as found:
        check_start(units, root, here)
    return str(found.value)


def test_each_training_that_is_not_possible_is_named_with_the_reason() -> None:
    endless = replace(SMALL.training, epochs=0)
    assert refused(small(0), trained("a", training=endless)) == (
        "The run a is not possible: training.epochs is 0, which never ends; say how many."
    )
    wired = replace(SMALL.gating, wiring=(1, 0, 2))
    assert "The run a is not possible: " in refused(trained("a", gating=wired))
    unknown = trained("a", data=DataConfig("digts"))
    for here in (True, False):
        said = refused(unknown, here=here)
        assert said.startswith("The run a is not possible: There is no data set 'digts'; choose")
        assert said.endswith("Did you mean 'digits'?")
        net = NetConfig("fc", (("width", 8), ("depth", 1)))
        assert "The run a is not possible" in refused(trained("a", net=net), here=here)
        odd = DataConfig("digits", options=(("size", 3),))
        assert "has no options, so 'size' means" in refused(trained("a", data=odd), here=here)


def test_data_are_loaded_once_and_their_sizes_told(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[DataConfig] = []
    load = trial_starts.load_examples

    def counted(data: DataConfig) -> Any:
        loaded.append(data)
        return load(data)

    monkeypatch.setattr(trial_starts, "load_examples", counted)
    noisy = replace(SMALL.data, label_noise=0.5, pixels="random", variant_seed=3)
    fewer = replace(SMALL.data, train_limit=50)
    units = [small(0), small(1), trained("n", data=noisy), trained("f", data=fewer)]
    sizes = check_start(units, Path("/nowhere")).sizes
    assert sizes == {SMALL.data: (200, 100), fewer: (50, 100)}
    assert loaded == [SMALL.data, fewer]
    assert check_start(units, Path("/nowhere"), here=False) == StartCheck({}, 0)


def test_a_network_of_a_file_on_another_machine_is_not_looked_for() -> None:
    far = trained("far", net=NetConfig("file:/elsewhere/x.pt"))
    check_start([far], Path("/nowhere"), here=False)
    assert refused(far).startswith("The run far is not possible: ")


def test_what_is_done_is_not_checked_and_what_is_left_of_its_kind_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, left = small(0), small(1)
    run(SerialExecutor(), [done], tmp_path)

    def absent(_: str) -> None:
        raise UserError("Its device is gone.")

    monkeypatch.setattr(trial_starts, "choose_device", absent)
    assert check_start([done], tmp_path) == StartCheck({}, 0)
    said = f"The run {left.id} is not possible: Its device is gone."
    assert refused(done, left, root=tmp_path) == said


def test_gates_that_another_unit_makes_are_not_asked_for(tmp_path: Path) -> None:
    check_start(learnt(0), tmp_path)


def test_a_folder_may_be_new_but_not_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    check_folder(tmp_path)
    check_folder(tmp_path / "a" / "b")
    for place in (tmp_path / "f", tmp_path / "f" / "g" / "h"):
        with pytest.raises(UserError) as said:
            check_folder(place)
        words = f"{tmp_path / 'f'} is not a folder; choose a folder with --out."
        assert str(said.value) == words


def test_settings_without_effect_are_told_with_the_runs_they_are_in() -> None:
    tree = {
        "base": {"gating": {"regime": "FR-II"}},
        "grid": {"gating.beta": [4.0, 6.0], "training.batch": [20, 500]},
    }
    sweep = swept(tree)
    said = ignored_in(sweep.runs, sweep.fields, {})
    (beta,) = [line for line in said if "gating.beta" in line]
    assert beta.startswith("In 4 of 4 runs (beta=4+batch=20, …) gating.beta has no effect")
    assert not [line for line in said if "training.batch" in line]  # nobody knows the data
    data = sweep.runs[0].unit.config.data
    said = ignored_in(sweep.runs, sweep.fields, {data: (300, 100)})
    (batch,) = [line for line in said if "training.batch" in line]
    assert batch.startswith("In 2 of 4 runs (beta=4+batch=500, …) training.batch 500 is more")
    one = swept({"base": {"gating": {"regime": "FR-II"}}, "grid": {"gating.beta": [4.0]}})
    (alone,) = ignored_in(one.runs, one.fields, {})
    assert alone.startswith("In 1 of 1 runs (beta=4) gating.beta has no effect")
    assert ignored_in(swept({"grid": {"seed": [1]}}).runs, ("seed",), {}) == []


# where it is carried out


def test_work_is_done_here_unless_a_cluster_is_named() -> None:
    assert [works_here(name) for name in ("", "local", "slurm", "tcp://h:1")] == [
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
    auto = find_executor("auto", [small(seed) for seed in range(8)], workers=4)
    assert (type(auto).__name__, vars(auto)["limit"]) == ("BatchedExecutor", 4)
    gpu = [replace(small(n), config=replace(small(n).config, device="auto")) for n in (0, 1)]
    assert type(find_executor("auto", gpu)).__name__ in ("BatchedExecutor", "ProcessExecutor")
    with pytest.raises(UserError, match=r"There is no executor 'serail'.*Did you mean 'serial'"):
        find_executor("serail")
    with pytest.raises(UserError, match="not for 'serial'; leave one out"):
        find_executor("serial", cluster="local")
