"""The configuration refuses what cannot be run, by name, and survives TOML; what its settings
declare fits together."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import pytest

from dgn_engine.cli._options import PLACES
from dgn_engine.config import (
    SETTINGS,
    DataConfig,
    GatingConfig,
    NetConfig,
    RunConfig,
    TrainingConfig,
)
from dgn_engine.config.setting import LONGEST, MOST, Setting, fill_options
from dgn_engine.protocol.catalogue import DataEntry, RegimeEntry
from dgn_engine.storage.config_file import read_config
from tests.refusals import refused

FULL = RunConfig(
    data=DataConfig(name="mnist", root="/data", binary=(4, 7), train_limit=200),
    net=NetConfig(name="fc", options=(("width", 100), ("depth", 5)), bias=True, init="bernoulli"),
    gating=GatingConfig(regime="FL", beta=10.0, wiring=(2, 0, 1), value_input="ones"),
    training=TrainingConfig(loss="squared", optimiser="rmsprop", learning_rate=1e-4, batch=64),
    seed=3,
)
ALL = {
    f"{part}.{name}".lstrip("."): setting
    for part, settings in SETTINGS.items()
    for name, setting in settings.items()
}
SUBJECTS = {
    "regime": RegimeEntry("", "", "", own_gates=False, soft=False, trains_feature=False),
    "dataset": DataEntry("", "", available=True, hint=""),
}


@pytest.mark.parametrize("config", [RunConfig(), FULL])
def test_a_configuration_round_trips_through_toml(config: RunConfig) -> None:
    assert RunConfig.from_toml(config.to_toml()) == config


def test_options_are_equal_whatever_their_order() -> None:
    one, other = (("width", 1), ("depth", 2)), (("depth", 2), ("width", 1))
    assert NetConfig(options=one) == NetConfig(options=other)


@pytest.mark.parametrize(
    ("text", "kind", "place"),
    [
        ("[training]\nlearning_rate = 0", "out-of-bounds", "training.learning_rate"),
        ("[training]\nlearning_rate = 'fast'", "wrong-type", "training.learning_rate"),
        ("[training]\nbatch = true", "wrong-type", "training.batch"),
        ("[training]\noptimiser = 'lion'", "no-choice", "training.optimiser"),
        ("[gating]\nbeta = -1", "out-of-bounds", "gating.beta"),
        ("[gating]\nwiring = [0, 0]", "no-permutation", "gating.wiring"),
        ("[gating]\nwiring = 3", "wrong-type", "gating.wiring"),
        ("[data]\nbinary = [4, 4]", "no-pair", "data.binary"),
        ("[net]\nwidht = 3", "unknown-key", "net.widht"),
        ("net = 3", "wrong-type", ""),
        ("seed = -1", "out-of-bounds", "seed"),
        ("seed = ", "wrong-form", ""),
    ],
)
def test_a_wrong_value_is_refused_by_name(text: str, kind: str, place: str) -> None:
    with refused(kind, place):
        RunConfig.from_toml(text)


def test_a_missing_file_is_refused_with_its_name(tmp_path: Path) -> None:
    with refused("unreadable") as refusal:
        read_config(tmp_path / "nowhere.toml")
    assert "nowhere.toml" in str(refusal.error)


@pytest.mark.parametrize(
    ("place", "value", "kind", "shown"),
    [
        ("seed", 1 << 63, "out-of-bounds", "9,007,199,254,740,992"),
        ("seed", 10**400, "out-of-bounds", "1,329 bits"),
        ("seed", -(10**400), "out-of-bounds", "-9,007,199,254,740,992"),
        ("training.batch", 1 << 54, "out-of-bounds", "18014398509481984"),
        ("training.learning_rate", 10**400, "out-of-bounds", "1,329 bits"),
        ("gating.rotation", [0, 1 << 60], "out-of-bounds", "1152921504606846976"),
        ("data.name", "x" * (LONGEST + 1), "too-long", "4,097"),
        ("seed", MOST + 1, "out-of-bounds", "9,007,199,254,740,992"),
        ("data.root", "\ud800", "no-text", r"'\ud800'"),
        ("net.bias", "x" * 10**6, "wrong-type", "'xxx"),
        ("net.options", {"width": [1]}, "wrong-type", "'width' is [1]"),
        ("net.options", {"width": math.inf}, "wrong-type", "'width' is inf"),
        ("net.options", {"width": 1 << 60}, "out-of-bounds", "1152921504606846976"),
        ("net.options", {"\ud800": 1}, "no-text", r"'\ud800'"),
    ],
)
def test_what_no_setting_can_be_is_one_short_sentence(
    place: str, value: object, kind: str, shown: str
) -> None:
    tree = RunConfig().to_dict()
    part, _, name = place.rpartition(".")
    (tree[part] if part else tree)[name] = value
    with refused(kind) as refusal:
        RunConfig.from_dict(tree)
    assert shown in str(refusal.error)
    assert place == "net.options" or refusal.error.place == place
    assert len(str(refusal.error)) < 300


def test_what_a_setting_can_be_at_most_is_taken() -> None:
    RunConfig(data=DataConfig(root="x" * LONGEST))
    Setting("n", "n", 2).check_allowed("n", MOST)
    Setting("n", "n", 2).check_allowed("n", -MOST)


def test_a_part_that_is_spelt_otherwise_is_read_anew() -> None:
    """Parts that are spelt alike are built once; 1 and true are equal in Python, and not here."""
    tree = RunConfig().to_dict()
    first, second = (RunConfig.from_dict({**tree, "seed": seed}) for seed in (1, 2))
    assert second.training is first.training
    with refused("wrong-type", "training.batch", True):
        RunConfig.from_dict({**tree, "training": {**tree["training"], "batch": True}})
    ones = {**tree, "training": {**tree["training"], "batch": 1}}
    assert type(RunConfig.from_dict(ones).training.batch) is int
    with refused("wrong-type", "net.bias", 0):
        RunConfig.from_dict({**tree, "net": {**tree["net"], "bias": 0}})


def test_a_default_keeps_to_what_its_setting_declares_and_conditions_name_what_exists() -> None:
    for place, setting in ALL.items():
        setting.check_allowed(place, setting.default)
        for condition in (*setting.when, *setting.shown):
            subject, _, name = condition.partition(".")
            assert condition in ALL or hasattr(SUBJECTS[subject], name), place


def test_no_two_settings_share_an_option() -> None:
    options = [s.name if s.option is None else s.option for s in ALL.values()]
    assert {name: n for name, n in Counter(options).items() if name and n > 1} == {}
    assert PLACES["lr"] == ("training", "learning_rate")
    assert "pace" not in PLACES


@pytest.mark.parametrize(
    ("declared", "value", "wrong", "kind"),
    [
        (Setting("n", "n", 2, least=1), 0, 0, "out-of-bounds"),
        (Setting("n", "n", 2, most=3), 4, 4, "out-of-bounds"),
        (Setting("x", "x", 1.0, above=0), math.inf, math.inf, "out-of-bounds"),
        (Setting("l", "l", (), least=0), (1, -1), -1, "out-of-bounds"),
        (Setting("p", "p", 0.5, share=True), 1.5, 1.5, "out-of-bounds"),
        (Setting("c", "c", "a", choices=("a", "b")), "d", "d", "no-choice"),
    ],
)
def test_a_value_out_of_bounds_is_refused_and_the_bound_itself_is_not(
    declared: Setting, value: object, wrong: object, kind: str
) -> None:
    with refused(kind, declared.name, wrong) as refusal:
        declared.check_allowed(declared.name, value)
    ends = [end for end in (declared.least, declared.most, *declared.choices) if end is not None]
    for end in ends:
        assert str(end) in refusal.error.way_out
        declared.check_allowed(declared.name, end)
    with refused("out-of-bounds"):
        Setting("p", "p", 0.5, share=True).check_allowed("p", math.nan)


def test_a_whole_number_is_accepted_where_any_number_is_meant() -> None:
    values = fill_options("It", "it", [Setting("x", "x", 0.5)], [("x", 2)])
    assert values == {"x": 2.0}
    assert type(values["x"]) is float
    with refused("unknown-name", value="y"):
        fill_options("It", "it", [Setting("x", "x", 0.5)], [("y", 2)])
    with refused("unknown-name", value="y"):
        fill_options("It", "it", [], [("y", 2)])
