"""Gated networks: architectures, weights, gates and wiring; `adapt` converts an `nn.Module`."""
