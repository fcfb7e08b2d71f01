"""DavidNet's own augmentation: each transform against an obvious twin, exact resume, off is off."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from dgn_engine.config import DataConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.data._augmentation import Augmentation
from dgn_engine.errors import UserError
from dgn_engine.protocol.frames import Array
from dgn_engine.training.batched import group_into_packs
from dgn_engine.training.device_data import epoch_order
from dgn_engine.training.run import Run
from dgn_engine.training.run_snapshot import capture_run, restore_run
from dgn_engine.training.steps.losses import compute_loss
from dgn_engine.training.steps.optimizer import NetworkOptimizer

Make = Callable[..., Run]
TINY = RunConfig(
    data=DataConfig(train_limit=96, test_limit=20),
    net=NetConfig("davidnet", (("width", 2),)),
    training=TrainingConfig(
        batch=32, epochs=2, optimiser="sgd", learning_rate=0.1, augmentation="davidnet"
    ),
    probe_examples=10,
)
OFF = replace(TINY, training=replace(TINY.training, augmentation="none"))


def shown_by_hand(shown: Augmentation, images: Array, row: int, epoch: int, fill: Array) -> Array:
    """One image, step by step as in the published code: pad, crop, mirror, cut out."""
    views = shown.draw_views(epoch)
    height, width = images.shape[2:]
    pad = min(height, width) // 8
    padded = np.pad(images[row], ((0, 0), (pad, pad), (pad, pad)), mode="reflect")
    top, left = int(views.top[row]), int(views.left[row])
    seen = padded[:, top : top + height, left : left + width].copy()
    if bool(views.mirrored[row]):
        seen = seen[:, :, ::-1].copy()
    side = min(height, width) // 4
    y, x = int(views.hole_top[row]), int(views.hole_left[row])
    seen[:, y : y + side, x : x + side] = fill[:, None, None]
    return seen


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (1, 8, 8), (2, 9, 20)])
def test_images_are_cropped_mirrored_and_cut_out_as_by_hand(shape: tuple[int, ...]) -> None:
    images = torch.rand((40, *shape), generator=torch.Generator().manual_seed(1)).double()
    shown = Augmentation(images, seed=3)
    rows = torch.tensor([5, 0, 39, 5, 17])
    fill = images.numpy().mean(axis=(0, 2, 3))
    for epoch in (0, 4):
        seen = shown.augment_images(images[rows], rows, epoch).numpy()
        for place, row in enumerate(rows.tolist()):
            twin = shown_by_hand(shown, images.numpy(), row, epoch, fill)
            np.testing.assert_allclose(seen[place], twin, rtol=0, atol=1e-15)


def test_cifar_sized_images_are_padded_by_four_and_lose_eight_by_eight() -> None:
    shown = Augmentation(torch.ones(2, 3, 32, 32), seed=0)
    assert (shown.pad, shown.hole) == (4, 8)


def test_every_shift_mirror_and_hole_is_drawn_and_none_beyond() -> None:
    views = Augmentation(torch.zeros(9000, 1, 8, 8), seed=0).draw_views(0)
    assert set(views.top.tolist()) == set(views.left.tolist()) == {0, 1, 2}
    assert set(views.hole_top.tolist()) == set(views.hole_left.tolist()) == set(range(7))
    # a binomial of 9,000 with p = ½ has a deviation of 47
    assert abs(int(views.mirrored.sum()) - 4500) < 5 * 47


def test_views_are_a_function_of_seed_and_epoch() -> None:
    images = torch.zeros(50, 1, 8, 8)
    one, other = Augmentation(images, seed=2), Augmentation(images, seed=2)
    other.draw_views(7)
    assert torch.equal(one.draw_views(3).top, other.draw_views(3).top)
    assert not torch.equal(one.draw_views(3).top, one.draw_views(4).top)
    assert not torch.equal(one.draw_views(3).top, Augmentation(images, seed=5).draw_views(3).top)


@pytest.mark.parametrize("config", [OFF, TINY], ids=["off", "on"])
def test_a_step_is_taken_on_the_images_as_they_are_shown(make_run: Make, config: RunConfig) -> None:
    run = make_run("ReLU", config)
    data = run.trainer.data
    network = copy.deepcopy(run.trainer.network)
    optimisation = NetworkOptimizer(config.training, network)
    twin = Augmentation(data.train_x, config.seed)
    for step in range(4):
        epoch, place = divmod(step, 3)
        rows = epoch_order(config.seed, epoch, 96)[32 * place : 32 * place + 32]
        x = data.train_x[rows]
        if config is TINY:
            x = twin.augment_images(x, rows, epoch)
        network.gather_statistics(True)
        logits = network(x)
        network.gather_statistics(False)
        compute_loss("cross-entropy", logits, data.train_y[rows]).backward()  # type: ignore[no-untyped-call]
        optimisation.step()
        run.step()
    for name, tensor in network.state_dict().items():
        assert torch.equal(tensor, run.trainer.network.state_dict()[name]), name


def test_an_augmented_run_that_goes_on_is_the_one_that_was_not_interrupted(make_run: Make) -> None:
    whole = make_run("ReLU", TINY)
    whole.step()
    snapshot = capture_run(whole)
    other = Run(1, whole.config, lambda _: None, lambda *_: None, live=False, recorded=True)
    restore_run(other, snapshot)
    for run in (whole, other):
        for _ in range(4):  # into the second epoch
            run.step()
    theirs = other.trainer.tensors()
    assert all(torch.equal(t, theirs[name]) for name, t in whole.trainer.tensors().items())
    assert whole.trainer.counters() == other.trainer.counters()


def test_test_and_probe_images_stay_as_they_are(make_run: Make) -> None:
    run, plain = make_run("ReLU", TINY), make_run("ReLU", OFF)
    assert torch.equal(run.trainer.data.test_x, plain.trainer.data.test_x)
    assert torch.equal(run.probed.probe_context().x, plain.probed.probe_context().x)


def test_rows_of_numbers_and_specks_are_refused(make_run: Make) -> None:
    dense = replace(TINY, net=NetConfig("fc", (("width", 8), ("depth", 3))))
    with pytest.raises(UserError, match="convolutional network"):
        make_run("ReLU", dense)
    with pytest.raises(UserError, match="at least 8×8 pixels; these have 5×9"):
        Augmentation(torch.zeros(3, 1, 5, 9), seed=0)
    with pytest.raises(UserError, match=r"training\.augmentation is 'flip'"):
        TrainingConfig(augmentation="flip")  # type: ignore[arg-type]


def test_augmented_runs_are_left_out_of_packs() -> None:
    dense = replace(TINY, net=NetConfig("fc"))
    assert group_into_packs([dense, replace(dense, training=OFF.training)]).leftovers == (0,)
