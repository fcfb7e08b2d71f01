"""The answers of the network for each probe example: its classes with the largest outputs.

Arrays: `labels`; `top` (n, k) int32, the k ≤ 3 classes with the largest outputs, the predicted one
first; `share` (n, k) float32, their values; `label_share` (n,) float32, the value of the label, NaN
where there is none. The values are probabilities, the softmax of the outputs, unless the loss is
squared: then they are the outputs themselves, which are no probabilities. A ±1 problem has one
output f, predicts class 1 if f > 0, and has the probability σ(f) for it, or the one value f.

Facts: `kind`, 'probability', 'softmax' (the loss is unknown) or 'output'; `classes`, 'data' if
output c stands for class c of the data, otherwise 'own'.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from dgn_engine.config import Loss
from dgn_engine.plugins import OptionValue
from dgn_engine.training.probes._probe import Probe, ProbeContext, ProbeResult, to_numpy

TOP = 3
_KINDS: Mapping[Loss, str] = {"cross-entropy": "probability", "squared": "output"}


def read(context: ProbeContext, options: Mapping[str, OptionValue], memory: object) -> ProbeResult:
    """Measure the probe; see the module docstring.

    Args:
        context: The step.
        options: Unused.
        memory: Unused.

    Returns:
        Arrays and facts as above.
    """
    outputs = context.kernels.trace.value.output
    if not bool(torch.isfinite(outputs).all()):
        return ProbeResult(absent="The outputs of the network are not finite.")
    is_single = outputs.shape[1] == 1
    kind = "softmax" if context.loss is None else _KINDS[context.loss]
    if is_single:
        kind = "output" if kind == "softmax" else kind
        outputs = torch.cat([-outputs / 2, outputs / 2], dim=1)  # softmax: σ(-f), σ(f)
    # Sorted before the softmax, which can round different outputs to equal values.
    order = outputs.argsort(dim=1, descending=True, stable=True)
    values = outputs if kind == "output" else outputs.softmax(dim=1)
    top = order[:, :TOP]
    if is_single and kind == "output":
        values, top = 2 * outputs[:, 1:].expand_as(outputs), order[:, :1]
    labels = context.labels
    label_share = torch.full((len(labels),), torch.nan, dtype=torch.float32, device=values.device)
    if context.own_labels:
        known = labels < values.shape[1]
        label_share[known] = values[known, labels[known]].float()
    arrays = {
        "labels": to_numpy(labels),
        "top": to_numpy(top.to(torch.int32)),
        "share": to_numpy(values.gather(1, top).float()),
        "label_share": to_numpy(label_share),
    }
    return ProbeResult(
        arrays, facts={"kind": kind, "classes": "data" if context.own_labels else "own"}
    )


PROBE = Probe("Predictions", read)
