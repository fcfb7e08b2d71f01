"""A setting changes the result of a run, or the run says that it has no effect: for every setting.

The twin is the run itself, trained with the default and with another value: what is the same to
the last bit has not been changed by the setting, and only that may be said to be ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from dgn_engine.config import SETTINGS, DataConfig, RunConfig
from dgn_engine.data import Examples, data_sets, load_examples
from dgn_engine.errors import UserError
from dgn_engine.importing.from_config import settings_of_net
from dgn_engine.model.nets import all_nets
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.training import Measured, RunStarted
from dgn_engine.regimes import all_regimes
from dgn_engine.training.ignored_settings import RunFacts, ignored_settings
from dgn_engine.training.run import Run
from tests.engine.training.changed_config import change_config
from tests.plugins import each
from tests.refusals import refused

BASE = RunConfig.from_dict(
    {
        "data": {"train_limit": 30, "test_limit": 20},
        "net": {"options": {"width": 5, "depth": 4}},
        "training": {"batch": 8, "epochs": 1, "learning_rate": 0.02},
        "device": "cpu",
        "probe_examples": 10,
    }
)
# A value other than the default. What is left out says where data and results lie, and how fast.
OTHER: dict[str, Any] = {
    "data.binary": (3, 8),
    "data.train_limit": 24,
    "data.test_limit": 15,
    "data.label_noise": 0.9,
    "data.pixels": "random",
    "data.variant_seed": 3,
    "data.normalise": "0.5/0.2",
    "data.image_size": 6,
    "data.split_seed": 4,
    "net.bias": True,
    "net.feature_bias": True,
    "net.init": "glorot",
    "net.sigma": 0.7,
    "gating.beta": 3.0,
    "gating.epsilon": 0.3,
    "gating.value_input": "ones",
    "gating.wiring": (2, 0, 1),
    "gating.rotation": (1, 0, 2),
    "gating.tiling": (1, 2, 1),
    "gating.feature_layers": "parallel",
    "gating.gate_probability": 0.3,
    "gating.pretrain_epochs": 2,
    "training.loss": "squared",
    "training.optimiser": "sgd",
    "training.learning_rate": 0.03,
    "training.momentum": 0.9,
    "training.smoothing": 0.5,
    "training.batch": 7,
    "training.precision": "bf16",
    "training.epochs": 2,
    "seed": 1,
    "probe_examples": 8,
    "probe_set": "classes 1,2",
}
ELSEWHERE = {
    "data.name": "another network's data",
    "data.root": "said by the data set, below",
    "data.download": "said by the data set, below",
    "data.image_channels": "of networks of colour images: another network",
    "data.test_indices": "a file: what it names is held out (test_split)",
    "net.name": "another network",
    "gating.regime": "another regime",
    "gating.shift": "of maps: refused here",
    "gating.gates_from": "refused where gates are not taken",
    "training.patience": "counts where it is over",
    "training.until": "counts where it is reached",
    "training.augmentation": "of images: refused here",
    "training.weights_from": "below",
    "training.keep_epochs": "kept beside the run",
    "training.keep_best": "kept beside the run",
    "training.pace": "below",
    "device": "of the machine",
}


@cache
def examples_of(config: DataConfig) -> Examples:
    return load_examples(config)


def result_of(config: RunConfig) -> tuple[list[bytes], object]:
    """Every weight that a run ends with and that its logits depend on, and all that it says."""
    said: list[Event] = []
    run = Run(1, config, said.append, lambda *_: None, False, examples=examples_of(config.data))
    said.append(run.started_event(paused=False))
    while not run.is_finished and not run.diverged:
        run.advance()
    network, aside = run.trainer.network, run.trainer.regime.on_entry == "aside"
    used = network.value if aside else network
    parameters = [p.detach() for p in used.parameters()]
    # a bias that has stayed 0 is no result
    weights = [p.numpy().tobytes() for p in parameters if p.dim() > 1 or p.any()]
    told = [
        event.probe_set if isinstance(event, RunStarted) else event
        for event in said
        if isinstance(event, Measured | RunStarted)
    ]
    return weights, repr(told)


def with_setting(config: RunConfig, place: str, value: object) -> RunConfig:
    part, _, name = place.rpartition(".")
    return change_config(config, **({part: {name: value}} if part else {name: value}))


def in_regime(regime: str, **settings: object) -> RunConfig:
    config = with_setting(BASE, "gating.regime", regime)
    for place, value in settings.items():
        config = with_setting(config, place.replace("__", "."), value)
    return config


def situations() -> Iterator[Any]:
    for optimiser, init in (("sgd", "bernoulli"), ("rmsprop", "kaiming")):
        config = in_regime("DL", training__optimiser=optimiser, net__init=init)
        yield pytest.param(config, id=f"{optimiser}-{init}")
    yield pytest.param(in_regime("DL", data__label_noise=0.5), id="noise")
    yield pytest.param(in_regime("ReLU", data__pixels="random"), id="pixels")


@cache
def base_result(config: RunConfig) -> tuple[list[bytes], object]:
    return result_of(config)


def test_every_setting_is_tried_here_or_elsewhere() -> None:
    places = {f"{part}.{name}".lstrip(".") for part, found in SETTINGS.items() for name in found}
    assert places == OTHER.keys() | ELSEWHERE.keys()
    assert not OTHER.keys() & ELSEWHERE.keys()


@pytest.mark.parametrize("config", list(situations()))
def test_a_setting_changes_the_result_or_is_said_to_be_ignored(config: RunConfig) -> None:
    assert list(wrong_settings(config)) == []


@pytest.mark.parametrize("regime", each(regime.name for regime in all_regimes()))
def test_a_setting_changes_a_regime_or_is_said_to_be_ignored(regime: str) -> None:
    assert list(wrong_settings(in_regime(regime))) == []


@pytest.mark.parametrize(
    "name", each(name for name, entry in data_sets().items() if entry.is_generated)
)
def test_a_setting_changes_what_a_drawn_set_gives_or_is_said_to_be_ignored(name: str) -> None:
    sizes = {option.name: 12 for option in data_sets()[name].options if option.name == "n"}
    data = DataConfig(name, options=tuple(sizes.items()))
    parts = ("data.", "probe", "training.loss")
    assert list(wrong_settings(replace(in_regime("FR-II"), data=data), parts)) == []


def wrong_settings(
    config: RunConfig, parts: tuple[str, ...] = ("",)
) -> Iterator[tuple[str, object, str]]:
    """Settings that change the result and are said to be ignored, or change nothing in silence;
    those whose names begin so."""
    for place, value in OTHER.items():
        other = with_setting(config, place, value)
        if other == config or not place.startswith(parts):
            continue
        try:
            same = result_of(other) == base_result(config)
        except UserError:
            continue  # refused: it was said
        sizes = tuple(len(labels) for labels in _labels(other.data))
        facts = RunFacts((sizes[0], sizes[1]))
        said = place in {one.place for one in ignored_settings(other, facts)}
        if same != said:
            yield place, value, "changes nothing" if same else "changes the result"


def _labels(data: DataConfig) -> tuple[Any, Any]:
    examples = examples_of(data)
    return examples.train_y, examples.test_y


def ignored(config: RunConfig, facts: RunFacts, *named: str) -> dict[str, str]:
    """The sentence of each place."""
    return {one.place: one.sentence for one in ignored_settings(config, facts, named)}


def test_a_batch_that_is_larger_than_the_data_takes_all_of_them() -> None:
    facts = RunFacts((30, 20))
    larger, whole = (with_setting(BASE, "training.batch", size) for size in (31, 30))
    assert result_of(larger) == result_of(whole)
    assert not ignored(whole, facts)
    (said,) = ignored(larger, facts).values()
    assert said.startswith("training.batch 31 ")
    assert " 30 training examples" in said


def test_limits_that_leave_all_examples_are_said() -> None:
    limited = with_setting(with_setting(BASE, "data.train_limit", 9999), "data.test_limit", 999)
    said = ignored(limited, RunFacts((1437, 360)))
    assert list(said) == ["data.train_limit", "data.test_limit"]
    assert [number in text for number, text in zip(("1,437", "360"), said.values(), strict=True)]


@pytest.mark.discovery
def test_a_folder_of_data_sets_is_ignored_by_sets_that_do_not_lie_there() -> None:
    for name, entry in data_sets().items():
        data = DataConfig(f"{name}:x" if entry.takes_path else name, root="x", download=True)
        said = {one.place for one in ignored_settings(replace(BASE, data=data), RunFacts())}
        assert ({"data.root", "data.download"} <= said) == (not entry.rooted), name


def test_momentum_is_said_whatever_has_none() -> None:
    with_momentum = with_setting(BASE, "training.momentum", 0.9)
    (said,) = ignored(with_momentum, RunFacts()).values()
    assert said.endswith("training.optimiser sgd.")
    assert not ignored(with_setting(with_momentum, "training.optimiser", "sgd"), RunFacts())


def test_epochs_that_learn_gates_are_ignored_where_a_file_gives_them() -> None:
    """Both conditions of the setting count, in whatever order they stand."""
    learnt = in_regime("FL", gating__pretrain_epochs=3)
    assert not ignored(learnt, RunFacts())
    given = with_setting(learnt, "gating.gates_from", "net.pt")
    unused = with_setting(learnt, "gating.regime", "DL")
    for config, why in ((given, "gating.gates_from"), (unused, "DL")):
        said = ignored(config, RunFacts())
        assert list(said) == ["gating.pretrain_epochs"]
        assert why in said["gating.pretrain_epochs"]


def test_a_default_is_ignored_in_silence_unless_the_user_wrote_it() -> None:
    hard = in_regime("FR-II")
    assert not ignored(hard, RunFacts())
    assert "FR-II" in ignored(hard, RunFacts(), "gating.beta")["gating.beta"]


def test_a_window_may_come_to_use_what_the_first_regime_does_not() -> None:
    hard = with_setting(in_regime("FR-II"), "gating.beta", 3.0)
    assert not ignored(hard, RunFacts(live=True))
    assert not ignored(with_setting(hard, "training.pace", 5.0), RunFacts(live=True))
    assert list(ignored(with_setting(BASE, "training.pace", 5.0), RunFacts())) == ["training.pace"]


def test_an_initial_law_is_ignored_where_every_weight_comes_from_a_file(tmp_path: Path) -> None:
    shapes = [(5, 64), (5, 5), (5, 5), (10, 5)]
    file = tmp_path / "x.safetensors"
    save_file({f"{i}.weight": torch.randn(shape) for i, shape in enumerate(shapes)}, file)
    for regime, ignored in (("ReLU", True), ("DL", False)):
        config = in_regime(regime, training__weights_from=str(file))
        other = with_setting(config, "net.init", "glorot")
        assert _used_weights(other) == _used_weights(config) if ignored else True
        run = Run(1, other, lambda _: None, lambda *_: None, live=False)
        said = [one.place for one in run.find_ignored(live=False, recorded=True)]
        assert said == (["net.init"] if ignored else [])


def _used_weights(config: RunConfig) -> list[bytes]:
    run = Run(1, config, lambda _: None, lambda *_: None, live=False)
    run.step()
    return [p.detach().numpy().tobytes() for p in run.trainer.network.value.parameters()]


def test_weights_of_an_epoch_that_never_comes_are_refused() -> None:
    late = with_setting(BASE, "training.keep_epochs", (1, 2))
    with refused("contradiction", place="training.keep_epochs", value=2):
        Run(1, late, lambda _: None, lambda *_: None, live=False)
    learnt = with_setting(late, "gating.regime", "FL")  # an epoch of ReLU comes first
    Run(1, learnt, lambda _: None, lambda *_: None, live=False)


@pytest.mark.parametrize("net", each(all_nets()))
def test_every_option_of_a_network_changes_it(net: str) -> None:
    plugin = all_nets()[net]
    defaults = {option.name: option.default for option in plugin.options}
    shape = (3, 32, 32)
    for option in settings_of_net(plugin):
        if isinstance(option.default, bool):
            value: Any = not option.default
        elif option.choices:
            value = next(one for one in option.choices if one != option.default)
        else:
            most = option.most is not None and option.default >= option.most
            value = option.default - 1 if most else option.default + 1
        other = plugin.build(shape, 10, defaults | {option.name: value})
        assert other != plugin.build(shape, 10, defaults), option.name
