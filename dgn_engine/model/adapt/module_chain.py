"""The calls of a module put in the order of a network's nodes: its branches become blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from torch import nn

from dgn_engine.errors import UserError
from dgn_engine.model import architecture as arch
from dgn_engine.model.adapt.module_calls import (
    EndCall,
    GateCall,
    NormCall,
    PadCall,
    PoolCall,
    ScaleCall,
    SumCall,
    WeightCall,
    parameters_of,
)
from dgn_engine.model.adapt.module_stack import LayerSource, ModuleStack, ModuleState
from dgn_engine.model.adapt.module_trace import ModuleTrace, TracedCall

_COMMUTING = (arch.MaxPool, arch.GlobalMaxPool, arch.Flatten)


@dataclass(frozen=True)
class ModuleChain:
    """The network that a module is. `fed`: of each weight layer, the value of the trace that it
    takes. `slopes`: of each gate layer its slope for negative inputs, a number or the name of a
    parameter; empty where all are ReLU."""

    architecture: arch.Architecture
    sources: tuple[LayerSource, ...]
    fed: tuple[int, ...]
    slopes: tuple[float | str, ...]

    def stack(self, module: nn.Module, state: ModuleState | None = None) -> ModuleStack:
        return ModuleStack(self.architecture, self.sources, module, self.slopes, state)


@dataclass
class _Link:
    """One node of the chain, and what it comes from."""

    node: arch.Node
    where: str
    source: LayerSource | None = None
    fed: int = -1
    slope: float | str = 0.0


def chain_of(trace: ModuleTrace, input_shape: tuple[int, ...]) -> ModuleChain:
    """Raises `UserError` naming the layer that no network of ours has in its place."""
    makers = {call.output: call for call in trace.calls}
    forks = _forks(trace)
    try:
        links = list(_links(0, trace.last, makers, forks, set()))
    except RecursionError:
        raise UserError(
            "The module has too many branches within branches; only residual blocks are supported.",
            kind="not-supported",
        ) from None
    _check_parameters(links)
    chain = _joined(links)
    weighted = [link for link in chain if link.source is not None]
    slopes = tuple(link.slope for link in chain if arch.is_gated(link.node))
    return ModuleChain(
        _architecture(input_shape, chain),
        tuple(link.source for link in weighted if link.source is not None),
        tuple(link.fed for link in weighted),
        slopes if any(slope != 0.0 for slope in slopes) else (),
    )


def _forks(trace: ModuleTrace) -> list[int]:
    """Of each value the last one before it that every way from the input passes."""
    forks = [0] * len(trace.values)
    for call in trace.calls:
        one, *others = call.inputs
        for other in others:
            while one != other:
                one, other = (forks[one], other) if one > other else (one, forks[other])
        forks[call.output] = one
    return forks


Piece = TracedCall | arch.Fork | arch.Skip | tuple[arch.Merge, str]


def _links(
    start: int,
    end: int,
    makers: dict[int, TracedCall],
    forks: Sequence[int],
    seen: set[int],
) -> Iterator[Piece]:
    """What lies between two values, in order; an addition closes a block that began at its fork.

    Each call may be met once (`seen`): else there are ways that are no blocks.
    """
    pieces: list[list[Piece]] = []
    while end != start:
        call = makers[end]
        if end in seen:
            inside = call.where[0].lower() + call.where[1:]
            raise UserError(
                f"The output of {inside} takes several ways that do not meet again in "
                "one addition; only residual blocks are supported.",
                kind="not-supported",
            )
        seen.add(end)
        if not isinstance(call.operation, SumCall):
            pieces.append([call])
            end = call.inputs[0]
            continue
        begin = forks[end]
        block, skip = (list(_links(begin, value, makers, forks, seen)) for value in call.inputs)
        factors = [1.0, call.operation.factor]
        # The skip is the branch with fewer layers, by convention the identity or projection.
        if len(block) < len(skip):
            block, skip = skip, block
            factors.reverse()
        for place, branch in enumerate((block, skip)):
            while branch and (factor := _factor(branch[-1])) is not None:
                factors[place] *= factor
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


def _factor(piece: Piece) -> float | None:
    if isinstance(piece, TracedCall) and isinstance(piece.operation, ScaleCall):
        return piece.operation.factor
    return None


def _check_parameters(pieces: Sequence[Piece]) -> None:
    """Each parameter may be met once: of tied weights the tangent kernel is not the sum over
    layers."""
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


def _joined(pieces: Sequence[Piece]) -> list[_Link]:
    """One link for each node: what follows a weight layer becomes a part of it where it can."""
    chain: list[_Link] = []
    margin: TracedCall | None = None
    for piece in pieces:
        if margin is not None and not (
            isinstance(piece, TracedCall) and isinstance(piece.operation, WeightCall)
        ):
            raise UserError(
                f"{margin.where} pads what no convolution takes at once, which is not supported.",
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
                chain.append(_weighted(piece, margin))
                margin = None
            case TracedCall(operation=(NormCall() | ScaleCall())):
                _scale(chain, piece)
            case TracedCall(operation=GateCall()):
                _gate(chain, piece)
            case TracedCall(operation=EndCall()):
                raise UserError(
                    f"{piece.where} calls softmax, which is supported only as what the module does "
                    "last.",
                    kind="not-supported",
                )
            case TracedCall(operation=PoolCall() as pool):
                chain.append(_Link(pool.node, piece.where))
    return chain


def _weighted(call: TracedCall, padded: TracedCall | None) -> _Link:
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


def _scale(chain: list[_Link], call: TracedCall) -> None:
    """Into the weight layer right before it, or the addition."""
    operation = call.operation
    assert isinstance(operation, (NormCall, ScaleCall))
    last = chain[-1] if chain else None
    if all(link.source is None for link in chain):
        if isinstance(operation, NormCall):
            raise UserError(
                f"{call.where} (BatchNorm) does not follow a Linear or Conv2d layer.",
                kind="not-supported",
            )
        raise UserError(
            f"{call.where} multiplies its inputs by {operation.factor:g} before any layer with "
            "weights; scale the data instead.",
            kind="not-supported",
        )
    if last is not None and last.source is not None and not arch.is_gated(last.node):
        last.source = replace(last.source, after=(*last.source.after, operation))
    elif last is not None and isinstance(last.node, arch.Merge) and _factor(call):
        assert isinstance(operation, ScaleCall)
        last.node = replace(last.node, post=last.node.post * operation.factor)
    else:
        source = LayerSource(call.where, None, None, (operation,))
        node = arch.ChannelScale(call.channels)
        chain.append(_Link(node, call.where, source, call.inputs[0]))


def _gate(chain: list[_Link], call: TracedCall) -> None:
    """At the weight layer before it, else as a node of its own.

    A ReLU commutes with max pooling and flattening: gates come first here.
    """
    operation = call.operation
    assert isinstance(operation, GateCall)
    rectifies = operation.slope == 0.0
    place = len(chain)
    while rectifies and place and isinstance(chain[place - 1].node, _COMMUTING):
        place -= 1
    before = chain[place - 1] if place else None
    if before is None or all(link.source is None for link in chain[:place]):
        raise UserError(
            f"{call.where} (an activation) does not follow a Linear or Conv2d layer.",
            kind="not-supported",
        )
    if isinstance(before.node, (arch.Dense, arch.Conv)) and not before.node.gated:
        before.node, before.slope = replace(before.node, gated=True), operation.slope
    elif not (arch.is_gated(before.node) and rectifies and before.slope == 0.0):
        # A second ReLU changes nothing.
        chain.insert(place, _Link(arch.Gating(), call.where, slope=operation.slope))


def _architecture(input_shape: tuple[int, ...], chain: Sequence[_Link]) -> arch.Architecture:
    last = chain[-1] if chain else None
    if last is None or not isinstance(last.node, arch.Dense) or last.node.gated:
        where = "The module" if last is None else last.where
        raise UserError(
            f"{where} comes last, but a network here ends with a Linear layer without activation.",
            kind="no-gates",
        )
    weights = sum(link.source is not None for link in chain)
    if weights > 1 and not any(arch.is_gated(link.node) for link in chain):
        raise UserError(
            "The module has no gated layers: no activation follows its weights.", kind="no-gates"
        )
    try:
        return arch.Architecture(input_shape, tuple(link.node for link in chain))
    except UserError as refusal:
        names: dict[str, str] = {
            arch.node_name(place, link.node): link.where for place, link in enumerate(chain)
        }
        raise refusal.renamed(lambda place: names.get(place, place)) from None
