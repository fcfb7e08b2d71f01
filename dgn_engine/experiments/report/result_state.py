"""The state of an experiment in a few words: 'quick result from 26 Nov: 2 held, 1 not held'."""

from __future__ import annotations

from datetime import date, datetime

from dgn_engine.experiments.report.document import Document
from dgn_engine.experiments.report.formatting import list_verdicts
from dgn_engine.experiments.report.reproduction_progress import ReproductionProgress
from dgn_engine.sweep.schedule import OVER
from dgn_engine.text.written_numbers import format_duration, format_percent

NOT_RUN = "not run yet"
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def describe_running(now: ReproductionProgress) -> str:
    """Return a text such as 'running, 40 %, 2 min left'."""
    left = "" if now.left is None else f", {format_duration(now.left)} left"
    return f"running, {format_percent(now.fraction, 0)}{left}"


def describe_state(document: Document, today: date) -> str:
    """Return the day of a result and its verdicts, or how far a stopped experiment has got."""
    if document.state == "done":
        scale = f"{document.scale} result" if document.scale else "result"
        verdicts = list_verdicts(document)
        after = f": {verdicts}" if verdicts else ""
        return f"{scale} from {_day_in_words(document.made, today)}{after}"
    done = sum(unit.state in OVER and unit.state != "failed" for unit in document.units)
    of = f"{done:,} of {len(document.units):,} done" if document.units else "nothing done yet"
    if document.state == "failed":
        return f"failed, {of}"
    return f"stopped, {of}; can continue"


def _day_in_words(made: str, today: date) -> str:
    """Return '26 Nov', with the year if it is another one; `made` is ISO 8601."""
    try:
        day = datetime.fromisoformat(made).astimezone().date()
    except ValueError:
        return made[:10]
    year = "" if day.year == today.year else f" {day.year}"
    return f"{day.day} {_MONTHS[day.month - 1]}{year}"
