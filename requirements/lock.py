"""Writes the lock files of this folder, and from them the list of parts (SBOM).

    python requirements/lock.py lock [--torch WHEEL]    # make lock: the three files
    python requirements/lock.py sbom OUT.json           # make sbom: CycloneDX 1.6

pip resolves the dependencies of pyproject.toml for this Python and this platform; what it would
install is written with its digests. The lock is of a CPU build of torch, which pip takes from the
index of PyTorch, or from a wheel that is there already. `cluster.txt` holds what the extra
`cluster` adds to `lock.txt`, resolved so that it changes no version there.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import subprocess
import sys
import tempfile
import tomllib
import uuid
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
LOCK, TORCH, CLUSTER = HERE / "lock.txt", HERE / "torch-cpu.txt", HERE / "cluster.txt"
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
_PIN = re.compile(
    r"^(?P<name>[\w.-]+)==(?P<version>[^ ]+) \\\n    --hash=sha256:(?P<digest>\w{64})$", re.M
)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    lock = verbs.add_parser("lock")
    lock.add_argument("--torch", default="torch", help="a wheel of a CPU build; else of its index")
    sbom = verbs.add_parser("sbom")
    sbom.add_argument("out", type=Path)
    arguments = parser.parse_args()
    if arguments.verb == "lock":
        write_lock(arguments.torch)
    else:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(bill_of_materials(), indent=1) + "\n", "utf-8")
    return 0


def write_lock(torch: str) -> None:
    """Resolve torch alone, by its own index, then all else by the usual one with that torch, and
    what the cluster needs beside exactly that."""
    wanted = tomllib.loads((HERE.parent / "pyproject.toml").read_text("utf-8"))["project"]
    window = next(line for line in wanted["dependencies"] if line.startswith("torch>"))
    alone = [torch] if torch != "torch" else ["--index-url", CPU_INDEX, window]
    [chosen] = _resolved(["--no-deps", *alone])
    wheel = f"torch @ {chosen['download_info']['url']}"
    others = [line for line in wanted["dependencies"] if not line.startswith("torch>")]
    found = [item for item in _resolved([wheel, *others]) if _name(item) != "torch"]
    exactly = [f"{_name(item)}=={item['metadata']['version']}" for item in found]
    known = {"torch", *map(_name, found)}
    together = _resolved([wheel, *exactly, *wanted["optional-dependencies"]["cluster"]])
    _write(TORCH, [chosen], f"--index-url {CPU_INDEX} ")
    _write(LOCK, found)
    _write(CLUSTER, [item for item in together if _name(item) not in known])


def _write(path: Path, items: list[dict[str, Any]], index: str = "") -> None:
    made = f"CPython {platform.python_version_tuple()[0]}.{platform.python_version_tuple()[1]}"
    head = f"# Made by `make lock` for {made} on {platform.system()} {platform.machine()}.\n"
    how = f"# pip install --require-hashes --no-deps {index}-r requirements/{path.name}\n"
    pinned = sorted(map(_pin, items), key=str.lower)
    path.write_text(f"{head}{how}{''.join(pinned)}", "utf-8")


def _resolved(requirements: list[str]) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [
            sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed",
            "--only-binary", ":all:", "--report", str(report), *requirements,
        ]  # fmt: skip
        subprocess.run(command, check=True)
        found: list[dict[str, Any]] = json.loads(report.read_text("utf-8"))["install"]
    return found


def _name(item: dict[str, Any]) -> str:
    return re.sub(r"[-_.]+", "-", item["metadata"]["name"]).lower()


def _pin(item: dict[str, Any]) -> str:
    digest = item["download_info"]["archive_info"]["hashes"]["sha256"]
    return f"{_name(item)}=={item['metadata']['version']} \\\n    --hash=sha256:{digest}\n"


def pins() -> list[dict[str, str]]:
    """Name, version and digest of everything that the files name."""
    texts = [path.read_text("utf-8") for path in (TORCH, LOCK, CLUSTER)]
    return [found.groupdict() for text in texts for found in _PIN.finditer(text)]


def _version() -> str:
    """Of the program; it stands in its package alone, which needs no import here."""
    source = (HERE.parent / "dgn_engine" / "__init__.py").read_text("utf-8")
    found = re.search(r'^__version__ = "(.+)"$', source, re.MULTILINE)
    assert found is not None
    return found[1]


def bill_of_materials() -> dict[str, Any]:
    """The pins as CycloneDX 1.6; the same pins give the same text."""
    found = pins()
    project = tomllib.loads((HERE.parent / "pyproject.toml").read_text("utf-8"))["project"]
    version = _version()
    content = json.dumps([found, version], sort_keys=True)
    root = f"pkg:pypi/{project['name']}@{version}"
    parts = [
        {
            "type": "library",
            "bom-ref": _purl(pin),
            "name": pin["name"],
            "version": pin["version"],
            "purl": _purl(pin),
            "hashes": [{"alg": "SHA-256", "content": pin["digest"]}],
        }
        for pin in found
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, content)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": project["name"],
                "version": version,
                "purl": root,
                "licenses": [{"license": {"id": project["license"]}}],
            }
        },
        "components": parts,
        "dependencies": [{"ref": root, "dependsOn": [part["bom-ref"] for part in parts]}],
    }


def _purl(pin: dict[str, str]) -> str:
    return f"pkg:pypi/{pin['name']}@{pin['version'].replace('+', '%2B')}"


if __name__ == "__main__":
    sys.exit(main())
