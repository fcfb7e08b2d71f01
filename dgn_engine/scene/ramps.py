"""Colour ramps for matrices as tables of 256 colours, the same on screen and on paper."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dgn_engine.scene.elements import Matrix, Ramp
from dgn_engine.scene.theme import Theme

EMPTY = 255  # the index of 'nothing here' (NaN), transparent

_CIVIDIS = (
    *("#00224E", "#002E6A", "#1A386F", "#32436D", "#434E6C", "#535A6D", "#61656F", "#6F7073"),
    *("#7D7C78", "#8C8878", "#9B9476", "#ABA072", "#BCAE6C", "#CDBB63", "#DEC958", "#F0D846"),
    "#FEE838",
)
# Black over blue and yellow to white, made for people who lack red or green cones, and white to
# blue, for paper: CET-CBL1 and CET-L17 of Peter Kovesi, arXiv:1509.03700 (CC BY 4.0), sampled.
_CET_CBL1 = (
    *("#111111", "#141D2F", "#0E284C", "#013568", "#01417E", "#204E8C", "#435B8D", "#616982"),
    *("#7A7776", "#8F846B", "#A4935D", "#B6A15A", "#C6B068", "#D5C080", "#E1D0A0", "#EAE0C6"),
    "#F0F1F0",
)
_CET_L17 = (
    *("#FFFFFF", "#FBF9E9", "#F7F3D2", "#F2ECBD", "#F3E4AF", "#F2DCA2", "#F2D396", "#F3CA8C"),
    *("#F4C183", "#F4B77A", "#F5AD75", "#F5A36F", "#F5996B", "#F58F69", "#F48468", "#F27A68"),
    *("#EF6F69", "#ED656A", "#E95B6D", "#E45170", "#DF4674", "#D83C78", "#D0337D", "#C82982"),
    *("#BD2287", "#B11D8C", "#A51991", "#961A96", "#851D9A", "#731F9F", "#5C24A2", "#3E28A5"),
    "#002AA8",
)
# Brown to teal stays apart under all three dichromacies; the centre is the colour of the paper.
_DIVERGING_LIGHT = (
    *("#543005", "#8C510A", "#BF812D", "#DFC27D", "#F6E8C3", "#FAFAFA"),
    *("#C7EAE5", "#80CDC1", "#35978F", "#01665E", "#003C30"),
)
_DIVERGING_DARK = (
    *("#FBE3B5", "#E7BE7B", "#C7924A", "#966729", "#58401F", "#22272F"),
    *("#14484A", "#167A76", "#3FA99D", "#85D2C5", "#C9F2EA"),
)


@lru_cache(maxsize=32)
def rgba_table(ramp: Ramp, theme: Theme) -> NDArray[np.uint8]:
    """Return (256, 4) RGBA: entries 0…254 from low to high, entry 255 transparent."""
    colours = np.zeros((256, 4), dtype=np.uint8)
    rgb = [[*bytes.fromhex(colour[1:])] for colour in _anchor_colours(ramp, theme)]
    anchors = np.array(rgb, dtype=np.float64)
    along = np.linspace(0, len(anchors) - 1, EMPTY)
    for channel in range(3):
        mixed = np.interp(along, np.arange(len(anchors)), anchors[:, channel])
        colours[:EMPTY, channel] = np.round(mixed)
    colours[:EMPTY, 3] = 255
    colours.flags.writeable = False
    return colours


@lru_cache(maxsize=32)
def colour_table(ramp: Ramp, theme: Theme) -> list[int]:
    """Return the same table as 256 numbers 0xAARRGGBB."""
    red, green, blue, alpha = rgba_table(ramp, theme).astype(np.uint32).T
    return [int(entry) for entry in (alpha << 24) | (red << 16) | (green << 8) | blue]


def colour_indices(matrix: Matrix) -> NDArray[np.uint8]:
    """Return each value's index in the table (0…254), 255 for NaN."""
    values = matrix.values
    span = matrix.high - matrix.low
    if values.dtype == np.uint8 and (matrix.low, matrix.high) == (0.0, 1.0):
        return np.minimum(values, 1) * np.uint8(EMPTY - 1)
    with np.errstate(invalid="ignore"):
        scaled = (values.astype(np.float64) - matrix.low) / (span if span > 0 else 1.0)
        placed = np.clip(np.nan_to_num(scaled, nan=0.0), 0.0, 1.0) * (EMPTY - 1)
    result = np.round(placed).astype(np.uint8)
    result[np.isnan(values)] = EMPTY
    return result


def _anchor_colours(ramp: Ramp, theme: Theme) -> tuple[str, ...]:
    match ramp:
        case "gates":
            return (theme.gate_closed, theme.gate_open)
        case "sequential":
            return _CIVIDIS
        case "cet_cbl1":
            return _CET_CBL1
        case "cet_l17":
            return _CET_L17
        case "grey":
            return ("#101010", "#F4F4F4")
        case "diverging":
            return _DIVERGING_DARK if theme.name == "dark" else _DIVERGING_LIGHT
