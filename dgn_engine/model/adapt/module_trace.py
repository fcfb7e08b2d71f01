"""Traces a module call by call while random inputs pass through a copy of it.

Unlike a symbolic trace this sees what the module really does: shapes that its code reads, hooks,
in-place changes and which tensor they reach, and whether autograd follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from dgn_engine.errors import UserError
from dgn_engine.model.adapt.module_calls import (
    OPERATIONS,
    CallSite,
    Operation,
    PoolCall,
    ReshapeCall,
    SoftmaxCall,
    parameters_of,
)
from dgn_engine.model.adapt.module_draws import PassRefusedError, refuse_draws
from dgn_engine.model.adapt.module_outputs import End, describe_output, output_tensor
from dgn_engine.model.adapt.plain_access import copy_module, module_registry, named_parts
from dgn_engine.model.architecture import Flatten, GlobalAveragePool, GlobalMaxPool

# What code may query about a tensor without using its values.
_QUERIES = frozenset(
    [
        "size",
        "dim",
        "ndimension",
        "numel",
        "nelement",
        "len",
        "stride",
        "hash",
        "format",
        "element_size",
        "get_device",
        "is_contiguous",
        "is_floating_point",
        "is_complex",
    ]
)
_PROPERTIES = frozenset(
    [
        "shape",
        "ndim",
        "dtype",
        "device",
        "layout",
        "names",
        "requires_grad",
        "is_leaf",
        "is_cuda",
        "is_mps",
        "is_meta",
        "is_mkldnn",
        "is_nested",
        "is_quantized",
        "is_sparse",
    ]
)


@dataclass(frozen=True)
class TracedCall:
    """One recorded call.

    Attributes:
        where: The layer, for messages.
        operation: What was called.
        inputs: Numbers of its input values; 0 is the module's input.
        output: Number of its output value.
        channels: Number of channels of its output.
    """

    where: str
    operation: Operation
    inputs: tuple[int, ...]
    output: int
    channels: int


@dataclass(frozen=True)
class ModuleTrace:
    """The recorded run of random inputs through a float64 copy of a module on the CPU.

    Attributes:
        copy: The copy.
        calls: The calls in order.
        values: Each value with its autograd graph; `None` if it was overwritten in place.
        returned: Number of the value that the module returned.
        last: Number of the logits: the same, or the input of the softmax at the `end`.
        end: That softmax, or ''.
    """

    copy: nn.Module
    calls: tuple[TracedCall, ...]
    values: tuple[Tensor | None, ...]
    returned: int
    last: int
    end: End


def trace_module(module: nn.Module, input_shape: tuple[int, ...], examples: int = 2) -> ModuleTrace:
    """Trace a module.

    Args:
        module: The module.
        input_shape: Shape of one example.
        examples: Number of random examples.

    Returns:
        The trace.

    Raises:
        UserError: The module cannot be run or traced; the message gives the layer if possible.
    """
    copy = float64_copy(module)
    tracer = _Tracer(copy, random_inputs(input_shape, examples, seed=0))
    with _track_layers(copy, tracer.places):
        output = tracer.run()
    number = tracer.number_of(output)
    last, end = tracer.before_end(number)
    return ModuleTrace(copy, tuple(tracer.calls), tuple(tracer.values), number, last, end)


def random_inputs(input_shape: tuple[int, ...], examples: int, seed: int) -> Tensor:
    """Draw normal inputs, the same at every call.

    Args:
        input_shape: Shape of one example.
        examples: Number of examples.
        seed: Seed.

    Returns:
        Inputs, `(examples, *input_shape)`, float64.
    """
    generator = torch.Generator().manual_seed(seed)
    return torch.randn((examples, *input_shape), generator=generator, dtype=torch.float64)


def float64_copy(module: nn.Module) -> nn.Module:
    """Copy a module to float64 on the CPU.

    Args:
        module: The module.

    Returns:
        The copy.

    Raises:
        UserError: It cannot be copied or traced.
    """
    for name, part in named_parts(module):
        where = layer_label(name, part)
        if isinstance(part, torch.jit.ScriptModule):
            raise UserError(
                f"{where} was compiled by torch.jit; pass the original module.",
                kind="not-supported",
            )
        if "_orig_mod" in module_registry(part, "_modules"):
            raise UserError(
                f"{where} was compiled by torch.compile; pass the original module.",
                kind="not-supported",
            )
        for attribute in vars(part).values():
            if isinstance(attribute, Tensor) and attribute.grad_fn is not None:
                raise UserError(
                    f"{where} has a tensor that is computed from others (by weight_norm, for "
                    "example); only plain parameters are supported.",
                    kind="not-supported",
                )
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        if tensor.is_complex():
            raise UserError(
                f"'{name}' is complex; only real weights are supported.", kind="wrong-type"
            )
    for name, parameter in module.named_parameters():
        if parameter._backward_hooks:
            raise UserError(
                f"Parameter {name} has a gradient hook; remove it first.",
                kind="not-supported",
            )
    try:
        with refuse_draws():
            return copy_module(module).to("cpu", torch.float64)
    except PassRefusedError:
        raise
    except Exception as error:
        raise UserError(
            f"The module cannot be copied to float64: {first_line(error)}", kind="not-supported"
        ) from None


class _Tracer(TorchFunctionMode):
    """Watches all calls of torch functions and records those that depend on the inputs."""

    def __init__(self, copy: nn.Module, x: Tensor) -> None:
        super().__init__()
        self.places: list[str] = []
        self.calls: list[TracedCall] = []
        self.values: list[Tensor | None] = [x]
        self._copy = copy
        self._flat = [x.dim() == 2]
        # An id is unique only while its tensor is alive, so all tensors are kept.
        self._known: dict[int, tuple[int, int, Tensor]] = {id(x): (0, x._version, x)}
        tensors = chain(
            copy.named_parameters(remove_duplicate=False),
            copy.named_buffers(remove_duplicate=False),
        )
        self._names: dict[int, str] = {}
        self._held: dict[str, Tensor] = {}
        for name, tensor in tensors:
            self._held[self._names.setdefault(id(tensor), name)] = tensor
        self._trains = [False]  # for each value, whether it depends on a trained parameter
        self._ends: dict[int, TracedCall] = {}  # softmax calls by the number of their output
        self._refusal: UserError | None = None

    def run(self) -> Any:
        """Run the copy on the inputs and return its output."""
        x = self.values[0]
        assert x is not None
        try:
            with refuse_draws(), torch.enable_grad(), self:
                output = self._copy(x)
        except UserError:
            raise
        except Exception as error:
            if self._refusal is not None:
                raise self._refusal from None
            raise UserError(
                f"The module fails on inputs of shape {tuple(x.shape)}: {first_line(error)}",
                kind="cannot-run",
            ) from None
        if self._refusal is not None:  # the module caught the error
            raise self._refusal
        return output

    def number_of(self, output: Any) -> int:
        """Return the number of the value that the module returned."""
        tensor = output_tensor(output)
        if tensor is None:
            raise UserError(
                f"The module returns {describe_output(output)}; expected logits.", kind="no-logits"
            )
        if id(tensor) not in self._known:
            raise UserError(
                "The module's output does not come from layers that can be traced.",
                kind="no-logits",
            )
        if tensor.dim() != 2:
            raise UserError(
                f"The module returns shape {tuple(tensor.shape)}; expected logits (examples, "
                "classes).",
                kind="no-logits",
            )
        return self._value_number(tensor, "The module")

    def before_end(self, number: int) -> tuple[int, End]:
        """Return the number of the logits and which softmax, if any, was applied to them."""
        call = self._ends.get(number)
        if call is None:
            return number, ""
        assert isinstance(call.operation, SoftmaxCall)
        if self.values[call.inputs[0]] is None:
            raise UserError(
                f"The logits of {call.where} are changed in place afterwards, which is not "
                "supported.",
                kind="not-supported",
            )
        return call.inputs[0], call.operation.end

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        traced_inputs = [
            tensor for tensor in _nested_tensors((args, kwargs)) if id(tensor) in self._known
        ]
        if not traced_inputs or _is_query(func):
            return func(*args, **kwargs)
        try:
            return self._follow_call(func, args, kwargs, traced_inputs)
        except UserError as refusal:
            self._refusal = refusal
            raise

    def _follow_call(
        self,
        func: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        traced_inputs: Sequence[Tensor],
    ) -> Any:
        """Check, run and record one call."""
        where = self.places[-1] if self.places else "The module"
        name = _function_name(func)
        numbers = tuple(self._value_number(tensor, where) for tensor in traced_inputs)
        before = traced_inputs[0]
        shape, flat = self._network_shape(before, numbers[0]), self._flat[numbers[0]]
        site = CallSite(where, name, args, kwargs, shape, flat, self._names, len(traced_inputs))
        if name not in OPERATIONS or "out" in kwargs:
            site.refuse_call()
        if id(before) != id(args[0] if args else None) and name != "mul":
            site.refuse(f"passes a tensor that depends on its inputs to {name} as a parameter.")
        operation = OPERATIONS[name](site)
        trains = any(self._trains[number] for number in numbers) or self._has_trained(operation)
        if trains and operation is not None and not torch.is_grad_enabled():
            site.refuse(
                f"calls {name} under no_grad, in a custom function or in a backward hook although "
                "its parameters train; set their requires_grad to False, or call it with "
                "gradients enabled."
            )
        result = func(*args, **kwargs)
        self._check_result(site, before, result)
        if isinstance(operation, ReshapeCall):
            operation = _read_reshape(site, before, result)
        self._record_call(site, operation, numbers, result)
        if operation is not None:
            self._trains.append(trains)
        return result

    def _has_trained(self, operation: Operation | None) -> bool:
        """Check whether an operation uses a trained parameter."""
        names = () if operation is None else parameters_of(operation)
        return any(self._held[name].requires_grad for name in names)

    def _check_result(self, site: CallSite, before: Tensor, result: Any) -> None:
        """Refuse a call whose result cannot be part of a network."""
        if not isinstance(result, Tensor):
            site.refuse(f"calls {site.function}, which does not return a single tensor.")
        if result.dtype != torch.float64 or result.device != before.device:
            site.refuse(f"converts its inputs to {result.dtype}, which is not supported.")
        if result.dim() < 2 or len(result) != len(before):
            site.refuse(f"calls {site.function}, which mixes the examples.")

    def _record_call(
        self, site: CallSite, operation: Operation | None, numbers: tuple[int, ...], result: Tensor
    ) -> None:
        """Number the result of a call."""
        if operation is None:
            self._known[id(result)] = (numbers[0], result._version, result)
            return
        if id(result) in self._known:  # in place: the old value no longer exists
            self.values[self._known[id(result)][0]] = None
        self._known[id(result)] = (len(self.values), result._version, result)
        call = TracedCall(site.where, operation, numbers, len(self.values), result.shape[1])
        self.calls.append(call)
        if isinstance(operation, SoftmaxCall):
            self._ends[call.output] = call
        self.values.append(result)
        node = operation.node if isinstance(operation, PoolCall) else None
        flattens = isinstance(node, (Flatten, GlobalAveragePool, GlobalMaxPool))
        self._flat.append(self._flat[numbers[0]] or flattens)

    def _value_number(self, tensor: Tensor, where: str) -> int:
        """Return the number of a value that was not changed in place since."""
        number, version, _ = self._known[id(tensor)]
        if tensor._version != version:
            raise UserError(
                f"{where} uses a tensor that was changed in place through another view, which is "
                "not supported.",
                kind="not-supported",
            )
        return number

    def _network_shape(self, tensor: Tensor, number: int) -> tuple[int, ...]:
        """Return a shape without the batch axis; a pooled map is a vector, whatever axes remain."""
        shape = tuple(tensor.shape[1:])
        return shape[:1] if self._flat[number] else shape


def _read_reshape(site: CallSite, before: Tensor, result: Tensor) -> Operation | None:
    """Decide what a reshape is in the network: nothing, or flattening."""
    n = len(before)
    same = result.numel() == before.numel() and torch.equal(
        result.detach().reshape(n, -1), before.detach().reshape(n, -1)
    )
    if not same:
        site.refuse(f"calls {site.function}, which drops or reorders some of its inputs.")
    if result.shape == before.shape:
        return None
    if site.flat and result[0].numel() == result.shape[1]:
        return None
    if site.flat or result.dim() != 2:
        site.refuse(f"reshapes {site.shape} to {tuple(result.shape[1:])}, which is not supported.")
    return PoolCall(Flatten())


@contextmanager
def _track_layers(copy: nn.Module, places: list[str]) -> Iterator[None]:
    """Keep the layer whose forward is running as the last of `places`."""
    handles = []
    for name, part in copy.named_modules():

        def enter_layer(_: nn.Module, args: Any, where: str = layer_label(name, part)) -> None:
            places.append(where)

        def exit_layer(_: nn.Module, args: Any, output: Any) -> None:
            places.pop()

        handles.append(part.register_forward_pre_hook(enter_layer, prepend=True))
        handles.append(part.register_forward_hook(exit_layer, always_call=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def layer_label(name: str, part: nn.Module) -> str:
    """Name a layer in messages.

    Args:
        name: Its name in the module.
        part: The layer.

    Returns:
        For example 'Layer features.0 (Conv2d)'.
    """
    kind = type(part).__name__
    return f"Layer {name} ({kind})" if name else f"The module ({kind})"


def _function_name(func: Callable[..., Any]) -> str:
    """Return the name of a function without the underscores of operators and in-place variants."""
    name = getattr(func, "__name__", str(func))
    if name in ("__get__", "__set__", "__delete__"):
        return f"the property {getattr(getattr(func, '__self__', None), '__name__', '?')}"
    return name.strip("_")


def _is_query(func: Callable[..., Any]) -> bool:
    """Check whether a call only queries a tensor."""
    name = getattr(func, "__name__", "")
    if name == "__get__":
        return getattr(getattr(func, "__self__", None), "__name__", "") in _PROPERTIES
    return name.strip("_") in _QUERIES


def _nested_tensors(nested: Any) -> Iterator[Tensor]:
    """Yield the tensors in nested arguments."""
    if isinstance(nested, Tensor):
        yield nested
    elif isinstance(nested, (list, tuple)):
        for item in nested:
            yield from _nested_tensors(item)
    elif isinstance(nested, Mapping):
        yield from _nested_tensors(list(nested.values()))


def first_line(error: Exception) -> str:
    """Return the first line of an exception with its type.

    Args:
        error: The exception.

    Returns:
        For example 'ValueError: bad input'.
    """
    text = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
