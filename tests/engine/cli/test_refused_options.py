"""What no command takes, one line each: refused with this kind, place, value and these facts in its
sentence, before anything is written."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from torch import nn

from dgn_engine.cli import main
from tests.engine.cli.user_code import NETS
from tests.refusals import refused_command
from tests.snapshots import Recorded

CHAIN = ((9, 6), (9, 9), (9, 9), (3, 9))  # of dense layers
RELU = "value.safetensors --activation relu --inputs x.npy"
MINE = "--model user_nets:Smooth"
TYPED = f"""
train --data nothing
train --data mnist --data-root nowhere
train --regime FR-III
train --net resnet152
train --option colour=3
train no-such-file.toml
train --regime FL --gates-from no-such-file.pt
train --binary 4,99
train --epochs 0
train --option width
train --width 0
train --lr -1
train --seed -1
train --checkpoint-every nan
train --checkpoint-every -5
train --record-every 5
train --at-step 5
train --no-record --out x
train --no-record --record gates
train --resume x --width 3
train --resume x --option n=3
train --resume x --data-option n=3
train --branch-from x --width 3
train --branch-from x --no-record
inspect
inspect --data mnist --data-root nowhere whole.pt
inspect x.pt --confinement
inspect --confinement --data x
inspect x.pt --examples 5
inspect x.pt --kernels exact
inspect x.pt --option width=3
inspect x.pt --data digits --option width=3
inspect x.pt --data digits --split-seed 2147483648
inspect x.pt --data digits --split-seed 1 --test-indices a
inspect x.pt --data digits --test-indices=
inspect x.pt --data digits --examples 1
inspect --model a:b
inspect --data digits {MINE} --net cnn4
inspect --data digits {MINE} --part ema
inspect --data digits {MINE} mine.pt
inspect --data digits --weights mine.pt whole.pt
inspect --data digits --model user_nets:Nobody
inspect --data digits
gate-information --data digits {MINE} --net cnn4
gate-information --data digits {MINE} --part ema
gate-information --data digits {MINE} mine.pt
gate-information --data digits --weights mine.pt whole.pt
gate-information --data digits --model user_nets:Nobody
gate-information --data digits
gate-information net.pt --beta 1
gate-information whole.pt --data mnist --data-root nowhere
gate-information net.pt --keep-epochs 1
gate-information net.pt --seed 1
gate-information net.pt --gate-probability 1
kernels chainless.npz --activation relu --inputs x.npy
kernels infinite.npz --activation relu --inputs x.npy
kernels convolution.npz --activation relu --inputs x.npy
kernels {RELU} --permute 0,0,1
kernels {RELU} --eps 0.1
kernels {RELU} --option width=9
kernels {RELU} --expect-accuracy 90
kernels {RELU} --beta -1
kernels {RELU} --beta inf
kernels {RELU} --beta 4 --eps -0.1
kernels {RELU} --memory -1
kernels {RELU} --memory nan
kernels {RELU} --memory 0.0000001
kernels {RELU} --labels x.npy
kernels {RELU} --labels nan.npy
kernels {RELU} --labels half.npy
kernels {RELU} --labels three.npy
kernels {RELU} --inputs infinite.npy
kernels {RELU} --inputs y.npy
kernels {RELU} --inputs two.npz
kernels {RELU} --inputs five.npy
kernels {RELU} --gates narrow.npz
kernels {RELU} --gates value.safetensors --permute 1,0
kernels value.safetensors --inputs x.npy --net resnet152
kernels value.safetensors --inputs x.npy --net fc --option width=9 --option depth=3
kernels value.safetensors --inputs x.npy --net fc --option width=8 --option depth=4
kernels first@5 --examples probe
kernels first --examples 25
kernels first --examples probe --labels y.npy
kernels first --examples probe --beta 2
kernels --inputs five.npy
kernels --inputs five.npy net.pt --weights f.pt
kernels {MINE} --examples probe
kernels {MINE} --inputs five.npy net.pt
kernels {MINE} --inputs five.npy --net fc --option width=3
kernels {MINE} --inputs five.npy --option width=3
kernels {MINE} --inputs five.npy --norm-eps 1e-3
kernels {MINE} --inputs five.npy --gates g.pt
kernels {MINE} --inputs five.npy --beta 4 --eps 0.1
kernels {MINE} --inputs five.npy --permute 0,1
kernels {MINE} --inputs five.npy --value-input ones
kernels {MINE} --inputs five.npy --feature-activation linear
kernels {MINE} --inputs five.npy --data-root d
kernels {MINE} --inputs five.npy --part ema
kernels {MINE} --inputs five.npy --scale trace
kernels {MINE} --inputs five.npy --folded
kernels {MINE} --inputs five.npy --only ntk,gates
kernels {MINE} --inputs five.npy --only npk
kernels --model user_nets:Residual --inputs five.npy --only nu
kernels --model user_nets:Residual --inputs five.npy --only ntk,eigenvalues --logits perclass
figure first --panel spectrun
figure first --panel ,
figure first --panel spectrum --step 7
figure first --panel training --step 3
figure first --panel spectrum --step 0,7
figure first --panel spectrum --step 0,0
figure first --panel spectrum --step 0,7,6
figure first --panel agreement
figure first --panel spectrum --chart x
figure first --panel ntk,spectrum --chart ntk.x
figure first --panel training,ntk --chart los
figure first --panel spectrum --width 90
figure first --panel spectrum --font-size 3
figure first --panel training --legend train=$^{{$
figure first --panel spectrum --choose show=x
figure first --panel spectrum --choose way=x
figure first --panel spectrum --choose ntk.show=x
figure first --panel spectrum --height 0.8
figure first --panel spectrum --animate 1:30
figure first --panel spectrum --animate all -o film.pdf
figure first --panel spectrum --step 0,
figure first --panel spectrum --step x
figure first --panel spectrum --step=-1
figure first --panel spectrum --step=
figure first --panel spectrum --dpi 0
figure first --panel spectrum --font-size 0
figure first --panel spectrum --legend x=y
figure first --panel spectrum --legend energy
figure first --panel spectrum -o a.bmp
figure first --panel spectrum -o a.png --format svg
figure first --panel spectrum --animate 5
figure first --panel spectrum --animate 9:3
figure first --panel spectrum --animate 6:6
figure first --panel spectrum --animate all --pages 1
figure first --panel spectrum --animate all --step 6
figure first --panel spectrum --animate all --format png
"""
FACTS = re.compile(r"--[a-z][\w-]*|'[^']*'|[\w-]+\.[a-z]\w*|(?<![\w-])\d[\d.,]*(?<=\d)")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a run of six steps, files of networks, inputs, labels and code."""
    folder = tmp_path_factory.mktemp("place")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        Path("RUNS").mkdir()
        run = "--train-limit 24 --test-limit 10 --batch 12 --epochs 3 --width 6 --depth 4 --quiet"
        record = "--regime FR-II --record gates,overlap,npk,ntk --record-every 6 --out first"
        assert main(["train", *run.split(), *record.split()]) == 0
        write_networks()
        write_arrays()
    (folder / "user_nets.py").write_text(NETS)
    yield folder
    sys.modules.pop("user_nets", None)


def write_networks() -> None:
    rng = np.random.default_rng(0)
    weights = {f"{i}.weight": rng.normal(size=shape) for i, shape in enumerate(CHAIN)}
    save_file(weights, "value.safetensors")
    others = {
        "chainless": {"1.weight": np.ones((9, 8))},
        "infinite": {"0.weight": np.full((9, 6), np.inf)},
        "convolution": {"0.weight": np.ones((9, 1, 3, 3))},
        "narrow": {"1.weight": np.ones((8, 9)), "2.weight": np.ones((9, 8))},
    }
    for name, other in others.items():
        np.savez(f"{name}.npz", **weights | other)
    module = nn.Sequential(nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10))
    torch.save(module, "whole.pt")
    torch.save(module.state_dict(), "mine.pt")


def write_arrays() -> None:
    rng = np.random.default_rng(0)
    arrays = {"x": rng.normal(size=(7, 6)), "five": rng.normal(size=(6, 5))}
    arrays |= {"y": np.arange(7) % 3, "nan": np.full(7, np.nan), "half": np.full(7, 0.5)}
    arrays |= {"three": np.full(7, 3), "infinite": np.full((3, 6), np.inf)}
    for name, array in arrays.items():
        np.save(f"{name}.npy", array)
    np.savez("two.npz", a=arrays["x"], b=arrays["x"])


def files_in(place: Path) -> list[Path]:
    return sorted(path for path in place.rglob("*") if "__pycache__" not in path.parts)


@pytest.mark.parametrize("words", TYPED.strip().splitlines())
def test_a_command_that_cannot_be_is_refused(
    words: str, place: Path, monkeypatch: pytest.MonkeyPatch, recorded: Recorded
) -> None:
    monkeypatch.chdir(place)
    for root in ("RUNS", "RESULTS"):
        monkeypatch.setenv(f"DGN_{root}_ROOT", str(place / root))
    before = files_in(place)
    refusal = refused_command(*shlex.split(words.replace("$^{$", "'$^{$'")))
    said = str(refusal).replace(f"{place}/", "")
    typed = {*words.split()[1:], *re.split("[ =,]", words)[1:]}
    repeated = {word for word in typed if re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", said)}
    facts = sorted({*FACTS.findall(said), *repeated} - {"", ","})
    recorded([refusal.kind, refusal.place, str(refusal.value).replace(f"{place}/", ""), facts])
    assert files_in(place) == before


def test_a_network_that_there_is_not_is_refused_with_those_that_are() -> None:
    assert "cnn4" in str(refused_command("train", "--net", "resnet152"))
