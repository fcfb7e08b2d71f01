"""A page for each experiment: what it asks, how to run it, what came out, a figure, its claims."""

from __future__ import annotations

import io
import math
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure as Canvas

from dgn_engine.experiments._published import published_claim
from dgn_engine.experiments.report.document import Document, ReportRow
from dgn_engine.experiments.report.experiment_list import experiment_entries
from dgn_engine.experiments.report.formatting import (
    CLAIM_HEADS,
    CLAIM_NOTE,
    PRINTED_NOTE,
    ROW_HEADS,
    ROW_NOTE,
    claim_cells,
    row_cells,
)
from dgn_engine.experiments.report.formatting import drop_empty_columns as columns
from dgn_engine.protocol.catalogue import ExperimentEntry
from dgn_engine.text.written_numbers import format_duration
from documentation.generated_page import GeneratedPage, GeneratedPicture, table
from documentation.results_page import HOW, SCALES, joint_verdicts, kept

FOLDER = "experiments"
INK, MEASURED, PRINTED = "#3b3f46", "#0b6e75", "#b3541e"
# Beside two side columns only the first few columns of a table are in sight.
_CLAIM_ORDER = ("claim", "verdict", *(head for head in CLAIM_HEADS[1:] if head != "verdict"))
SPAN = 100  # a range of positive values beyond this ratio has a logarithmic axis


def generate(root: Path) -> Iterator[GeneratedPage | GeneratedPicture]:
    results = kept()
    entries = experiment_entries()
    yield GeneratedPage(f"{FOLDER}/index.md", "\n".join(_index(entries, results)))
    for entry in entries:
        own = [result for result in results if result.name == entry.id]
        own.sort(key=lambda result: SCALES.index(result.scale))
        pictures = {_picture_name(result): _picture(result) for result in own if _drawn(result)}
        yield GeneratedPage(f"{FOLDER}/{entry.id}.md", "\n".join(_page(entry, own)))
        yield from (
            GeneratedPicture(f"images/experiments/{name}.svg", content)
            for name, content in pictures.items()
        )


def _index(entries: Sequence[ExperimentEntry], results: Sequence[Document]) -> Iterator[str]:
    yield "# Every experiment of the papers\n"
    yield (
        "Each experiment is one table, figure or theorem of the papers. `dgn reproduce NAME` runs "
        "it in minutes, scaled down; with `--full` it runs at the paper's scale. Its page has the "
        "results that are kept: rows, a figure, and a verdict on every claim. "
        "[Which results are kept](../results.md) lists them all, and "
        "[Concepts](../concepts/index.md) explains the quantities.\n"
    )
    rows = []
    for entry in entries:
        own = [result for result in results if result.name == entry.id]
        words = []
        for scale in SCALES:
            claims = [claim for result in own if result.scale == scale for claim in result.claims]
            if claims:
                joint = list(joint_verdicts(claims).values())
                words.append(f"{HOW[scale]}: {joint.count('held')} of {len(joint)}")
        rows.append((f"[{entry.title}]({entry.id}.md)", entry.paper, "; ".join(words) or "–"))
    yield from table(("experiment", "paper", "claims held"), rows)
    yield "\n## Every claim\n"
    yield (
        "Reports name a claim by a short id. A claim is *held* if the whole 95 % interval of its "
        "statistic is on the claimed side, *not held* if all of it is on the other side, and "
        "*not decided* otherwise. [Reproduce the papers](../guide/papers.md) explains verdicts.\n"
    )
    yield from table(("id", "in words", "experiments"), list(_claims(entries, results)))


def _claims(
    entries: Sequence[ExperimentEntry], results: Sequence[Document]
) -> Iterator[tuple[str, str, str]]:
    from dgn_engine.experiments._published import claim_ids

    for claim_id in claim_ids():
        names = sorted(
            {result.name for result in results for claim in result.claims if claim.id == claim_id}
        )
        links = ", ".join(f"[{name}]({name}.md)" for name in names)
        yield f"`{claim_id}`", IN_WORDS.get(claim_id, published_claim(claim_id)[1]), links or "–"


# The claims in words; published.json has them as they are tested.
IN_WORDS = {
    "npf-1": "Networks with fixed random gates (FR) generalise worse than networks that learn "
    "their gates (DL) and worse than ordinary ReLU networks.",
    "npf-2": "A value network trained behind the fixed gates of a trained network (FL) comes "
    "within one point of that ReLU network.",
    "npf-3": "Gates taken from later stages of training carry more: accuracy rises from stage to "
    "stage, starts above random gates, and passes the convolutional tangent kernel's 77.43 %.",
    "npf-4": "ν of the neural path kernel falls during training: the kernel becomes a better fit "
    "to the labels.",
    "npf-5": "The value part and the feature part of the tangent kernel have the same scale, "
    "within a factor of ten.",
    "npf-6": "Between two switches of gates, the error obeys ė = −Ke, and the smallest eigenvalue "
    "of K is bounded by that of H.",
    "npf-7": "The gates of the first stage stay below the ReLU network, those of the last reach "
    "it.",
    "npf-8": "The accuracy that fixed learnt gates lose against ReLU is what Table 2 prints.",
    "npf-9": "With soft gates the error obeys ė = −Ke, and the part of K that the gates add is "
    "needed.",
    "ws-1": "Gates learnt from random labels or pixels are worse than random gates, which are "
    "worse than gates learnt from true labels.",
    "ws-2": "The variance of the tangent kernel at its start grows with depth and falls with width "
    "as max(d²/w, d³/w²).",
    "ws-3": "Without biases, no ReLU network fits (x, +1) and (x/2, −1) at the same time.",
    "ws-4": "If the value network's own initial weights make the gates (FR-DI), the kernel tends "
    "to the usual tangent kernel and not to βH.",
    "ws-5": "Networks with gates learnt from true labels are about as accurate as the ReLU "
    "network.",
    "ws-6": "The accuracy that gates learnt from true labels lose against ReLU is what Table 4 "
    "prints.",
    "dual-1": "Random gates of an independent network (FR-II) and of a copy of the value network "
    "(FR-DI) give the same accuracy.",
    "dual-2": "Learning gates and values apart (DL) loses less than three points against ReLU.",
    "dual-3": "Fixed learnt gates come within one point of ReLU.",
    "dual-4": "Random gates are below the convolutional tangent kernel, which is below all "
    "networks whose gates were learnt.",
    "dual-5": "Networks are as accurate with their gate layers in another order, in all 24 orders "
    "of four. (The path kernel of a dense network is the same, that of a CNN only roughly.)",
    "dual-6": "Networks are as accurate if the value network sees ones instead of the image.",
    "dual-7": "Networks are as accurate if their gates are tiled over a wider layer or rotated.",
    "dual-8": "Networks are as accurate with a feature network that has no non-linearity between "
    "its layers.",
    "dual-9": "Without label noise, model M3 is at most two points below M2.",
    "dual-10": "Model M4 loses 4.3, 7.6 and 13.1 points at 25, 50 and 75 % false labels.",
    "dual-11": "Models M4 and M5 differ by at most half a point.",
    "dual-12": "While the upstream model learns false labels, its accuracy peaks and then falls; "
    "the gates keep what it knew at the peak.",
    "dual-13": "A network whose gates are linear in the image keeps more than 83.5 % of the "
    "accuracy of the usual network.",
    "comp-1": "Even with random gates a network is far above chance.",
    "comp-2": "A network with the gates of a trained network in reverse order, and random values "
    "as input, is about as accurate as that network.",
    "comp-3": "The path kernel of a convolutional network with global pooling does not change when "
    "an image is rotated cyclically, if convolutions pad circularly.",
    "comp-4": "With depth, the angle between two inputs falls and the overlap per unit tends to ½.",
    "comp-5": "At its start, the value part of the tangent kernel is β times the neural path "
    "kernel: for dense, convolutional and residual networks.",
    "comp-6": "Gates that are learnt apart (DL) or copied (FL) keep more than half of what learnt "
    "gates add to random ones.",
    "dgn-1": "With fixed random gates, the eigenvalues of the kernel are near the predicted ones, "
    "and nearer in wider networks.",
    "dgn-2": "With depth, training first becomes faster, then slower again.",
    "dgn-3": "On nearly parallel inputs, networks with fixed random gates (GaLU) are optimised "
    "faster than ReLU networks.",
    "dgn-4": "On MNIST, networks with fixed random gates (GaLU) train faster than ReLU networks "
    "and generalise worse.",
    "dgn-5": "Networks are more accurate with adaptive gates than with frozen ones, and with "
    "learnt gates than with unlearnt ones.",
    "dgn-6": "ν of the tangent kernel with adapting gates is no larger than with frozen gates.",
    "dgn-7": "A network learns when its gates alone are trained.",
    "dgn-8": "The expectation of the feature part of the tangent kernel at its start is what the "
    "paper's lemma says.",
    "dgn-9": "On nearly parallel inputs, the kernel's eigenvalues at the start are more equal with "
    "GaLU than with ReLU.",
    "dgn-10": "On nearly parallel inputs, GaLU networks train faster if they are deeper.",
    "cvx-1": "Training two layers with given gates and weight decay is a convex problem.",
    "cvx-2": "A network with given gates computes what a ReLU network of twice the width does.",
    "cvx-3": "A method for the convex problem needs fewer passes than training the weights.",
    "cvx-4": "Training nevertheless reaches the optimum within 1 % (our question).",
    "galu-1": "Networks with random gates memorise n random examples with about n/d hidden units.",
    "galu-2": "So do ReLU networks, with slightly more.",
    "galu-3": "Training memorises with at most 1.5 times the width that has to suffice (our "
    "question).",
    "halfspace-1": "Half-spaces of gates move to the places where labels change.",
    "halfspace-2": "A network with learnt gates is more accurate than a support vector machine "
    "with its initial path kernel.",
    "halfspace-3": "The path kernel after training makes a better support vector machine than the "
    "initial one.",
    "silent-1": "With small initial weights and whitened inputs, the tangent kernel takes more "
    "than half of its change of shape before the loss falls.",
    "silent-2": "Less than half of the growth of its scale comes before.",
    "silent-3": "The trained network agrees with kernel regression with its final kernel, not with "
    "its initial one.",
    "silent-4": "With inputs that are not whitened, less of the change of shape comes before the "
    "loss falls.",
    "silent-5": "With usual initial weights, the kernel changes its shape less before the loss "
    "falls.",
    "regions-1": "After the start, fewer gate boundaries pass near the training examples.",
    "regions-2": "Then more of them do.",
    "regions-3": "In the end, fewer do again.",
    "paths-1": "Path magnitude prunes the same weights, however hidden units are scaled.",
    "paths-2": "With 40 % of the weights pruned, path magnitude and pruning small weights differ "
    "by less than a point of accuracy.",
    "paths-3": "If hidden units are rescaled, pruning small weights costs accuracy that pruning by "
    "path magnitude does not.",
}


def _page(entry: ExperimentEntry, results: Sequence[Document]) -> Iterator[str]:
    yield f"# {entry.title}\n"
    yield f"**{entry.paper}** · [all experiments](index.md)\n"
    yield f"{entry.about}\n"
    yield "```sh"
    yield f"dgn reproduce {entry.id}           # minutes, scaled down"
    yield f"dgn reproduce {entry.id} --full    # the paper's scale; its cost is printed first"
    yield "```\n"
    if not results:
        yield "No result of this experiment is kept yet.\n"
    for result in results:
        how = f"{HOW[result.scale].capitalize()}, {result.protocol.replace('-', ' ')}"
        only = str(result.request.get("only") or "")
        yield f"## {how}{f', {only}' if only else ''}\n"
        yield (
            f"`dgn {shlex.join(result.command)}`: {format_duration(result.seconds)} of computing.\n"
        )
        yield from (f"{sentence}\n" for sentence in result.notices)
        if _drawn(result):
            caption = "Measured means with their 95 % intervals"
            if any(row.printed is not None for row in result.rows):
                caption += "; a diamond is the number that the paper prints"
            yield f"![{caption}](../images/experiments/{_picture_name(result)}.svg)\n"
            yield f"*{caption}.*\n"
        if result.claims:
            yield "### Claims and verdicts\n"
            yield from table(*columns(_CLAIM_ORDER, list(_claim_rows(result))))
            yield ""
        yield "### Rows\n"
        yield from table(*columns(ROW_HEADS, list(_rows(result))))
        yield ""
        if result.scaled_down:
            yield "Scaled down: " + "; ".join(result.scaled_down) + ".\n"
        yield from (f"{sentence}\n" for sentence in result.remarks)
    yield from _notes(results)


def _notes(results: Sequence[Document]) -> Iterator[str]:
    """Yield what the words and numbers of the tables mean."""
    if not results:
        return
    yield "## How to read the tables\n"
    ids = dict.fromkeys(claim.id for result in results for claim in result.claims)
    yield from (f"- `{one}`: {IN_WORDS[one]}" for one in ids if one in IN_WORDS)
    yield f"- {ROW_NOTE}"
    if any(row.printed is not None for result in results for row in result.rows):
        yield f"- {PRINTED_NOTE}"
    if ids:
        yield f"- {CLAIM_NOTE}"
    yield ""


def _claim_rows(result: Document) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each claim, in the order of `_CLAIM_ORDER`."""
    for claim in result.claims:
        cells = dict(zip(CLAIM_HEADS, claim_cells(claim, result.scale), strict=True))
        cells["claim"] = f"`{claim.id}`"
        yield tuple(cells[head] for head in _CLAIM_ORDER)


def _rows(result: Document) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each row but scale and protocol, which the heading says."""
    said = (ROW_HEADS.index("scale"), ROW_HEADS.index("protocol"))
    for row in result.rows:
        cells = row_cells(result, row)
        yield tuple("" if place in said else cell for place, cell in enumerate(cells))


def _picture_name(result: Document) -> str:
    only = "".join(c if c.isalnum() else "-" for c in str(result.request.get("only") or ""))
    return "-".join(part for part in (result.name, result.scale, result.protocol, only) if part)


def _drawn(result: Document) -> bool:
    return bool(_finite(result))


def _finite(result: Document) -> list[ReportRow]:
    return [row for row in result.rows if math.isfinite(row.mean)]


def _picture(result: Document) -> bytes:
    """Draw a point with its interval for each row, beside the printed number, by unit."""
    rows = _finite(result)
    units = list(dict.fromkeys(row.unit for row in rows))
    groups = [[row for row in rows if row.unit == unit] for unit in units]
    with matplotlib.rc_context({"svg.hashsalt": result.name, "font.size": 8}):
        canvas = Canvas(figsize=(7.2, 0.55 * len(groups) + 0.19 * len(rows) + 0.25))
        all_axes = canvas.subplots(
            len(groups), squeeze=False, gridspec_kw={"height_ratios": [len(g) + 2 for g in groups]}
        )[:, 0]
        for axes, group, unit in zip(all_axes, groups, units, strict=True):
            _draw(axes, group, unit)
        canvas.tight_layout()
        content = io.BytesIO()
        canvas.savefig(content, format="svg", metadata={"Date": None})
    return content.getvalue()


def _draw(axes: matplotlib.axes.Axes, rows: Sequence[ReportRow], unit: str) -> None:
    heights = range(len(rows), 0, -1)
    means = [row.mean for row in rows]
    halves = [row.half_width if math.isfinite(row.half_width) else 0.0 for row in rows]
    if min(means) > 0 and max(means) / min(means) > SPAN:
        axes.set_xscale("log")
        halves = [min(half, 0.999 * mean) for half, mean in zip(halves, means, strict=True)]
    axes.errorbar(
        means, list(heights), xerr=halves, fmt="o", color=MEASURED, markersize=3.5, elinewidth=1.2
    )
    for row, height in zip(rows, heights, strict=True):
        if row.printed is not None:
            axes.plot([row.printed.value], [height], "D", color=PRINTED, markersize=4, mfc="none")
    axes.set_yticks(list(heights), [row.label for row in rows])
    axes.set_ylim(0.3, len(rows) + 0.7)
    axes.grid(axis="x", color="#d9dce1", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, colors=INK)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    if unit:
        axes.set_xlabel(unit, color=INK)
