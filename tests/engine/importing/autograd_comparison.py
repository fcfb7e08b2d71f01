"""Files read here against the modules that were saved: logits, and K by plain autograd."""

from __future__ import annotations

import copy
import io
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from dgn_engine.errors import UserError
from dgn_engine.importing.from_file import module_in, network_of
from dgn_engine.importing.open_questions import OpenQuestions
from dgn_engine.kernels import empirical_ntk, tangent_kernels
from dgn_engine.storage.checkpoints import reader_child
from dgn_engine.storage.checkpoints.array_layout import normalise_layout
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from dgn_engine.storage.checkpoints.contents import CheckpointContents
from tests.engine.importing.random_sequences import NORMS, WEIGHTED, flat
from tests.engine.kernels.module_grammar import tangent_kernel

EXAMPLES = 3
IDLE = (nn.Dropout, nn.Dropout2d, nn.Identity)


def list_file(saved: object, folder: Path | None = None) -> CheckpointContents:
    """What the reader of files says: of a file in a folder in its own process, else here."""
    if folder is not None:
        torch.save(saved, folder / "net.pt")
        return read_tensors(folder / "net.pt")
    content = io.BytesIO()
    torch.save(saved, content)
    return list_content(content.getvalue(), "net.pt")


def list_content(content: bytes, name: str) -> CheckpointContents:
    """What the reader of files says of one, in this process."""
    found = reader_child.tidy_names(reader_child.read_contents(content))
    told = {each.name: getattr(found, each.name) for each in fields(found)}
    return normalise_layout(CheckpointContents(**told | {"file_name": name}))


class Scale(nn.Module):
    """A BatchNorm in evaluation as a layer of scales and shifts."""

    def __init__(self, scale: Tensor, shift: Tensor) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(scale), nn.Parameter(shift)

    def forward(self, x: Tensor) -> Tensor:
        sides = (1, -1, *[1] * (x.ndim - 2))
        return x * self.scale.reshape(sides) + self.shift.reshape(sides)


def of_norm(norm: Any) -> tuple[Tensor, Tensor]:
    scale = torch.rsqrt(norm.running_var + norm.eps)
    scale = scale if norm.weight is None else scale * norm.weight.detach()
    shift = -norm.running_mean * scale
    return scale, shift if norm.bias is None else shift + norm.bias.detach()


def folded(layers: Sequence[nn.Module]) -> nn.Sequential:
    """As networks of files are taken: each BatchNorm folded into the layer with weights right
    before it, else into the next one, else as scales and shifts."""
    made = [copy.deepcopy(layer) for layer in layers if not isinstance(layer, IDLE)]
    kept = list(made)
    for place, layer in enumerate(made):
        if not isinstance(layer, NORMS):
            continue
        scale, shift = of_norm(layer)
        rest = made[place + 1 :]
        after = next((each for each in rest if not _commutes_with_a_scale(each)), None)
        before = next(
            (each for each in reversed(made[:place]) if not isinstance(each, NORMS)), None
        )
        own = nn.Linear if isinstance(layer, nn.BatchNorm1d) else nn.Conv2d
        flat = any(isinstance(each, nn.Flatten) for each in rest[: _place(rest, after)])
        along_rows = own is nn.Conv2d and isinstance(after, nn.Linear) and not flat
        if isinstance(before, WEIGHTED) and isinstance(before, own):
            bias = 0.0 if before.bias is None else before.bias.detach()
            sides = (-1, *[1] * (before.weight.ndim - 1))
            _fill(before, before.weight.detach() * scale.reshape(sides), bias * scale + shift)
            kept.remove(layer)
        elif isinstance(after, WEIGHTED) and _sees_no_border(after) and not along_rows:
            width = after.weight.shape[1]
            if isinstance(after, nn.Linear):
                scale, shift = (
                    each.repeat_interleave(width // len(each)) for each in (scale, shift)
                )
            weight = after.weight.detach().clone()
            bias = torch.zeros(len(weight)) if after.bias is None else after.bias.detach().clone()
            bias = bias.to(weight)
            for row, filters in enumerate(weight):
                first = row // (len(weight) // getattr(after, "groups", 1)) * width
                sides = (-1, *[1] * (filters.ndim - 1))
                bias[row] += (filters * shift[first : first + width].reshape(sides)).sum()
                weight[row] *= scale[first : first + width].reshape(sides)
            _fill(after, weight, bias)
            kept.remove(layer)
        else:
            kept[kept.index(layer)] = Scale(scale, shift)
    return nn.Sequential(*kept).eval()


def _fill(layer: nn.Module, weight: Tensor, bias: Tensor) -> None:
    layer.weight, layer.bias = nn.Parameter(weight), nn.Parameter(bias)


def _commutes_with_a_scale(layer: nn.Module) -> bool:
    if isinstance(layer, nn.AvgPool2d):
        return layer.padding in (0, (0, 0)) and not layer.ceil_mode
    return isinstance(layer, (nn.Flatten, nn.AdaptiveAvgPool2d))


def _place(layers: Sequence[nn.Module], layer: nn.Module | None) -> int:
    return next((n for n, each in enumerate(layers) if each is layer), 0)


def _sees_no_border(layer: nn.Module) -> bool:
    if isinstance(layer, nn.Linear):
        return True
    return layer.padding in ("valid", (0, 0)) or layer.padding_mode != "zeros"


def folded_blocks(network: nn.Module) -> nn.Module:
    """With each BatchNorm folded into the convolution registered right before it."""
    network = copy.deepcopy(network)
    for module in network.modules():
        before: tuple[str, Any] = ("", None)
        for name, child in list(module.named_children()):
            if isinstance(child, nn.BatchNorm2d) and isinstance(before[1], nn.Conv2d):
                setattr(module, before[0], fuse_conv_bn_eval(before[1], child))
                setattr(module, name, nn.Identity())
            before = (name, child)
    return network.requires_grad_()


class Truth:
    """A network, of a sequence without its softmax; inputs, logits and kernels of it."""

    def __init__(self, network: nn.Module, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.x = torch.randn(EXAMPLES, *shape, dtype=torch.float64)
        self.network = network
        if isinstance(network, nn.Sequential):
            layers = flat(network)
            ends = bool(layers) and isinstance(layers[-1], (nn.Softmax, nn.LogSoftmax))
            self.network = nn.Sequential(*layers[: len(layers) - ends])
        with torch.no_grad():
            self.logits = self.network(self.x)
        self._kernel: Tensor | None = None

    @property
    def kernel(self) -> Tensor:
        """K of the network as it is taken: BatchNorm is folded."""
        if self._kernel is None:
            sequence = isinstance(self.network, nn.Sequential)
            network = folded(list(self.network)) if sequence else folded_blocks(self.network)  # type: ignore[arg-type]
            self._kernel = tangent_kernel(network, self.x)
        return self._kernel

    def of(self, listing: CheckpointContents) -> str:
        """'equal', 'asked', 'refused' or 'wrong': what the reader makes of a file of it."""
        verdicts = {self._of_module(listing), self._of_network(listing)}
        for verdict in ("wrong", "equal", "asked"):
            if verdict in verdicts:
                return verdict
        return "refused"

    def _of_module(self, listing: CheckpointContents) -> str:
        try:
            made = module_in(listing, self.shape)
        except UserError as refusal:
            return "asked" if isinstance(refusal, OpenQuestions) else "refused"
        x = self.x.reshape(len(self.x), *made.input_shape)
        with torch.no_grad():
            logits = made.module(x)
        if logits.ndim != 2:  # maps, of which there is no K
            return "refused"
        if not is_close(logits, self.logits):
            return "wrong"
        return self._verdict(empirical_ntk(made.module, x))

    def _of_network(self, listing: CheckpointContents) -> str:
        try:
            network = network_of(listing, self.shape, torch.float64).network
        except UserError as refusal:
            return "asked" if isinstance(refusal, OpenQuestions) else "refused"
        x = self.x.reshape(len(self.x), *network.architecture.input_shape)
        with torch.no_grad():
            if not is_close(network(x), self.logits):
                return "wrong"
        return self._verdict(tangent_kernels(network, x).value)

    def _verdict(self, found: Tensor | None) -> str:
        return "equal" if is_close(found, self.kernel) else "wrong"


def is_close(found: Tensor | None, wanted: Tensor) -> bool:
    if found is None or found.shape != wanted.shape:
        return False
    if bool(wanted.isnan().any()):  # a maximum over padding alone
        return bool(found.isnan().any())
    size = float(wanted.norm())
    return float((found - wanted).norm()) <= 1e-9 * max(size, 1e-12)
