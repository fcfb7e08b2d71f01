"""The time of a run: one step cursor for all panels, its bar, and the reader of recorded frames."""
