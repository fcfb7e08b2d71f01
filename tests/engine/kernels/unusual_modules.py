"""Modules with complex weights, recurrent layers, objects as outputs, a softmax at their end and
weights that hooks compute; and their kernel by plain autograd."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, prune

C = 3  # logits of every module


class ComplexSpectrum(nn.Module):
    """A complex and a real parameter, as of a Fourier neural operator."""

    def __init__(self) -> None:
        super().__init__()
        self.spectral = nn.Parameter(torch.randn(6, C, dtype=torch.complex64))
        self.register_buffer("phase", torch.exp(1j * torch.arange(6)).to(torch.complex64))
        self.bias = nn.Parameter(torch.randn(C))

    def forward(self, x: Tensor) -> Tensor:
        z = torch.fft.fft(x) * self.get_buffer("phase")
        return (z @ self.spectral).abs() ** 2 + self.bias


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase], **options: Any) -> None:
        super().__init__()
        self.body = kind(2, 4, batch_first=True, **options)  # type: ignore[call-arg]
        width = 8 if options.get("bidirectional") else 4
        self.head = nn.Linear(width, C)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.body(x.reshape(len(x), 3, 2))[0][:, -1])
        return logits


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(9, 4), nn.Linear(4, C)

    def forward(self, words: Tensor) -> Tensor:
        logits: Tensor = self.head(self.table(words).mean(1))
        return logits


class ModelOutput:
    """What a model of Hugging Face returns."""

    def __init__(self, logits: Tensor) -> None:
        self.logits, self.loss = logits, None


@dataclass
class Answer:
    hidden: Tensor
    logits: Tensor


class Named(NamedTuple):
    logits: Tensor
    auxiliary: Tensor


OBJECTS: dict[str, Callable[[Tensor], object]] = {
    "an object": ModelOutput,
    "a dataclass": lambda y: Answer(y, y),
    "a named tuple": lambda y: Named(y, 2 * y),
    "a dict": lambda y: {"loss": None, "logits": y},
    "a tuple of one": lambda y: (y,),
}
ENDS: dict[str, Callable[[Tensor], Tensor]] = {
    "LogSoftmax": nn.LogSoftmax(1),
    "Softmax": nn.Softmax(dim=-1),
    "F.log_softmax": lambda z: F.log_softmax(z, dim=1),
    "F.softmax": lambda z: F.softmax(z, -1),
    "torch.log_softmax": lambda z: torch.log_softmax(z, 1),
    "a method": lambda z: z.log_softmax(dim=-1),
}


class Ended(nn.Module):
    """A body and what a function makes of its logits."""

    def __init__(self, body: nn.Module, end: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.body, self.end = body, end

    def forward(self, x: Tensor) -> Any:
        return self.end(self.body(x))


class Membrane(nn.Module):
    """A spiking neuron whose buffer takes the shape of what it is given."""

    def __init__(self, empty: Tensor | None) -> None:
        super().__init__()
        self.register_buffer("mem", empty, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        self.mem = 0.9 * torch.zeros_like(x) + x
        return torch.sigmoid(self.mem)


def spiking(empty: Tensor | None) -> nn.Module:
    return nn.Sequential(nn.Linear(6, 5), Membrane(empty), nn.Linear(5, C))


def dense(act: type[nn.Module] = nn.GELU) -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 5), act(), nn.Linear(5, C))


def pruned(act: type[nn.Module] = nn.GELU) -> nn.Module:
    """The first layer twice, the last in whole rows."""
    module = dense(act)
    prune.l1_unstructured(module[0], "weight", 0.4)  # type: ignore[no-untyped-call]
    prune.random_unstructured(module[0], "weight", 0.3)  # type: ignore[no-untyped-call]
    prune.ln_structured(module[2], "weight", 0.3, 2, 1)  # type: ignore[no-untyped-call]
    return module


def parametrised() -> nn.Module:
    module = dense()
    parametrizations.weight_norm(module[0])
    parametrizations.spectral_norm(module[2])
    return module


def normed_by_hooks() -> nn.Module:
    module = dense()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are deprecated
        nn.utils.weight_norm(module[0])
        nn.utils.spectral_norm(module[2])
    return module


UNUSUAL: dict[str, Callable[[], nn.Module]] = {
    "complex": ComplexSpectrum,
    "LSTM": lambda: Recurrent(nn.LSTM),
    "LSTM both ways": lambda: Recurrent(nn.LSTM, bidirectional=True, num_layers=2),
    "GRU": lambda: Recurrent(nn.GRU),
    "RNN": lambda: Recurrent(nn.RNN),
    "words in an object": lambda: Ended(Words(), ModelOutput),
    "pruned": pruned,
    "pruned ReLU": lambda: pruned(nn.ReLU),
    "parametrised": parametrised,
    "normed by hooks": normed_by_hooks,
    **{
        name: lambda hold=hold: Ended(dense(), hold)  # type: ignore[misc]
        for name, hold in OBJECTS.items()
    },
}


def make_unusual(name: str) -> nn.Module:
    torch.manual_seed(0)
    return UNUSUAL[name]()


def in_double(module: nn.Module) -> nn.Module:
    """In float64, complex parameters in complex128, for evaluation."""

    def converted(tensor: Tensor) -> Tensor:
        return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)

    return module._apply(
        lambda t: converted(t) if t.is_complex() or t.is_floating_point() else t
    ).eval()


def unusual_examples(name: str, n: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    if name.startswith("words"):
        return torch.randint(0, 9, (n, 5), generator=generator)
    return torch.randn((n, 6), generator=generator, dtype=torch.float64)


def real_jacobian(
    module: nn.Module, x: Tensor, logits: Callable[[Any], Tensor] | None = None
) -> Tensor:
    """(n, C, P) over what trains, real and imaginary parts apart: a backward pass for each row.
    `logits`: of an example, where they are not what the module returns or holds as 'logits'."""
    parameters = [p for p in module.parameters() if p.requires_grad]
    rows = []
    for example in x:
        one = example[None].clone()  # a module may change its input
        output = module(one) if logits is None else logits(one)
        if isinstance(output, dict):
            output = output["logits"]
        elif isinstance(output, tuple) and len(output) == 1:
            output = output[0]
        output = getattr(output, "logits", output)
        for logit in output.reshape(-1):
            found = torch.autograd.grad(logit, parameters, retain_graph=True, allow_unused=True)
            pairs = zip(found, parameters, strict=True)
            rows.append(
                torch.cat([_real(torch.zeros_like(p) if g is None else g) for g, p in pairs])
            )
    return torch.stack(rows).reshape(len(x), -1, rows[0].numel()).detach()


def _real(gradient: Tensor) -> Tensor:
    parts = (gradient.real, gradient.imag) if gradient.is_complex() else (gradient,)
    return torch.cat([part.reshape(-1) for part in parts])
