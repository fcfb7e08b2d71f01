"""TLS between the processes of a Dask cluster: who holds no certificate of it cannot connect.

Whoever reaches a port of Dask without TLS runs code as the user who started it.
"""

from __future__ import annotations

import os
import re
import shlex
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dgn_engine.errors import UserError
from dgn_engine.storage.regular_files import NotRegular, read_regular

INSTALL = "install it with: pip install 'dgn-viewer[cluster]'"
SCHEMES = {"tls://": True, "wss://": True, "tcp://": False, "ws://": False, "ucx://": False}
_FOLDER = ".tls-"  # in a sweep's folder: certificates for jobs of Slurm, while they run
_LEFT = re.compile(re.escape(_FOLDER) + "[a-z0-9_]{8}")  # as `tempfile` names it
_FILES = ("ca_file", "worker_cert", "worker_key")
_ROLES = ("client", "scheduler", "worker")


@dataclass(frozen=True)
class ClusterTls:
    """What the user says about TLS: files in PEM format, or (`off`) that there is to be none."""

    ca_file: str = ""
    cert: str = ""
    key: str = ""
    off: bool = False

    @property
    def files(self) -> dict[str, str]:
        """The files that were given, by their option."""
        named = {"--tls-ca-file": self.ca_file, "--tls-cert": self.cert, "--tls-key": self.key}
        return {option: file for option, file in named.items() if file}


def check_tls(cluster: str, tls: ClusterTls) -> None:
    """Raise `UserError` where TLS and cluster contradict each other, or TLS is left out unasked."""
    option = "--no-tls" if tls.off else next(iter(tls.files), "")
    if not cluster and option:
        raise UserError(
            f"{option} is for --cluster; leave it out, or name a cluster.",
            kind="contradiction",
            value=option,
        )
    if tls.off and tls.files:
        raise UserError(
            f"--no-tls contradicts {next(iter(tls.files))}; leave one out.",
            kind="contradiction",
            value=next(iter(tls.files)),
        )
    if cluster == "local" and option:
        raise UserError(
            f"--cluster local makes certificates of its own; leave out {option}.",
            kind="contradiction",
            value=option,
        )
    encrypted = next((yes for name, yes in SCHEMES.items() if cluster.startswith(name)), True)
    if not encrypted and not tls.off:
        raise UserError(
            f"--cluster {cluster}: without TLS whoever reaches that port runs code as you. Start "
            "the scheduler with certificates and name it tls://HOST:PORT, or accept it with "
            "--no-tls.",
            kind="no-tls",
            value=cluster,
        )
    if tls.off and cluster.startswith(("tls://", "wss://")):
        raise UserError(
            f"--no-tls contradicts {cluster}; leave it out.", kind="contradiction", value=cluster
        )
    if tls.files and not encrypted:
        raise UserError(
            f"{option} has no effect: {cluster} is not TLS.", kind="contradiction", value=option
        )


def tls_warning(cluster: str, tls: ClusterTls) -> str:
    """Return what is to be said before a cluster is used without TLS; '' where there is TLS."""
    if not tls.off:
        return ""
    where = "its scheduler and workers listen" if cluster.startswith("slurm") else f"{cluster} is"
    return (
        f"--no-tls: whoever reaches the ports of this cluster ({where} unprotected) runs code as "
        "you and reads what is sent; use it only in a network of your own."
    )


def temporary_security() -> Any:
    """Return Dask's `Security` with a certificate and a key of this moment, in memory alone."""
    try:
        import cryptography  # noqa: F401 - what Dask makes certificates with
    except ImportError:
        raise UserError(
            f"TLS within a cluster needs cryptography; {INSTALL}",
            kind="not-installed",
            value="cryptography",
        ) from None
    from distributed import Security

    return Security.temporary()


def given_security(cluster: str, tls: ClusterTls) -> Any:
    """Return Dask's `Security` of the user's files, or of Dask's own configuration.

    Raises `UserError` where there are none, or where they cannot be used.
    """
    from distributed import Security

    given: dict[str, Any] = {"require_encryption": True}
    if tls.ca_file:
        given["tls_ca_file"] = _absolute(tls.ca_file)
    for role in _ROLES:
        if tls.cert:
            given[f"tls_{role}_cert"] = _absolute(tls.cert)
            given[f"tls_{role}_key"] = _absolute(tls.key or tls.cert)
    security = Security(**given)
    missing = [
        option
        for option, there in (
            ("--tls-ca-file", security.tls_ca_file),
            ("--tls-cert", security.tls_client_cert),
        )
        if not there
    ]
    if missing:
        raise UserError(
            f"--cluster {cluster} needs {' and '.join(missing)} (and --tls-key, where the key is "
            "in a file of its own), or distributed.comm.tls in Dask's configuration.",
            kind="no-certificate",
            value=tuple(missing),
        )
    check_certificates(security)
    return security


def check_certificates(security: Any) -> None:
    """Raise `UserError` for files that are no certificate with its key; asks for no passphrase."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    ca_file, cert = security.tls_ca_file, security.tls_client_cert
    key = security.tls_client_key or cert
    for file in dict.fromkeys((ca_file, cert, key)):
        try:
            read_regular(Path(file))
        except NotRegular as odd:
            raise UserError(
                f"The certificate file {file} {odd.verdict}.", kind="wrong-file", value=str(file)
            ) from None
        except OSError as error:
            raise UserError(
                f"The certificate file {file} cannot be read: {error.strerror}.",
                kind="no-file",
                value=str(file),
            ) from None
    try:
        context.load_verify_locations(cafile=ca_file)
    except ssl.SSLError:
        raise UserError(
            f"{ca_file} holds no certificates in PEM format.", kind="damaged", value=ca_file
        ) from None
    try:
        context.load_cert_chain(cert, key, password=lambda: "")
    except ssl.SSLError:
        raise UserError(
            f"{cert} with {key} is no certificate with its own key in PEM format; a key must have "
            "no passphrase.",
            kind="damaged",
            value=key,
        ) from None


@contextmanager
def for_jobs(security: Any, root: Path) -> Iterator[Any]:
    """Yield the same with its certificates in files that jobs on other machines can read.

    Files of the user stay where they are. Others lie in a folder in `root`, readable by the user
    alone, until the block ends. Raises `UserError` for paths that a job's script cannot hold.
    """
    from distributed import Security

    if "\n" not in security.tls_worker_key:
        for path in (security.tls_ca_file, security.tls_worker_cert, security.tls_worker_key):
            require_plain(path)
        yield security
        return
    require_plain(str(root))
    remove_leftovers(root)
    with tempfile.TemporaryDirectory(prefix=_FOLDER, dir=root) as folder:
        named = {}
        for name in _FILES:
            path = Path(folder) / f"{name}.pem"
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w", encoding="ascii") as file:
                file.write(getattr(security, f"tls_{name}"))
            named[name] = str(path)
        cert, key = named["worker_cert"], named["worker_key"]
        pairs = {
            f"tls_{role}_{what}": file
            for role in _ROLES
            for what, file in (("cert", cert), ("key", key))
        }
        yield Security(require_encryption=True, tls_ca_file=named["ca_file"], **pairs)


def remove_leftovers(root: Path) -> None:
    """Remove certificates of a sweep that was killed: their cluster is gone.

    Whatever else lies there, or cannot be removed, is left.
    """
    for folder in root.glob(f"{_FOLDER}*"):
        if not _LEFT.fullmatch(folder.name) or folder.is_symlink():
            continue
        with suppress(OSError):
            for name in _FILES:
                (folder / f"{name}.pem").unlink(missing_ok=True)
            folder.rmdir()


def _absolute(file: str) -> str:
    return str(Path(file).expanduser().absolute())


def require_plain(path: str) -> None:
    """Raise `UserError` for a path that a job's script cannot hold; Slurm replaces what % is in."""
    if shlex.quote(path) != path or "%" in path:
        raise UserError(
            f"{path} cannot stand in the script of a job; choose a path without spaces and signs "
            "of the shell.",
            kind="no-name",
            value=str(path),
        )
