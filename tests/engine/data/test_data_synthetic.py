"""Data sets that are drawn: identical and correlated inputs, two points on one ray; their forms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from dgn_engine.cli import main
from dgn_engine.config import DataConfig, NetConfig, RunConfig
from dgn_engine.data import Examples, load_examples
from dgn_engine.errors import UserError
from dgn_engine.importing.from_config import build_architecture
from dgn_engine.model.network import GatedNetwork
from dgn_engine.plugins import OptionValue
from dgn_engine.session.known_plug_ins import data_entries
from tests.refusals import refused_command


def drawn(name: str, seed: int = 0, **options: OptionValue) -> Examples:
    config = DataConfig(name, options=tuple(options.items()), variant_seed=seed)
    return load_examples(config)


def gram(examples: Examples) -> np.ndarray:
    x = examples.train_x.astype(np.float64)
    return x @ x.T


def test_identical_inputs_are_one_unit_vector_with_both_labels_equally_often() -> None:
    examples = drawn("identical", n=50, dim=7)
    assert examples.train_x.shape == (50, 7)
    assert np.allclose(gram(examples), 1.0, atol=1e-6)
    assert np.bincount(examples.train_y).tolist() == [25, 25]
    assert examples.class_names == ("-1", "+1")


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9, 0.99])
def test_correlated_inputs_have_just_their_correlation_where_the_dimension_allows(
    rho: float,
) -> None:
    K = gram(drawn("correlated", n=40, dim=41, rho=rho))
    assert np.allclose(np.diag(K), 1.0, atol=1e-6)
    assert np.allclose(K[np.triu_indices(40, 1)], rho, atol=1e-6)


def test_correlated_inputs_of_a_small_dimension_have_their_correlation_on_average() -> None:
    K = gram(drawn("correlated", n=300, dim=20, rho=0.9))
    off = K[np.triu_indices(300, 1)]
    assert np.allclose(np.diag(K), 1.0, atol=1e-6)
    assert abs(off.mean() - 0.9) < 0.005
    assert abs(off.std() - 0.1 / np.sqrt(19)) < 0.005


def test_the_hard_points_are_x_and_half_of_x_with_opposite_labels() -> None:
    examples = drawn("hard", dim=3)
    x, half = examples.train_x
    assert np.allclose(np.linalg.norm(x), 1.0)
    assert np.array_equal(half, x / 2)
    assert [examples.class_names[label] for label in examples.train_y] == ["+1", "-1"]


def test_no_relu_network_without_biases_fits_the_hard_points() -> None:
    examples = drawn("hard")
    x = torch.from_numpy(examples.train_x)
    network = GatedNetwork(build_architecture(NetConfig("fc"), x.shape[1:], 1))
    for seed in range(5):
        network.value.init_weights("kaiming", torch.Generator().manual_seed(seed))
        whole, half = network(x)
        assert whole != 0
        assert torch.allclose(half, whole / 2, rtol=1e-5)


@pytest.mark.parametrize("name", ["identical", "correlated", "hard"])
def test_a_drawn_set_is_fixed_by_the_variant_seed(name: str) -> None:
    first, again, other = drawn(name), drawn(name), drawn(name, seed=1)
    assert np.array_equal(first.train_x, again.train_x)
    assert first.fingerprint == again.fingerprint
    assert first.fingerprint != other.fingerprint
    assert not np.array_equal(first.train_x, other.train_x)


@pytest.mark.parametrize("name", ["identical", "correlated", "hard"])
def test_a_drawn_set_is_learnt_with_one_logit_and_tested_on_its_training_part(name: str) -> None:
    examples = drawn(name)
    assert examples.signed
    assert np.array_equal(examples.test_x, examples.train_x)
    assert np.array_equal(examples.test_y, examples.train_y)


@pytest.mark.discovery
def test_the_catalogue_tells_the_form_of_a_data_set() -> None:
    forms = {entry.id: entry.options for entry in data_entries()}
    assert [field.name for field in forms["correlated"]] == ["n", "dim", "rho"]
    assert forms["digits"] == ()


@pytest.mark.parametrize(
    ("name", "options", "kind"),
    [
        ("correlated", {"rho": 1.5}, "out-of-bounds"),
        ("correlated", {"rho": float("nan")}, None),
        ("correlated", {"rho": "much"}, "wrong-type"),
        ("correlated", {"n": 2.5}, "wrong-type"),
        ("correlated", {"n": 1}, "out-of-bounds"),
        ("correlated", {"n": 100_000, "dim": 100_000}, "too-large"),
        ("identical", {"rho": 0.5}, None),
        ("digits", {"rho": 0.5}, None),
    ],
)
def test_an_answer_that_a_data_set_did_not_ask_for_is_refused(
    name: str, options: dict[str, OptionValue], kind: str | None
) -> None:
    with pytest.raises(UserError) as refusal:
        drawn(name, **options)
    assert kind is None or refusal.value.kind == kind
    if kind in ("out-of-bounds", "wrong-type"):
        ((option, value),) = options.items()
        assert (refusal.value.place, refusal.value.value) == (f"data.options.{option}", value)


def test_a_whole_number_will_do_where_a_fraction_is_asked() -> None:
    assert np.allclose(gram(drawn("correlated", n=5, rho=1)), 1.0, atol=1e-6)


SMALL = ["--width", "8", "--depth", "3", "--epochs", "1", "--quiet", "--no-record"]


def test_options_of_a_file_fall_with_the_data_set_that_they_belong_to(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    config = RunConfig(data=DataConfig("correlated", options=(("rho", 0.5), ("n", 20))))
    assert RunConfig.from_toml(config.to_toml()) == config
    file.write_text(config.to_toml())
    assert main(["train", str(file), "--data", "hard", *SMALL]) == 0
    assert "'rh'" in str(refused_command("train", file, "--data-option", "rh=0.5", *SMALL))


def test_a_recorded_run_says_what_was_done_to_its_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "run")
    options = ["--data-option", "n=40", "--label-noise", "0.5", *SMALL[:-1], "--out", out]
    assert main(["train", "--data", "correlated", *options]) == 0
    assert main(["runs", "show", out]) == 0
    shown = capsys.readouterr().out
    for part in ("correlated", "n 40", "50 %"):
        assert part in shown
