"""Training loops of somebody else, small ones, and K of their modules by autograd."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dgn_engine.attachment.watcher import Watcher, WatchPace
from dgn_engine.protocol.frames import Reading
from dgn_engine.storage.runs.run_reader import RunReader

AT_EVERY_STEP = WatchPace(look=0.0, note=0.0, frame=0.0)  # nothing waits for the clock


def mlp() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))


def smooth() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3))


def normalised(act: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Whose statistics move fast, and are far from those that it begins with."""
    torch.manual_seed(3)
    norm = nn.BatchNorm1d(8, momentum=0.5)
    return nn.Sequential(nn.Linear(6, 8), norm, act(), nn.Linear(8, 3))


def examples(count: int = 12) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(count, 6, generator=generator)
    return x, torch.randint(0, 3, (count,), generator=generator)


def watch_closely(module: nn.Module, out: Path, **options: Any) -> Watcher:
    """A watcher that looks, notes and frames at every step."""
    probe = options.pop("probe") if "probe" in options else examples()
    return Watcher(module, probe, out, **{"pace": AT_EVERY_STEP, **options})


def train(
    model: nn.Module, steps: int, after: Callable[[Tensor], object] = lambda loss: None
) -> list[Tensor]:
    """Batches are drawn by torch's own generator; `after` is called after each step."""
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = examples(40)
    for _ in range(steps):
        rows = torch.randint(0, 40, (8,))
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        after(loss)
    return [p.detach().clone() for p in model.parameters()]


def kernel_by_autograd(module: nn.Module, x: Tensor) -> np.ndarray:
    """K by a backward pass for each logit, of one pass of a copy in evaluation."""
    copy = deepcopy(module).eval()
    trained = [p for p in copy.parameters() if p.requires_grad]
    logits = copy(x)
    rows = []
    for logit in logits.flatten():
        found = torch.autograd.grad(logit, trained, retain_graph=True, allow_unused=True)
        pairs = zip(found, trained, strict=True)
        rows.append(torch.cat([(p * 0 if g is None else g).flatten() for g, p in pairs]))
    J = torch.stack(rows).double().reshape(*logits.shape, -1)
    return torch.einsum("scp,tcp->st", J, J).detach().numpy() / logits.shape[1]


def assert_kernel(reading: Reading, module: nn.Module, x: Tensor, tolerance: float = 1e-5) -> None:
    """The reading is K of the module on as many evenly spaced rows of x, sorted by class."""
    found = reading.arrays["value"]
    rows = torch.linspace(0, len(x) - 1, len(found)).round().long()
    wanted = kernel_by_autograd(module, x[rows])
    np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance * np.abs(wanted).max())


def last_reading(out: Path, step: int, probe: str = "ntk") -> Reading:
    """Of the newest frame, which is of this step."""
    frame = RunReader(out).latest_frame(step)
    assert frame is not None
    assert frame.step == step
    return frame.readings[probe]


# Stand-ins for the packages, with the names and arguments of their protocols.


def stand_in_packages(patch: pytest.MonkeyPatch) -> None:
    """Lightning and transformers as far as our callbacks ask for them."""
    lightning = type("Callback", (), {"setup": lambda self, trainer, module, stage: None})
    hugging_face = type("TrainerCallback", (), {})
    patch.setitem(sys.modules, "lightning", types.ModuleType("lightning"))
    packages = {"lightning.pytorch": lightning, "transformers": hugging_face}
    for name, base in packages.items():
        patch.setitem(sys.modules, name, types.SimpleNamespace(**{base.__name__: base}))


class LightningTrainer:
    """What a callback of Lightning sees of its trainer, and the order in which it is called."""

    is_global_zero, sanity_checking = True, False

    def __init__(self, callback: Any) -> None:
        self.callback, self.global_step = callback, 0
        self.callback_metrics: dict[str, Any] = {}

    def fit(self, module: Any, step: Callable[[], Tensor], steps: int, accumulate: int = 1) -> None:
        self.callback.setup(self, module, "fit")
        module._trainer = self
        self.callback.on_train_start(self, module)
        for batch in range(steps * accumulate):
            loss = step()
            self.global_step += (batch + 1) % accumulate == 0
            self.callback.on_train_batch_end(self, module, {"loss": loss}, None, batch)
        self.callback_metrics = {"val_loss": torch.tensor(0.5), "val_acc": torch.tensor(0.75)}
        self.callback.on_validation_end(self, module)
        self.callback.on_train_end(self, module)
        del module._trainer

    def __deepcopy__(self, memo: object) -> None:
        raise AssertionError("the trainer must not be copied")


class HuggingFaceTrainer:
    """As `LightningTrainer`, of the Trainer of Hugging Face."""

    def __init__(self, callback: Any) -> None:
        self.callback = callback
        self.state = types.SimpleNamespace(global_step=0, is_world_process_zero=True)

    def fit(self, module: Any, step: Callable[[], Tensor], steps: int) -> None:
        given = (object(), self.state, object())
        self.callback.on_train_begin(*given, model=module, optimizer=None)
        for _ in range(steps):
            loss = step()
            self.state.global_step += 1
            self.callback.on_step_end(*given, model=None)
            self.callback.on_log(*given, logs={"loss": float(loss), "epoch": 1.0})
        self.callback.on_evaluate(*given, metrics={"eval_loss": 0.5})
        self.callback.on_train_end(*given)
