"""What the window knows: the state of the run, and what was seen of it."""
