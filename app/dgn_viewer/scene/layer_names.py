"""What the gate layers are called: the layer of the value network and whose gates it uses."""

from __future__ import annotations

from dgn_viewer.scene.panel_spec import View


def layer_name(view: View, layer: int) -> str:
    """'layer 2', or 'layer 2 ← G1' where the wiring gives it another layer's gates (1-based)."""
    name = f"layer {layer + 1}"
    wiring = view.wiring
    if layer < len(wiring) and wiring[layer] != layer:
        return f"{name} ← G{wiring[layer] + 1}"
    return name


def layer_tag(view: View, layer: int) -> str:
    """'G2': the gate layer that value layer `layer` uses (1-based)."""
    wiring = view.wiring
    source = wiring[layer] if layer < len(wiring) else layer
    return f"G{source + 1}"


def layers_in(names: list[str], prefix: str) -> list[int]:
    """The layers l for which an array 'prefix_l' exists, in order."""
    found = [name.removeprefix(f"{prefix}_") for name in names if name.startswith(f"{prefix}_")]
    return sorted(int(rest) for rest in found if rest.isdigit())
