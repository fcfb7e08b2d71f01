"""What a module may call on its way to its outputs, and what each call is in a gated network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from torch import Tensor

from dgn_engine.errors import UserError
from dgn_engine.model import architecture as arch
from dgn_engine.model.adapt.module_outputs import End, end_of

SUPPORTED = (
    "Linear, Conv2d, BatchNorm, ReLU, LeakyReLU, PReLU, abs, average and max pooling, flattening, "
    "additions and constant factors are"
)


@dataclass(frozen=True)
class WeightCall:
    """A dense layer or a convolution, not gated yet; `weight`, `bias`: names of its parameters."""

    node: arch.Weighted
    weight: str
    bias: str | None


@dataclass(frozen=True)
class NormCall:
    """A BatchNorm with statistics that are fixed: γ (z - μ) / √(σ² + ε) + β for each channel.

    The names of μ and σ², of γ and β where it has them.
    """

    channels: int
    mean: str
    variance: str
    scale: str | None
    shift: str | None
    epsilon: float


@dataclass(frozen=True)
class GateCall:
    """z ↦ z for z > 0, `slope`·z else: 0 of a ReLU, -1 of the absolute value; or the name of the
    parameter that holds it, of a PReLU."""

    slope: float | str


@dataclass(frozen=True)
class PoolCall:
    """Pooling; after global pooling a map is a vector here, whatever axes torch still gives it."""

    node: arch.Pooling


@dataclass(frozen=True)
class SumCall:
    """The first input and `factor` times the second."""

    factor: float = 1.0


@dataclass(frozen=True)
class ScaleCall:
    """Multiplied by a constant."""

    factor: float


@dataclass(frozen=True)
class PadCall:
    """A margin on all four sides, which the convolution that follows takes over."""

    margin: int
    circular: bool


@dataclass(frozen=True)
class ReshapeCall:
    """Axes written otherwise; which of them, the result says."""


@dataclass(frozen=True)
class EndCall:
    """A softmax over the classes, which may only come last."""

    end: End


Operation = (
    WeightCall
    | NormCall
    | GateCall
    | PoolCall
    | SumCall
    | ScaleCall
    | PadCall
    | ReshapeCall
    | EndCall
)


def parameters_of(operation: Operation) -> tuple[str, ...]:
    """The names of the parameters and buffers that an operation uses."""
    match operation:
        case WeightCall():
            names: tuple[str | None, ...] = (operation.weight, operation.bias)
        case NormCall():
            names = (operation.mean, operation.variance, operation.scale, operation.shift)
        case GateCall(str()):
            names = (str(operation.slope),)
        case _:
            names = ()
    return tuple(name for name in names if name is not None)


@dataclass(frozen=True)
class CallSite:
    """One call: in which layer, of what, with what; `shape` of its first input, without batch.

    `flat`: whether that input is a vector of the network. `names`: of the module's parameters and
    buffers, by identity. `count`: how many of the arguments come from the module's input.
    """

    where: str
    function: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    shape: tuple[int, ...]
    flat: bool
    names: Mapping[int, str]
    count: int

    def refuse(self, why: str) -> NoReturn:
        raise UserError(f"{self.where} {why}", kind="not-supported", value=self.function)

    def refuse_call(self) -> NoReturn:
        self.refuse(f"calls {self.function}, which is not supported; {SUPPORTED}.")

    def argument(self, place: int, name: str, default: Any = None) -> Any:
        return self.args[place] if place < len(self.args) else self.kwargs.get(name, default)

    def held(self, tensor: Tensor) -> str:
        """The name of a parameter or buffer."""
        if id(tensor) not in self.names:
            self.refuse(
                f"computes what it passes to {self.function} from other tensors (weight_norm, "
                "spectral_norm, pruning or code of its own); only plain parameters are supported."
            )
        return self.names[id(tensor)]

    def held_or_none(self, tensor: Tensor | None) -> str | None:
        return None if tensor is None else self.held(tensor)

    def one(self, value: int | Sequence[int], what: str) -> int:
        """The one number of a square kernel, stride or padding."""
        if isinstance(value, int):
            return value
        if len(set(value)) != 1:
            self.refuse(f"has the {what} {tuple(value)}; only square ones are supported.")
        return int(value[0])

    def needs_map(self) -> None:
        if self.flat or len(self.shape) != 3:
            self.refuse(f"takes maps (channels, height, width), but {self.shape} arrives.")


def _linear(site: CallSite) -> Operation:
    weight = site.argument(1, "weight")
    held = site.held(weight)
    outputs, inputs = weight.shape
    if site.shape[-1:] != (inputs,):
        arriving = site.shape[0] if len(site.shape) == 1 else site.shape
        site.refuse(f"takes {inputs} inputs, but {arriving} arrive.")
    if len(site.shape) != 1:
        site.refuse(f"is applied to each row of {site.shape}; only vectors are supported.")
    node = arch.Dense(inputs, outputs, gated=False)
    return WeightCall(node, held, site.held_or_none(site.argument(2, "bias")))


def _conv(site: CallSite) -> Operation:
    weight = site.argument(1, "weight")
    held = site.held(weight)
    outputs, inputs, *sides = weight.shape
    kernel = site.one(tuple(sides), "kernel")
    stride = site.one(site.argument(3, "stride", 1), "stride")
    padding = site.argument(4, "padding", 0)
    dilation = site.argument(5, "dilation", 1)
    if site.argument(6, "groups", 1) != 1 or site.one(dilation, "dilation") != 1:
        site.refuse("has groups or dilation, which are not supported.")
    if padding == "same" and kernel % 2 == 0:
        site.refuse("has padding 'same', which needs an odd kernel here.")
    if isinstance(padding, str):
        padding = kernel // 2 if padding == "same" else 0
    site.needs_map()
    if site.shape[0] != inputs:
        site.refuse(f"takes {inputs} channels, but {site.shape} arrives.")
    margin = site.one(padding, "padding")
    node = arch.Conv(inputs, outputs, kernel, stride, margin, gated=False)
    return WeightCall(node, held, site.held_or_none(site.argument(2, "bias")))


def _norm(site: CallSite) -> Operation:
    if len(site.args) > 3:  # torch.nn.functional passes these by keyword
        site.refuse("calls torch.batch_norm, not that of torch.nn.functional.")
    mean, variance = site.argument(1, "running_mean"), site.argument(2, "running_var")
    if site.kwargs.get("training", False) or mean is None or variance is None:
        site.refuse("couples the examples; call eval() first.")
    return NormCall(
        site.shape[0],
        site.held(mean),
        site.held(variance),
        site.held_or_none(site.kwargs.get("weight")),
        site.held_or_none(site.kwargs.get("bias")),
        float(site.kwargs.get("eps", 1e-5)),
    )


def _clamp(site: CallSite) -> Operation:
    if site.argument(1, "min") != 0 or site.argument(2, "max") is not None:
        site.refuse("clamps to other bounds than 0 from below, which is not supported.")
    return GateCall(0.0)


def _dropout(site: CallSite) -> Operation | None:
    p, training = site.argument(1, "p", 0.5), site.argument(2, "training", True)
    if training and p > 0:
        site.refuse("is random in training; call eval() first.")
    return None


def _average_pool(site: CallSite) -> Operation:
    site.needs_map()
    if site.argument(4, "ceil_mode", False) or site.argument(6, "divisor_override") is not None:
        site.refuse("rounds up or divides by another number, which is not supported.")
    kernel = site.argument(1, "kernel_size")
    if isinstance(kernel, Sequence) and tuple(kernel) == site.shape[1:]:
        return PoolCall(arch.GlobalAveragePool())
    if site.one(site.argument(3, "padding", 0), "padding"):
        site.refuse("has a padding of an average, which is not supported.")
    stride = site.argument(2, "stride") or kernel
    return PoolCall(arch.AveragePool(site.one(kernel, "kernel"), site.one(stride, "stride")))


def _max_pool(site: CallSite) -> Operation:
    site.needs_map()
    if site.argument(5, "ceil_mode", False):
        site.refuse("rounds up, which is not supported.")
    if site.one(site.argument(4, "dilation", 1), "dilation") != 1:
        site.refuse("has dilation, which is not supported.")
    kernel = site.argument(1, "kernel_size")
    stride = site.argument(2, "stride") or kernel
    padding = site.one(site.argument(3, "padding", 0), "padding")
    sizes = site.one(kernel, "kernel"), site.one(stride, "stride")
    return PoolCall(arch.MaxPool(*sizes, padding))


def _adaptive(site: CallSite) -> Operation | None:
    average = site.function == "adaptive_avg_pool2d"
    wanted = site.argument(1, "output_size")
    pair = (wanted, wanted) if isinstance(wanted, int) or wanted is None else tuple(wanted)
    if site.flat and pair == (1, 1):
        return None
    site.needs_map()
    sides = site.shape[1:]
    sizes = tuple(side if size is None else size for size, side in zip(pair, sides, strict=True))
    if sizes == (1, 1):
        return PoolCall(arch.GlobalAveragePool() if average else arch.GlobalMaxPool())
    kernel = tuple(side // size for side, size in zip(sides, sizes, strict=True))
    if any(side % size for side, size in zip(sides, sizes, strict=True)) or len(set(kernel)) > 1:
        site.refuse(
            f"pools {sides[0]}×{sides[1]} to {sizes[0]}×{sizes[1]}, which are no equal square "
            "windows; that is not supported."
        )
    if kernel == (1, 1):
        return None
    node = arch.AveragePool if average else arch.MaxPool
    return PoolCall(node(kernel[0], kernel[0]))


def _mean(site: CallSite) -> Operation | None:
    found = site.argument(1, "dim")
    axes = (found,) if isinstance(found, int) else tuple(found or ())
    if {axis % site.args[0].dim() for axis in axes} != {2, 3}:
        site.refuse(f"takes the {site.function} over the axes {axes}, which is not supported.")
    if site.flat:
        return None
    node = arch.GlobalAveragePool() if site.function == "mean" else arch.GlobalMaxPool()
    return PoolCall(node)


def _sum(site: CallSite) -> Operation:
    if site.count != 2:
        site.refuse("adds something that does not come from its inputs, which is not supported.")
    factor = float(site.kwargs.get("alpha", 1))
    return SumCall(-factor if site.function in ("sub", "subtract") else factor)


def _scale(site: CallSite) -> Operation:
    if site.function in ("neg", "negative"):
        return ScaleCall(-1.0)
    factors = [each for each in site.args[:2] if not isinstance(each, Tensor)]
    kind = site.kwargs.get("rounding_mode")
    if site.count != 1 or len(factors) != 1 or kind or not isinstance(factors[0], (int, float)):
        site.refuse("multiplies or divides by a tensor, which is not supported.")
    factor = float(factors[0])
    if site.function in ("mul", "multiply"):
        return ScaleCall(factor)
    if not isinstance(site.args[0], Tensor) or not factor:
        site.refuse("divides by what comes from its inputs, or by 0, which is not supported.")
    return ScaleCall(1.0 / factor)


def _pad(site: CallSite) -> Operation:
    mode, value = site.argument(2, "mode", "constant"), site.argument(3, "value")
    if mode not in ("constant", "circular") or (mode == "constant" and value not in (None, 0)):
        what = f"'{mode}'" if mode != "constant" else f"with {value}"
        site.refuse(f"has the padding mode {what}, which is not supported.")
    site.needs_map()
    sides = tuple(site.argument(1, "pad"))
    if len(sides) != 4:
        site.refuse(f"pads by {sides}; only the same margin on four sides is supported.")
    if min(sides) < 0:
        site.refuse(f"pads by {sides}, which cuts off a margin; that is not supported.")
    return PadCall(site.one(sides, "padding"), mode == "circular")


def _softmax(site: CallSite) -> Operation:
    end = end_of(site.function, site.args, site.kwargs, site.args[0])
    if not end:
        site.refuse_call()
    return EndCall(end)


OPERATIONS: dict[str, Callable[[CallSite], Operation | None]] = {
    "linear": _linear,
    "conv2d": _conv,
    "batch_norm": _norm,
    "relu": lambda _: GateCall(0.0),
    "clamp": _clamp,
    "clamp_min": _clamp,
    "leaky_relu": lambda site: GateCall(float(site.argument(1, "negative_slope", 0.01))),
    "prelu": lambda site: GateCall(site.held(site.argument(1, "weight"))),
    "abs": lambda _: GateCall(-1.0),
    "absolute": lambda _: GateCall(-1.0),
    "max_pool2d": _max_pool,
    "avg_pool2d": _average_pool,
    "adaptive_avg_pool2d": _adaptive,
    "adaptive_max_pool2d": _adaptive,
    "mean": _mean,
    "amax": _mean,
    "pad": _pad,
    "softmax": _softmax,
    "log_softmax": _softmax,
    **dict.fromkeys(("dropout", "dropout2d", "feature_dropout", "alpha_dropout"), _dropout),
    **dict.fromkeys(("contiguous", "clone", "to", "double", "type_as"), lambda _: None),
    **dict.fromkeys(("add", "sub", "subtract"), _sum),
    **dict.fromkeys(("mul", "multiply", "div", "divide", "true_divide", "neg", "negative"), _scale),
    **dict.fromkeys(
        ("flatten", "view", "reshape", "squeeze", "unsqueeze", "getitem", "view_as", "reshape_as"),
        lambda _: ReshapeCall(),
    ),
}
