"""The implementations of the `dgn` commands, imported after their options were checked."""
