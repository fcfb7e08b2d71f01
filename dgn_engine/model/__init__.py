"""Gated networks: architecture, weights, gates, regimes, and networks made of files."""
