"""The layers of the feature network: a chain, or each straight from the input (theory §1)."""

from __future__ import annotations

from dgn_engine.errors import UserError, Where
from dgn_engine.model.architecture import Architecture, Dense, FromInput, Node
from dgn_engine.model.choices import FeatureLayers
from dgn_engine.model.tiling import tile_architecture


def parallel_features(architecture: Architecture) -> Architecture:
    """Feed every gated layer of a dense network with the network's input.

        q^f_l = W^f_l x + b_l

    The gates of a unit then open on one side of a hyperplane, a half-space of the inputs. The
    output layer of a feature network is never used; it stays as in the chain.

    Args:
        architecture: A chain of gated dense layers and an output layer.

    Returns:
        The feature network; the architecture itself if it has at most one gated layer.

    Raises:
        UserError: It has other nodes.

    References:
        DLGN-SF of Yadav, Ramaswamy & Lakshminarayanan 2024 (arXiv:2404.04312).
    """
    *hidden, output = architecture.nodes
    if not all(isinstance(node, Dense) for node in architecture.nodes):
        raise UserError(
            Where("gating.feature_layers")
            + " is 'parallel', which needs a chain of dense layers: a convolution or a residual "
            "block has no counterpart that reads the input; choose fc, or 'chain'.",
            kind="not-supported",
            value="parallel",
        )
    inputs = architecture.input_shape[0]
    nodes: list[Node] = []
    for node in hidden:
        assert isinstance(node, Dense)
        if not node.gated:
            raise UserError(
                Where("gating.feature_layers")
                + " is 'parallel', but a layer without gates would be lost; choose 'chain'.",
                kind="not-supported",
                value="parallel",
            )
        nodes += [FromInput()] * bool(nodes)
        nodes.append(Dense(inputs, node.outputs, factor=node.factor))
    return Architecture(architecture.input_shape, (*nodes, output))


def value_and_feature(
    architecture: Architecture, tiling: tuple[int, ...], feature_layers: FeatureLayers
) -> tuple[Architecture, Architecture]:
    """Build both networks of a configuration.

    Args:
        architecture: The network before tiling.
        tiling: Factor of the units of each value layer, or empty for none.
        feature_layers: 'chain' or 'parallel'.

    Returns:
        Value network and feature network.

    Raises:
        UserError: A setting does not fit the network.
    """
    wide = tile_architecture(architecture, tiling) if tiling else architecture
    if feature_layers == "parallel":
        return wide, parallel_features(architecture)
    return wide, architecture
