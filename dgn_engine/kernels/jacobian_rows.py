"""Rows of a module's Jacobian, ∂ŷ_k(x)/∂θ over its trained parameters, and what they cost."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import sqrt
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vjp, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

Rows = dict[str, Tensor]  # of each trained parameter (b, c, *its shape): b examples, c logits


@dataclass(frozen=True)
class RowBytes:
    """Bytes that computing rows takes: `fixed` for an example, `each` for each of its logits
    besides; `copied`: of one row, its largest parameter."""

    fixed: int
    each: int
    copied: int


class ModuleFunction:
    """A module as a function of its trained parameters (`requires_grad`), everything else fixed.

    `parameters`: each once, a tied one under its first name. Raises `ValueError` where the module
    is no function of one example: in training mode where that matters, random, coupling the
    examples of a batch, or changing its own buffers. `remark` says why `torch.func` does not serve,
    where it does not; the rows are then those of plain autograd, one by one.
    """

    def __init__(self, module: nn.Module, examples: Tensor) -> None:
        _refuse_training_mode(module)
        self.module = module
        self.parameters = {
            name: parameter
            for name, parameter in module.named_parameters()
            if parameter.requires_grad
        }
        self._aliases = _aliases(module, self.parameters)
        if not self.parameters:
            raise ValueError(
                "No parameter of the module is trained: none has requires_grad, so K is zero."
            )
        with self.undisturbed():
            self.output = self._probed(examples)
            self.remark = self._vectorises(examples[:1])

    @property
    def classes(self) -> int:
        return len(self.output[0])

    @property
    def row_bytes(self) -> int:
        """Of the gradients of one logit of one example."""
        return sum(p.numel() * p.element_size() for p in self.parameters.values())

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """What the module's own code keeps in attributes while it computes is put back after.

        Old weight_norm keeps the weight that it multiplied out, and hooks may count their calls.
        """
        kept = [(part, dict(vars(part))) for part in self.module.modules()]
        with sdpa_kernel(SDPBackend.MATH):  # the only attention that can be vectorised
            try:
                yield
            finally:
                for part, attributes in kept:
                    vars(part).clear()
                    vars(part).update(attributes)

    def rows(self, x: Tensor, basis: Tensor) -> Rows:
        """Gradients of ⟨basis[k], ŷ⟩ for examples x (b, ...) and basis (c, C)."""
        return self._one_by_one(x, basis) if self.remark else self._vectorised(x, basis)

    def cost(self, x: Tensor) -> RowBytes:
        """What rows of the first example take, measured: an upper bound, the sum of all that is
        made on the way, as if nothing were freed."""
        basis = torch.eye(self.classes, dtype=self.output.dtype, device=x.device)
        one = self._made(x[:1], basis[:1])
        each = one if self.classes == 1 else self._made(x[:1], basis[:2]) - one
        each = max(each, self.row_bytes)
        largest = max(p.numel() * p.element_size() for p in self.parameters.values())
        return RowBytes(max(0, one - each), each, largest)

    def _made(self, x: Tensor, basis: Tensor) -> int:
        with self.undisturbed(), _MadeBytes() as made:
            self.rows(x, basis)
        count: int = made.total + made.unfolded
        return count

    def _vectorised(self, x: Tensor, basis: Tensor) -> Rows:
        fixed = {name: p.detach() for name, p in self.parameters.items()}

        def gradients(example: Tensor) -> Rows:
            def logits(parameters: Rows) -> Tensor:
                places = {alias: parameters[name] for alias, name in self._aliases.items()}
                given = (example.unsqueeze(0),)
                output: Tensor = functional_call(self.module, places, given, tie_weights=False)
                return output.reshape(-1)

            pull_back = vjp(logits, fixed)[1]
            if len(basis) == 1:
                return {name: row.unsqueeze(0) for name, row in pull_back(basis[0])[0].items()}
            found: Rows = vmap(lambda weights: pull_back(weights)[0])(basis)
            return found

        with warnings.catch_warnings():  # an operator that vmap loops over is only slower
            warnings.filterwarnings("ignore", message="There is a performance drop")
            rows: Rows = vmap(gradients)(x)
        return rows

    def _one_by_one(self, x: Tensor, basis: Tensor) -> Rows:
        """The definition: a backward pass of the module itself for each row."""
        shape = (len(x), len(basis))
        rows = {name: p.new_empty((*shape, *p.shape)) for name, p in self.parameters.items()}
        leaves = list(self.parameters.values())
        for place in range(len(x)):
            with torch.enable_grad():
                output = self.module(x[place : place + 1]).reshape(-1)
            for logit, weights in enumerate(basis):
                gradients = torch.autograd.grad(
                    output, leaves, weights, retain_graph=logit + 1 < len(basis), allow_unused=True
                )
                for row, gradient in zip(rows.values(), gradients, strict=True):
                    row[place, logit] = 0.0 if gradient is None else gradient
        return rows

    def _vectorises(self, example: Tensor) -> str:
        """'' where `torch.func` gives autograd's gradients; otherwise why not, in a sentence."""
        basis = self.output.new_ones((1, self.classes))
        with _Prelu() as prelu:
            plain = self._one_by_one(example, basis)
        try:
            rows = self._vectorised(example, basis)
            alike = all(_is_close(rows[name], row) for name, row in plain.items())
            reason = "" if alike else "its gradients are not those of autograd"
            if prelu.met and self.classes > 1:
                reason = "of PReLU it takes logits for examples where there are several of both"
        except Exception as error:  # whatever functorch or a module's code raises under it
            reason = f"{type(error).__name__}: {_first_sentence(error)}"
        if not reason:
            return ""
        return (
            f"torch.func cannot vectorise this module ({reason}); K is computed by one backward "
            "pass for each example and logit: the same numbers, more slowly."
        )

    def _probed(self, x: Tensor) -> Tensor:
        """The logits of one example; refused where they are not its function alone."""
        devices = [x.device] if x.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices), self._fixed_buffers():
            before = _random_states(devices)
            with torch.enable_grad():
                one = logits_of(self.module(x[:1]), 1)
            if not all(map(torch.equal, before, _random_states(devices))):
                raise ValueError("The module draws random numbers; call eval(), or leave them out.")
            if not one.requires_grad:
                raise ValueError(
                    "The module's output does not depend on any trained parameter as autograd sees "
                    "it; look for detach() or no_grad() in its forward."
                )
            one = one.detach()
            with torch.no_grad():
                again = logits_of(self.module(x[:1]), 1)
                last = logits_of(self.module(x[-1:]), 1)
                both = logits_of(self.module(torch.stack([x[0], x[-1]])), 2)
        if not _is_close(one, again):
            raise ValueError(
                "The module gives other outputs when it is called again: it is random; call eval()."
            )
        if not _is_close(torch.cat([one, last]), both):
            raise ValueError(
                "The module couples the examples of a batch: its output for one depends on the "
                "others, so there is no kernel of two examples."
            )
        return one

    @contextmanager
    def _fixed_buffers(self) -> Iterator[None]:
        """Refuse a module that changes its buffers, and put them back."""
        kept = {name: buffer.clone() for name, buffer in self.module.named_buffers()}
        changed: list[str] = []
        try:
            yield
        finally:
            for name, buffer in self.module.named_buffers():
                if not torch.equal(buffer.nan_to_num(), kept[name].nan_to_num()):
                    buffer.copy_(kept[name])
                    changed.append(name)
        if changed:
            raise ValueError(
                f"The module changes its buffer {changed[0]} while it computes; call eval() first."
            )


class _MadeBytes(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch leaves it so
    """Counts the bytes of every tensor that an operation makes; views make none.

    `unfolded`: the largest input that a convolution may unfold within.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # torch leaves it so
        self.total = self.unfolded = 0

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        given = {storage.data_ptr() for storage in _storages([args, kwargs])}
        made = {s.data_ptr(): s.nbytes() for s in _storages(result)}
        self.total += sum(size for place, size in made.items() if place not in given)
        if func.overloadpacket in _CONVOLUTIONS:
            backward = func.overloadpacket is not torch.ops.aten.convolution
            inputs, weight, transposed = args[1:3] + args[7:8] if backward else args[:2] + args[6:7]
            maps = inputs if transposed else args[0] if backward else result
            unfolded = maps.numel() // weight.shape[0] * weight[0].numel()
            self.unfolded = max(self.unfolded, unfolded * maps.element_size())
        return result


class _Prelu(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch leaves it so
    """Whether PReLU is `met`. torch 2.10 to 2.13: vmap over logits within vmap over examples fails,
    and in silence is wrong where they are as many."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # torch leaves it so
        self.met = False

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        self.met |= func.overloadpacket is torch.ops.aten._prelu_kernel
        return func(*args, **(kwargs or {}))


_CONVOLUTIONS = (torch.ops.aten.convolution, torch.ops.aten.convolution_backward)


def _storages(tree: Any) -> Iterator[torch.UntypedStorage]:
    for leaf in torch.utils._pytree.tree_leaves(tree):
        if isinstance(leaf, Tensor):
            yield leaf.untyped_storage()


def _aliases(module: nn.Module, trained: Mapping[str, Tensor]) -> dict[str, str]:
    """Every place of a trained parameter and the name that it has in `trained`.

    Places of a module with two names are listed once: torch, which ties by name, would put a
    parameter there twice and then leave its own in the module.
    """
    names = {id(parameter): name for name, parameter in trained.items()}
    return {
        f"{part_name}.{own}".lstrip("."): names[id(parameter)]
        for part_name, part in module.named_modules()
        for own, parameter in part.named_parameters(recurse=False)
        if id(parameter) in names
    }


def _random_states(devices: list[torch.device]) -> list[Tensor]:
    return [torch.get_rng_state(), *(torch.cuda.get_rng_state(device) for device in devices)]


def _refuse_training_mode(module: nn.Module) -> None:
    norms, dropouts = nn.modules.batchnorm._NormBase, nn.modules.dropout._DropoutNd
    for name, part in module.named_modules():
        where = f"Layer {name} ({type(part).__name__})" if name else type(part).__name__
        if isinstance(part, nn.modules.batchnorm._BatchNorm) and part.running_mean is None:
            raise ValueError(f"{where} has no running statistics: it couples the examples.")
        if not part.training:
            continue
        if isinstance(part, norms) and part.track_running_stats:
            raise ValueError(f"{where} couples the examples in training mode; call eval() first.")
        drops = part.p if isinstance(part, dropouts) else getattr(part, "dropout", 0.0)
        if isinstance(part, nn.RReLU) or (isinstance(drops, float) and drops > 0):
            raise ValueError(f"{where} is random in training mode; call eval() first.")


def logits_of(output: object, n: int) -> Tensor:
    """What a module returns for n examples, (n, C) or (n,) of one logit, as (n, C); raises
    `ValueError` where it is something else."""
    wanted = "K needs one tensor (n, C) of logits: wrap the module in one that returns that."
    if not isinstance(output, Tensor):
        raise ValueError(f"The module returns a {type(output).__name__}; {wanted}")
    shape = tuple(output.shape)
    if not output.is_floating_point() or len(shape) not in (1, 2) or shape[0] != n or 0 in shape:
        kind = str(output.dtype).removeprefix("torch.")
        raise ValueError(f"The module returns {kind} of shape {shape} for {n} examples; {wanted}")
    return output.reshape(n, -1)


def _is_close(one: Tensor, two: Tensor) -> bool:
    """Equal up to rounding; what is not finite is left to whoever reads the kernel."""
    scale, other, error = (
        float(torch.linalg.vector_norm(t, ord=float("inf"))) for t in (one, two, one - two)
    )
    return not error > sqrt(torch.finfo(one.dtype).eps) * max(scale, other)


def _first_sentence(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else "no reason given").split(". ")[0].rstrip(".")
