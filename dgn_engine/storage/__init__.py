"""What is read from and written to disk: checkpoints, run folders, session files."""
