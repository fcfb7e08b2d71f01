"""Options shared by commands that execute many runs."""

from __future__ import annotations

import argparse
from pathlib import Path

_TLS = {  # same names as in `dask scheduler` and `dask worker`
    "ca-file": "trusted CA certificates",
    "cert": "client certificate",
    "key": "private key, if not in the certificate file",
}


def add_executor_options(
    parser: argparse.ArgumentParser, cluster: str, metavar: str | None = None
) -> None:
    """Add the options that choose an executor; `cluster` is the help of --cluster."""
    parser.add_argument(
        "--executor", default="auto", help="auto, serial, processes, packed or dask (default: auto)"
    )
    parser.add_argument("--workers", type=int, default=0, metavar="N", help="at most N workers")
    parser.add_argument(
        "--devices", default="", metavar="LIST", help="cuda:0,cuda:1 or cpu (default: all GPUs)"
    )
    parser.add_argument("--cluster", default="", metavar=metavar, help=cluster)
    for name, description in _TLS.items():
        parser.add_argument(
            f"--tls-{name}", default="", metavar="PEM", help=f"{description} (with --cluster)"
        )
    parser.add_argument(
        "--no-tls",
        action="store_true",
        help="connect without encryption, on a trusted network only (with --cluster)",
    )


def add_reproduction_options(parser: argparse.ArgumentParser) -> None:
    add_executor_options(parser, "address of a running Dask cluster", "tls://…")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="write to DIR instead of your results folder"
    )
    parser.add_argument(
        "--report-only", action="store_true", help="only write the report, from existing results"
    )
    parser.add_argument("--quiet", action="store_true", help="show no progress, only the result")
