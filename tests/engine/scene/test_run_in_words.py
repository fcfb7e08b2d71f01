"""Runs, networks, layers and tensors in a few words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dgn_engine.config import DataConfig, GatingConfig, NetConfig, RunConfig
from dgn_engine.protocol.files import FileListed, FileUseCheck, LayerMatch, Purpose
from dgn_engine.protocol.training import RunStarted
from dgn_engine.scene.file_use_text import check_file_use, first_use
from dgn_engine.scene.number_style import NUMBERS, rewrite_numbers
from dgn_engine.scene.panel_spec import View
from dgn_engine.scene.run_text import (
    describe_data,
    describe_network,
    describe_run,
    describe_weights,
    format_age,
    layer_name,
    layer_tag,
    layers_with_prefix,
    name_in_words,
    short_names,
    shorten_middle,
)
from dgn_engine.scene.typeset import label_html, split_runs, strip_markup
from dgn_engine.text.printable import printable
from tests.engine.panels.pictures import started_run
from tests.snapshots import Recorded

FOUR = (64,), (64,), (64,), (64,)


def net(name: str, *options: tuple[str, int], shapes: tuple[tuple[int, ...], ...]) -> RunStarted:
    return started_run(*shapes, config=RunConfig(net=NetConfig(name, options=options)))


def test_a_network_in_words(recorded: Recorded) -> None:
    inspected = replace(net("fc", shapes=FOUR), inspected="x.pt")
    runs = (
        net("fc", shapes=FOUR),
        net("fc", shapes=((64,), (32,))),
        net("cnn4", ("channels", 128), shapes=((128, 4, 4),)),
        net("cnn4", shapes=((32, 4, 4), (32, 2, 2))),
        net("cnn4", shapes=((32, 4, 4), (16, 2, 2))),
        net("vconv", shapes=((32, 4, 4), (32,))),
        inspected,
        replace(inspected, assuming="ReLU"),
        replace(
            net("fc", shapes=FOUR),
            config=RunConfig(gating=GatingConfig(feature_layers="parallel")),
        ),
    )
    recorded([describe_network(one) for one in runs])


def test_a_run_in_words_counts_the_weights_of_both_networks() -> None:
    started = replace(net("fc", shapes=FOUR), parameters_value=21_000)
    assert describe_run(started, 450) == "digits · fc 64×5 · 21,450 weights"
    assert describe_weights(started, 0) == "Value network 21,000"
    assert describe_weights(started, 1450) == "Value network 21,000, feature network 1,450"
    assert describe_weights(started, 1450, aside=True).endswith("1,450 (not in use)")


def test_data_in_words(recorded: Recorded) -> None:
    data = (
        DataConfig(),
        DataConfig("mnist", binary=(4, 7)),
        DataConfig("folder:/data/flowers"),
        DataConfig(label_noise=0.125),
        DataConfig(label_noise=1, pixels="random"),
    )
    recorded([describe_data(one) for one in data])


def test_a_layer_is_named_with_the_gates_that_it_uses() -> None:
    view = View(wiring=(0, 2, 1))
    assert [layer_name(view, layer) for layer in range(4)] == [
        "layer 1",
        "layer 2 ← G3",
        "layer 3 ← G2",
        "layer 4",
    ]
    assert [layer_tag(view, layer) for layer in range(4)] == ["G1", "G3", "G2", "G4"]


def test_the_layers_of_a_reading_are_counted_by_its_arrays() -> None:
    names = ["layer_10", "layer_2", "labels", "layer_x", "player_3", "layer"]
    assert layers_with_prefix(names, "layer") == [2, 10]


PAIRS = (
    ("blocks.1.attention.weight", "blocks.22.attention.weight"),
    ("a.weight", "b.weight"),  # short as they are
    ("blocks.1.attention.weight",),
    ("blocks.attention.weight", "blocks.attention.biases"),
    ("first.attention.weight", "second.attention.weight"),
    ("encoder_of_images", "decoder_of_pictures"),
    ("blocks.attention.weight", "blocks.attention.weight.more"),
)


def test_names_are_shortened_by_what_they_share(recorded: Recorded) -> None:
    recorded([short_names(names) for names in PAIRS])
    assert all(len(set(short_names(names))) == len(names) for names in PAIRS)


def test_how_long_ago(recorded: Recorded) -> None:
    moments = (-5, 59.9, 60, 3599, 3600, 86_399, 86_400, 172_800, 86_400 * 1234)
    recorded({str(seconds): format_age(seconds) for seconds in moments})


MATCHES = (LayerMatch("layer 1", (2,), "a", (2,), True),)
LISTED = FileListed(
    1,
    "/x.pt",
    "x.pt",
    (),
    MATCHES,
    fits=False,
    verdict="It has no gates.",
    weights=FileUseCheck(True, "It fits."),
    network=FileUseCheck(True, "It is a network."),
)


@pytest.mark.parametrize(
    ("purpose", "offer"),
    [
        ("gates", FileUseCheck(False, "It has no gates.", MATCHES)),
        ("weights", FileUseCheck(True, "It fits.")),
        ("compare", FileUseCheck(True, "It is a network.")),
        ("network", FileUseCheck(True, "It is a network.")),
    ],
)
def test_each_use_of_a_file_has_its_own_verdict(purpose: Purpose, offer: FileUseCheck) -> None:
    assert check_file_use(LISTED, purpose) == offer


def test_a_file_is_used_for_what_it_was_opened_for_else_for_the_first_that_fits() -> None:
    assert first_use(LISTED) == "weights"
    assert first_use(replace(LISTED, fits=True)) == "gates"
    assert first_use(replace(LISTED, purpose="network")) == "network"
    nothing = FileUseCheck(False, "No.")
    assert first_use(replace(LISTED, weights=nothing)) == "compare"
    none = replace(LISTED, weights=nothing, network=nothing)
    assert first_use(none) == "network"  # other data may fit


def test_a_long_name_is_cut_in_its_middle() -> None:
    assert shorten_middle("resnet18.pth") == "resnet18.pth"
    cut = shorten_middle("resnet18-of-a-long-training-epoch-0200-best.pth")
    assert (cut, len(cut)) == ("resnet18-o…00-best.pth", 22)
    assert shorten_middle("abcdefg", 5) == "ab…fg"
    assert shorten_middle("abcdefg", 4) == "a…fg"


# Mathematics in labels: runs of letters, plain text and HTML.

LABELS = (
    *("", "loss", "tr $K^V$ now", "$τ_{12}$", "$DD^T_2$", "|$K^X$|", "$2x$", "$x_{ab}c$"),
    *("$x^{ab", "$x^", r"costs \$5 of $x$", "$x$$y$"),
)


def test_a_label_becomes_runs(recorded: Recorded) -> None:
    recorded({label: [(r.text, r.level, r.italic) for r in split_runs(label)] for label in LABELS})


def test_a_label_becomes_plain_text_and_html() -> None:
    assert strip_markup("trace $K^{V}_1$") == "trace K^V_1"
    assert strip_markup(r"{a} costs \$5 of $x_{12}$") == "{a} costs $5 of x_12"
    assert (
        label_html("a & $K^V$ of $x_1$")
        == "a &amp; <i>K</i><sup><i>V</i></sup> of <i>x</i><sub>1</sub>"
    )


# Numbers as the user writes them; names, versions and lists stay as they are.

THIN = "\N{NARROW NO-BREAK SPACE}"


@pytest.mark.parametrize(
    ("text", "spaced", "plain"),
    [
        ("step 12,480 · epoch 7.5", f"step 12{THIN}480 · epoch 7,5", "step 12480 · epoch 7.5"),
        ("1,234.5", f"1{THIN}234,5", "1234.5"),
        ("7.5k", "7,5k", "7.5k"),
        ("−2.1×10⁻³", "−2,1×10⁻³", "−2.1×10⁻³"),
        ("93.06% of 1,000,000", f"93,06% of 1{THIN}000{THIN}000", "93.06% of 1000000"),
        ("torch 2.13.0", "torch 2.13.0", "torch 2.13.0"),
        ("net_1.5.pt and 1.5.pt", "net_1.5.pt and 1.5.pt", "net_1.5.pt and 1.5.pt"),
        ("π 2,1,3", "π 2,1,3", "π 2,1,3"),
        ("(0, 1)", "(0, 1)", "(0, 1)"),
        ("--lr=0.5, '1,234.5', /runs/1.5/x", *2 * ("--lr=0.5, '1,234.5', /runs/1.5/x",)),
        ("It ends at step 5.", "It ends at step 5.", "It ends at step 5."),
    ],
)
def test_a_text_is_written_as_in_the_example(text: str, spaced: str, plain: str) -> None:
    assert rewrite_numbers(text, NUMBERS[0]) == text
    assert rewrite_numbers(text, NUMBERS[1]) == spaced
    assert rewrite_numbers(text, NUMBERS[2]) == plain
    assert rewrite_numbers(text, "nonsense") == text


def test_a_narrow_space_between_figures_is_drawn_and_no_escape() -> None:
    text = rewrite_numbers("step 12,480", NUMBERS[1])
    assert "".join(run.text for run in split_runs(text)) == f"step 12{THIN}480"
    assert printable(text) == text


def test_a_run_is_named_by_its_start_and_regime() -> None:
    assert name_in_words("20211126-220301-FR-II-fc-digits") == "26 Nov 2021 22:03 · FR-II"
    for own in ("baseline", "20219926-220301-DL-fc-digits", "20211126-220301"):
        assert name_in_words(own) == own
