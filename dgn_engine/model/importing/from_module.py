"""Any user's module as a network whose kernels can be computed."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

from torch import Tensor, nn

from dgn_engine.errors import ArgumentError, UserError
from dgn_engine.model.gates import HARD, Gate
from dgn_engine.model.importing.module_chain import ModuleChain, chain_of
from dgn_engine.model.importing.module_check import check_equal, check_still_equal
from dgn_engine.model.importing.module_outputs import End, left_out
from dgn_engine.model.importing.module_stack import ModuleStack
from dgn_engine.model.importing.module_state import ModuleState
from dgn_engine.model.importing.module_trace import traced
from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.stack import Stack


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
        raise UserError("The network that makes the gates has another architecture.")
    if gate != HARD and maker.slopes:
        raise UserError("Soft and open gates replace those of ReLU; this module has other slopes.")
    value = read.stack()
    network = _network_of(value)
    network.gate = gate
    if gates_from is not None:
        network.own_gates = False
        network.feature = made.stack()
        if any(network.feature.trained_slopes()):
            raise UserError(
                "The network that makes the gates has slopes that train (PReLU): they move the "
                "gates, which no kernel here counts; set their requires_grad to False."
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
    stack = ModuleStack(chain.architecture, chain.sources, module, chain.slopes)
    return replace(followed, network=_network_of(stack))


def _network_of(stack: ModuleStack) -> GatedNetwork:
    network = GatedNetwork(stack.architecture).to(stack.weights[0])
    network.value = stack
    network.trains = ("value", "feature")
    return network


def _check_arguments(module: object, input_shape: object, gates_from: object, gate: object) -> None:
    for name, given in (("module", module), ("gates_from", gates_from)):
        if not isinstance(given, nn.Module) and (name == "module" or given is not None):
            raise ArgumentError(f"{name} is of type {type(given).__name__}; a module is needed.")
    sides = tuple(input_shape) if isinstance(input_shape, (tuple, list)) else ()
    if not sides or not all(isinstance(side, int) and side > 0 for side in sides):
        raise ArgumentError(
            f"input_shape is {input_shape!r}; the shape of one example is needed, like (784,) or "
            "(3, 32, 32), without the batch axis."
        )
    if not isinstance(gate, Gate):
        raise ArgumentError(f"gate is of type {type(gate).__name__}; a Gate is needed.")


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
            "that open and close; only their kernels are computed (dgn kernels --model)."
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
        chain = self.chain
        return ModuleStack(chain.architecture, chain.sources, self.module, chain.slopes, self.state)


def _read(module: nn.Module, input_shape: tuple[int, ...]) -> _ReadModule:
    state = ModuleState.of(module)
    trace = traced(module, tuple(input_shape))
    chain = chain_of(trace, tuple(input_shape))
    check_equal(chain, trace, module)
    volatile = state.changed_by(ModuleState.of(trace.copy))
    return _ReadModule(module, chain, replace(state, volatile=volatile), trace.end)
