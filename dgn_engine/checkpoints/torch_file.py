"""Reading what torch saved, zipped or in the format before that: tensors only, no code."""

from __future__ import annotations

import io
import re
import warnings
import zipfile
from collections.abc import Iterator
from typing import Any

from dgn_engine.checkpoints import limits
from dgn_engine.checkpoints.contents import Array, Contents, Unreadable, plain
from dgn_engine.checkpoints.zips import require_stored

PICKLE = b"\x80"
_WRAPPINGS = ("state_dict", "model_state_dict", "model", "net", "network", "weights", "module")
_WIDENED = ("torch.bfloat16", "torch.float16")
_NUMBERS = tuple(f"torch.{n}" for n in ("float32", "float64", "int8", "int16", "int32", "int64"))
_KNOWN = (*_NUMBERS, *_WIDENED, "torch.uint8", "torch.bool")


def check_torch_zip(archive: zipfile.ZipFile) -> None:
    """One bounded pickle, nothing compressed, no program; raises `Unreadable`."""
    names = [member.filename for member in archive.infolist()]
    if any(name.endswith("constants.pkl") or "/code/" in name for name in names):
        raise Unreadable("is a TorchScript program, not weights; ask for its state_dict")
    if any(".data/extern_modules" in name or name.endswith("/extern_modules") for name in names):
        raise Unreadable("is a torch.package with code, not weights; ask for its state_dict")
    require_stored(archive)
    pickles = [m for m in archive.infolist() if m.filename.endswith(".pkl")]
    if len(pickles) != 1 or pickles[0].file_size > limits.HEADER:
        raise Unreadable("does not hold one small list of tensors, as torch writes it")
    try:
        broken = archive.testzip()
    except Exception as error:  # a broken archive fails in many types of exception
        raise Unreadable(f"is a damaged zip archive ({plain(str(error))})") from None
    if broken:
        raise Unreadable(f"is damaged: the checksum of {plain(broken)} is wrong")


def read_torch(content: bytes) -> Contents:
    """Tensors of a state dict, however it is wrapped; the rest is named in `ignored`."""
    import torch  # seconds and much memory: only for files of torch

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except MemoryError:
        raise
    except Exception as error:  # a malicious pickle fails in every type of exception
        raise Unreadable(_reason(error)) from None
    return _contents(tree, limits.expanded(len(content)))


def _reason(error: Exception) -> str:
    text = str(error)
    if found := re.search(r"GLOBAL (\S+)", text):
        what = plain(found[1], 100)
        return f"holds code ({what}) besides tensors and was refused; ask for its state_dict alone"
    if "DefaultCPUAllocator" in text or "not enough memory" in text:
        raise MemoryError
    lines = [line for line in text.splitlines() if line.strip()] or [type(error).__name__]
    if "Weights only load failed" in text:
        told = re.search(r"WeightsUnpickler error: (.*)", text)
        lines = [told[1] if told else "its pickle holds more than tensors"]
    return f"cannot be read as torch weights ({plain(lines[0], 160)})"


def _contents(tree: Any, most: int) -> Contents:
    arrays: dict[str, Array] = {}
    dtypes: dict[str, str] = {}
    ignored: list[str] = []
    total = 0
    tree, beside = _unwrapped(tree)
    ignored.extend(beside)
    for name, leaf in _leaves(tree):
        trouble = _trouble(leaf)
        if trouble:
            ignored.append(f"{name} ({trouble})")
            continue
        total += leaf.numel() * (4 if str(leaf.dtype) in _WIDENED else leaf.element_size())
        if total > most or len(arrays) >= limits.MEMBERS:
            raise Unreadable("holds more numbers than its size allows, and was refused")
        tensor = leaf.detach()
        arrays[name] = (tensor.float() if str(tensor.dtype) in _WIDENED else tensor).numpy()
        dtypes[name] = str(leaf.dtype).removeprefix("torch.")
    return Contents(arrays, dtypes, tuple(ignored))


def _unwrapped(tree: Any) -> tuple[Any, list[str]]:
    """The state dict inside a training loop's dictionary, and what lies beside it."""
    beside: list[str] = []
    for _ in range(4):
        if not isinstance(tree, dict):
            break
        inner = next((w for w in _WRAPPINGS if isinstance(tree.get(w), dict)), None)
        if inner is None:
            break
        beside.extend(f"{k} ({_kind(v)})" for k, v in tree.items() if k != inner)
        tree = tree[inner]
    return tree, beside


def _leaves(tree: Any) -> Iterator[tuple[str, Any]]:
    """Everything that is not a container, by its dotted path, in order, without recursion."""
    stack: list[tuple[str, Any]] = [("", tree)]
    met = 0
    while stack:
        met += 1
        if met > limits.NODES:
            raise Unreadable("nests too many things in each other, and was refused")
        path, node = stack.pop()
        inner: list[tuple[str, Any]]
        if isinstance(node, dict):
            inner = [(str(k), v) for k, v in node.items()]
        elif isinstance(node, (list, tuple)):
            inner = [(str(i), v) for i, v in enumerate(node)]
        else:
            yield path or "tensor", node
            continue
        if len(inner) + len(stack) > limits.NODES or len(path) > 4 * limits.NAME:
            raise Unreadable("nests too many things in each other, and was refused")
        stack.extend((f"{path}.{k}" if path else k, v) for k, v in reversed(inner))


def _trouble(leaf: Any) -> str:
    """Why a leaf is not taken; empty for a dense tensor of numbers that are really there."""
    import torch

    if not isinstance(leaf, torch.Tensor):
        return _kind(leaf)
    if leaf.layout != torch.strided or leaf.is_quantized or leaf.is_nested:
        return "not a dense tensor"
    if leaf.device.type != "cpu":
        return "a tensor without numbers"
    if str(leaf.dtype) not in _KNOWN:
        return str(leaf.dtype).removeprefix("torch.")
    if leaf.dim() > limits.DIMENSIONS:
        return f"{leaf.dim()} dimensions"
    # Stride 0 makes a giant of one number: every number must have its own bytes.
    if leaf.numel() * leaf.element_size() > leaf.untyped_storage().nbytes():
        return "declares more numbers than it holds"
    return ""


def _kind(thing: Any) -> str:
    return plain(type(thing).__name__, 60)
