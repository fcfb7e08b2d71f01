"""Reading from and writing to disk: checkpoints, run folders, session files."""
