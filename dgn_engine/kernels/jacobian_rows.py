"""Rows of a module's Jacobian, ∂ŷ_k(x)/∂θ over its trained parameters, and their memory."""

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
    describe_output,
    output_tensor,
    softmax_remark,
)

# Gradients of each trained parameter, (b, c, *shape) for b examples and c logits; for a complex
# parameter its real and imaginary parts, (b, c, *shape, 2).
Rows = dict[str, Tensor]


@dataclass(frozen=True)
class RowBytes:
    """Memory for computing rows of the Jacobian, in bytes.

    Attributes:
        fixed: Per example.
        each: Per logit of an example, in addition.
        copied: Size of the largest parameter's gradient in one row.
    """

    fixed: int
    each: int
    copied: int


class ModuleFunction:
    """A module as a function of its trained parameters, everything else fixed.

    Args:
        module: The module.
        examples: A few inputs, `(b, ...)`, to test it on.
        before_softmax: Whether to skip a softmax or log_softmax over the classes at its end.

    Attributes:
        parameters: The parameters that require gradients; a tied one appears once, under its first
          name.
        remark: Why `torch.func` cannot be used, or ''. Rows are then computed one by one by
          autograd.
        outputs: That a softmax was skipped, or that the outputs are probabilities, or ''.

    Raises:
        ValueError: The module is not a function of single examples: in training mode (if that
          matters), random, coupling a batch, or changing its buffers.
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
        self._aliases = _parameter_aliases(module, self.parameters)
        if not self.parameters:
            raise ArgumentError(
                "No parameter of the module has requires_grad, so K is zero.",
                kind="frozen",
            )
        with self.restore_attributes():
            self.output = self._probe_logits(examples, before_softmax)
            self.remark = self._vectorisation_failure(examples[:1])

    @property
    def classes(self) -> int:
        """Number of logits.

        Returns:
            C.
        """
        return len(self.output[0])

    @property
    def row_bytes(self) -> int:
        """Bytes of the gradients of one logit of one example.

        Returns:
            The sum over the parameters.
        """
        return sum(p.numel() * p.element_size() for p in self.parameters.values())

    @contextmanager
    def restore_attributes(self) -> Iterator[None]:
        """Restore the attributes of all submodules on exit.

        The old weight_norm stores the weight that it multiplies out, and hooks may count their
        calls.

        Yields:
            Nothing.
        """
        saved = [
            (part, dict(vars(part)), [(table, dict(table)) for table in _module_registries(part)])
            for part in self.module.modules()
        ]
        with differentiable_backends(self.module):
            try:
                yield
            finally:
                for part, attributes, registries in saved:
                    vars(part).clear()
                    vars(part).update(attributes)
                    for registry, items in registries:
                        registry.clear()
                        registry.update(items)

    def compute_rows(self, x: Tensor, basis: Tensor) -> Rows:
        """Compute rows of the Jacobian.

        Args:
            x: Inputs, `(b, ...)`.
            basis: Combinations of the logits, `(c, C)`.

        Returns:
            Gradients of ⟨basis[k], ŷ⟩ by parameter, `(b, c, *shape)` each.
        """
        if not self.remark:
            try:
                return self._vectorised_rows(x, basis)
            except Exception as error:  # fails for more examples or logits than were tested
                self.remark = _loop_warning(f"{type(error).__name__}: {_first_sentence(error)}")
        return self._looped_rows(x, basis)

    def measure_cost(self, x: Tensor) -> RowBytes:
        """Measure the memory that rows of the first example take.

        Args:
            x: Inputs, `(b, ...)`.

        Returns:
            An upper bound: the sum of all tensors created, as if none were freed.
        """
        basis = torch.eye(self.classes, dtype=self.output.dtype, device=x.device)
        first_bytes, remark = self._count_made_bytes(x[:1], basis[:1]), self.remark
        each = (
            first_bytes
            if self.classes == 1
            else self._count_made_bytes(x[:1], basis[:2]) - first_bytes
        )
        if self.remark != remark:  # one logit was vectorised, but two cannot be
            return self.measure_cost(x)
        each = max(each, self.row_bytes)
        largest = max(p.numel() * p.element_size() for p in self.parameters.values())
        return RowBytes(max(0, first_bytes - each), each, largest)

    def _count_made_bytes(self, x: Tensor, basis: Tensor) -> int:
        """Count the bytes created while computing rows."""
        with self.restore_attributes(), _AllocationCounter() as counter:  # type: ignore[no-untyped-call] # torch leaves it so
            self.compute_rows(x, basis)
        count: int = counter.total + counter.unfolded
        return count

    def _vectorised_rows(self, x: Tensor, basis: Tensor) -> Rows:
        """Compute rows with `torch.func`, vectorised over examples and logits."""
        fixed = {name: p.detach() for name, p in self.parameters.items()}

        def gradients(example: Tensor) -> Rows:
            def logits(parameters: Rows) -> Tensor:
                parameters_by_place = {
                    alias: parameters[name] for alias, name in self._aliases.items()
                }
                given = (example.unsqueeze(0),)
                call = partial(
                    functional_call, self.module, parameters_by_place, given, tie_weights=False
                )
                return self._logits_from_call(call, 1).reshape(-1)

            pull_back = vjp(logits, fixed)[1]
            if len(basis) == 1:
                return {name: row.unsqueeze(0) for name, row in pull_back(basis[0])[0].items()}
            rows_of_example: Rows = vmap(lambda weights: pull_back(weights)[0])(basis)
            return rows_of_example

        # Gradients are enabled outside `vjp`, too: without them torch runs an LSTM on a CPU in
        # inference mode, which saves nothing for the backward pass.
        with warnings.catch_warnings(), torch.enable_grad():
            # vmap loops over operators without a batching rule, which is only slower
            warnings.filterwarnings("ignore", message="There is a performance drop")
            rows: Rows = vmap(gradients)(x.detach())
        return {name: as_real(row) for name, row in rows.items()}

    def _looped_rows(self, x: Tensor, basis: Tensor) -> Rows:
        """Compute rows by definition, with one backward pass of the module for each."""
        shape = (len(x), len(basis))
        rows = {name: p.new_empty((*shape, *p.shape)) for name, p in self.parameters.items()}
        leaves = list(self.parameters.values())
        for index in range(len(x)):
            with torch.enable_grad():
                call = partial(self.module, x[index : index + 1])
                output = self._logits_from_call(call, 1).reshape(-1)
            for logit, weights in enumerate(basis):
                gradients = torch.autograd.grad(
                    output, leaves, weights, retain_graph=logit + 1 < len(basis), allow_unused=True
                )
                for row, gradient in zip(rows.values(), gradients, strict=True):
                    row[index, logit] = 0.0 if gradient is None else gradient
        return {name: as_real(row) for name, row in rows.items()}

    def _logits_from_call(self, call: Callable[[], object], n: int) -> Tensor:
        """Return the logits `(n, C)` of a call of the module, before a softmax that is skipped."""
        if not self._end:
            return logits_of(call(), n)
        with SoftmaxInputs() as softmax:
            logits = logits_of(call(), n, softmax)
        if softmax.end != self._end:
            raise ArgumentError(
                f"The module ends with {self._end} only for some examples.", kind="other-function"
            )
        return logits

    def _vectorisation_failure(self, example: Tensor) -> str:
        """Return why `torch.func` does not give autograd's gradients, as a sentence, or ''."""
        basis = self.output.new_ones((1, self.classes))
        with _Prelu() as prelu:  # type: ignore[no-untyped-call] # torch leaves it so
            plain = self._looped_rows(example, basis)
        try:
            rows = self._vectorised_rows(example, basis)
            equal = all(_is_close(rows[name], row) for name, row in plain.items())
            reason = "" if equal else "its gradients differ from autograd's"
            if prelu.met and self.classes > 1:
                reason = "its vmap of PReLU mixes up logits and examples"
        except Exception as error:  # anything that functorch or the module's code may raise
            reason = f"{type(error).__name__}: {_first_sentence(error)}"
        return _loop_warning(reason) if reason else ""

    def _probe_logits(self, x: Tensor, before_softmax: bool) -> Tensor:
        """Return the logits of one example; refuse a module that is not a function of it alone."""
        try:
            with refuse_draws(), self._fixed_buffers():
                with torch.enable_grad():
                    first = self._first_logits(x[:1], before_softmax)
                if not first.requires_grad:
                    raise ArgumentError(
                        "For autograd, the module's output depends on no trained parameter; look "
                        "for detach() or no_grad() in its forward.",
                        kind="frozen",
                    )
                with torch.no_grad():
                    again = self._logits_from_call(partial(self.module, x[:1]), 1)
                    last = self._logits_from_call(partial(self.module, x[-1:]), 1)
                    both = self._logits_from_call(
                        partial(self.module, torch.stack([x[0], x[-1]])), 2
                    )
        except ModuleDrawsError:
            raise ArgumentError(
                "The module draws random numbers" + self._training_mode_advice(EVAL_OR_LEAVE) + ".",
                kind="random",
            ) from None
        logits = first.detach()
        if not _is_close(logits, again):
            raise ArgumentError(
                "The module returns different outputs for the same inputs: it is random"
                f"{self._training_mode_advice('; call eval()')}.",
                kind="random",
            )
        if not _is_close(torch.cat([logits, last]), both):
            raise ArgumentError(
                "The module couples the examples of a batch: its output for one depends on the "
                "others, so no kernel of two examples exists.",
                kind="couples-examples",
            )
        return logits

    def _first_logits(self, x: Tensor, before_softmax: bool) -> Tensor:
        """Return the logits of one example `(1, C)` and detect a softmax at the end."""
        if not before_softmax:
            return logits_of(self.module(x), 1)
        with SoftmaxInputs() as softmax:
            output = self.module(x)
        outputs = logits_of(output, 1)
        logits = logits_of(output, 1, softmax)
        end = softmax.end
        if end and _is_close(apply_end(end, logits.detach()), outputs.detach()):
            self._end, self.outputs = end, softmax_remark(end)
            return logits
        if kind := are_probabilities(outputs.detach()):
            self.outputs = (
                f"Its outputs are {_PROBABILITIES[kind]}, not logits: K is computed for them."
            )
        return outputs

    def _training_mode_advice(self, advice: str) -> str:
        """Return `advice` if the module is in training mode, else that eval() does not help."""
        return advice if any(part.training for part in self.module.modules()) else EVALUATED

    @contextmanager
    def _fixed_buffers(self) -> Iterator[None]:
        """Refuse a module that changes its buffers, and restore their values.

        Which tensor is which buffer is restored by `restore_attributes`.
        """
        saved = [(name, part, _buffer_values(part)) for name, part in self.module.named_modules()]
        changed: list[str] = []
        try:
            yield
        finally:
            for name, part, before in saved:
                now = dict(part._buffers.items())
                for own, (buffer, value) in before.items():
                    if not _is_same(now.pop(own, None), value):
                        changed.append(f"{name}.{own}".lstrip("."))
                    if buffer is not None and value is not None and not _is_same(buffer, value):
                        _overwrite_buffer(buffer, value)
                changed += [f"{name}.{own}".lstrip(".") for own in now]
        if changed:
            raise ArgumentError(
                f"The module changes its buffer {changed[0]} while it computes"
                + self._training_mode_advice(EVAL_FIRST)
                + ".",
                kind="changes-state",
            )


EVALUATED = ", even after eval()"
# Advice for the user; if eval() was called already, callers show EVALUATED instead.
EVAL_FIRST = Hint("; call eval() first")
EVAL_OR_LEAVE = Hint("; call eval(), or remove the random layers")
_PROBABILITIES = {"Softmax": "probabilities", "LogSoftmax": "log-probabilities"}


@contextmanager
def differentiable_backends(module: nn.Module) -> Iterator[None]:
    """Select kernels that autograd can follow in evaluation mode.

    These are the plain attention, the only one that can be vectorised, and recurrent layers without
    cuDNN.

    Args:
        module: The module that will run.

    Yields:
        Nothing.
    """
    with ExitStack() as stack:
        stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        if any(isinstance(part, nn.RNNBase) for part in module.modules()):
            stack.enter_context(_without_cudnn())
        yield


@contextmanager
def _without_cudnn() -> Iterator[None]:
    """Disable cuDNN.

    `cudnn.flags` would also read its TF32 switch, for which torch raises once convolutions have
    their own (`precision`).
    """
    before = torch.backends.cudnn.enabled
    torch.backends.cudnn.enabled = False
    try:
        yield
    finally:
        torch.backends.cudnn.enabled = before


def as_real(tensor: Tensor) -> Tensor:
    """View a complex tensor as real numbers.

    Args:
        tensor: Any tensor.

    Returns:
        Real and imaginary parts along a last axis, `(..., 2)`; a real tensor unchanged.
    """
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _module_registries(part: nn.Module) -> list[dict[str, Any]]:
    """Return the parameters, buffers and children of a module that are Python dictionaries."""
    registries = [vars(part).get(name) for name in ("_parameters", "_buffers", "_modules")]
    return [each for each in registries if isinstance(each, dict)]


def _buffer_values(part: nn.Module) -> dict[str, tuple[Tensor | None, Tensor | None]]:
    """Return the buffers of a module, each with a copy of its value."""
    return {
        name: (buffer, None if buffer is None else buffer.detach().clone())
        for name, buffer in part._buffers.items()
    }


@torch.no_grad()
def _overwrite_buffer(buffer: Tensor, value: Tensor) -> None:
    """Write a value into a buffer in place."""
    if buffer.grad_fn is not None:  # left by what was written into it
        buffer.detach_()
    buffer.resize_(value.shape).copy_(value)


def _is_same(one: Tensor | None, two: Tensor | None) -> bool:
    """Compare two tensors exactly, treating NaN as equal."""
    if one is None or two is None:
        return one is two
    if (one.shape, one.dtype) != (two.shape, two.dtype):
        return False
    return torch.equal(one.detach().nan_to_num(), two.nan_to_num())


def _loop_warning(reason: str) -> str:
    return (
        f"torch.func cannot vectorise this module ({reason}); K is computed with one backward "
        "pass per example and logit, which gives the same result more slowly."
    )


class _AllocationCounter(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch leaves it so
    """Counts the bytes of every tensor that an operation creates; views create none.

    Attributes:
        unfolded: Size of the largest input that a convolution may unfold internally.
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
        given = {storage.data_ptr() for storage in _tensor_storages([args, kwargs])}
        new_storages = {s.data_ptr(): s.nbytes() for s in _tensor_storages(result)}
        self.total += sum(size for pointer, size in new_storages.items() if pointer not in given)
        if func.overloadpacket in _CONVOLUTIONS:
            backward = func.overloadpacket is not torch.ops.aten.convolution
            inputs, weight, transposed = args[1:3] + args[7:8] if backward else args[:2] + args[6:7]
            maps = inputs if transposed else args[0] if backward else result
            unfolded = maps.numel() // weight.shape[0] * weight[0].numel()
            self.unfolded = max(self.unfolded, unfolded * maps.element_size())
        return result


class _Prelu(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch leaves it so
    """Detects PReLU.

    In torch 2.10 to 2.13, vmap over logits within vmap over examples fails for it, and is silently
    wrong if there are as many of both.
    """

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


def _tensor_storages(tree: Any) -> Iterator[torch.UntypedStorage]:
    """Yield the storages of all tensors in a nested structure."""
    for leaf in torch.utils._pytree.tree_leaves(tree):
        if isinstance(leaf, Tensor):
            yield leaf.untyped_storage()


def _parameter_aliases(module: nn.Module, trained: Mapping[str, Tensor]) -> dict[str, str]:
    """Map every place of a trained parameter to its name in `trained`.

    A module with two names is listed once: torch, which ties by name, would put a parameter there
    twice and then leave its own in the module.
    """
    names = {id(parameter): name for name, parameter in trained.items()}
    return {
        f"{part_name}.{own}".lstrip("."): names[id(parameter)]
        for part_name, part in module.named_modules()
        for own, parameter in part.named_parameters(recurse=False)
        if id(parameter) in names
    }


def _refuse_training_mode(module: nn.Module) -> None:
    """Raise `ArgumentError` for layers that couple examples or are random in training mode."""
    norms, dropouts = nn.modules.batchnorm._NormBase, nn.modules.dropout._DropoutNd
    for name, part in module.named_modules():
        where = f"Layer {name} ({type(part).__name__})" if name else type(part).__name__
        if isinstance(part, nn.modules.batchnorm._BatchNorm) and part.running_mean is None:
            raise ArgumentError(
                f"{where} has no running statistics, so it couples the examples.", kind="missing"
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
    """Return the logits in the output of a module (see `output_tensor`).

    Args:
        output: Tensor `(n, C)`, or `(n,)` for one logit, or an object that contains one.
        n: Number of examples.
        softmax: Context that was active during the call; the logits are then those before the
          softmax that produced `output`.

    Returns:
        The logits, `(n, C)`.

    Raises:
        ValueError: The output contains no such tensor.
    """
    wanted = "K needs a single real tensor (n, C) of logits; wrap the module in one returning that."
    tensor = output_tensor(output)
    if tensor is None:
        raise ArgumentError(
            f"The module returns {describe_output(output)}. {wanted}", kind="no-logits"
        )
    if softmax is not None:
        tensor = softmax.logits_before(tensor)
    shape = tuple(tensor.shape)
    if not tensor.is_floating_point() or len(shape) not in (1, 2) or shape[0] != n or 0 in shape:
        raise ArgumentError(
            f"The module returns {describe_output(tensor)} for {n} examples. {wanted}",
            kind="no-logits",
        )
    return tensor.reshape(n, -1)


def _is_close(one: Tensor, two: Tensor) -> bool:
    """Compare two tensors up to rounding; NaN is left to whoever reads the kernel."""
    scale, other, error = (
        float(torch.linalg.vector_norm(t.detach(), ord=float("inf"))) for t in (one, two, one - two)
    )
    return not error > sqrt(torch.finfo(one.dtype).eps) * max(scale, other)


def _first_sentence(error: Exception) -> str:
    """Return the first sentence of an exception's message."""
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else "no reason given").split(". ")[0].rstrip(".")
