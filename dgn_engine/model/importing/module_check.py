"""An adapted network held against the module that it was read from."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from dgn_engine.errors import UserError
from dgn_engine.model.gates import HARD, slope_gate
from dgn_engine.model.importing.copied_module import copy_module
from dgn_engine.model.importing.module_chain import ModuleChain
from dgn_engine.model.importing.module_draws import refuse_draws
from dgn_engine.model.importing.module_outputs import (
    End,
    SoftmaxInputs,
    apply_end,
    output_tensor,
    returned,
)
from dgn_engine.model.importing.module_stack import ModuleStack, held
from dgn_engine.model.importing.module_trace import (
    ModuleTrace,
    first_line,
    float64_copy,
    random_inputs,
)
from dgn_engine.model.stack import Trace
from dgn_engine.text.written_numbers import number

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
    stack = ModuleStack(chain.architecture, chain.sources, trace.copy, chain.slopes)
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
            f"{_difference(found.output, output)}: it does something that is not supported."
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
                    f"{'the batch' if place else 'what it met before'}."
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
    stack = ModuleStack(chain.architecture, chain.sources, copy, chain.slopes)
    found = stack.run(x, _gate_of(stack)).output
    if not torch.isfinite(found).all() and not torch.isfinite(output).all():
        return  # its training diverged: nothing can be compared
    if softmax.end != end or not _alike(found, output):
        raise UserError(
            "On probe examples the module gives other outputs than the network that was read from "
            f"it, by up to {_difference(found, output)}."
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
                "normalised in its forward or a hook?), which is not supported."
            )


def _run_again(module: nn.Module, x: Tensor, met: str) -> Tensor:
    """Its outputs, (n, classes); of one example a module may leave out the first axis."""
    try:
        output = module(x)
    except Exception as error:
        raise UserError(
            f"{met} ({len(x)} examples) the module cannot be run: {first_line(error)}"
        ) from None
    tensor = output_tensor(output)
    if tensor is None:
        raise UserError(f"{met} the module returns {returned(output)}; logits are needed.")
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
            f"{_difference(found, output)}: its code depends on the dtype, or its numbers overflow."
        )


def _check_inputs(chain: ModuleChain, trace: ModuleTrace, found: Trace) -> None:
    for place, (node, fed) in enumerate(zip(chain.fed, found.inputs, strict=True)):
        value = trace.values[node]
        if value is not None and not _alike(fed.flatten(1), value.flatten(1)):
            raise UserError(
                f"{chain.sources[place].where} is fed something else than in the network that was "
                f"read from the module, by up to {_difference(fed.flatten(1), value.flatten(1))}: "
                "what comes before it is not supported."
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
                "hook, or a function of its own?): its tangent kernel is not the network's."
            )


def _gradients(total: Tensor, parameters: list[nn.Parameter]) -> list[Tensor]:
    if not parameters or not total.requires_grad:
        return [torch.zeros_like(p) for p in parameters]
    try:
        found = torch.autograd.grad(total, parameters, retain_graph=True, allow_unused=True)
    except RuntimeError as error:
        line = str(error).strip().partition("\n")[0]
        raise UserError(f"Autograd cannot differentiate the module: {line}") from None
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
    return number(float((one - two).detach().abs().max()), 2)
