"""The trace of many examples, put together from passes of some at a time."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from dgn_engine.model.network import NetworkTrace
from dgn_engine.model.stack import Trace


class JoinedTraces:
    """One trace of n examples; memory for all of them is taken with the first that is put in."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._whole: NetworkTrace | None = None

    def put(self, trace: NetworkTrace, part: slice) -> None:
        """The pass of the examples `part`."""
        if self._whole is None:
            self._whole = self._room(trace)
        for target, source in zip(_tensors(self._whole), _tensors(trace), strict=True):
            target[part] = source

    @property
    def whole(self) -> NetworkTrace:
        """The trace, once every example was put in."""
        assert self._whole is not None
        return self._whole

    def _room(self, trace: NetworkTrace) -> NetworkTrace:
        made: dict[int, Tensor] = {}  # by identity: what is the same there is the same here

        def room(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
            return tuple(made.setdefault(id(one), self._empty(one)) for one in tensors)

        def stack(one: Trace) -> Trace:
            output = room((one.output,))[0]
            return Trace(room(one.inputs), room(one.pre), room(one.gates), output, room(one.masks))

        feature = None if trace.feature is None else stack(trace.feature)
        return NetworkTrace(stack(trace.value), feature, room(trace.gate_pre))

    def _empty(self, like: Tensor) -> Tensor:
        return torch.empty((self._n, *like.shape[1:]), dtype=like.dtype, device=like.device)


def _tensors(trace: NetworkTrace) -> list[Tensor]:
    """All of them, in an order that depends on the network only; none twice."""
    found: list[Tensor] = []
    for stack in (trace.value, trace.feature):
        if stack is not None:
            found += [*stack.inputs, *stack.pre, *stack.gates, stack.output, *stack.masks]
    found += trace.gate_pre
    return list({id(one): one for one in found}.values())
