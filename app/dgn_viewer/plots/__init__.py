"""Shows scenes live; the only package that imports pyqtgraph."""
