"""What the names in a file say that its tensors are, where they are no chain of layers.

Open it to have another kind of file named and refused, or another way out offered.
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
from dgn_engine.text.printable import plain

Door = Literal["command", "window"]
"""Who asked for a network: a command, whose options a sentence may name, or the window."""

OWN_CODE: dict[Door, str] = {  # the way out where a file's layers are known, and have no gates here
    "command": "K of a module of your own code is computed by dgn kernels --model.",
    "window": "",
}


_OR_PART: dict[Door, str] = {
    "command": ", or use --part {}",
    "window": "",
}


class UnnamedNetwork(UserError):  # noqa: N818 - a verdict about a file, as `UnreadableFile` is
    """The file does not say what network it is, and it cannot be told from its tensors.

    The text is one sentence without a way out; whoever made the request adds it (`ways_out`).
    """


class UnknownGates(UserError):  # noqa: N818 - a verdict about a file, as `UnnamedNetwork` is
    """Layers of the file have no gates, or none that are known here; whoever made the request adds
    the way out (`OWN_CODE`)."""


class UngatedLayers(UnknownGates):
    """The layers of the file are known, and have no gates that are: K alone is computed of them."""


@dataclass(frozen=True)
class ForeignKeys:
    """`what` the tensor called `name` is a part of, and what can be done, a sentence or ''."""

    name: str
    what: str
    remedy: str = ""


_NO_GATES = "It has no gates, so no path kernels."
_UNSUPPORTED = "Save it as a plain module of Linear and Conv2d layers."
_MARKS: tuple[tuple[str, str, str], ...] = (  # a pattern of one key, what it is of, what to do
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
        "a LoRA adapter, a change of another network's weights",
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
_PAIRS = (  # what two networks in one file are called, of which one may follow the other
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
    """The first name that belongs to something else than plain layers; None where there is none."""
    known = tuple(names)
    for pattern, what, remedy in _OF_KEY:
        for name in known:
            if pattern.search(name):
                return ForeignKeys(name, what, remedy)
    return _triple(known)


def _triple(names: tuple[str, ...]) -> ForeignKeys | None:
    """Three siblings called q, k and v make an attention."""
    parts = {name.removesuffix(".weight"): name for name in names}
    for q, *others in _TRIPLES:
        for head, name in parts.items():
            before, _, last = head.rpartition(".")
            siblings = [f"{before}.{other}".lstrip(".") for other in others]
            if last == q and all(sibling in parts for sibling in siblings):
                return ForeignKeys(name, "attention", _NO_GATES)
    return None


def shortcut_in(names: Iterable[str]) -> str:
    """The first name that says that its layer goes past others; or ''."""
    return next((name for name in names if _SHORTCUT.search(name)), "")


def two_networks_in(names: Iterable[str]) -> str:
    """What in the names says that there is more than one network, in words; or ''."""
    known = tuple(names)
    parts = {part for name in known for part in name.split(".")[:-1]}
    for pair in _PAIRS:
        if parts.issuperset(pair):
            return f"'{pair[0]}' and '{pair[1]}', two networks by their names"
    sampled = next((name for name in known if _SAMPLED.search(name)), "")
    if not sampled:
        return ""
    return f"'{plain(sampled, 80)}', by its name a layer that gives the width of random numbers"


def check_keys(file: str, arrays: Mapping[str, Array], door: Door = "command") -> None:
    """Refuse a file whose names say that it is something else than plain layers; with
    `UnknownGates` where nothing can be done about the file."""
    kernel = next((name for name, a in arrays.items() if is_kernel(name) and a.ndim > 2), "")
    if kernel:
        raise UserError(
            f"{file} holds '{plain(kernel, 80)}', by its name a convolution of Keras or Flax, "
            "whose maps have their channels last: it is not read here. Convert it to torch first.",
            kind="not-supported",
        )
    if twice := averaged_beside(arrays):
        raw, averaged = (plain(name, 60) for name in twice)
        raise UserError(
            f"{file} holds a network of the same layers twice, as '{raw}' and averaged as "
            f"'{averaged}' by its name: save one of them apart{_OR_PART[door].format(averaged)}.",
            kind="not-supported",
        )
    if beside := networks_beside(arrays):
        raise UserError(f"{file} holds {_networks_in_words(beside, door)}", kind="not-supported")
    if statistics := next((name for name in arrays if _KERAS_NORM.search(name)), ""):
        raise UserError(
            f"{file} holds '{plain(statistics, 80)}', by its name a BatchNorm of Keras or Flax: it "
            "is not folded here, and without it the network would be another. Fold it into the "
            "layer before it, or convert the network to torch.",
            kind="not-supported",
        )
    _check_shared(file, arrays, door)
    found = foreign_keys(arrays)
    if found is not None:
        verdict = UnknownGates if found.remedy == _NO_GATES else UserError
        raise verdict(
            f"{file} holds '{plain(found.name, 80)}', by its name of {found.what}, whose matrices "
            f"are no chain of layers. {found.remedy}".rstrip()
        )


def copies_in_words(file: str, copies: Sequence[str], door: Door) -> str:
    """Return what a file with numbered networks of the same layers holds, and the way out."""
    names = ", ".join(f"'{plain(each, 60)}'" for each in copies[:3])
    more = ", …" if len(copies) > 3 else ""
    part = _OR_PART[door].format(plain(shlex.quote(copies[0]), 80))
    return (
        f"{file} holds {len(copies)} networks of the same layers, {names}{more}: save one of them "
        f"apart{part}."
    )


def _networks_in_words(beside: NetworksBeside, door: Door) -> str:
    """What a file with two networks holds, and the way out, as the end of 'It holds …'."""
    names = f"'{plain(beside.first, 60)}' and '{plain(beside.second, 60)}'"
    relation = _RELATIONS[beside.relation]
    if beside.outside:
        return (
            f"{names}, two networks by their names or two outputs of one{relation}; "
            f"'{plain(beside.outside, 80)}' is of none of these. Save one network apart."
        )
    if not beside.parts:
        return f"{names}, two networks by their names{relation}: save one of them apart."
    if len(beside.parts) > 2:
        shown = [f"'{plain(part, 60)}'" for part in beside.parts[:8]]
        more = ", …" if len(beside.parts) > 8 else ""
        names = f"{', '.join(shown[:-1])} and {shown[-1]}{more}"
        count, relation = f"{len(beside.parts)} networks", ""
    else:
        count = "two networks"
    either = f"{shlex.quote(beside.first)} or --part {shlex.quote(beside.second)}"
    part = _OR_PART[door].format(plain(either, 160))
    return f"{names}, {count} by their names{relation}: save one of them apart{part}."


_RELATIONS = {
    "equal": ", whose numbers are all equal",
    "moved": ", of the same layers with other numbers",
    "other": "",
}


def left_over_in_words(name: str, arrays: Mapping[str, Array]) -> str:
    """Return what a tensor is that no layer has, without a guess of what it is for: 'a vector of 10
    numbers that is no layer's bias'."""
    array = arrays[name]
    head, _, word = name.rpartition(".")
    if array.size == 1:
        return "a single number"
    if array.dtype.kind == "b":
        return f"a mask of {array.size:,} truth values"
    if array.ndim != 1:
        return f"a tensor of shape {'×'.join(str(side) for side in array.shape)}"
    others = [arrays.get(f"{head}.{other}") for other in ("weight", "bias") if other != word]
    paired = word in ("weight", "bias") and len(others) == 1
    if paired and others[0] is not None and others[0].shape == array.shape:
        return (
            f"one of a weight and a bias of {array.size:,} numbers each without running "
            "statistics, as LayerNorm and GroupNorm have them"
        )
    return f"a vector of {array.size:,} numbers that is no layer's bias"


def _check_shared(file: str, arrays: Mapping[str, Array], door: Door) -> None:
    """Refuse weights that occur twice: tied ones, whose tangent kernel is no sum over layers."""
    seen: dict[tuple[tuple[int, ...], bytes], str] = {}
    for name, array in arrays.items():
        if array.ndim not in (2, 4) or array.dtype.kind != "f":
            continue
        first = seen.setdefault((array.shape, sha256(array.tobytes()).digest()), name)
        if first == name or len(np.unique(array[:2])) <= 2:
            continue
        one, other = same_numbers_beside(arrays, first, name)
        if one:
            part = _OR_PART[door].format(plain(shlex.quote(one), 80))
            raise UserError(
                f"{file} holds the same numbers twice, under '{plain(one, 60)}' and "
                f"'{plain(other, 60)}': a network and a copy of it, or one that is used twice. "
                f"Save it apart{part}.",
                kind="not-supported",
            )
        raise UserError(
            f"{file}: '{plain(name, 80)}' is equal to '{plain(first, 80)}', as of a layer that "
            "is used twice (tied weights), whose tangent kernel is not the sum over layers. "
            "Give the module to dgn_engine.kernels.empirical_ntk.",
            kind="not-supported",
        )
