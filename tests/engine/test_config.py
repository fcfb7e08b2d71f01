"""The configuration refuses what cannot be run, by name, and survives TOML."""

from __future__ import annotations

import math

import pytest

from dgn_engine.config import DataConfig, GatingConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.errors import UserError
from dgn_engine.storage.config_file import read_config

FULL = RunConfig(
    data=DataConfig(name="mnist", root="/data", binary=(4, 7), train_limit=200),
    net=NetConfig(name="fc", options=(("width", 100), ("depth", 5)), bias=True, init="bernoulli"),
    gating=GatingConfig(regime="FL", beta=10.0, wiring=(2, 0, 1), value_input="ones"),
    training=TrainingConfig(loss="squared", optimiser="rmsprop", learning_rate=1e-4, batch=64),
    seed=3,
)


@pytest.mark.parametrize("config", [RunConfig(), FULL])
def test_a_configuration_round_trips_through_toml(config: RunConfig) -> None:
    assert RunConfig.from_toml(config.to_toml()) == config


def test_options_are_equal_whatever_their_order() -> None:
    assert NetConfig(options=(("width", 1), ("depth", 2))) == NetConfig(
        options=(("depth", 2), ("width", 1))
    )


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[training]\nlearning_rate = 0", "training.learning_rate"),
        ("[training]\nlearning_rate = 'fast'", "training.learning_rate"),
        ("[training]\nbatch = true", "training.batch"),
        ("[training]\noptimiser = 'lion'", "adam, sgd, rmsprop"),
        ("[gating]\nbeta = -1", "gating.beta"),
        ("[gating]\nwiring = [0, 0]", "gating.wiring"),
        ("[gating]\nwiring = 3", "gating.wiring"),
        ("[data]\nbinary = [4, 4]", "data.binary"),
        ("[net]\nwidht = 3", "net.widht"),
        ("net = 3", "net"),
        ("seed = -1", "seed"),
        ("seed = ", "TOML"),
    ],
)
def test_a_wrong_value_is_refused_by_name(text: str, named: str) -> None:
    with pytest.raises(UserError, match=named):
        RunConfig.from_toml(text)


def test_a_missing_file_is_refused_with_its_name(tmp_path) -> None:
    with pytest.raises(UserError, match="nowhere"):
        read_config(tmp_path / "nowhere.toml")


@pytest.mark.parametrize(
    ("place", "value", "complaint"),
    [
        ("seed", 1 << 63, "seed is 9223372036854775808; it must be at most 9,007,199,254,740,992."),
        ("seed", 10**400, "seed is a number of 1,329 bits; it must be at most"),
        ("seed", -(10**400), "seed is a number of 1,329 bits; it must be at least"),
        ("training.batch", 1 << 54, "training.batch is 18014398509481984; it must be at most"),
        ("training.learning_rate", 10**400, "learning_rate is a number of 1,329 bits"),
        ("gating.rotation", [0, 1 << 60], "gating.rotation is 1152921504606846976; it must be"),
        ("data.name", "x" * 5000, "data.name is 5,000 characters long; 4,096 are allowed."),
        ("data.root", "\ud800", "data.root is '\\ud800'; that is no text that can be written."),
        ("net.bias", "x" * 10**6, "net.bias is 'xxx"),
        ("net.options", {"width": [1]}, "Option 'width' is [1]; it must be a number or a word."),
        ("net.options", {"width": math.inf}, "Option 'width' is inf; it must be a number"),
        ("net.options", {"width": 1 << 60}, "Option 'width' is 1152921504606846976; it must be"),
        ("net.options", {"\ud800": 1}, "The name of an option is '\\ud800'"),
    ],
)
def test_what_no_setting_can_be_is_one_short_sentence(
    place: str, value: object, complaint: str
) -> None:
    tree = RunConfig().to_dict()
    part, _, name = place.rpartition(".")
    (tree[part] if part else tree)[name] = value
    with pytest.raises(UserError) as refusal:
        RunConfig.from_dict(tree)
    told = str(refusal.value)
    assert complaint in told
    assert len(told) < 300


def test_a_part_that_is_spelt_otherwise_is_read_anew() -> None:
    """Parts that are spelt alike are built once; 1 and true are equal in Python, and not here."""
    tree = RunConfig().to_dict()
    first = RunConfig.from_dict({**tree, "seed": 1})
    second = RunConfig.from_dict({**tree, "seed": 2})
    assert second.training is first.training
    with pytest.raises(UserError, match=r"training\.batch"):
        RunConfig.from_dict({**tree, "training": {**tree["training"], "batch": True}})
    ones = {**tree, "training": {**tree["training"], "batch": 1}}
    assert type(RunConfig.from_dict(ones).training.batch) is int
    with pytest.raises(UserError, match=r"net\.bias"):
        RunConfig.from_dict({**tree, "net": {**tree["net"], "bias": 0}})
