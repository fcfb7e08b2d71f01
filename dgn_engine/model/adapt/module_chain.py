"""The calls of a module in the order of a network's nodes, with branches as residual blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from torch import nn

from dgn_engine.errors import UserError
from dgn_engine.model import architecture as arch
from dgn_engine.model.adapt.module_calls import (
    GateCall,
    NormCall,
    PadCall,
    PoolCall,
    ScaleCall,
    SoftmaxCall,
    SumCall,
    WeightCall,
    parameters_of,
)
from dgn_engine.model.adapt.module_stack import LayerSource, ModuleStack, ModuleState
from dgn_engine.model.adapt.module_trace import ModuleTrace, TracedCall

_COMMUTING = (arch.MaxPool, arch.GlobalMaxPool, arch.Flatten)


@dataclass(frozen=True)
class ModuleChain:
    """The network that a module was converted to.

    Attributes:
        architecture: Its architecture.
        sources: Where each weight layer comes from.
        fed: Number of the traced value that each weight layer takes as input.
        slopes: Slope of each gate layer for negative inputs, a number or the name of a parameter;
          empty if all are ReLU.
    """

    architecture: arch.Architecture
    sources: tuple[LayerSource, ...]
    fed: tuple[int, ...]
    slopes: tuple[float | str, ...]

    def make_stack(self, module: nn.Module, state: ModuleState | None = None) -> ModuleStack:
        """Create the weights of the network from a module.

        Args:
            module: The module, whose parameters are used.
            state: State to compare the module with whenever weights are read, or `None`.

        Returns:
            The weights.
        """
        return ModuleStack(self.architecture, self.sources, module, self.slopes, state)


@dataclass
class _Link:
    """One node of the chain and its origin."""

    node: arch.Node
    where: str
    source: LayerSource | None = None
    fed: int = -1
    slope: float | str = 0.0


def chain_of(trace: ModuleTrace, input_shape: tuple[int, ...]) -> ModuleChain:
    """Convert a trace to a chain of nodes.

    Args:
        trace: The recorded calls.
        input_shape: Shape of one example.

    Returns:
        The network.

    Raises:
        UserError: A layer is not supported in its position.
    """
    makers = {call.output: call for call in trace.calls}
    forks = _find_forks(trace)
    try:
        links = list(_pieces_between(0, trace.last, makers, forks, set()))
    except RecursionError:
        raise UserError(
            "The module has too many nested branches; only residual blocks are supported.",
            kind="not-supported",
        ) from None
    _check_parameters(links)
    chain = _link_pieces(links)
    weighted = [link for link in chain if link.source is not None]
    slopes = tuple(link.slope for link in chain if arch.is_gated(link.node))
    return ModuleChain(
        _make_architecture(input_shape, chain),
        tuple(link.source for link in weighted if link.source is not None),
        tuple(link.fed for link in weighted),
        slopes if any(slope != 0.0 for slope in slopes) else (),
    )


def _find_forks(trace: ModuleTrace) -> list[int]:
    """Find, for each value, the last earlier value that all paths from the input pass through."""
    forks = [0] * len(trace.values)
    for call in trace.calls:
        first, *others = call.inputs
        for other in others:
            while first != other:
                first, other = (forks[first], other) if first > other else (first, forks[other])
        forks[call.output] = first
    return forks


Piece = TracedCall | arch.Fork | arch.Skip | tuple[arch.Merge, str]


def _pieces_between(
    start: int,
    end: int,
    makers: dict[int, TracedCall],
    forks: Sequence[int],
    seen: set[int],
) -> Iterator[Piece]:
    """Yield the pieces between two values in order; an addition closes the block from its fork.

    Each call may occur once (`seen`); otherwise there are branches that are not blocks.
    """
    pieces: list[list[Piece]] = []
    while end != start:
        call = makers[end]
        if end in seen:
            inside = call.where[0].lower() + call.where[1:]
            raise UserError(
                f"The output of {inside} is used in several branches that do not meet in one "
                "addition; only residual blocks are supported.",
                kind="not-supported",
            )
        seen.add(end)
        if not isinstance(call.operation, SumCall):
            pieces.append([call])
            end = call.inputs[0]
            continue
        begin = forks[end]
        block, skip = (
            list(_pieces_between(begin, value, makers, forks, seen)) for value in call.inputs
        )
        factors = [1.0, call.operation.factor]
        # By convention the skip is the branch with fewer layers: the identity or projection.
        if len(block) < len(skip):
            block, skip = skip, block
            factors.reverse()
        for index, branch in enumerate((block, skip)):
            while branch and (factor := _scale_factor(branch[-1])) is not None:
                factors[index] *= factor
                branch.pop()
        if not all(factors):
            raise UserError(
                f"{call.where} adds a branch times 0, which is not supported.", kind="not-supported"
            )
        merge = arch.Merge(pre=factors[0] / factors[1], post=factors[1])
        pieces.append([arch.Fork(), *block, arch.Skip(), *skip, (merge, call.where)])
        end = begin
    for piece in reversed(pieces):
        yield from piece


def _scale_factor(piece: Piece) -> float | None:
    """Return the constant of a scaling, or `None`."""
    if isinstance(piece, TracedCall) and isinstance(piece.operation, ScaleCall):
        return piece.operation.factor
    return None


def _check_parameters(pieces: Sequence[Piece]) -> None:
    """Refuse tied parameters, whose tangent kernel is not a sum over layers."""
    owned: set[str] = set()
    for call in pieces:
        if not isinstance(call, TracedCall):
            continue
        for name in parameters_of(call.operation):
            if name in owned:
                raise UserError(
                    f"{call.where} uses the parameter {name} again; shared (tied) parameters are "
                    "not supported.",
                    kind="not-supported",
                )
        owned.update(parameters_of(call.operation))


def _link_pieces(pieces: Sequence[Piece]) -> list[_Link]:
    """Create one link per node, merging what follows a weight layer into it where possible."""
    chain: list[_Link] = []
    margin: TracedCall | None = None
    for piece in pieces:
        if margin is not None and not (
            isinstance(piece, TracedCall) and isinstance(piece.operation, WeightCall)
        ):
            raise UserError(
                f"{margin.where} pads something other than the input of a convolution, which is "
                "not supported.",
                kind="not-supported",
            )
        match piece:
            case arch.Fork() | arch.Skip():
                chain.append(_Link(piece, "A branch"))
            case (arch.Merge() as merge, where):
                chain.append(_Link(merge, where))
            case TracedCall(operation=PadCall()):
                margin = piece
            case TracedCall(operation=WeightCall()):
                chain.append(_weight_link(piece, margin))
                margin = None
            case TracedCall(operation=(NormCall() | ScaleCall())):
                _fold_scale(chain, piece)
            case TracedCall(operation=GateCall()):
                _attach_gate(chain, piece)
            case TracedCall(operation=SoftmaxCall()):
                raise UserError(
                    f"{piece.where} calls softmax, which is supported only at the end of the "
                    "module.",
                    kind="not-supported",
                )
            case TracedCall(operation=PoolCall() as pool):
                chain.append(_Link(pool.node, piece.where))
    return chain


def _weight_link(call: TracedCall, padded: TracedCall | None) -> _Link:
    """Create the link of a weight layer, with the padding before it."""
    operation = call.operation
    assert isinstance(operation, WeightCall)
    node = operation.node
    if padded is not None:
        pad = padded.operation
        assert isinstance(pad, PadCall)
        if not isinstance(node, arch.Conv) or node.padding:
            raise UserError(
                f"{call.where} is padded twice, which is not supported.", kind="not-supported"
            )
        node = replace(node, padding=pad.margin, circular=pad.circular)
    source = LayerSource(call.where, operation.weight, operation.bias)
    return _Link(node, call.where, source, (padded or call).inputs[0])


def _fold_scale(chain: list[_Link], call: TracedCall) -> None:
    """Fold a scaling or BatchNorm into the weight layer right before it, or into the addition."""
    operation = call.operation
    assert isinstance(operation, (NormCall, ScaleCall))
    last = chain[-1] if chain else None
    if all(link.source is None for link in chain):
        if isinstance(operation, NormCall):
            raise UserError(
                f"{call.where} (BatchNorm) must follow a Linear or Conv2d layer.",
                kind="not-supported",
            )
        raise UserError(
            f"{call.where} multiplies the inputs by {operation.factor:g} before the first weight "
            "layer; scale the data instead.",
            kind="not-supported",
        )
    if last is not None and last.source is not None and not arch.is_gated(last.node):
        last.source = replace(last.source, after=(*last.source.after, operation))
    elif last is not None and isinstance(last.node, arch.Merge) and _scale_factor(call):
        assert isinstance(operation, ScaleCall)
        last.node = replace(last.node, post=last.node.post * operation.factor)
    else:
        source = LayerSource(call.where, None, None, (operation,))
        node = arch.ChannelScale(call.channels)
        chain.append(_Link(node, call.where, source, call.inputs[0]))


def _attach_gate(chain: list[_Link], call: TracedCall) -> None:
    """Attach a gate to the weight layer before it, or insert a gate node.

    A ReLU commutes with max pooling and flattening; here gates come first.
    """
    operation = call.operation
    assert isinstance(operation, GateCall)
    rectifies = operation.slope == 0.0
    index = len(chain)
    while rectifies and index and isinstance(chain[index - 1].node, _COMMUTING):
        index -= 1
    before = chain[index - 1] if index else None
    if before is None or all(link.source is None for link in chain[:index]):
        raise UserError(
            f"{call.where} (an activation) must follow a Linear or Conv2d layer.",
            kind="not-supported",
        )
    if isinstance(before.node, (arch.Dense, arch.Conv)) and not before.node.gated:
        before.node, before.slope = replace(before.node, gated=True), operation.slope
    elif not (arch.is_gated(before.node) and rectifies and before.slope == 0.0):
        # A second ReLU would change nothing.
        chain.insert(index, _Link(arch.Gating(), call.where, slope=operation.slope))


def _make_architecture(input_shape: tuple[int, ...], chain: Sequence[_Link]) -> arch.Architecture:
    """Build the architecture, with the module's layer names in messages."""
    last = chain[-1] if chain else None
    if last is None or not isinstance(last.node, arch.Dense) or last.node.gated:
        where = "The module" if last is None else last.where
        raise UserError(
            f"{where} comes last, but the last layer must be a Linear layer without activation.",
            kind="no-gates",
        )
    weights = sum(link.source is not None for link in chain)
    if weights > 1 and not any(arch.is_gated(link.node) for link in chain):
        raise UserError(
            "The module has no gated layers: no weight layer is followed by an activation.",
            kind="no-gates",
        )
    try:
        return arch.Architecture(input_shape, tuple(link.node for link in chain))
    except UserError as refusal:
        names: dict[str, str] = {
            arch.node_name(index, link.node): link.where for index, link in enumerate(chain)
        }
        raise refusal.rename_places(lambda index: names.get(index, index)) from None
