"""What the names in a file say that its tensors are, where they are no chain of layers.

Open it to have another kind of file named and refused, or another way out offered.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from dgn_engine.errors import UserError
from dgn_engine.storage.checkpoints.contents import plain

Door = Literal["command", "window"]
"""Who asked for a network: a command, whose options a sentence may name, or the window."""

WAYS_OUT: dict[Door, str] = {
    "command": "Name the network with --net, or save the whole nn.Sequential (torch.save(module)): "
    "it states its layers; for a module of your own code there is dgn kernels --model.",
    "window": "Open it beside a run of the network that it is of, or save the whole nn.Sequential "
    "(torch.save(module)): it states its layers.",
}


class UnnamedNetwork(UserError):  # noqa: N818 - a verdict about a file, as `UnreadableFile` is
    """The file does not say what network it is, and it cannot be told from its tensors.

    The text is one sentence without a way out; whoever made the request adds it (`WAYS_OUT`).
    """


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
        r"weight_[gv]|parametrizations\.\w+\.original[01]",
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
        r"lora_\w+|lora\w*\.(down|up)|adapter_\w+|hada_w\d_[ab]",
        "a LoRA adapter, a change of another network's weights",
        "Merge it into that network (merge_and_unload) and save it again.",
    ),
    (
        r"in_proj(_weight|_bias|\.\w+)?|[qkvo]_proj|qkv|c_attn|to_[qkv]|to_qkv|Wqkv|query_key_value"
        r"|self_attn|self_attention|attn|attention|multihead_attn",
        "attention",
        _NO_GATES,
    ),
    (r"(gate|up|down)_proj|experts", "a gated or expert block of a transformer", _UNSUPPORTED),
    (r"weight_[ih]h_l\d+\w*|bias_[ih]h_l\d+\w*", "a recurrent network", _NO_GATES),
    (
        r"embeddings?|embed_tokens|word_embeddings|tok_embeddings|wte|wpe|pos_embed(ding)?"
        r"|cls_token|class_token|relative_position\w*",
        "an embedding",
        _NO_GATES,
    ),
    (r"_packed_params\w*|zero_point|qweight|qzeros", "quantised weights", _UNSUPPORTED),
)
_OF_KEY = [(re.compile(rf"(^|\.)({mark})(\.|$)"), what, do) for mark, what, do in _MARKS]
_TRIPLES = (("q", "k", "v"), ("query", "key", "value"), ("wq", "wk", "wv"), ("Wq", "Wk", "Wv"))
_SHORTCUT = re.compile(r"(^|\.)(skip|shortcut|residual|bypass)\w*(\.|$)")


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
    parts = {name.removesuffix(".weight"): name for name in names if name.endswith("weight")}
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


def check_keys(file: str, arrays: Mapping[str, object]) -> None:
    """Refuse a file whose names say that it is something else than plain layers."""
    found = foreign_keys(arrays)
    if found is not None:
        raise UserError(
            f"{file} holds '{plain(found.name, 80)}', which is of {found.what}: its matrices are "
            f"no chain of layers. {found.remedy}".rstrip()
        )
