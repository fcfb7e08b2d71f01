"""Numbers that a saved layer states: which are taken, which make it one that is not known."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dgn_engine.storage.checkpoints.contents import StatedLayer
from dgn_engine.storage.checkpoints.stated_layers import KINDS, in_words, received, stated_layers
from tests.engine.storage.checkpoints.inert_trees import layer, sequence, table

CONV = {
    "in_channels": 3,
    "out_channels": 16,
    "kernel_size": (3, 3),
    "stride": 2,
    "padding": (1, 1),
    "dilation": (1, 1),
    "groups": 1,
    "padding_mode": "zeros",
}
POOL = {"kernel_size": 2, "stride": None, "padding": 0, "dilation": 1, "ceil_mode": False}
SOUND: dict[str, tuple[str, dict[str, Any]]] = {
    "Linear": ("linear", {"in_features": 3, "out_features": 0}),
    "Conv2d": ("conv", CONV),
    "BatchNorm2d": ("batchnorm", {"num_features": 8, "eps": 1e-5}),
    "MaxPool2d": ("pooling", POOL),
    "AdaptiveAvgPool2d": ("pooling", {"output_size": (1, 1)}),
    "Flatten": ("flatten", {"start_dim": 1, "end_dim": -1}),
}


def stated(kind: str, **changes: Any) -> StatedLayer:
    module, numbers = SOUND[kind]
    given = {key: value for key, value in {**numbers, **changes}.items() if value != "left out"}
    (found,) = stated_layers(sequence(("0", layer(f"{module}.{kind}", **given))))
    return found


TAKEN: list[tuple[str, str, Any, Any]] = [
    ("Linear", "in_features", 1 << 24, 1 << 24),
    ("Conv2d", "stride", (2, 1), (2, 1)),
    ("Conv2d", "stride", [2, 1], (2, 1)),
    ("Conv2d", "padding", "same", "same"),
    ("Conv2d", "padding", "valid", "valid"),
    ("Conv2d", "padding", 0, (0, 0)),
    ("Conv2d", "padding_mode", "circular", "circular"),
    ("Conv2d", "padding_mode", "left out", "zeros"),
    ("BatchNorm2d", "eps", 0, 0.0),
    ("BatchNorm2d", "eps", 1, 1.0),
    ("BatchNorm2d", "eps", 0.5, 0.5),
    ("MaxPool2d", "stride", None, (2, 2)),
    ("MaxPool2d", "stride", 3, (3, 3)),
    ("MaxPool2d", "ceil_mode", True, True),
    ("Flatten", "end_dim", -16, -16),
    ("Flatten", "start_dim", 16, 16),
]
REFUSED: list[tuple[str, str, Any]] = [
    ("Linear", "in_features", -1), ("Linear", "in_features", (1 << 24) + 1),
    ("Linear", "in_features", 3.0), ("Linear", "in_features", True),
    ("Linear", "out_features", "left out"),
    ("Conv2d", "kernel_size", 0), ("Conv2d", "kernel_size", (3, 0)),
    ("Conv2d", "kernel_size", (3, 3, 3)), ("Conv2d", "stride", 0), ("Conv2d", "padding", -1),
    ("Conv2d", "padding", "other"), ("Conv2d", "padding_mode", "other"),
    ("BatchNorm2d", "eps", "x"), ("BatchNorm2d", "eps", math.nan), ("BatchNorm2d", "eps", -0.1),
    ("BatchNorm2d", "eps", 1.5), ("BatchNorm2d", "eps", True), ("BatchNorm2d", "eps", math.inf),
    ("BatchNorm2d", "eps", 10**400),
    ("MaxPool2d", "ceil_mode", 1), ("MaxPool2d", "ceil_mode", "left out"),
    ("AdaptiveAvgPool2d", "output_size", 0), ("AdaptiveAvgPool2d", "output_size", "left out"),
    ("Flatten", "end_dim", 17), ("Flatten", "end_dim", -17), ("Flatten", "start_dim", 1.0),
]  # fmt: skip


@pytest.mark.parametrize("kind", SOUND)
def test_a_sound_layer_has_its_numbers(kind: str) -> None:
    found = stated(kind)
    assert (found.name, found.kind) == ("0", kind)
    assert set(found.numbers) == set(KINDS[kind])


@pytest.mark.parametrize(("kind", "name", "given", "taken"), TAKEN)
def test_a_number_is_taken(kind: str, name: str, given: Any, taken: Any) -> None:
    found = stated(kind, **{name: given})
    assert found.kind == kind
    assert found.numbers[name] == taken
    assert type(found.numbers[name]) is type(taken)


@pytest.mark.parametrize(("kind", "name", "given"), REFUSED)
def test_a_number_that_cannot_be_makes_the_layer_unknown(kind: str, name: str, given: Any) -> None:
    found = stated(kind, **{name: given})
    assert found.kind.startswith(f"{kind} whose {name} ")
    assert found.numbers == {}


def test_a_thousand_layers_are_listed_and_no_more() -> None:
    relu = layer("activation.ReLU")
    for count, listed in ((1000, 1000), (1001, 0)):
        many = sequence(*((str(n), relu) for n in range(count)))
        assert len(stated_layers(many)) == listed
    with pytest.raises(ValueError, match="no layers"):
        received([{"name": "x", "kind": "ReLU", "numbers": {}}] * 1001)
    assert len(received([{"name": "x", "kind": "ReLU", "numbers": {}}] * 1000)) == 1000


def test_a_layer_is_said_in_words() -> None:
    said = {
        "Linear": "Linear 3 → 0",
        "Conv2d": "Conv2d 3 → 16, 3×3, stride 2, padding 1",
        "BatchNorm2d": "BatchNorm2d 8, ε 1e-05",
        "MaxPool2d": "MaxPool2d 2×2, stride 2",
        "AdaptiveAvgPool2d": "AdaptiveAvgPool2d to 1×1",
        "Flatten": "Flatten",
    }
    assert {kind: in_words(stated(kind)) for kind in SOUND} == said
    odd = stated("Conv2d", stride=(2, 1), padding="same", groups=3)
    assert in_words(odd) == "Conv2d 3 → 16, 3×3, stride 2×1, padding same, 3 groups"


@pytest.mark.parametrize(
    "more",
    [
        {"_forward_hooks": table(h=1)},
        {"_forward_pre_hooks": table(h=1)},
        {"forward": 3},
        {"_modules": table(inner=layer("activation.ReLU"))},
    ],
)
def test_what_changes_a_layer_makes_it_another(more: dict[str, Any]) -> None:
    (found,) = stated_layers(sequence(("0", layer("activation.ReLU", **more))))
    assert found == StatedLayer("0", "ReLU with hooks")


def test_empty_hooks_change_nothing_and_a_foreign_class_is_named() -> None:
    calm = layer("activation.ReLU", _forward_hooks=table(), _forward_pre_hooks=table(), _modules=3)
    bare = layer("activation.ReLU")
    bare.state = None
    found = stated_layers(sequence(("0", calm), ("1", bare), ("2", layer("activation.Hardshrink"))))
    assert [one.kind for one in found] == [
        "ReLU",
        *(layer(f"activation.{name}").callee for name in ("ReLU", "Hardshrink")),
    ]
