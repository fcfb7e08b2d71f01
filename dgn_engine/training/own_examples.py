"""The examples that a saved network was trained on, with their gates under FRG."""

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

UNKNOWN_DATA = "The file does not say which examples it was trained on; the local ones are used."


@dataclass(frozen=True)
class OwnExamples:
    """Training examples of a run.

    Attributes:
        rows: Their rows in the data, (n,).
        images: Images or vectors, (n, …).
        labels: Class numbers from 0, (n,).
        of: Number of training examples of the run.
        remark: A caveat about them, or ''.
    """

    rows: tuple[int, ...]
    images: Array
    labels: Array
    of: int
    remark: str = ""


def own_examples(state: NetworkState, wanted: int, root: str = "") -> OwnExamples:
    """Load training examples of the run that saved a network.

    Args:
        state: What the file says about its run.
        wanted: Number of examples from the first; 0 for the probe set.
        root: Folder of data sets, instead of the configured one.

    Returns:
        The examples.

    Raises:
        UserError: The data are not available, or differ from those of the run.
    """
    config = state.config
    examples = load_examples(replace(config.data, root=root or config.data.root))
    if state.data and state.data != examples.fingerprint:
        raise UserError(
            f"The run was trained on other data: {config.data.name} now has a different "
            "fingerprint.",
            kind="other-data",
            value=config.data.name,
        )
    count = len(examples.train_y)
    if wanted > count:
        raise UserError(
            f"The run has {count:,} training examples, but {wanted:,} were requested.",
            kind="out-of-bounds",
            value=wanted,
        )
    rows = tuple(range(wanted))
    if not wanted:
        choice = replace(
            ProbeChoice.parse(config.probe_set), drawn=()
        )  # drawn examples have no label
        rows = choose_probe_set(examples, config.probe_examples, config.seed, choice).indices
    chosen = list(rows)
    labels = examples.train_y[chosen].astype(np.int64)
    remark = "" if state.data else UNKNOWN_DATA
    return OwnExamples(rows, examples.train_x[chosen], labels, count, remark)


def with_drawn_gates(network: GatedNetwork, state: NetworkState, own: OwnExamples) -> GatedNetwork:
    """Return the network for these examples: under FRG with the gates its run drew for them.

    Args:
        network: The saved network.
        state: What the file says about its run.
        own: The examples.

    Returns:
        The network itself in all other regimes.
    """
    if not network.drawn_gates:
        return network
    like: Tensor = network.value.weights[0]
    drawn = RandomGates(
        network.feature.architecture,
        own.of,
        state.config.gating.gate_probability,
        random_stream("gates", state.drawn_seed),
        like.device,
    )
    rows = torch.tensor(own.rows, device=like.device)
    return network.with_gates(drawn.gates_of_rows(rows, like.dtype))
