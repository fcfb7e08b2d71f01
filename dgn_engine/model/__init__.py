"""Gated networks: architectures, weights, gates, wiring; `adapt` makes one of an `nn.Module`."""
