"""Every road to a kernel gives what its slow twin gives, to the last row of the last tile."""

from __future__ import annotations

import errno
import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import dgn_engine.kernels as k
from dgn_engine.errors import UserError
from dgn_engine.kernels import cntk, compiled_maps, gram, infinite, slabs
from dgn_engine.model.architecture import Architecture, Conv, Dense, Flatten, GlobalAveragePool
from dgn_engine.model.wiring import Route
from tests.engine.kernels.conftest import Take
from tests.engine.kernels.enumeration import features
from tests.engine.kernels.jacobians import check_parts
from tests.engine.kernels.tiny import (
    ARCHITECTURES,
    draw_images,
    every_architecture,
    make_network,
    random_gates,
    random_masks,
)

TIGHT = {"rtol": 1e-10, "atol": 1e-11}
TANGENT = ["grouped", "windows", "gradients", "pairwise", "logit by logit", "many tiles"]
TILES = ["one-row tiles", "two-row tiles", "tiles of three"]


@pytest.mark.wide
@pytest.mark.parametrize("name", ["fc-deep", "gap-circular-dense", "max-gap", "residual-conv"])
@pytest.mark.parametrize("road", [*TANGENT, *TILES, "BLAS"])
@pytest.mark.parametrize("mode", ["mean", "full", "perclass", "sumlogit"])
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("turned", [False, True])
def test_every_road_to_a_tangent_kernel_gives_the_jacobians(
    name: str, road: str, mode: k.Logits, own: bool, turned: bool, take: Take
) -> None:
    architecture = ARCHITECTURES[name]
    network = make_network(architecture, own=own, soft=True, bias=True)
    if turned and not own:
        network.routes = tuple(
            Route(1, (1, 1) if len(shape) == 3 else (0, 0)) for shape in architecture.gated_shapes
        )
    take(road)
    check_parts(network, mode, 11)  # tiles of two, three, four leave rows over


@every_architecture
def test_tangent_kernels_add_up_pairwise_in_tiles_of_one_row(name: str, take: Take) -> None:
    take("pairwise, one-row tiles")
    check_parts(make_network(ARCHITECTURES[name], own=False, soft=True), "mean", 4)


@pytest.mark.wide
@every_architecture
@pytest.mark.parametrize("road", [*TILES, "pair by pair", "a few pairs"])
def test_every_road_to_a_path_kernel_counts_every_path(name: str, road: str, take: Take) -> None:
    architecture = ARCHITECTURES[name]
    x, gates = draw_images(architecture, 5), random_gates(architecture, 5, hard=False)
    masks = random_masks(architecture, 5)
    sensitive = k.sensitive_overlap(architecture, gates, gates, masks=masks)
    take(road)
    phi = features(architecture, gates, x, masks)
    found = k.neural_path_kernel(architecture, gates, x, masks=masks)
    torch.testing.assert_close(found, phi @ phi.T, **TIGHT)
    again = k.sensitive_overlap(architecture, gates, gates, masks=masks)
    torch.testing.assert_close(again, sensitive, **TIGHT)
    some = [
        k.PathInputs([g[r] for g in gates], x[r], [m[r] for m in masks])
        for r in (slice(3), slice(3, 5))
    ]
    block = k.neural_path_kernel(
        architecture, some[0].gates, x[:3], masks=some[0].masks, other=some[1]
    )
    torch.testing.assert_close(block, (phi @ phi.T)[:3, 3:], **TIGHT)


@pytest.mark.parametrize("road", ["either library", "BLAS"])
def test_either_library_multiplies_the_same(road: str, take: Take) -> None:
    if road == "either library" and not torch.backends.mkldnn.is_available():
        pytest.skip("oneDNN is not built in")
    take(road)
    one, two = torch.randn((40, 30)), torch.randn((20, 30))
    expected = (one.double() @ two.double().T).float()
    torch.testing.assert_close(gram.gram_product(one, two), expected)
    torch.testing.assert_close(gram.gram_product(one.double(), two.double()).float(), expected)


# Limits, pair by pair.

GAP = (Conv(2, 3), Conv(3, 3), GlobalAveragePool(), Dense(3, 1, gated=False))
FLAT = (Conv(2, 3), Flatten(), Dense(48, 1, gated=False))
DEEP = (Conv(2, 3, circular=True), GlobalAveragePool(), Dense(3, 2), Dense(2, 1, gated=False))


@pytest.mark.parametrize("nodes", [GAP, FLAT, DEEP], ids=["pooled", "flat", "dense above"])
def test_a_convolutional_limit_in_tiles_is_the_one_of_each_pair(
    nodes: tuple[Conv | GlobalAveragePool | Flatten | Dense, ...], take: Take
) -> None:
    architecture = Architecture((2, 4, 4), nodes)
    x = draw_images(architecture, 7)
    take("limits in tiles")
    found = k.convolutional_limit(architecture, x)
    block = k.convolutional_limit(architecture, x[:4], other=x[4:])
    for s, t in itertools.combinations(range(7), 2):
        pair = k.convolutional_limit(architecture, x[[s, t]])
        for part in ("tangent", "covariance"):
            kernel, two = getattr(found, part), getattr(pair, part)
            torch.testing.assert_close(kernel[[s, s, t], [s, t, s]], two[[0, 0, 1], [0, 1, 0]])
            if s < 4 <= t:
                torch.testing.assert_close(getattr(block, part)[s, t - 4], two[0, 1], **TIGHT)


def test_expectations_in_small_blocks_are_the_closed_form(take: Take) -> None:
    std = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
    rho = torch.tensor([[1.0, 0.3, -0.9], [0.3, 1.0, 1.0], [-0.9, 1.0, 1.0]], dtype=torch.float64)
    take("limits in tiles")  # five pairs agree: three chunks, the last of one
    found, bound = infinite.gaussian_expectations([(torch.relu, torch.relu)], std, std, rho)
    assert bound < 1e-6
    angle = torch.acos(rho)  # 2E[χχ'], diagonal and all
    arc = (torch.sin(angle) + (torch.pi - angle) * rho) / (2 * torch.pi) * torch.outer(std, std)
    torch.testing.assert_close(found[0], arc, rtol=1e-4, atol=1e-5)


# Loops that numba compiles, as they are compiled and as plain Python, for every geometry.


def is_taken(architecture: Architecture, x: Tensor, gates: list[Tensor] | None) -> bool:
    """Whether these loops are: path kernels of gates, the limit of no gates."""
    if gates is None:
        variances = cntk.position_variances(architecture, x)
        return cntk.map_limits(architecture, x, variances) is not None
    whole = gram.KernelBlock.all_pairs(len(x))
    return compiled_maps.compiled_maps(architecture, k.PathInputs(gates, x), whole) is not None


def kernels_of(architecture: Architecture, x: Tensor, gates: list[Tensor] | None) -> list[Tensor]:
    """A kernel, and the block of one example with the others."""
    if gates is None:
        limits = [k.convolutional_limit(architecture, x)]
        limits.append(k.convolutional_limit(architecture, x[:1], other=x[1:]))
        return [part for limit in limits for part in (limit.tangent, limit.covariance)]
    one, others = (k.PathInputs([g[r] for g in gates], x[r]) for r in (slice(1), slice(1, None)))
    sensitivities = [gate.roll(1, 0) for gate in gates]
    return [
        k.sensitive_overlap(architecture, gates, sensitivities),
        k.neural_path_kernel(architecture, gates, x),
        k.overlap(architecture, gates, "width"),
        k.neural_path_kernel(architecture, one.gates, x[:1], other=others),
    ]


def geometries(pooled: bool) -> Iterator[Architecture]:
    """Every kernel, stride and padding on maps of 7×6, above and below another layer."""
    sizes = itertools.product((1, 2, 3, 5), (1, 2, 3), (0, 1, 2), (False, True))
    for place, (kernel, stride, padding, circular) in enumerate(sizes):
        one, two = Conv(2, 5, kernel, stride, padding, circular), Conv(5, 70, circular=circular)
        high, wide = ((side + 2 * padding - kernel) // stride + 1 for side in (7, 6))
        if place % 2 and kernel != 3:
            continue
        flat = not pooled and place % 3 == 0
        head = Flatten() if flat else GlobalAveragePool()
        last = Dense(70 * high * wide if flat else 70, 1, gated=False)
        try:
            yield Architecture((2, 7, 6), (one, two, head, last))
        except UserError:  # the map is too small for this window
            continue


@pytest.mark.parametrize(
    ("kind", "road"),
    [
        ("bits", "compiled"),
        ("bits", "compiled, in floats"),
        ("soft", "compiled"),
        ("limits", "compiled"),
    ],
)
def test_compiled_loops_give_the_plain_kernel_for_every_geometry(
    kind: str, road: str, take: Take
) -> None:
    taken = []
    for architecture in geometries(pooled=kind == "limits"):
        x = draw_images(architecture, 3)
        x[1, :, :4] = 0.0  # correlations are zero where an input is
        limit = kind == "limits"
        gates = None if limit else random_gates(architecture, 3, hard=kind == "bits")
        take(road)
        if is_taken(architecture, x, gates):
            taken.append((architecture, x, gates, kernels_of(architecture, x, gates)))
    assert len(taken) > (10 if kind == "limits" else 20)
    take("plain")
    for architecture, x, gates, found in taken:
        for one, two in zip(found, kernels_of(architecture, x, gates), strict=True):
            torch.testing.assert_close(one, two, rtol=1e-11, atol=1e-12 * float(two.abs().max()))


@pytest.mark.wide
@pytest.mark.parametrize("road", ["compiled", "uncompiled"])
@pytest.mark.parametrize("kind", ["bits", "soft", "limits", "limits, dense above"])
@pytest.mark.parametrize(
    "first", [Conv(2, 3), Conv(2, 3, circular=True), Conv(2, 3, 2, 2, 0), Conv(2, 3, 1, 1, 0)]
)
@pytest.mark.filterwarnings("ignore:overflow encountered in scalar multiply")  # counting bits
def test_loops_say_what_the_plain_recursion_says(
    first: Conv, kind: str, road: str, take: Take
) -> None:
    """Of 65 channels, three words of bits; faults of the compiler are told from those of loops."""
    above = (Dense(65, 2), Dense(2, 1, gated=False))
    head = above if kind == "limits, dense above" else (Dense(65, 1, gated=False),)
    nodes = (first, Conv(3, 65, circular=first.circular), GlobalAveragePool(), *head)
    architecture = Architecture((2, 4, 4), nodes)
    x = draw_images(architecture, 3)
    x[1], x[2, :, :2] = -x[0], 0.0  # correlations down to minus one, and none
    limit = kind.startswith("limits")
    gates = None if limit else random_gates(architecture, 3, hard=kind == "bits")
    take(road)
    assert is_taken(architecture, x, gates)
    found = kernels_of(architecture, x, gates)
    take("plain")
    for one, two in zip(found, kernels_of(architecture, x, gates), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-8, atol=1e-12)


def double(number: int) -> int:
    return 2 * number


def refuse_folder(*_: object) -> object:
    raise RuntimeError("cannot cache function: no locator available")


def test_loops_are_compiled_where_nothing_can_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    from dgn_engine.kernels import slab_loops

    monkeypatch.setattr(slab_loops, "_CompiledFiles", refuse_folder)
    assert slab_loops.compile_loop(double)(3) == 6


@pytest.mark.parametrize("damaged", ["*.nbi", "*.nbc", "*.nb?"])
@pytest.mark.parametrize("kept", [0, 50])
def test_damaged_files_of_compiled_loops_are_replaced(
    damaged: str, kept: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dgn_engine.kernels.slab_loops import compile_loop

    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert compile_loop(double)(3) == 6
    files = list(tmp_path.rglob(damaged))
    assert files
    for file in files:
        file.write_bytes(file.read_bytes()[:kept])
    assert compile_loop(double)(4) == 8
    again = compile_loop(double)
    assert again(5) == 10
    assert sum(again.stats.cache_hits.values()) == 1  # type: ignore[attr-defined]


def test_a_full_disk_does_not_keep_loops_from_being_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dgn_engine.kernels.slab_loops import compile_loop

    def fill_disk(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("numba.core.caching.IndexDataCacheFile.save", fill_disk)
    assert compile_loop(double)(3) == 6


def test_what_loops_do_not_know_takes_the_plain_road(take: Take) -> None:
    mixed = (Conv(1, 2), Conv(2, 2, circular=True), GlobalAveragePool(), Dense(2, 1, gated=False))
    wide = (Conv(1, 2, padding=4), GlobalAveragePool(), Dense(2, 1, gated=False))
    plain = Architecture((1, 4, 4), (Conv(1, 2), GlobalAveragePool(), Dense(2, 1, gated=False)))
    x, hard = draw_images(plain, 3), random_gates(plain, 3, hard=True)
    assert not is_taken(plain, x, hard), "little work"
    assert not is_taken(plain, x, None)
    take("compiled")
    assert is_taken(plain, x, hard)
    for nodes in (mixed, wide):
        architecture = Architecture((1, 4, 4), nodes)
        assert not is_taken(architecture, x, None)
    assert not is_taken(
        Architecture((1, 4, 4), mixed),
        x,
        random_gates(Architecture((1, 4, 4), mixed), 3, hard=True),
    )
    take("without numba")
    assert not is_taken(plain, x, hard)
    assert np.isfinite(k.neural_path_kernel(plain, hard, x).numpy()).all()


def test_a_mid_size_network_in_single_precision(take: Take) -> None:
    nodes = (Conv(3, 100), Conv(100, 130), GlobalAveragePool(), Dense(130, 4, gated=False))
    architecture = Architecture((3, 8, 8), nodes)
    x, gates = draw_images(architecture, 8).float(), random_gates(architecture, 8, hard=True)
    take("compiled")
    found = k.neural_path_kernel(architecture, [gate.float() for gate in gates], x).double()
    take("plain")
    exact = k.neural_path_kernel(architecture, gates, x.double())
    torch.testing.assert_close(found, exact, rtol=0.0, atol=1e-6 * float(exact.max()))


def kept_in(folder: Path) -> int:
    """How many compiled loops a folder has after one was compiled."""
    from dgn_engine.kernels.slab_loops import compile_loop

    assert compile_loop(double)(3) == 6
    return len(list(folder.rglob("*.nbi")))


def test_compiled_loops_are_kept_in_the_users_folder_and_not_beside_the_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.delenv("DGN_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    beside = len(list(Path(__file__).parent.rglob("*.nbi")))
    kept = kept_in(tmp_path)
    assert kept == (1 if sys.platform == "linux" else kept)
    monkeypatch.setenv("DGN_HOME", str(tmp_path / "home"))
    assert kept_in(tmp_path / "home" / "cache" / "numba") == 1
    monkeypatch.delenv("DGN_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    for nowhere in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", nowhere)
        kept = kept_in(tmp_path / "user")
        assert kept == (1 if sys.platform == "linux" else kept)
    assert len(list(Path(__file__).parent.rglob("*.nbi"))) == beside


def test_compiled_loops_are_not_taken_from_the_current_or_a_strangers_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NUMBA_CACHE_DIR", "here")
    assert kept_in(tmp_path) == 0
    (tmp_path / ".numba_config.yaml").write_text(f"cache_dir: {tmp_path / 'planted'}\n")
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    monkeypatch.setenv("DGN_HOME", str(tmp_path / "own"))
    assert kept_in(tmp_path / "own") == 1
    assert not (tmp_path / "planted").exists()
    if hasattr(os, "getuid"):
        monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "theirs"))
        monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
        assert kept_in(tmp_path / "theirs") == 0


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="this system has no modes of folders")
def test_compiled_loops_are_not_taken_from_a_folder_that_others_can_write_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    before = os.umask(0)
    try:
        assert kept_in(tmp_path) == 1
    finally:
        os.umask(before)
    (folder,) = (tmp_path / "cache").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    for mode in (0o770, 0o707):
        folder.chmod(mode)
        assert is_compiled_again()
    folder.chmod(0o700)
    assert not is_compiled_again()
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    assert is_compiled_again()


def is_compiled_again() -> bool:
    """Whether a loop that was compiled before is not found."""
    from dgn_engine.kernels.slab_loops import compile_loop

    again = compile_loop(double)
    assert again(5) == 10
    return not again.stats.cache_hits  # type: ignore[attr-defined]


def test_loops_that_must_not_be_compiled_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("numba.config.DISABLE_JIT", 1)
    assert slabs.compiled_loops.__wrapped__() is None


def test_compiling_is_announced_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from dgn_engine.kernels import slab_loops

    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    slab_loops.announce_compilation.cache_clear()
    assert slab_loops.compile_loop(double)(3) == slab_loops.compile_loop(double)(3.0) == 6
    assert capsys.readouterr().err.count("\n") == 1
    slab_loops.announce_compilation.cache_clear()
    assert slab_loops.compile_loop(double)(4) == 8
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("NUMBA_CACHE_DIR", "nowhere")
    assert slab_loops.compile_loop(double)(4) == 8
    assert "each time" in capsys.readouterr().err
