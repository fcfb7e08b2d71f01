"""Named layouts: which panels, in which columns, and which share a place in a low window."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dgn_engine.scene.panel_spec import PanelSpec

LEAST_PANEL = 216  # pixels of height below which panels of a column become tabs
ROOMY = 300  # … above which one that needs less leaves some to its neighbours
OVERVIEW = "overview"

Groups = tuple[tuple[str, ...], ...]  # panels of a column from the top; tabs in one place together
Node = dict[str, Any]  # as `dock_layout.described` gives it


@dataclass(frozen=True)
class LayoutPreset:
    """Columns from left to right, each with its share of the width in percent.

    No columns: the panels that are open at first, in the column and the order that they declare.
    """

    title: str
    about: str
    columns: tuple[tuple[int, Groups], ...] = ()
    # Of panels that need less, against 1.
    heights: Mapping[str, float] = field(default_factory=dict)


PRESETS: Mapping[str, LayoutPreset] = {
    OVERVIEW: LayoutPreset("Overview", "The main panels in their places, as at first"),
    "kernels": LayoutPreset(
        "Kernels",
        "Overlap and NTK beside the NPK spectrum",
        ((50, (("overlap",), ("ntk",))), (50, (("spectrum",), ("training",)))),
    ),
    "gates": LayoutPreset(
        "Gates",
        "Gate maps large, overlap and training beside them",
        ((62, (("gate_maps",),)), (38, (("overlap",), ("training",)))),
    ),
    "curves": LayoutPreset(
        "Curves",
        "Training large, NTK and NPK spectrum beside it",
        ((60, (("training",),)), (40, (("ntk",), ("spectrum",)))),
    ),
    "teach": LayoutPreset(
        "Teach",
        "What gates do on data of the plane: regions and paths, gate maps, NPK and training",
        (
            (56, (("regions",), ("paths",))),
            (44, (("gate_maps",), ("spectrum",), ("training",))),
        ),
        {"regions": 0.8},  # three squares side by side
    ),
    "compare": LayoutPreset(
        "Compare",
        "What a comparison shows: gates of A and B, where they differ, and their scores",
        (
            (54, (("gate_maps",), ("agreement",))),
            (46, (("training",), ("overlap",), ("spectrum", "ntk"))),
        ),
    ),
}
_AREAS = {"left": 56, "right": 44}  # percent of the width


def preset_tree(
    preset: LayoutPreset, specs: Mapping[str, PanelSpec], shown: Collection[str], height: float
) -> Node | None:
    """The layout of a preset in docks of this height, as `dock_layout.arranged` takes it.

    `shown`: the panels that are to be seen; one of the preset that is not keeps its place for when
    it is opened. Panels that no preset names (plug-ins) stay, as tabs behind their area's last.
    None: there is no panel at all.
    """
    columns = _columns(preset, specs, shown)
    rows = max(1, int(height // LEAST_PANEL))
    parts, shares = [], []
    for share, groups in columns:
        seen = [group for group in groups if not set(group).isdisjoint(shown)]
        hidden = [group for group in groups if set(group).isdisjoint(shown)]
        stacked = [*fitting(seen, rows), *hidden]
        if stacked:
            of = preset.heights if height / len(stacked) > ROOMY else {}
            heights = [max(of.get(name, 1.0) for name in group) for group in stacked]
            parts.append(_node(False, heights, [{"tabs": [*g]} for g in stacked]))
            shares.append(float(share))
    return _node(True, shares, parts) if parts else None


def tree_like(
    node: Node | None, preset: LayoutPreset, specs: Mapping[str, PanelSpec], shown: Collection[str]
) -> Node | None:
    """The layout of a preset, for whatever height, that this one is; None where there is none."""
    now = outline(node, shown)
    for rows in range(1, len(specs) + 1):
        tree = preset_tree(preset, specs, shown, rows * LEAST_PANEL)
        if outline(tree, shown) == now:
            return tree
    return None


def fitting(groups: Sequence[tuple[str, ...]], rows: int) -> list[tuple[str, ...]]:
    """At most `rows` places: the neighbours with the fewest panels share one, the upper first."""
    found = list(groups)
    while len(found) > max(rows, 1):
        sizes = [len(found[at]) + len(found[at + 1]) for at in range(len(found) - 1)]
        at = sizes.index(min(sizes))
        found[at : at + 2] = [(*found[at], *found[at + 1])]
    return found


def outline(node: Node | None, names: Collection[str]) -> Any:
    """What two layouts have in common that differ in sizes and in which tab is in front.

    Only these panels count.
    """
    if node is None:
        return None
    if "tabs" in node:
        return frozenset(node["tabs"]) & frozenset(names) or None
    parts = [outline(part, names) for part in node["parts"]]
    parts = [part for part in parts if part is not None]
    if len(parts) < 2:
        return parts[0] if parts else None
    return (bool(node["across"]), *parts)


def _columns(
    preset: LayoutPreset, specs: Mapping[str, PanelSpec], shown: Collection[str]
) -> list[tuple[int, list[tuple[str, ...]]]]:
    if not preset.columns:
        return [
            (share, [(n,) for n, one in specs.items() if one.area == area and one.opened])
            for area, share in _AREAS.items()
        ]
    columns: list[tuple[int, list[tuple[str, ...]]]] = []
    for share, named in preset.columns:
        known = [tuple(name for name in group if name in specs) for group in named]
        if groups := [group for group in known if group]:
            columns.append((share, groups))
    for name, spec in specs.items():
        if name not in _named() and name in shown:
            if not columns:
                columns = [(100, [])]
            groups = columns[0 if spec.area == "left" else -1][1]
            groups[-1:] = [(*(groups[-1] if groups else ()), name)]
    return columns


def _named() -> set[str]:
    columns = [column for preset in PRESETS.values() for column in preset.columns]
    return {name for _, groups in columns for group in groups for name in group}


def _node(across: bool, sizes: Sequence[float], parts: Sequence[Node]) -> Node:
    if len(parts) == 1:
        return parts[0]
    return {
        "across": across,
        "shares": [size / sum(sizes) for size in sizes],
        "parts": list(parts),
    }
