"""A reproduced experiment: carried out, written down, drawn, and read again."""
