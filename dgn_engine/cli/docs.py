"""`dgn docs`: open the documentation in the browser or show it in the terminal."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from dgn_engine.cli import Subcommand
from dgn_engine.errors import UserError, did_you_mean
from dgn_engine.text.documents import built_site, document_titles, documents_folder
from dgn_engine.text.printable import make_console, print_line, print_lines


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "topic",
        nargs="?",
        metavar="TOPIC",
        help="document to show in the terminal: guide, settings, …",
    )
    parser.add_argument("--list", action="store_true", help="list the topics and exit")
    parser.add_argument("--where", action="store_true", help="print their location and exit")


def open_in_browser(address: str) -> bool:
    """Return whether a browser opened the address; a plain terminal has none."""
    import webbrowser

    try:
        return webbrowser.open(address)
    except webbrowser.Error:
        return False


def run(
    arguments: argparse.Namespace,
    find_site: Callable[[], Path | None] = built_site,
    open_page: Callable[[str], bool] = open_in_browser,
) -> int:
    """Open the site in the browser; without a built site, or with a topic, print a document."""
    topics = document_titles()
    site = find_site()
    if arguments.list:
        for name, title in topics.items():
            print_line(f"{name:28} {title}")
        return 0
    if arguments.where:
        print_line(str(site or documents_folder()))
        return 0
    if arguments.topic is None and site is not None and open_page(site.as_uri()):
        print_line(str(site))
        return 0
    topic = (arguments.topic or "guide").removesuffix(".md")
    if topic not in topics:
        raise UserError(
            f"There is no document '{topic}'. Available: {', '.join(topics)}."
            f"{did_you_mean(topic, topics)}",
            kind="unknown-name",
            value=topic,
        )
    _print_document((documents_folder() / f"{topic}.md").read_text(encoding="utf-8"))
    return 0


def _print_document(text: str) -> None:
    """Print a document through a pager, or as plain text if stdout is not a terminal."""
    if not sys.stdout.isatty():
        print_lines(text.rstrip())
        return
    from rich.markdown import Markdown

    terminal = make_console(sys.stdout)
    with terminal.pager(styles=True):
        terminal.print(Markdown(text))


COMMAND = Subcommand(
    "Open the documentation in the browser, or show a document in the terminal.",
    add_arguments,
    run,
)
