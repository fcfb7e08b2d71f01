"""Attaches to a training loop that is not ours: `dgn_engine.watch`."""
