"""Fit the CNTK of Arora et al. to subsets of CIFAR-10, as large as the time allows.

    python -m benchmarks.gpu_cntk --data FOLDER --seconds 170 --out build/cntk.json

[NPF] and [DUAL] compare networks with the 77.43 % of this kernel: ten 3×3 convolutions, global
average pooling and a dense layer, fitted to all 50,000 images. Here the number of training images
doubles until the next doubling would exceed the time; the accuracy is that of ridge regression, on
the same test images, averaged over disjoint subsets of the images so far. The output ends with the
time that all pairs of the paper would take at the measured rate. With --dry it runs on the CPU, for
a few images. Called by `benchmarks/gpu_session.sh --only cntk`.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from time import monotonic as now

import torch
from torch import Tensor

from benchmarks import machine
from benchmarks.children import write_atomically
from benchmarks.gpu import NO_CARD, NO_CARD_WORDS, Tree, add_time_options, compute_deadline
from benchmarks.gpu_davidnet import find_data
from dgn_engine.config import DataConfig
from dgn_engine.data import load_examples
from dgn_engine.errors import UserError
from dgn_engine.kernels import class_targets, kernel_regression
from dgn_engine.kernels.cntk import limit_on_device
from dgn_engine.model.architecture import Architecture, Conv, Dense, GlobalAveragePool
from dgn_engine.sweep.statistics import mean_and_half_width

CONVOLUTIONS, PRINTED = 10, 77.43
TRAIN, TEST = 50_000, 10_000  # images behind the printed number
START, MOST, TESTED = 40, 5_120, 400
RIDGE = 1e-6  # of the mean eigenvalue: as good as none
DRY_START, DRY_MOST, DRY_TESTED, DRY_SIDE = 4, 8, 6, 8
FEWEST = 3  # subsets for an interval
SPARE = 1.2  # the next doubling is begun with this multiple of its expected time


def build_architecture(side: int) -> Architecture:
    """Return the published network; the limit does not depend on the number of channels."""
    convs = [Conv(3 if not layer else 8, 8) for layer in range(CONVOLUTIONS)]
    return Architecture((3, side, side), (*convs, GlobalAveragePool(), Dense(8, 10, gated=False)))


def interleave_classes(labels: Tensor, seed: int) -> Tensor:
    """Return a random order in which every class has its turn, so that each part is balanced."""
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    seen: dict[int, int] = {}
    turns = []
    for index in order.tolist():
        label = int(labels[index])
        turns.append((seen.setdefault(label, 0), label, index))
        seen[label] += 1
    return torch.tensor([index for *_, index in sorted(turns)])


def count_pairs(train: int, test: int) -> int:
    """Return how many pairs a fit needs: all of the training images, and with each test image."""
    return train * (train + 1) // 2 + train * test


class SubsetFits:
    """The kernel of a growing number of training images, with one set of test images."""

    def __init__(
        self, train: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor], device: torch.device
    ) -> None:
        (self._train, train_y), (self._test, test_y) = train, test
        self._labels = torch.cat([train_y, test_y])
        self._architecture = build_architecture(self._train.shape[-1])
        self._device = None if device.type == "cpu" else device
        size = len(self._train) + len(self._test)
        self._kernel = torch.zeros(size, size, dtype=torch.float64)
        self.tested, self.images, self.pairs, self.seconds = len(test_y), 0, 0, 0.0

    def grow(self, images: int) -> None:
        """Compute the kernel of further training images with themselves and all before."""
        began, first, tests = now(), self.images, slice(len(self._train), None)
        added = self._train[first:images]
        others = torch.cat([self._train[:first], self._test])
        alone = limit_on_device(self._architecture, added, device=self._device)
        cross = limit_on_device(self._architecture, added, others, device=self._device)
        self._kernel[first:images, first:images] = alone.tangent
        self._kernel[first:images, :first] = cross.tangent[:, :first]
        self._kernel[:first, first:images] = cross.tangent[:, :first].T
        self._kernel[tests, first:images] = cross.tangent[:, first:].T
        self.images, self.seconds = images, self.seconds + now() - began
        self.pairs = count_pairs(images, self.tested)

    def score(self, size: int) -> list[float]:
        """Return the test accuracies (%) of fits to disjoint subsets of this size."""
        test = torch.arange(len(self._train), len(self._kernel))
        targets = class_targets(self._labels, int(self._labels.max()) + 1)
        return [
            100
            * kernel_regression(
                self._kernel, targets, torch.arange(first, first + size), test, RIDGE
            ).accuracy
            for first in range(0, self.images - size + 1, size)
        ]


def fit_subsets(fits: SubsetFits, start: int, most: int, until: float) -> Iterator[list[Tree]]:
    """Double the training images until the deadline; yield the rows of all sizes so far."""
    tested = fits.tested
    for size in (start * 2**k for k in count()):
        added = count_pairs(size, tested) - fits.pairs
        if size > most or (
            fits.pairs and now() + SPARE * added * fits.seconds / fits.pairs > until
        ):
            return
        fits.grow(size)
        yield [
            describe_scores(part, fits.score(part), tested)
            for part in (start * 2**k for k in range(int(math.log2(size // start)) + 1))
        ]


def describe_scores(size: int, scores: list[float], tested: int) -> Tree:
    """Return mean and 95 % half-widths: over subsets (Student), and of the test images alone."""
    mean, half = mean_and_half_width(scores)
    share, few = mean / 100, len(scores) < FEWEST
    return {
        "images": size,
        "subsets": len(scores),
        "accuracy": mean,
        "half_width_of_subsets": None if few else half,
        "half_width_of_tests": 196 * math.sqrt(share * (1 - share) / tested),
    }


def format_results(content: Tree) -> str:
    """Return the table and what is missing from it, for people."""
    lines = [f"{content['data']}; {content['machine']['device']}; {content['tested']} test images."]
    for row in content["rows"]:
        half = row["half_width_of_subsets"]
        over = "" if half is None else f", ± {half:.2f} over the sets"
        lines.append(
            f"{row['images']:6,} images, {row['subsets']} disjoint sets: {row['accuracy']:.2f} %"
            f"{over}, ± {row['half_width_of_tests']:.2f} by the test images"
        )
    if content["rows"] and not content["dry"]:  # dry, the pairs are smaller
        lines.append(
            f"{PRINTED} % with {TRAIN:,} images was not recomputed: its {content['all_pairs']:.3g} "
            f"pairs would take {content['days_for_all']:.3g} days at the measured "
            f"{content['pairs_per_second']:.3g} pairs a second."
        )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Run the fits and return the exit code: 0; 2: --out cannot be written; 3: no card."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_cntk", description=__doc__)
    parser.add_argument("--data", type=Path, help="CIFAR-10: a folder or an archive")
    parser.add_argument("--out", type=Path, default=Path("build/cntk.json"))
    add_time_options(parser, 170.0)
    parser.add_argument("--dry", action="store_true", help="corners of a few images, on the CPU")
    parser.add_argument("--cpu", action="store_true", help="on the CPU, with compiled loops")
    parser.add_argument("--tested", type=int, default=TESTED, help=f"test images ({TESTED})")
    options = parser.parse_args(arguments)
    until = compute_deadline(options)
    on_cpu = options.dry or options.cpu
    if not on_cpu and not torch.cuda.is_available():
        print(NO_CARD_WORDS, file=sys.stderr)
        return NO_CARD
    device = torch.device("cpu" if on_cpu else "cuda")
    try:
        if options.data is None:
            raise UserError("no data were given")
        data = find_data(options.data.absolute())
    except UserError as error:
        print(f"The CNTK is not computed: {str(error).rstrip('.')}.", file=sys.stderr)
        return 0
    start, most, tested = START, MOST, options.tested
    if options.dry:
        start, most, tested = DRY_START, DRY_MOST, DRY_TESTED
    config = DataConfig(
        data.name, data.root, normalise="cifar10", train_limit=most, test_limit=tested
    )
    examples = load_examples(config)
    train, test = (
        (torch.from_numpy(images.copy()).double(), torch.from_numpy(labels.copy()))
        for images, labels in (
            (examples.train_x, examples.train_y),
            (examples.test_x, examples.test_y),
        )
    )
    order = interleave_classes(train[1], seed=0)
    train = train[0][order], train[1][order]
    if options.dry:
        train, test = ((x[..., :DRY_SIDE, :DRY_SIDE], y) for x, y in (train, test))
    content: Tree = {
        "dry": options.dry,
        "machine": machine.describe_machine(device) | {"cuda": torch.version.cuda},
        "data": data.title,
        "tested": len(test[1]),
        "printed": PRINTED,
        "all_pairs": count_pairs(TRAIN, TEST),
        "rows": [],
    }
    fits = SubsetFits(train, test, device)
    for rows in fit_subsets(fits, start, min(most, len(train[1])), until):
        rate = fits.pairs / fits.seconds
        print(f"{rows[-1]['images']} images: {rows[-1]['accuracy']:.2f} %", flush=True)
        content |= {
            "rows": rows,
            "pairs_per_second": rate,
            "days_for_all": content["all_pairs"] / rate / 86_400,
        }
        try:
            options.out.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(options.out, json.dumps(content, indent=1))
        except OSError as error:
            print(f"{options.out} cannot be written: {error.strerror}.", file=sys.stderr)
            return 2
    print(format_results(content))
    return 0


if __name__ == "__main__":
    sys.exit(main())
