"""What is read of a module that somebody else trains: a copy of it, brought up to date."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy

import numpy as np
import torch
from torch import Tensor, nn

from dgn_engine.errors import UserError
from dgn_engine.model.importing.from_module import adapt
from dgn_engine.model.network import GatedNetwork
from dgn_engine.regimes import find_regime
from dgn_engine.training.probes import ProbeContext

REGIME = "ReLU"  # a network that makes its own gates
_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
)
_OWNERS = ("_trainer", "_fabric")  # attributes of modules of Lightning
_HALF = (torch.float16, torch.bfloat16)


class WatchedModule:
    """A copy of `module` in evaluation mode, without hooks; the module itself is never run.

    `x` (n, ...) and `labels` (n,): the probe set. `network` is what `adapt` made of the copy, or
    None where it refused it, with the reason in `refusal`: then only K can be computed.
    Raises `UserError` where the module cannot be copied, or does not take the probe examples.
    """

    def __init__(self, module: nn.Module, x: Tensor, labels: Tensor) -> None:
        self._theirs = unwrapped(module)
        self._inner = self.copy = _copied(self._theirs)
        self._check_matched()
        first = next((p for p in self.copy.parameters() if p.is_floating_point()), None)
        if first is None:
            raise UserError("The module has no parameters: there is nothing to watch.")
        self.x = x.to(first.device, first.dtype if x.is_floating_point() else x.dtype)
        self.labels = labels.to(first.device)
        self.classes = self._outputs()
        self.network: GatedNetwork | None = None
        self.refusal = ""
        try:
            if not x.is_floating_point():
                raise UserError("Its inputs are whole numbers (tokens, say), where no path begins.")
            network = adapt(self.copy, tuple(self.x.shape[1:]))
            if not network.architecture.gated:
                raise UserError("It has no layer behind which there could be gates.")
            self.network = network
        except UserError as refusal:
            self.refusal = str(refusal)

    @property
    def title(self) -> str:
        """What its class is called: 'ResNet', say."""
        return type(self._theirs).__name__

    @property
    def parameters(self) -> int:
        """How many numbers its parameters are."""
        return sum(p.numel() for p in self.copy.parameters())

    def renew(self) -> None:
        """Copy the weights, and what BatchNorms have gathered, as they are now."""
        if self._names(self._theirs) != self._names(self._inner):
            raise UserError(
                "The module has other parameters or buffers than when it was first watched."
            )
        with torch.no_grad():
            pairs = zip(self._tensors(self._inner), self._tensors(self._theirs), strict=True)
            for ours, theirs in pairs:
                if ours.shape != theirs.shape:
                    raise UserError("A parameter of the module has another shape by now.")
                ours.copy_(theirs)
                if isinstance(ours, nn.Parameter):
                    ours.requires_grad_(theirs.requires_grad)

    def context(self, network: GatedNetwork) -> ProbeContext:
        """The probe set under the copy, for the probes."""
        regime = find_regime(REGIME)
        return ProbeContext(network, self.x, self.labels, regime, classes=self.classes)

    def _outputs(self) -> int:
        with torch.no_grad():
            try:
                output = self._inner(self.x[:2])
                if isinstance(getattr(output, "logits", None), Tensor):  # of Hugging Face
                    self.copy, output = _Logits(self._inner).eval(), output.logits
            except Exception as error:  # whatever the module's own code raises
                line = (str(error).strip() or type(error).__name__).partition("\n")[0]
                shape = tuple(self.x.shape[1:])
                raise UserError(
                    f"The module does not take probe examples of shape {shape}: {line}"
                ) from None
        if not isinstance(output, Tensor) or output.dim() != 2:
            tensor = isinstance(output, Tensor)
            kind = f"shape {tuple(output.shape)}" if tensor else f"a {type(output).__name__}"
            raise UserError(
                f"The module returns {kind} for two probe examples; logits of shape (2, classes) "
                "are needed. Watch the part of your model, or a small module around it, that "
                "returns them."
            )
        return max(output.shape[1], int(self.labels.max()) + 1)

    def _check_matched(self) -> None:
        if self._names(self._theirs) != self._names(self._inner):
            raise UserError("A copy of the module has other parameters than the module itself.")

    @staticmethod
    def _names(module: nn.Module) -> list[str]:
        parts = (*module.named_parameters(), *module.named_buffers())
        return [name for name, _ in parts]

    @staticmethod
    def _tensors(module: nn.Module) -> list[Tensor]:
        return [*module.parameters(), *module.buffers()]


def unwrapped(module: nn.Module) -> nn.Module:
    """Without DataParallel, DistributedDataParallel and torch.compile around it."""
    while True:
        inner = getattr(module, "_orig_mod", None)
        if isinstance(module, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
            inner = module.module
        if not isinstance(inner, nn.Module):
            return module
        module = inner


class _Logits(nn.Module):
    """A module that returns an object with logits in it, as one that returns these."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.module(x).logits
        return logits


def _left_out(module: nn.Module) -> dict[int, object]:
    """A memo for `deepcopy` by which what trains a module of Lightning is not copied with it."""
    owners = [vars(part).get(name) for part in module.modules() for name in _OWNERS]
    return {id(owner): None for owner in owners if owner is not None}


def _copied(module: nn.Module) -> nn.Module:
    try:
        copy = deepcopy(module, _left_out(module))
    except Exception as error:  # whatever a module holds that cannot be copied
        line = (str(error).strip() or type(error).__name__).partition("\n")[0]
        raise UserError(f"The module cannot be copied, so it cannot be watched: {line}") from None
    for part in copy.modules():  # they may keep what they see, which is the owner's
        for name in _HOOKS:
            if name in vars(part):
                vars(part)[name].clear()
    if any(p.dtype in _HALF for p in copy.parameters()):
        copy = copy.float()
    return copy.eval()


@contextmanager
def undisturbed() -> Iterator[None]:
    """What we compute in it leaves the owner's random numbers and modes of torch as they are."""
    python, array = random.getstate(), np.random.get_state(legacy=False)
    state = torch.get_rng_state()
    cards = torch.cuda.get_rng_state_all() if _has_cards() else []
    try:
        with torch.inference_mode(False), torch.enable_grad(), _full_precision():
            yield
    finally:
        random.setstate(python)
        np.random.set_state(array)
        torch.set_rng_state(state)
        if cards:
            torch.cuda.set_rng_state_all(cards)


@contextmanager
def _full_precision() -> Iterator[None]:
    with torch.autocast("cpu", enabled=False):
        if _has_cards():
            with torch.autocast("cuda", enabled=False):
                yield
        else:
            yield


def _has_cards() -> bool:
    """Whether the owner uses CUDA; asking must not initialise it."""
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]
