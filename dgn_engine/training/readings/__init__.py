"""Probe readings: when each is due, on how many examples, and where it is computed."""
