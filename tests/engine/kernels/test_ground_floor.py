"""What a theorist loads who wants the kernels of a network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

MOST = 35  # modules of ours
ABOVE = ("config", "protocol", "setting", "storage", "importing", "training", "session")
COUNT = """
import sys
names = [name for name in sys.modules if name.partition(".")[0] == "dgn_engine"]
print(*names)
"""


def loaded_by(code: str, folder: Path) -> list[str]:
    """Modules of ours that a fresh interpreter has loaded after `code`."""
    ran = subprocess.run(
        [sys.executable, "-P", "-c", code + COUNT],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
    )
    return ran.stdout.splitlines()[-1].split()


def test_the_example_of_the_documents_loads_few_modules(tmp_path: Path) -> None:
    page = Path(__file__).parents[3] / "docs" / "kernels.md"
    example = page.read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0]
    assert len(example.strip().splitlines()) <= 10
    assert "neural_path_kernel" in example
    loaded = loaded_by(example, tmp_path)
    assert len(loaded) <= MOST, loaded
    assert not [name for name in loaded if name.split(".")[1:2] and name.split(".")[1] in ABOVE]


def test_importing_the_package_loads_no_kernel_and_no_torch(tmp_path: Path) -> None:
    loaded = loaded_by(
        "import dgn_engine.kernels, sys\nassert 'torch' not in sys.modules", tmp_path
    )
    assert len(loaded) <= 5, loaded
