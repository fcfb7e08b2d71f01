"""A network of a file that becomes a run: in which regimes, with what differs, from its weights."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from dgn_engine.config import OF_FILE, GatingConfig, NetConfig, RunConfig
from dgn_engine.errors import UserError
from dgn_engine.importing.fold_batchnorm import FOLDED
from dgn_engine.importing.from_file import ImportedNetwork
from dgn_engine.importing.saved_network import is_ours, state_of
from dgn_engine.regimes import only_regime
from dgn_engine.storage.checkpoints.contents import CheckpointContents
from dgn_engine.training.run import Run

COMPARED = 2  # examples whose logits say that the file is still the one that was opened


@dataclass(frozen=True)
class TrainingOffer:
    """The `regimes` in which a network can be trained on from its weights, and as which `net`.

    `remark`: what differs from the network of the file; where there is no regime, why not.
    """

    regimes: tuple[str, ...]
    remark: str
    net: NetConfig = field(default_factory=NetConfig)
    gating: GatingConfig = field(default_factory=GatingConfig)

    def config(self, shown: RunConfig, path: Path, regime: str) -> RunConfig:
        """That of the run; `shown`: of the network that is inspected, with its data.

        Raises `UserError` where it cannot be trained so.
        """
        if regime not in self.regimes:
            raise UserError(self.remark if not self.regimes else _not_so(regime, self.regimes))
        copies = regime == only_regime("for_copied_gates").name
        gates = str(path) if copies else ""
        return replace(
            shown,
            net=self.net,
            gating=replace(self.gating, regime=regime, gates_from=gates),
            training=replace(shown.training, weights_from=str(path), augmentation="none"),
        )


def offer_of(
    listing: CheckpointContents, path: Path, found: ImportedNetwork, logits: int
) -> TrainingOffer:
    """What a network of a file can be trained as, on data that want so many logits."""
    outputs, name = found.network.architecture.classes, listing.file_name
    if outputs != logits:
        return TrainingOffer(
            (), f"{name} has {outputs:,} output{'s' * (outputs > 1)}; these data need {logits:,}."
        )
    if listing.picked:
        return TrainingOffer((), "Its tensors were picked by hand, which a run does not repeat.")
    if is_ours(listing):
        return _of_ours(listing, found)
    biases = found.network.value.tensors()[1]
    biased = [bias is not None for bias in biases]
    said = listing.reading
    if said.net is not None and (said.batchnorm or said.norm_eps or said.ignored):
        return TrainingOffer(
            (), f"What you said of {name} is more than a run of {said.net.short} repeats."
        )
    net = said.net or NetConfig(f"{OF_FILE}{path}", said.to_options())
    remarks = []
    if any(FOLDED in remark for remark in found.remarks):
        remarks.append(
            "Its BatchNorm is folded into weights and biases, which train as such: no batch is "
            "normalised any more."
        )
    if any(biased) and not all(biased):
        remarks.append("Layers without a bias get one of zero, which trains.")
    regimes = (only_regime("standard").name, only_regime("for_copied_gates").name)
    return TrainingOffer(regimes, " ".join(remarks), replace(net, bias=any(biased)))


def check_unchanged(run: Run, network: torch.nn.Module, x: Tensor, name: str) -> None:
    """Raise `UserError` where the run's logits are not those of the inspected network on x
    (n, *shape): the file is another one now."""
    with torch.no_grad():
        wanted, found = network(x[:COMPARED]), run.trainer.network(x[:COMPARED])
    scale = float(wanted.abs().max()) + 1e-30
    if wanted.shape != found.shape or float((wanted - found).abs().max()) > 1e-3 * scale:
        raise UserError(f"{name} has changed on the disk since it was opened: open it again.")


def _of_ours(listing: CheckpointContents, found: ImportedNetwork) -> TrainingOffer:
    state, regime = state_of(listing), found.regime
    gating = replace(
        state.config.gating,
        beta=state.beta,
        epsilon=state.epsilon,
        value_input=state.value_input,
        wiring=state.wiring,
        rotation=state.rotation,
        shift=state.shift,
        pretrain_epochs=0,
    )
    copied = only_regime("for_copied_gates")
    if regime.own_gates:
        gating = replace(gating, wiring=(), rotation=(), shift=())
        also = (copied.name,) if regime.standard else ()
        return TrainingOffer((regime.name, *also), "", state.config.net, gating)
    if regime.name == copied.name and not gating.tiling:
        return TrainingOffer((regime.name,), "", state.config.net, gating)
    return TrainingOffer(
        (),
        f"Its gates are made by a second network ({regime.name}), which only its own run has: "
        "continue that (File, Open run…).",
    )


def _not_so(regime: str, regimes: tuple[str, ...]) -> str:
    return f"It can be trained on in {' or '.join(regimes)}, not in {regime}."
