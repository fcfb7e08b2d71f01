"""A result with rows, claims and figures, as it is read from its folder."""

from __future__ import annotations

import math

from dgn_engine.experiments.report.document import Document, ReportRow, ReportUnit
from dgn_engine.protocol.experiments import Claim, Figure, PlottedLine, Printed

FIGURE = Figure(
    "nu",
    "ν",
    "epoch",
    "ν",
    (PlottedLine("ν", (0.0, 1.0), (2.0, 1.0), (0.5, 2.0)), PlottedLine("p", (), (1.5,))),
    log_y=True,
)

BOXES = Figure(
    "models",
    "The models",
    "",
    "test accuracy (%)",
    (
        PlottedLine("", (0.0,) * 8, tuple(map(float, range(90, 98))), style="boxes"),
        PlottedLine("x^v = 1", (0.0,) * 8, tuple(map(float, range(90, 98))), style="cloud"),
    ),
    categories=("FR-II", "ReLU"),
)
DONE = Document(
    name="npf-nu",
    title="ν falls",
    paper="[NPF] Figure 2",
    about="",
    scale="quick",
    protocol="as-published",
    request={},
    made="2026-01-02T03:04:05+00:00",
    state="done",
    versions={},
    machine={},
    seconds=61.0,
    rows=(ReportRow("ReLU", (97.5, 97.7, 97.6), 97.6, 0.25, Printed(98.14, 0.07), -0.54),),
    claims=(
        Claim("npf-4", "falls", "Spearman; below 0", -0.9, -1.0, -0.8, 3, "held"),
        Claim("npf-1", "is below", "d; above 0", -2.0, -3.0, -1.0, 3, "not held"),
        Claim("npf-2", "is near", "d; below 1", 0.5, math.nan, math.nan, 1, "not decided"),
    ),
    figures=(FIGURE,),
    scaled_down=("digits",),
    units=(ReportUnit("relu-s0", "done", 5.0),),
    command=("reproduce", "npf-nu", "--quick"),
)
