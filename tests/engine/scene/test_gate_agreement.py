"""The gates of two recorded steps against each other: gate by gate, or refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dgn_engine.protocol.frames import Reading
from dgn_engine.protocol.training import LayerInfo
from dgn_engine.scene.gate_agreement import MEANS, gate_agreement

LAYERS = (
    LayerInfo(0, "dense 1", "dense", (4,)),
    LayerInfo(1, "dense 2", "dense", (3,)),
)
CONV = (LayerInfo(0, "conv 1", "conv", (4, 5, 5)), LAYERS[1])


def gates(seed: int, step: int = 7) -> Reading:
    generator = np.random.default_rng(seed)
    hard = generator.integers(0, 2, (6, 4)).astype(np.uint8)
    soft = generator.random((6, 3), dtype=np.float32)
    labels = np.arange(6)
    return Reading("gates", step, arrays={"labels": labels, "layer_0": hard, "layer_1": soft})


def test_each_gate_is_counted_on_its_side_of_a_half() -> None:
    ours, theirs = gates(1), gates(2, step=9)
    found = gate_agreement(ours, theirs, (LAYERS, LAYERS))
    whole = 0
    for layer in range(2):
        a, b = (reading.arrays[f"layer_{layer}"] for reading in (ours, theirs))
        width = a.shape[1]
        same = sum(
            (a[row, unit] >= 0.5) == (b[row, unit] >= 0.5)
            for row in range(6)
            for unit in range(width)
        )
        whole += same
        chance = 0.0
        for unit in range(width):
            p, q = ((g[:, unit] >= 0.5).mean() for g in (a, b))
            chance += (p * q + (1 - p) * (1 - q)) / width
        assert found.arrays["equal"][layer] == pytest.approx(same / (6 * width))
        assert found.arrays["chance"][layer] == pytest.approx(chance)
        xor = (a >= 0.5) ^ (b >= 0.5)
        np.testing.assert_array_equal(np.abs(found.arrays[f"difference_{layer}"]), xor)
    assert found.scalars["equal"] == pytest.approx(whole / 42)
    assert found.step == 7  # of A; B's name says its own


def test_of_a_convolution_the_means_are_subtracted_and_no_share_is_made_up() -> None:
    ours, theirs = gates(1), gates(2)
    found = gate_agreement(ours, theirs, (CONV, CONV))
    slow = np.array(ours.arrays["layer_0"], float) - np.array(theirs.arrays["layer_0"], float)
    np.testing.assert_array_equal(found.arrays["difference_0"], slow)
    assert np.isnan(found.arrays["equal"][0])
    assert "equal_0" not in found.scalars
    assert found.facts == {"differences": MEANS}
    alone = gate_agreement(ours, theirs, (CONV[:1], CONV[:1]))
    assert "equal" not in alone.scalars


@pytest.mark.parametrize(
    ("theirs", "layers", "said"),
    [
        (None, LAYERS, " B: "),
        (Reading("gates", 1, absent="Not recorded."), LAYERS, " B: Not recorded."),
        (replace(gates(2), arrays=gates(2).arrays | {"labels": np.zeros(6)}), LAYERS, " examples."),
        (gates(2), (LAYERS[1], LAYERS[0]), " shape."),
    ],
)
def test_what_does_not_belong_together_is_refused_in_a_sentence(
    theirs: Reading | None, layers: tuple[LayerInfo, ...], said: str
) -> None:
    found = gate_agreement(gates(1), theirs, (LAYERS, layers))
    assert said in found.absent
    assert not found.arrays
