"""Watch a module in the user's own training loop: `dgn_engine.watch`."""
