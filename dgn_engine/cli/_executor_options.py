"""The options of commands that carry out many runs."""

from __future__ import annotations

import argparse
from pathlib import Path

_TLS = {  # as the options of `dask scheduler` and `dask worker`
    "ca-file": "certificates of those who are trusted",
    "cert": "our certificate",
    "key": "its key, where that is in a file of its own",
}


def add_executor_options(
    parser: argparse.ArgumentParser, cluster: str, metavar: str | None = None
) -> None:
    """Who carries the runs out; `cluster` is the help of --cluster."""
    parser.add_argument(
        "--executor", default="auto", help="serial, processes, packed, dask; auto chooses"
    )
    parser.add_argument("--workers", type=int, default=0, metavar="N", help="at most so many")
    parser.add_argument(
        "--devices", default="", metavar="LIST", help="cuda:0,cuda:1 or cpu; default: every card"
    )
    parser.add_argument("--cluster", default="", metavar=metavar, help=cluster)
    for name, what in _TLS.items():
        parser.add_argument(
            f"--tls-{name}", default="", metavar="PEM", help=f"with --cluster: {what}"
        )
    parser.add_argument(
        "--no-tls", action="store_true", help="with --cluster: unprotected, in a network of yours"
    )


def add_reproduction_options(parser: argparse.ArgumentParser) -> None:
    add_executor_options(parser, "of an existing cluster", "tls://…")
    parser.add_argument("--out", type=Path, metavar="DIR", help="not among the user's results")
    parser.add_argument("--report-only", action="store_true", help="from what is there already")
    parser.add_argument("--quiet", action="store_true", help="no progress, only the result")
