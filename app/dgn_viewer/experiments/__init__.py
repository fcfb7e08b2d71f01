"""Reproduction of the papers' experiments: runs `dgn` as a child process and shows its results."""
