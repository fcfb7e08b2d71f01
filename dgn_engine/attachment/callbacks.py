"""Callbacks that watch a module in the training loops of Lightning and the Hugging Face Trainer.

Neither package is a dependency: the callback's base class is imported when a callback is made.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import nn

from dgn_engine.attachment.isolation import is_interrupt
from dgn_engine.attachment.watcher import Watcher, error_kind, warn_user
from dgn_engine.errors import ArgumentError, UserError, how_to_install

_LIGHTNING = ("lightning.pytorch", "pytorch_lightning")


def lightning_callback(
    probe: tuple[object, object], out: str | Path, module: str = "", **options: Any
) -> Any:
    """Return a callback for Lightning's `Trainer(callbacks=[…])`.

    The validation scores 'val_loss' and 'val_acc' are recorded where you log them.

    Args:
        probe: Examples (n, …) and labels (n,), as in `watch`.
        out: A new folder for the run.
        module: The attribute of your LightningModule that maps examples to logits, such as 'net';
            '' is the LightningModule itself.
        options: Further keyword arguments of `watch`.

    Returns:
        A `lightning.pytorch.Callback`. It watches at most one run at a time.

    Raises:
        UserError: Lightning is not installed.
    """
    base = _callback_base(_LIGHTNING, "Callback", "lightning")
    callback = type("DgnWatch", (_LightningHooks, base), {})()
    callback.attach(probe, out, module, options)
    return callback


def hugging_face_callback(
    probe: tuple[object, object], out: str | Path, module: str = "", **options: Any
) -> Any:
    """Return a callback for the Hugging Face `Trainer(callbacks=[…])`.

    The model may return an object with `logits`. Losses are those that the Trainer logs, every
    `logging_steps`; 'eval_loss' and 'eval_accuracy' are recorded too.

    Args:
        probe: Examples (n, …) and labels (n,), as in `watch`.
        out: A new folder for the run.
        module: The attribute of your model that maps examples to logits; '' is the model itself.
        options: Further keyword arguments of `watch`.

    Returns:
        A `transformers.TrainerCallback`. It watches at most one run at a time.

    Raises:
        UserError: transformers is not installed.
    """
    base = _callback_base(("transformers",), "TrainerCallback", "transformers")
    callback = type("DgnWatch", (_TrainerHooks, base), {})()
    callback.attach(probe, out, module, options)
    return callback


class _Attached:
    """The state shared by both callbacks: what to watch, and the watcher while a run trains."""

    def attach(self, probe: object, out: str | Path, module: str, options: dict[str, Any]) -> None:
        """Store what to watch; watching starts with the training.

        Args:
            probe: Examples and labels, as in `watch`.
            out: A new folder for the run.
            module: A dotted attribute of the model; '' is the model itself.
            options: Further keyword arguments of `watch`.
        """
        self._given = (probe, out, options)
        self._part = module
        self._watcher: Watcher | None = None

    def _start_watcher(self, model: nn.Module, step: int) -> None:
        probe, out, options = self._given
        watcher = Watcher(_submodule_at(model, self._part), probe, out, **options)  # type: ignore[arg-type]
        watcher.steps = step
        self._watcher = watcher.start()

    def stop_after_error(self, error: BaseException) -> None:
        """Stop watching after an exception in a hook; see `Watcher.stop_after_error`.

        Args:
            error: The exception.

        Raises:
            BaseException: `error` itself, where it is the user's way to stop the program.
        """
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.stop_after_error(error)
        elif is_interrupt(error):
            raise error
        else:
            warn_user(f"Nothing is recorded: the callback raised {error_kind(error)}.")

    def _close_watcher(self, error: BaseException | None = None) -> None:
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.close(error)


def _guard_hook(hook: Callable[..., None]) -> Callable[..., None]:
    """Wrap a hook so that its exceptions never end the training.

    An example is a hook that expects an attribute the trainer does not have. A `UserError` is
    raised: it reports a wrong argument, before the first step.
    """

    @functools.wraps(hook)
    def guarded_hook(self: _Attached, *args: Any, **kwargs: Any) -> None:
        try:
            hook(self, *args, **kwargs)
        except UserError:  # a wrong argument is reported before the first step
            raise
        except BaseException as error:
            self.stop_after_error(error)

    return guarded_hook


class _LightningHooks(_Attached):
    """The hooks of `lightning.pytorch.Callback` that drive a watcher."""

    @_guard_hook
    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Start watching, in the main process only.

        Args:
            trainer: Lightning's trainer.
            pl_module: The LightningModule that it trains.
        """
        if trainer.is_global_zero:
            self._start_watcher(pl_module, int(trainer.global_step))

    @_guard_hook
    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, *_batch: Any, **_more: Any
    ) -> None:
        """Record the loss of a batch.

        With gradient accumulation a batch is not always a step: `global_step` decides.

        Args:
            trainer: Lightning's trainer.
            pl_module: The LightningModule that it trains.
            outputs: What `training_step` returned: the loss, or a dictionary with 'loss'.
        """
        watcher = self._watcher
        if watcher is None:
            return
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        if int(trainer.global_step) > watcher.steps:
            watcher.step(loss)
        else:
            watcher.log(loss)

    @_guard_hook
    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Record 'val_loss' and 'val_acc', if they were logged.

        Args:
            trainer: Lightning's trainer.
            pl_module: The LightningModule that it trains.
        """
        if self._watcher is not None and not trainer.sanity_checking:
            metrics = trainer.callback_metrics
            self._watcher.test(metrics.get("val_loss"), metrics.get("val_acc"))

    @_guard_hook
    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Stop watching: the training failed.

        Args:
            trainer: Lightning's trainer.
            pl_module: The LightningModule that it trains.
            exception: What ended the training.
        """
        self._close_watcher(exception)

    @_guard_hook
    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Finish the run.

        Args:
            trainer: Lightning's trainer.
            pl_module: The LightningModule that it trains.
        """
        self._close_watcher()


class _TrainerHooks(_Attached):
    """The hooks of `transformers.TrainerCallback` that drive a watcher."""

    @_guard_hook
    def on_train_begin(
        self, args: Any, state: Any, control: Any, model: Any = None, **_more: Any
    ) -> None:
        """Start watching, in the main process only.

        Args:
            args: The `TrainingArguments`.
            state: The `TrainerState`.
            control: The `TrainerControl`.
            model: The model that is trained.
        """
        if state.is_world_process_zero:
            self._start_watcher(model, int(state.global_step))

    @_guard_hook
    def on_step_end(self, args: Any, state: Any, control: Any, **_more: Any) -> None:
        """Count a step.

        Args:
            args: The `TrainingArguments`.
            state: The `TrainerState`.
            control: The `TrainerControl`.
        """
        if self._watcher is not None:
            self._watcher.step()

    @_guard_hook
    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_more: Any) -> None:
        """Record the training loss, if it was logged.

        Args:
            args: The `TrainingArguments`.
            state: The `TrainerState`.
            control: The `TrainerControl`.
            logs: The logged values by name.
        """
        if self._watcher is not None and logs and "loss" in logs:
            self._watcher.log(logs["loss"])

    @_guard_hook
    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: Any = None, **_more: Any
    ) -> None:
        """Record 'eval_loss' and 'eval_accuracy'.

        Args:
            args: The `TrainingArguments`.
            state: The `TrainerState`.
            control: The `TrainerControl`.
            metrics: The evaluation's values by name.
        """
        if self._watcher is not None and metrics:
            self._watcher.test(metrics.get("eval_loss"), metrics.get("eval_accuracy"))

    @_guard_hook
    def on_train_end(self, args: Any, state: Any, control: Any, **_more: Any) -> None:
        """Finish the run.

        Args:
            args: The `TrainingArguments`.
            state: The `TrainerState`.
            control: The `TrainerControl`.
        """
        self._close_watcher()


def _submodule_at(model: Any, name: str) -> nn.Module:
    part = model
    for attribute in name.split(".") if name else ():
        part = getattr(part, attribute, None)
    if not isinstance(part, nn.Module):
        raise ArgumentError(
            f"{type(model).__name__} has no module '{name}'. Give the attribute that maps examples "
            "to logits.",
            kind="unknown-name",
            value=name,
        )
    return part


def _callback_base(modules: tuple[str, ...], name: str, package: str) -> Any:
    """Import the class that callbacks of a package derive from, or raise `UserError`."""
    for module in modules:
        try:
            return getattr(importlib.import_module(module), name)
        except ModuleNotFoundError:
            continue
    raise UserError(
        f"This callback needs {package}. {how_to_install(package)}",
        kind="no-package",
        value=package,
    )
