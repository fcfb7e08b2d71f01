"""Presets as trees: columns, tabs where the window is low, panels that a preset does not know."""

from __future__ import annotations

from typing import Any

import pytest

from dgn_engine.scene.elements import Empty
from dgn_engine.scene.panel_spec import About, PanelSpec, all_panels
from dgn_engine.views.layout_presets import (
    LEAST_PANEL,
    PRESETS,
    LayoutPreset,
    find_matching_tree,
    layout_outline,
    merge_groups,
    preset_tree,
)


def spec(area: Any = "right", compares: bool = False, opened: bool = True) -> PanelSpec:
    about = About(".")
    return PanelSpec(
        "t", (), lambda _: Empty("."), about, area=area, compares=compares, opened=opened
    )


NAMES = ("gate_maps", "overlap", "agreement", "ntk", "spectrum", "training")
SPECS = {name: spec("left" if name in NAMES[:3] else "right") for name in NAMES}
SEEN = tuple(name for name in NAMES if name != "agreement")
HIGH, LOW = 3.0 * LEAST_PANEL, 2.9 * LEAST_PANEL


def shape(node: Any) -> Any:
    """Tabs as words with bars between them, a column as a list, a row as a tuple."""
    if node is None:
        return None
    if "tabs" in node:
        return "|".join(node["tabs"])
    parts = [shape(part) for part in node["parts"]]
    return tuple(parts) if node["across"] else parts


@pytest.mark.discovery
def test_the_panels_that_are_here_are_those_of_the_presets() -> None:
    named = {
        name
        for preset in PRESETS.values()
        for _, groups in preset.columns
        for group in groups
        for name in group
    }
    assert named <= set(all_panels())


@pytest.mark.parametrize(
    ("name", "height", "expected"),
    [
        ("overview", HIGH, ([*NAMES[:3]], [*NAMES[3:]])),
        ("overview", LOW, ([*NAMES[:3]], ["ntk|spectrum", "training"])),
        ("overview", 100, (["gate_maps|overlap", "agreement"], "ntk|spectrum|training")),
        ("kernels", HIGH, (["overlap", "ntk"], ["spectrum", "training"])),
        ("kernels", 100, ("overlap|ntk", "spectrum|training")),
        ("gates", HIGH, ("gate_maps", ["overlap", "training"])),
        ("curves", HIGH, ("training", ["ntk", "spectrum"])),
        ("compare", LOW, ["gate_maps|overlap|agreement", "ntk|spectrum|training"]),
        ("compare", 400, "gate_maps|overlap|agreement|ntk|spectrum|training"),
    ],
)
def test_a_preset_has_its_columns_and_tabs_where_the_window_is_low(
    name: str, height: float, expected: Any
) -> None:
    assert shape(preset_tree(PRESETS[name], SPECS, SEEN, height)) == expected


def test_columns_have_their_shares_and_rows_equal_ones() -> None:
    tree = preset_tree(PRESETS["gates"], SPECS, SEEN, HIGH)
    assert tree is not None
    assert tree["shares"] == pytest.approx([0.62, 0.38])
    assert tree["parts"][1]["shares"] == [0.5, 0.5]


def test_a_panel_that_needs_less_height_leaves_it_to_its_neighbour_where_there_is_room() -> None:
    preset = LayoutPreset("T", "A", ((100, (("overlap",), ("ntk",))),), {"overlap": 0.6})
    for height, shares in ((700, [0.375, 0.625]), (500, [0.5, 0.5])):
        tree = preset_tree(preset, SPECS, SEEN, height)
        assert tree is not None
        assert tree["shares"] == pytest.approx(shares)


def test_a_panel_that_no_preset_knows_stays_behind_the_last_of_its_area() -> None:
    more = SPECS | {"mine": spec("left"), "yours": spec("right"), "shut": spec("right")}
    seen = (*SEEN, "mine", "yours")
    tree = preset_tree(PRESETS["gates"], more, seen, HIGH)
    assert shape(tree) == ("gate_maps|mine", ["overlap", "training|yours"])
    overview = preset_tree(PRESETS["overview"], more, seen, 10 * HIGH)
    assert "mine" in shape(overview)[0]
    assert "yours" in shape(overview)[1]


def test_a_panel_that_is_not_open_at_first_has_no_place_in_the_overview() -> None:
    more = SPECS | {"shut": spec("left", opened=False)}
    assert shape(preset_tree(PRESETS["overview"], more, SEEN, HIGH)) == ([*NAMES[:3]], [*NAMES[3:]])
    tree = preset_tree(PRESETS["gates"], more, (*SEEN, "shut"), HIGH)
    assert shape(tree) == ("gate_maps|shut", ["overlap", "training"])


def test_panels_that_are_not_here_leave_no_gap() -> None:
    only = {"training": spec(), "mine": spec("left")}
    assert shape(preset_tree(PRESETS["kernels"], only, ("training",), HIGH)) == "training"
    assert shape(preset_tree(PRESETS["kernels"], only, only, HIGH)) == "training|mine"
    assert shape(preset_tree(PRESETS["gates"], {"mine": spec()}, ("mine",), HIGH)) == "mine"
    assert preset_tree(PRESETS["gates"], {}, (), HIGH) is None
    assert preset_tree(LayoutPreset("t", "a"), {}, (), HIGH) is None


def test_the_neighbours_with_the_fewest_panels_share_a_place() -> None:
    groups = (("a", "b"), ("c",), ("d",), ("e", "f"))
    assert merge_groups(groups, 4) == list(groups)
    assert merge_groups(groups, 3) == [("a", "b"), ("c", "d"), ("e", "f")]
    assert merge_groups(groups, 0) == [("a", "b", "c", "d", "e", "f")]
    assert merge_groups((), 2) == []


def test_a_layout_is_known_as_a_preset_whatever_height_it_was_laid_out_for() -> None:
    preset = PRESETS["overview"]
    for height in (100, LOW, HIGH):
        tree = preset_tree(preset, SPECS, SEEN, height)
        assert shape(find_matching_tree(tree, preset, SPECS, SEEN)) == shape(tree)
    assert (
        find_matching_tree(preset_tree(PRESETS["gates"], SPECS, SEEN, HIGH), preset, SPECS, SEEN)
        is None
    )


def test_an_outline_forgets_sizes_hidden_panels_and_the_tab_in_front() -> None:
    tree = preset_tree(PRESETS["overview"], SPECS, SEEN, LOW)
    turned = {
        "across": True,
        "shares": [0.2, 0.8],
        "parts": [
            {
                "across": False,
                "shares": [0.5, 0.5],
                "parts": [{"tabs": ["gate_maps"]}, {"tabs": ["overlap"]}],
            },
            {
                "across": False,
                "shares": [0.5, 0.5],
                "parts": [{"tabs": ["spectrum", "ntk"]}, {"tabs": ["training"]}],
            },
        ],
    }
    assert layout_outline(tree, SEEN) == layout_outline(turned, SEEN)
    assert layout_outline(tree, NAMES) != layout_outline(turned, NAMES)
    assert layout_outline(
        preset_tree(PRESETS["overview"], SPECS, SEEN, HIGH), SEEN
    ) != layout_outline(tree, SEEN)
    assert layout_outline(None, SEEN) is None
