"""The layers that a saved `nn.Sequential` states, and the modules inside a saved module.

Kinds and plain numbers, checked, no objects. The attributes are those of `torch/nn/modules` of
torch 0.4 to 2.13; if an old file lacks one, it gets the value that torch used then.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from dgn_engine.storage.checkpoints import limits
from dgn_engine.storage.checkpoints.contents import StatedLayer, Value
from dgn_engine.storage.checkpoints.pickle_file import InertDict, InertObject, key_text, members_of
from dgn_engine.text.printable import plain_text

LAYERS = 1000  # of one file
_DEPTH = 20  # nested sequences
CHILDREN = 5000  # modules of one file
_DEPTH_OF_CHILDREN = 50  # nested modules
_ENTRIES = 5 * limits.NODES  # in dictionaries searched for modules
_LARGEST = 1 << 24  # of a number of features, a kernel, a stride


def _check_integer(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _LARGEST:
        raise ValueError
    return value


def _check_signed(value: Any) -> int:
    if type(value) is not int or abs(value) > limits.DIMENSIONS:
        raise ValueError
    return value


def _check_pair(value: Any) -> tuple[int, int]:
    sides = value if isinstance(value, (tuple, list)) else (value, value)
    high, wide = (_check_integer(side) for side in sides)
    return high, wide


def _check_window(value: Any) -> tuple[int, int]:
    sides = _check_pair(value)
    if 0 in sides:
        raise ValueError
    return sides


def _check_padding(value: Any) -> Value:
    return value if value in ("same", "valid") else _check_pair(value)


def _one_of(allowed: tuple[str | None, ...], value: Any) -> Value:
    if value not in allowed:
        raise ValueError
    return str(value) if value else None


def _check_bool(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError
    return value


def _check_fraction(value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value <= 1:
        raise ValueError
    return float(value)


def _check_float(value: Any) -> float:
    if type(value) not in (int, float) or not abs(value) < _LARGEST:
        raise ValueError
    return float(value)


Check = Callable[[Any], Value]
_NORM: dict[str, Check] = {"num_features": _check_integer, "eps": _check_fraction}
_PLAIN = ("ReLU", "SELU", "SiLU", "Mish", "ReLU6", "Tanh", "Sigmoid", "Softsign", "Hardswish")
_WITHOUT_NUMBERS = (*_PLAIN, "Identity", "Dropout", "Dropout2d", "Softmax", "LogSoftmax")
KINDS: dict[str, dict[str, Check]] = {
    "Linear": {"in_features": _check_integer, "out_features": _check_integer},
    "Conv2d": {
        "in_channels": _check_integer,
        "out_channels": _check_integer,
        "kernel_size": _check_window,
        "stride": _check_window,
        "padding": _check_padding,
        "dilation": _check_window,
        "groups": _check_integer,
        "padding_mode": partial(_one_of, ("zeros", "circular", "reflect", "replicate")),
    },
    "BatchNorm1d": _NORM,
    "BatchNorm2d": _NORM,
    "MaxPool2d": {
        "kernel_size": _check_window,
        "stride": _check_window,
        "padding": _check_pair,
        "dilation": _check_window,
        "ceil_mode": _check_bool,
    },
    "AvgPool2d": {
        "kernel_size": _check_window,
        "stride": _check_window,
        "padding": _check_pair,
        "ceil_mode": _check_bool,
        "count_include_pad": _check_bool,
        "divisor_override": partial(_one_of, (None,)),
    },
    "AdaptiveAvgPool2d": {"output_size": _check_window},
    "AdaptiveMaxPool2d": {"output_size": _check_window},
    "Flatten": {"start_dim": _check_signed, "end_dim": _check_signed},
    "LeakyReLU": {"negative_slope": _check_float},
    "ELU": {"alpha": _check_float},
    "CELU": {"alpha": _check_float},
    "GELU": {"approximate": partial(_one_of, ("none", "tanh"))},
    "Softplus": {"beta": _check_float, "threshold": _check_float},
    "Hardtanh": {"min_val": _check_float, "max_val": _check_float},
    **{kind: {} for kind in _WITHOUT_NUMBERS},
}
ACTIVATION_KINDS = frozenset((*_PLAIN, "LeakyReLU", "ELU", "CELU", "GELU", "Softplus", "Hardtanh"))
_MISSING: dict[str, Value] = {
    "padding_mode": "zeros",
    "divisor_override": None,
    "count_include_pad": True,
    "approximate": "none",
}
_MODULES = {
    "linear": ("Linear", "Identity"),
    "conv": ("Conv2d",),
    "batchnorm": ("BatchNorm1d", "BatchNorm2d"),
    "activation": ("Softmax", "LogSoftmax", *sorted(ACTIVATION_KINDS)),
    "pooling": ("MaxPool2d", "AvgPool2d", "AdaptiveAvgPool2d", "AdaptiveMaxPool2d"),
    "flatten": ("Flatten",),
    "dropout": ("Dropout", "Dropout2d"),
}
_CLASSES = {
    f"torch.nn.modules.{module}.{name}": name
    for module, names in _MODULES.items()
    for name in names
}
_SEQUENTIAL = "torch.nn.modules.container.Sequential"
_WRAPPERS = (
    "torch.nn.parallel.data_parallel.DataParallel",
    "torch.nn.parallel.distributed.DistributedDataParallel",
)
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")


def stated_layers(tree: Any) -> tuple[StatedLayer, ...]:
    """Return the layers of a saved `nn.Sequential` in order, with nested sequences flattened.

    Empty if the tree is not a sequence, or has more than `LAYERS` layers.
    """
    prefix = ""
    for _ in range(3):
        if not isinstance(tree, InertObject) or tree.callee not in _WRAPPERS:
            break
        children = children_of(tree)
        if len(children) != 1:
            return ()
        name, tree = children[0]
        prefix = f"{prefix}{name}."
    if not isinstance(tree, InertObject) or tree.callee != _SEQUENTIAL:
        return ()
    if _has_hooks(tree):
        return (StatedLayer("module", "Sequential with hooks"),)
    layers = tuple(itertools.islice(_iterate_leaves(tree, prefix), LAYERS + 1))
    return layers if len(layers) <= LAYERS else ()


def module_class(tree: Any) -> str:
    """Return the class of a whole saved module, 'nets.Net'; '' if the tree is something else.

    For a DataParallel, the class of the module inside.
    """
    tree = _unwrap_parallel(tree)
    if not isinstance(tree, InertObject) or not isinstance(tree.state, InertDict):
        return ""
    parts = (tree.state.get("_modules"), tree.state.get("_parameters"))
    return tree.callee if all(isinstance(part, InertDict) for part in parts) else ""


def module_at(tree: Any, path: str) -> InertObject | None:
    """Return the module of this dotted name in a saved module or a dictionary of modules."""
    node = tree
    for name in path.split("."):
        node = _unwrap_parallel(node)
        if isinstance(node, InertDict):
            node = node.get(name)
        elif isinstance(node, InertObject):
            node = next((child for key, child in children_of(node) if key == name), None)
    return node if isinstance(node, InertObject) and module_class(node) else None


def _unwrap_parallel(tree: Any) -> Any:
    """Return the module inside a DataParallel."""
    for _ in range(3):
        if not isinstance(tree, InertObject) or tree.callee not in _WRAPPERS:
            break
        # Do not look at the other entries: many wrappers may share one large dictionary.
        children = _child_modules(tree)[:1]
        tree = next((value for _, value in children if isinstance(value, InertObject)), None)
    return tree


def _iterate_leaves(sequence: InertObject, prefix: str) -> Iterator[StatedLayer]:
    """Yield the leaves without recursion; a sequence containing itself ends at maximum depth."""
    open_ones = [iter(children_of(sequence))]
    names = [prefix]
    steps = 0
    while open_ones:
        steps += 1
        name, child = next(open_ones[-1], ("", None))
        if child is None or steps > 4 * LAYERS:
            open_ones.pop()
            names.pop()
            continue
        whole = f"{names[-1]}{name}"[: limits.NAME + 1]
        hooked = isinstance(child, InertObject) and _has_hooks(child)
        if child.callee == _SEQUENTIAL and len(names) < _DEPTH and not hooked:
            open_ones.append(iter(children_of(child)))
            names.append(f"{whole}.")
        else:
            yield StatedLayer(whole, *describe_module(child))


def children_of(module: InertObject) -> list[tuple[str, InertObject]]:
    """Return the modules registered in a module, by name, in order."""
    pairs = _child_modules(module)
    return [(key_text(key), value) for key, value in pairs if isinstance(value, InertObject)]


def _child_modules(module: InertObject) -> list[tuple[Any, Any]]:
    inner = module.state.get("_modules") if isinstance(module.state, InertDict) else None
    return inner.pairs if isinstance(inner, InertDict) else []


def _has_hooks(module: InertObject) -> bool:
    """Return whether hooks, or another `forward`, change what it computes."""
    state = module.state
    if not isinstance(state, InertDict):
        return False
    hooks = (state.get(name) for name in _HOOKS)
    return state.get("forward") is not None or any(
        isinstance(hook_table, InertDict) and hook_table.pairs for hook_table in hooks
    )


def describe_module(module: InertObject) -> tuple[str, dict[str, Value]]:
    """Return the kind and numbers of a module, as in `StatedLayer`."""
    kind = _CLASSES.get(module.callee, "")
    if not kind or not isinstance(module.state, InertDict):
        return module.callee, {}
    if _has_hooks(module) or children_of(module):
        return f"{kind} with hooks", {}
    numbers: dict[str, Value] = {}
    for name, check in KINDS[kind].items():
        value = module.state.get(name)
        if value is None:
            value = _MISSING.get(name)
        if value is None and name == "stride":  # pooling: defaults to the kernel size
            value = module.state.get("kernel_size")
        try:
            numbers[name] = check(value)
        except (ValueError, TypeError):
            return f"{kind} with an unknown {name}", {}
    return kind, numbers


def check_stated_layers(entries: Any, most: int = LAYERS) -> tuple[StatedLayer, ...]:
    """Check the layers of the child's answer again, at most `most` of them.

    Raises:
        ValueError, TypeError: They are not layers.
    """
    if not isinstance(entries, list) or len(entries) > most:
        raise ValueError("the layers are invalid")
    return tuple(_check_layer(entry["name"], entry["kind"], entry["numbers"]) for entry in entries)


def _check_layer(name: Any, kind: Any, numbers: Any) -> StatedLayer:
    if type(name) is not str or type(kind) is not str or type(numbers) is not dict:
        raise ValueError("a layer is invalid")
    checks = KINDS.get(kind, {})
    if set(numbers) != set(checks):
        raise ValueError("the numbers of a layer are invalid")
    checked = {attribute: check(numbers[attribute]) for attribute, check in checks.items()}
    return StatedLayer(plain_text(name), plain_text(kind, 100), checked)


def saved_children(tree: Any) -> tuple[StatedLayer, ...]:
    """Return all modules in a saved module or a dictionary of modules, each followed by its own.

    Modules are named by dotted names. An unknown class has its dotted name as kind, and no numbers.
    A module under several names is listed under each; its contents only under the first. Empty if
    the tree is not a module, or if there are more modules, or deeper ones, than the limits allow:
    never a part of them.

    The order is that of registration, not of computation: a `forward` may call them in any order,
    repeatedly or never, and functions that it calls (`F.relu`) are not modules and not listed. So
    they are evidence of what exists and of nothing else.
    """
    modules: list[StatedLayer] = []
    entered: set[int] = set()
    searched = 0
    open_ones = [iter(_root_modules(tree))]
    names = [""]
    while open_ones:
        name, child = next(open_ones[-1], ("", None))
        if child is None:
            open_ones.pop()
            names.pop()
            continue
        whole = f"{names[-1]}{name}"
        searched += _entries_of(child)
        deep = len(names) > _DEPTH_OF_CHILDREN or len(whole) > limits.NAME
        if deep or len(modules) == CHILDREN or searched > _ENTRIES:
            return ()
        if whole:
            modules.append(StatedLayer(whole, *describe_module(child)))
        if id(child) not in entered:
            entered.add(id(child))
            open_ones.append(iter(children_of(child)))
            names.append(f"{whole}." if whole else "")
    return tuple(modules)


def children_below(children: Iterable[StatedLayer], start: str) -> tuple[StatedLayer, ...]:
    """Return the modules whose names begin with `start`, without it: 'net.' makes 'net.0' '0'."""
    names = {child.name: child for child in children if child.name.startswith(start)}
    return tuple(replace(c, name=name.removeprefix(start)) for name, c in names.items())


def _root_modules(tree: Any) -> list[tuple[str, InertObject]]:
    """Return the module itself, without a name, or the modules in a dictionary by key."""
    if module_class(tree):
        return [("", tree)]
    if not isinstance(tree, InertDict) or len(tree.pairs) > CHILDREN:
        return []
    objects = [(name, value) for name, value in members_of(tree) if isinstance(value, InertObject)]
    if sum(_entries_of(value) for _, value in objects) > _ENTRIES:
        return []
    return [(name, value) for name, value in objects if module_class(value)]


def _entries_of(module: InertObject) -> int:
    """Count the entries that are searched for a module's contents and children."""
    if not isinstance(module.state, InertDict):
        return 1
    count = len(module.state.pairs)
    if count > limits.NODES:
        return _ENTRIES + 1
    return count + len(_child_modules(module))


def in_words(layer: StatedLayer) -> str:
    """Describe a layer: 'Conv2d 3 → 16, 3×3, stride 2, padding 1'."""
    n = layer.numbers
    match layer.kind:
        case "Linear":
            return f"Linear {n['in_features']} → {n['out_features']}"
        case "Conv2d":
            head = (
                f"Conv2d {n['in_channels']} → {n['out_channels']}, {_sides_text(n['kernel_size'])}"
            )
            more = f", {n['groups']} groups" if n["groups"] != 1 else ""
            return (
                f"{head}, stride {_side_text(n['stride'])}, padding "
                f"{_side_text(n['padding'])}{more}"
            )
        case "MaxPool2d" | "AvgPool2d":
            return f"{layer.kind} {_sides_text(n['kernel_size'])}, stride {_side_text(n['stride'])}"
        case "AdaptiveAvgPool2d" | "AdaptiveMaxPool2d":
            return f"{layer.kind} to {_sides_text(n['output_size'])}"
        case "BatchNorm1d" | "BatchNorm2d":
            return f"{layer.kind} {n['num_features']}, ε {n['eps']:g}"
    return layer.kind


def _sides_text(value: Value) -> str:
    return "×".join(str(side) for side in value) if isinstance(value, tuple) else str(value)


def _side_text(value: Value) -> str:
    return (
        str(value[0]) if isinstance(value, tuple) and len(set(value)) == 1 else _sides_text(value)
    )
