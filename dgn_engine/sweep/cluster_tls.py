"""TLS between the processes of a Dask cluster, so that only holders of a certificate can connect.

Without TLS, anyone who can reach a Dask port can run code as the user who started it.
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

from dgn_engine.errors import UserError, how_to_install
from dgn_engine.storage.regular_files import NotRegular, read_regular

PACKAGES = ("distributed", "dask-jobqueue", "cryptography")  # the extra `cluster`
SCHEMES = {"tls://": True, "wss://": True, "tcp://": False, "ws://": False, "ucx://": False}
_FOLDER = ".tls-"  # in a sweep's folder: certificates for running Slurm jobs
_LEFT = re.compile(re.escape(_FOLDER) + "[a-z0-9_]{8}")  # names given by `tempfile`
_FILES = ("ca_file", "worker_cert", "worker_key")
_ROLES = ("client", "scheduler", "worker")


@dataclass(frozen=True)
class ClusterTls:
    """The user's TLS options: files in PEM format, or `off` for no TLS."""

    ca_file: str = ""
    cert: str = ""
    key: str = ""
    off: bool = False

    @property
    def files(self) -> dict[str, str]:
        """The given files by option."""
        named = {"--tls-ca-file": self.ca_file, "--tls-cert": self.cert, "--tls-key": self.key}
        return {option: file for option, file in named.items() if file}


def check_tls(cluster: str, tls: ClusterTls) -> None:
    """Raise `UserError` if the TLS options do not suit the cluster, or TLS is missing."""
    option = "--no-tls" if tls.off else next(iter(tls.files), "")
    if not cluster and option:
        raise UserError(
            f"{option} needs --cluster; remove it, or choose a cluster.",
            kind="contradiction",
            value=option,
        )
    if tls.off and tls.files:
        raise UserError(
            f"--no-tls contradicts {next(iter(tls.files))}; remove one of them.",
            kind="contradiction",
            value=next(iter(tls.files)),
        )
    if cluster == "local" and option:
        raise UserError(
            f"--cluster local creates its own certificates; remove {option}.",
            kind="contradiction",
            value=option,
        )
    encrypted = next((yes for name, yes in SCHEMES.items() if cluster.startswith(name)), True)
    if not encrypted and not tls.off:
        raise UserError(
            f"--cluster {cluster}: without TLS, anyone who can reach that port can run code as "
            "you. Start the scheduler with certificates and use tls://HOST:PORT, or accept the "
            "risk with --no-tls.",
            kind="no-tls",
            value=cluster,
        )
    if tls.off and cluster.startswith(("tls://", "wss://")):
        raise UserError(
            f"--no-tls contradicts {cluster}; remove it.", kind="contradiction", value=cluster
        )
    if tls.files and not encrypted:
        raise UserError(
            f"{option} has no effect: {cluster} does not use TLS.",
            kind="contradiction",
            value=option,
        )


def tls_warning(cluster: str, tls: ClusterTls) -> str:
    """Return a warning about a cluster without TLS, '' if it uses TLS."""
    if not tls.off:
        return ""
    where = "its scheduler and workers listen" if cluster.startswith("slurm") else f"{cluster} is"
    return (
        f"--no-tls: anyone who can reach the ports of this cluster ({where} unprotected) can run "
        "code as you and read the traffic; use it only on a trusted network."
    )


def temporary_security() -> Any:
    """Return Dask's `Security` with a new certificate and key, kept in memory only."""
    try:
        import cryptography  # noqa: F401 - Dask needs it to create certificates
    except ImportError:
        raise UserError(
            f"TLS needs the package cryptography. {how_to_install(*PACKAGES)}",
            kind="not-installed",
            value="cryptography",
        ) from None
    from distributed import Security

    return Security.temporary()


def given_security(cluster: str, tls: ClusterTls) -> Any:
    """Return Dask's `Security` from the user's files or from Dask's configuration.

    Raises:
        UserError: files are missing or cannot be used.
    """
    from distributed import Security

    given: dict[str, Any] = {"require_encryption": True}
    if tls.ca_file:
        given["tls_ca_file"] = _absolute_path(tls.ca_file)
    for role in _ROLES:
        if tls.cert:
            given[f"tls_{role}_cert"] = _absolute_path(tls.cert)
            given[f"tls_{role}_key"] = _absolute_path(tls.key or tls.cert)
    security = Security(**given)
    missing = [
        option
        for option, file in (
            ("--tls-ca-file", security.tls_ca_file),
            ("--tls-cert", security.tls_client_cert),
        )
        if not file
    ]
    if missing:
        raise UserError(
            f"--cluster {cluster} needs {' and '.join(missing)} (and --tls-key, if the key is in "
            "a separate file), or distributed.comm.tls in Dask's configuration.",
            kind="no-certificate",
            value=tuple(missing),
        )
    check_certificates(security)
    return security


def check_certificates(security: Any) -> None:
    """Raise `UserError` unless the files are a certificate and its key without a passphrase."""
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
                f"Cannot read the certificate file {file}: {error.strerror}.",
                kind="no-file",
                value=str(file),
            ) from None
    try:
        context.load_verify_locations(cafile=ca_file)
    except ssl.SSLError:
        raise UserError(
            f"{ca_file} has no certificates in PEM format.", kind="damaged", value=ca_file
        ) from None
    try:
        context.load_cert_chain(cert, key, password=lambda: "")
    except ssl.SSLError:
        raise UserError(
            f"{cert} and {key} are not a certificate and its key in PEM format without a "
            "passphrase.",
            kind="damaged",
            value=key,
        ) from None


@contextmanager
def for_jobs(security: Any, root: Path) -> Iterator[Any]:
    """Yield the security with its certificates in files that jobs on other machines can read.

    The user's own files are used in place. Certificates in memory are written to a private folder
    in `root` until the block ends.

    Raises:
        UserError: a path cannot be used in a job script.
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
            f"tls_{role}_{kind}": file
            for role in _ROLES
            for kind, file in (("cert", cert), ("key", key))
        }
        yield Security(require_encryption=True, tls_ca_file=named["ca_file"], **pairs)


def remove_leftovers(root: Path) -> None:
    """Remove certificates left by a killed sweep; keep anything else."""
    for folder in root.glob(f"{_FOLDER}*"):
        if not _LEFT.fullmatch(folder.name) or folder.is_symlink():
            continue
        with suppress(OSError):
            for name in _FILES:
                (folder / f"{name}.pem").unlink(missing_ok=True)
            folder.rmdir()


def _absolute_path(file: str) -> str:
    return str(Path(file).expanduser().absolute())


def require_plain(path: str) -> None:
    """Raise `UserError` for a path that needs quoting, or has a %, which Slurm would expand."""
    if shlex.quote(path) != path or "%" in path:
        raise UserError(
            f"{path} cannot be used in a job script; choose a path without spaces, % or shell "
            "characters.",
            kind="no-name",
            value=str(path),
        )
