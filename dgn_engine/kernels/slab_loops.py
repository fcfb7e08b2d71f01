"""The loops over pairs of positions that numba compiles (see `slabs` for the layout).

Numba is imported here and nowhere else, so this module is imported only when there is enough work.
What it compiles is kept on disk, and all of it is in this one file because numba notices changes
only in the file of the function it compiles. The loops of path kernels take arrays of int32 (path
counts that fit), float32 or float64.
"""

from __future__ import annotations

import logging
import os
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
import numpy.typing as npt
from numba import types
from numba.core import caching
from numba.extending import intrinsic, overload

Numbers = npt.NDArray[Any]
Real = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint32]
Loop = TypeVar("Loop", bound=Callable[..., Any])

_STEPS = 5
_1_PI = 1.0 / np.pi


_settings: Any = numba.config  # numba has no types for these
_Folder: Any = caching.UserWideCacheLocator
_Files: Any = caching.CompileResultCacheImpl
_Cache: Any = caching.FunctionCache
_NoCache: Any = caching.NullCache


class _UserFolder(_Folder):  # type: ignore[misc]
    """The folder of compiled loops: `NUMBA_CACHE_DIR`, or in the user's cache folder.

    Never beside the source, which may be read-only, nor in the current folder or in one that
    belongs to somebody else or that others can write to: what is in it is executed. So a setting
    of numba that the current folder may contain is not read either.
    """

    _cache_path: str

    def __init__(self, loop: Callable[..., Any], source: str) -> None:
        super().__init__(loop, source)
        home = os.environ.get("DGN_HOME")  # as in `user_folders`
        folder = os.environ.get("NUMBA_CACHE_DIR")
        if not folder and home:
            folder = str(Path(home).absolute() / "cache" / "numba")
        if not folder and not Path(self._cache_path).is_absolute():  # by `XDG_CACHE_HOME`
            folder = str(Path.home() / ".cache" / "numba")
        if folder:
            self._cache_path = str(Path(folder) / self.get_suitable_cache_subpath(source))

    def ensure_cache_path(self) -> None:
        folder = Path(self._cache_path)
        if not folder.is_absolute():
            raise PermissionError(f"{folder} is relative")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if hasattr(os, "getuid"):
            found = folder.lstat()  # a link is as open as a folder that all can write to
            if found.st_uid != os.getuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise PermissionError(f"{folder} belongs to others, or they can write to it")
        super().ensure_cache_path()


class _UserFiles(_Files):  # type: ignore[misc]
    """Files of compiled loops in `_UserFolder`."""

    _locator_classes = (_UserFolder,)


def _begin_compilation(kept: bool) -> None:
    """Tell the terminal and whoever listens to this module's log that a loop is compiled."""
    announce_compilation(kept)
    logging.getLogger(__name__).debug("a loop is compiled")


@cache
def announce_compilation(kept: bool) -> None:
    """Print, once per process, that loops are compiled.

    Args:
        kept: Whether the next process finds them.
    """
    often = "once on this computer" if kept else "each time, as no folder could keep them"
    sentence = f"Compiling the loops of exact kernels: some seconds, {often}."
    print(sentence, file=sys.stderr, flush=True)


class _CompiledFiles(_Cache):  # type: ignore[misc]
    """What numba compiled, on disk; a damaged file, or a full disk, is as if there were none.

    Numba's own raises errors of pickle in a reading then, each time until the files are deleted.
    """

    _impl_class = _UserFiles

    def __init__(self, loop: Callable[..., Any]) -> None:
        super().__init__(loop)

    def load_overload(self, *signature: Any) -> Any:
        compiled = None
        with suppress(Exception):
            compiled = super().load_overload(*signature)
        if compiled is None:
            _begin_compilation(kept=True)
        return compiled

    def save_overload(self, *compiled: Any) -> None:
        try:
            super().save_overload(*compiled)
        except Exception:
            with suppress(Exception):
                self.flush()  # a damaged index cannot be added to
                super().save_overload(*compiled)


class _NoFiles(_NoCache):  # type: ignore[misc]
    """Instead of `_CompiledFiles` where no folder can keep them."""

    def load_overload(self, *signature: Any) -> None:
        _begin_compilation(kept=False)


def may_compile() -> bool:
    """Return whether numba compiles; as plain Python, the loops would take hours.

    Returns:
        `False` with `NUMBA_DISABLE_JIT`.
    """
    return not _settings.DISABLE_JIT


def compile_loop(loop: Loop) -> Loop:
    """Compile a function on its first call, or load what was compiled before.

    Args:
        loop: The function.

    Returns:
        The compiled function, which releases the GIL.
    """
    return _compile(loop)


def compile_row(loop: Loop) -> Loop:
    """Compile a function that only works on views of its arguments: nothing counts references.

    Args:
        loop: The function, which allocates nothing and calls only functions that do not either.

    Returns:
        The compiled function, inserted where it is called; it releases the GIL.
    """
    return _compile(loop, _nrt=False, forceinline=True)


def _compile(loop: Loop, **more: bool) -> Loop:
    """Compile a function, with more options of numba."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
    options |= more
    compiled: Loop = numba.njit(**options)(loop)
    try:
        files: Any = _CompiledFiles(loop)
    except RuntimeError:  # no folder where it could be kept
        files = _NoFiles()
    vars(compiled)["_cache"] = files  # as its `enable_caching` does
    return compiled


# The instruction that counts bits, which LLVM does not recognise in arithmetic.


def count_ones(word: int) -> int:
    """Count the bits of a word that are one."""
    return int(word).bit_count()


@intrinsic
def _population_count(context: Any, word: Any) -> Any:
    """Return type and code of `count_ones` for numba."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int32(types.uint32), generate


@overload(count_ones, strict=False)
def _compile_count(word: Any) -> Any:
    """Return the compiled `count_ones`."""
    count: Any = _population_count  # numba passes the context
    return lambda word: count(np.uint32(word))


# Both recursions: the inputs, the margins, and the sum over y.


@compile_loop
def input_rows(one: Numbers, two: Numbers, slab: Numbers, level: Whole, shift: int) -> None:
    """Fill level 0 of a slab with ⟨x(s, ·, p), x(s', ·, p')⟩ over channels.

    Args:
        one: Maps of s, `(C, H, W)`.
        two: Maps of s', `(C, H, W)`.
        slab: The slab to fill.
        level: Its level.
        shift: Its displacement δ.
    """
    height, width, cyclic, margin = level[0], level[1], level[2], level[3]
    pitch = width + 2 * margin
    origin = 0 if cyclic else max(0, -shift)
    for row in range(height if cyclic else height - abs(shift)):
        y = row + origin
        other = (y + shift) % height
        for x in range(width):
            left = (x + margin) * pitch + margin
            target = slab[row + margin, left : left + width]
            target[:] = 0.0
            for channel in range(len(one)):
                value, line = one[channel, y, x], two[channel, other]
                for far in range(width):
                    target[far] += value * line[far]


@compile_loop
def fill_margins(slab: Numbers, level: Whole, shift: int) -> None:
    """Fill the margins of a slab: copies if the level is cyclic, otherwise zeros below it.

    The other margins of a level that is not cyclic are never written.

    Args:
        slab: The slab.
        level: Its level.
        shift: Its displacement δ.
    """
    height, width, cyclic, margin = level[0], level[1], level[2], level[3]
    pitch = width + 2 * margin
    if not cyclic:
        rows = height - abs(shift)
        slab[margin + rows : 2 * margin + rows] = 0.0
        return
    for row in range(margin, margin + height):
        square = slab[row].reshape(pitch, pitch)
        for x in range(margin, margin + width):
            for step in range(margin):
                square[x, step] = square[x, width + step]
                square[x, margin + width + step] = square[x, margin + step]
        for step in range(margin):  # element by element: numba takes seconds to compile a copy
            for far in range(pitch):
                square[step, far] = square[width + step, far]
                square[margin + width + step, far] = square[margin + step, far]
    for step in range(margin):
        for i in range(pitch * pitch):
            slab[step, i] = slab[height + step, i]
            slab[margin + height + step, i] = slab[margin + step, i]


@compile_loop
def add_rows(below: Numbers, first: int, kernel: int, sums: Numbers) -> None:
    """Sum the window over y and y' together.

    Args:
        below: The slab of the level below.
        first: First row of the window.
        kernel: Window size.
        sums: Buffer for the result, `(pitch²,)`.
    """
    if kernel == 3:
        one, two, three = below[first], below[first + 1], below[first + 2]
        for i in range(len(one)):
            sums[i] = one[i] + two[i] + three[i]
        return
    line = below[first]
    for i in range(len(line)):
        sums[i] = line[i]
    for offset in range(1, kernel):
        line = below[first + offset]
        for i in range(len(line)):
            sums[i] += line[i]


# Path kernels: τ of one y and y', and the windows over x and x' below it.


@compile_loop
def count_bits(one: Bits, two: Bits, gram: Numbers) -> None:
    """Compute τ[x, x'] = Σ_c G(s, c, p) G(s', c, p') for bits `(words, W)`."""
    words, width = two.shape
    for x in range(width):
        line = gram[x]
        for far in range(width):
            line[far] = 0
        for word in range(words):
            word_row, far_words = one[word, x], two[word]
            for far in range(width):  # without the casts, numba would count 64 bits
                line[far] += count_ones(word_row & far_words[far])


@compile_loop
def multiply_gates(one: Numbers, two: Numbers, gram: Numbers) -> None:
    """Compute τ of gates `(C, W)`, eight channels at a time."""
    channels, width = two.shape
    whole = channels - channels % 8
    for x in range(width):
        line = gram[x]
        for far in range(width):
            line[far] = 0
        for c in range(0, whole, 8):
            a, b, d, e = one[c, x], one[c + 1, x], one[c + 2, x], one[c + 3, x]
            f, g, h, i = one[c + 4, x], one[c + 5, x], one[c + 6, x], one[c + 7, x]
            A, B, D, E = two[c], two[c + 1], two[c + 2], two[c + 3]
            F, G, H, I = two[c + 4], two[c + 5], two[c + 6], two[c + 7]  # noqa: E741
            for far in range(width):
                line[far] += (a * A[far] + b * B[far] + d * D[far] + e * E[far]) + (
                    f * F[far] + g * G[far] + h * H[far] + i * I[far]
                )
        for c in range(whole, channels):
            a, A = one[c, x], two[c]
            for far in range(width):
                line[far] += a * A[far]


@compile_loop
def fill_gram(
    one_bits: Bits,
    two_bits: Bits,
    one: Numbers,
    two: Numbers,
    layer: Whole,
    width: int,
    y: int,
    far: int,
    gram: Numbers,
) -> None:
    """Fill τ for rows y and y' = `far` from bits or, if there are none, from the gates."""
    depth = layer[2]
    left, right = layer[3] + y * depth * width, layer[3] + far * depth * width
    size, shape = depth * width, (depth, width)
    if len(one_bits):
        count_bits(
            one_bits[left : left + size].reshape(shape),
            two_bits[right : right + size].reshape(shape),
            gram,
        )
    else:
        multiply_gates(
            one[left : left + size].reshape(shape), two[right : right + size].reshape(shape), gram
        )


@compile_loop
def sum_windows(
    below: Numbers, first: int, pitch: int, kernel: int, stride: int, sums: Numbers, window: Numbers
) -> None:
    """Compute window[x, x'] = Σ_r K(· + r; · + r) below one y and y'; `first`: its first row."""
    add_rows(below, first, kernel, sums)
    width = window.shape[1]
    if kernel == 3 and stride == 1:
        for x in range(width):
            left = x * pitch
            one = sums[left : left + width]
            two = sums[left + pitch + 1 : left + pitch + 1 + width]
            three = sums[left + 2 * pitch + 2 : left + 2 * pitch + 2 + width]
            line = window[x]
            for far in range(width):
                line[far] = one[far] + two[far] + three[far]
        return
    for x in range(width):
        line = window[x]
        for far in range(width):
            value = sums[x * stride * pitch + far * stride]
            for offset in range(1, kernel):
                value += sums[(x * stride + offset) * pitch + far * stride + offset]
            line[far] = value


@compile_loop
def count_inside(place: int, far: int, geometry: Whole, side: int, cyclic: bool) -> int:
    """Count the offsets of a window for which both inputs, along one axis, are inside the map."""
    kernel, stride, padding = geometry[0], geometry[1], geometry[4]
    if cyclic:
        return int(kernel)
    count = 0
    for offset in range(kernel):
        one, two = place * stride + offset - padding, far * stride + offset - padding
        if 0 <= one < side and 0 <= two < side:
            count += 1
    return count


@compile_loop
def multiply_rows(gram: Numbers, window: Numbers, target: Numbers, margin: int, add: bool) -> None:
    """Compute target = τ ⊙ window, or add it, for one y and y'."""
    width = gram.shape[1]
    for x in range(width):
        left = (x + margin) * (width + 2 * margin) + margin
        line, factor, value = target[left : left + width], gram[x], window[x]
        if add:
            for far in range(width):
                line[far] += factor[far] * value[far]
        else:
            for far in range(width):
                line[far] = factor[far] * value[far]


@compile_loop
def multiply_windows(
    sums: Numbers, pitch: int, gram: Numbers, target: Numbers, margin: int
) -> None:
    """Compute target = τ ⊙ windows of three, in one pass over sums over y."""
    width = gram.shape[1]
    for x in range(width):
        first = x * pitch
        one = sums[first : first + width]
        two = sums[first + pitch + 1 : first + pitch + 1 + width]
        three = sums[first + 2 * pitch + 2 : first + 2 * pitch + 2 + width]
        left = (x + margin) * (width + 2 * margin) + margin
        line, factor = target[left : left + width], gram[x]
        for far in range(width):
            line[far] = factor[far] * (one[far] + two[far] + three[far])


@compile_loop
def add_products(gram: Numbers, window: Numbers, flat: bool, sums: Real) -> None:
    """Add Σ_x τ ⊙ window over x' to `sums` `(W,)`; if the head flattens, only x = x'."""
    width = gram.shape[1]
    if flat:
        for x in range(width):
            sums[x] += np.float64(gram[x, x]) * np.float64(window[x, x])
        return
    for x in range(width):
        factor, value = gram[x], window[x]
        for far in range(width):
            sums[far] += np.float64(factor[far]) * np.float64(value[far])


@compile_loop
def path_sums(
    row: int,
    left: int,
    gate_bits: Bits,
    sensitivity_bits: Bits,
    gates: Numbers,
    sensitivities: Numbers,
    inputs: Numbers,
    levels: Whole,
    layers: Whole,
    shifts: Whole,
    memory: Numbers,
    kernel: Real,
    derivative: Real,
) -> None:
    """Compute K, and its derivative if there are sensitivities, of the pairs (row, left + i).

    Args:
        row: Example s.
        left: First example s'.
        gate_bits: Hard gates as bits, `(n, words)`, layer by layer `(H, C/32, W)`; else `(n, 0)`.
        sensitivity_bits: Sensitivities as bits, likewise.
        gates: Gates that are not bits, `(n, numbers)`, layer by layer `(H, C, W)`.
        sensitivities: Sensitivities that are not bits, likewise.
        inputs: Value inputs, `(n, C, H, W)`; no channels for Λ.
        levels: As in `SlabRoute`.
        layers: `(L, 6)`: kernel, stride, words or channels, place of the gates, padding, flat.
        shifts: As in `SlabRoute`.
        memory: `(2, floats)`, zero: slabs of K and of its derivative; `(1, floats)` without.
        kernel: Result for K, `(m,)`.
        derivative: Result for the derivative, `(m,)`.
    """
    count, dual = len(layers), len(memory) > 1
    counts_paths = inputs.shape[1] == 0
    widest, largest = 0, 0
    for depth in range(count + 1):
        widest = max(widest, levels[depth, 1] + 2 * levels[depth, 3])
        largest = max(largest, levels[depth, 1])
    sums = np.zeros(widest * widest, memory.dtype)
    squares = np.zeros((4, largest * largest), memory.dtype)
    totals = np.zeros((2, largest))
    width = levels[1, 1]
    inside = np.zeros(width * width, memory.dtype)
    if counts_paths:  # K = 1 below the first layer: its windows are counts
        for x in range(width):
            for far in range(width):
                inside[x * width + far] = count_inside(
                    x, far, layers[0], levels[0, 1], levels[0, 2] != 0
                )
    for index in range(len(kernel)):
        column = left + index
        totals[:] = 0.0
        for turn in range(len(shifts)):
            for depth in range(count + 1):
                if depth == 0 and counts_paths:
                    continue
                level, shift = levels[depth], shifts[turn, depth]
                pitch = level[1] + 2 * level[3]
                stop = level[4] + (level[0] + 2 * level[3]) * pitch * pitch
                slab = memory[0, level[4] : stop].reshape(-1, pitch * pitch)
                if depth == 0:
                    input_rows(inputs[row], inputs[column], slab, level, shift)
                    fill_margins(slab, level, shift)
                    continue
                slope = memory[len(memory) - 1, level[4] : stop].reshape(-1, pitch * pitch)
                layer, beneath = layers[depth - 1], levels[depth - 1]
                shift_below = shifts[turn, depth - 1]
                pitch_below = beneath[1] + 2 * beneath[3]
                stop = beneath[4] + (beneath[0] + 2 * beneath[3]) * pitch_below * pitch_below
                below = memory[0, beneath[4] : stop].reshape(-1, pitch_below * pitch_below)
                slope_below = memory[len(memory) - 1, beneath[4] : stop].reshape(
                    -1, pitch_below * pitch_below
                )
                side, width = level[0], level[1]
                square = (width, width)
                area = width * width
                gram, window = squares[0, :area].reshape(square), squares[1, :area].reshape(square)
                slope_gram = squares[2, :area].reshape(square)
                slope_window = squares[3, :area].reshape(square)
                origin = 0 if level[2] else max(0, -shift)
                first = layer[1] * origin - (0 if beneath[2] else max(0, -shift_below))
                from_ones = depth == 1 and counts_paths
                three = not dual and layer[0] == 3 and layer[1] == 1
                for step in range(side if level[2] else side - abs(shift)):
                    y = step + origin
                    other = (y + shift) % side
                    fill_gram(
                        gate_bits[row],
                        gate_bits[column],
                        gates[row],
                        gates[column],
                        layer,
                        width,
                        y,
                        other,
                        gram,
                    )
                    last = depth == count
                    if three and not from_ones and not last:
                        add_rows(below, first + step, 3, sums)
                        multiply_windows(sums, pitch_below, gram, slab[step + level[3]], level[3])
                        continue
                    if from_ones:
                        rows_inside = count_inside(y, y + shift, layer, beneath[0], beneath[2] != 0)
                        for i in range(area):
                            squares[1, i] = rows_inside * inside[i]
                    else:
                        sum_windows(
                            below,
                            first + layer[1] * step,
                            pitch_below,
                            layer[0],
                            layer[1],
                            sums,
                            window,
                        )
                    if last:
                        add_products(gram, window, layer[5] != 0, totals[0])
                    else:
                        multiply_rows(gram, window, slab[step + level[3]], level[3], False)
                    if not dual:
                        continue
                    fill_gram(
                        sensitivity_bits[row],
                        sensitivity_bits[column],
                        sensitivities[row],
                        sensitivities[column],
                        layer,
                        width,
                        y,
                        other,
                        slope_gram,
                    )
                    # dK = D Dᵀ ⊙ windows of K + τ ⊙ windows of dK
                    target = slope[step + level[3]]
                    if last:
                        add_products(slope_gram, window, layer[5] != 0, totals[1])
                    else:
                        multiply_rows(slope_gram, window, target, level[3], False)
                    if depth == 1:
                        continue
                    sum_windows(
                        slope_below,
                        first + layer[1] * step,
                        pitch_below,
                        layer[0],
                        layer[1],
                        sums,
                        slope_window,
                    )
                    if last:
                        add_products(gram, slope_window, layer[5] != 0, totals[1])
                    else:
                        multiply_rows(gram, slope_window, target, level[3], True)
                fill_margins(slab, level, shift)
                if dual:
                    fill_margins(slope, level, shift)
        kernel[index] = totals[0].sum()
        derivative[index] = totals[1].sum()


# Path kernels of hard gates on maps of one size: many pairs of examples side by side.
#
# Neighbouring numbers in memory, the lanes, are one pair of positions of different pairs of
# examples, so that sums over windows add aligned vectors. For one displacement (e, d) of p' against
# p, the pairs of positions are an image over p, outside of which K = 0. The recursion runs from the
# last layer down, K_l = τ_l ⊙ windows of K_{l+1}, so that K counts paths and is an integer until
# the inputs come in. All layers go through the image together, each a row behind the layer above:
# three rows of each are enough, and they stay in the nearest cache.


@compile_row
def count_line(one: Bits, two: Bits, first: bool, counts: Numbers) -> None:
    """Count the bits that are in both words; add them unless these are the first words."""
    if first:
        for i in range(len(counts)):
            counts[i] = count_ones(one[i] & two[i])
    else:
        for i in range(len(counts)):  # without the cast, numba would count 64 bits
            counts[i] = counts[i] + np.int32(count_ones(one[i] & two[i]))


@compile_row
def add_lines(one: Numbers, two: Numbers, three: Numbers, target: Numbers) -> None:
    """Add three rows."""
    for i in range(len(target)):
        target[i] = one[i] + two[i] + three[i]


@compile_row
def multiply_line(
    one: Bits, two: Bits, counts: Numbers, sums: Numbers, lanes: int, add: bool, target: Numbers
) -> None:
    """Compute target = τ ⊙ windows, or add it, for a row of positions.

    Args:
        one: Last words of bits of s.
        two: Likewise of s'.
        counts: What the other words contribute to τ.
        sums: Sums over y, with one more position on both sides.
        lanes: Numbers per position.
        add: Whether to add to the target.
        target: The result.
    """
    size = len(target)
    a, b, c = sums[:size], sums[lanes : lanes + size], sums[2 * lanes : 2 * lanes + size]
    if add:
        for i in range(size):
            tau = np.int32(counts[i] + count_ones(one[i] & two[i]))
            target[i] += tau * (a[i] + b[i] + c[i])
    else:
        for i in range(size):
            tau = np.int32(counts[i] + count_ones(one[i] & two[i]))
            target[i] = tau * (a[i] + b[i] + c[i])


@compile_row
def weigh_line(weights: Real, line: Numbers, totals: Real) -> None:
    """Add weights ⊙ K to `totals`."""
    for i in range(len(totals)):
        totals[i] += weights[i] * np.float64(line[i])


@compile_row
def weigh_windows(weights: Real, sums: Numbers, lanes: int, totals: Real) -> None:
    """Add weights ⊙ windows to `totals`, with sums over y as for `multiply_line`."""
    size = len(totals)
    a, b, c = sums[:size], sums[lanes : lanes + size], sums[2 * lanes : 2 * lanes + size]
    for i in range(size):
        totals[i] += weights[i] * (np.float64(a[i]) + np.float64(b[i]) + np.float64(c[i]))


@compile_row
def multiply_inputs(one: Numbers, two: Numbers, near: int, far: int, products: Real) -> None:
    """Compute ⟨x(s, ·, p), x(s', ·, p')⟩ for a row of positions.

    Args:
        one: Inputs of s, `(C, numbers)`.
        two: Inputs of s', likewise.
        near: Place of the first p.
        far: Place of the first p'.
        products: The result.
    """
    size = len(products)
    if len(one) == 3:  # colours in one pass
        a, b, c = one[0, near : near + size], one[1, near : near + size], one[2, near : near + size]
        d, e, f = two[0, far : far + size], two[1, far : far + size], two[2, far : far + size]
        for i in range(size):
            red, green = np.float64(a[i]) * np.float64(d[i]), np.float64(b[i]) * np.float64(e[i])
            products[i] = red + green + np.float64(c[i]) * np.float64(f[i])
        return
    products[:] = 0.0
    for channel in range(len(one)):
        a, b = one[channel, near : near + size], two[channel, far : far + size]
        for i in range(size):
            products[i] += np.float64(a[i]) * np.float64(b[i])


@compile_row
def lane_sums(
    near_gates: Bits,
    far_gates: Bits,
    near_sensitivities: Bits,
    far_sensitivities: Bits,
    near_inputs: Numbers,
    far_inputs: Numbers,
    level: Whole,
    layers: Whole,
    lines: Numbers,
    counts: Numbers,
    reals: Real,
) -> None:
    """Compute what `path_sums` does for layers of kernel 3, stride 1 and padding 1, all pooled.

    Args:
        near_gates: Bits of the examples s, `(words, lanes)`, words in the order of `path_sums`.
        far_gates: Bits of the examples s', likewise.
        near_sensitivities: Bits of the sensitivities of s; no words if there are none.
        far_sensitivities: Likewise of s'.
        near_inputs: Value inputs of s, `(C, H·W·lanes)`; no channels for Λ.
        far_inputs: Likewise of s'.
        level: Height and width of all maps.
        layers: As for `path_sums`.
        lines: Memory for rows, `(6·L + 3, (W + 2)·lanes)`, zero.
        counts: Memory for counts, `(3, W·lanes)`, zero.
        reals: `(6, W·lanes)`, zero. Rows 0 and 1 are results by x: K and its derivative.
    """
    height, width, count, lanes = level[0], level[1], len(layers), near_gates.shape[1]
    gates, others = near_gates.reshape(-1), far_gates.reshape(-1)
    slopes, other_slopes = near_sensitivities.reshape(-1), far_sensitivities.reshape(-1)
    dual, weighted = len(slopes) > 0, len(near_inputs) > 0
    derivative, zeros = 3 * count, 6 * count  # after three rows of K of each layer; after all
    stages = count + weighted
    for d in range(1 - width, width):
        columns, x = width - abs(d), max(0, -d)
        size, end = columns * lanes, (columns + 2) * lanes
        lines[zeros + 1 :, lanes + size : end] = 0
        for inside in range(1, 4):  # offsets of a window for which p and p' are in the map
            reals[2 + inside, :size] = inside * min(3, columns)
            if columns > 1:
                reals[2 + inside, :lanes] = inside * 2
                reals[2 + inside, size - lanes : size] = inside * 2
        for e in range(1 - height, height):
            rows, y = height - abs(e), max(0, -e)
            for turn in range(rows + stages - 1):
                for depth in range(stages):
                    row = turn - depth
                    if row < 0 or row >= rows:
                        continue
                    window, slope_window = lines[zeros + 1, :end], lines[zeros + 2, :end]
                    if depth:
                        below = 3 * (depth - 1)
                        before = zeros if row == 0 else below + (row + 2) % 3
                        after = zeros if row == rows - 1 else below + (row + 1) % 3
                        add_lines(
                            lines[before, :size],
                            lines[below + row % 3, :size],
                            lines[after, :size],
                            window[lanes : lanes + size],
                        )
                    if depth > 0 and dual:
                        add_lines(
                            lines[min(zeros, derivative + before), :size],
                            lines[derivative + below + row % 3, :size],
                            lines[min(zeros, derivative + after), :size],
                            slope_window[lanes : lanes + size],
                        )
                    if depth == count:
                        near = ((y + row) * width + x) * lanes
                        far = near + (e * width + d) * lanes
                        products = reals[2, :size]
                        multiply_inputs(near_inputs, far_inputs, near, far, products)
                        weigh_windows(products, window, lanes, reals[0, :size])
                        if dual:
                            weigh_windows(products, slope_window, lanes, reals[1, :size])
                        continue
                    words, start = layers[count - 1 - depth, 2], layers[count - 1 - depth, 3] + x
                    near = (start + (y + row) * words * width) * lanes
                    far = (start + (y + row + e) * words * width + d) * lanes
                    line = lines[3 * depth + row % 3, :size]
                    slope = lines[derivative + 3 * depth + row % 3, :size]
                    for word in range(words):
                        one, two = gates[near : near + size], others[far : far + size]
                        if depth == 0:
                            count_line(one, two, word == 0, line)
                        elif word < words - 1:
                            count_line(one, two, word == 0, counts[0, :size])
                        if dual:
                            a, b = slopes[near : near + size], other_slopes[far : far + size]
                            if depth == 0:
                                count_line(a, b, word == 0, slope)
                            elif word < words - 1:
                                count_line(a, b, word == 0, counts[1, :size])
                        near += width * lanes
                        far += width * lanes
                    if depth:
                        tau = counts[0 if words > 1 else 2, :size]
                        multiply_line(one, two, tau, window, lanes, False, line)
                        if dual:
                            # dK = D Dᵀ ⊙ windows of K + τ ⊙ windows of dK
                            other = counts[1 if words > 1 else 2, :size]
                            multiply_line(a, b, other, window, lanes, False, slope)
                            multiply_line(one, two, tau, slope_window, lanes, True, slope)
                    if depth == stages - 1:
                        weights = reals[5 - (row == 0) - (row == rows - 1), :size]
                        weigh_line(weights, line, reals[0, :size])
                        if dual:
                            weigh_line(weights, slope, reals[1, :size])


# The convolutional limit: Σ and T, with the arc cosine as a polynomial, which vectorises.


@compile_loop
def slab_total(slab: Real, level: Whole, shift: int) -> float:
    """Sum a slab over all p and p'.

    Args:
        slab: The slab.
        level: Its level.
        shift: Its displacement δ.

    Returns:
        The sum.
    """
    height, width, cyclic = level[0], level[1], level[2]
    sums = np.zeros(width * width)
    for row in range(height if cyclic else height - abs(shift)):
        line = slab[row]
        for i in range(len(line)):
            sums[i] += line[i]
    result = 0.0
    for value in sums:
        result += value
    return result


def _angle_over_sine() -> Real:
    """Return the polynomial of θ/sin θ in u = 2t − 1, for t = cos θ in [0, 1], `(4, 5)`.

    Row r holds the coefficients of the powers r, r + 4, … of u, highest first: four short Horner
    chains instead of one long one. The function is smooth on [0, 1] and its nearest singularity is
    t = −1, so its Chebyshev series converges by a factor of 5.8 per degree: degree 19 reaches
    2e-15.
    """
    count = 4 * _STEPS
    nodes = np.cos(np.pi * (np.arange(count) + 0.5) / count)
    angle = np.arccos((nodes + 1) / 2)
    series = np.polynomial.Chebyshev.fit(nodes, angle / np.sin(angle), count - 1, domain=[-1, 1])
    powers = series.convert(kind=np.polynomial.Polynomial).coef
    return np.ascontiguousarray(powers.reshape(_STEPS, 4)[::-1].T)


_POWERS = _angle_over_sine()


@compile_loop
def window_means(
    sums: Real, pitch: int, kernel: int, stride: int, target: Real, margin: int
) -> None:
    """Average over the window in x and x' together, for one y, into one row of a slab."""
    width, scale = (pitch - kernel) // stride + 1, 1.0 / (kernel * kernel)
    for x in range(width):
        left = (x + margin) * (width + 2 * margin) + margin
        line = target[left : left + width]
        first, step = x * stride * pitch, pitch + 1
        if kernel == 3 and stride == 1:
            one = sums[first : first + width]
            two = sums[first + step : first + step + width]
            three = sums[first + 2 * step : first + 2 * step + width]
            for far in range(width):
                line[far] = scale * (one[far] + two[far] + three[far])
        else:
            for far in range(width):
                value = 0.0
                for offset in range(kernel):
                    value += sums[first + offset * step + far * stride]
                line[far] = scale * value


@compile_loop
def rectify_rows(
    S_row: Real,
    T_row: Real,
    margin: int,
    one: Real,
    one_inverse: Real,
    two: Real,
    two_inverse: Real,
    itself: bool,
) -> None:
    """Replace Σ by 2E[χχ'] and T by (T + Σ) ⊙ 2E[χ'χ'] in place, for one y.

    `one` (x) and `two` (x') are standard deviations, each with its inverse. `itself`: x' = x is the
    same position of the same example, whose correlation is exactly one.
    """
    width = len(two)
    for x in range(width):
        left = (x + margin) * (width + 2 * margin) + margin
        S, T = S_row[left : left + width], T_row[left : left + width]
        deviation, inverse = one[x], one_inverse[x]
        same_tangent = T[x] + S[x]
        for far in range(width):
            # ρ = Σ/√(E[q²]E[q'²]), |ρ| = cos θ, u = 2|ρ| − 1
            rho = S[far] * (inverse * two_inverse[far])
            cosine = abs(rho)
            if cosine > 1.0:
                cosine = 1.0
            u = 2.0 * cosine - 1.0
            u2 = u * u
            u4 = u2 * u2
            a, b, c, d = _POWERS[0, 0], _POWERS[1, 0], _POWERS[2, 0], _POWERS[3, 0]
            for step in range(1, _STEPS):
                a = a * u4 + _POWERS[0, step]
                b = b * u4 + _POWERS[1, step]
                c = c * u4 + _POWERS[2, step]
                d = d * u4 + _POWERS[3, step]
            sine = np.sqrt((1.0 - cosine) * (1.0 + cosine)) * _1_PI
            # θ/π = (sin θ/π)·(θ/sin θ);  2E[χ'χ'] = 1 − θ/π
            turned = sine * ((a + u * b) + u2 * (c + u * d))
            slope = 1.0 - turned if rho >= 0.0 else turned
            T[far] = (T[far] + S[far]) * slope
            # 2E[χχ'] = √(E[q²]E[q'²]) sin θ/π + (1 − θ/π) Σ
            S[far] = deviation * two[far] * sine + slope * S[far]
        if itself:
            S[x], T[x] = deviation * two[x], same_tangent


@compile_loop
def limit_layer(
    S_below: Real,
    T_below: Real,
    S: Real,
    T: Real,
    level: Whole,
    beneath: Whole,
    geometry: Whole,
    shift: int,
    shift_below: int,
    one: Real,
    two: Real,
    itself: bool,
    S_sums: Real,
    T_sums: Real,
) -> None:
    height, cyclic, margin = level[0], level[2], level[3]
    kernel, stride = geometry[0], geometry[1]
    origin = 0 if cyclic else max(0, -shift)
    rows = height if cyclic else height - abs(shift)
    first = stride * origin - (0 if beneath[2] else max(0, -shift_below))
    pitch_below = beneath[1] + 2 * beneath[3]
    for row in range(rows):
        y = row + origin
        other = (y + shift) % height
        add_rows(S_below, first + stride * row, kernel, S_sums)
        add_rows(T_below, first + stride * row, kernel, T_sums)
        S_row, T_row = S[row + margin], T[row + margin]
        window_means(S_sums, pitch_below, kernel, stride, S_row, margin)
        window_means(T_sums, pitch_below, kernel, stride, T_row, margin)
        rectify_rows(
            S_row,
            T_row,
            margin,
            one[0, y],
            one[1, y],
            two[0, other],
            two[1, other],
            itself and shift == 0,
        )


@compile_loop
def limit_sums(
    row: int,
    left: int,
    inputs: Real,
    deviations: Real,
    levels: Whole,
    layers: Whole,
    shifts: Whole,
    floats: int,
    covariance: Real,
    tangent: Real,
) -> None:
    """Sum Σ and T over all p, p' for the pairs (row, left + i), into covariance[i], tangent[i].

    `deviations` `(n, 2·positions)` holds √E[q_l(p)²] and its inverse, layer by layer.
    """
    count = len(layers)
    S_memory, T_memory = np.zeros(floats), np.zeros(floats)
    widest = 0
    for depth in range(count + 1):
        widest = max(widest, levels[depth, 1] + 2 * levels[depth, 3])
    S_sums, T_sums = np.zeros(widest * widest), np.zeros(widest * widest)
    for index in range(len(covariance)):
        column = left + index
        S_total, T_total = 0.0, 0.0
        S_below, T_below = S_memory[:0].reshape(-1, 1), T_memory[:0].reshape(-1, 1)
        for turn in range(len(shifts)):
            start = 0
            for depth in range(count + 1):
                level, shift = levels[depth], shifts[turn, depth]
                area = (level[1] + 2 * level[3]) ** 2
                stop = level[4] + (level[0] + 2 * level[3]) * area
                S = S_memory[level[4] : stop].reshape(-1, area)
                T = T_memory[level[4] : stop].reshape(-1, area)
                if depth == 0:
                    input_rows(inputs[row], inputs[column], S, level, shift)
                    T[:] = 0.0
                else:
                    end = start + 2 * level[0] * level[1]
                    limit_layer(
                        S_below,
                        T_below,
                        S,
                        T,
                        level,
                        levels[depth - 1],
                        layers[depth - 1],
                        shift,
                        shifts[turn, depth - 1],
                        deviations[row, start:end].reshape(2, level[0], level[1]),
                        deviations[column, start:end].reshape(2, level[0], level[1]),
                        row == column,
                        S_sums,
                        T_sums,
                    )
                    start = end
                    fill_margins(T, level, shift)
                fill_margins(S, level, shift)
                S_below, T_below = S, T
            shift = shifts[turn, count]
            S_total += slab_total(S_below, levels[count], shift)
            T_total += slab_total(T_below, levels[count], shift)
        covariance[index], tangent[index] = S_total, T_total
