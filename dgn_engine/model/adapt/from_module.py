"""Any user's module as a network whose kernels can be computed."""

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
    left_out,
    output_tensor,
    returned,
)
from dgn_engine.model.adapt.module_stack import ModuleStack, ModuleState, held
from dgn_engine.model.adapt.module_trace import (
    ModuleTrace,
    first_line,
    float64_copy,
    random_inputs,
    traced,
)
from dgn_engine.model.adapt.plain_access import copy_module
from dgn_engine.model.gates import HARD, Gate, slope_gate
from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.stack import Stack, Trace

TOLERANCE = 1e-9  # of the largest number compared; both sides are float64
IN_FLOAT32 = 1e-2  # where one of them is float32: its rounding, and gates that it switches


def check_equal(chain: ModuleChain, trace: ModuleTrace, module: nn.Module) -> None:
    """Raise `UserError` unless the network does what the module does.

    Compared in float64 on the inputs of `trace`: what each weight layer is fed, the outputs, and
    the gradient of a random combination of them by every parameter that trains; the outputs once
    more on the same inputs, on batches of other sizes, and roughly in float32 where that is the
    module's own. What it uses may not change while it runs, and it may draw nothing at random.
    """
    _check_kept(chain, trace.copy, module)
    stack = chain.stack(trace.copy)
    gate = _gate_of(stack)
    x, output, final = (trace.values[number] for number in (0, trace.last, trace.returned))
    assert x is not None
    assert output is not None
    assert final is not None
    found = stack.run(x, gate)
    _check_inputs(chain, trace, found)
    last = chain.sources[-1].where
    if not _alike(found.output, output):
        raise UserError(
            f"{last} gives other outputs than the network that was read from the module, by up to "
            f"{_difference(found.output, output)}: it does something that is not supported.",
            kind="other-function",
        )
    _check_gradients(trace.copy, found.output, output)
    if trace.end:
        _check_gradients(trace.copy, apply_end(trace.end, found.output), final)
    shape = tuple(x.shape[1:])
    batches = [x, random_inputs(shape, len(x) + 1, seed=1), random_inputs(shape, 1, seed=3)]
    with torch.no_grad(), refuse_draws():
        for place, batch in enumerate(batches):
            met = "On another batch" if place else "Run once more"
            given = _run_again(trace.copy, batch, met)
            network = apply_end(trace.end, stack.run(batch, gate).output)
            if not _alike(network, given):
                raise UserError(
                    f"{met} the module gives other outputs than the network that was read from "
                    f"it, by up to {_difference(network, given)}: what it does depends on "
                    f"{'the batch' if place else 'what it met before'}.",
                    kind="couples-examples",
                )
        _check_float32(module, x, final)


def check_still_equal(
    chain: ModuleChain, end: End, module: nn.Module, x: Tensor, gradients: bool = True
) -> None:
    """Raise `UserError` where a network that was read from a module is not what it is now.

    What a module computes may change in more ways than can be listed, so nothing of how it is made
    is compared but what it does on examples x (n, ...), n > 1, in float64: the logits before its
    `end`, and with `gradients` a random combination of them by every parameter that trains; and
    roughly in float32 where that is its own. No state of `module` itself is changed.
    """
    copy, x = float64_copy(module), x.detach().to("cpu", torch.float64)
    with refuse_draws(), torch.enable_grad(), SoftmaxInputs() as softmax:
        final = _run_again(copy, x, "On probe examples")
        output = softmax.before(final)
    _check_kept(chain, copy, module)
    stack = chain.stack(copy)
    found = stack.run(x, _gate_of(stack)).output
    if not torch.isfinite(found).all() and not torch.isfinite(output).all():
        return  # its training diverged: nothing can be compared
    if softmax.end != end or not _alike(found, output):
        raise UserError(
            "On probe examples the module gives other outputs than the network that was read from "
            f"it, by up to {_difference(found, output)}.",
            kind="other-function",
        )
    if gradients:
        _check_gradients(copy, found, output)
    with torch.no_grad(), refuse_draws():
        _check_float32(module, x, final)


def _gate_of(stack: ModuleStack) -> Callable[[int, Tensor], Tensor]:
    slopes = stack.slopes()
    return lambda layer, q: HARD(q) if slopes is None else slope_gate(q, slopes[layer])


def _check_kept(chain: ModuleChain, copy: nn.Module, module: nn.Module) -> None:
    """A module that changes its weights while it runs (to bound them, say) has others in its own
    pass than whoever reads them before it."""
    owners = {name: source.where for source in chain.sources for name in source.used()}
    owners |= {slope: "An activation" for slope in chain.slopes if isinstance(slope, str)}
    for name, where in owners.items():
        before = held(module, name).detach().to("cpu", torch.float64)
        if not torch.allclose(held(copy, name), before, rtol=0.0, atol=0.0, equal_nan=True):
            raise UserError(
                f"{where} has the parameter {name} changed by the module's own pass (bounded or "
                "normalised in its forward or a hook?), which is not supported.",
                kind="changes-state",
            )


def _run_again(module: nn.Module, x: Tensor, met: str) -> Tensor:
    """Its outputs, (n, classes); of one example a module may leave out the first axis."""
    try:
        output = module(x)
    except Exception as error:
        raise UserError(
            f"{met} ({len(x)} examples) the module cannot be run: {first_line(error)}",
            kind="cannot-run",
        ) from None
    tensor = output_tensor(output)
    if tensor is None:
        raise UserError(
            f"{met} the module returns {returned(output)}; logits are needed.", kind="no-logits"
        )
    return tensor[None] if len(x) == 1 and tensor.dim() == 1 else tensor


def _check_float32(module: nn.Module, x: Tensor, output: Tensor) -> None:
    """Code may ask for the dtype: what was followed in float64 is what runs in float32."""
    kinds = {p.dtype for p in module.parameters() if p.is_floating_point()}
    if kinds != {torch.float32}:
        return
    found = _run_again(copy_module(module).to("cpu"), x.float(), "In float32").double()
    largest = float(output.detach().abs().max()) * IN_FLOAT32 / TOLERANCE
    if not _alike(found, output, largest):
        raise UserError(
            "In float32 the module gives other outputs than in float64, by up to "
            f"{_difference(found, output)}: its code depends on the dtype, or its numbers "
            "overflow.",
            kind="other-function",
        )


def _check_inputs(chain: ModuleChain, trace: ModuleTrace, found: Trace) -> None:
    for place, (node, fed) in enumerate(zip(chain.fed, found.inputs, strict=True)):
        value = trace.values[node]
        if value is not None and not _alike(fed.flatten(1), value.flatten(1)):
            raise UserError(
                f"{chain.sources[place].where} is fed something else than in the network that was "
                f"read from the module, by up to {_difference(fed.flatten(1), value.flatten(1))}: "
                "what comes before it is not supported.",
                kind="other-function",
            )


def _check_gradients(copy: nn.Module, network: Tensor, module: Tensor) -> None:
    named = [(name, p) for name, p in copy.named_parameters() if p.requires_grad]
    weights = random_inputs(tuple(module.shape[1:]), len(module), seed=2)
    ones, twos = (
        _gradients((output * weights).sum(), [p for _, p in named]) for output in (network, module)
    )
    largest = max((float(two.abs().max()) for two in twos if two.numel()), default=0.0)
    for (name, _), one, two in zip(named, ones, twos, strict=True):
        if not _alike(one, two, largest):
            raise UserError(
                f"The gradient of the parameter {name} is another one in the module (detach, a "
                "hook, or a function of its own?): its tangent kernel is not the network's.",
                kind="other-function",
            )


def _gradients(total: Tensor, parameters: list[nn.Parameter]) -> list[Tensor]:
    if not parameters or not total.requires_grad:
        return [torch.zeros_like(p) for p in parameters]
    try:
        found = torch.autograd.grad(total, parameters, retain_graph=True, allow_unused=True)
    except RuntimeError as error:
        line = str(error).strip().partition("\n")[0]
        raise UserError(
            f"Autograd cannot differentiate the module: {line}", kind="not-supported"
        ) from None
    pairs = zip(found, parameters, strict=True)
    return [torch.zeros_like(p) if gradient is None else gradient for gradient, p in pairs]


def _alike(one: Tensor, two: Tensor, largest: float | None = None) -> bool:
    if one.shape != two.shape:
        return False
    if not one.numel():
        return True
    scale = float(two.detach().abs().max()) if largest is None else largest
    difference = float((one - two).detach().abs().max())
    return difference <= TOLERANCE * max(scale, 1e-300)  # false where something is not a number


def _difference(one: Tensor, two: Tensor) -> str:
    if one.shape != two.shape:
        return f"shapes {tuple(one.shape)} and {tuple(two.shape)}"
    return f"{float((one - two).detach().abs().max()):.2g}"


@dataclass(frozen=True)
class FollowedNetwork:
    """The network of `adapt`, and how it was read; `end`: the softmax that it leaves out."""

    network: GatedNetwork
    chain: ModuleChain
    end: End

    @property
    def remark(self) -> str:
        """What of the module the network leaves out, in a sentence, or ''."""
        return left_out(self.end)


@dataclass(frozen=True)
class CopiedStack:
    """The weights of `adapted_stack`; `remark`: what of the module it leaves out, or ''."""

    stack: Stack
    remark: str


def adapt(
    module: nn.Module,
    input_shape: tuple[int, ...],
    gates_from: nn.Module | None = None,
    gate: Gate = HARD,
) -> GatedNetwork:
    """The network that a module is, ready for every kernel.

    `input_shape` is without the batch axis. The module is followed while random inputs pass through
    a copy of it: its own code, functions (`F.relu`), layers used again and skips count, as long as
    every call is a Linear, Conv2d, BatchNorm in evaluation, ReLU or other slope, pooling,
    flattening, addition or constant factor. The result is compared with the module in float64,
    outputs and gradients.

    Its weights are the module's own parameters, not copies, and BatchNorms are folded in anew
    whenever they are read, so the kernels follow its training; they are those of the module in
    evaluation. A tangent kernel is over its parameters that train (`requires_grad`): weights,
    biases, γ and shifts of BatchNorms, slopes of PReLU. A module whose layers, settings or hooks
    are changed later is refused from then on, until it is adapted again.
    With `gates_from`, a module of the same architecture, the result is a deep gated network whose
    gates that module makes.

    The network gives logits: a softmax or log_softmax over the classes that comes last is left out,
    with a `RuntimeWarning`. A module may return an object that holds them, as for `empirical_ntk`.

    Raises `UserError` naming the layer that is not supported, or that does not do what was read.

    Examples:
        >>> module = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
        >>> network = adapt(module, input_shape=(8,))
        >>> [tuple(shape) for shape in network.architecture.gated_shapes]
        [(16,)]
    """
    followed = follow_module(module, input_shape, gates_from, gate)
    if followed.remark:
        warnings.warn(followed.remark, RuntimeWarning, stacklevel=2)
    return followed.network


def follow_module(
    module: nn.Module,
    input_shape: tuple[int, ...],
    gates_from: nn.Module | None = None,
    gate: Gate = HARD,
) -> FollowedNetwork:
    """`adapt` with its remark as text."""
    _check_arguments(module, input_shape, gates_from, gate)
    read = _read(module, input_shape)
    made = read if gates_from is None else _read(gates_from, input_shape)
    chain, maker = read.chain, made.chain
    if maker.architecture != chain.architecture:
        raise UserError(
            "The network that makes the gates has another architecture.", kind="not-supported"
        )
    if gate != HARD and maker.slopes:
        raise UserError(
            "Soft and open gates replace those of ReLU; this module has other slopes.",
            kind="contradiction",
        )
    value = read.stack()
    network = _network_of(value)
    network.gate = gate
    if gates_from is not None:
        network.own_gates = False
        network.feature = made.stack()
        if any(network.feature.trained_slopes()):
            raise UserError(
                "The network that makes the gates has slopes that train (PReLU): they move the "
                "gates, which no kernel here counts; set their requires_grad to False.",
                kind="frozen",
            )
    return FollowedNetwork(network, chain, read.end)


def follow_again(followed: FollowedNetwork, module: nn.Module, x: Tensor) -> FollowedNetwork:
    """Return the network that another copy of a module is, which was followed before.

    Where the copy does on examples x (n, ...) what that network does with its weights, it is that
    network; otherwise it is followed anew. Raises `UserError` where it cannot be, or where the
    network does something else on these examples.
    """
    chain = followed.chain
    try:
        check_still_equal(chain, followed.end, module, x)
    except (UserError, AttributeError, TypeError, RuntimeError):  # it may lack what was read of it
        anew = follow_module(module, tuple(x.shape[1:]))
        # not gradients: autograd has its own at a kink, as where what is pooled is equal
        check_still_equal(anew.chain, anew.end, module, x, gradients=False)
        return anew
    return replace(followed, network=_network_of(chain.stack(module)))


def _network_of(stack: ModuleStack) -> GatedNetwork:
    network = GatedNetwork(stack.architecture).to(stack.weights[0])
    network.value = stack
    network.trains = ("value", "feature")
    return network


def _check_arguments(module: object, input_shape: object, gates_from: object, gate: object) -> None:
    for name, given in (("module", module), ("gates_from", gates_from)):
        if not isinstance(given, nn.Module) and (name == "module" or given is not None):
            raise ArgumentError(
                f"{name} is of type {type(given).__name__}; a module is needed.", kind="wrong-type"
            )
    sides = tuple(input_shape) if isinstance(input_shape, (tuple, list)) else ()
    if not sides or not all(isinstance(side, int) and side > 0 for side in sides):
        raise ArgumentError(
            f"input_shape is {input_shape!r}; the shape of one example is needed, like (784,) or "
            "(3, 32, 32), without the batch axis.",
            kind="wrong-type",
        )
    if not isinstance(gate, Gate):
        raise ArgumentError(
            f"gate is of type {type(gate).__name__}; a Gate is needed.", kind="wrong-type"
        )


def adapted_stack(module: nn.Module, input_shape: tuple[int, ...]) -> Stack:
    """A copy of the weights of `adapt`, folded, with their architecture; raises `UserError` as it
    does."""
    return copy_stack(module, input_shape).stack


def copy_stack(module: nn.Module, input_shape: tuple[int, ...]) -> CopiedStack:
    """`adapted_stack` with what it leaves out, in a sentence."""
    read = _read(module, input_shape)
    chain = read.chain
    if chain.slopes:
        raise UserError(
            "Activations with a slope for negative inputs (LeakyReLU, PReLU, abs) are no gates "
            "that open and close; only their kernels are computed (dgn kernels --model).",
            kind="not-supported",
        )
    weights, biases = read.stack().tensors()
    stack = Stack(chain.architecture, bias=[bias is not None for bias in biases]).to(weights[0])
    for place, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        stack.weights[place] = nn.Parameter(weight.detach().clone())
        if bias is not None:
            stack.biases[place] = nn.Parameter(bias.detach().clone())
    return CopiedStack(stack, left_out(read.end))


@dataclass(frozen=True)
class _ReadModule:
    """A module, the network that it is, and what it was like when it was read."""

    module: nn.Module
    chain: ModuleChain
    state: ModuleState
    end: End

    def stack(self) -> ModuleStack:
        return self.chain.stack(self.module, self.state)


def _read(module: nn.Module, input_shape: tuple[int, ...]) -> _ReadModule:
    state = ModuleState.of(module)
    trace = traced(module, tuple(input_shape))
    chain = chain_of(trace, tuple(input_shape))
    check_equal(chain, trace, module)
    volatile = state.changed_by(ModuleState.of(trace.copy))
    return _ReadModule(module, chain, replace(state, volatile=volatile), trace.end)
