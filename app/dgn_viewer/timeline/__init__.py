"""History of a run: the step cursor shared by all panels, its time bar, and the frame reader."""
