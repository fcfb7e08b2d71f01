"""Conversion of a user's module to a gated network whose kernels can be computed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from dgn_engine.errors import ArgumentError, UserError
from dgn_engine.model.adapt.module_chain import ModuleChain, chain_of
from dgn_engine.model.adapt.module_draws import refuse_draws
from dgn_engine.model.adapt.module_outputs import (
    End,
    SoftmaxInputs,
    apply_end,
    describe_output,
    output_tensor,
    softmax_remark,
)
from dgn_engine.model.adapt.module_stack import ModuleStack, ModuleState, module_tensor
from dgn_engine.model.adapt.module_trace import (
    ModuleTrace,
    first_line,
    float64_copy,
    random_inputs,
    trace_module,
)
from dgn_engine.model.adapt.plain_access import copy_module
from dgn_engine.model.gates import HARD, Gate, slope_gate
from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.stack import Stack, Trace

TOLERANCE = 1e-9  # relative to the largest number compared; both sides are float64
IN_FLOAT32 = 1e-2  # the same if one side is float32, whose rounding may also switch gates


def check_equal(chain: ModuleChain, trace: ModuleTrace, module: nn.Module) -> None:
    """Check that a network computes the same function as the module it was built from.

    In float64, on the inputs of `trace`, it compares the inputs of each weight layer, the outputs,
    and the gradients of a random combination of them by every trained parameter; the outputs also
    in a second run and for other batch sizes, and roughly in float32 if the module uses it. The
    module must not change its parameters or draw random numbers while it runs.

    Args:
        chain: The network.
        trace: The recorded run of a copy of the module.
        module: The module.

    Raises:
        UserError: They differ; the message gives the layer if possible.
    """
    _check_parameters_unchanged(chain, trace.copy, module)
    stack = chain.make_stack(trace.copy)
    gate = _gate_of(stack)
    x, output, final = (trace.values[number] for number in (0, trace.last, trace.returned))
    assert x is not None
    assert output is not None
    assert final is not None
    network_trace = stack.run(x, gate)
    _check_inputs(chain, trace, network_trace)
    last = chain.sources[-1].where
    if not _is_close(network_trace.output, output):
        raise UserError(
            f"{last}: the outputs of the module and of the network built from it differ by up to "
            f"{_format_difference(network_trace.output, output)}; it contains something "
            "unsupported.",
            kind="other-function",
        )
    _check_gradients(trace.copy, network_trace.output, output)
    if trace.end:
        _check_gradients(trace.copy, apply_end(trace.end, network_trace.output), final)
    shape = tuple(x.shape[1:])
    batches = [x, random_inputs(shape, len(x) + 1, seed=1), random_inputs(shape, 1, seed=3)]
    with torch.no_grad(), refuse_draws():
        for index, batch in enumerate(batches):
            occasion = "On another batch" if index else "In a second run"
            module_output = _run_again(trace.copy, batch, occasion)
            network_output = apply_end(trace.end, stack.run(batch, gate).output)
            if not _is_close(network_output, module_output):
                raise UserError(
                    f"{occasion} the outputs of the module and of the network built from it differ "
                    f"by up to {_format_difference(network_output, module_output)}; the "
                    "module depends on "
                    f"{'the batch' if index else 'previous calls'}.",
                    kind="couples-examples",
                )
        _check_float32(module, x, final)


def check_still_equal(
    chain: ModuleChain, end: End, module: nn.Module, x: Tensor, gradients: bool = True
) -> None:
    """Check that a network still computes the function of a module.

    A module's function can change in more ways than can be enumerated, so only its behaviour is
    compared, in float64: the logits before `end`, the gradients of a random combination of them,
    and roughly the float32 outputs. The state of `module` is not changed.

    Args:
        chain: The network.
        end: The softmax at the end of the module, or ''.
        module: The module now.
        x: Examples, `(n, ...)`, n > 1.
        gradients: Whether to compare gradients.

    Raises:
        UserError: They differ.
    """
    copy, x = float64_copy(module), x.detach().to("cpu", torch.float64)
    with refuse_draws(), torch.enable_grad(), SoftmaxInputs() as softmax:
        final = _run_again(copy, x, "On probe examples")
        output = softmax.logits_before(final)
    _check_parameters_unchanged(chain, copy, module)
    stack = chain.make_stack(copy)
    network_output = stack.run(x, _gate_of(stack)).output
    if not torch.isfinite(network_output).all() and not torch.isfinite(output).all():
        return  # training diverged, so there is nothing to compare
    if softmax.end != end or not _is_close(network_output, output):
        raise UserError(
            "On probe examples the outputs of the module and of the network built from it differ "
            f"by up to {_format_difference(network_output, output)}.",
            kind="other-function",
        )
    if gradients:
        _check_gradients(copy, network_output, output)
    with torch.no_grad(), refuse_draws():
        _check_float32(module, x, final)


def _gate_of(stack: ModuleStack) -> Callable[[int, Tensor], Tensor]:
    """Return the gate function of a module's network: hard gates or slopes."""
    slopes = stack.slopes()
    return lambda layer, q: HARD(q) if slopes is None else slope_gate(q, slopes[layer])


def _check_parameters_unchanged(chain: ModuleChain, copy: nn.Module, module: nn.Module) -> None:
    """Refuse a module that changes its weights during its forward pass.

    Its own pass would use other weights than those read beforehand.
    """
    owners = {name: source.where for source in chain.sources for name in source.tensor_names()}
    owners |= {slope: "An activation" for slope in chain.slopes if isinstance(slope, str)}
    for name, where in owners.items():
        before = module_tensor(module, name).detach().to("cpu", torch.float64)
        if not torch.allclose(
            module_tensor(copy, name), before, rtol=0.0, atol=0.0, equal_nan=True
        ):
            raise UserError(
                f"{where}: the forward pass changes parameter {name} (is it clamped or normalised "
                "in forward or a hook?), which is not supported.",
                kind="changes-state",
            )


def _run_again(module: nn.Module, x: Tensor, occasion: str) -> Tensor:
    """Run the module and return its outputs, `(n, classes)`.

    For a single example a module may omit the first axis.
    """
    try:
        output = module(x)
    except Exception as error:
        raise UserError(
            f"{occasion} ({len(x)} examples) the module fails: {first_line(error)}",
            kind="cannot-run",
        ) from None
    tensor = output_tensor(output)
    if tensor is None:
        raise UserError(
            f"{occasion} the module returns {describe_output(output)}; expected logits.",
            kind="no-logits",
        )
    return tensor[None] if len(x) == 1 and tensor.dim() == 1 else tensor


def _check_float32(module: nn.Module, x: Tensor, output: Tensor) -> None:
    """Check a float32 module in float32, since its code may depend on the dtype."""
    kinds = {p.dtype for p in module.parameters() if p.is_floating_point()}
    if kinds != {torch.float32}:
        return
    output_float32 = _run_again(copy_module(module).to("cpu"), x.float(), "In float32").double()
    largest = float(output.detach().abs().max()) * IN_FLOAT32 / TOLERANCE
    if not _is_close(output_float32, output, largest):
        raise UserError(
            "The module's outputs in float32 and float64 differ by up to "
            f"{_format_difference(output_float32, output)}: its code depends on the dtype, "
            "or its numbers "
            "overflow.",
            kind="other-function",
        )


def _check_inputs(chain: ModuleChain, trace: ModuleTrace, network_trace: Trace) -> None:
    """Compare the inputs of every weight layer."""
    for index, (node, fed) in enumerate(zip(chain.fed, network_trace.inputs, strict=True)):
        value = trace.values[node]
        if value is not None and not _is_close(fed.flatten(1), value.flatten(1)):
            raise UserError(
                f"{chain.sources[index].where}: its inputs in the module and in the network built "
                "from it differ by up to "
                f"{_format_difference(fed.flatten(1), value.flatten(1))}; what "
                "comes before it is not supported.",
                kind="other-function",
            )


def _check_gradients(copy: nn.Module, network: Tensor, module: Tensor) -> None:
    """Compare the gradients of a random combination of the outputs by every trained parameter."""
    named = [(name, p) for name, p in copy.named_parameters() if p.requires_grad]
    weights = random_inputs(tuple(module.shape[1:]), len(module), seed=2)
    network_gradients, module_gradients = (
        _parameter_gradients((output * weights).sum(), [p for _, p in named])
        for output in (network, module)
    )
    largest = max(
        (float(theirs.abs().max()) for theirs in module_gradients if theirs.numel()), default=0.0
    )
    for (name, _), ours, theirs in zip(named, network_gradients, module_gradients, strict=True):
        if not _is_close(ours, theirs, largest):
            raise UserError(
                f"The gradient of parameter {name} is different in the module (does it use detach, "
                "a hook or a custom autograd function?), so its tangent kernel would be wrong.",
                kind="other-function",
            )


def _parameter_gradients(total: Tensor, parameters: list[nn.Parameter]) -> list[Tensor]:
    """Differentiate by parameters; zero where there is no dependence."""
    if not parameters or not total.requires_grad:
        return [torch.zeros_like(p) for p in parameters]
    try:
        gradients = torch.autograd.grad(total, parameters, retain_graph=True, allow_unused=True)
    except RuntimeError as error:
        line = str(error).strip().partition("\n")[0]
        raise UserError(
            f"Autograd cannot differentiate the module: {line}", kind="not-supported"
        ) from None
    pairs = zip(gradients, parameters, strict=True)
    return [torch.zeros_like(p) if gradient is None else gradient for gradient, p in pairs]


def _is_close(one: Tensor, two: Tensor, largest: float | None = None) -> bool:
    """Compare two tensors up to rounding."""
    if one.shape != two.shape:
        return False
    if not one.numel():
        return True
    scale = float(two.detach().abs().max()) if largest is None else largest
    difference = float((one - two).detach().abs().max())
    return difference <= TOLERANCE * max(scale, 1e-300)  # false for NaN


def _format_difference(one: Tensor, two: Tensor) -> str:
    """Describe the difference of two tensors."""
    if one.shape != two.shape:
        return f"shapes {tuple(one.shape)} and {tuple(two.shape)}"
    return f"{float((one - two).detach().abs().max()):.2g}"


@dataclass(frozen=True)
class TracedNetwork:
    """The network of an adapted module.

    Attributes:
        network: The network.
        chain: How it was built.
        end: The softmax at the end of the module that the network skips, or ''.
    """

    network: GatedNetwork
    chain: ModuleChain
    end: End

    @property
    def remark(self) -> str:
        """Remark on a softmax that the network skips.

        Returns:
            A sentence, or ''.
        """
        return softmax_remark(self.end)


@dataclass(frozen=True)
class CopiedStack:
    """A copy of the weights of an adapted module, with a remark on what was skipped, or ''."""

    stack: Stack
    remark: str


def adapt(
    module: nn.Module,
    input_shape: tuple[int, ...],
    gates_from: nn.Module | None = None,
    gate: Gate = HARD,
) -> GatedNetwork:
    """Convert an `nn.Module` to a gated network, ready for every kernel.

    Random inputs are passed through a copy of the module and every call is recorded, so its own
    code, functions (`F.relu`), reused layers and skips are covered, as long as each call is a
    Linear, Conv2d, BatchNorm in evaluation mode, ReLU or another piecewise-linear slope, pooling,
    flattening, addition or constant factor. The result is compared with the module in float64,
    outputs and gradients.

    The weights of the network are the module's own parameters, not copies, and BatchNorm is folded
    in whenever they are read, so kernels follow the module's training; they are those of the module
    in evaluation mode. A tangent kernel is over the parameters that require gradients: weights,
    biases, γ and shifts of BatchNorm, slopes of PReLU. If layers, settings or hooks of the module
    change later, it must be adapted again.

    The network returns logits: a softmax or log_softmax over the classes at the end of the module
    is skipped, with a `RuntimeWarning`.

    Args:
        module: The module. It may return an object that contains the logits, as for
          `empirical_ntk`.
        input_shape: Shape of one example, without the batch axis.
        gates_from: A module of the same architecture that makes the gates; the result is then a
          deep gated network.
        gate: The gate function. Default: hard gates.

    Returns:
        The network.

    Raises:
        UserError: A layer is not supported, or the module does not behave like the network built
          from it; the message gives the layer.

    Examples:
        >>> module = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
        >>> network = adapt(module, input_shape=(8,))
        >>> [tuple(shape) for shape in network.architecture.gated_shapes]
        [(16,)]
    """
    followed = adapt_module(module, input_shape, gates_from, gate)
    if followed.remark:
        warnings.warn(followed.remark, RuntimeWarning, stacklevel=2)
    return followed.network


def adapt_module(
    module: nn.Module,
    input_shape: tuple[int, ...],
    gates_from: nn.Module | None = None,
    gate: Gate = HARD,
) -> TracedNetwork:
    """Run `adapt`, returning its remark as text instead of warning.

    Args:
        module: As for `adapt`.
        input_shape: As for `adapt`.
        gates_from: As for `adapt`.
        gate: As for `adapt`.

    Returns:
        The network and how it was built.

    Raises:
        UserError: As for `adapt`.
    """
    _check_arguments(module, input_shape, gates_from, gate)
    read = _read_module(module, input_shape)
    gates_read = read if gates_from is None else _read_module(gates_from, input_shape)
    chain, maker = read.chain, gates_read.chain
    if maker.architecture != chain.architecture:
        raise UserError(
            "The architecture of gates_from differs from that of module.", kind="not-supported"
        )
    if gate != HARD and maker.slopes:
        raise UserError(
            "Soft and open gates can only replace ReLU, but this module has other activations.",
            kind="contradiction",
        )
    value = read.make_stack()
    network = _network_of(value)
    network.gate = gate
    if gates_from is not None:
        network.own_gates = False
        network.feature = gates_read.make_stack()
        if any(network.feature.trained_slopes()):
            raise UserError(
                "gates_from has trained slopes (PReLU), which move the gates and are not counted "
                "by any kernel; set their requires_grad to False.",
                kind="frozen",
            )
    return TracedNetwork(network, chain, read.end)


def adapt_copy(followed: TracedNetwork, module: nn.Module, x: Tensor) -> TracedNetwork:
    """Return the network of another copy of a module that was adapted before.

    If the copy behaves like the previous network with its weights on the examples, that structure
    is reused; otherwise the copy is adapted from scratch.

    Args:
        followed: The previous result.
        module: The copy.
        x: Examples, `(n, ...)`.

    Returns:
        The network of the copy.

    Raises:
        UserError: The copy cannot be adapted, or behaves differently on these examples.
    """
    chain = followed.chain
    try:
        check_still_equal(chain, followed.end, module, x)
    except (UserError, AttributeError, TypeError, RuntimeError):  # e.g. a parameter is missing
        traced_again = adapt_module(module, tuple(x.shape[1:]))
        # Gradients are not compared: at kinks, such as ties in max pooling, autograd has its own.
        check_still_equal(traced_again.chain, traced_again.end, module, x, gradients=False)
        return traced_again
    return replace(followed, network=_network_of(chain.make_stack(module)))


def _network_of(stack: ModuleStack) -> GatedNetwork:
    """Build a network with the weights of a module."""
    network = GatedNetwork(stack.architecture).to(stack.weights[0])
    network.value = stack
    network.trains = ("value", "feature")
    return network


def _check_arguments(module: object, input_shape: object, gates_from: object, gate: object) -> None:
    """Raise `ArgumentError` for arguments of the wrong type."""
    for name, given in (("module", module), ("gates_from", gates_from)):
        if not isinstance(given, nn.Module) and (name == "module" or given is not None):
            raise ArgumentError(
                f"{name} is of type {type(given).__name__}; expected an nn.Module.",
                kind="wrong-type",
            )
    sides = tuple(input_shape) if isinstance(input_shape, (tuple, list)) else ()
    if not sides or not all(isinstance(side, int) and side > 0 for side in sides):
        raise ArgumentError(
            f"input_shape is {input_shape!r}; expected the shape of one example without the batch "
            "axis, such as (784,) or (3, 32, 32).",
            kind="wrong-type",
        )
    if not isinstance(gate, Gate):
        raise ArgumentError(
            f"gate is of type {type(gate).__name__}; expected a Gate.", kind="wrong-type"
        )


def adapted_stack(module: nn.Module, input_shape: tuple[int, ...]) -> Stack:
    """Copy the folded weights of an adapted module, together with their architecture.

    Args:
        module: As for `adapt`.
        input_shape: As for `adapt`.

    Returns:
        The copy.

    Raises:
        UserError: As for `adapt`, or the module has activations that are not gates.
    """
    return copy_stack(module, input_shape).stack


def copy_stack(module: nn.Module, input_shape: tuple[int, ...]) -> CopiedStack:
    """Run `adapted_stack`, returning also what was skipped.

    Args:
        module: As for `adapt`.
        input_shape: As for `adapt`.

    Returns:
        The copy and the remark.

    Raises:
        UserError: As for `adapted_stack`.
    """
    read = _read_module(module, input_shape)
    chain = read.chain
    if chain.slopes:
        raise UserError(
            "Activations with a slope for negative inputs (LeakyReLU, PReLU, abs) are not gates "
            "that open and close; only their kernels are available (dgn kernels --model).",
            kind="not-supported",
        )
    weights, biases = read.make_stack().folded_tensors()
    stack = Stack(chain.architecture, bias=[bias is not None for bias in biases]).to(weights[0])
    for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        stack.weights[layer] = nn.Parameter(weight.detach().clone())
        if bias is not None:
            stack.biases[layer] = nn.Parameter(bias.detach().clone())
    return CopiedStack(stack, softmax_remark(read.end))


@dataclass(frozen=True)
class _ReadModule:
    """A module, its network, and its state when it was read."""

    module: nn.Module
    chain: ModuleChain
    state: ModuleState
    end: End

    def make_stack(self) -> ModuleStack:
        """Return the weights of the network."""
        return self.chain.make_stack(self.module, self.state)


def _read_module(module: nn.Module, input_shape: tuple[int, ...]) -> _ReadModule:
    """Trace a module, build its network and compare the two."""
    state = ModuleState.from_module(module)
    trace = trace_module(module, tuple(input_shape))
    chain = chain_of(trace, tuple(input_shape))
    check_equal(chain, trace, module)
    volatile = state.changed_by(ModuleState.from_module(trace.copy))
    return _ReadModule(module, chain, replace(state, volatile=volatile), trace.end)
