"""A run under control: commands in, events and frames out."""
