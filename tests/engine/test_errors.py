"""What a misspelt name meant is said wherever a name is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dgn_engine.config import DataConfig, NetConfig, RunConfig
from dgn_engine.data import load_examples
from dgn_engine.errors import UserError, did_you_mean
from dgn_engine.experiments import find_experiment
from dgn_engine.importing.from_config import build_architecture
from dgn_engine.protocol.watching import ProbeRequest
from dgn_engine.regimes import all_regimes, find_regime
from dgn_engine.sweep.sweep_file import sweep_of
from dgn_engine.sweep.workers import find_executor
from dgn_engine.training.readings.probe_schedule import ProbeSchedule
from tests.engine.cli.typed import said_in_a_line
from tests.plugins import each


def test_the_nearest_name_is_offered_and_a_strange_one_offers_nothing() -> None:
    assert did_you_mean("FRII", ["ReLU", "FR-II", "FR-DI"]) == " Did you mean 'FR-II'?"
    assert did_you_mean("xyz", ["ReLU", "FR-II", "FR-DI"]) == ""
    assert did_you_mean("lottery in gates", ["DL"], {"lottery in the gates": "gates-only"}) == (
        " Did you mean 'gates-only'?"
    )


@pytest.mark.parametrize("regime", each(regime.name for regime in all_regimes()))
def test_a_regime_with_one_letter_too_many_is_offered(regime: str) -> None:
    with pytest.raises(UserError) as refusal:
        find_regime(f"{regime}x")
    assert f"'{regime}x'" in str(refusal.value)
    assert f"'{regime}'?" in str(refusal.value)


def table(**keys: object) -> Callable[[], object]:
    return lambda: RunConfig.from_dict(keys)


@pytest.mark.parametrize(
    ("ask", "meant"),
    [
        (lambda: build_architecture(NetConfig("resnet-18"), (3, 32, 32), 10), "resnet18"),
        (lambda: load_examples(DataConfig("digit")), "digits"),
        (lambda: load_examples(DataConfig("FashionMNIST")), "fashion-mnist"),
        (lambda: load_examples(DataConfig("identical", options=(("dims", 3),))), "dim"),
        (lambda: find_experiment("npf-table3"), "npf-table2"),
        (lambda: find_executor("proceses"), "processes"),
        (lambda: ProbeSchedule(lambda _: None).watch((ProbeRequest("gate"),)), "gates"),
        (table(trainng={}), "training"),
        (table(training={"learningrate": 0.1}), "training.learning_rate"),
        (table(training={"lr": 0.1}), "training.learning_rate"),
        (table(training={"optimiser": "adm"}), "adam"),
        (table(momentum=0.9), "training.momentum"),
        (table(data={"regime": "DL"}), "gating.regime"),
        (table(net={"nam": "fc"}), "net.name"),
        (lambda: sweep_of({"grid": {"regime": ["DL"]}}, None), "gating.regime"),  # type: ignore[arg-type]
        (lambda: sweep_of({"gird": {}}, None), "grid"),  # type: ignore[arg-type]
    ],
)
def test_a_misspelt_name_is_refused_with_the_nearest(ask: Callable[[], object], meant: str) -> None:
    with pytest.raises(UserError) as refusal:
        ask()
    assert f"'{meant}'?" in str(refusal.value)


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["trian"], "train"),
        (["train", "--regmie", "DL"], "--regime"),
        (["train", "--optimizer", "adam"], "--optimiser"),
        (["train", "--optimiser", "agd"], "sgd"),
        (["train", "--batch-size=3"], "--batch"),
        (["gate-information", "x.pt", "--seds", "3"], "--seeds"),
        (["sweep", "x.toml", "--worker-count", "3"], "--workers"),
        (["runs", "lst"], "list"),
    ],
)
def test_a_misspelt_option_is_refused_with_the_nearest(
    arguments: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said_in_a_line(capsys, *arguments).endswith(f"'{meant}'?\n")
