"""The two networks of [DUAL], and their replacement at quick scale."""

from __future__ import annotations

from dataclasses import dataclass

from dgn_engine.config import NetConfig, RunConfig
from dgn_engine.experiments import _accuracy_designs as designs
from dgn_engine.experiments._configurations import (
    data_of,
    data_substitution,
    dense_net_config,
    paper_config,
    with_gating,
    with_training,
)
from dgn_engine.experiments._experiment import Request

FC, CNN = "FC/MNIST", "CNN (4 conv x128, 3x3, stride 1, GAP, dense)/CIFAR-10"
DESIGNS = {FC: designs.FC, CNN: designs.CNN}
MARGIN = {FC: 1.0, CNN: 2.0}  # points that count as no difference: chosen here, not published
WIDTH, FC_EPOCHS, CNN_EPOCHS = 128, 60, 100
ALMOST_ALL = 0.999  # train accuracy: the paper trains 'to almost 100 % train accuracy'
ADDED = "FC on MNIST was added; the paper gives no number to compare with"
ADDED_ROW = (
    "the paper gives no accuracy for this; the rows of FC/MNIST, the dense network of its "
    "Experiment 1, were added: width 128 (not in the paper), trained to 99.9 % train accuracy or "
    f"for {FC_EPOCHS} epochs, as in duality-48"
)


@dataclass(frozen=True)
class DualNetwork:
    """A network on which to test a claim of [DUAL] that has no published number.

    Attributes:
        row: its label; '' for the replacement at quick scale.
        config: its configuration.
        design: row of [NPF] Table 2 that gives the spread for its claims.
        margin: percentage points that count as no difference.
        remark: remark on its claims.
    """

    row: str
    config: RunConfig
    design: str
    margin: float
    remark: str = ""

    def cell_name(self, name: str) -> str:
        """Return the name of a cell, with a prefix for the dense network at full scale."""
        return f"fc-{name}" if self.row == FC else name

    def prefix_label(self, words: str) -> str:
        return f"{self.row} {words}" if self.row else words

    def prefix_statistic(self, words: str) -> str:
        return f"{self.row}: {words}" if self.row else words


def dual_networks(request: Request, quick_epochs: int) -> list[DualNetwork]:
    """Return the networks whose label contains the request's `only`.

    At quick scale a single network replaces the CNN and has its margin.
    """
    chosen = _chosen_rows(request)
    if request.quick:
        config = dual_config(request, quick_epochs, CNN_EPOCHS)
        return [DualNetwork("", config, DESIGNS[CNN], MARGIN[CNN])] if chosen else []
    return [
        DualNetwork(FC, fc_on_mnist(request), DESIGNS[FC], MARGIN[FC], ADDED)
        if row == FC
        else DualNetwork(CNN, dual_config(request, 0, CNN_EPOCHS), DESIGNS[CNN], MARGIN[CNN])
        for row in chosen
    ]


def _chosen_rows(request: Request) -> list[str]:
    return [row for row in (FC, CNN) if request.only in row]


def fc_on_mnist(request: Request) -> RunConfig:
    """Return the dense network of [DUAL] Experiment 1 at full scale (β = 10)."""
    epochs = request.epochs or FC_EPOCHS
    config = paper_config(request, dense_net_config(WIDTH, 5), data_of(request, "mnist"), epochs)
    return until_learnt(request, with_gating(config, beta=10.0))


def until_learnt(request: Request, config: RunConfig) -> RunConfig:
    """Stop training at almost 100 % train accuracy, unless epochs were requested."""
    return config if request.epochs else with_training(config, until=ALMOST_ALL)


def dual_config(request: Request, quick_epochs: int, full_epochs: int) -> RunConfig:
    """Return the CNN of [DUAL] on CIFAR-10 (4 × 128 channels, β = 10).

    At quick scale it is a dense network with four gate layers of 64 units on the digits, trained
    with Adam 1e-3; see `dual_scaled_down`.
    """
    if request.quick:
        net, paper = dense_net_config(64, 5), "mnist"
    else:
        net, paper = NetConfig("cnn4", (("channels", WIDTH),)), "cifar10"
    epochs = request.epochs_or(quick_epochs, full_epochs)
    config = with_gating(paper_config(request, net, data_of(request, paper), epochs), beta=10.0)
    # with so few steps per epoch, 3e-4 would learn too slowly
    return with_training(config, learning_rate=1e-3) if request.quick else config


def dual_scaled_down(request: Request) -> tuple[str, ...]:
    """Return how the quick scale of `dual_config` differs from the network that it replaces.

    That is the CNN of [DUAL], or its dense network if only that one is requested.
    """
    if _chosen_rows(request) == [FC]:
        network = (*data_substitution(request, "MNIST"), f"64 units a layer instead of {WIDTH}")
    else:
        note = f"a dense network of 4 × 64 units instead of the CNN of 4 × {WIDTH} channels"
        network = (*data_substitution(request, "CIFAR-10"), note)
    return (*network, "Adam's learning rate is 1e-3 instead of 3e-4")
