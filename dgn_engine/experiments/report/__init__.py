"""Reproduce experiments: execute them, and write, draw and read their results."""
