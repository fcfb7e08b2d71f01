"""Monte-Carlo estimates of H, Λ and S with error bars, linear in the examples (theory §3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor
from torch.nn import functional as F

from dgn_engine.kernels.arguments import (
    check_architecture,
    check_choice,
    check_count,
    check_flag,
    check_generator,
    check_tensor,
)
from dgn_engine.kernels.gram import accumulator_dtype, flat_gram
from dgn_engine.kernels.kernel_average import KernelAverage, KernelEstimate
from dgn_engine.kernels.path_inputs import PathInputs, check_path_inputs
from dgn_engine.kernels.path_kernels import Normalise
from dgn_engine.kernels.precision import full_precision
from dgn_engine.kernels.walk import widths_outside_blocks
from dgn_engine.model import architecture as arch
from dgn_engine.model.stack import apply_weight

PASS_BYTES = 64 << 20  # memory of the largest layer for the examples passed at once


@dataclass(frozen=True)
class PathScales:
    """Normalisation of a random pass.

    Attributes:
        merges: Factors of block and skip of each addition.
        constant: The path kernel is this times the mean of the products.
    """

    merges: tuple[tuple[float, float], ...]
    constant: float

    @staticmethod
    def from_architecture(architecture: arch.Architecture, by_width: bool) -> PathScales:
        """Compute the normalisation for an architecture.

        Args:
            architecture: The network.
            by_width: Whether every τ_l is divided by its width, also inside residual blocks;
              otherwise blocks are weighted by their path counts.

        Returns:
            The normalisation.
        """
        merges: list[tuple[float, float]] = []
        branch_scale = 1.0  # normalisation of the current branch so far
        open_scales: list[float] = []  # for each open block: outside it, then in the other branch
        for node in architecture.nodes[:-1]:
            match node:
                case arch.Dense() | arch.Conv():
                    branch_scale *= _outputs_per_input(node) / (node.outputs if by_width else 1.0)
                case arch.Fork() | arch.Skip():
                    open_scales.append(branch_scale)
                    branch_scale = 1.0
                case arch.Merge():
                    block, outside = open_scales.pop(), open_scales.pop()
                    # E⟨h, h'⟩ must count paths, so each branch weighs the square root of its share.
                    combined = block + branch_scale
                    shares = (block / combined) ** 0.5, (branch_scale / combined) ** 0.5
                    merges.append((node.post * node.pre * shares[0], node.post * shares[1]))
                    branch_scale = outside * combined
        return PathScales(tuple(merges), branch_scale)


def _outputs_per_input(layer: arch.Dense | arch.Conv) -> float:
    """Return the number of outputs that one input of a layer contributes to."""
    window = layer.kernel**2 if isinstance(layer, arch.Conv) else 1
    return float(layer.outputs * window)


@dataclass(frozen=True)
class PathSigns:
    """The random numbers of one draw.

    Attributes:
        weights: ±σ weights of every layer but the last; 1/σ² is the number of outputs that one
          input contributes to.
        slopes: Random signs `(C,)` of every gate layer, if S is wanted.
    """

    weights: tuple[Tensor | None, ...]
    slopes: tuple[Tensor, ...] | None

    @staticmethod
    def draw_signs(
        architecture: arch.Architecture, generator: torch.Generator, sensitive: bool, like: Tensor
    ) -> PathSigns:
        """Draw random signs.

        Args:
            architecture: The network.
            generator: Source of randomness; a CPU generator gives the same signs on every device.
            sensitive: Whether to draw signs for the gate layers, too.
            like: Tensor that gives dtype and device.

        Returns:
            The signs.
        """
        weights: list[Tensor | None] = []
        for layer in architecture.weight_layers[:-1]:
            if isinstance(layer, arch.ChannelScale):  # does not count for paths
                weights.append(None)
                continue
            signs = _random_signs(arch.weight_shape(layer), generator, like)
            weights.append(signs.mul_(_outputs_per_input(layer) ** -0.5))
        slopes = None
        if sensitive:
            shapes = architecture.gated_shapes
            slopes = tuple(
                _random_signs((shape[0], *[1] * (len(shape) - 1)), generator, like)
                for shape in shapes
            )
        return PathSigns(tuple(weights), slopes)


def _random_signs(shape: Sequence[int], generator: torch.Generator, like: Tensor) -> Tensor:
    """Draw ±1 with equal probability, eight per random byte."""
    count = torch.Size(shape).numel()
    device = generator.device
    octets = torch.randint(
        0, 256, (-(-count // 8),), generator=generator, dtype=torch.uint8, device=device
    )
    shifts = torch.arange(8, dtype=torch.uint8, device=device)
    bits = (octets[:, None] >> shifts) & 1
    return bits.flatten()[:count].to(like).mul_(2.0).sub_(1.0).reshape(tuple(shape))


# A random value network under given gates, whose mean products count paths (theory §3).
#
# With independent symmetric signs as weights, E⟨h(s), h(s')⟩ over the last hidden layer h is the
# path kernel. Each layer is divided by the number of outputs per input, pooling sums, and a block
# and its skip are weighted so that the mean counts paths; the remaining constant is known.
#
# S is the derivative of Λ under GGᵀ → GGᵀ + εDDᵀ. With one more independent sign ξ for each gate
# layer and channel, ∂h = Σ ξ ∂h/∂G·D has E⟨∂h(s), ∂h(s')⟩ = S: products of different layers or
# channels have mean zero, which leaves D(s)D(s')ᵀ instead of one layer's GGᵀ. ∂h is computed
# alongside h by the product rule, at the cost of a second pass.
def random_pass(
    architecture: arch.Architecture,
    scales: PathScales,
    signs: PathSigns,
    inputs: PathInputs,
    part: slice,
) -> tuple[Tensor, Tensor | None]:
    """Run one random value network under given gates.

    Args:
        architecture: The network.
        scales: Its normalisation.
        signs: Random signs of this draw.
        inputs: Gates, x^v, masks and sensitivities of all examples.
        part: The examples to pass.

    Returns:
        The last hidden layer h of the b examples of `part`, `(b, w)`, and its change ∂h, `(b, w)`,
        or `None` without signs of gate layers.
    """
    start, z = _first_input(architecture, inputs, part)
    pair = _RandomPass(scales, signs, inputs, part, z)
    for node in architecture.nodes[start:-1]:
        pair.apply_node(node)
    return pair.z, pair.change


def _first_input(
    architecture: arch.Architecture, inputs: PathInputs, part: slice
) -> tuple[int, Tensor]:
    """Return the first node of a pass and its input: x^v, or for Λ one in the first channel."""
    if inputs.x_value is not None:
        return 0, inputs.x_value[part]
    nodes = architecture.nodes
    start, shape = 0, architecture.input_shape
    if not any(isinstance(node, arch.Conv) for node in nodes):  # skip pooling of the inputs
        for node, after in architecture.shapes():
            if arch.is_weighted(node):
                break
            start, shape = start + 1, after
    like = inputs.gates[0][part]
    ones = like.new_zeros((len(like), *shape))
    ones[:, 0] = 1.0
    return start, ones


class _RandomPass:
    """z and its derivative while they pass the nodes; no derivative before the first gate."""

    def __init__(
        self, scales: PathScales, signs: PathSigns, inputs: PathInputs, part: slice, z: Tensor
    ) -> None:
        self.z = z
        self.change: Tensor | None = None
        self._kept: list[tuple[Tensor, Tensor | None]] = []
        self._merges, self._weights = iter(scales.merges), iter(signs.weights)
        self._slopes, self._inputs, self._part = signs.slopes, inputs, part
        self._gates = self._pools = 0

    def apply_node(self, node: arch.Node) -> None:
        """Apply one node to z and its derivative."""
        match node:
            case arch.Dense() | arch.Conv():
                weight = next(self._weights)
                assert weight is not None
                self._apply_linear(lambda z: apply_weight(node, weight, None, z))
            case arch.ChannelScale():
                next(self._weights)
            case arch.GlobalAveragePool():
                self._apply_linear(lambda z: z.sum(dim=(2, 3)))
            case arch.AveragePool():
                area = node.kernel**2
                self._apply_linear(lambda z: F.avg_pool2d(z, node.kernel, node.stride) * area)
            case arch.MaxPool() | arch.GlobalMaxPool():
                mask = self._inputs.masks[self._pools][self._part]
                self._pools += 1
                self._apply_linear(
                    lambda z: z.flatten(2).gather(2, mask.flatten(2)).reshape(mask.shape)
                )
                if isinstance(node, arch.GlobalMaxPool):
                    self._apply_linear(lambda z: z.flatten(1))
            case arch.Flatten():
                self._apply_linear(lambda z: z.flatten(1))
            case arch.Fork():
                self._kept.append((self.z, self.change))
            case arch.Skip():
                both = self.z, self.change
                (self.z, self.change), self._kept[-1] = self._kept[-1], both
            case arch.Merge():
                self._merge_branches()
        if arch.is_gated(node):
            self._apply_gate()

    def _apply_linear(self, linear: Callable[[Tensor], Tensor]) -> None:
        """Apply a linear function to z and its derivative."""
        self.z = linear(self.z)
        self.change = None if self.change is None else linear(self.change)

    def _merge_branches(self) -> None:
        """Add block and skip."""
        through, beside = next(self._merges)
        # z = through·z_block + beside·z_skip, and likewise ∂z
        z, change = self._kept.pop()
        self.z = torch.add(through * z, self.z, alpha=beside)
        if change is None or self.change is None:
            branch, scale = (self.change, beside) if change is None else (change, through)
            self.change = None if branch is None else scale * branch
        else:
            self.change = torch.add(through * change, self.change, alpha=beside)

    def _apply_gate(self) -> None:
        """Apply the next gate layer, with the product rule for the derivative."""
        layer, q = self._gates, self.z
        self._gates += 1
        gates = self._inputs.gates[layer][self._part]
        self.z = q * gates
        if self._slopes is None:
            return
        assert self._inputs.sensitivities is not None
        # z = G ⊙ q:  ∂z = ξ D ⊙ q + G ⊙ ∂q
        change = self._inputs.sensitivities[layer][self._part] * self._slopes[layer] * q
        self.change = change if self.change is None else change.addcmul_(self.change, gates)


class PathEstimator:
    """Monte-Carlo estimator of H (or Λ, without x^v), and of S if there are sensitivities.

    Each draw is a value network with random weights ±σ under the given gates. With h its last
    hidden layer, the output weights are integrated out:

        E[h(s)·h(s')] ∝ H(s, s').

    The estimate is unbiased as path counts and, unless a residual block prevents it, for 'width';
    its relative error is O(1/√draws). All randomness comes from `generator`; with a CPU generator,
    a seed gives the same draws on every device.

    Args:
        architecture: The network.
        inputs: Gates, and x^v, masks and sensitivities as needed.
        generator: Source of randomness, on the CPU.
        by_width: Whether every τ_l is divided by its width, also inside residual blocks.
        other: Second set of inputs; the kernels are then blocks `(n, m)`.
        groups: Number of groups of draws kept apart for `eigenvalue_errors`, one `(n, n)` each.

    Raises:
        ArgumentError: The inputs do not fit the architecture.
    """

    def __init__(
        self,
        architecture: arch.Architecture,
        inputs: PathInputs,
        generator: torch.Generator,
        by_width: bool = False,
        other: PathInputs | None = None,
        groups: int = 0,
    ) -> None:
        check_architecture(architecture)
        check_flag("by_width", by_width)
        check_generator(generator)
        check_path_inputs(architecture, inputs, other)
        self._architecture, self._generator, self._by_width = architecture, generator, by_width
        self._inputs, self._block = inputs.join_with(other)
        self._scales = PathScales.from_architecture(architecture, by_width)
        self._like = self._inputs.gates[0]
        sizes = [prod(shape) for _, shape in architecture.shapes()]
        item = self._like.element_size() * max(sizes)
        self.at_once = max(1, PASS_BYTES // item)  # examples per slice of a draw
        self._kernels = KernelAverage(self._block.is_symmetric, groups=groups)
        self._sensitive = KernelAverage(self._block.is_symmetric)

    @property
    def draws(self) -> int:
        """Number of completed draws.

        Returns:
            The count.
        """
        return self._kernels.count

    @torch.no_grad()
    @full_precision
    def add_draws(self, count: int = 1) -> None:
        """Add draws.

        Args:
            count: Number of draws to add.
        """
        for _ in range(count):
            for _ in self.slices():
                pass

    @torch.no_grad()
    def slices(self) -> Iterator[float]:
        """Add one draw in slices of `at_once` examples; it counts once the last slice is done.

        Yields:
            The fraction of the draw that is done.
        """
        sensitive = self._inputs.sensitivities is not None
        signs = PathSigns.draw_signs(self._architecture, self._generator, sensitive, self._like)
        n, start = len(self._like), 0
        hidden: list[tuple[Tensor, Tensor | None]] = []
        while start < n:
            part = slice(start, min(n, start + self.at_once))
            hidden.append(random_pass(self._architecture, self._scales, signs, self._inputs, part))
            start = part.stop
            if start < n:
                yield start / n
        self._kernels.add_sample(self._hidden_gram([h for h, _ in hidden]))
        if sensitive:
            changes = [change for _, change in hidden if change is not None]
            self._sensitive.add_sample(self._hidden_gram(changes))
        yield 1.0

    def _hidden_gram(self, parts: Sequence[Tensor]) -> Tensor:
        """Multiply the last hidden layer of the rows with that of the columns."""
        h, block = torch.cat(list(parts)), self._block
        return flat_gram(h[block.rows], h[block.columns]).to(accumulator_dtype(h))

    def kernel(self, normalise: Normalise = "none") -> KernelEstimate:
        """Return the estimate of H (or Λ), which takes at least two draws.

        Args:
            normalise: Normalisation, as for `neural_path_kernel`.

        Returns:
            Kernel and standard errors, `(n, n)` or `(n, m)`.

        Raises:
            ArgumentError: Only one draw was made, or a block is to be scaled by 'trace' or
              'cosine'.
        """
        return self._normalise_average(self._kernels, normalise)

    @full_precision
    def eigenvalue_errors(self) -> Tensor:
        """Estimate the relative errors of the eigenvalues of H/trace H by the jackknife.

        With λ the logarithms of the eigenvalues of the mean of all draws, λ_g those of the mean
        outside group g, and G groups, the variance is v = (G−1)/G Σ_g (λ_g − λ̄)² and the bias
        b = 2(G−1)(λ̄ − λ). Logarithms, since the errors of small eigenvalues are proportional to
        them: a draw scales whole eigenvectors. The error is √(v + (e^{−b} − 1)²), in which the bias
        matters most: few draws make the largest eigenvalues too large and the smallest too small.

        Returns:
            Relative errors of the eigenvalues in descending order, `(n,)` float64; ∞ where an
            eigenvalue vanishes without some group, and for fewer than two groups.
        """
        unknown = torch.full((len(self._like),), torch.inf, dtype=torch.float64)
        logs = []
        for mean in self._kernels.means_without_group():
            if not float(mean.trace()) > 0.0:  # no path was open in any of these draws
                return unknown
            logs.append(_log_eigenvalues(mean))
        if not logs:
            return unknown
        stacked, of_all = torch.stack(logs), _log_eigenvalues(self._kernels.mean)
        variance = (stacked - stacked.mean(dim=0)).square().sum(dim=0)
        variance *= (len(logs) - 1) / len(logs)
        # Twice the usual (G−1)(λ̄ − λ), which assumes a bias ∝ 1/draws: noise pushes eigenvalues
        # that are closer than it apart by ∝ 1/√draws, of which (G−1)(λ̄ − λ) is half.
        bias = 2.0 * (len(logs) - 1) * (stacked.mean(dim=0) - of_all)
        errors = (variance + torch.expm1(-bias).square()).sqrt()
        return torch.where(errors.isfinite(), errors, torch.inf)

    def sensitive_overlap(self, normalise: Normalise = "none") -> KernelEstimate:
        """Return the estimate of S; the inputs must have sensitivities.

        Args:
            normalise: Normalisation, as for `neural_path_kernel`.

        Returns:
            Kernel and standard errors, `(n, n)` or `(n, m)`.

        Raises:
            ArgumentError: As for `kernel`.
        """
        return self._normalise_average(self._sensitive, normalise)

    def _normalise_average(self, average: KernelAverage, normalise: Normalise) -> KernelEstimate:
        """Normalise an average of draws, starting from path counts."""
        check_choice("normalise", normalise, Normalise)
        if normalise == "cosine":
            return average.cosine_estimate()
        if normalise == "trace":
            return average.trace_one_estimate()
        widths = widths_outside_blocks(self._architecture)
        counts = self._scales.constant * (widths if self._by_width else 1.0)
        return average.mean_estimate(counts / (widths if normalise == "width" else 1.0))


def _log_eigenvalues(kernel: Tensor) -> Tensor:
    """Return the logarithms of the eigenvalues of H/trace H, `(n,)` descending, float64."""
    kernel = kernel.cpu().double()
    values: Tensor = torch.linalg.eigvalsh(kernel / kernel.trace()).flip(0)
    return values.log()


@torch.no_grad()
@full_precision
def estimate_path_kernel(
    architecture: arch.Architecture,
    gates: Sequence[Tensor],
    x_value: Tensor,
    draws: int,
    generator: torch.Generator,
    normalise: Normalise = "none",
    masks: Sequence[Tensor] = (),
    other: PathInputs | None = None,
) -> KernelEstimate:
    """Estimate the neural path kernel H from random value networks (see `PathEstimator`).

    Args:
        architecture: The network.
        gates: One tensor `(n, *gated_shapes[l])` per gate layer.
        x_value: Value input x^v, `(n, *input_shape)`.
        draws: Number of random networks, at least 2.
        generator: Source of randomness, on the CPU.
        normalise: Normalisation, as for `neural_path_kernel`.
        masks: Arg-max positions of the max poolings.
        other: Second set of inputs; 'trace' and 'cosine' are then not available.

    Returns:
        Kernel and standard errors, `(n, n)` or `(n, m)`.

    Raises:
        ArgumentError: An argument does not fit.
    """
    check_tensor("x_value", x_value)  # None would give Λ
    return _estimate_kernels(
        architecture, PathInputs(gates, x_value, masks), draws, generator, normalise, other
    )[0]


@torch.no_grad()
@full_precision
def estimate_overlap(
    architecture: arch.Architecture,
    inputs: PathInputs,
    draws: int,
    generator: torch.Generator,
    normalise: Normalise = "none",
    other: PathInputs | None = None,
) -> tuple[KernelEstimate, KernelEstimate | None]:
    """Estimate Λ, and S if the inputs have sensitivities, from random value networks.

    Args:
        architecture: The network.
        inputs: Gates, masks and sensitivities; their x^v is ignored.
        draws: Number of random networks, at least 2.
        generator: Source of randomness, on the CPU.
        normalise: Normalisation, as for `neural_path_kernel`.
        other: Second set of inputs; 'trace' and 'cosine' are then not available.

    Returns:
        Estimates of Λ and S (or `None`), `(n, n)` or `(n, m)`.

    Raises:
        ArgumentError: An argument does not fit.
    """
    check_path_inputs(architecture, inputs, other)
    plain = PathInputs(inputs.gates, None, inputs.masks, inputs.sensitivities)
    return _estimate_kernels(architecture, plain, draws, generator, normalise, other)


def _estimate_kernels(
    architecture: arch.Architecture,
    inputs: PathInputs,
    draws: int,
    generator: torch.Generator,
    normalise: Normalise,
    other: PathInputs | None,
) -> tuple[KernelEstimate, KernelEstimate | None]:
    """Estimate kernel and derivative from `draws` random networks."""
    check_choice("normalise", normalise, Normalise)
    check_count("draws", draws, 2)  # the error bar needs two
    estimator = PathEstimator(architecture, inputs, generator, normalise == "width", other)
    estimator.add_draws(draws)
    estimate = estimator.kernel(normalise)
    return estimate, None if inputs.sensitivities is None else estimator.sensitive_overlap(
        normalise
    )
