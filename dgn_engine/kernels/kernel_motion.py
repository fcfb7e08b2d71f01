"""The motion of the tangent kernel between two steps: a part by the weights, one by the gates.

Between two switches of hard gates K moves by the weights alone, as in the tangent hierarchy (Huang
& Yau 2020, arXiv:1909.08156): for gradient flow on ½Σe², K̇ = −Σ_β K^(3)(·, ·, x_β) e_β. At a switch
K jumps, which none of its derivatives sees. K(Θ, G), with the weights of one step and the gates of
another, divides the motion between two steps into both parts exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dgn_engine.errors import ArgumentError
from dgn_engine.kernels.arguments import check_kernel, check_network_inputs, check_trace
from dgn_engine.kernels.backward_sweep import ForwardPass, output_delta
from dgn_engine.kernels.gram import accumulator_dtype
from dgn_engine.kernels.ntk import logit_chunks
from dgn_engine.kernels.precision import full_precision
from dgn_engine.kernels.tangent_sweep import ExampleBlock, prepare_examples, sweep_kernels
from dgn_engine.model.network import GatedNetwork, NetworkTrace
from dgn_engine.model.stack import LayerParameters, run_chain


@dataclass(frozen=True)
class KernelState:
    """What the tangent kernel of some examples depends on, copied in the widest dtype.

    Attributes:
        x, x_value: The inputs, and those of the value network, `(n, *input_shape)`.
        block: Passes of both networks, with the gates in force.
        biases: Biases of the value network.
        derivatives: ∂γ/∂q of each gate, if gates are soft and count.
        own_gates: Whether the value network makes its own gates.
    """

    x: Tensor
    x_value: Tensor
    block: ExampleBlock
    biases: tuple[Tensor | None, ...]
    derivatives: tuple[Tensor, ...] | None
    own_gates: bool

    @staticmethod
    @torch.no_grad()
    @full_precision
    def from_network(
        network: GatedNetwork, x: Tensor, trace: NetworkTrace | None = None
    ) -> KernelState:
        """Copy what the tangent kernel depends on; later steps do not change the copy.

        Args:
            network: The network.
            x: Inputs, `(n, *input_shape)`.
            trace: Their forward pass, if available.

        Returns:
            The state.

        Raises:
            ArgumentError: Nothing that trains affects the output, or slopes of gates train
              (PReLU): they are weights and gates at once.
        """
        check_network_inputs(network, x)
        if trace is not None:
            check_trace("trace", trace, len(x))
        trace = network.trace(x) if trace is None else trace
        block = prepare_examples(network, trace, None, folded=False)
        if any(block.trained_slopes):
            raise ArgumentError(
                "Slopes of gates train (PReLU): they are weights and gates at once, so that the "
                "motion of K cannot be divided into both.",
                kind="not-supported",
            )
        wide = accumulator_dtype(x)
        derivatives = None
        if block.pull is not None:
            derivatives = tuple(network.gate.derivative(q.to(wide)) for q in trace.gate_pre)
        feature = block.feature
        copied = replace(
            block,
            value=_copy_pass(block.value, wide, 0),  # its inputs depend on the weights
            feature=None
            if feature is None
            else _copy_pass(feature, wide, len(feature.trace.inputs)),
            pull=None,
        )
        return KernelState(
            x=x.detach().clone(),
            x_value=network.input_of_value(x).detach().to(wide, copy=True),
            block=copied,
            biases=tuple(_copy(bias, wide) for bias in network.value.folded_tensors()[1]),
            derivatives=derivatives,
            own_gates=network.own_gates,
        )

    @property
    def gates(self) -> tuple[Tensor, ...]:
        """Return the gates in force.

        Returns:
            One tensor per gate layer, `(n, *gated_shapes[l])`.
        """
        return tuple(self.block.value.trace.gates)

    def fits(self, other: KernelState) -> bool:
        """Return whether both are of the same inputs, of networks of one kind, and train alike.

        Args:
            other: The other state.

        Returns:
            `False` if K(Θ, G) of both has no meaning.
        """
        ours, theirs = self.block, other.block
        return (
            ours.value.architecture == theirs.value.architecture
            and self.own_gates == other.own_gates
            and (self.derivatives is None) == (other.derivatives is None)
            and (ours.feature is None) == (theirs.feature is None)
            and ours.value_counts == theirs.value_counts
            and _list_trained(ours) == _list_trained(theirs)
            and ours.wires == theirs.wires
            and torch.equal(self.x, other.x)
            and torch.equal(self.x_value, other.x_value)
        )


@dataclass(frozen=True)
class KernelMotion:
    """The difference of two tangent kernels, K_t − K_s = weights + gates, `(n, n)` each.

    Attributes:
        weights: Part by the weights.
        gates: Part by the gates.
        kernel: K_t.
    """

    weights: Tensor
    gates: Tensor
    kernel: Tensor

    @property
    def gates_share(self) -> float:
        """Return the share of the gates, ⟨ΔK_G, ΔK⟩/‖ΔK‖²; that of the weights is 1 minus it.

        Returns:
            The share, below 0 or above 1 if the parts oppose each other; NaN if K did not move.
        """
        moved = self.weights + self.gates
        squared = float(moved.square().sum())
        return float((self.gates * moved).sum()) / squared if squared > 0 else float("nan")


@torch.no_grad()
@full_precision
def mixed_kernel(weights: KernelState, gates: KernelState) -> Tensor:
    """Compute the tangent kernel K(Θ, G) with the weights of one step and the gates of another.

    The value network passes the inputs through the given gates and max-pooling masks. K = K^V, and
    with soft gates that train also K^F and K^X: ∂γ/∂q and the feature network, which makes the
    gates, are then those of the gates' step.

    Args:
        weights: State whose value weights are used.
        gates: State whose gates are used; of the same inputs.

    Returns:
        K over what trains, averaged over logits, `(n, n)`, in the widest dtype of the device.

    Raises:
        ArgumentError: The states are of different inputs, kinds of networks or trained parameters.
    """
    _check_states(weights=weights, gates=gates)
    one, other = weights.block.value, gates.block.value
    x, G = gates.x_value, other.trace.gates
    trace = run_chain(
        one.architecture, one.weights, weights.biases, x, lambda at, _: G[at], other.trace.masks
    )
    slopes: Sequence[Tensor] = G
    pull = None
    if (D := gates.derivatives) is not None:
        pull = tuple(q * d for q, d in zip(trace.pre, D, strict=True))
        if weights.own_gates:  # z = qγ(q):  ∂z/∂q = γ + q∂γ
            slopes = tuple(g + p for g, p in zip(G, pull, strict=True))
    block = replace(gates.block, value=replace(one, trace=trace, slopes=slopes), pull=pull)
    architecture = one.architecture
    classes, kernel = architecture.classes, x.new_zeros(())
    for chunk in logit_chunks(architecture, len(x), x.element_size()):
        delta = output_delta(classes, chunk, False, x)
        kernel = kernel + sweep_kernels(block, block, delta, "total").total_kernel
    return kernel / classes


def split_motion(
    before: KernelState, now: KernelState, kernel_before: Tensor | None = None
) -> KernelMotion:
    """Divide the motion of the tangent kernel between two steps into weights and gates.

    With K(Θ, G) of `mixed_kernel`, steps s and t, the weights' part is the mean of both orders,

        ΔK_Θ = ½[K(Θ_t, G_s) − K(Θ_s, G_s) + K(Θ_t, G_t) − K(Θ_s, G_t)],

    and ΔK_G likewise. Their sum is K_t − K_s exactly. If no hard gate switches, ΔK_G is zero, and
    ΔK_Θ of a small step is to first order the motion of the tangent hierarchy.

    Args:
        before: State at step s.
        now: State at step t.
        kernel_before: K_s, `(n, n)`, if available.

    Returns:
        Both parts and K_t.

    Raises:
        ArgumentError: The states are of different inputs, kinds of networks or trained parameters,
          or `kernel_before` is of another number of examples.

    References:
        Huang & Yau 2020, arXiv:1909.08156, for the part by the weights. Defined in theory §4.

    Examples:
        Output weights make no gates:

        >>> from dgn_engine.kernels import adapt
        >>> layers = torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1)
        >>> network = adapt(torch.nn.Sequential(*layers), input_shape=(2,))
        >>> before = KernelState.from_network(network, torch.eye(2))
        >>> _ = layers[2].weight.data.mul_(2.0)
        >>> now = KernelState.from_network(network, torch.eye(2))
        >>> motion = split_motion(before, now)
        >>> float(motion.gates.abs().max())
        0.0
    """
    _check_states(before=before, now=now)
    if kernel_before is not None:
        check_kernel("kernel_before", kernel_before)
        if len(kernel_before) != len(before.x):
            raise ArgumentError(
                f"kernel_before is of {len(kernel_before)} examples, but the states are of "
                f"{len(before.x)}.",
                kind="wrong-shape",
            )
    first = mixed_kernel(before, before) if kernel_before is None else kernel_before
    last = mixed_kernel(now, now)
    # K(Θ_t, G_s) − K(Θ_s, G_t): the sum of the parts is last − first, their difference this.
    crossed = mixed_kernel(now, before) - mixed_kernel(before, now)
    moved = last - first
    return KernelMotion((moved + crossed) / 2, (moved - crossed) / 2, last)


def _check_states(**states: object) -> None:
    """Refuse arguments that are no states, or none that fit each other."""
    for name, state in states.items():
        if not isinstance(state, KernelState):
            raise ArgumentError(
                f"{name} is of type {type(state).__name__}; expected a KernelState, as from "
                "KernelState.from_network.",
                kind="wrong-type",
            )
    one, other = states.values()
    assert isinstance(one, KernelState)
    assert isinstance(other, KernelState)
    if not one.fits(other):
        raise ArgumentError(
            f"{' and '.join(states)} are states of different inputs, of different kinds of "
            "networks or of different trained parameters.",
            kind="other-network",
        )


def _list_trained(block: ExampleBlock) -> list[object]:
    """List which parameters of each layer train; a user may freeze or unfreeze some."""
    passes = [block.value] if block.feature is None else [block.value, block.feature]
    return [
        (layer.weight, layer.bias, [(norm.unit is None, norm.shift) for norm in layer.norms])
        for forward_pass in passes
        for layer in forward_pass.parameters
    ]


def _copy(tensor: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    return None if tensor is None else tensor.detach().to(dtype, copy=True)


def _copy_all(tensors: Sequence[Tensor], dtype: torch.dtype) -> tuple[Tensor, ...]:
    return tuple(tensor.detach().to(dtype, copy=True) for tensor in tensors)


def _copy_pass(run: ForwardPass, dtype: torch.dtype, inputs: int) -> ForwardPass:
    """Copy a pass with its first `inputs` inputs, without pre-activations, which no sweep reads."""
    trace = replace(
        run.trace,
        inputs=_copy_all(run.trace.inputs[:inputs], dtype),
        pre=(),
        gates=_copy_all(run.trace.gates, dtype),
        output=run.trace.output.detach().to(dtype, copy=True),
        masks=tuple(mask.clone() for mask in run.trace.masks),
    )
    return replace(
        run,
        weights=_copy_all(run.weights, dtype),
        parameters=tuple(_copy_parameters(layer, dtype) for layer in run.parameters),
        trace=trace,
        slopes=_copy_all(run.slopes, dtype),
    )


def _copy_parameters(layer: LayerParameters, dtype: torch.dtype) -> LayerParameters:
    norms = []
    for norm in layer.norms:
        unit = norm.unit
        if unit is not None:
            unit = (unit[0].detach().to(dtype, copy=True), _copy(unit[1], dtype))
        norms.append(replace(norm, unit=unit, scale=_copy(norm.scale, dtype)))
    return replace(layer, scale=_copy(layer.scale, dtype), norms=tuple(norms))
