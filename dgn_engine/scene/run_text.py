"""Runs, networks, layers and settings in a few words: 'digits · fc 64×5 · 21,450 weights'."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePath

from dgn_engine.config import SETTINGS, DataConfig
from dgn_engine.errors import with_names
from dgn_engine.protocol.branches import BranchStatus
from dgn_engine.protocol.frames import Reading
from dgn_engine.protocol.training import RunStarted
from dgn_engine.scene.panel_spec import Values, View
from dgn_engine.text.written_numbers import number

_LONG = 18  # characters that there is room for
_UNITS = ((86_400.0, "day"), (3600.0, "h"), (60.0, "min"))


def run_in_words(run: RunStarted, feature_weights: int) -> str:
    """Data, network and the number of weights of both networks together."""
    total = run.parameters_value + feature_weights
    net = run.inspected or net_in_words(run)
    return f"{data_in_words(run.config.data)} · {net} · {total:,} weights"


def weights_in_words(run: RunStarted, feature_weights: int, aside: bool = False) -> str:
    """How the weights are shared out; `aside`: the feature network is there but not in use."""
    own = f"Value network {run.parameters_value:,}"
    if not feature_weights:
        return own
    return f"{own}, feature network {feature_weights:,}{' (kept aside)' if aside else ''}"


def data_in_words(data: DataConfig) -> str:
    """'digits', 'mnist 4|7', 'folder flowers', 'mnist, 25 % label noise, random pixels'."""
    name, colon, path = data.name.partition(":")
    words = f"{name} {PurePath(path).name}" if colon else name
    words = f"{words} {data.binary[0]}|{data.binary[1]}" if data.binary else words
    if data.label_noise:
        words += f", {number(100 * data.label_noise)} % label noise"
    if data.normalise != "none":
        words += f", normalised {data.normalise}"
    if data.image_channels:
        words += f", grey in {data.image_channels} channels"
    if data.image_size:
        words += f", resized to {data.image_size}"
    return f"{words}, random pixels" if data.pixels == "random" else words


def middle_cut(name: str, most: int = 22) -> str:
    """A name of at most so many characters: 'resnet18-o…0-best.pth'."""
    if len(name) <= most:
        return name
    head = (most - 1) // 2
    return f"{name[:head]}…{name[head + 1 - most :]}"


def net_in_words(run: RunStarted) -> str:
    """'fc 64×5' (width × weight layers), 'cnn4 128' (channels), 'vconv'."""
    if run.inspected:
        return f"{run.inspected}, {reading_of(run)}" if run.assuming else run.inspected
    name, widths = run.config.net.short, {layer.shape[0] for layer in run.layers}
    kinds = {layer.kind for layer in run.layers}
    if kinds == {"dense"} and len(widths) == 1:
        return f"{name} {widths.pop()}×{len(run.layers) + 1}"
    options = dict(run.config.net.options)
    channels = options.get("channels")
    if channels is None and kinds == {"conv"} and len(widths) == 1:
        channels = widths.pop()
    return f"{name} {channels}" if channels is not None else name


def reading_of(run: RunStarted) -> str:
    """'reading: ReLU, as you said', of a file that does not say it itself; or ''."""
    return f"reading: {run.assuming}, as you said" if run.assuming else ""


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


def is_conv(view: View, reading: Reading, layer: int) -> bool:
    """Whether the reading has means over the positions of a map in the place of gates."""
    if view.run is not None and layer < len(view.run.layers):
        return view.run.layers[layer].kind == "conv"
    return "unit_map" in reading.arrays


def layer_values(view: View, probe: str, prefix: str) -> Values:
    """The values of an option for the layers of which a reading has an array 'prefix_l'."""
    reading = view.readings.get(probe)
    layers = layers_in(reading.arrays, prefix) if reading else []
    return tuple((str(layer), layer_name(view, layer)) for layer in layers)


def layers_in(names: Iterable[str], prefix: str) -> list[int]:
    """The layers l for which an array 'prefix_l' exists, in order."""
    found = [name.removeprefix(f"{prefix}_") for name in names if name.startswith(f"{prefix}_")]
    return sorted(int(rest) for rest in found if rest.isdigit())


def without_dollars(name: str, longest: int) -> str:
    """A name that is set as no formula; a long one is cut in its middle."""
    name = name.replace("$", "_")
    if len(name) <= longest:
        return name
    return f"{name[: longest // 2]}…{name[-(longest // 2 - 1) :]}"


def short_names(names: Sequence[str]) -> tuple[str, ...]:
    """'blocks.1.attention.weight' → '…1…' where all begin with 'blocks.' and end alike.

    Names that are short, or have nothing in common, stay as they are.
    """
    if len(names) < 2 or max(map(len, names)) <= _LONG:
        return tuple(names)
    parts = [name.split(".") for name in names]
    least = min(map(len, parts)) - 1  # something of each name stays
    head = _shared(parts, least)
    tail = _shared([part[::-1] for part in parts], least - head)
    return tuple(
        f"{'…' if head else ''}{'.'.join(part[head : len(part) - tail])}{'…' if tail else ''}"
        for part in parts
    )


def _shared(parts: Sequence[Sequence[str]], most: int) -> int:
    """How many segments all have in common, from the first on."""
    count = 0
    while count < most and len({part[count] for part in parts}) == 1:
        count += 1
    return count


def ago(seconds: float) -> str:
    """'just now', '3 min ago', '2 h ago', '5 days ago'."""
    for length, name in _UNITS:
        count = int(seconds // length)
        if count >= 1:
            plural = "s" if name == "day" and count > 1 else ""
            return f"{count:,} {name}{plural} ago"
    return "just now"


def branch_in_words(branch: BranchStatus) -> str:
    """'branch from step 300: regime FR-II · step 1,250, trains beside the run'."""
    changes = ", ".join(branch.changes.in_words()) or "nothing changed"
    words = f"branch from step {branch.from_step:,}: {changes}"
    match branch.phase:
        case "starting":
            return f"{words} · starts"
        case "training":
            return f"{words} · step {branch.step:,}, trains beside the run"
        case "failed":
            return f"{words} · failed: {branch.remark}"
    return f"{words} · step {branch.step:,}, {branch.phase}"


def in_form_words(sentence: str) -> str:
    """Return a sentence that calls settings what the form of a run does: 'learning rate'."""
    return with_names(sentence, _form_name)


def _form_name(place: str) -> str:
    part, _, name = place.rpartition(".")
    if part.endswith(".options"):
        return f"'{name}'"
    label = SETTINGS[part][name].label if part and name in SETTINGS.get(part, {}) else ""
    return f"'{label}'" if label else place
