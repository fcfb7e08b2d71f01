"""Runs, networks, layers and settings in a few words: 'digits · fc 64×5 · 21,450 weights'."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from pathlib import PurePath

from dgn_engine.config import SETTINGS, DataConfig
from dgn_engine.errors import with_names
from dgn_engine.protocol.branches import BranchStatus
from dgn_engine.protocol.frames import Reading
from dgn_engine.protocol.training import RunStarted
from dgn_engine.scene.panel_spec import Values, View
from dgn_engine.text.fitted_text import fit_text
from dgn_engine.text.written_numbers import format_number

_LONG = 18  # characters that fit
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# Date and time, regime, network, data.
_STARTED = re.compile(r"(\d{4})(\d\d)(\d\d)-(\d\d)(\d\d)\d\d-(.+)-[^-]+-[^-]+")
_UNITS = ((86_400.0, "day"), (3600.0, "h"), (60.0, "min"))


def describe_run(run: RunStarted, feature_weights: int) -> str:
    """Describe data, network and the number of weights of both networks together."""
    total = run.parameters_value + feature_weights
    net = run.inspected or describe_network(run)
    return f"{describe_data(run.config.data)} · {net} · {total:,} weights"


def describe_weights(run: RunStarted, feature_weights: int, aside: bool = False) -> str:
    """Describe how many weights each network has.

    `aside`: the feature network exists but is not in use.
    """
    own = f"Value network {run.parameters_value:,}"
    if not feature_weights:
        return own
    return f"{own}, feature network {feature_weights:,}{' (not in use)' if aside else ''}"


def describe_data(data: DataConfig) -> str:
    """Return 'digits', 'mnist 4|7', 'folder flowers', 'mnist, 25 % label noise, random pixels'."""
    name, colon, path = data.name.partition(":")
    text = f"{name} {PurePath(path).name}" if colon else name
    text = f"{text} {data.binary[0]}|{data.binary[1]}" if data.binary else text
    if data.label_noise:
        text += f", {format_number(100 * data.label_noise)} % label noise"
    if data.normalise != "none":
        text += f", normalised {data.normalise}"
    if data.image_channels:
        text += f", grey in {data.image_channels} channels"
    if data.image_size:
        text += f", resized to {data.image_size}"
    return f"{text}, random pixels" if data.pixels == "random" else text


def shorten_middle(name: str, most: int = 22) -> str:
    """Shorten a name to `most` characters: 'resnet18-o…0-best.pth'."""
    if len(name) <= most:
        return name
    head = (most - 1) // 2
    return f"{name[:head]}…{name[head + 1 - most :]}"


def describe_network(run: RunStarted) -> str:
    """Return 'fc 64×5' (width × weight layers), 'cnn4 128' (channels), 'vconv'.

    It adds 'parallel features' if each feature layer reads the input.
    """
    if run.inspected:
        return f"{run.inspected}, {describe_assumption(run)}" if run.assuming else run.inspected
    parallel = run.config.gating.feature_layers == "parallel"
    return run.network_name + ", parallel features" * parallel


def describe_assumption(run: RunStarted) -> str:
    """Return 'ReLU assumed' for a file that does not name its activation; else ''."""
    return f"{run.assuming} assumed" if run.assuming else ""


def layer_name(view: View, layer: int) -> str:
    """Return 'layer 2', or 'layer 2 ← G1' if it is wired to another layer's gates (1-based)."""
    name = f"layer {layer + 1}"
    wiring = view.wiring
    if layer < len(wiring) and wiring[layer] != layer:
        return f"{name} ← G{wiring[layer] + 1}"
    return name


def layer_tag(view: View, layer: int) -> str:
    """Return 'G2', the gate layer that a value layer uses (1-based)."""
    wiring = view.wiring
    source = wiring[layer] if layer < len(wiring) else layer
    return f"G{source + 1}"


def is_conv(view: View, reading: Reading, layer: int) -> bool:
    """Return whether the reading has means over the positions of a map instead of gates."""
    if view.run is not None and layer < len(view.run.layers):
        return view.run.layers[layer].kind == "conv"
    return "unit_map" in reading.arrays


def layer_values(view: View, probe: str, prefix: str) -> Values:
    """List the layers for which a reading has an array 'prefix_l' as option values."""
    reading = view.readings.get(probe)
    layers = layers_with_prefix(reading.arrays, prefix) if reading else []
    return tuple((str(layer), layer_name(view, layer)) for layer in layers)


def layers_with_prefix(names: Iterable[str], prefix: str) -> list[int]:
    """Return the layers l with an array 'prefix_l', in order."""
    suffixes = [name.removeprefix(f"{prefix}_") for name in names if name.startswith(f"{prefix}_")]
    return sorted(int(suffix) for suffix in suffixes if suffix.isdigit())


def strip_dollars(name: str, longest: int) -> str:
    """Return a name without mathematics; if it is long, without letters of its middle."""
    return fit_text(name.replace("$", "_"), longest, len)


def short_names(names: Sequence[str]) -> tuple[str, ...]:
    """Shorten names with a common start or end: 'blocks.1.attention.weight' → '…1…'.

    Names that are short, or have nothing in common, stay the same.
    """
    if len(names) < 2 or max(map(len, names)) <= _LONG:
        return tuple(names)
    parts = [name.split(".") for name in names]
    common_limit = min(map(len, parts)) - 1  # keep a part of each name
    head = _count_shared(parts, common_limit)
    tail = _count_shared([part[::-1] for part in parts], common_limit - head)
    return tuple(
        f"{'…' if head else ''}{'.'.join(part[head : len(part) - tail])}{'…' if tail else ''}"
        for part in parts
    )


def _count_shared(parts: Sequence[Sequence[str]], most: int) -> int:
    """Count the first segments that all names have in common."""
    count = 0
    while count < most and len({part[count] for part in parts}) == 1:
        count += 1
    return count


def name_day(day: date, today: date) -> str:
    """Return 'Today', 'Yesterday', '26 Nov', or '26 Nov 2025' of another year."""
    if day == today:
        return "Today"
    if day == today - timedelta(days=1):
        return "Yesterday"
    year = "" if day.year == today.year else f" {day.year}"
    return f"{day.day} {_MONTHS[day.month - 1]}{year}"


def name_in_words(folder: str) -> str:
    """Return '26 Nov 22:03 · DL' for a folder that the program named, else its name."""
    match = _STARTED.fullmatch(folder)
    if match is None:
        return folder
    year, month, day, hour, minute = map(int, match.groups()[:5])
    try:
        started = datetime(year, month, day, hour, minute)
    except ValueError:
        return folder
    return f"{name_day(started.date(), date.today())} {started:%H:%M} · {match[6]}"


def format_age(seconds: float) -> str:
    """Return 'just now', '3 min ago', '2 h ago' or '5 days ago'."""
    for length, name in _UNITS:
        count = int(seconds // length)
        if count >= 1:
            plural = "s" if name == "day" and count > 1 else ""
            return f"{count:,} {name}{plural} ago"
    return "just now"


def describe_branch(branch: BranchStatus) -> str:
    """Return 'branch from step 300: regime FR-II · step 1,250, training alongside'."""
    changes = ", ".join(branch.changes.in_words()) or "no changes"
    text = f"branch from step {branch.from_step:,}: {changes}"
    match branch.phase:
        case "starting":
            return f"{text} · starting"
        case "training":
            return f"{text} · step {branch.step:,}, training alongside"
        case "failed":
            return f"{text} · failed: {branch.remark}"
    return f"{text} · step {branch.step:,}, {branch.phase}"


def use_form_names(sentence: str) -> str:
    """Replace setting names in a sentence by their labels in the run form: 'learning rate'."""
    return with_names(sentence, _form_name)


def _form_name(place: str) -> str:
    part, _, name = place.rpartition(".")
    if part.endswith(".options"):
        return f"'{name}'"
    label = SETTINGS[part][name].label if part and name in SETTINGS.get(part, {}) else ""
    return f"'{label}'" if label else place
