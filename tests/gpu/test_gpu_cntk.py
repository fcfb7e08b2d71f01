"""`benchmarks.gpu_cntk`: its kernel and accuracies a second way, and when it stops."""

from __future__ import annotations

import json
from collections import Counter
from itertools import combinations_with_replacement, product
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from benchmarks import gpu, gpu_cntk
from dgn_engine.kernels import convolutional_limit
from dgn_engine.kernels.cntk import limit_on_device
from dgn_engine.model.architecture import Architecture, Conv, Dense, GlobalAveragePool

TRAIN, TESTED = 8, 6


def drawn(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    images = torch.randn(count, 3, 5, 5, generator=generator, dtype=torch.float64)
    return images, torch.arange(count) % 3


def fits_of(size: int) -> gpu_cntk.SubsetFits:
    fits = gpu_cntk.SubsetFits(drawn(TRAIN, 0), drawn(TESTED, 1), torch.device("cpu"))
    while fits.images < size:
        fits.grow(max(2, 2 * fits.images))
    return fits


def test_accuracies_are_those_of_least_squares_with_the_whole_kernel() -> None:
    (train, train_y), (test, test_y) = drawn(TRAIN, 0), drawn(TESTED, 1)
    architecture = gpu_cntk.build_architecture(5)
    kernel = convolutional_limit(architecture, torch.cat([train, test])).tangent.numpy()
    signs = 2.0 * np.eye(3)[train_y] - 1
    fits = fits_of(TRAIN)
    for size in (2, 4, 8):
        expected = []
        for first in range(0, TRAIN, size):
            part = slice(first, first + size)
            weights = np.linalg.solve(kernel[part, part], signs[part])
            predicted = (kernel[TRAIN:, part] @ weights).argmax(1)
            expected.append(100 * float((predicted == test_y.numpy()).mean()))
        assert fits.score(size) == pytest.approx(expected)


def test_pairs_are_counted_one_by_one() -> None:
    assert fits_of(4).pairs == len(
        [*combinations_with_replacement(range(4), 2), *product(range(4), range(TESTED))]
    )
    assert gpu_cntk.count_pairs(3, 2) == 6 + 6


def test_every_part_of_the_images_is_balanced() -> None:
    labels = torch.arange(40) // 10
    order = gpu_cntk.interleave_classes(labels, 0)
    assert sorted(order.tolist()) == list(range(40))
    for first in range(0, 40, 8):
        assert set(Counter(labels[order[first : first + 8]].tolist()).values()) == {2}


@pytest.mark.parametrize(("left", "images"), [(1e9, 8), (-1.0, 2)])
def test_the_images_double_until_the_next_doubling_has_no_time(left: float, images: int) -> None:
    fits = fits_of(0)
    (*_, rows) = gpu_cntk.fit_subsets(fits, 2, TRAIN, gpu_cntk.now() + left)
    assert fits.images == images
    assert [(row["images"], row["subsets"]) for row in rows] == [
        (size, images // size) for size in (2, 4, 8) if size <= images
    ]
    assert [row["half_width_of_subsets"] is None for row in rows] == [
        row["subsets"] < 3 for row in rows
    ]


def test_the_limit_on_a_device_is_that_of_the_cpu(device: torch.device) -> None:
    """With a gated dense layer after the pooling, and with a second set of images."""
    x, other = drawn(4, 0)[0], drawn(3, 1)[0]
    nodes = (Conv(3, 4), Conv(4, 4), GlobalAveragePool(), Dense(4, 4), Dense(4, 2, gated=False))
    architecture = Architecture((3, 5, 5), nodes)
    for second in (None, other):
        expected = convolutional_limit(architecture, x, second)
        found = limit_on_device(architecture, x, second, device)
        for one, two in (
            (found.tangent, expected.tangent),
            (found.covariance, expected.covariance),
        ):
            assert one.device.type == "cpu"
            assert torch.allclose(one, two, rtol=1e-10)


def test_a_dry_run_writes_what_it_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    generator = np.random.default_rng(0)
    for part, label, number in product(("train", "test"), range(10), range(2)):
        path = tmp_path / part / str(label) / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(generator.integers(0, 256, (32, 32, 3), np.uint8)).save(path)
    out = tmp_path / "out" / "cntk.json"
    assert gpu_cntk.main(["--dry", "--data", str(tmp_path), "--out", str(out)]) == 0
    content = json.loads(out.read_text("utf-8"))
    assert content["dry"] is True
    assert [row["images"] for row in content["rows"]] == [4, 8]
    assert content["all_pairs"] == 50_000 * 50_001 // 2 + 50_000 * 10_000
    assert f"{content['rows'][1]['accuracy']:.2f} %" in capsys.readouterr().out


def test_without_a_card_or_data_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    out = tmp_path / "cntk.json"
    assert gpu_cntk.main(["--out", str(out)]) == gpu.NO_CARD
    assert capsys.readouterr().err == gpu.NO_CARD_WORDS + "\n"
    assert gpu_cntk.main(["--dry", "--out", str(out)]) == 0
    assert not out.exists()
