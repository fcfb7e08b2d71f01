"""Suggest code and options for a file that does not say what network it is.

A state dict has no activations, strides, padding or pooling; a saved `nn.Sequential` states them
all, and so does the user's own code.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from dgn_engine.importing import MODEL
from dgn_engine.importing.fold_batchnorm import fold_normalisation
from dgn_engine.importing.foreign_keys import (
    Door,
    foreign_keys,
    shortcut_in,
    two_networks_in,
)
from dgn_engine.importing.torchvision_nets import chain_in_words
from dgn_engine.storage.checkpoints.contents import Array, CheckpointContents

_WITHOUT_NAMES: Mapping[Door, str] = {
    "command": "Choose the network with --net, or save a whole nn.Sequential (torch.save(module)), "
    "which states its layers. Or build it with your own code: ",
    "window": "Open it next to a run of its network, or save a whole nn.Sequential "
    "(torch.save(module)), which states its layers.",
}
_LONGEST = 700  # characters in a line of code; more would be unreadable
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_Path = tuple[str, ...]  # of a layer in its module, name by name
_LIBRARIES = ("torch", "torchvision", "timm", "transformers")  # their classes are not user code


def own_class(listing: CheckpointContents) -> str:
    """Return the class of a whole saved module, 'nets.Net'; '' if none, or a library's."""
    package = listing.module.partition(".")[0]
    return "" if package in _LIBRARIES else listing.module


def code_options(listing: CheckpointContents) -> str:
    """Return the options with which the user's own code builds the network of a file.

    The class name comes from the file and may be hostile: modules of Python's standard library and
    anything that is not a name are not suggested.
    """
    module, _, name = own_class(listing).rpartition(".")
    known = module if module not in ("", "__main__") else "MODULE"
    sound = known.partition(".")[0] not in sys.stdlib_module_names and _is_dotted(f"{known}.{name}")
    target = f"{known}:{name}" if sound else MODEL
    return f"--model {target} --weights {shlex.quote(listing.file_name)}"


def way_out(listing: CheckpointContents, door: Door) -> str:
    """Return sentences on what to do about a file that does not say what network it is."""
    if own_class(listing):
        if door == "window":
            return "Save an nn.Sequential (torch.save(module)) instead, which states its layers."
        code = code_options(listing)
        unknown = " MODULE is the file that defines it, without '.py'." * ("MODULE:" in code)
        return (
            f"If this is your own code, use {code} instead of the file: the code is run, the file "
            f"is not.{unknown}"
        )
    if line := sequential_line(listing):
        save = f"save an nn.Sequential, which states its layers: {line}"
        if "nn.Sequential(" in line:
            save += ", inserting its ReLU, pooling and Flatten"
        if door == "window":
            return f"Open it next to a run of its network, or {save}."
        code = f"Or choose it with --net, or build it with your own code: {code_options(listing)}."
        return f"{save[0].upper()}{save[1:]}. {code}"
    code = f"{code_options(listing)}." if door == "command" else ""
    return f"{_WITHOUT_NAMES[door]}{code}"


def sequential_line(listing: CheckpointContents) -> str:
    """Return a line of code that saves a state dict's layers as an `nn.Sequential`.

    ReLU goes where activations usually are. Returns '' if the layers do not chain or their names
    are not Python identifiers.
    """
    names = list(listing.arrays)
    shapes = {name: array.shape for name, array in listing.arrays.items()}
    if len(names) > _LONGEST or not chain_in_words(shapes) or foreign_keys(names):
        return ""
    if shortcut_in(names) or two_networks_in(names) or listing.module:
        return ""
    folding = fold_normalisation(listing.arrays)
    if any(name.endswith(".running_mean") for name in folding.arrays):  # of no layer before it
        return ""
    parts = _saved_layers(listing.arrays, folding.into)
    codes = [_code_of(part.path) for part in parts]
    if not parts or not all(codes) or len(set(codes)) < len(codes):
        return ""
    file = f"{PurePath(listing.file_name).stem}-sequential.pt"
    if not re.fullmatch(r"[\w.\-]+", file):
        file = "sequential.pt"
    if len(codes) == 1 and parts[0].whole:
        return f'torch.save({codes[0]}, "{file}")'
    line = f'torch.save(nn.Sequential({", ".join(_with_activations(parts, codes))}), "{file}")'
    return line if len(line) <= _LONGEST else ""


@dataclass
class _SavedLayers:
    """A layer, or a `whole` sequence of them.

    `begins` and `ends` are the kind of its first and last layer: 'convolution', 'dense', 'norm' or
    ''.
    """

    path: _Path
    begins: str
    ends: str
    whole: bool = False


def _saved_layers(arrays: Mapping[str, Array], norms: Mapping[str, str]) -> list[_SavedLayers]:
    """Return the layers in order; a sequence whose numbers skip some, its activations, is one.

    `norms`: the BatchNorm after each weight.
    """
    kinds: dict[_Path, str] = {}
    for name, array in arrays.items():
        head, _, word = name.rpartition(".")
        path = tuple(head.split("."))
        kind = {4: "convolution", 2: "dense"}.get(array.ndim, "")
        if word in ("running_mean", "running_var"):
            kind = "norm"
        kinds[path] = kind or kinds.get(path, "")
    parts: list[_SavedLayers] = []
    for path in _in_order(kinds, norms):
        kind = kinds[path]
        sequence = path[:-1] if path and path[-1].isdecimal() else None
        last = parts[-1] if parts else None
        if last is not None and last.path == sequence and last.whole:
            last.ends = kind if kind != "norm" else last.ends
            continue
        whole = sequence is not None and _skips_numbers(sequence, kinds)
        parts.append(
            _SavedLayers(sequence if whole and sequence is not None else path, kind, kind, whole)
        )
    return parts


def _in_order(kinds: Iterable[_Path], norms: Mapping[str, str]) -> list[_Path]:
    """Return the layers with each BatchNorm moved after the layer it normalises, by name.

    A program that names all convolutions first and then all BatchNorms stores them in that order.
    """
    behind = {
        tuple(weight.split(".")[:-1]): tuple(norm.split(".")) for weight, norm in norms.items()
    }
    moved = set(behind.values())
    ordered: list[_Path] = []
    for path in kinds:
        ordered += [] if path in moved else [path]
        ordered += [behind[path]] if path in behind else []
    return ordered


def _skips_numbers(sequence: _Path, kinds: Iterable[_Path]) -> bool:
    """Return whether a sequence's numbering has gaps, so that it includes its activations."""
    numbers = [int(p[-1]) for p in kinds if p[:-1] == sequence and p[-1].isdecimal()]
    return max(numbers) - min(numbers) + 1 > len(numbers) or min(numbers) > 0


def _with_activations(parts: list[_SavedLayers], codes: list[str]) -> list[str]:
    words: list[str] = []
    open_, maps = False, False  # a layer lacks its activation; the input is maps
    for part, code in zip(parts, codes, strict=True):
        if part.begins in ("convolution", "dense"):
            words += ["nn.ReLU()"] * open_
            if part.begins == "dense" and maps:
                words.append("nn.Flatten()")
        words.append(code)
        if part.ends in ("convolution", "dense"):
            maps, open_ = part.ends == "convolution", True
    return words


def _code_of(path: _Path) -> str:
    """Return 'model.features[0].conv'; '' if a name is not a Python identifier."""
    code = "model"
    for name in path:
        if name.isdecimal() and name.isascii() and len(name) < 6:
            code += f"[{int(name)}]"
        elif _NAME.fullmatch(name):
            code += f".{name}"
        else:
            return ""
    return code


def _is_dotted(name: str) -> bool:
    return all(_NAME.fullmatch(part) for part in name.split("."))
