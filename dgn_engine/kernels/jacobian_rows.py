"""Rows of a module's Jacobian, ∂ŷ_k(x)/∂θ over its trained parameters, and what they cost."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from math import sqrt
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vjp, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from dgn_engine.errors import ArgumentError, Hint
from dgn_engine.model.adapt.module_draws import ModuleDrawsError, refuse_draws
from dgn_engine.model.adapt.module_outputs import (
    End,
    SoftmaxInputs,
    apply_end,
    are_probabilities,
    left_out,
    output_tensor,
    returned,
)

Rows = dict[str, Tensor]  # of each trained parameter (b, c, *its shape): b examples, c logits;
# of a complex one its real and imaginary parts (b, c, *its shape, 2), which are what is trained


@dataclass(frozen=True)
class RowBytes:
    """Bytes that computing rows takes: `fixed` for an example, `each` for each of its logits
    besides; `copied`: of one row, its largest parameter."""

    fixed: int
    each: int
    copied: int


class ModuleFunction:
    """A module as a function of its trained parameters (`requires_grad`), everything else fixed.

    `parameters`: each once, a tied one under its first name. Raises `ValueError` where the module
    is no function of one example: in training mode where that matters, random, coupling the
    examples of a batch, or changing its own buffers. `remark` says why `torch.func` does not serve,
    where it does not; the rows are then those of plain autograd, one by one.

    With `before_softmax`, a softmax or log_softmax over the classes that comes last is left out;
    `outputs` says so, or that the outputs are probabilities made in another way.
    """

    def __init__(self, module: nn.Module, examples: Tensor, before_softmax: bool = False) -> None:
        _refuse_training_mode(module)
        self.module = module
        self.remark = self.outputs = ""
        self._end: End = ""
        self.parameters = {
            name: parameter
            for name, parameter in module.named_parameters()
            if parameter.requires_grad
        }
        self._aliases = _aliases(module, self.parameters)
        if not self.parameters:
            raise ArgumentError(
                "No parameter of the module is trained: none has requires_grad, so K is zero.",
                kind="frozen",
            )
        with self.undisturbed():
            self.output = self._probed(examples, before_softmax)
            self.remark = self._vectorises(examples[:1])

    @property
    def classes(self) -> int:
        return len(self.output[0])

    @property
    def row_bytes(self) -> int:
        """Of the gradients of one logit of one example."""
        return sum(p.numel() * p.element_size() for p in self.parameters.values())

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """What the module's own code keeps in attributes while it computes is put back after.

        Old weight_norm keeps the weight that it multiplied out, and hooks may count their calls.
        """
        kept = [
            (part, dict(vars(part)), [(held, dict(held)) for held in _registries(part)])
            for part in self.module.modules()
        ]
        with differentiable(self.module):
            try:
                yield
            finally:
                for part, attributes, registries in kept:
                    vars(part).clear()
                    vars(part).update(attributes)
                    for registry, items in registries:
                        registry.clear()
                        registry.update(items)

    def rows(self, x: Tensor, basis: Tensor) -> Rows:
        """Gradients of ⟨basis[k], ŷ⟩ for examples x (b, ...) and basis (c, C)."""
        if not self.remark:
            try:
                return self._vectorised(x, basis)
            except Exception as error:  # of more examples or logits than were tried
                self.remark = _why_looped(f"{type(error).__name__}: {_first_sentence(error)}")
        return self._one_by_one(x, basis)

    def cost(self, x: Tensor) -> RowBytes:
        """What rows of the first example take, measured: an upper bound, the sum of all that is
        made on the way, as if nothing were freed."""
        basis = torch.eye(self.classes, dtype=self.output.dtype, device=x.device)
        one, remark = self._made(x[:1], basis[:1]), self.remark
        each = one if self.classes == 1 else self._made(x[:1], basis[:2]) - one
        if self.remark != remark:  # two logits at a time cannot be vectorised: one was
            return self.cost(x)
        each = max(each, self.row_bytes)
        largest = max(p.numel() * p.element_size() for p in self.parameters.values())
        return RowBytes(max(0, one - each), each, largest)

    def _made(self, x: Tensor, basis: Tensor) -> int:
        with self.undisturbed(), _MadeBytes() as made:  # type: ignore[no-untyped-call] # torch leaves it so
            self.rows(x, basis)
        count: int = made.total + made.unfolded
        return count

    def _vectorised(self, x: Tensor, basis: Tensor) -> Rows:
        fixed = {name: p.detach() for name, p in self.parameters.items()}

        def gradients(example: Tensor) -> Rows:
            def logits(parameters: Rows) -> Tensor:
                places = {alias: parameters[name] for alias, name in self._aliases.items()}
                given = (example.unsqueeze(0),)
                call = partial(functional_call, self.module, places, given, tie_weights=False)
                return self._logits(call, 1).reshape(-1)

            pull_back = vjp(logits, fixed)[1]
            if len(basis) == 1:
                return {name: row.unsqueeze(0) for name, row in pull_back(basis[0])[0].items()}
            found: Rows = vmap(lambda weights: pull_back(weights)[0])(basis)
            return found

        # Gradients are on outside of `vjp` too: without them torch passes an LSTM on a CPU as in
        # inference, which keeps nothing for the backward pass. Nothing here requires any.
        with warnings.catch_warnings(), torch.enable_grad():
            # an operator that vmap loops over is only slower
            warnings.filterwarnings("ignore", message="There is a performance drop")
            rows: Rows = vmap(gradients)(x.detach())
        return {name: as_real(row) for name, row in rows.items()}

    def _one_by_one(self, x: Tensor, basis: Tensor) -> Rows:
        """The definition: a backward pass of the module itself for each row."""
        shape = (len(x), len(basis))
        rows = {name: p.new_empty((*shape, *p.shape)) for name, p in self.parameters.items()}
        leaves = list(self.parameters.values())
        for place in range(len(x)):
            with torch.enable_grad():
                call = partial(self.module, x[place : place + 1])
                output = self._logits(call, 1).reshape(-1)
            for logit, weights in enumerate(basis):
                gradients = torch.autograd.grad(
                    output, leaves, weights, retain_graph=logit + 1 < len(basis), allow_unused=True
                )
                for row, gradient in zip(rows.values(), gradients, strict=True):
                    row[place, logit] = 0.0 if gradient is None else gradient
        return {name: as_real(row) for name, row in rows.items()}

    def _logits(self, call: Callable[[], object], n: int) -> Tensor:
        """(n, C) of what a pass of the module returns, before the softmax that is left out."""
        if not self._end:
            return logits_of(call(), n)
        with SoftmaxInputs() as softmax:
            logits = logits_of(call(), n, softmax)
        if softmax.end != self._end:
            raise ArgumentError(
                f"The module ends with {self._end} for some examples only.", kind="other-function"
            )
        return logits

    def _vectorises(self, example: Tensor) -> str:
        """'' where `torch.func` gives autograd's gradients; otherwise why not, in a sentence."""
        basis = self.output.new_ones((1, self.classes))
        with _Prelu() as prelu:  # type: ignore[no-untyped-call] # torch leaves it so
            plain = self._one_by_one(example, basis)
        try:
            rows = self._vectorised(example, basis)
            alike = all(_is_close(rows[name], row) for name, row in plain.items())
            reason = "" if alike else "its gradients are not those of autograd"
            if prelu.met and self.classes > 1:
                reason = "of PReLU it takes logits for examples where there are several of both"
        except Exception as error:  # whatever functorch or a module's code raises under it
            reason = f"{type(error).__name__}: {_first_sentence(error)}"
        return _why_looped(reason) if reason else ""

    def _probed(self, x: Tensor, before_softmax: bool) -> Tensor:
        """The logits of one example; refused where they are not its function alone."""
        try:
            with refuse_draws(), self._fixed_buffers():
                with torch.enable_grad():
                    first = self._first_logits(x[:1], before_softmax)
                if not first.requires_grad:
                    raise ArgumentError(
                        "The module's output does not depend on any trained parameter as autograd "
                        "sees it; look for detach() or no_grad() in its forward.",
                        kind="frozen",
                    )
                with torch.no_grad():
                    again = self._logits(partial(self.module, x[:1]), 1)
                    last = self._logits(partial(self.module, x[-1:]), 1)
                    both = self._logits(partial(self.module, torch.stack([x[0], x[-1]])), 2)
        except ModuleDrawsError:
            raise ArgumentError(
                "The module draws random numbers" + self._advice(EVAL_OR_LEAVE) + ".", kind="random"
            ) from None
        one = first.detach()
        if not _is_close(one, again):
            raise ArgumentError(
                "The module gives other outputs when it is called again: it is random"
                f"{self._advice('; call eval()')}.",
                kind="random",
            )
        if not _is_close(torch.cat([one, last]), both):
            raise ArgumentError(
                "The module couples the examples of a batch: its output for one depends on the "
                "others, so there is no kernel of two examples.",
                kind="couples-examples",
            )
        return one

    def _first_logits(self, x: Tensor, before_softmax: bool) -> Tensor:
        """Those of one example (1, C), and whether they are what a softmax is given."""
        if not before_softmax:
            return logits_of(self.module(x), 1)
        with SoftmaxInputs() as softmax:
            output = self.module(x)
        outputs = logits_of(output, 1)
        logits = logits_of(output, 1, softmax)
        end = softmax.end
        if end and _is_close(apply_end(end, logits.detach()), outputs.detach()):
            self._end, self.outputs = end, left_out(end)
            return logits
        if kind := are_probabilities(outputs.detach()):
            self.outputs = f"Its outputs are {_PROBABILITIES[kind]}: K is of these, not of logits."
        return outputs

    def _advice(self, words: str) -> str:
        """What to do, of a module that is in training mode."""
        return words if any(part.training for part in self.module.modules()) else EVALUATED

    @contextmanager
    def _fixed_buffers(self) -> Iterator[None]:
        """Refuse a module that changes its buffers, and give them their values again; which tensor
        is which buffer, `undisturbed` puts back."""
        kept = [(name, part, _values(part)) for name, part in self.module.named_modules()]
        changed: list[str] = []
        try:
            yield
        finally:
            for name, part, before in kept:
                now = dict(part._buffers.items())
                for own, (buffer, value) in before.items():
                    if not _is_same(now.pop(own, None), value):
                        changed.append(f"{name}.{own}".lstrip("."))
                    if buffer is not None and value is not None and not _is_same(buffer, value):
                        _overwrite(buffer, value)
                changed += [f"{name}.{own}".lstrip(".") for own in now]
        if changed:
            raise ArgumentError(
                f"The module changes its buffer {changed[0]} while it computes"
                + self._advice(EVAL_FIRST)
                + ".",
                kind="changes-state",
            )


EVALUATED = ", after eval() too"
# Ways out; where eval() was called already, whoever shows them says EVALUATED instead.
EVAL_FIRST = Hint("; call eval() first")
EVAL_OR_LEAVE = Hint("; call eval(), or leave them out")
_PROBABILITIES = {"Softmax": "probabilities", "LogSoftmax": "logarithms of probabilities"}


@contextmanager
def differentiable(module: nn.Module) -> Iterator[None]:
    """While it is active, torch uses the kernels that autograd can follow in evaluation mode: its
    plain attention, which alone can be vectorised, and recurrent layers without cuDNN."""
    with ExitStack() as stack:
        stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        if any(isinstance(part, nn.RNNBase) for part in module.modules()):
            stack.enter_context(_without_cudnn())
        yield


@contextmanager
def _without_cudnn() -> Iterator[None]:
    """Switch cuDNN off. `cudnn.flags` would read its switch for TF32 too, where torch raises once
    convolutions alone have one of their own (`precision`)."""
    before = torch.backends.cudnn.enabled
    torch.backends.cudnn.enabled = False
    try:
        yield
    finally:
        torch.backends.cudnn.enabled = before


def as_real(tensor: Tensor) -> Tensor:
    """The real and imaginary parts of a complex tensor, along a last axis; a real one as it is."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _registries(part: nn.Module) -> list[dict[str, Any]]:
    """Its parameters, buffers and children by name; those of a compiled module are not Python's."""
    found = [vars(part).get(name) for name in ("_parameters", "_buffers", "_modules")]
    return [each for each in found if isinstance(each, dict)]


def _values(part: nn.Module) -> dict[str, tuple[Tensor | None, Tensor | None]]:
    """Its buffers, each with a copy."""
    return {
        name: (buffer, None if buffer is None else buffer.detach().clone())
        for name, buffer in part._buffers.items()
    }


@torch.no_grad()
def _overwrite(buffer: Tensor, value: Tensor) -> None:
    if buffer.grad_fn is not None:  # of what was written into it
        buffer.detach_()
    buffer.resize_(value.shape).copy_(value)


def _is_same(one: Tensor | None, two: Tensor | None) -> bool:
    if one is None or two is None:
        return one is two
    if (one.shape, one.dtype) != (two.shape, two.dtype):
        return False
    return torch.equal(one.detach().nan_to_num(), two.nan_to_num())


def _why_looped(reason: str) -> str:
    return (
        f"torch.func cannot vectorise this module ({reason}); K is computed by one backward "
        "pass for each example and logit: the same numbers, more slowly."
    )


class _MadeBytes(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch leaves it so
    """Counts the bytes of every tensor that an operation makes; views make none.

    `unfolded`: the largest input that a convolution may unfold within.
    """

    total = unfolded = 0

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        given = {storage.data_ptr() for storage in _storages([args, kwargs])}
        made = {s.data_ptr(): s.nbytes() for s in _storages(result)}
        self.total += sum(size for place, size in made.items() if place not in given)
        if func.overloadpacket in _CONVOLUTIONS:
            backward = func.overloadpacket is not torch.ops.aten.convolution
            inputs, weight, transposed = args[1:3] + args[7:8] if backward else args[:2] + args[6:7]
            maps = inputs if transposed else args[0] if backward else result
            unfolded = maps.numel() // weight.shape[0] * weight[0].numel()
            self.unfolded = max(self.unfolded, unfolded * maps.element_size())
        return result


class _Prelu(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch leaves it so
    """Whether PReLU is `met`. torch 2.10 to 2.13: vmap over logits within vmap over examples fails,
    and in silence is wrong where they are as many."""

    met = False

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        self.met |= func.overloadpacket is torch.ops.aten._prelu_kernel
        return func(*args, **(kwargs or {}))


_CONVOLUTIONS = (torch.ops.aten.convolution, torch.ops.aten.convolution_backward)


def _storages(tree: Any) -> Iterator[torch.UntypedStorage]:
    for leaf in torch.utils._pytree.tree_leaves(tree):
        if isinstance(leaf, Tensor):
            yield leaf.untyped_storage()


def _aliases(module: nn.Module, trained: Mapping[str, Tensor]) -> dict[str, str]:
    """Every place of a trained parameter and the name that it has in `trained`.

    Places of a module with two names are listed once: torch, which ties by name, would put a
    parameter there twice and then leave its own in the module.
    """
    names = {id(parameter): name for name, parameter in trained.items()}
    return {
        f"{part_name}.{own}".lstrip("."): names[id(parameter)]
        for part_name, part in module.named_modules()
        for own, parameter in part.named_parameters(recurse=False)
        if id(parameter) in names
    }


def _refuse_training_mode(module: nn.Module) -> None:
    norms, dropouts = nn.modules.batchnorm._NormBase, nn.modules.dropout._DropoutNd
    for name, part in module.named_modules():
        where = f"Layer {name} ({type(part).__name__})" if name else type(part).__name__
        if isinstance(part, nn.modules.batchnorm._BatchNorm) and part.running_mean is None:
            raise ArgumentError(
                f"{where} has no running statistics: it couples the examples.", kind="missing"
            )
        if not part.training:
            continue
        if isinstance(part, norms) and part.track_running_stats:
            raise ArgumentError(
                f"{where} couples the examples in training mode" + EVAL_FIRST + ".",
                kind="couples-examples",
            )
        drops = part.p if isinstance(part, dropouts) else getattr(part, "dropout", 0.0)
        if isinstance(part, nn.RReLU) or (isinstance(drops, float) and drops > 0):
            raise ArgumentError(
                f"{where} is random in training mode" + EVAL_FIRST + ".", kind="random"
            )


def logits_of(output: object, n: int, softmax: SoftmaxInputs | None = None) -> Tensor:
    """Return the logits (n, C) in what a module returns for n examples (see `output_tensor`).

    Args:
        output: a tensor (n, C), or (n,) of one logit, or an object that holds one.
        n: the number of examples.
        softmax: what was active during the pass: logits are then those before a softmax that
            made `output`.

    Raises:
        ValueError: it is something else.
    """
    wanted = "K needs one real tensor (n, C) of logits: wrap the module in one that returns that."
    tensor = output_tensor(output)
    if tensor is None:
        raise ArgumentError(f"The module returns {returned(output)}; {wanted}", kind="no-logits")
    if softmax is not None:
        tensor = softmax.before(tensor)
    shape = tuple(tensor.shape)
    if not tensor.is_floating_point() or len(shape) not in (1, 2) or shape[0] != n or 0 in shape:
        raise ArgumentError(
            f"The module returns {returned(tensor)} for {n} examples; {wanted}", kind="no-logits"
        )
    return tensor.reshape(n, -1)


def _is_close(one: Tensor, two: Tensor) -> bool:
    """Equal up to rounding; what is not finite is left to whoever reads the kernel."""
    scale, other, error = (
        float(torch.linalg.vector_norm(t.detach(), ord=float("inf"))) for t in (one, two, one - two)
    )
    return not error > sqrt(torch.finfo(one.dtype).eps) * max(scale, other)


def _first_sentence(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else "no reason given").split(". ")[0].rstrip(".")
