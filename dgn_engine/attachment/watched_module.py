"""The copy of a user's module that is read; the module itself is never run."""

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
    preserve_reached_state,
)
from dgn_engine.errors import UserError
from dgn_engine.model.adapt.from_module import (
    TracedNetwork,
    adapt_copy,
    adapt_module,
)
from dgn_engine.model.adapt.module_draws import PassRefusedError, refuse_draws
from dgn_engine.model.adapt.module_outputs import describe_output, output_tensor
from dgn_engine.model.adapt.plain_access import (
    copy_module,
    instance_attributes,
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
# torch's hooks that compute a weight from parameters, and their attribute with its name.
_COMPUTING = {
    BasePruningMethod: "_tensor_name",
    WeightNorm: "name",
    SpectralNorm: "name",
}


class WatchedModule:
    """A copy of a module in evaluation mode, and the gated network read from it.

    The copy has no hooks except those of torch that compute weights (pruning, weight_norm,
    spectral_norm). It is replaced as a whole by `refresh_copy`: updating it in place would require
    a list of everything that may change.

    Args:
        module: The user's module.
        x: (n, …) The probe examples.
        labels: (n,) Their class numbers.
        reached: Tracked state outside the module; what the copy shares with the module is added.

    Attributes:
        copy: The current copy.
        x: The probe examples on the module's device, in its dtype.
        labels: Their class numbers, on the same device.
        classes: The number of logits, or more if the labels need it.
        refusal: Why the module has no gated network, one sentence, or ''; then only K can be
            computed.
        remark: What the gated network leaves out of the module, or ''.

    Raises:
        UserError: The module cannot be copied, or does not accept the probe examples.
        StateChangedError: A copy shares layers or weights with the module.
    """

    def __init__(
        self, module: nn.Module, x: Tensor, labels: Tensor, reached: ReachedState | None = None
    ) -> None:
        self._theirs = unwrap_module(module)
        self._shapes = _parameter_shapes(self._theirs)
        self.copy = self._make_copy(reached)
        candidates = (p for p in self.copy.parameters() if p.is_floating_point() or p.is_complex())
        first = next(candidates, None)
        if first is None:
            raise UserError(
                "The module has no parameters, so there is nothing to watch.", kind="empty"
            )
        self.x = x.to(first.device, first.dtype.to_real() if x.is_floating_point() else x.dtype)
        self.labels = labels.to(first.device)
        self._compared = 0  # comparisons so far, from which the next examples follow
        self._followed: TracedNetwork | None = None
        self.refusal = self.remark = ""
        try:
            self.classes = self._count_classes(reached is not None and reached.draws_of_numpy)
        except PassRefusedError as refusal:
            self.classes = int(self.labels.max()) + 1
            self.refusal = str(refusal)
            return
        self.copy = self._make_copy(reached)  # the pass may have changed the first one
        if reached is not None:
            reached.raise_if_changed()  # before torch.func, whose changes to non-tensors would stay
        try:
            if not x.is_floating_point():
                raise UserError(
                    "Its inputs are integers (such as tokens), and paths need real inputs."
                )
            followed = adapt_module(self.copy, tuple(self.x.shape[1:]))
            if not followed.network.architecture.gated_nodes:
                raise UserError("It has no hidden layer that could have gates.")
            self._followed = adapt_copy(followed, self.copy, self._next_examples())
            self.remark = followed.remark
        except UserError as refusal:
            self.refusal = str(refusal)

    @property
    def network(self) -> GatedNetwork | None:
        """The gated network read from the copy.

        Returns:
            The network; None if the module cannot be read as one.
        """
        return None if self._followed is None else self._followed.network

    @property
    def title(self) -> str:
        """The name of the module's class.

        Returns:
            For example 'ResNet'.
        """
        return type(self._theirs).__name__

    @property
    def ignored_hooks(self) -> str:
        """Name the user's forward hooks that the copy ignores.

        Returns:
            The end of a sentence, 'without your forward hooks on layer1', or ''.
        """
        names = [
            name or "the module"
            for name, part in named_parts(self._theirs)
            if len(part._forward_hooks) + len(part._forward_pre_hooks) > len(_computing_hooks(part))
        ]
        more = ", …" if len(names) > 3 else ""
        return f"without your forward hooks on {', '.join(names[:3])}{more}" if names else ""

    def refresh_copy(self, reached: ReachedState) -> None:
        """Copy the module as it is now, and read the gated network from that copy.

        Outputs and gradients of the network are compared with those of the copy on some probe
        examples; if they no longer agree, the copy is traced again from scratch.

        Args:
            reached: Tracked state outside the module; what the copy shares with the module is
                added.

        Raises:
            UserError: The module's parameters have changed shape since the start, or it has become
                another kind of network.
            StateChangedError: Running the copy changes state outside it.
        """
        self.copy = self._make_copy(reached)
        self._run_once(reached)
        reached.raise_if_changed()  # before torch.func, whose changes to non-tensors would stay
        before = self._followed
        if before is None:
            return
        try:
            now = adapt_copy(before, self.copy, self._next_examples())
            if now.chain.architecture != before.chain.architecture or now.end != before.end:
                raise UserError("Its layers or its outputs have changed.")
        except PassRefusedError:
            raise
        except UserError as refusal:
            raise UserError(
                f"The module is no longer the network that it was at the start: {refusal}"
            ) from None
        self._followed = now

    def copy_still_matches(self, reached: ReachedState) -> bool:
        """Compare the copy with a fresh one, by outputs and gradients.

        They differ if, for example, a counter that the reading's passes advanced decides what the
        module computes.

        Args:
            reached: Tracked state outside the module.

        Returns:
            True if the copy still computes what the module does.
        """
        x, fresh = self._next_examples(), self._make_copy(reached)
        with refuse_draws(reached.draws_of_numpy):
            outputs, fresh_outputs = (
                _outputs_and_gradients(self.copy, x),
                _outputs_and_gradients(fresh, x),
            )
        return len(outputs) == len(fresh_outputs) and all(map(_is_close, outputs, fresh_outputs))

    def _next_examples(self) -> Tensor:
        """Return two probe examples for a comparison, different ones each time."""
        n = len(self.x)
        first = self._compared % n
        self._compared += 1
        return self.x[[first, (first + n // 2) % n]]

    def _make_copy(self, reached: ReachedState | None) -> nn.Module:
        if _parameter_shapes(self._theirs) != self._shapes:
            raise UserError(
                "The names or shapes of the module's parameters have changed since the start."
            )
        copy = _copy_for_reading(self._theirs, reached)
        if reached is not None:
            reached.add_shared(self._theirs, copy)
        if _parameter_shapes(copy) != self._shapes:
            raise UserError("A copy of the module does not have the same parameters as the module.")
        return copy

    def probe_context(self, network: GatedNetwork) -> ProbeContext:
        """Return the probe examples and the network in the form that probes read.

        Args:
            network: The gated network.

        Returns:
            The context of a reading, without a comparison.
        """
        regime = find_regime(REGIME)
        return ProbeContext(network, self.x, self.labels, regime, classes=self.classes)

    def _run_once(self, reached: ReachedState) -> None:
        """Pass one example through another copy.

        Raises `ValueError` if a tensor that the copy keeps changes its shape.
        """
        copy = copy_module(self.copy)  # a pass may change it
        before = _attribute_shapes(copy)
        with refuse_draws(reached.draws_of_numpy), _OriginalsRefused(self._theirs):
            copy(self.x[:1])
        if any(tensor.shape != shape for tensor, shape in before.values()):
            raise ValueError("The module keeps a tensor whose shape changes with each pass.")

    def _count_classes(self, draws_of_numpy: bool) -> int:
        """Return the number of classes, from the copy's outputs for two probe examples."""
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
                    f"The module does not accept probe examples of shape {shape}: {line}",
                    kind="wrong-input",
                    value=shape,
                ) from None
        logits = output_tensor(output)
        if logits is None or logits.dim() != 2 or not logits.is_floating_point():
            raise UserError(
                "The module returns "
                f"{describe_output(output if logits is None else logits)} for two "
                "probe examples; logits of shape (2, classes) are needed. Watch the part of your "
                "model, or a small module around it, that returns them.",
                kind="wrong-output",
            )
        return max(logits.shape[1], int(self.labels.max()) + 1)


class _OriginalsRefused(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch leaves it so
    """Raises `StateChangedError` if a copy computes with a tensor of its original, as in a function
    defined over it (`self.f = lambda x: self.layer(x)`)."""

    def __init__(self, original: nn.Module) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # torch leaves it so
        kinds = ("_parameters", "_buffers")
        theirs = [tensor for kind in kinds for _, tensor in named_tensors(original, kind)]
        self._theirs = {_storage_address(tensor) for tensor in theirs} - {0}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        for argument in tree_leaves((args, kwargs)):
            if isinstance(argument, Tensor) and _storage_address(argument) in self._theirs:
                raise StateChangedError(
                    "a function of the module uses its original layers instead of those of its "
                    "copy (for example a lambda or method stored in an attribute)"
                )
        return func(*args, **(kwargs or {}))


def _storage_address(tensor: Tensor) -> int:
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):  # no storage: sparse, or a wrapper class
        return 0


def _attribute_shapes(module: nn.Module) -> dict[int, tuple[Tensor, torch.Size]]:
    """Return the tensors in attributes with their shapes, by id.

    torch.func crashes if the data of one of them is replaced by a batched tensor.
    """
    values = (value for part in module.modules() for value in vars(part).values())
    return {id(value): (value, value.shape) for value in values if isinstance(value, Tensor)}


def _parameter_shapes(module: nn.Module) -> list[tuple[str, torch.Size]]:
    """Return names and shapes of the parameters; lazy ones have no shape yet."""
    with torch._C.DisableTorchFunctionSubclass():
        return [
            (name, torch.Size() if is_lazy(parameter) else parameter.shape)
            for name, parameter in named_tensors(module, "_parameters")
        ]


def _outputs_and_gradients(module: nn.Module, x: Tensor) -> list[Tensor]:
    """Return the outputs for x, and the gradients of a weighted sum of them by each parameter."""
    logits = output_tensor(module(x))
    if logits is None or not logits.requires_grad:
        return [] if logits is None else [logits]
    trained = [p for p in module.parameters() if p.requires_grad]
    weights = torch.arange(1, logits.numel() + 1, device=logits.device).reshape(logits.shape)
    total = (logits * weights.to(logits.dtype)).sum()
    gradients = torch.autograd.grad(total, trained, allow_unused=True)
    return [
        logits,
        *(logits.new_zeros(()) if gradient is None else gradient for gradient in gradients),
    ]


def _is_close(first: Tensor, second: Tensor) -> bool:
    """Return whether tensors are equal up to the rounding of non-deterministic GPU operations."""
    if first.shape != second.shape:
        return False
    finite = second.detach()[torch.isfinite(second)]
    scale = float(finite.abs().max()) if finite.numel() else 0.0
    return torch.allclose(first, second, rtol=0.0, atol=1e-5 * scale, equal_nan=True)


def unwrap_module(module: nn.Module) -> nn.Module:
    """Remove DataParallel, DistributedDataParallel and torch.compile from around a module.

    Args:
        module: A module, wrapped or not.

    Returns:
        The innermost module.
    """
    while True:
        parts = instance_attributes(module).get("_modules") or {}
        inner = parts.get("_orig_mod")
        if isinstance(module, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
            inner = parts["module"]
        if not isinstance(inner, nn.Module):
            return module
        module = inner


def _copy_for_reading(module: nn.Module, reached: ReachedState | None) -> nn.Module:
    try:
        with ExitStack() as guard:
            if reached is not None and reached.copies_itself:
                guard.enter_context(preserve_reached_state(module, whole=True, when="copied"))
                guard.enter_context(refuse_draws(reached.draws_of_numpy))
            copy = copy_module(module, _deepcopy_memo(module))
    except StateChangedError:
        raise
    except PassRefusedError as refusal:
        raise StateChangedError(
            f"an object in the module has its own copying code, which does something that is not "
            f"allowed. {refusal}"
        ) from None
    except Exception as error:  # whatever the module's own code raises when it is copied
        if is_interrupt(error):
            raise
        line = (str(error).strip() or type(error).__name__).partition("\n")[0]
        raise UserError(
            f"The module cannot be watched, because it cannot be copied: {line}",
            kind="not-copied",
        ) from None
    _refuse_shared(module, copy)  # before anything in the copy is changed
    for _, part in named_parts(copy):
        computing = _computing_hooks(part)
        for name in _HOOKS:  # they may store what they see for the user
            if name in instance_attributes(part):
                instance_attributes(part)[name].clear()
        part._forward_pre_hooks.update(computing)
        if is_kind(part, torch.jit.ScriptModule):
            part.eval()
        else:
            instance_attributes(part)["training"] = False  # `eval` would call the user's `train`
    if any(p.dtype in _HALF for _, p in named_tensors(copy, "_parameters")):
        with refuse_draws():
            copy = nn.Module.float(copy)
    return copy


def _refuse_shared(module: nn.Module, copy: nn.Module) -> None:
    """Raise `StateChangedError` if a copy shares a layer, a parameter, a buffer or hooks with its
    module, as it does if a layer's `__deepcopy__` returns the layer itself."""
    theirs = {id(item) for _, part in named_parts(module) for item in _own_objects(part)}
    for name, part in named_parts(copy):
        if any(id(item) in theirs for item in _own_objects(part)):
            where = f"layer {name} ({type(part).__name__})" if name else "the module"
            raise StateChangedError(
                f"a copy of {where} shares layers, weights or hooks with it: check its __deepcopy__"
            )


def _own_objects(part: nn.Module) -> Iterator[object]:
    """Yield a module, its registries, parameters and buffers."""
    yield part
    for name, value in instance_attributes(part).items():
        if isinstance(value, dict) and (name.endswith("_hooks") or name in _REGISTRIES):
            yield value
    yield from (tensor for tensor in part._parameters.values() if tensor is not None)
    yield from (tensor for tensor in part._buffers.values() if tensor is not None)


def _deepcopy_memo(module: nn.Module) -> dict[int, object]:
    """Return a memo for `deepcopy`.

    It leaves out the trainer of a Lightning module, and copies weights that a torch hook computes
    before each pass without their graph.
    """
    memo: dict[int, object] = {}
    for _, part in named_parts(module):
        owners = [instance_attributes(part).get(name) for name in OWNERS]
        memo |= {id(owner): None for owner in owners if owner is not None}
        for hook in _computing_hooks(part).values():
            weight = instance_attributes(part).get(_weight_name(hook))
            if isinstance(weight, Tensor):
                memo[id(weight)] = weight.detach().clone()
    return memo


def _computing_hooks(part: nn.Module) -> dict[int, Callable[..., object]]:
    hooks = part._forward_pre_hooks.items()
    return {key: hook for key, hook in hooks if isinstance(hook, tuple(_COMPUTING))}


def _weight_name(hook: object) -> str:
    attribute = next(name for kind, name in _COMPUTING.items() if isinstance(hook, kind))
    return str(getattr(hook, attribute))
