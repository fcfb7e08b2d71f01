"""Keys that are numbers, by themselves: which sequences they are of, and what fits between them."""

from __future__ import annotations

import numpy as np
import pytest

from dgn_engine.errors import UserError
from dgn_engine.model.importing.conventions import GLOBAL, POOL, Between, ConventionRules, after
from dgn_engine.model.importing.infer_sequential import infer
from dgn_engine.model.importing.numbered_keys import (
    LayerGap,
    NumberedLayer,
    NumberedSequence,
    numbered_sequence,
)
from dgn_engine.storage.checkpoints.contents import Array


def weight(*shape: int) -> Array:
    return np.ones(shape, np.float32)


def dense(sizes: dict[str, tuple[int, int]]) -> dict[str, Array]:
    return {f"{name}.weight": weight(*size) for name, size in sizes.items()}


def sequence(arrays: dict[str, Array]) -> NumberedSequence:
    found = numbered_sequence(arrays, "net.pt")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("arrays", "gaps"),
    [
        (dense({"0": (4, 3), "2": (2, 4)}), [LayerGap(1, False)]),
        (dense({"net.0": (4, 3), "net.3": (2, 4)}), [LayerGap(2, False)]),
        (dense({"0": (4, 3), "1": (4, 4), "3": (2, 4)}), [LayerGap(0, False), LayerGap(1, False)]),
        (dense({"0.0": (4, 3), "1.0": (2, 4)}), [LayerGap(0, True)]),
        (dense({"0.0": (4, 3), "1.1": (2, 4)}), [LayerGap(1, True)]),
        (dense({"0": (4, 3), "2.1": (2, 4)}), [LayerGap(2, False)]),
        (
            dense({"10": (2, 4), "9": (4, 3), "12": (2, 2)}),
            [LayerGap(0, False), LayerGap(1, False)],
        ),
    ],
)
def test_gaps_are_the_numbers_that_are_skipped(
    arrays: dict[str, Array], gaps: list[LayerGap]
) -> None:
    found = sequence(arrays)
    assert list(found.gaps) == gaps
    assert found.convolutions == 0
    assert found.norms == (None,) * len(found.weighted)


@pytest.mark.parametrize(
    "arrays",
    [
        {},
        {"features.weight": weight(4, 3)},  # no number
        {"0.weight": weight(4, 3), "2.scale": weight(4)},  # no word of a layer
        dense({"0": (4, 3), "1": (2, 4)}),  # skips no number
        dense({"a.0": (4, 3), "b.2": (2, 4)}),  # two lists
        dense({"0": (4, 3)}),  # a layer alone
        dense({"0": (4, 3), "2": (2, 5)}),  # does not take what the one before gives
        dense({"00000": (4, 3), "00002": (2, 4)}),  # no numbers of layers
        {"0.weight": weight(4, 3), "2.weight": weight(4)},  # no weight of a layer
        {"0.weight": weight(4, 3), "2.weight": weight(2, 4).astype(np.int64)},
        {"0.weight": weight(4, 3), "2.weight": weight(0, 4)},
        {"0.weight": weight(4, 3), "2.bias": weight(4)},  # a bias alone
        {"0.weight": weight(2, 1, 3, 3), "2.weight": weight(4, 2, 3, 3)},  # ends with maps
        {"0.weight": weight(2, 1, 3, 2), "2.weight": weight(4, 8)},  # no square window
        {"0.weight": weight(4, 3), "2.weight": weight(2, 4, 1, 1), "4.weight": weight(2, 2)},
        {"0.weight": weight(2, 1, 3, 3), "3.weight": weight(4, 9)},  # 9 of 2 channels
        {"1.weight": weight(2, 1, 3, 3), "3.weight": weight(4, 8)},  # something comes first
        dense({str(2 * number): (3, 3) for number in range(401)}),
    ],
)
def test_other_keys_are_no_sequence(arrays: dict[str, Array]) -> None:
    assert numbered_sequence(arrays, "net.pt") is None


def test_a_sequence_may_have_four_hundred_layers_and_dense_ones_may_begin_anywhere() -> None:
    assert len(sequence(dense({str(2 * n): (3, 3) for n in range(400)})).weighted) == 400
    assert len(sequence(dense({"1": (4, 3), "3": (2, 4)})).weighted) == 2


def normed(place: str, width: int) -> dict[str, Array]:
    words = ("weight", "bias", "running_mean", "running_var")
    return {f"{place}.{word}": weight(width) for word in words}


def test_a_batchnorm_belongs_to_the_layer_right_before_it() -> None:
    layers = dense({"0": (4, 3), "3": (4, 4), "5": (2, 4)})
    found = sequence({**layers, **normed("1", 4)})
    assert [norm and norm.name for norm in found.norms] == ["1", None, None]
    assert [gap.least for gap in found.gaps] == [1, 1]  # counted from the norm


@pytest.mark.parametrize("place", ["2", "4"])
def test_a_batchnorm_elsewhere_cannot_be_folded(place: str) -> None:
    layers = dense({"0": (4, 3), "5": (2, 4)})
    with pytest.raises(UserError, match=rf"^net\.pt: its BatchNorm {place} does not stand right"):
        numbered_sequence({**layers, **normed(place, 4)}, "net.pt")
    with pytest.raises(UserError, match="its BatchNorm 2 does not stand right"):
        numbered_sequence({**layers, **normed("1", 4), **normed("2", 4)}, "net.pt")


def convolutions(gap: int, channels: tuple[int, int], kernel: int, inputs: int) -> NumberedSequence:
    """Two convolutions with so many layers between them, then ReLU, Flatten and a dense layer."""
    one, two = channels
    return sequence(
        {
            "0.weight": weight(one, 1, kernel, kernel),
            f"{gap + 1}.weight": weight(two, one, kernel, kernel),
            f"{gap + 4}.weight": weight(3, inputs),
        }
    )


def between(chain: NumberedSequence, shape: tuple[int, ...]) -> list[tuple[int, int, bool]]:
    """Padding, stride and whether it is pooled, of each convolution as inferred."""
    found: list[list[object]] = []
    for layer in infer(chain, shape, "net.pt").layers:
        if layer.kind == "Conv2d":
            (padding, _), (stride, _) = layer.numbers["padding"], layer.numbers["stride"]  # type: ignore[misc]
            found.append([padding, stride, False])
        elif layer.kind == "MaxPool2d":
            found[-1][2] = True
    return [tuple(each) for each in found]  # type: ignore[misc]


def test_skipped_numbers_are_pooling_where_that_fits_and_dropout_where_only_that_does() -> None:
    pooled = convolutions(2, (2, 2), 3, 2 * 4 * 4)
    assert between(pooled, (1, 8, 8)) == [(1, 1, True), (1, 1, False)]
    dropped = convolutions(2, (2, 2), 3, 2 * 8 * 8)
    assert between(dropped, (1, 8, 8)) == [(1, 1, False), (1, 1, False)]


def test_half_the_kernel_and_one_stride_for_all_are_tried_first() -> None:
    """15 → 8, pooled to 4 → 2."""
    found = between(convolutions(2, (2, 3), 5, 3 * 2 * 2), (1, 15, 15))
    assert found == [(2, 2, True), (2, 2, False)]


def test_of_strides_and_paddings_that_differ_nothing_is_assumed_where_two_ways_fit() -> None:
    """9 → 9 → 4 or 9 → 7 → 4, whichever of them is padded."""
    with pytest.raises(UserError) as refused:
        infer(convolutions(1, (2, 2), 3, 2 * 4 * 4), (1, 9, 9), "net.pt")
    assert "more than one usual padding, stride and pooling" in str(refused.value)
    assert "padding 1, 0; stride 1, 2" in str(refused.value)
    assert "padding 0, 1; stride 1, 2" in str(refused.value)


def test_what_no_way_leads_to_is_refused_with_both_ends() -> None:
    words = "no usual padding, stride and pooling lead from 1×9×9 to the 2,000 inputs of layer 5"
    with pytest.raises(UserError, match=words):
        infer(convolutions(1, (2, 2), 3, 2000), (1, 9, 9), "net.pt")


@pytest.mark.parametrize(
    ("way", "shape", "left"),
    [
        ((), (2, 5, 4), (2, 5, 4)),
        (("ReLU", POOL), (2, 5, 4), (2, 2, 2)),
        (("ReLU", POOL), (2, 1, 4), None),
        (("ReLU", GLOBAL, "Flatten"), (2, 5, 4), (2,)),
        (("ReLU", "Flatten"), (2, 5, 4), (40,)),
        ((), (2, 0, 4), None),
        (("ReLU", GLOBAL), (2, 0, 4), None),
        ((), (2, 1, 1), (2, 1, 1)),
    ],
)
def test_what_stands_between_two_layers_changes_the_shape(
    way: Between, shape: tuple[int, ...], left: tuple[int, ...] | None
) -> None:
    assert after(way, shape) == left


def layer(kind: str) -> NumberedLayer:
    return NumberedLayer("0", (0,), kind, (2, 2, 3, 3) if kind == "Conv2d" else (2, 2))  # type: ignore[arg-type]


RELU, POOLED = ("ReLU",), ("ReLU", POOL)


@pytest.mark.parametrize(
    ("kinds", "gap", "rules", "ways"),
    [
        ("DD", LayerGap(0, False), {}, [()]),
        ("DD", LayerGap(1, False), {}, [RELU]),
        ("DD", LayerGap(2, False), {}, [RELU]),
        ("DD", LayerGap(3, False), {}, []),
        ("DD", LayerGap(0, True), {}, [RELU]),
        ("CC", LayerGap(0, False), {}, [()]),
        ("CC", LayerGap(1, False), {}, [RELU]),
        ("CC", LayerGap(2, False), {}, [POOLED]),
        ("CC", LayerGap(2, False), {"rare": True}, [POOLED, RELU]),
        ("CC", LayerGap(4, False), {}, []),
        ("CC", LayerGap(0, True), {}, [POOLED, RELU]),
        ("CC", LayerGap(0, True), {"pooled": True}, [POOLED]),
        ("CC", LayerGap(0, True), {"pooled": False}, [RELU]),
        ("CD", LayerGap(0, False), {}, []),
        ("CD", LayerGap(1, False), {}, [("Flatten",)]),
        ("CD", LayerGap(2, False), {}, [("ReLU", "Flatten")]),
        ("CD", LayerGap(3, False), {}, [(*POOLED, "Flatten"), ("ReLU", GLOBAL, "Flatten")]),
        (
            "CD",
            LayerGap(3, False),
            {"rare": True},
            [(*POOLED, "Flatten"), ("ReLU", GLOBAL, "Flatten"), ("ReLU", "Flatten")],
        ),
        (
            "CD",
            LayerGap(0, True),
            {"pooled": False},
            [("ReLU", "Flatten"), ("ReLU", GLOBAL, "Flatten")],
        ),
    ],
)
def test_a_gap_holds_what_is_usual(
    kinds: str, gap: LayerGap, rules: dict[str, bool], ways: list[Between]
) -> None:
    one, two = ({"D": layer("Linear"), "C": layer("Conv2d")}[kind] for kind in kinds)
    found = ConventionRules((True,), (1,), **rules).between(one, two, gap)  # type: ignore[arg-type]
    assert list(found) == ways
