"""Recognise files whose tensor names show that they are not a plain chain of layers.

Edit this module to refuse another kind of file, or to suggest another way out.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal

import numpy as np

from dgn_engine.errors import UserError
from dgn_engine.storage.checkpoints.array_layout import is_kernel
from dgn_engine.storage.checkpoints.averaged_weights import averaged_beside
from dgn_engine.storage.checkpoints.contents import Array
from dgn_engine.storage.checkpoints.networks_beside import (
    ROLES,
    NetworksBeside,
    networks_beside,
    same_numbers_beside,
)
from dgn_engine.text.printable import plain_text

Door = Literal["command", "window"]
"""Who asks for a network: a command, whose options a message may mention, or the window."""

OWN_CODE: dict[Door, str] = {  # the suggestion for known layers without supported gates
    "command": "To compute K for your own module, use dgn kernels --model.",
    "window": "",
}


_OR_PART: dict[Door, str] = {
    "command": ", or use --part {}",
    "window": "",
}


class UnnamedNetwork(UserError):  # noqa: N818 - a verdict about a file, as `UnreadableFile` is
    """The file does not say what network it is, and its tensors do not tell.

    The text is one sentence without a suggestion; the caller adds it (`ways_out`).
    """


class UnknownGates(UserError):  # noqa: N818 - a verdict about a file, as `UnnamedNetwork` is
    """Layers of the file have no gates, or no supported ones; the caller adds the suggestion."""


class UngatedLayers(UnknownGates):
    """The layers are known but have no supported gates: only K can be computed."""


@dataclass(frozen=True)
class ForeignKeys:
    """A tensor that belongs to `what`; `remedy`: a sentence on what to do, or ''."""

    name: str
    what: str
    remedy: str = ""


_NO_GATES = "It has no gates, so no path kernels."
_UNSUPPORTED = "Save it as a plain module of Linear and Conv2d layers."
_MARKS: tuple[tuple[str, str, str], ...] = (  # pattern of a key, what it belongs to, what to do
    (
        r"weight_g|parametrizations\.\w+\.original[01]",
        "weight normalisation",
        "Fold it in with torch.nn.utils.parametrize.remove_parametrizations (or "
        "remove_weight_norm) and save it again.",
    ),
    (
        r"weight_orig|weight_[uv]|weight_mask|parametrizations\..+",
        "a parametrised or pruned weight",
        "Fold it in (torch.nn.utils.parametrize.remove_parametrizations, prune.remove) and save it "
        "again.",
    ),
    (
        r"lora_\w+|lora[AB]\w*|lora\w*\.(down|up)|adapter_\w+|hada_w\d_[ab]",
        "a LoRA adapter, which modifies another network's weights",
        "Merge it into that network (merge_and_unload) and save it again.",
    ),
    (
        r"in_proj(_weight|_bias|\.\w+)?|[qkvo]_proj|qkv|c_attn|to_[qkv]|to_qkv|Wqkv|query_key_value"
        r"|self_attn|self_attention|attn|attention|multihead_attn",
        "attention",
        _NO_GATES,
    ),
    (r"(gate|up|down)_proj|experts", "a gated or expert block", _UNSUPPORTED),
    (r"(weight|bias)_[ih]h(_l\d+\w*)?", "a recurrent network", _NO_GATES),
    (
        r"embeddings?|embed_tokens|word_embeddings|tok_embeddings|wte|wpe|pos_embed(ding)?"
        r"|cls_token|class_token|relative_position\w*",
        "an embedding",
        _NO_GATES,
    ),
    (r"_packed_params\w*|zero_point|qweight|qzeros", "quantised weights", _UNSUPPORTED),
)
_OF_KEY = [(re.compile(rf"(^|\.)({mark})(\.|$)"), what, do) for mark, what, do in _MARKS]
_LETTERS = ("qkv", "QKV")
_TRIPLES = tuple(
    tuple(pattern.format(letter) for letter in letters)
    for pattern, letters in (
        ("{}", "qkv"),
        ("{}", "QKV"),
        ("{}", ("query", "key", "value")),
        ("{}_proj", ("query", "key", "value")),
        *((pattern, letters) for pattern in ("w{}", "W{}", "w_{}", "W_{}") for letters in _LETTERS),
    )
)
_PAIRS = (  # names of two networks in one file, one of which may follow the other
    *(*ROLES, ("encoder", "decoder"), ("branch", "trunk"), ("best", "last")),
)
_KERAS_NORM = re.compile(
    r"(^|[./])(moving_(mean|variance)(:\d+)?$|batch_?norm\w*[./](vars[./]\d+|scale|mean|var|gamma)"
    r"(:\d+)?$)",
    re.IGNORECASE,
)
_SAMPLED = re.compile(r"(^|[._])(log_?var|log_?std|log_?sigma)(\.|$)")
_SHORTCUT = re.compile(
    r"(^|\.)(skip|shortcut|residual|bypass|downsample|res_?\d+|res_?block)\w*(\.|$)"
    r"|(^|\.)layer\d+\.\d+\.conv\d"  # a block of a ResNet
)


def foreign_keys(names: Iterable[str]) -> ForeignKeys | None:
    """Return the first name that belongs to something other than plain layers, or None."""
    known = tuple(names)
    for pattern, what, remedy in _OF_KEY:
        for name in known:
            if pattern.search(name):
                return ForeignKeys(name, what, remedy)
    return _attention_keys(known)


def _attention_keys(names: tuple[str, ...]) -> ForeignKeys | None:
    """Recognise three siblings named q, k and v as attention."""
    parts = {name.removesuffix(".weight"): name for name in names}
    for q, *others in _TRIPLES:
        for head, name in parts.items():
            before, _, last = head.rpartition(".")
            siblings = [f"{before}.{other}".lstrip(".") for other in others]
            if last == q and all(sibling in parts for sibling in siblings):
                return ForeignKeys(name, "attention", _NO_GATES)
    return None


def shortcut_in(names: Iterable[str]) -> str:
    """Return the first name that suggests a skip connection; or ''."""
    return next((name for name in names if _SHORTCUT.search(name)), "")


def two_networks_in(names: Iterable[str]) -> str:
    """Describe the names that show more than one network; or ''."""
    known = tuple(names)
    parts = {part for name in known for part in name.split(".")[:-1]}
    for pair in _PAIRS:
        if parts.issuperset(pair):
            return f"'{pair[0]}' and '{pair[1]}', two networks judging by their names"
    sampled = next((name for name in known if _SAMPLED.search(name)), "")
    if not sampled:
        return ""
    return f"'{plain_text(sampled, 80)}', by its name a layer for the spread of random numbers"


def check_keys(file: str, arrays: Mapping[str, Array], door: Door = "command") -> None:
    """Refuse a file whose names show that it is not a plain chain of layers.

    Raises:
        UnknownGates: Nothing can be done about the file.
        UserError: The sentence says what to do.
    """
    kernel = next((name for name, a in arrays.items() if is_kernel(name) and a.ndim > 2), "")
    if kernel:
        raise UserError(
            f"{file} has '{plain_text(kernel, 80)}', by its name a Keras or Flax convolution with "
            "channels last, which is not supported. Convert it to torch first.",
            kind="not-supported",
        )
    if twice := averaged_beside(arrays):
        raw, averaged = (plain_text(name, 60) for name in twice)
        raise UserError(
            f"{file} has the same network twice, as '{raw}' and, judging by the name, "
            f"averaged as '{averaged}': save one of them separately"
            f"{_OR_PART[door].format(averaged)}.",
            kind="not-supported",
        )
    if beside := networks_beside(arrays):
        raise UserError(f"{file} has {_networks_in_words(beside, door)}", kind="not-supported")
    if statistics := next((name for name in arrays if _KERAS_NORM.search(name)), ""):
        raise UserError(
            f"{file} has '{plain_text(statistics, 80)}', by its name a Keras or Flax BatchNorm, "
            "which cannot be folded in here and must not be dropped. Fold it into the layer before "
            "it, or convert the network to torch.",
            kind="not-supported",
        )
    _check_shared(file, arrays, door)
    foreign = foreign_keys(arrays)
    if foreign is not None:
        verdict = UnknownGates if foreign.remedy == _NO_GATES else UserError
        raise verdict(
            f"{file} has '{plain_text(foreign.name, 80)}', by its name part of {foreign.what}, "
            f"whose matrices are not a chain of layers. {foreign.remedy}".rstrip()
        )


def copies_in_words(file: str, copies: Sequence[str], door: Door) -> str:
    """Describe a file with numbered copies of one network, and say what to do."""
    names = ", ".join(f"'{plain_text(copy, 60)}'" for copy in copies[:3])
    more = ", …" if len(copies) > 3 else ""
    part = _OR_PART[door].format(plain_text(shlex.quote(copies[0]), 80))
    return (
        f"{file} has {len(copies)} networks with the same layers, {names}{more}: save one of them "
        f"separately{part}."
    )


def _networks_in_words(beside: NetworksBeside, door: Door) -> str:
    """Describe a file with two networks and say what to do, to complete 'It has …'."""
    names = f"'{plain_text(beside.first, 60)}' and '{plain_text(beside.second, 60)}'"
    relation = _RELATIONS[beside.relation]
    if beside.outside:
        return (
            f"{names}, by their names two networks or two outputs of one{relation}; "
            f"'{plain_text(beside.outside, 80)}' belongs to neither. Save one network separately."
        )
    if not beside.parts:
        return f"{names}, by their names two networks{relation}: save one of them separately."
    if len(beside.parts) > 2:
        shown = [f"'{plain_text(part, 60)}'" for part in beside.parts[:8]]
        more = ", …" if len(beside.parts) > 8 else ""
        names = f"{', '.join(shown[:-1])} and {shown[-1]}{more}"
        count, relation = f"{len(beside.parts)} networks", ""
    else:
        count = "two networks"
    either = f"{shlex.quote(beside.first)} or --part {shlex.quote(beside.second)}"
    part = _OR_PART[door].format(plain_text(either, 160))
    return f"{names}, by their names {count}{relation}: save one of them separately{part}."


_RELATIONS = {
    "equal": ", with identical values",
    "moved": ", with the same layers but different values",
    "other": "",
}


def left_over_in_words(name: str, arrays: Mapping[str, Array]) -> str:
    """Describe a tensor that no layer has, without guessing its purpose.

    For example 'a vector of 10 numbers that is not a layer's bias'.
    """
    array = arrays[name]
    head, _, word = name.rpartition(".")
    if array.size == 1:
        return "a single number"
    if array.dtype.kind == "b":
        return f"a mask of {array.size:,} booleans"
    if array.ndim != 1:
        return f"a tensor of shape {'×'.join(str(side) for side in array.shape)}"
    others = [arrays.get(f"{head}.{other}") for other in ("weight", "bias") if other != word]
    paired = word in ("weight", "bias") and len(others) == 1
    if paired and others[0] is not None and others[0].shape == array.shape:
        return (
            f"a weight or bias of {array.size:,} numbers without running statistics, as in "
            "LayerNorm and GroupNorm"
        )
    return f"a vector of {array.size:,} numbers that is not a layer's bias"


def _check_shared(file: str, arrays: Mapping[str, Array], door: Door) -> None:
    """Refuse tied weights: their tangent kernel is not a sum over layers."""
    seen: dict[tuple[tuple[int, ...], bytes], str] = {}
    for name, array in arrays.items():
        if array.ndim not in (2, 4) or array.dtype.kind != "f":
            continue
        first = seen.setdefault((array.shape, sha256(array.tobytes()).digest()), name)
        if first == name or len(np.unique(array[:2])) <= 2:
            continue
        copy_name, other_name = same_numbers_beside(arrays, first, name)
        if copy_name:
            part = _OR_PART[door].format(plain_text(shlex.quote(copy_name), 80))
            raise UserError(
                f"{file} has the same values twice, under '{plain_text(copy_name, 60)}' and "
                f"'{plain_text(other_name, 60)}': a network and its copy, or one network used "
                f"twice. Save it separately{part}.",
                kind="not-supported",
            )
        raise UserError(
            f"{file}: '{plain_text(name, 80)}' equals '{plain_text(first, 80)}', so the layer "
            "seems to be used twice (tied weights); its tangent kernel is not the sum over layers. "
            "Pass the module to dgn_engine.kernels.empirical_ntk.",
            kind="not-supported",
        )
