"""The files of a run on disk."""
