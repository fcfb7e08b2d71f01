"""Readings of probes: when each is due, of how many examples, and where it is made."""
