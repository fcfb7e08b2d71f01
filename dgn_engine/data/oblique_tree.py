"""Points labelled by a random oblique decision tree (Banerjee et al. 2025).

A complete tree of `depth` levels: each inner node cuts the space by a hyperplane with a random
normal, and the leaves are labelled −1 and +1 in turn, so that siblings differ. As published, points
are uniform on the unit sphere and all hyperplanes pass through the origin. With `halving`, points
are uniform in the unit ball, each hyperplane halves the points of its node, and each example ends
with a constant 1, which serves as a bias: in the plane, (x, y, 1).

Prithaj Banerjee, Harish G. Ramaswamy, Mahesh Lorik Yadav and Chandrashekar Lakshminarayanan, 'Deep
Networks Learn Features From Local Discontinuities in the Label Function', ICLR 2025.
"""

from __future__ import annotations

import hashlib

import numpy as np

from dgn_engine.config import DataConfig
from dgn_engine.config.setting import Setting
from dgn_engine.data._dataset import DataSet, DataSizes, Examples, Labels, Report
from dgn_engine.data._variants import frozen_stream
from dgn_engine.data._vectors import Vectors, vector_counts

NAME = "oblique-tree"
TEST = 5000  # test points, drawn in the same way
REFERENCES = 4096  # points whose median a halving hyperplane passes through
OPTIONS = (
    Setting("n", "training points n", 2000, least=2, most=100_000),
    Setting("dim", "dimension", 20, least=2, most=10_000),
    Setting("depth", "depth of the tree", 4, least=1, most=8),
    Setting("halving", "cuts halve their node", False),
)


def draw_tree(dim: int, depth: int, halving: bool, seed: int) -> Vectors:
    """Draw the hyperplanes w·x + b = 0 of a tree.

    Returns:
        A row (w, b) for each of the 2^depth − 1 inner nodes, level by level, (m, dim + 1), with
        ‖w‖ = 1.
    """
    stream = frozen_stream(NAME, "tree", seed)
    cuts = np.zeros((2**depth - 1, dim + 1))
    normals = stream.normal(size=(len(cuts), dim))
    cuts[:, :dim] = normals / np.linalg.norm(normals, axis=1, keepdims=True)
    if halving:
        points = _draw_points(REFERENCES, dim, True, stream)
        node = np.zeros(REFERENCES, dtype=np.int64)
        for index, cut in enumerate(cuts):  # parents come before their children
            inside = node == index
            across = points[inside] @ cut[:dim]
            cut[dim] = -np.median(across)
            node[inside] = 2 * index + 1 + (across + cut[dim] > 0)
    return cuts


def find_leaves(points: Vectors, cuts: Vectors) -> Labels:
    """Return the leaf of points (n, dim), counted from 0 in the order of the tree.

    Args:
        points: Points, (n, dim).
        cuts: Rows (w, b) of all inner nodes, level by level.
    """
    sides = points @ cuts[:, :-1].T + cuts[:, -1] > 0
    node = np.zeros(len(points), dtype=np.int64)
    rows = np.arange(len(points))
    while node[0] < len(cuts):  # all leaves are on one level
        node = 2 * node + 1 + sides[rows, node]
    return node - len(cuts)


def label_points(points: Vectors, cuts: Vectors) -> Labels:
    """Return the label, 0 or 1, of points (n, dim): whether they leave the last cut above it."""
    return find_leaves(points, cuts) % 2


def load_oblique_tree(config: DataConfig, _report: Report) -> Examples:
    """Draw a tree and its points by `variant_seed`."""
    n, dim = vector_counts(config)
    options, seed = dict(config.options), config.variant_seed
    halving = bool(options["halving"])
    cuts = draw_tree(dim, int(options["depth"]), halving, seed)
    digest = hashlib.sha256(NAME.encode())
    parts: list[tuple[np.ndarray, Labels]] = []
    for what, count in (("train", n), ("test", TEST)):
        points = _draw_points(count, dim, halving, frozen_stream(NAME, what, seed))
        labels = label_points(points, cuts)
        inputs = np.hstack([points, np.ones((count, 1))]) if halving else points
        x = np.ascontiguousarray(inputs, dtype=np.float32)
        digest.update(str(x.shape).encode())
        digest.update(x.data)
        digest.update(labels.data)
        parts.append((x, labels))
    if halving:  # the constant has no weight of its own: all of b is the offset
        cuts = np.insert(cuts, dim, 0.0, axis=1)
    (train_x, train_y), (test_x, test_y) = parts
    fingerprint = digest.hexdigest()
    return Examples(
        *(train_x, train_y, test_x, test_y, ("-1", "+1"), NAME, fingerprint),
        signed=True,
        cuts=cuts,
    )


def _draw_points(n: int, dim: int, ball: bool, stream: np.random.RandomState) -> Vectors:
    """Draw points uniformly from the unit sphere, or from the unit ball."""
    points = stream.normal(size=(n, dim))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    if ball:
        points *= stream.uniform(size=(n, 1)) ** (1 / dim)
    return points


def sizes(config: DataConfig) -> DataSizes:
    n, dim = vector_counts(config)
    return DataSizes(n, TEST, (dim + bool(dict(config.options)["halving"]),), 1)


DATA = DataSet(
    "Oblique decision tree", load_oblique_tree, "Generated on demand.", OPTIONS, sizes=sizes
)
