"""Small figures of the concepts and of the theory: computed from their formulas, or from a run."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dgn_engine.cli import main
from documentation.generated_page import GeneratedPicture

FOLDER = "images/concepts"
COLOURS = ("#0b6e75", "#b3541e", "#5b5fa8", "#7a7f87")


def generate(run: Path) -> Iterator[GeneratedPicture]:
    """Yield every figure; those of a run are drawn by `dgn figure`."""
    for name, draw in FIGURES.items():
        yield GeneratedPicture(f"{FOLDER}/{name}.svg", _svg(draw, name))
    for name, panel, options in OF_THE_RUN:
        yield GeneratedPicture(f"{FOLDER}/{name}.png", _of_run(run, panel, options))


def gates(axes: Axes) -> None:
    q = np.linspace(-1.5, 1.5, 601)
    axes.plot(q, q > 0, color="#3b3f46", label="hard")
    for beta, colour in zip((2, 8, 32), COLOURS, strict=False):
        axes.plot(q, 1 / (1 + np.exp(-beta * q)), color=colour, label=f"soft, β = {beta}")
    axes.set(xlabel="pre-activation q", ylabel="gate")
    axes.legend(frameon=False)


def depth(axes: Axes) -> None:
    """Λ off the diagonal at random initialisation: ((π − θ)/π)^l, unit diagonal, θ fixed."""
    layers = np.arange(1, 11)
    for degrees, colour in zip((10, 30, 60, 90), COLOURS, strict=True):
        share = (np.pi - np.radians(degrees)) / np.pi
        axes.plot(layers, share**layers, "o-", ms=3, color=colour, label=f"angle {degrees}°")
    axes.set(xlabel="gated layers", ylabel="overlap of two examples", ylim=(0, 1))
    axes.legend(frameon=False)


def nu(axes: Axes) -> None:
    """ν/n² where the share a of the labels' energy lies in the first k of n = 64 eigenvectors,
    which have the share 0.9 of the kernel."""
    n, energy = 64, np.linspace(0.0, 1.0, 201)
    for k, colour in zip((2, 10, 32), COLOURS, strict=False):
        kernel = 0.9
        found = energy * n * k / kernel + (1 - energy) * n * (n - k) / (1 - kernel)
        axes.plot(energy, found / n**2, color=colour, label=f"k = {k}")
    axes.axhline(1, color="#7a7f87", lw=0.8, ls="--")
    axes.text(0.01, 1.08, "each example on its own (H ∝ identity)", fontsize=7)
    axes.set(
        xlabel="share of the labels in the first k eigenvectors", ylabel="ν / n²", yscale="log"
    )
    axes.legend(frameon=False)


def random_gating(axes: Axes) -> None:
    """The two eigenvalues of E[K_0]/d for n equal inputs and gates that open with chance ½."""
    d, n, p = np.arange(2, 21), 200, 0.5
    axes.plot(d, 1 + (n - 1) * p ** (d - 1), "o-", ms=3, color=COLOURS[0], label="the largest")
    axes.plot(d, 1 - p ** (d - 1), "o-", ms=3, color=COLOURS[1], label="the other n − 1")
    axes.set(xlabel="depth d", ylabel="eigenvalue of E[K₀]/d", yscale="log")
    axes.legend(frameon=False)


FIGURES: dict[str, Callable[[Axes], None]] = {
    "gates": gates,
    "depth": depth,
    "nu": nu,
    "random-gating": random_gating,
}
OF_THE_RUN: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("overlap-start", "overlap", ("--step", "0")),
    ("overlap-end", "overlap", ()),
    ("spectrum-start", "spectrum", ("--step", "0")),
    ("spectrum-end", "spectrum", ()),
    ("gates-end", "gate_maps", ()),
    ("ntk-end", "ntk", ()),
    ("kernel-at-two-steps", "spectrum", ("--choose", "show=kernel", "--step", "0,900")),
)


def _svg(draw: Callable[[Axes], None], name: str) -> bytes:
    with matplotlib.rc_context({"svg.hashsalt": name, "font.size": 8}):
        figure = Figure(figsize=(4.6, 2.8))
        axes = figure.subplots()
        draw(axes)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        figure.tight_layout()
        content = io.BytesIO()
        figure.savefig(content, format="svg", metadata={"Date": None})
    return content.getvalue()


def _of_run(run: Path, panel: str, options: tuple[str, ...]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figure.png"
        words = ["figure", str(run), "--panel", panel, "--width", "6.75", "--dpi", "130"]
        with contextlib.redirect_stdout(io.StringIO()):
            code = main([*words, *options, "--no-caption", "-o", str(path)])
        if code != 0:
            raise RuntimeError(f"dgn figure --panel {panel} ended with {code}")
        return path.read_bytes()
