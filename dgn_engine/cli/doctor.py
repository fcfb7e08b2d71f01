"""`dgn doctor`: whether this program can work here, and with what, on one screen."""

from __future__ import annotations

import argparse

from dgn_engine.cli import DAMAGED, Subcommand
from dgn_engine.text.printable import say, say_json

_MARKS = {"ok": " ", "note": "!", "fault": "✗"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="everything as JSON")
    parser.add_argument(
        "--devices", action="store_true", help="load torch and ask it for its devices (seconds)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Exit 0; 1 where something keeps the program from working."""
    from dgn_engine.cli._health import examine

    findings = examine(arguments.devices)
    faults = sum(finding.state == "fault" for finding in findings)
    if arguments.json:
        rows = [vars(finding) for finding in findings]
        say_json({"works": faults == 0, "findings": rows}, indent=1)
        return DAMAGED if faults else 0
    subject = ""
    for finding in findings:
        head = finding.subject if finding.subject != subject else ""
        subject = finding.subject
        say(f"{_MARKS[finding.state]} {head:12} {finding.name:18} {finding.about}")
    notes = sum(finding.state == "note" for finding in findings)
    say(f"{_counted(faults, 'fault')} (✗), {_counted(notes, 'warning')} (!).")
    return DAMAGED if faults else 0


def _counted(count: int, what: str) -> str:
    return f"{count or 'no'} {what}{'' if count == 1 else 's'}"


COMMAND = Subcommand(
    "Say whether the program can work here: versions, device, folders, confinement, data.",
    add_arguments,
    run,
)
