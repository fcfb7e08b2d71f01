"""Mirror a served run until it has ended."""

from __future__ import annotations

import argparse
import getpass
import time

from dgn_engine.errors import UserError
from dgn_engine.storage.remote.run_mirror import RunMirror, mirror_until_end
from dgn_engine.storage.remote.served_address import TOKEN, address_of, given_token
from dgn_engine.text.printable import print_error, print_line


def mirror_run(arguments: argparse.Namespace) -> int:
    """Mirror a run until it has ended; prompt for the token unless it is given."""
    port, folder = address_of(arguments.address), arguments.folder
    token = given_token(arguments.token_file) or _ask_token()
    mirror = RunMirror(port, token.strip(), folder)

    def wait(seconds: float) -> bool:
        time.sleep(seconds)
        return True

    try:
        print_line(f"Mirroring into {folder}; watch it with 'dgn-viewer {folder}'. Ctrl-C stops.")
        mirror_until_end(mirror, lambda words, lost: print_error(words), wait)
    except OSError as error:
        raise UserError(f"Cannot write to {folder}: {error.strerror}.") from None
    finally:
        mirror.close()
    print_line(f"The run has ended; its complete copy is in {folder}.")
    return 0


def _ask_token() -> str:
    try:
        return getpass.getpass("Token: ")
    except EOFError:
        raise UserError(
            f"Pass the token that dgn serve printed: in {TOKEN}, or with --token-file FILE.",
            kind="no-token",
        ) from None
