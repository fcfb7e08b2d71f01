from dataclasses import replace

import numpy as np
import pytest

from dgn_engine.importing.match_layers import Part, match_layers
from dgn_engine.model.architecture import Architecture, Conv, Dense, Flatten, GlobalAveragePool
from dgn_engine.protocol.file_reading import FileReading
from dgn_engine.regimes import all_regimes, find_regime
from dgn_engine.storage.checkpoints.contents import CheckpointContents
from tests.plugins import each
from tests.refusals import refused

FC = Architecture((8,), (Dense(8, 16), Dense(16, 16), Dense(16, 10, gated=False)))
IMAGES = Architecture((1, 2, 4), (Flatten(), *FC.nodes))
CNN = Architecture(
    (3, 8, 8),
    (
        Conv(3, 64),
        Conv(64, 128),
        Conv(128, 128),
        GlobalAveragePool(),
        Dense(128, 10, gated=False),
    ),
)
RNG = np.random.default_rng(0)


def listing(
    shapes: dict[str, tuple[int, ...]],
    file_name: str = "resnet18.pth",
    **metadata: str,
) -> CheckpointContents:
    arrays = {name: RNG.standard_normal(shape) for name, shape in shapes.items()}
    return CheckpointContents(file_name, arrays, dict.fromkeys(arrays, "float64"), (), metadata)


def test_tensors_match_layers_by_order_and_shape_whatever_their_names() -> None:
    found = listing({"one": (16, 8), "zwei": (16, 16), "trois": (10, 16)})
    match = match_layers(found, IMAGES)
    assert match.fits
    assert [row.tensor for row in match.rows] == ["one", "zwei", "trois"]
    assert [row.layer for row in match.rows] == ["dense 1", "dense 2", "output"]
    assert np.array_equal(match.weights[1], found.arrays["zwei"])
    assert match.biases == (None, None, None)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_weights_keep_their_precision(dtype: type) -> None:
    found = listing({"a": (16, 8), "b": (16, 16)})
    arrays = {name: array.astype(dtype) for name, array in found.arrays.items()}
    match = match_layers(replace(found, arrays=arrays), FC)
    assert all(weight.dtype == dtype for weight in match.weights)


def test_a_mismatch_names_layer_and_shapes_and_gives_nothing() -> None:
    shapes = {"a": (64, 3, 3, 3), "b": (128, 64, 3, 3), "c": (64, 128, 3, 3), "d": (10, 64)}
    match = match_layers(listing(shapes), CNN)
    assert not match.fits
    assert match.weights == ()
    assert [row.fits for row in match.rows] == [True, True, False, False]
    assert "layer 3: 64 channels, 128" in match.verdict


@pytest.mark.parametrize(
    ("architecture", "shape", "reason"),
    [
        (CNN, (128, 32, 3, 3), "32 input channels, 64"),
        (CNN, (128, 64, 5, 5), "5×5 windows, 3×3"),
        (CNN, (128, 64), "a dense layer"),
        (FC, (32, 16), "32 units, 16"),
        (FC, (16, 32), "32 inputs, 16"),
        (FC, (16, 16, 3, 3), "a convolution"),
        (FC, None, "only 1 weight"),
    ],
)
def test_each_kind_of_misfit_says_what_came_and_what_is_needed(
    architecture: Architecture, shape: tuple[int, ...] | None, reason: str
) -> None:
    first = {"a": (64, 3, 3, 3) if architecture is CNN else (16, 8)}
    match = match_layers(listing(first | ({"b": shape} if shape else {})), architecture)
    assert not match.fits
    assert reason in match.rows[1].remark
    assert match.rows[1].found == shape


@pytest.mark.parametrize("shapes", [{}, {"head": (1000, 16)}])
def test_an_output_layer_that_does_not_fit_is_left_as_it_is(
    shapes: dict[str, tuple[int, ...]],
) -> None:
    match = match_layers(listing({"a": (16, 8), "b": (16, 16), **shapes}), FC)
    assert match.fits
    assert len(match.weights) == len(match.biases) == 2
    assert match.rows[2].remark


@pytest.mark.parametrize(
    ("weight", "bias"),
    [
        ("net.{}.weight", "net.{}.bias"),
        ("feature.weights.{}", "feature.biases.{}"),
        ("W{}", "b{}"),
        ("layer{}/kernel", "layer{}/bias"),
        ("fc{}_weight", "fc{}_bias"),
        ("arr_{}0", "arr_{}1"),  # by its place
    ],
)
def test_biases_go_with_their_weights_by_name(weight: str, bias: str) -> None:
    shapes: dict[str, tuple[int, ...]] = {bias.format(i): (16,) for i in (1, 2)}
    shapes |= {weight.format(1): (16, 8), weight.format(2): (16, 16)}
    if "arr" in weight:
        shapes = dict(sorted(shapes.items()))
    found = listing(shapes, regime="DL")
    match = match_layers(found, FC)
    assert match.fits
    for place in (0, 1):
        given = match.biases[place]
        assert given is not None
        assert np.array_equal(given, found.arrays[bias.format(place + 1)])


OURS: dict[str, tuple[int, ...]] = {
    f"{network}.weights.{place}": shape
    for network in ("feature", "value")
    for place, shape in enumerate([(16, 8), (16, 16), (10, 16)])
} | {"random_input": (2, 4)}


GATED = [regime.name for regime in all_regimes() if not regime.drawn_gates]
DRAWN = [regime.name for regime in all_regimes() if regime.drawn_gates]


@pytest.mark.parametrize("regime", each(GATED))
def test_of_our_own_files_the_network_is_taken_that_made_the_gates(regime: str) -> None:
    match = match_layers(listing(OURS, regime=regime), FC)
    assert match.fits
    chosen = "value" if find_regime(regime).own_gates else "feature"
    assert [row.tensor for row in match.rows] == [f"{chosen}.weights.{i}" for i in range(3)]


@pytest.mark.parametrize("regime", each(DRAWN))
def test_gates_that_no_network_makes_are_not_taken(regime: str) -> None:
    match = match_layers(listing(OURS, regime=regime), FC)
    assert not match.fits
    assert match_layers(listing(OURS, regime=regime), FC, "values").fits


@pytest.mark.parametrize("part", ["gates", "values"])
def test_a_file_of_an_unknown_regime_is_refused(part: Part) -> None:
    with refused("unknown-name") as refusal:
        match_layers(listing(OURS, regime="odd\x1b"), FC, part)
    assert r"'odd\x1b'" in str(refusal.error)


def test_normalisation_layers_are_not_passed_over_in_silence() -> None:
    shapes = {"a.weight": (16, 8), "bn.weight": (16,), "bn.running_mean": (16,), "b": (16, 16)}
    said = FileReading(norm_eps=1e-5, batchnorm="before")
    match = match_layers(replace(listing(shapes), reading=said), FC)
    assert not match.fits
    assert "'bn.weight'" in match.verdict


@pytest.mark.parametrize("said", [FileReading(), FileReading(norm_eps=1e-5, batchnorm="after")])
def test_a_batchnorm_that_may_stand_after_the_activation_is_not_folded(said: FileReading) -> None:
    norm = {f"bn.{word}": (16,) for word in ("weight", "bias", "running_mean", "running_var")}
    shapes: dict[str, tuple[int, ...]] = {"a.weight": (16, 8), **norm, "b.weight": (16, 16)}
    match = match_layers(replace(listing(shapes), reading=said), FC)
    assert not match.fits
    before = replace(listing(shapes), reading=FileReading(norm_eps=1e-5, batchnorm="before"))
    before.arrays["bn.running_var"][:] = 1.0
    assert match_layers(before, FC).fits


def test_a_deeper_file_gives_its_first_layers_and_says_so() -> None:
    shapes = {"w1": (16, 8), "w2": (16, 16), "w3": (16, 16), "w4": (10, 16)}
    match = match_layers(listing(shapes), FC)
    assert match.fits
    assert "1 more" in match.verdict
