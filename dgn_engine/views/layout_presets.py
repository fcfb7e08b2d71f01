"""Named layouts: which panels, in which columns, and which share a place in a low window."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dgn_engine.scene.panel_spec import PanelSpec

LEAST_PANEL = 216  # pixels of height below which panels of a column become tabs
ROOMY = 300  # … above which a panel may leave height to its neighbours
OVERVIEW = "overview"
COMPARE = "compare"

Groups = tuple[tuple[str, ...], ...]  # panels of a column from the top; tabs in one place together
Node = dict[str, Any]  # as returned by `dock_layout.describe_layout`


@dataclass(frozen=True)
class LayoutPreset:
    """Columns from left to right, each with its share of the width in percent.

    Without columns: the panels open by default, in the column and order that they declare.
    """

    title: str
    about: str
    columns: tuple[tuple[int, Groups], ...] = ()
    # Relative heights of panels that need less or more than 1.
    heights: Mapping[str, float] = field(default_factory=dict)


PRESETS: Mapping[str, LayoutPreset] = {
    OVERVIEW: LayoutPreset("Overview", "The main panels in their default places"),
    "kernels": LayoutPreset(
        "Kernels",
        "Overlap and NTK next to the NPK spectrum",
        ((50, (("overlap",), ("ntk",))), (50, (("spectrum",), ("training",)))),
    ),
    "gates": LayoutPreset(
        "Gates",
        "Large gate maps with overlap and training",
        ((62, (("gate_maps",),)), (38, (("overlap",), ("training",)))),
    ),
    "curves": LayoutPreset(
        "Curves",
        "Large training curves with NTK and NPK spectrum",
        ((60, (("training",),)), (40, (("ntk",), ("spectrum",)))),
    ),
    "teach": LayoutPreset(
        "Teach",
        "Gates on data in the plane: regions and paths, gate maps, NPK and training",
        (
            (56, (("regions",), ("paths",))),
            (44, (("gate_maps",), ("spectrum",), ("training",))),
        ),
        {"regions": 0.8},  # three squares side by side
    ),
    COMPARE: LayoutPreset(
        "Compare",
        "Two rows: A, B and A − B of a panel side by side; the other panels are tabs",
        ((100, (("gate_maps", "overlap", "agreement"), ("ntk", "spectrum", "training"))),),
        {"ntk": 1.05},  # above an axis of steps with a lane of events
    ),
}
_AREAS = {"left": 56, "right": 44}  # percent of the width


def preset_tree(
    preset: LayoutPreset, specs: Mapping[str, PanelSpec], shown: Collection[str], height: float
) -> Node | None:
    """Return the layout of a preset for docks of this height, for `dock_layout.apply_layout`.

    Args:
        preset: The layout.
        specs: All panels, by id.
        shown: Panels to show; a hidden one of the preset keeps its place for when it is opened.
        height: Height of the docks in pixels.

    Returns:
        The layout, or None if there are no panels. Panels that no preset names (plug-ins) become
        tabs behind the last of their area.
    """
    columns = _preset_columns(preset, specs, shown)
    rows = max(1, int(height // LEAST_PANEL))
    parts, shares = [], []
    for share, groups in columns:
        visible = [group for group in groups if not set(group).isdisjoint(shown)]
        hidden = [group for group in groups if set(group).isdisjoint(shown)]
        stacked = [*merge_groups(visible, rows), *hidden]
        if stacked:
            relative = preset.heights if height / len(stacked) > ROOMY else {}
            heights = [max(relative.get(name, 1.0) for name in group) for group in stacked]
            parts.append(_make_node(False, heights, [{"tabs": [*g]} for g in stacked]))
            shares.append(float(share))
    return _make_node(True, shares, parts) if parts else None


def find_matching_tree(
    node: Node | None, preset: LayoutPreset, specs: Mapping[str, PanelSpec], shown: Collection[str]
) -> Node | None:
    """Return the preset's layout, for any height, that matches this one; None if none does."""
    wanted = layout_outline(node, shown)
    for rows in range(1, len(specs) + 1):
        tree = preset_tree(preset, specs, shown, rows * LEAST_PANEL)
        if layout_outline(tree, shown) == wanted:
            return tree
    return None


def merge_groups(groups: Sequence[tuple[str, ...]], rows: int) -> list[tuple[str, ...]]:
    """Merge neighbours with the fewest panels until at most `rows` places are left."""
    merged = list(groups)
    while len(merged) > max(rows, 1):
        sizes = [len(merged[index]) + len(merged[index + 1]) for index in range(len(merged) - 1)]
        index = sizes.index(min(sizes))
        merged[index : index + 2] = [(*merged[index], *merged[index + 1])]
    return merged


def layout_outline(node: Node | None, names: Collection[str]) -> Any:
    """Return what two layouts have in common if only sizes and front tabs differ.

    Only these panels count.
    """
    if node is None:
        return None
    if "tabs" in node:
        return frozenset(node["tabs"]) & frozenset(names) or None
    parts = [layout_outline(part, names) for part in node["parts"]]
    parts = [part for part in parts if part is not None]
    if len(parts) < 2:
        return parts[0] if parts else None
    return (bool(node["across"]), *parts)


def _preset_columns(
    preset: LayoutPreset, specs: Mapping[str, PanelSpec], shown: Collection[str]
) -> list[tuple[int, list[tuple[str, ...]]]]:
    if not preset.columns:
        return [
            (share, [(n,) for n, panel in specs.items() if panel.area == area and panel.opened])
            for area, share in _AREAS.items()
        ]
    columns: list[tuple[int, list[tuple[str, ...]]]] = []
    for share, named in preset.columns:
        existing = [tuple(name for name in group if name in specs) for group in named]
        if groups := [group for group in existing if group]:
            columns.append((share, groups))
    for name, spec in specs.items():
        if name not in _preset_panels() and name in shown:
            if not columns:
                columns = [(100, [])]
            groups = columns[0 if spec.area == "left" else -1][1]
            groups[-1:] = [(*(groups[-1] if groups else ()), name)]
    return columns


def _preset_panels() -> set[str]:
    columns = [column for preset in PRESETS.values() for column in preset.columns]
    return {name for _, groups in columns for group in groups for name in group}


def _make_node(across: bool, sizes: Sequence[float], parts: Sequence[Node]) -> Node:
    if len(parts) == 1:
        return parts[0]
    return {
        "across": across,
        "shares": [size / sum(sizes) for size in sizes],
        "parts": list(parts),
    }
