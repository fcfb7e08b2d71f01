"""The document of a reproduction, written by hand."""

from __future__ import annotations

import math
from typing import Any

from dgn_engine.experiments.report.document import Document, ReportRow, ReportUnit
from dgn_engine.protocol.experiments import Claim, Printed

ROW = ReportRow(
    "DL",
    (97.0, 98.0),
    97.5,
    6.353,
    Printed(98.22, 0.05, 0.5),
    -0.72,
    "%",
    40.0,
    83.0,
    "so",
)
BARE = ReportRow("ν | of H", (1234.5,), 1234.5, math.nan, None, math.nan, "")
CLAIM = Claim(
    "npf-1",
    "FR below DL",
    "DL − FR; above 0",
    2.27,
    2.03,
    2.51,
    5,
    "held",
    "well",
    p=0.0004,
    p_holm=0.0008,
    power=0.618,
    enough=8,
    power_from="the printed ±",
)
EXACT = Claim("ws-3", "no fit", "floor; at most 1e-05", 0.0, 0.0, 0.0, 3, "held", exact=True)
OPEN = Claim("npf-3", "rise", "FLNPF-6", math.nan, math.nan, math.nan, 0, "not decided")
MISSED = Claim("dgn-1", "near", "distance", 0.2, 0.1, 0.3, 5, "not held", p=0.0201, p_holm=0.0302)


def result(**given: Any) -> Document:
    made: dict[str, Any] = {
        "name": "npf-table2", "title": "Gates & <regimes>", "paper": "[NPF] Table 2",
        "about": "Where it sits.", "scale": "quick", "protocol": "as-published",
        "request": {
            "scale": "quick", "protocol": "as-published", "seeds": 2, "only": "", "steps": [],
            "augmentation": "none", "device": "cpu", "epochs": 0, "data": "mnist",
        },
        "made": "2026-11-22T10:00:00+00:00", "state": "done", "versions": {"torch": "2.13"},
        "machine": {"processor": "Xeon", "cores": 2, "device": "cpu", "wall_seconds": 61.0},
        "seconds": 7200.0, "rows": (ROW, BARE), "claims": (CLAIM, EXACT, OPEN, MISSED),
        "remarks": ("A remark.",), "scaled_down": ("fewer units",), "choices": ("a choice",),
        "units": (
            ReportUnit("a", "done", 1.0), ReportUnit("b", "failed", 2.0, "Trace\n  last <line>"),
        ),
        "command": ("reproduce", "npf-table2", "--only", "a b"),
    }  # fmt: skip
    return Document(**{**made, **given})
