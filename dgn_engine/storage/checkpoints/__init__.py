"""Untrusted checkpoints are read in a confined process; our own are written whole or not at all."""
