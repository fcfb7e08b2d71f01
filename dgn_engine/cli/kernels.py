"""`dgn kernels`: every kernel of a network in a file, on inputs in a file."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgn_engine.cli._command import Command
from dgn_engine.cli._options import numbers, value_of
from dgn_engine.refusal import Refusal

if TYPE_CHECKING:
    import torch

    from dgn_engine.network import GatedNetwork
    from dgn_engine.protocol.frames import Array


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Network, inputs, gates and how to count."""
    parser.add_argument("network", type=Path, help=".pt, .pth, .safetensors or .npz")
    parser.add_argument("--inputs", type=Path, required=True, metavar="X", help=".npy or .npz")
    parser.add_argument("--labels", type=Path, metavar="Y", help=".npy of class numbers")
    parser.add_argument(
        "--gates", type=Path, metavar="OTHER", help="a network that makes the gates"
    )
    parser.add_argument("--beta", type=float, help="soft gates of this steepness")
    parser.add_argument("--eps", type=float, default=0.0, help="ε of the soft gate")
    parser.add_argument("--value-input", choices=("image", "ones"), default="image")
    parser.add_argument("--permute", type=numbers, metavar="2,0,1", help="0-based, with --gates")
    parser.add_argument("--feature-activation", choices=("relu", "linear"), default="relu")
    parser.add_argument("--net", help="fc, cnn4, gconv, vconv (dense layers need no name)")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float64")
    parser.add_argument(
        "--logits", choices=("mean", "full", "perclass", "sumlogit"), default="mean"
    )
    parser.add_argument(
        "--normalise",
        choices=("none", "trace", "width", "cosine"),
        default="none",
        help="of overlap, sensitive overlap and NPK",
    )
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="cpu")
    parser.add_argument("--memory", type=float, default=4.0, metavar="GiB")
    parser.add_argument("--out", type=Path, metavar="K.npz")
    parser.add_argument("--json", action="store_true", help="figures as JSON on stdout")


def run(arguments: argparse.Namespace) -> int:
    """Compute, write, print; nothing is written unless everything worked."""
    from dgn_engine.kernel_report import KernelSettings, kernel_arrays

    x, labels = _inputs(arguments.inputs, arguments.labels)
    network = _network(arguments, x.shape)
    device, dtype = _where(arguments)
    settings = KernelSettings(arguments.logits, arguments.normalise, int(arguments.memory * 2**30))
    import torch

    images = (
        torch.from_numpy(x).to(device, dtype).reshape(len(x), *network.architecture.input_shape)
    )
    classes = None if labels is None else torch.from_numpy(labels).to(device)
    _check_labels(labels, network.architecture.classes)
    arrays = kernel_arrays(network.to(device, dtype), images, classes, settings)
    if arguments.out:
        _write(arguments.out, arrays, _said(arguments))
    _report(arrays, arguments)
    return 0


def _network(arguments: argparse.Namespace, shape: tuple[int, ...]) -> GatedNetwork:
    import torch

    from dgn_engine.checkpoints.reading import read_tensors
    from dgn_engine.config import NetConfig
    from dgn_engine.gating import Gate
    from dgn_engine.imported import (
        dense_architecture,
        imported_gates,
        imported_stack,
        is_ours,
        named_architecture,
        our_network,
    )
    from dgn_engine.network import GatedNetwork
    from dgn_engine.trainer import check_wiring

    listing = read_tensors(arguments.network)
    dtype = getattr(torch, arguments.dtype)
    if is_ours(listing):
        _only_with_plain_weights(arguments)
        network = our_network(listing, shape[1:], dtype)
        _check_inputs(shape, network.architecture.input_shape, arguments)
        return network
    if arguments.net:
        options = tuple(value_of(text) for text in arguments.option)
        net = NetConfig(name=arguments.net, options=options)
        architecture = named_architecture(listing, net, shape[1:])
    else:
        architecture = dense_architecture(listing)
    _check_inputs(shape, architecture.input_shape, arguments)
    network = GatedNetwork(architecture).to(dtype)
    network.value = imported_stack(listing, architecture, dtype)
    if arguments.gates is None:
        _only_with_gates(arguments)
    else:
        network.feature = imported_gates(read_tensors(arguments.gates), architecture, dtype)
    network.own_gates = arguments.gates is None
    if arguments.beta is not None and not arguments.beta > 0:
        raise Refusal(f"--beta is {arguments.beta:g}; it must be greater than 0.")
    soft = arguments.beta is not None
    network.gate = Gate(soft, arguments.beta if soft else 1.0, arguments.eps if soft else 0.0)
    network.value_input = arguments.value_input
    network.feature_activation = arguments.feature_activation
    if arguments.permute is not None:
        check_wiring(architecture, arguments.permute)
        network.wiring = arguments.permute
    return network


def _only_with_plain_weights(arguments: argparse.Namespace) -> None:
    """A file of ours says itself how its network is gated."""
    for option in ("gates", "beta", "permute", "net"):
        if getattr(arguments, option) is not None:
            raise Refusal(
                f"{arguments.network.name} holds a network of ours with its gates in it; "
                f"leave out --{option}."
            )


def _only_with_gates(arguments: argparse.Namespace) -> None:
    """Without --gates the network gates itself: these options would have no effect."""
    for option, said in (
        ("--permute", arguments.permute is not None),
        ("--value-input ones", arguments.value_input == "ones"),
        ("--feature-activation linear", arguments.feature_activation == "linear"),
    ):
        if said:
            raise Refusal(f"{option} needs --gates: without it the network makes its own gates.")


def _where(arguments: argparse.Namespace) -> tuple[torch.device, torch.dtype]:
    import torch

    from dgn_engine.devices import choose_device

    dtype = {"float32": torch.float32, "float64": torch.float64}[arguments.dtype]
    return choose_device(arguments.device), dtype


def _inputs(path: Path, labels: Path | None) -> tuple[Array, Array | None]:
    """X (n, ...) as floats and Y (n,) as whole numbers, or a refusal."""
    import numpy as np

    x = _array(path, "x", "X", "inputs")
    if x.ndim < 2 or x.shape[0] < 1 or x.dtype.kind not in "fiu":
        raise Refusal(f"{path.name} has shape {x.shape}; inputs must be numbers of shape (n, …).")
    x = x.astype(np.float64) if x.dtype.kind != "f" else x
    if not np.isfinite(x).all():
        raise Refusal(f"{path.name} holds values that are not finite.")
    if labels is None:
        return x, None
    y = _array(labels, "y", "Y", "labels")
    if y.shape != (len(x),) or y.dtype.kind not in "fiu" or (y != np.round(y)).any():
        raise Refusal(f"{labels.name} has shape {y.shape}; labels must be {len(x)} whole numbers.")
    return x, y.astype(np.int64)


def _array(path: Path, *names: str) -> Array:
    """The only array of a file, or the one with one of these names."""
    from dgn_engine.checkpoints.reading import read_tensors

    arrays = read_tensors(path).arrays
    if len(arrays) == 1:
        return next(iter(arrays.values()))
    for name in names:
        if name in arrays:
            return arrays[name]
    raise Refusal(
        f"{path.name} holds {len(arrays)} arrays; it must hold one, or one named {names[0]}."
    )


def _check_inputs(
    shape: tuple[int, ...], wanted: tuple[int, ...], arguments: argparse.Namespace
) -> None:
    from math import prod

    if prod(shape[1:]) != prod(wanted):
        raise Refusal(
            f"{arguments.inputs.name} has inputs of shape {shape[1:]}; "
            f"{arguments.network.name} takes {wanted}."
        )


def _check_labels(labels: Array | None, classes: int) -> None:
    if labels is None:
        return
    most = max(classes, 2)
    if int(labels.min()) < 0 or int(labels.max()) >= most:
        raise Refusal(
            f"The labels go from {labels.min()} to {labels.max()}; "
            f"the network has {classes} logits, so they must lie in 0…{most - 1}."
        )


def _said(arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings as the file keeps them."""
    return {
        name: str(value) if isinstance(value, Path) else value
        for name, value in vars(arguments).items()
        if name not in ("command", "json", "out")
    }


def _write(path: Path, arrays: dict[str, Array], settings: dict[str, Any]) -> None:
    import io

    import numpy as np

    from dgn_engine.checkpoints.saving import write_atomically

    content = io.BytesIO()
    text = np.array(json.dumps(settings, ensure_ascii=False))
    np.savez(content, allow_pickle=False, settings=text, **arrays)
    write_atomically(path, content.getvalue())


def _report(arrays: dict[str, Array], arguments: argparse.Namespace) -> None:
    import numpy as np

    figures: dict[str, dict[str, float]] = {}
    for name, array in arrays.items():
        if array.ndim == 2:
            figures[name] = {
                "trace": float(np.trace(array)),
                "norm": float(np.linalg.norm(array)),
                "min": float(array.min()),
                "max": float(array.max()),
            }
    tree: dict[str, Any] = {"settings": _said(arguments), "kernels": figures}
    if "nu" in arrays:
        tree["nu"] = float(arrays["nu"])
    tree["eigenvalues"] = [float(v) for v in arrays.get("eigenvalues", ())]
    if arguments.json:
        print(json.dumps(tree, ensure_ascii=False))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("kernel", "trace", "Frobenius norm", "smallest", "largest")
    for name, row in figures.items():
        table.add_row(name, *(f"{row[key]:.6g}" for key in ("trace", "norm", "min", "max")))
    console = Console(file=sys.stdout, highlight=False)
    console.print(table)
    if "nu" in arrays:
        rank, cutoff = int(arrays["nu_rank"]), float(arrays["nu_cutoff"])
        console.print(f"ν = {tree['nu']:.6g} (NPK at trace 1; rank {rank}, cut-off {cutoff:.3g})")


COMMAND = Command("Compute every kernel of a network on given inputs.", add_arguments, run)
