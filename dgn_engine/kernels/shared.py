"""All kernels of one network on the same inputs, from a single forward pass and sweep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import torch
from torch import Tensor

from dgn_engine.errors import ArgumentError
from dgn_engine.kernels.arguments import (
    check_choice,
    check_flag,
    check_network_inputs,
    check_paths,
    check_trains,
)
from dgn_engine.kernels.expectation import expected_value_kernel, weight_sigmas
from dgn_engine.kernels.gram import KernelBlock, accumulator_dtype, flat_gram
from dgn_engine.kernels.ntk import Logits, check_gates_have_network, tangent_kernels
from dgn_engine.kernels.path_inputs import PathInputs
from dgn_engine.kernels.path_kernels import (
    Normalise,
    layer_overlap,
    normalise_kernel,
    scaled_path_kernels,
)
from dgn_engine.kernels.peak_memory import check_budget
from dgn_engine.kernels.precision import float32_products, full_precision
from dgn_engine.kernels.recursion import PathKernels, path_diagonal, path_recursion
from dgn_engine.kernels.tangent_sweep import TangentKernels
from dgn_engine.model.architecture import Architecture, Dense
from dgn_engine.model.network import GatedNetwork, NetworkTrace
from dgn_engine.model.stack import Trace
from dgn_engine.regimes import Trained

KAPPA = 0.1  # κ of a hard gate's sensitivity (theory §5)


class TraceBuilder:
    """The trace of n examples, assembled from parts.

    Memory for all examples is allocated with the first part.

    Args:
        n: Number of examples.
    """

    def __init__(self, n: int) -> None:
        self._n = n
        self._whole: NetworkTrace | None = None

    def put_part(self, trace: NetworkTrace, part: slice) -> None:
        """Copy the pass of some examples into the trace.

        Args:
            trace: Their pass.
            part: The examples.
        """
        if self._whole is None:
            self._whole = self._allocate_trace(trace)
        for target, source in zip(_trace_tensors(self._whole), _trace_tensors(trace), strict=True):
            target[part] = source

    @property
    def joined_trace(self) -> NetworkTrace:
        """The trace of all examples, once every part was added.

        Returns:
            The trace.
        """
        assert self._whole is not None
        return self._whole

    def _allocate_trace(self, trace: NetworkTrace) -> NetworkTrace:
        """Allocate a trace of all examples, shaped like that of a part."""
        copies: dict[int, Tensor] = {}  # by identity, so that shared tensors stay shared

        def allocate_tensors(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
            return tuple(copies.setdefault(id(item), self._empty_tensor(item)) for item in tensors)

        def allocate_stack(item: Trace) -> Trace:
            output = allocate_tensors((item.output,))[0]
            return Trace(
                allocate_tensors(item.inputs),
                allocate_tensors(item.pre),
                allocate_tensors(item.gates),
                output,
                allocate_tensors(item.masks),
            )

        feature = None if trace.feature is None else allocate_stack(trace.feature)
        return NetworkTrace(allocate_stack(trace.value), feature, allocate_tensors(trace.gate_pre))

    def _empty_tensor(self, like: Tensor) -> Tensor:
        return torch.empty((self._n, *like.shape[1:]), dtype=like.dtype, device=like.device)


def _trace_tensors(trace: NetworkTrace) -> list[Tensor]:
    """List the tensors of a trace, each once, in an order that depends on the network only."""
    tensors: list[Tensor] = []
    for stack in (trace.value, trace.feature):
        if stack is not None:
            tensors += [*stack.inputs, *stack.pre, *stack.gates, stack.output, *stack.masks]
    tensors += trace.gate_pre
    return list({id(tensor): tensor for tensor in tensors}.values())


class PathRecursions:
    """Λ and S of two sets of examples, each recursion run on first use.

    Args:
        architecture: The network.
        both: Gates, masks and sensitivities of both sets.
        block: The block of the first with the second set.
    """

    def __init__(self, architecture: Architecture, both: PathInputs, block: KernelBlock) -> None:
        self.block = block
        self._architecture, self._both = architecture, both
        self._made: dict[bool, PathKernels] = {}  # keyed by `by_width`

    @full_precision
    def recursion_kernels(self, normalise: Normalise) -> PathKernels:
        """Run the recursion, or return its cached result.

        Args:
            normalise: Decides whether τ stays divided by widths.

        Returns:
            Λ and S, not yet normalised.
        """
        by_width = normalise == "width"
        if by_width not in self._made:
            recursion = path_recursion(self._architecture, self._both, by_width, block=self.block)
            self._made[by_width] = recursion
        return self._made[by_width]

    def cosine_diagonals(self, normalise: Normalise) -> tuple[Tensor | None, Tensor | None]:
        """Compute Λ and S of each example with itself, if a block needs them to be normalised.

        Args:
            normalise: Normalisation of the kernels.

        Returns:
            The diagonals, `(n + m,)` each, or `None` unless the kernels are a block with 'cosine'.
        """
        if self.block.is_symmetric or normalise != "cosine":
            return None, None
        return path_diagonal(self._architecture, self._both)


class SharedKernels:
    """Kernels of a network at given inputs, each computed on first use.

    Shared intermediates are computed once: the forward passes for all kernels, the recursion for Λ,
    S and (dense networks) H, the backward sweep for K^V, K^F and K^X. The network must not change
    during the lifetime of this object.

    Args:
        network: The network.
        x: Inputs, `(n, *input_shape)`.
        other: Second set of inputs, `(m, *input_shape)`; the kernels are then blocks (n, m).
        logits: As for `tangent_kernels`.
        trains: As for `tangent_kernels`.
        folded: As for `tangent_kernels`.
        budget_bytes: Memory allowed for all kernels together.

    Raises:
        UserError: The kernels would exceed `budget_bytes`.
        ArgumentError: An argument does not fit, or `other` is combined with given gates (FRG).
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
        check_choice("logits", logits, Logits)
        check_trains(trains)
        check_flag("folded", folded)
        if budget_bytes is not None:
            others = None if other is None else len(other)
            check_budget(network, len(x), budget_bytes, logits, others=others)
        if other is not None:
            check_gates_have_network(network)
        self.network = network
        self.x = x
        self.other = other
        self._logits: Logits = logits
        self._trains = trains
        self._folded = folded
        self._joined: TraceBuilder | None = None  # forward pass in progress, in slices
        self._passed = 0

    @cached_property
    @full_precision
    def trace(self) -> NetworkTrace:
        """Forward pass of `x`.

        Returns:
            The trace.
        """
        with torch.no_grad():
            return self.network.trace(self.x)

    @torch.no_grad()
    def trace_in_slices(self, at_once: int) -> Iterator[float]:
        """Run the forward pass of `x` in slices.

        If `trace` is requested by someone else meanwhile, the remaining slices are skipped.

        Args:
            at_once: Number of examples per slice.

        Yields:
            The fraction of the examples that is done.
        """
        while "trace" not in self.__dict__:
            start = self._passed
            part = slice(start, min(len(self.x), start + at_once))
            network, given = self.network, self.network.given_gates
            if given is not None:
                network = network.with_gates(tuple(layer[part] for layer in given))
            self._joined = self._joined or TraceBuilder(len(self.x))
            with float32_products("ieee"):
                self._joined.put_part(network.trace(self.x[part]), part)
            self._passed = part.stop
            if part.stop == len(self.x):
                self.__dict__["trace"] = self._joined.joined_trace
            yield part.stop / len(self.x)

    @cached_property
    @full_precision
    def other_trace(self) -> NetworkTrace | None:
        """Forward pass of `other`.

        Returns:
            The trace, or `None`.
        """
        if self.other is None:
            return None
        with torch.no_grad():
            return self.network.trace(self.other)

    @property
    def gates(self) -> tuple[Tensor, ...]:
        """Gates of `x` after the wiring.

        Returns:
            One tensor `(n, *gated_shapes[l])` per gate layer.
        """
        return self.trace.value.gates

    @property
    def x_value(self) -> Tensor:
        """Value input x^v.

        Returns:
            The input of the value network, `(n, *input_shape)`.
        """
        return self.network.input_of_value(self.x)

    @property
    def sensitivities(self) -> tuple[Tensor, ...]:
        """Sensitivities D_l of the gates of `x` (theory §5).

        Those of a hard gate are relative to `x` and `other` together.

        Returns:
            One tensor per gate layer, shaped as the gates.
        """
        return tuple(layer[: len(self.x)] for layer in self._all_sensitivities)

    @cached_property
    @full_precision
    def gram(self) -> Tensor:
        """Gram matrix Σ of the value inputs.

        Returns:
            Σ, `(n, n)` or `(n, m)`.
        """
        return flat_gram(self.x_value, self._other_value)

    @cached_property
    @full_precision
    def tangent(self) -> TangentKernels:
        """Tangent kernels K^V, K^F and K^X, as far as they exist (see `tangent_kernels`).

        Returns:
            The kernels.
        """
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
        """Compute τ_l (see `kernels.layer_overlap`).

        Args:
            layer: The gate layer l.

        Returns:
            τ_l, `(n, n)` or `(n, m)`.
        """
        trace = self.other_trace
        return layer_overlap(self.gates[layer], None if trace is None else trace.value.gates[layer])

    def overlap(self, normalise: Normalise = "none") -> Tensor:
        """Compute Λ (see `kernels.overlap`).

        Args:
            normalise: As for `kernels.overlap`.

        Returns:
            Λ, `(n, n)` or `(n, m)`, float64.
        """
        recursion, diagonal = (
            self._recursions.recursion_kernels(normalise),
            self._recursions.cosine_diagonals(normalise)[0],
        )
        block = self._recursions.block
        return normalise_kernel(
            recursion.kernel.clone(), normalise, recursion.widths, block, diagonal
        )

    def sensitive_overlap(self, normalise: Normalise = "none") -> Tensor:
        """Compute S (see `kernels.sensitive_overlap`).

        Args:
            normalise: As for `kernels.overlap`.

        Returns:
            S, `(n, n)` or `(n, m)`, float64.
        """
        recursion, diagonal = (
            self._recursions.recursion_kernels(normalise),
            self._recursions.cosine_diagonals(normalise)[1],
        )
        block = self._recursions.block
        assert recursion.derivative is not None
        return normalise_kernel(
            recursion.derivative.clone(), normalise, recursion.widths, block, diagonal
        )

    def npk(self, normalise: Normalise = "none") -> Tensor:
        """Compute H (see `kernels.neural_path_kernel`); for dense networks as Σ ⊙ Λ.

        Args:
            normalise: As for `kernels.neural_path_kernel`.

        Returns:
            H, `(n, n)` or `(n, m)`, float64.
        """
        block = self._recursions.block
        dense = all(isinstance(node, Dense) for node in self.network.architecture.nodes)
        if dense and (block.is_symmetric or normalise != "cosine"):
            recursion = self._recursions.recursion_kernels(normalise)
            kernel = recursion.kernel * self.gram.to(accumulator_dtype(self.x))  # H = Λ ⊙ Σ
            return normalise_kernel(kernel, normalise, recursion.widths, block)
        plain = PathInputs(self.gates, self.x_value, self.trace.value.masks)
        return scaled_path_kernels(self.network.architecture, plain, normalise, self._other_inputs)[
            0
        ]

    def expected_value(self) -> Tensor:
        """Compute E[K^V_0] = βH, to be compared with `tangent.value` in mode 'mean'.

        σ of each layer is the root mean square of its weights: at initialisation what they were
        drawn with, exactly so for ±σ (see `kernels.expected_value_kernel`). These are the folded
        weights; if something folded into them is trained, βH is the expectation of the kernel with
        `folded`.

        Returns:
            βH per logit, `(n, n)` or `(n, m)`, float64.

        Raises:
            ValueError: βH is not defined: gates depend on the weights, the value network has biases
              or frozen weights, slopes train, or `folded` is missing.
        """
        value = self.network.value
        if value.is_partly_frozen or any(value.trained_slopes()):
            raise ArgumentError(
                "βH assumes that all weights train and no slopes do; here some weights are frozen, "
                "or slopes train (PReLU).",
                kind="frozen",
            )
        if self.network.own_gates and not self.network.gate.open:
            raise ArgumentError(
                "βH assumes gates that do not depend on the weights, but this network makes its "
                "own; use a separate feature network, or open gates.",
                kind="not-supported",
            )
        if len(value.biases):
            raise ArgumentError(
                "βH does not count biases, but K^V does and this value network has some.",
                kind="not-supported",
            )
        if not self._folded and not all(layer.is_plain for layer in value.layer_parameters()):
            raise ValueError(
                "βH is the expected kernel of folded weights, but this network trains what is "
                "folded into them (γ, constant factors); pass folded=True."
            )
        sigmas = weight_sigmas(value.folded_tensors()[0])
        masks = self.trace.value.masks
        return expected_value_kernel(
            self.network.architecture, self.gates, self.x_value, sigmas, masks, self._other_inputs
        )

    @property
    def _other_value(self) -> Tensor | None:
        """Return the value input of `other`."""
        return None if self.other is None else self.network.input_of_value(self.other)

    @property
    def _other_inputs(self) -> PathInputs | None:
        """Return gates, value input and masks of `other`."""
        trace = self.other_trace
        if trace is None:
            return None
        return PathInputs(trace.value.gates, self._other_value, trace.value.masks)

    @cached_property
    def _all_sensitivities(self) -> tuple[Tensor, ...]:
        """Return the sensitivities of `x` and `other`."""
        pre = self.trace.gate_pre
        if self.other_trace is not None:
            pairs = zip(pre, self.other_trace.gate_pre, strict=True)
            pre = tuple(torch.cat(pair) for pair in pairs)
        with torch.no_grad():  # no graph, even if slopes train
            return self.network.sensitivities(pre, KAPPA)

    @cached_property
    def _recursions(self) -> PathRecursions:
        """Return the recursions of Λ and S."""
        masks = self.trace.value.masks
        check_paths(self.network.architecture, self.gates, None, masks=masks)
        both, block = PathInputs(self.gates, None, masks).join_with(self._other_inputs)
        both = replace(both, sensitivities=self._all_sensitivities)
        return PathRecursions(self.network.architecture, both, block)
