"""The list of recorded runs at the left of the window."""
