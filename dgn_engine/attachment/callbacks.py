"""Callbacks for the loops of Lightning and of the Hugging Face Trainer.

Neither package is needed by us: the base class of a callback is looked for when one is made.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import nn

from dgn_engine.attachment.isolation import is_interrupt
from dgn_engine.attachment.watcher import Watcher, error_kind, warn
from dgn_engine.errors import ArgumentError, UserError

_LIGHTNING = ("lightning.pytorch", "pytorch_lightning")


def lightning_callback(
    probe: tuple[object, object], out: str | Path, module: str = "", **options: Any
) -> Any:
    """A callback for `Trainer(callbacks=[…])` of Lightning; `options` are those of `watch`.

    `module`: the attribute of your LightningModule that maps examples to logits, 'net' say; '' is
    the LightningModule itself. The validation scores 'val_loss' and 'val_acc' are recorded where
    you log them. Raises `UserError` where Lightning is not installed.
    """
    base = _base(_LIGHTNING, "Callback", "lightning")
    made = type("DgnWatch", (_LightningHooks, base), {})()
    made.attach(probe, out, module, options)
    return made


def hugging_face_callback(
    probe: tuple[object, object], out: str | Path, module: str = "", **options: Any
) -> Any:
    """A callback for `Trainer(callbacks=[…])` of Hugging Face; as `lightning_callback`.

    A model that returns an object with `logits` is taken as it is. Losses are those that the
    Trainer logs, every `logging_steps`; 'eval_loss' and 'eval_accuracy' are recorded.
    """
    base = _base(("transformers",), "TrainerCallback", "transformers")
    made = type("DgnWatch", (_TrainerHooks, base), {})()
    made.attach(probe, out, module, options)
    return made


class _Attached:
    """What both kinds of callbacks hold; at most one run is watched at a time."""

    def attach(self, probe: object, out: str | Path, module: str, options: dict[str, Any]) -> None:
        self._given = (probe, out, options)
        self._part = module
        self._watcher: Watcher | None = None

    def _begin(self, model: nn.Module, step: int) -> None:
        probe, out, options = self._given
        watcher = Watcher(_part_of(model, self._part), probe, out, **options)  # type: ignore[arg-type]
        watcher.steps = step
        self._watcher = watcher.start()

    def give_up(self, error: BaseException) -> None:
        """End the watching by an exception of a hook; `Watcher.give_up`."""
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.give_up(error)
        elif is_interrupt(error):
            raise error
        else:
            warn(f"Nothing is recorded: {error_kind(error)} in the callback.")

    def _end(self, error: BaseException | None = None) -> None:
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.close(error)


def _shielded(hook: Callable[..., None]) -> Callable[..., None]:
    """Let no exception of a hook end the training, such as that of a trainer without a step."""

    @functools.wraps(hook)
    def call(self: _Attached, *args: Any, **kwargs: Any) -> None:
        try:
            hook(self, *args, **kwargs)
        except UserError:  # what was given wrongly is refused before the first step
            raise
        except BaseException as error:
            self.give_up(error)

    return call


class _LightningHooks(_Attached):
    """The hooks of `lightning.pytorch.Callback` that a watcher needs."""

    @_shielded
    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        if trainer.is_global_zero:
            self._begin(pl_module, int(trainer.global_step))

    @_shielded
    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, *_batch: Any, **_more: Any
    ) -> None:
        """A batch was passed; with gradients that are accumulated not each is a step."""
        watcher = self._watcher
        if watcher is None:
            return
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        if int(trainer.global_step) > watcher.steps:
            watcher.step(loss)
        else:
            watcher.log(loss)

    @_shielded
    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        if self._watcher is not None and not trainer.sanity_checking:
            found = trainer.callback_metrics
            self._watcher.test(found.get("val_loss"), found.get("val_acc"))

    @_shielded
    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._end(exception)

    @_shielded
    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._end()


class _TrainerHooks(_Attached):
    """The hooks of `transformers.TrainerCallback` that a watcher needs."""

    @_shielded
    def on_train_begin(
        self, args: Any, state: Any, control: Any, model: Any = None, **_more: Any
    ) -> None:
        if state.is_world_process_zero:
            self._begin(model, int(state.global_step))

    @_shielded
    def on_step_end(self, args: Any, state: Any, control: Any, **_more: Any) -> None:
        if self._watcher is not None:
            self._watcher.step()

    @_shielded
    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_more: Any) -> None:
        if self._watcher is not None and logs and "loss" in logs:
            self._watcher.log(logs["loss"])

    @_shielded
    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: Any = None, **_more: Any
    ) -> None:
        if self._watcher is not None and metrics:
            self._watcher.test(metrics.get("eval_loss"), metrics.get("eval_accuracy"))

    @_shielded
    def on_train_end(self, args: Any, state: Any, control: Any, **_more: Any) -> None:
        self._end()


def _part_of(model: Any, name: str) -> nn.Module:
    part = model
    for each in name.split(".") if name else ():
        part = getattr(part, each, None)
    if not isinstance(part, nn.Module):
        raise ArgumentError(
            f"{type(model).__name__} has no module '{name}': name the attribute that maps examples "
            "to logits.",
            kind="unknown-name",
            value=name,
        )
    return part


def _base(modules: tuple[str, ...], name: str, package: str) -> Any:
    """The class that callbacks of a package derive from."""
    for module in modules:
        try:
            return getattr(importlib.import_module(module), name)
        except ModuleNotFoundError:
            continue
    raise UserError(
        f"This callback needs {package}, which is not installed: pip install {package}.",
        kind="no-package",
        value=package,
    )
