"""Confines a process that parses untrusted bytes; imports nothing else of the engine."""
