"""Reproduces experiments: carries them out, writes, draws and reads their results."""
