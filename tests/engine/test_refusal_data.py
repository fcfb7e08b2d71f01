"""Refusals carry what they are about as data, and whoever shows one composes its sentence."""

from __future__ import annotations

import argparse
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from dgn_engine.cli._option_checks import BoundedNumber, bounded
from dgn_engine.cli._options import add_run_options, run_config
from dgn_engine.config import DataConfig, GatingConfig, RunConfig, TrainingConfig
from dgn_engine.errors import MOST, MarkedSentence, UserError, Where, with_names
from dgn_engine.importing.geometry_words import parse_geometry
from dgn_engine.kernels import empirical_ntk
from dgn_engine.model.architecture import Architecture, Dense
from dgn_engine.model.wiring import routes
from dgn_engine.storage.config_file import read_config
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.training.ignored_settings import RunFacts, check_contradictions, ignored_settings
from dgn_engine.views.event_notices import in_form_words


def eval_is_needed() -> object:
    return empirical_ntk(nn.Sequential(nn.Dropout(0.5), nn.Linear(2, 1)), torch.ones(2, 2))


def too_little() -> object:
    return empirical_ntk(nn.Linear(2, 1), torch.ones(2, 2), budget_bytes=8)


def ending_too_soon() -> None:
    check_contradictions(RunConfig(training=TrainingConfig(epochs=2, keep_epochs=(3,))))


@pytest.mark.parametrize(
    ("refused", "kind", "place", "value"),
    [
        (lambda: TrainingConfig(momentum=-1), "out-of-bounds", "training.momentum", -1),
        (lambda: TrainingConfig(loss="x"), "no-choice", "training.loss", "x"),  # type: ignore[arg-type]
        (lambda: DataConfig(name=""), "empty", "data.name", None),
        (lambda: DataConfig(binary=(3, 3)), "no-pair", "data.binary", [3, 3]),
        (lambda: GatingConfig(wiring=(1, 1)), "no-permutation", "gating.wiring", [1, 1]),
        (lambda: DataConfig(root="x" * 5000), "too-long", "data.root", "x" * 5000),
        (
            lambda: RunConfig.from_dict({"training": {"batch": "x"}}),
            "wrong-type",
            "training.batch",
            "x",
        ),
        (lambda: RunConfig.from_dict({"data": {"x": 1}}), "unknown-key", "data.x", 1),
        (lambda: routes(2, (1,), (), ()), "wrong-length", "gating.rotation", [1]),
        (ending_too_soon, "contradiction", "training.keep_epochs", 3),
        (lambda: parse_geometry("s1p1,oops"), "", "--geometry", None),
        (
            lambda: Architecture((3,), (Dense(3, 2, True), Dense(4, 1, False))),
            "",
            "Node 1 (Dense)",
            None,
        ),
        (eval_is_needed, "", "", None),
        (too_little, "", "budget_bytes", 8),
    ],
)
def test_a_refusal_says_as_data_what_it_is_about(
    refused: Callable[[], object], kind: str, place: str, value: object
) -> None:
    with pytest.raises(UserError) as refusal:
        refused()
    assert (refusal.value.kind, refusal.value.place, refusal.value.value) == (kind, place, value)
    assert place in str(refusal.value)


def test_how_another_folder_is_said_is_for_who_shows_it(tmp_path: Path) -> None:
    (tmp_path / "note").touch()
    with pytest.raises(UserError) as refusal:
        RunFolder.create(tmp_path, RunConfig())
    assert str(refusal.value) == f"{tmp_path} is not empty; choose another folder with --out."
    other = refusal.value.renamed(lambda _: ": out=….")
    assert str(other) == f"{tmp_path} is not empty; choose another folder: out=…."


def test_a_key_of_a_file_keeps_its_name(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text("[training]\nmomentum = -1.0\n", encoding="utf-8")
    with pytest.raises(UserError) as refusal:
        read_config(path)
    assert (refusal.value.kind, refusal.value.value) == ("out-of-bounds", -1.0)
    assert str(refusal.value) == f"{path}: training.momentum is -1.0; it must be at least 0."
    assert str(refusal.value.renamed(str.upper)) == str(refusal.value)


def test_an_option_that_was_typed_is_named_as_it_was_typed() -> None:
    parser = argparse.ArgumentParser()
    add_run_options(parser)
    with pytest.raises(UserError) as refusal:
        run_config(parser.parse_args(["--momentum", "-1"]))
    assert str(refusal.value) == "--momentum is -1.0; it must be at least 0."
    assert (refusal.value.place, refusal.value.value) == ("training.momentum", -1.0)


def test_a_number_out_of_its_bounds_is_refused_with_its_option() -> None:
    parser = argparse.ArgumentParser()
    action = parser.add_argument("--seeds", **bounded(int, least=1))
    assert isinstance(action, BoundedNumber)
    action.check(parser.parse_args([]))
    action.check(parser.parse_args(["--seeds", "1"]))
    with pytest.raises(UserError) as refusal:
        action.check(parser.parse_args(["--seeds", "0"]))
    assert (refusal.value.place, refusal.value.value) == ("--seeds", 0)
    assert refusal.value.way_out == "it must be at least 1"


def test_every_place_in_a_sentence_is_called_as_the_form_calls_it() -> None:
    config = RunConfig(training=TrainingConfig(momentum=0.5))
    (ignored,) = ignored_settings(config, RunFacts())
    assert ignored.sentence == (
        "training.momentum has no effect: it counts only with training.optimiser sgd."
    )
    assert in_form_words(ignored.sentence) == (
        "'momentum' has no effect: it counts only with 'optimiser' sgd."
    )


def test_a_sentence_keeps_its_places_through_a_pipe() -> None:
    sentence = Where("net.bias") + " is {odd}."
    came = pickle.loads(pickle.dumps(sentence))
    assert came == sentence == "net.bias is {odd}."
    assert with_names(came, str.upper) == "NET.BIAS is {odd}."
    assert with_names("net.bias is plain.", str.upper) == "net.bias is plain."


def test_text_before_and_after_a_place_makes_one_sentence() -> None:
    sentence = "It needs " + Where("a") + " and " + (Where("b") + " too") + "."
    assert isinstance(sentence, MarkedSentence)
    assert sentence == "It needs a and b too."
    assert with_names(sentence, str.upper) == "It needs A and B too."


def test_a_refusal_goes_through_a_pipe() -> None:
    with pytest.raises(UserError) as refusal:
        TrainingConfig(momentum=-1)
    came = pickle.loads(pickle.dumps(refusal.value))
    assert str(came) == str(refusal.value)
    assert (came.kind, came.place, came.value) == ("out-of-bounds", "training.momentum", -1)
    assert str(came.renamed(str.upper)).startswith("TRAINING.MOMENTUM is -1;")


def test_a_sentence_is_printable_and_cut_by_whatever_names() -> None:
    sentence = Where("a\x1b") + f" is {'x' * 9000}."
    assert "\x1b" not in sentence
    assert len(sentence) == len(with_names(sentence, str.upper)) == MOST
