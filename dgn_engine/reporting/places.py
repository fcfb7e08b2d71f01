"""What lies in the folder of a result."""

from __future__ import annotations

RESULTS = "results.json"
PROGRESS = "progress.json"
PLAN = "plan.json"  # every unit, so that another plan is not mixed with this one
REPORT = "report"  # .html and .md
FIGURES = "figures"
