"""Colour ramps: the same for everybody's eyes, and their values in order of lightness."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest
from numpy.typing import NDArray

from dgn_engine.scene import ramps
from dgn_engine.scene.elements import Matrix, Ramp
from dgn_engine.scene.theme import DARK, LIGHT, Theme

Colours = NDArray[np.float64]
THEMES = [LIGHT, DARK]
RISING: tuple[Ramp, ...] = ("sequential", "cet_cbl1", "grey")
FALLING: tuple[Ramp, ...] = ("cet_l17",)

# What is left of linear RGB without one kind of cones: Machado, Oliveira and Fernandes 2009.
DICHROMACIES = {
    "none": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
_XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)


def lab(rgb: Colours, eyes: NDArray[Any]) -> Colours:
    """CIE Lab of sRGB colours (n, 3) in 0…255 as these eyes see them."""
    share = rgb / 255.0
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    xyz = np.clip(linear @ eyes.T, 0.0, 1.0) @ _XYZ.T / _XYZ.sum(axis=1)
    root = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    x, y, z = root.T
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=1)


def seen(ramp: Ramp, theme: Theme, eyes: str) -> Colours:
    table = ramps.table(ramp, theme)[: ramps.EMPTY, :3].astype(np.float64)
    return lab(table, DICHROMACIES[eyes])


@pytest.mark.parametrize("eyes", DICHROMACIES)
@pytest.mark.parametrize("ramp", [*RISING, *FALLING])
def test_a_map_of_sizes_changes_in_lightness_alone_one_way(ramp: Ramp, eyes: str) -> None:
    lightness = seen(ramp, LIGHT, eyes)[:, 0] * (-1 if ramp in FALLING else 1)
    assert (np.diff(lightness[::8]) > 0).all()
    assert lightness[-1] - lightness[0] > 60


@pytest.mark.parametrize("eyes", DICHROMACIES)
@pytest.mark.parametrize("theme", THEMES, ids=lambda t: t.name)
def test_the_signs_of_a_signed_map_stay_apart(theme: Theme, eyes: str) -> None:
    colours = seen("diverging", theme, eyes)
    middle = ramps.EMPTY // 2
    for away in range(40, middle + 1, 10):
        apart = np.linalg.norm(colours[middle - away] - colours[middle + away])
        assert apart > 8, away  # 2 is just noticeable


@pytest.mark.parametrize("theme", THEMES, ids=lambda t: t.name)
@pytest.mark.parametrize("ramp", get_args(Ramp))
def test_every_ramp_has_a_table_whose_last_entry_is_empty(ramp: Ramp, theme: Theme) -> None:
    table = ramps.table(ramp, theme)
    assert table.shape == (256, 4)
    assert table[ramps.EMPTY, 3] == 0
    assert (table[: ramps.EMPTY, 3] == 255).all()
    numbers = ramps.colour_table(ramp, theme)
    red, green, blue, _ = (int(part) for part in table[100])
    assert numbers[100] == 0xFF000000 | red << 16 | green << 8 | blue


@pytest.mark.parametrize("theme", THEMES, ids=lambda t: t.name)
def test_open_gates_are_told_from_closed_ones_by_lightness(theme: Theme) -> None:
    lightness = seen("gates", theme, "none")[:, 0]
    assert abs(lightness[-1] - lightness[0]) > 40
    hard = Matrix("m", np.array([[0, 1]], dtype=np.uint8), "gates", 0.0, 1.0)
    assert ramps.indices(hard).tolist() == [[0, 254]]


def test_values_beyond_a_range_have_the_colours_of_its_ends() -> None:
    values = np.array([[-1.0, 0.2, 0.5, 0.8, 9.0, np.nan]])
    found = ramps.indices(Matrix("m", values, "sequential", 0.2, 0.8))
    assert found.tolist() == [[0, 0, 127, 254, 254, ramps.EMPTY]]
