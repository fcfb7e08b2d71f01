"""The benchmarks compare what is comparable, and judge it as written."""

from __future__ import annotations

import torch

from benchmarks import reference
from benchmarks.case import Case, Faster, Leaner, Measured, Method, Within
from benchmarks.networks import (
    convolutional_architecture,
    dense_architecture,
    draw_examples,
    draw_hard_gates,
    make_network,
    make_plain_module,
)
from benchmarks.report import Row, encode_row, format_row
from benchmarks.timing import time_in_turns
from dgn_engine import kernels as k
from dgn_engine.plugins import discover_plugins

CPU = torch.device("cpu")


def test_every_case_compares_with_a_method_it_has() -> None:
    for package in ("benchmarks.cases", "benchmarks.peer_cases"):
        for case in discover_plugins(package, "CASE", Case).values():
            names = {method.name for method in case.methods}
            assert {bar.against for bar in case.bars} <= names


def test_the_plain_module_is_the_network() -> None:
    for architecture in (dense_architecture(3), convolutional_architecture(4, 8, 3)):
        x = draw_examples(architecture, 3, CPU)
        expected = make_network(architecture, CPU)(x)
        torch.testing.assert_close(make_plain_module(architecture, CPU)(x), expected)


def test_the_plain_recursions_are_the_kernels() -> None:
    architecture = convolutional_architecture(5, 6, 1)
    x, gates = draw_examples(architecture, 3, CPU).double(), draw_hard_gates(architecture, 3, CPU)
    gates = [layer.double() for layer in gates]
    npk = k.neural_path_kernel(architecture, gates, x, "width")
    torch.testing.assert_close(reference.path_kernel_of_pair(gates, x, 0, 2), npk[0, 2])
    limit = k.convolutional_limit(architecture, x).tangent
    torch.testing.assert_close(reference.limit_kernel_of_pair(x, 0, 2, depth=4), limit[0, 2])


def test_methods_take_turns() -> None:
    turns: list[str] = []

    def call(name: str) -> tuple[float, float]:
        turns.append(name)
        return 1.0, 2.0

    seconds = time_in_turns([lambda: call("a"), lambda: call("b")], most_rounds=5, budget=0.0)
    assert turns == ["a", "b"] * 3
    assert seconds == [[(1.0, 2.0)] * 3] * 2


def test_bars_are_judged_by_medians_and_only_for_the_full_size() -> None:
    one, two = (Method(name, lambda *_: lambda: torch.zeros(1)) for name in ("one", "two"))
    bars = (Faster("two", 3.0), Within("two", 0.4), Leaner("two", 2.0))
    case = Case("A case", n=8, quick=2, methods=(one, two), bars=bars)
    wall = (1.0, 1.0, 1.0)
    measured = (Measured(one, (1.0, 1.0, 9.0), wall), Measured(two, (4.0, 4.0, 1.0), wall))
    row = Row("case", case, 8, measured, 0.0, None)
    assert [word for _, _, word in row.judge_bars()] == ["met", "met", "not judged"]
    slower = (Measured(one, (2.0,), wall, 100), Measured(two, (4.0,), wall, 150))
    assert {w for _, _, w in Row("case", case, 8, slower, 0.0, None).judge_bars()} == {"missed"}
    quick = Row("case", case, 2, measured, 1.0, None)
    assert {word for _, _, word in quick.judge_bars()} == {"not judged"}
    assert "THE METHODS DISAGREE" in format_row(encode_row(quick))
