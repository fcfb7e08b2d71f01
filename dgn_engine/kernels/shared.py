"""Everything asked of one network on the same inputs, from one forward pass and one sweep each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import torch
from torch import Tensor

from dgn_engine.errors import ArgumentError
from dgn_engine.kernels.arguments import (
    check_flag,
    check_network_inputs,
    check_paths,
    check_trains,
    check_word,
)
from dgn_engine.kernels.expectation import expected_value_kernel, weight_sigmas
from dgn_engine.kernels.gram import KernelBlock, accumulator, flat_gram
from dgn_engine.kernels.ntk import Logits, check_gates_are_made, tangent_kernels
from dgn_engine.kernels.path_inputs import PathInputs
from dgn_engine.kernels.path_kernels import Normalise, layer_overlap, normalised, paths
from dgn_engine.kernels.peak_memory import check_budget
from dgn_engine.kernels.precision import full_precision, products
from dgn_engine.kernels.recursion import PathKernels, path_diagonal, path_recursion
from dgn_engine.kernels.tangent_sweep import TangentKernels
from dgn_engine.model.architecture import Architecture, Dense
from dgn_engine.model.network import GatedNetwork, NetworkTrace
from dgn_engine.model.stack import Trace
from dgn_engine.regimes import Trained

KAPPA = 0.1  # of a hard gate's sensitivity, THEORY §5


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


class PathRecursions:
    """Λ and S of the examples of `both`, each recursion made when first asked for.

    `both`: gates, masks and sensitivities of x and other examples; `block`: that of the two.
    """

    def __init__(self, architecture: Architecture, both: PathInputs, block: KernelBlock) -> None:
        self.block = block
        self._architecture, self._both = architecture, both
        self._made: dict[bool, PathKernels] = {}  # whether by width

    @full_precision
    def kernels(self, normalise: Normalise) -> PathKernels:
        by_width = normalise == "width"
        if by_width not in self._made:
            made = path_recursion(self._architecture, self._both, by_width, block=self.block)
            self._made[by_width] = made
        return self._made[by_width]

    def diagonals(self, normalise: Normalise) -> tuple[Tensor | None, Tensor | None]:
        """Λ and S of each example with itself, where a block needs them for its scale."""
        if self.block.symmetric or normalise != "cosine":
            return None, None
        return path_diagonal(self._architecture, self._both)


class SharedKernels:
    """Kernels of `network` at x (n, *input_shape), each computed when first asked for; with `other`
    (m, *input_shape) the blocks (n, m) of x with these, the corner of the kernel of both.

    What several of them need is computed once: the forward passes by all, the recursion by Λ, S and
    (dense networks) H, the delta sweep by K^V, K^F and K^X. The network must not change meanwhile.
    Raises `UserError` where all of them for these inputs exceed `budget_bytes`, `ArgumentError` for
    `other` where no network makes the gates: those exist for their own examples only.
    """

    def __init__(
        self,
        network: GatedNetwork,
        x: Tensor,
        *,
        other: Tensor | None = None,
        logits: Logits = "mean",
        trains: Trained | None = None,
        folded: bool = False,
        budget_bytes: int | None = None,
    ) -> None:
        check_network_inputs(network, x)
        if other is not None:
            check_network_inputs(network, other, "other")
        check_word("logits", logits, Logits)
        check_trains(trains)
        check_flag("folded", folded)
        if budget_bytes is not None:
            others = None if other is None else len(other)
            check_budget(network, len(x), budget_bytes, logits, others=others)
        if other is not None:
            check_gates_are_made(network)
        self.network = network
        self.x = x
        self.other = other
        self._logits: Logits = logits
        self._trains = trains
        self._folded = folded
        self._joined: JoinedTraces | None = None  # of a pass that is being made in slices
        self._passed = 0

    @cached_property
    @full_precision
    def trace(self) -> NetworkTrace:
        with torch.no_grad():
            return self.network.trace(self.x)

    @torch.no_grad()
    def passes(self, at_once: int) -> Iterator[float]:
        """Make `trace`, `at_once` examples at a time; yields the share that is done. Who else asks
        meanwhile goes on with the same one."""
        while "trace" not in self.__dict__:
            left = self._passed
            part = slice(left, min(len(self.x), left + at_once))
            network, given = self.network, self.network.given_gates
            if given is not None:
                network = network.with_gates(tuple(layer[part] for layer in given))
            self._joined = self._joined or JoinedTraces(len(self.x))
            with products("ieee"):
                self._joined.put(network.trace(self.x[part]), part)
            self._passed = part.stop
            if part.stop == len(self.x):
                self.__dict__["trace"] = self._joined.whole
            yield part.stop / len(self.x)

    @cached_property
    @full_precision
    def other_trace(self) -> NetworkTrace | None:
        if self.other is None:
            return None
        with torch.no_grad():
            return self.network.trace(self.other)

    @property
    def gates(self) -> tuple[Tensor, ...]:
        return self.trace.value.gates

    @property
    def x_value(self) -> Tensor:
        """x^v: what the value network is fed."""
        return self.network.input_of_value(self.x)

    @property
    def sensitivities(self) -> tuple[Tensor, ...]:
        """D_l of every gate (THEORY §5); a hard gate's is relative to x and `other` together."""
        return tuple(layer[: len(self.x)] for layer in self._all_sensitivities)

    @cached_property
    @full_precision
    def gram(self) -> Tensor:
        return flat_gram(self.x_value, self._other_value)

    @cached_property
    @full_precision
    def tangent(self) -> TangentKernels:
        """K^V, K^F and K^X where they exist, over what trains (see `tangent_kernels`)."""
        return tangent_kernels(
            self.network,
            self.x,
            logits=self._logits,
            trains=self._trains,
            other=self.other,
            trace=self.trace,
            other_trace=self.other_trace,
            folded=self._folded,
        )

    def layer_overlap(self, layer: int) -> Tensor:
        """τ_l, as `kernels.layer_overlap`."""
        trace = self.other_trace
        return layer_overlap(self.gates[layer], None if trace is None else trace.value.gates[layer])

    def overlap(self, normalise: Normalise = "none") -> Tensor:
        """Λ, as `kernels.overlap`."""
        made, own = self._recursions.kernels(normalise), self._recursions.diagonals(normalise)[0]
        block = self._recursions.block
        return normalised(made.kernel.clone(), normalise, made.widths, block, own)

    def sensitive(self, normalise: Normalise = "none") -> Tensor:
        """S, as `kernels.sensitive_overlap`."""
        made, own = self._recursions.kernels(normalise), self._recursions.diagonals(normalise)[1]
        block = self._recursions.block
        assert made.derivative is not None
        return normalised(made.derivative.clone(), normalise, made.widths, block, own)

    def npk(self, normalise: Normalise = "none") -> Tensor:
        """H, as `kernels.neural_path_kernel`; Σ ⊙ Λ where every node is dense."""
        block = self._recursions.block
        dense = all(isinstance(node, Dense) for node in self.network.architecture.nodes)
        if dense and (block.symmetric or normalise != "cosine"):
            made = self._recursions.kernels(normalise)
            kernel = made.kernel * self.gram.to(accumulator(self.x))
            return normalised(kernel, normalise, made.widths, block)
        plain = PathInputs(self.gates, self.x_value, self.trace.value.masks)
        return paths(self.network.architecture, plain, normalise, self._other_inputs)[0]

    def expected_value(self) -> Tensor:
        """βH (n, n), float64: E[K^V_0] per logit, to be held beside `tangent.value` in mode 'mean'.

        σ of each layer is the root mean square of its weights, so that it is what they were drawn
        with at initialisation, exactly for ±σ (see `kernels.expected_value_kernel`). These are the
        weights with all that is folded into them: where that is not what trains, βH is the
        expectation of the kernel with `folded`, and is refused without, by a `ValueError`. So is
        that of a network with its own gates, which depend on the weights, and of a value network
        with biases, which βH does not count.
        """
        value = self.network.value
        if value.frozen or any(value.trained_slopes()):
            raise ArgumentError(
                "βH is the expected kernel of weights that all train, and of no slopes: here some "
                "are frozen, or slopes train (PReLU).",
                kind="frozen",
            )
        if self.network.own_gates and not self.network.gate.open:
            raise ArgumentError(
                "βH is the expected kernel of weights that the gates do not depend on, and this "
                "network makes its own gates; with two networks, or gates all open, it exists.",
                kind="not-supported",
            )
        if len(value.biases):
            raise ArgumentError(
                "βH counts weights only, and this value network has biases, which K^V counts.",
                kind="not-supported",
            )
        if not self._folded and not all(one.plain for one in value.layer_parameters()):
            raise ValueError(
                "βH is the expected kernel of folded weights, and this network trains what is "
                "folded into them (γ, constant factors): give folded=True."
            )
        sigmas = weight_sigmas(value.tensors()[0])
        masks = self.trace.value.masks
        return expected_value_kernel(
            self.network.architecture, self.gates, self.x_value, sigmas, masks, self._other_inputs
        )

    @property
    def _other_value(self) -> Tensor | None:
        return None if self.other is None else self.network.input_of_value(self.other)

    @property
    def _other_inputs(self) -> PathInputs | None:
        trace = self.other_trace
        if trace is None:
            return None
        return PathInputs(trace.value.gates, self._other_value, trace.value.masks)

    @cached_property
    def _all_sensitivities(self) -> tuple[Tensor, ...]:
        pre = self.trace.gate_pre
        if self.other_trace is not None:
            pairs = zip(pre, self.other_trace.gate_pre, strict=True)
            pre = tuple(torch.cat(pair) for pair in pairs)
        with torch.no_grad():  # slopes that train are no reason to keep a graph
            return self.network.sensitivities(pre, KAPPA)

    @cached_property
    def _recursions(self) -> PathRecursions:
        masks = self.trace.value.masks
        check_paths(self.network.architecture, self.gates, None, masks=masks)
        both, block = PathInputs(self.gates, None, masks).joined(self._other_inputs)
        both = replace(both, sensitivities=self._all_sensitivities)
        return PathRecursions(self.network.architecture, both, block)
