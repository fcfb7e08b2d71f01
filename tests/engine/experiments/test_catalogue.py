"""What each experiment says of itself: paper, claims, protocols, estimated costs."""

from __future__ import annotations

from typing import Any

import pytest

from dgn_engine.experiments import all_experiments
from dgn_engine.experiments._claims import UNMEASURED, judge
from dgn_engine.experiments._published import claim_ids, printed, published_claim
from dgn_engine.experiments.report.experiment_list import full_words, quick_words
from dgn_engine.protocol.experiments import Printed

BOTH = ("as-published", "as-in-code")

# Paper, minutes at quick, hours at full, claims.
SAID: dict[str, tuple[str, float, float, tuple[str, ...]]] = {
    "composite-davidnet": ("[COMP] ResNet experiment", 2.0, 770, ("comp-1",)),
    "composite-hidden-outputs": ("[COMP] Figure 5, [DUAL]", 2.5, 690, ("comp-2",)),
    "composite-resnet-kernel": ("[COMP] Lemma 4.2", 0.3, 0.05, ("comp-5",)),
    "dgn-adaptable-gates": ("[DGN] Figure 8", 1.5, 0.7, ("dgn-5", "dgn-6", "dgn-7")),
    "dgn-cifar10": ("[DGN]", 2.0, 60, ("dgn-5",)),
    "dgn-frg-convergence": ("[DGN]", 0.5, 0.05, ("dgn-2",)),
    "dgn-frg-spectrum": ("[DGN]", 0.5, 0.05, ("dgn-1",)),
    "dgn-galu-relu": ("[DGN]", 1.5, 1.2, ("dgn-3",)),
    "dgn-gates-only": ("[DGN]", 1.0, 1.5, ("dgn-7",)),
    "dgn-hard-data": ("[DGN], [WS]", 0.5, 0.2, ("ws-3",)),
    "dgn-random-mnist": ("[DGN] Figure 5", 1.5, 6, ("dgn-4",)),
    "duality-48": (
        "[DUAL] Experiment 1",
        2.0,
        51000,
        ("dual-1", "dual-2", "dual-3", "dual-4", "dual-5", "dual-6", "comp-1"),
    ),
    "duality-linear-features": ("[DUAL] §5", 1.5, 3000, ("dual-8",)),
    "duality-noise": (
        "[DUAL] Experiment 2",
        2.5,
        8000,
        ("dual-9", "dual-10", "dual-11", "dual-12"),
    ),
    "duality-tiling": ("[DUAL] Experiment 1", 2.0, 7200, ("dual-7",)),
    "kernel-ridge": ("[NPF], [DUAL], Arora et al. 2019", 1.0, 1.0, ()),
    "npf-eigenvalue-bound": ("[NPF] Proposition 3.3", 0.3, 0.05, ("npf-6",)),
    "npf-kernels": ("[NPF] Figure 2 (right)", 1.0, 0.8, ("npf-5",)),
    "npf-nu": ("[NPF] Figure 2 (middle)", 0.5, 0.1, ("npf-4",)),
    "npf-stages": ("[NPF] Figure 2 (left)", 1.5, 1400, ("npf-3", "npf-7")),
    "npf-table2": ("[NPF] Table 2", 1.5, 10000, ("npf-1", "npf-2", "npf-8")),
    "theory-depth": ("[NPF], [DGN]", 1.0, 0.6, ("dgn-2",)),
    "theory-dynamics": ("[NPF]", 1.0, 0.2, ()),
    "theory-infinite-width": ("[NPF], [WS], [COMP]", 0.5, 0.1, ("ws-4", "comp-4")),
    "theory-ntk-npk": (
        "[NPF], [COMP], [WS] Theorem 4.1, [DGN] Lemma 3.1",
        1.0,
        0.2,
        ("comp-5", "comp-3", "dgn-8", "ws-2"),
    ),
    "workshop-table4": ("[WS] Table 4", 1.5, 5900, ("ws-1", "ws-5", "ws-6")),
}


@pytest.mark.parametrize("name", SAID)
def test_an_experiment_names_its_paper_its_cost_and_its_claims(name: str) -> None:
    found = all_experiments()[name]
    assert (found.paper, found.quick_minutes, found.full_hours, found.claims) == SAID[name]


@pytest.mark.parametrize(
    "name", ["npf-kernels", "npf-nu", "npf-stages", "npf-table2", "workshop-table4"]
)
def test_an_experiment_can_be_done_as_the_authors_code_does_it(name: str) -> None:
    assert all_experiments()[name].protocols == BOTH


@pytest.mark.parametrize(
    ("name", "asks"),
    [
        ("composite-davidnet", ("augmentation",)),
        ("npf-table2", ("steps",)),
        ("workshop-table4", ("steps",)),
        ("npf-kernels", ()),
    ],
)
def test_tables_ask_for_steps_and_davidnet_for_augmentation(
    name: str, asks: tuple[str, ...]
) -> None:
    assert all_experiments()[name].asks == asks


@pytest.mark.parametrize(
    ("name", "quick", "full"),
    [
        ("composite-resnet-kernel", "18 s", "3 min"),
        ("dgn-gates-only", "60 s", "90 min"),
        ("npf-stages", "90 s", "58 days"),
        ("npf-table2", "90 s", "417 days"),
        ("duality-48", "2 min", "5.8 years"),
    ],
)
def test_costs_in_words(name: str, quick: str, full: str) -> None:
    found = all_experiments()[name]
    assert (quick_words(found), full_words(found)) == (quick, full)


@pytest.mark.parametrize(
    ("table", "row", "column", "expected"),
    [
        ("npf_npk_2020_table2", "GCONV/Adam/CIFAR-10", "ReLU", Printed(80.43, 0.35)),
        ("npf_npk_2020_table2", "FC(w=128,d=6)/SGD/MNIST", "FRNPF(II)", Printed(95.85, 0.1)),
        ("npf_workshop_table4", "Arch-2 w=128 d=10 Adam MNIST", "Twin (decoupled)", None),
        ("duality_experiment1", "FC/MNIST", "FL", Printed(98.6)),
        ("duality_experiment2", "0", "M4 ReLU downstream true", None),
    ],
)
def test_a_printed_number_is_that_of_the_paper(
    table: str, row: str, column: str, expected: Any
) -> None:
    assert printed(table, row, column) == expected


def test_a_comparison_with_a_printed_table_has_an_id_of_its_own() -> None:
    """Its statement is no sentence of the paper, and says so."""
    assert published_claim("npf-8")[1].endswith("(of rows of which the text says nothing)")
    assert published_claim("ws-6")[1].endswith("(of the row that prints 4 points)")
    with pytest.raises(ValueError, match="'npf-2' is the claim 'FL within 1 point of ReLU'"):
        judge(("npf-2", "ReLU - FL is what the table prints"), "ReLU - FL", UNMEASURED)


def test_a_claim_is_found_by_its_id() -> None:
    assert published_claim("npf-2") == ("npf-2", "FL within 1 point of ReLU")
    with pytest.raises(LookupError, match="no claim 'npf-99'"):
        published_claim("npf-99")
    ids = claim_ids()
    assert (ids[0], ids[-1], len(ids)) == ("npf-1", "dgn-8", 39)
