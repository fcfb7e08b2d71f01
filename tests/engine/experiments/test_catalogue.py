"""What each experiment says of itself: paper, claims, protocols, estimated costs."""

from __future__ import annotations

from typing import Any

import pytest

from dgn_engine.experiments import all_experiments
from dgn_engine.experiments._claims import UNMEASURED, judge
from dgn_engine.experiments._published import claim_ids, find_printed, published_claim
from dgn_engine.experiments.report.experiment_list import format_cost
from dgn_engine.experiments.report.papers import OTHERS, PAPERS, paper_title
from dgn_engine.protocol.experiments import Printed
from tests.plugins import own
from tests.snapshots import Recorded


def test_experiments_name_paper_claims_costs_protocols_and_what_they_ask(
    recorded: Recorded,
) -> None:
    recorded(
        {
            name: [
                found.paper,
                " ".join(found.claims),
                f"{found.quick_minutes:g} min: {format_cost(found.quick_minutes)}",
                f"{found.full_hours:g} h: {format_cost(60 * found.full_hours)}",
                " ".join((*found.protocols, *found.asks)),
            ]
            for name, found in ((one, all_experiments()[one]) for one in own(all_experiments()))
        }
    )


@pytest.mark.parametrize(
    ("table", "row", "column", "expected"),
    [
        ("npf_npk_2020_table2", "GCONV/Adam/CIFAR-10", "ReLU", Printed(80.43, 0.35, 2.0)),
        ("npf_npk_2020_table2", "FC(w=128,d=6)/SGD/MNIST", "FRNPF(II)", Printed(95.85, 0.1, 0.5)),
        ("npf_workshop_table4", "Arch-2 w=128 d=10 Adam MNIST", "Twin (decoupled)", None),
        ("duality_experiment1", "FC/MNIST", "FL", Printed(98.6)),
        ("duality_experiment2", "0", "M4 ReLU downstream true", None),
    ],
)
def test_a_printed_number_is_that_of_the_paper(
    table: str, row: str, column: str, expected: Any
) -> None:
    assert find_printed(table, row, column) == expected


def test_a_comparison_with_a_printed_table_has_an_id_of_its_own() -> None:
    """Its statement is no sentence of the paper, and says so."""
    for claim_id in ("npf-8", "ws-6", "comp-6"):
        assert published_claim(claim_id)[1].endswith(")")
    with pytest.raises(ValueError, match=r"'npf-2'.*'FL within 1 point"):
        judge(("npf-2", "ReLU - FL is what the table prints"), "ReLU - FL", UNMEASURED)


def test_a_claim_is_found_by_its_id() -> None:
    assert published_claim("npf-2")[0] == "npf-2"
    with pytest.raises(LookupError, match="'npf-99'"):
        published_claim("npf-99")
    ids = claim_ids()
    assert ids[0] == "npf-1"
    assert len(set(ids)) == len(ids)


def test_a_report_names_the_paper_that_is_cited_first_or_none() -> None:
    assert paper_title("[DGN], [NPF] Table 2") == PAPERS["DGN"].title
    assert paper_title("[XYZ] Table 1") == paper_title("ours") == OTHERS
