"""The examples that a run was trained on, for a network read from its files: with FRG's gates."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from dgn_engine.data import load_examples
from dgn_engine.errors import UserError
from dgn_engine.importing.saved_network import NetworkState
from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.random_gates import RandomGates
from dgn_engine.protocol.frames import Array
from dgn_engine.protocol.probe_choice import ProbeChoice
from dgn_engine.random_streams import random_stream
from dgn_engine.training.device_data import choose_probe_set

UNKNOWN_DATA = (
    "The file does not say which examples it was trained on; those are taken that lie here."
)


@dataclass(frozen=True)
class OwnExamples:
    """Training examples `rows` (n,) of a run: images (n, …), class numbers (n,) from 0."""

    rows: tuple[int, ...]
    images: Array
    labels: Array
    of: int  # training examples in all
    remark: str = ""


def own_examples(state: NetworkState, wanted: int, root: str = "") -> OwnExamples:
    """The first `wanted` training examples of the run, or for 0 its probe set.

    `root`: where data sets lie, where not as the configuration says. Raises `UserError` where
    the data cannot be had, or are not those of the run.
    """
    config = state.config
    examples = load_examples(replace(config.data, root=root or config.data.root))
    if state.data and state.data != examples.fingerprint:
        raise UserError(
            f"The run was trained on other data: what {config.data.name} holds now has another "
            "fingerprint.",
            kind="other-data",
            value=config.data.name,
        )
    count = len(examples.train_y)
    if wanted > count:
        raise UserError(
            f"The run has {count:,} training examples; {wanted:,} were asked for.",
            kind="out-of-bounds",
            value=wanted,
        )
    rows = tuple(range(wanted))
    if not wanted:
        choice = replace(ProbeChoice.parse(config.probe_set), drawn=())  # those have no label
        rows = choose_probe_set(examples, config.probe_examples, config.seed, choice).indices
    chosen = list(rows)
    labels = examples.train_y[chosen].astype(np.int64)
    remark = "" if state.data else UNKNOWN_DATA
    return OwnExamples(rows, examples.train_x[chosen], labels, count, remark)


def with_drawn_gates(network: GatedNetwork, state: NetworkState, own: OwnExamples) -> GatedNetwork:
    """The network as these examples see it: under FRG, by the gates that its run drew for them."""
    if not network.drawn_gates:
        return network
    like: Tensor = network.value.weights[0]
    drawn = RandomGates(
        network.feature.architecture,
        own.of,
        state.config.gating.gate_probability,
        random_stream("gates", state.seed),
        like.device,
    )
    rows = torch.tensor(own.rows, device=like.device)
    return network.with_gates(drawn.at(rows, like.dtype))
