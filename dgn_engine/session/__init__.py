"""A session with one run: commands in, events and frames out."""
