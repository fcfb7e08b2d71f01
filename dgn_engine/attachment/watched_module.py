"""What is read of a module that somebody else trains: a copy of it, made for each reading."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.nn.utils.prune import BasePruningMethod
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from dgn_engine.attachment.isolation import is_interrupt
from dgn_engine.attachment.reached_state import (
    OWNERS,
    ReachedState,
    StateChangedError,
    kept_state,
)
from dgn_engine.errors import UserError
from dgn_engine.model.adapt.from_module import (
    FollowedNetwork,
    follow_again,
    follow_module,
)
from dgn_engine.model.adapt.module_draws import PassRefusedError, refuse_draws
from dgn_engine.model.adapt.module_outputs import output_tensor, returned
from dgn_engine.model.adapt.plain_access import (
    attributes,
    copy_module,
    is_kind,
    named_parts,
    named_tensors,
)
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
_REGISTRIES = ("_parameters", "_buffers", "_modules")
_HALF = (torch.float16, torch.bfloat16)
# Hooks of torch that compute a weight from parameters, under their attribute for its name.
_COMPUTING = {
    BasePruningMethod: "_tensor_name",
    WeightNorm: "name",
    SpectralNorm: "name",
}


class WatchedModule:
    """A copy of `module` in evaluation mode, without hooks but those of torch that compute weights
    (pruning, weight_norm, spectral_norm); the module itself is never run.

    Nothing is carried over into an old copy, which would need a list of all that may change:
    `renew` copies the module anew as a whole.

    `x` (n, ...) and `labels` (n,): the probe set. `network` is what `adapt` made of the copy, or
    None where it refused it, with the reason in `refusal`: then only K can be computed. `remark`:
    what of the module the network leaves out, or ''. `reached` is extended by what the copy shares
    with the module.
    Raises `UserError` where the module cannot be copied, or does not take the probe examples, and
    `StateChangedError` where a copy shares layers or weights with it.
    """

    def __init__(
        self, module: nn.Module, x: Tensor, labels: Tensor, reached: ReachedState | None = None
    ) -> None:
        self._theirs = unwrapped(module)
        self._shapes = _shapes(self._theirs)
        self.copy = self._copied(reached)
        kinds = (p for p in self.copy.parameters() if p.is_floating_point() or p.is_complex())
        first = next(kinds, None)
        if first is None:
            raise UserError(
                "The module has no parameters: there is nothing to watch.", kind="empty"
            )
        self.x = x.to(first.device, first.dtype.to_real() if x.is_floating_point() else x.dtype)
        self.labels = labels.to(first.device)
        self._compared = 0  # how often examples of the probe set were chosen for a comparison
        self._followed: FollowedNetwork | None = None
        self.refusal = self.remark = ""
        try:
            self.classes = self._outputs(reached is not None and reached.draws_of_numpy)
        except PassRefusedError as refusal:
            self.classes = int(self.labels.max()) + 1
            self.refusal = str(refusal)
            return
        self.copy = self._copied(reached)  # its pass may have changed the other
        if reached is not None:
            reached.check()  # before torch.func runs it: it would keep what is no tensor after
        try:
            if not x.is_floating_point():
                raise UserError("Its inputs are whole numbers (tokens, say), where no path begins.")
            followed = follow_module(self.copy, tuple(self.x.shape[1:]))
            if not followed.network.architecture.gated:
                raise UserError("It has no layer behind which there could be gates.")
            self._followed = follow_again(followed, self.copy, self._examples())
            self.remark = followed.remark
        except UserError as refusal:
            self.refusal = str(refusal)

    @property
    def network(self) -> GatedNetwork | None:
        """What `adapt` makes of the copy."""
        return None if self._followed is None else self._followed.network

    @property
    def title(self) -> str:
        """What its class is called: 'ResNet', say."""
        return type(self._theirs).__name__

    @property
    def without_hooks(self) -> str:
        """Which of the user's hooks are left out of what is shown, in a sentence, or ''."""
        names = [
            name or "the module"
            for name, part in named_parts(self._theirs)
            if len(part._forward_hooks) + len(part._forward_pre_hooks) > len(_computing_hooks(part))
        ]
        more = ", …" if len(names) > 3 else ""
        return f"without your forward hooks of {', '.join(names[:3])}{more}" if names else ""

    def renew(self, reached: ReachedState) -> None:
        """Copy the module as it is now, and read the network with gates from that copy.

        What that network does is compared with what the copy does on some of the probe examples,
        outputs and gradients; where it is something else by now, the copy is followed anew.

        Args:
            reached: the state that passes of the copy are held against; it is extended by what
                the copy shares with the module.

        Raises:
            UserError: the module has other parameters than when it was first watched, or is a
                network of another kind by now.
            StateChangedError: running the copy changes state outside of it.
        """
        self.copy = self._copied(reached)
        self._run_once(reached)
        reached.check()  # before torch.func runs it: it would keep what is no tensor after
        before = self._followed
        if before is None:
            return
        try:
            now = follow_again(before, self.copy, self._examples())
            if now.chain.architecture != before.chain.architecture or now.end != before.end:
                raise UserError("It has other layers, or another end.")
        except PassRefusedError:
            raise
        except UserError as refusal:
            raise UserError(
                f"By now the module is another network than when it was first watched: {refusal}"
            ) from None
        self._followed = now

    def is_as_read(self, reached: ReachedState) -> bool:
        """Return whether the copy still does what the module does, outputs and gradients.

        It does not where its passes for a reading counted up to something that decides.
        """
        x, anew = self._examples(), self._copied(reached)
        with refuse_draws(reached.draws_of_numpy):
            ones, twos = _response(self.copy, x), _response(anew, x)
        return len(ones) == len(twos) and all(map(_is_close, ones, twos))

    def _examples(self) -> Tensor:
        """Two of the probe examples for a comparison, others each time."""
        n = len(self.x)
        first = self._compared % n
        self._compared += 1
        return self.x[[first, (first + n // 2) % n]]

    def _copied(self, reached: ReachedState | None) -> nn.Module:
        if _shapes(self._theirs) != self._shapes:
            raise UserError("The module has other parameters than when it was first watched.")
        copy = _copied(self._theirs, reached)
        if reached is not None:
            reached.add_shared(self._theirs, copy)
        if _shapes(copy) != self._shapes:
            raise UserError("A copy of the module has other parameters than the module itself.")
        return copy

    def context(self, network: GatedNetwork) -> ProbeContext:
        """The probe set under the copy, for the probes."""
        regime = find_regime(REGIME)
        return ProbeContext(network, self.x, self.labels, regime, classes=self.classes)

    def _run_once(self, reached: ReachedState) -> None:
        """Pass one example through another copy.

        Raises `ValueError` where a tensor that the copy keeps has another shape after that.
        """
        copy = copy_module(self.copy)  # which a pass may change
        before = _kept_shapes(copy)
        with refuse_draws(reached.draws_of_numpy), _OriginalsRefused(self._theirs):
            copy(self.x[:1])
        if any(tensor.shape != shape for tensor, shape in before.values()):
            raise ValueError("The module keeps a tensor that grows or shrinks with each pass.")

    def _outputs(self, draws_of_numpy: bool) -> int:
        with torch.no_grad():
            try:
                with refuse_draws(draws_of_numpy), _OriginalsRefused(self._theirs):
                    output = self.copy(self.x[:2])
            except (PassRefusedError, StateChangedError):
                raise
            except Exception as error:  # whatever the module's own code raises
                if is_interrupt(error):
                    raise
                line = (str(error).strip() or type(error).__name__).partition("\n")[0]
                shape = tuple(self.x.shape[1:])
                raise UserError(
                    f"The module does not take probe examples of shape {shape}: {line}",
                    kind="wrong-input",
                    value=shape,
                ) from None
        logits = output_tensor(output)
        if logits is None or logits.dim() != 2 or not logits.is_floating_point():
            raise UserError(
                f"The module returns {returned(output if logits is None else logits)} for two "
                "probe examples; logits of shape (2, classes) are needed. Watch the part of your "
                "model, or a small module around it, that returns them.",
                kind="wrong-output",
            )
        return max(logits.shape[1], int(self.labels.max()) + 1)


class _OriginalsRefused(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch leaves it so
    """Raises `StateChangedError` where a copy computes with a tensor of its original, as it does
    in a function that was defined over it (`self.f = lambda x: self.layer(x)`)."""

    def __init__(self, original: nn.Module) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # torch leaves it so
        kinds = ("_parameters", "_buffers")
        theirs = [each for kind in kinds for _, each in named_tensors(original, kind)]
        self._theirs = {_memory(each) for each in theirs} - {0}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        for each in tree_leaves((args, kwargs)):
            if isinstance(each, Tensor) and _memory(each) in self._theirs:
                raise StateChangedError(
                    "a function of the module computes with its original layers, not with those "
                    "of its copy (a lambda or a method that was kept in an attribute, say)"
                )
        return func(*args, **(kwargs or {}))


def _memory(tensor: Tensor) -> int:
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):  # it has none: sparse, or of a wrapper class
        return 0


def _kept_shapes(module: nn.Module) -> dict[int, tuple[Tensor, torch.Size]]:
    """Of the tensors in attributes; torch.func crashes where one is given a batch as its data."""
    held = (value for part in module.modules() for value in vars(part).values())
    return {id(value): (value, value.shape) for value in held if isinstance(value, Tensor)}


def _shapes(module: nn.Module) -> list[tuple[str, torch.Size]]:
    """Names and shapes of its parameters; those of lazy layers have no shape before their pass."""
    with torch._C.DisableTorchFunctionSubclass():
        return [
            (name, torch.Size() if is_lazy(each) else each.shape)
            for name, each in named_tensors(module, "_parameters")
        ]


def _response(module: nn.Module, x: Tensor) -> list[Tensor]:
    """What a module returns for x, and the gradient of a combination of it by each parameter."""
    logits = output_tensor(module(x))
    if logits is None or not logits.requires_grad:
        return [] if logits is None else [logits]
    trained = [p for p in module.parameters() if p.requires_grad]
    weights = torch.arange(1, logits.numel() + 1, device=logits.device).reshape(logits.shape)
    total = (logits * weights.to(logits.dtype)).sum()
    found = torch.autograd.grad(total, trained, allow_unused=True)
    return [logits, *(logits.new_zeros(()) if each is None else each for each in found)]


def _is_close(one: Tensor, two: Tensor) -> bool:
    """Equal up to the rounding of operations whose order is not fixed on a card."""
    if one.shape != two.shape:
        return False
    finite = two.detach()[torch.isfinite(two)]
    scale = float(finite.abs().max()) if finite.numel() else 0.0
    return torch.allclose(one, two, rtol=0.0, atol=1e-5 * scale, equal_nan=True)


def unwrapped(module: nn.Module) -> nn.Module:
    """Without DataParallel, DistributedDataParallel and torch.compile around it."""
    while True:
        parts = attributes(module).get("_modules") or {}
        inner = parts.get("_orig_mod")
        if isinstance(module, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
            inner = parts["module"]
        if not isinstance(inner, nn.Module):
            return module
        module = inner


def _copied(module: nn.Module, reached: ReachedState | None) -> nn.Module:
    try:
        with ExitStack() as guard:
            if reached is not None and reached.copies_itself:
                guard.enter_context(kept_state(module, whole=True, when="copied"))
                guard.enter_context(refuse_draws(reached.draws_of_numpy))
            copy = copy_module(module, _not_copied(module))
    except StateChangedError:
        raise
    except PassRefusedError as refusal:
        raise StateChangedError(
            f"an object of the module has methods by which it is copied, and they are refused "
            f"something. {refusal}"
        ) from None
    except Exception as error:  # whatever a module holds that cannot be copied
        if is_interrupt(error):
            raise
        line = (str(error).strip() or type(error).__name__).partition("\n")[0]
        raise UserError(
            f"The module cannot be copied, so it cannot be watched: {line}", kind="not-copied"
        ) from None
    _refuse_shared(module, copy)  # before anything of the copy is switched
    for _, part in named_parts(copy):
        computing = _computing_hooks(part)
        for name in _HOOKS:  # they may keep what they see, which is the owner's
            if name in attributes(part):
                attributes(part)[name].clear()
        part._forward_pre_hooks.update(computing)
        if is_kind(part, torch.jit.ScriptModule):
            part.eval()
        else:
            attributes(part)["training"] = False  # `eval` calls the user's `train`
    if any(p.dtype in _HALF for _, p in named_tensors(copy, "_parameters")):
        with refuse_draws():
            copy = nn.Module.float(copy)
    return copy


def _refuse_shared(module: nn.Module, copy: nn.Module) -> None:
    """Raise `StateChangedError` where a copy holds a layer, a parameter, a buffer or hooks of its
    module, as it does of a layer whose `__deepcopy__` returns the layer itself."""
    theirs = {id(each) for _, part in named_parts(module) for each in _own(part)}
    for name, part in named_parts(copy):
        if any(id(each) in theirs for each in _own(part)):
            where = f"layer {name} ({type(part).__name__})" if name else "the module"
            raise StateChangedError(
                f"a copy of {where} shares layers, weights or hooks with it (see its __deepcopy__)"
            )


def _own(part: nn.Module) -> Iterator[object]:
    """A module, its registries, parameters and buffers."""
    yield part
    for name, value in attributes(part).items():
        if isinstance(value, dict) and (name.endswith("_hooks") or name in _REGISTRIES):
            yield value
    yield from (each for each in part._parameters.values() if each is not None)
    yield from (each for each in part._buffers.values() if each is not None)


def _not_copied(module: nn.Module) -> dict[int, object]:
    """A memo for `deepcopy`: what trains a module of Lightning is left out of the copy, and weights
    that a hook of torch computes before each pass are copied without their graph."""
    memo: dict[int, object] = {}
    for _, part in named_parts(module):
        owners = [attributes(part).get(name) for name in OWNERS]
        memo |= {id(owner): None for owner in owners if owner is not None}
        for hook in _computing_hooks(part).values():
            weight = attributes(part).get(_weight_name(hook))
            if isinstance(weight, Tensor):
                memo[id(weight)] = weight.detach().clone()
    return memo


def _computing_hooks(part: nn.Module) -> dict[int, Callable[..., object]]:
    hooks = part._forward_pre_hooks.items()
    return {key: hook for key, hook in hooks if isinstance(hook, tuple(_COMPUTING))}


def _weight_name(hook: object) -> str:
    attribute = next(name for kind, name in _COMPUTING.items() if isinstance(hook, kind))
    return str(getattr(hook, attribute))
