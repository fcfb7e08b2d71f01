"""The refusals that docs/guide/trouble.md quotes are those of the program."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import chdir, suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from dgn_engine.cli import main
from dgn_engine.storage.lock import Lock
from documentation.shell_commands import ROOT

PAGE = (ROOT / "docs" / "guide" / "trouble.md").read_text("utf-8")
SECTION = PAGE.split("\n## Common refusals\n")[1].split("\n## ")[0]
QUOTE = re.compile(r"^- '(.+?)':? ", re.MULTILINE)
MOST = 20
SMALL = "train --data digits --width 8 --depth 3 --epochs 1 --quiet"
SWEEP = """[base]
data.name = "digits"
net.options = {width = 8, depth = 3}
training.epochs = %d

[grid]
"gating.%s" = ["DL"]
"""
COMMANDS = {
    "net.pt does not say": "kernels net.pt --inputs x.npy",
    "odd.pt has": "kernels odd.pt --inputs x.npy --activation relu",
    "net.pt has": "gate-information net.pt --data digits --activation relu --expect-accuracy 90",
    "junk.pt is not": "inspect junk.pt",
    "There is no data set": "train --data imgs",
    "imgs has images": "train --data folder:imgs",
    "MNIST is not in": "train --data mnist",
    "first is not empty": f"{SMALL} --out first",
    "first is not a run": "train --resume nothing/first",
    "first is being written": "train --resume first",
    "--resume takes all": "train --data digits --resume first",
    "run.json is damaged": "runs show broken",
    "net.pt takes": "kernels net.pt --inputs narrow.npy --activation relu",
    "60,000 inputs need": "kernels net.pt --inputs many.npy --activation relu",
    "NTK needs ntk": "figure first --panel ntk --out ntk.pdf",
    "first has no frame": "figure first --panel spectrum --step 130 --out a.pdf",
    "Unknown key": "sweep misspelt.toml --out misspelt",
    "sw/units": "sweep other.toml --out sw --executor serial --quiet",
    "--cluster": "sweep beta.toml --cluster tls://nobody:8786 --out away",
}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with everything that the commands name."""
    folder = tmp_path_factory.mktemp("trouble")
    network = nn.Sequential(nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10))
    torch.save(network.state_dict(), folder / "net.pt")
    torch.save({"attn.in_proj_weight": torch.ones(30, 10)}, folder / "odd.pt")
    (folder / "junk.pt").write_text("not found " * 20, "utf-8")
    for name, shape in (("x", (20, 64)), ("narrow", (20, 50)), ("many", (60_000, 64))):
        np.save(folder / f"{name}.npy", np.ones(shape, dtype=np.float32))
    (folder / "imgs" / "a").mkdir(parents=True)
    Image.new("L", (8, 8)).save(folder / "imgs" / "a" / "1.png")
    for name, epochs, key in (("beta", 1, "regime"), ("misspelt", 1, "regimes")):
        (folder / f"{name}.toml").write_text(SWEEP % (epochs, key), "utf-8")
    (folder / "other.toml").write_text(SWEEP % (2, "regime"), "utf-8")
    with chdir(folder):
        assert main(f"{SMALL} --record npk --out first".split()) == 0
        assert main(f"{SMALL} --out broken".split()) == 0
        info = json.loads(Path("broken/run.json").read_text("utf-8"))
        Path("broken/run.json").write_text(json.dumps({**info, "sha256": ""}), "utf-8")
        assert main(["sweep", "beta.toml", "--out", "sw", "--executor", "serial", "--quiet"]) == 0
        yield folder


def as_pattern(quote: str) -> str:
    """Return a pattern of the sentence: any number, name or path stands for another."""
    words = re.split(r"(…|[\d.,]*\d)", quote)
    return "".join(".*" if n % 2 else re.escape(word) for n, word in enumerate(words))


def test_the_page_quotes_what_is_provoked_here_and_not_more_than_twenty() -> None:
    quotes = QUOTE.findall(SECTION)
    assert len(quotes) <= MOST
    unprovoked = [quote for quote in quotes if not any(quote.startswith(key) for key in COMMANDS)]
    assert unprovoked == []
    assert len(quotes) == len(COMMANDS)


@pytest.mark.slow
@pytest.mark.parametrize("beginning", COMMANDS)
def test_the_program_says_what_the_page_quotes(
    beginning: str, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (quote,) = (quote for quote in QUOTE.findall(SECTION) if quote.startswith(beginning))
    monkeypatch.setenv("DGN_DATA_ROOT", str(here / "none"))
    lock = Lock(here / "first" / "lock")
    with suppress(SystemExit):
        if "being written" in beginning:
            lock.acquire()
        assert main(COMMANDS[beginning].split()) == 2
    lock.release()
    assert re.search(as_pattern(quote), capsys.readouterr().err), quote
