"""What a misspelt name meant is said wherever a name is refused."""

from __future__ import annotations

import pickle
import sys
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from dgn_engine.cli._option_checks import BoundedNumber, bounded_number
from dgn_engine.cli._options import add_run_options, run_config
from dgn_engine.config import DataConfig, GatingConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.data import load_examples
from dgn_engine.errors import (
    MOST,
    Hint,
    MarkedSentence,
    UserError,
    Where,
    did_you_mean,
    how_to_install,
    with_names,
)
from dgn_engine.experiments import find_experiment
from dgn_engine.importing.from_config import build_architecture
from dgn_engine.importing.geometry_words import parse_geometry
from dgn_engine.kernels import empirical_ntk
from dgn_engine.model.architecture import Architecture, Dense
from dgn_engine.model.wiring import make_routes
from dgn_engine.protocol.watching import ProbeRequest
from dgn_engine.regimes import all_regimes, find_regime
from dgn_engine.storage.config_file import read_config
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.sweep.sweep_file import sweep_of
from dgn_engine.sweep.workers import find_executor
from dgn_engine.training.ignored_settings import RunFacts, check_contradictions, ignored_settings
from dgn_engine.training.readings.probe_schedule import ProbeSchedule
from dgn_engine.views.event_notices import use_form_names
from tests.engine.cli.typed import one_line_error
from tests.plugins import each
from tests.refusals import refused


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
    assert one_line_error(capsys, *arguments).endswith(f"'{meant}'?\n")


# Refusals carry what they are about as data, and whoever shows one composes its sentence.

LONG = "x" * 5000


def ending_too_soon() -> None:
    check_contradictions(RunConfig(training=TrainingConfig(epochs=2, keep_epochs=(3,))))


@pytest.mark.parametrize(
    ("act", "kind", "place", "value"),
    [
        (lambda: TrainingConfig(momentum=-1), "out-of-bounds", "training.momentum", -1),
        (lambda: TrainingConfig(loss="x"), "no-choice", "training.loss", "x"),  # type: ignore[arg-type]
        (lambda: DataConfig(name=""), "empty", "data.name", None),
        (lambda: DataConfig(binary=(3, 3)), "no-pair", "data.binary", [3, 3]),
        (lambda: GatingConfig(wiring=(1, 1)), "no-permutation", "gating.wiring", [1, 1]),
        (lambda: DataConfig(root=LONG), "too-long", "data.root", LONG),
        (lambda: RunConfig.from_dict({"data": {"x": 1}}), "unknown-key", "data.x", 1),
        (lambda: make_routes(2, (1,), (), ()), "wrong-length", "gating.rotation", [1]),
        (ending_too_soon, "contradiction", "training.keep_epochs", 3),
    ],
)
def test_a_refusal_says_as_data_what_it_is_about(
    act: Callable[[], object], kind: str, place: str, value: object
) -> None:
    with refused(kind, place, value) as refusal:
        act()
    assert place in str(refusal.error)


@pytest.mark.parametrize(
    ("act", "place"),
    [
        (lambda: parse_geometry("s1p1,oops"), "--geometry"),
        (lambda: Architecture((3,), (Dense(3, 2, True), Dense(4, 1, False))), "Node 1 (Dense)"),
        (lambda: empirical_ntk(nn.Linear(2, 1), torch.ones(2, 2), budget_bytes=8), "budget_bytes"),
    ],
)
def test_a_refusal_of_the_library_names_its_place(act: Callable[[], object], place: str) -> None:
    with pytest.raises(UserError) as refusal:
        act()
    assert refusal.value.place == place


def test_how_another_folder_is_said_is_for_who_shows_it(tmp_path: Path) -> None:
    (tmp_path / "note").touch()
    with pytest.raises(UserError) as refusal:
        RunFolder.create(tmp_path, RunConfig())
    assert "--out" in str(refusal.value)
    other = str(refusal.value.rename_places(lambda _: ": out=…."))
    assert other.startswith(str(tmp_path))
    assert other.endswith(": out=….")
    assert "--out" not in other


def test_a_key_of_a_file_keeps_its_name(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text("[training]\nmomentum = -1.0\n", encoding="utf-8")
    with refused("out-of-bounds", value=-1.0) as refusal:
        read_config(path)
    before = str(refusal.error)
    assert before.startswith(f"{path}: training.momentum is -1.0")
    assert str(refusal.error.rename_places(str.upper)) == before


def test_an_option_that_was_typed_is_named_as_it_was_typed() -> None:
    parser = ArgumentParser()
    add_run_options(parser)
    with refused("out-of-bounds", "training.momentum", -1.0) as refusal:
        run_config(parser.parse_args(["--momentum", "-1"]))
    assert str(refusal.error).startswith("--momentum is -1.0")


def test_a_number_out_of_its_bounds_is_refused_with_its_option() -> None:
    parser = ArgumentParser()
    action = parser.add_argument("--seeds", **bounded_number(int, least=1))
    assert isinstance(action, BoundedNumber)
    action.check_within_bounds(parser.parse_args([]))
    action.check_within_bounds(parser.parse_args(["--seeds", "1"]))
    with refused("out-of-bounds", "--seeds", 0) as refusal:
        action.check_within_bounds(parser.parse_args(["--seeds", "0"]))
    assert refusal.error.way_out
    assert refusal.error.way_out in str(refusal.error)


def test_every_place_in_a_sentence_is_called_as_the_form_calls_it() -> None:
    config = RunConfig(training=TrainingConfig(momentum=0.5))
    (ignored,) = ignored_settings(config, RunFacts())
    for sentence, places in (
        (ignored.sentence, ("training.momentum", "training.optimiser")),
        (use_form_names(ignored.sentence), ("'momentum'", "'optimiser'")),
    ):
        assert sentence.startswith(places[0])
        assert places[1] in sentence


def test_a_sentence_is_put_together_of_places_and_text_and_goes_through_a_pipe() -> None:
    sentence = "It needs " + Where("a") + " and " + (Where("b") + " too") + "."
    assert isinstance(sentence, MarkedSentence)
    for came in (sentence, pickle.loads(pickle.dumps(sentence))):
        assert came == "It needs a and b too."
        assert with_names(came, str.upper) == "It needs A and B too."
    assert with_names("a is plain.", str.upper) == "a is plain."


def test_a_refusal_goes_through_a_pipe() -> None:
    with pytest.raises(UserError) as refusal:
        TrainingConfig(momentum=-1)
    came = pickle.loads(pickle.dumps(refusal.value))
    assert str(came) == str(refusal.value)
    assert (came.kind, came.place, came.value) == ("out-of-bounds", "training.momentum", -1)
    assert came.way_out == refusal.value.way_out != ""
    assert str(came.rename_places(str.upper)).startswith("TRAINING.MOMENTUM is -1;")


def test_the_place_of_a_refusal_is_its_first_and_no_hint() -> None:
    refusal = UserError(Hint("perhaps") + " " + Where("a") + Where("b"))
    assert refusal.place == "a"
    assert refusal.rename_places(lambda part: part * 2).place == "a"
    assert UserError("plain").place == UserError().place == ""


def test_a_sentence_is_printable_and_cut_by_whatever_names() -> None:
    sentence = Where("a\x1b") + f" is {'x' * 9000}."
    assert "\x1b" not in sentence
    assert len(sentence) == len(with_names(sentence, str.upper)) == MOST


def test_a_missing_package_is_installed_into_the_python_that_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    command = f"{sys.executable} -m pip install distributed cryptography"
    assert how_to_install("distributed", "cryptography").endswith(command)
    monkeypatch.setattr(sys, "executable", "/home/a b/python")
    assert '"/home/a b/python" -m pip install pandas' in how_to_install("pandas")
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert "-m pip" not in how_to_install("pandas")
